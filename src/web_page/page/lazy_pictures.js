// Fetches the thumbnails of cards that come near the screen, a few at a time and the newest wish first, so that fast
// scrolling through hundreds of videos asks only for what is looked at. A picture that is cut short shows nothing half:
// its place says that it is damaged.
import {ApiFault, request} from './api.js';
import {el} from './dom.js';

const kAtOnce = 2;  // the browser has six connections to a server, and streams may hold three
const kNear = '700px';
const kKept = 300;

/**
 * Pictures by their videos, those shown last at the end. They are shown again when a view is opened again: each address
 * made for a blob leaves a picture in the browser's memory, even when it was given back.
 * @type {Map<string, HTMLImageElement>}
 */
const kept = new Map();

/** @param {string} id @param {HTMLImageElement} picture */
function keep(id, picture) {
  kept.delete(id);
  kept.set(id, picture);
  if (kept.size > kKept) kept.delete(kept.keys().next().value ?? '');
}

export class LazyPictures {
  constructor() {
    /** @type {Map<Element, string>} */
    this.wanted = new Map();
    /** @type {Element[]} Those near the screen, the newest last. */
    this.near = [];
    /** @type {Map<Element, HTMLImageElement>} The places that have their pictures. */
    this.shown = new Map();
    this.busy = 0;
    this.stopping = new AbortController();
    this.observer = new IntersectionObserver(seen => {
      for (const {target, isIntersecting} of seen) {
        this.near = this.near.filter(place => place !== target);
        if (isIntersecting) this.near.push(target);
      }
      this.work();
    }, {rootMargin: kNear});
  }

  /**
   * Puts the video's thumbnail into this place when it comes near.
   * @param {Element} place
   * @param {string} id
   */
  watch(place, id) {
    const known = kept.get(id);
    if (known) {
      this.show(place, id, known);
      return;
    }
    this.wanted.set(place, id);
    this.observer.observe(place);
  }

  /** @param {Element} place @param {string} id @param {HTMLImageElement} picture */
  show(place, id, picture) {
    keep(id, picture);
    this.shown.set(place, picture);
    place.replaceChildren(picture);
  }

  // A picture that is kept leaves its place, which would be kept with it, and all that is around it.
  /** @param {Element} place */
  forget(place) {
    const picture = this.shown.get(place);
    if (picture?.parentNode === place) picture.remove();
    this.shown.delete(place);
    this.wanted.delete(place);
    this.near = this.near.filter(other => other !== place);
    this.observer.unobserve(place);
  }

  /**
   * Drops the pictures of all other videos.
   * @param {Set<string>} ids
   */
  keepOnly(ids) {
    for (const id of [...kept.keys()]) if (!ids.has(id)) kept.delete(id);
  }

  stop() {
    this.stopping.abort();
    this.observer.disconnect();
    for (const place of [...this.shown.keys()]) this.forget(place);
    this.wanted.clear();
    this.near = [];
  }

  work() {
    while (this.busy < kAtOnce && this.near.length) {
      const place = /** @type {Element} */ (this.near.pop());
      const id = this.wanted.get(place);
      if (!id) continue;
      this.forget(place);
      ++this.busy;
      void this.fill(place, id).finally(() => {
        --this.busy;
        this.work();
      });
    }
  }

  /** @param {Element} place @param {string} id */
  async fill(place, id) {
    try {
      const answer = await request(
          'GET', `/v1/videos/${encodeURIComponent(id)}/content?variant=thumbnail`, {signal: this.stopping.signal});
      const picture = await pictureOf(await answer.blob());
      if (this.stopping.signal.aborted) return;
      this.show(place, id, picture);
    } catch (error) {
      if (this.stopping.signal.aborted) return;
      place.replaceChildren(el('span', {class: 'dim', text: reasonOf(error)}));
      if (error instanceof ApiFault && error.status === 0 && place.isConnected)
        this.watch(place, id);  // when it comes by again
    }
  }
}

/** @param {unknown} error */
function reasonOf(error) {
  if (!(error instanceof ApiFault)) return 'The picture is damaged.';
  if (error.status === 0) return 'The server is away.';
  return error.code === 'expired' ? 'The file is not kept any longer.' :
      error.code === 'not_found'  ? 'This video was removed.' :
                                    'There is no picture.';
}

/**
 * Returns the picture. Throws if it is not whole: browsers show half a JPEG without a word.
 * @param {Blob} file
 */
async function pictureOf(file) {
  const end = new Uint8Array(await file.slice(-2).arrayBuffer());
  if (end[0] !== 0xff || end[1] !== 0xd9) throw new Error('cut short');
  const picture = el('img', {alt: '', decoding: 'async'});
  const url = URL.createObjectURL(file);
  try {
    picture.src = url;
    await picture.decode();
  } finally {
    URL.revokeObjectURL(url);
  }
  return picture;
}
