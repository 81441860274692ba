// The list of all finished videos, the newest first. It is fetched page by page as somebody scrolls, stays while other
// views are shown, and follows what the store learns: new videos come in at the top, and removed ones go.
import {ApiFault, api} from './api.js';
import {store} from './store.js';

/** @typedef {import('./store.js').Video} Video */

const kPage = 40;

class Finished {
  constructor() {
    /** @type {Video[]} */
    this.videos = [];
    this.more = true;
    this.after = '';
    /** @type {Promise<void> | null} */
    this.asking = null;
    /** @type {Set<string>} Ids that are ticked, in the order in which they were. */
    this.ticked = new Set();
    this.scroll = 0;  // where the list was left
    this.key = '';
    /** @type {(added: Video[], gone: string[]) => void} */
    this.listener = () => {};
    store.subscribe(ids => void this.take(ids));
  }

  /**
   * Begins anew where somebody else looks now.
   * @param {string} key
   */
  look(key) {
    if (key === this.key) return;
    this.key = key;
    this.videos = [], this.more = true, this.after = '', this.scroll = 0;
    this.ticked.clear();
  }

  /** @param {string} id */
  find(id) { return this.videos.find(video => video.id === id) ?? store.videos.get(id); }

  /** Fetches the next page with finished videos on it. Throws ApiFault. */
  next() {
    this.asking ??= this.fetchNext().finally(() => { this.asking = null; });
    return this.asking;
  }

  async fetchNext() {
    for (let found = false; !found && this.more;) {
      let list;
      try {
        list = await api('GET', `/v1/videos?limit=${kPage}${this.after && `&after=${this.after}`}`);
      } catch (error) {
        if (!(error instanceof ApiFault && error.param === 'after' && this.after)) throw error;
        const last = this.videos[this.videos.length - 1]?.id ?? '';  // the video that ended the page was removed
        this.after = last === this.after ? '' : last;
        continue;
      }
      this.more = list.has_more, this.after = list.last_id ?? this.after;
      const fresh = list.data.filter((/** @type {Video} */ video) => video.status === 'completed' &&
              !this.videos.some(known => known.id === video.id));
      found = fresh.length > 0;
      this.videos.push(...fresh);
      if (found) this.listener(fresh, []);
    }
  }

  // A video that the store does not have any longer may be gone, or only too old for it.
  /** @param {Set<string>} ids */
  async take(ids) {
    if (!this.videos.length && this.more) return;  // nobody has looked yet
    /** @type {Video[]} */
    const added = [];
    /** @type {string[]} */
    const gone = [];
    for (const id of ids) {
      const now = store.videos.get(id), at = this.videos.findIndex(video => video.id === id);
      if (at >= 0 && now) this.videos[at] = now;
      else if (at >= 0 && await isGone(id)) gone.push(id);
      else if (at < 0 && now?.status === 'completed' && this.belongs(now)) added.push(now);
    }
    this.videos = this.videos.filter(video => !gone.includes(video.id));
    for (const id of gone) this.ticked.delete(id);
    for (const video of added) {
      const at = this.videos.findIndex(known => known.created_at <= video.created_at);
      this.videos.splice(at < 0 ? this.videos.length : at, 0, video);
    }
    if (added.length || gone.length) this.listener(added, gone);
  }

  // Those that come later on the list are fetched with their page.
  /** @param {Video} video */
  belongs(video) {
    const last = this.videos[this.videos.length - 1];
    return !this.more || !last || video.created_at > last.created_at;
  }

  /** @param {string} id */
  drop(id) {
    if (!this.videos.some(video => video.id === id)) return;
    this.videos = this.videos.filter(video => video.id !== id);
    this.ticked.delete(id);
    this.listener([], [id]);
  }
}

/** @param {string} id */
export async function isGone(id) {
  try {
    await api('GET', `/v1/videos/${encodeURIComponent(id)}`);
    return false;
  } catch (error) {
    return error instanceof ApiFault && error.code === 'not_found';
  }
}

export const finished = new Finished();
