// An end that does not jump. The server estimates anew with every step. Shown is an end between the newest estimates
// that moves slowly where much is left, and the page counts down to it: a single wild estimate changes next to
// nothing, and one that lasts is shown within a tenth of the time that is left.

const kEstimates = 5;    // the middle one of the newest counts
const kShare = 0.15;     // of the time that is left: how slowly the end moves
const kLeast = 1500;     // ms, the same for short times
const kLasting = 3;      // estimates that are all this many times off are no noise: something has happened
const kFarOff = 2;

export class Eta {
  constructor() {
    /** @type {number | null} */
    this.end = null;  // in ms, as performance.now() has it
    /** @type {number[]} */
    this.ends = [];  // the newest estimates
    this.last = 0;
  }

  /**
   * Takes a new estimate of the seconds that are left; null where there is none.
   * @param {number | null | undefined} left
   * @param {number} [now]
   */
  update(left, now = performance.now()) {
    if (left === null || left === undefined) {
      this.end = null, this.ends = [];
      return;
    }
    this.ends.push(now + left * 1000);
    this.ends.splice(0, this.ends.length - kEstimates);
    const middle = [...this.ends].sort((a, b) => a - b)[Math.floor(this.ends.length / 2)];
    if (this.end === null || this.farOff(now)) {
      this.end = this.ends[this.ends.length - 1];
      this.last = now;
      return;
    }
    const slow = Math.max(kLeast, kShare * (middle - now));
    this.end += (middle - this.end) * (1 - Math.exp(-(now - this.last) / slow));
    this.last = now;
  }

  /**
   * Says whether the newest estimates are all far from what is shown.
   * @param {number} now
   */
  farOff(now) {
    const shown = Math.max(1000, (this.end ?? 0) - now),
          newest = this.ends.slice(-kLasting).map(end => Math.max(1000, end - now));
    return newest.length === kLasting &&
        (newest.every(left => left > kFarOff * shown) || newest.every(left => left * kFarOff < shown));
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
