// Holds all that the page knows of the server's jobs, kept fresh while the page is open: the list is asked for every
// second while something goes on, and the jobs under way are followed by their event streams. Views read `videos` and
// `live` and subscribe to changes; what an answer of the API says goes in by `put`, so that a click shows at once.
//
// Only a page that is visible follows jobs, at most kMostStreams of them: those under way, and the one that comes next.
import {signals} from './api.js';
import {Asker, look} from './asker.js';
import {showNotice} from './dom.js';
import {Eta} from './eta.js';
import {follow} from './events.js';
import {Teller} from './teller.js';

/**
 * @typedef {{id: string, status: 'queued' | 'in_progress' | 'completed' | 'failed', progress: number, model: string,
 *   prompt: string | null, seconds: string, size: string, error: {code: string, message: string} | null, kind: string,
 *   paused: boolean, priority: number, created_at: number, started_at: number | null, ended_at: number | null,
 *   completed_at: number | null, expires_at: number | null, queue_position: number | null, eta_seconds: number | null,
 *   stage: string | null, seed: number | null, num_frames: number | null, fps: number | null, bytes: number | null,
 *   urls: Record<string, string | null>, settings: Record<string, any>, [more: string]: any}} Video
 * @typedef {{stage: string, done: number, total: number, previews: string[], eta: Eta,
 *   asked: '' | 'cancel' | 'keep' | 'pause'}} Live  `asked`: what the server was asked for and has not done yet
 * @typedef {{name: string, keys: boolean, priority: boolean, admin: boolean}} Me
 */

const kMostEnded = 150;     // are kept here; the gallery asks for older ones
const kMostStreams = navigator.locks ? 3 : 1;  // without locks the tabs cannot share (events.js)
const kMostPreviews = 100;  // as many as the server keeps

/** @param {Video} video */
export const hasEnded = video => video.status === 'completed' || video.status === 'failed';

class Store extends Teller {
  constructor() {
    super();
    /** @type {Map<string, Video>} All that have not ended, and the newest of those that have. */
    this.videos = new Map();
    /** @type {Map<string, number>} The places of those that have not ended, among one another. */
    this.order = new Map();
    this.more = false;  // whether more wait than are listed
    /** @type {Map<string, Live>} What the streams and estimates say of those that have not ended. */
    this.live = new Map();
    /** @type {Me | null} */
    this.me = null;
    this.online = true;
    this.loaded = false;  // whether the list has come once
    /** @type {Map<string, () => void>} */
    this.streams = new Map();
    /** @type {Map<string, Set<(event: import('./events.js').JobEvent) => void>>} */
    this.watchers = new Map();
    this.asker = new Asker(this);
    this.generation = 0;  // grows with each change made here: an answer that was asked for before is old
  }

  /** Begins to ask. Without it, nothing is fetched. */
  start() {
    signals.addEventListener('reached', () => this.setOnline(true));
    signals.addEventListener('unreachable', () => this.setOnline(false));
    document.addEventListener('visibilitychange', () => {
      this.followSome();
      if (!document.hidden) void this.refresh();
    });
    window.addEventListener('online', () => void this.refresh());
    void this.refresh();
  }

  /** Asks for the list now. Resolves when it has come, or could not be had. */
  refresh() { return this.asker.refresh(); }

  /**
   * Takes what the lists say.
   * @param {{data: Video[], has_more: boolean}} active
   * @param {Map<string, Video | null>} ended  those of which no list has told, and what was found of them; null: gone
   * @param {{data: Video[], has_more: boolean}} newest
   */
  take(active, ended, newest) {
    this.more = active.has_more;
    active.data.forEach((video, place) => this.order.set(video.id, place));
    for (const [id, video] of ended) {
      this.order.delete(id);
      if (video === null) this.forget(id);
    }
    const found = [...active.data, ...ended.values(), ...newest.data].filter(video => video !== null);
    for (const video of new Map(found.map(one => [/** @type {Video} */ (one).id, one])).values())
      this.keep(/** @type {Video} */ (video));
    this.forgetRemoved(newest);
    if (!this.loaded) this.loaded = true, this.tell();
    this.followSome();
  }

  // A video that was made later than the last of the newest, and is not among them, was removed. The oldest are left to
  // the gallery.
  /** @param {{data: Video[], has_more: boolean}} newest */
  forgetRemoved(newest) {
    const there = new Set(newest.data.map(video => video.id)),
          last = newest.has_more ? newest.data[newest.data.length - 1].created_at : -1;
    const ended = [...this.videos.values()].filter(hasEnded).sort((a, b) => (b.ended_at ?? 0) - (a.ended_at ?? 0));
    ended.forEach((video, i) => {
      if (i >= kMostEnded || (!there.has(video.id) && video.created_at > last)) this.forget(video.id);
    });
  }

