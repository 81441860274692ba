// Tells those who have subscribed which videos have changed: what happens at once is told once, and soon after.
export class Teller {
  constructor() {
    /** @type {Set<(ids: Set<string>) => void>} */
    this.listeners = new Set();
    /** @type {Set<string>} */
    this.changed = new Set();
    this.telling = 0;
  }

  /**
   * Calls the listener with the ids of the videos that have changed or gone, soon after. The empty set stands
   * for everything else: whether the server is there, who the visitor is.
   * @param {(ids: Set<string>) => void} listener
   * @returns {() => void} ends it
   */
  subscribe(listener) {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** @param {...string} ids */
  tell(...ids) {
    for (const id of ids) this.changed.add(id);
    if (this.telling) return;
    this.telling = window.setTimeout(() => {
      const changed = this.changed;
      this.changed = new Set(), this.telling = 0;
      for (const listener of this.listeners) listener(changed);
    }, 0);
  }
}
