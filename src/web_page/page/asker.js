// Asks for the jobs again and again, for the store: those that have not ended each second while there are some, and the
// newest ones, since others make videos, too. A page that nobody looks at asks rarely.
import {ApiFault, lookUp} from './api.js';

/** @typedef {import('./store.js').Video} Video */

const kPage = 100;       // jobs in an answer
const kFew = 10;         // of the newest ones, where the whole page is not due
const kAll = 1000;       // the most active ones that are listed at all; every fifth time
const kNewest = 15000;   // ms between two whole pages of the newest
const kMostSingle = 10;  // jobs that have ended are asked for one by one
const kPause = {busy: 1000, idle: 3000, hidden: 15000};  // ms between two questions

/** @param {string} query */
const list = query => lookUp(`/v1/videos?${query}`);

/**
 * @param {string} id
 * @returns {Promise<Video | null>} null: it is gone
 */
export async function look(id) {
  try {
    return await lookUp(`/v1/videos/${encodeURIComponent(id)}`);
  } catch (error) {
    if (error instanceof ApiFault && error.code === 'not_found') return null;
    throw error;
  }
}

/** @param {Video} video */
const hasEnded = video => video.status === 'completed' || video.status === 'failed';

export class Asker {
  /** @param {typeof import('./store.js').store} store */
  constructor(store) {
    this.store = store;
    this.timer = 0;
    this.failures = 0;
    this.turn = 0;
    this.newestAt = -Infinity;
    this.held = false;  // while the visitor is asked for a key
    this.faster = 1;  // tests let the time between questions run faster
    /** @type {Promise<void> | null} */
    this.asking = null;
  }

  refresh() {
    window.clearTimeout(this.timer);
    if (this.held) return Promise.resolve();
    this.asking ??= this.askAgain().finally(() => {
      this.asking = null;
      const active = [...this.store.videos.values()].some(video => !hasEnded(video));
      const pause = document.hidden ? kPause.hidden : active ? kPause.busy : kPause.idle;
      const longer = this.failures ? Math.min(5000, 500 * 2 ** this.failures) : pause;
      window.clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.refresh(), longer / this.faster);
    });
    return this.asking;
  }

  // An answer that was asked for before something was changed here is old.
  async askAgain() {
    for (let tries = 0, before = -1; before !== this.store.generation && tries < 5; ++tries) {
      before = this.store.generation;
      await this.ask();
    }
  }

  async ask() {
    const generation = this.store.generation;
    try {
      const active = await list(`status=active&limit=${this.turn++ % 5 ? kPage : kAll}`);
      const gone = this.unlisted(active);
      const few = gone.slice(0, kMostSingle);
      const found = await Promise.all(few.map(look));
      const due = performance.now() - this.newestAt > kNewest / this.faster || gone.length > few.length;
      const newest = await list(`limit=${due ? kPage : kFew}`);
      this.failures = 0;
      if (generation !== this.store.generation) return;
      if (due) this.newestAt = performance.now();
      this.store.take(active, new Map(few.map((id, i) => [id, found[i]])), newest);
    } catch (error) {
      if (!(error instanceof ApiFault)) throw error;
      ++this.failures;
    }
  }

  /**
   * Returns the ids of jobs that have ended since the list before, or were removed.
   * @param {{data: Video[], has_more: boolean}} active
   */
  unlisted(active) {
    if (active.has_more) return [];  // they may be further down
    const there = new Set(active.data.map(video => video.id));
    return [...this.store.videos.values()]
        .filter(video => !hasEnded(video) && !there.has(video.id))
        .map(video => video.id);
  }
}