  /** @param {Video} video */
  keep(video) {
    const before = this.videos.get(video.id);
    if (!before || JSON.stringify(before) !== JSON.stringify(video)) {
      this.videos.set(video.id, video);
      this.tell(video.id);
    }
    if (hasEnded(video)) {
      this.live.delete(video.id);
    } else {
      const live = this.liveOf(video.id);
      live.eta.update(video.eta_seconds);
      if (video.status === 'queued') live.asked = '';
    }
  }

  /** @param {string} id */
  forget(id) {
    this.streams.get(id)?.();
    this.streams.delete(id);
    this.live.delete(id);
    this.order.delete(id);
    if (this.videos.delete(id)) this.tell(id);
  }

  /**
   * Takes a video as an answer of the API has it.
   * @param {Video} video
   */
  put(video) {
    ++this.generation;
    this.keep(video);
    this.followSome();
    void this.refresh();
  }

  /**
   * Takes a video out that is gone.
   * @param {string} id
   */
  drop(id) {
    ++this.generation;
    this.forget(id);
    void this.refresh();
  }

  /**
   * @param {string} id
   * @returns {Live}
   */
  liveOf(id) {
    let live = this.live.get(id);
    if (!live) this.live.set(id, live = {stage: '', done: 0, total: 0, previews: [], eta: new Eta(), asked: ''});
    return live;
  }

  /** Returns the jobs that wait, in their order. */
  waiting() {
    const last = Number.MAX_SAFE_INTEGER;
    const place = (/** @type {Video} */ video) => video.queue_position ?? last;
    const listed = (/** @type {Video} */ video) => this.order.get(video.id) ?? last;
    return [...this.videos.values()].filter(video => video.status === 'queued')
      .sort((a, b) => place(a) - place(b) || listed(a) - listed(b) || a.created_at - b.created_at);
  }

  running() { return [...this.videos.values()].filter(video => video.status === 'in_progress'); }

  // Follows what goes on, and no more than that.
  followSome() {
    const next = this.waiting().filter(video => !video.paused).slice(0, 1);
    const wanted =
        document.hidden ? [] : [...this.watchers.keys(), ...[...this.running(), ...next].map(video => video.id)];
    const some = new Set([...new Set(wanted)].slice(0, kMostStreams));
    for (const [id, stop] of this.streams) if (!some.has(id)) stop(), this.streams.delete(id);
    for (const id of some)
      if (!this.streams.has(id)) this.streams.set(id, follow(id, event => this.takeEvent(id, event)));
  }

  /**
   * @param {string} id
   * @param {import('./events.js').JobEvent} event
   */
  takeEvent(id, {number, type, data}) {
    const video = this.videos.get(id);
    if (video && !hasEnded(video)) {
      const live = this.liveOf(id);
      if (type === 'progress') {
        live.stage = data.stage, live.done = data.done, live.total = data.total;
        live.eta.update(data.eta_seconds);
        const progress = Math.max(video.progress, data.progress ?? 0);
        if (video.status !== 'in_progress' || progress !== video.progress)
          this.videos.set(id, {...video, progress, status: 'in_progress', queue_position: null});
      }
      if (type === 'preview' && !live.previews.includes(data.url))
        live.previews.push(data.url), live.previews.splice(0, live.previews.length - kMostPreviews);
    }
    if (type === 'done' || type === 'failed') void this.lookAt(id);
    for (const watcher of this.watchers.get(id) ?? []) watcher({number, type, data});
    this.tell(id);
  }

  /** @param {string} id */
  async lookAt(id) {
    const video = await look(id).catch(() => undefined);
    if (video === null) this.drop(id);
    else if (video) this.put(video);
  }

  /**
   * Follows one job, whatever else is followed. The listener gets the events from now on; what came before is in
   * `live`.
   * @param {string} id
   * @param {(event: import('./events.js').JobEvent) => void} [listener]
   * @returns {() => void} ends it
   */
  watch(id, listener = () => {}) {
    const watchers = this.watchers.get(id) ?? new Set();
    watchers.add(listener);
    this.watchers.set(id, watchers);
    this.followSome();
    return () => {
      watchers.delete(listener);
      if (!watchers.size) this.watchers.delete(id);
      this.followSome();
    };
  }

  /** @param {boolean} online */
  setOnline(online) {
    if (online === this.online) return;
    this.online = online;
    this.tell();
    if (online) void this.refresh();
  }

  /**
   * Says something at the foot of the page, to readers as well. A fault stays until it is dismissed.
   * @param {string} text
   * @param {'good' | 'bad' | ''} [kind]
   */
  notice(text, kind = '') { showNotice(text, kind); }
}

export const store = new Store();
