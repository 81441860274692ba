// An end that does not jump. The server estimates anew with every step; shown is a time that counts down evenly and
// moves towards a new estimate in small parts, so that it stays honest without flickering.

const kPart = 0.35;        // of the difference that a new estimate moves what is shown
const kSlack = 0.08;       // a change below this share of what is left is noise
const kFarOff = 2;         // an estimate this many times what is left is taken over at once: something has happened

export class Eta {
  constructor() {
    /** @type {number | null} */
    this.end = null;  // in ms, as performance.now() has it
  }

  /**
   * Takes a new estimate of the seconds that are left; null where there is none.
   * @param {number | null | undefined} left
   * @param {number} [now]
   */
  update(left, now = performance.now()) {
    if (left === null || left === undefined) {
      this.end = null;
      return;
    }
    const target = now + left * 1000;
    if (this.end === null) {
      this.end = target;
      return;
    }
    const shown = Math.max(0, this.end - now), change = target - this.end;
    if (Math.abs(change) < Math.max(400, kSlack * shown)) return;
    const far = left * 1000 > kFarOff * shown + 5000 || shown > kFarOff * left * 1000 + 5000;
    this.end += far ? change : kPart * change;
  }

  /**
   * Returns the seconds that are left, never below zero; null where nobody knows.
   * @param {number} [now]
   * @returns {number | null}
   */
  left(now = performance.now()) {
    return this.end === null ? null : Math.max(0, (this.end - now) / 1000);
  }
}
