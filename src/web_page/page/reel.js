// Shows a video, or several one after the other as if they were one, and knows which frame is seen. Frame n of a
// video is looked up in the middle of the time for which it is shown, so that no rounding leads to its neighbour.
//
// Files of a usual size are fetched whole: steps are then immediate, a link cannot run out, and a video that is removed
// elsewhere while it plays can be seen to its end.
import {ApiFault, request, sentence, signedUrl} from './api.js';
import {el} from './dom.js';

/** @typedef {import('./store.js').Video} Video */
/**
 * A video from one frame to another, both included.
 * @typedef {{video: Video, first: number, last: number}} Part
 */
/** @typedef {{part: Part, offset: number, player: HTMLVideoElement, file: Blob | null, url: string}} Tape */

const kMostFetched = 64 << 20;  // bytes
const kMostSeek = 4000;         // ms that a jump may take before it counts as failed

/** @param {Video} video @returns {Part} */
export const wholeOf = video => ({video, first: 0, last: Math.max(0, (video.num_frames ?? 1) - 1)});

/** @param {unknown} error */
function faultOf(error) {
  if (error instanceof ApiFault && error.code === 'expired')
    return 'The file of this video is not kept any longer. Its settings are still here.';
  if (error instanceof ApiFault && error.code === 'not_found') return 'This video is gone: it was removed elsewhere.';
  return sentence(error);
}

/** Fires `frame`, `state` (begins, stops), and `fault` with a sentence as `detail`. */
export class Reel extends HTMLElement {
  constructor() {
    super();
    /** @type {Tape[]} */
    this.tapes = [];
    this.frames = 0;
    this.frame = 0;      // the one that is shown, or soon will be
    this.playing = false;
    this.loop = false;
    this.rate = 1;
    this.muted = false;
    this.wanted = -1;
    /** @type {Promise<void> | null} */
    this.seeking = null;
    this.stopping = new AbortController();
    this.fault = '';
  }

  disconnectedCallback() { this.clear(); }

  get fps() { return this.tapes[0]?.part.video.fps || 16; }
  /** The tape with the frame that is shown, or the first one. */
  get tape() { return this.tapeOf(this.frame); }
  /** The element that is seen. */
  get picture() { return this.tape?.player ?? null; }
  /** The one file behind it, or null. */
  get file() { return this.tapes.length === 1 ? this.tapes[0].file : null; }

  clear() {
    this.stopping.abort();
    this.stopping = new AbortController();
    for (const {player, url} of this.tapes) {
      player.pause();
      player.removeAttribute('src');
      player.load();
      if (url.startsWith('blob:')) URL.revokeObjectURL(url);
    }
    this.tapes = [], this.frames = 0, this.frame = 0, this.playing = false, this.wanted = -1, this.fault = '';
    this.replaceChildren();
  }

  /**
   * Fetches the parts and shows the first frame. Resolves to whether it is there; otherwise `fault` says why not.
   * @param {Part[]} parts
   */
  async load(parts) {
    this.clear();
    const {signal} = this.stopping;
    for (const part of parts) {
      const player =
          el('video', {playsinline: true, preload: 'auto', 'aria-label': part.video.prompt ?? 'joined video'});
      player.hidden = this.tapes.length > 0;
      player.muted = this.muted;
      this.tapes.push({part, offset: this.frames, player, file: null, url: ''});
      this.frames += part.last - part.first + 1;
      this.append(player);
    }
    try {
      await Promise.all(this.tapes.map(tape => this.fetchTape(tape, signal)));
    } catch (error) {
      if (signal.aborted) return false;
      this.frames = 0;
      this.fail(faultOf(error));
      return false;
    }
    if (signal.aborted) return false;
    await this.seek(0);
    return !signal.aborted && !this.fault;
  }

  /** @param {Tape} tape @param {AbortSignal} signal */
  async fetchTape(tape, signal) {
    const {id, bytes} = tape.part.video;
    if ((bytes ?? 0) <= kMostFetched) {
      const answer = await request('GET', `/v1/videos/${encodeURIComponent(id)}/content`, {signal});
      tape.file = await answer.blob();
      signal.throwIfAborted();
      tape.url = URL.createObjectURL(tape.file);
    } else {
      tape.url = await signedUrl(id);
    }
    const {player} = tape;
    player.addEventListener('ended', () => this.passEnd(tape));
    await new Promise((resolve, reject) => {
      player.addEventListener('loadeddata', resolve, {once: true});
      player.addEventListener('error',
          () => reject(new Error('this file cannot be played: it is damaged, or this browser does not know its kind')),
          {once: true});
      player.src = tape.url;
    });
    player.addEventListener('error', () => void this.recover(tape));
  }

  // A link has run out, or the file is gone: the server knows which.
  /** @param {Tape} tape */
  async recover(tape) {
    if (tape.url.startsWith('blob:') || !this.isConnected) return;
    const {frame} = this;
    try {
      const {id} = tape.part.video;
      await request('GET', `/v1/videos/${encodeURIComponent(id)}/content`, {headers: {Range: 'bytes=0-0'}});
      const url = await signedUrl(id);
      if (url === tape.url) return this.fail('The video stopped: its file cannot be read on.');
      tape.player.src = tape.url = url;
      await this.seek(frame);
    } catch (error) {
      this.fail(faultOf(error));
    }
  }

  /** @param {string} text */
  fail(text) {
    this.playing = false;
    this.fault = text;
    this.dispatchEvent(new CustomEvent('fault', {detail: text}));
  }

  /** @param {number} frame @returns {Tape | undefined} */
  tapeOf(frame) { return this.tapes.filter(tape => tape.offset <= frame).pop(); }

  /** Returns the video with the frame that is shown, and the frame's number in it. */
  place() {
    const {tape} = this;
    return tape ? {video: tape.part.video, frame: tape.part.first + this.frame - tape.offset} : null;
  }

  /** @param {number} frame */
  tell(frame) {
    if (frame === this.frame) return;
    this.frame = frame;
    this.dispatchEvent(new CustomEvent('frame'));
  }

  /**
   * Shows a frame. Of several that are asked for while one is looked up, the last one counts.
   * @param {number} frame
   */
  seek(frame) {
    this.wanted = Math.max(0, Math.min(this.frames - 1, Math.round(frame)));
    this.tell(this.wanted);
    this.seeking ??= this.seekOn().finally(() => { this.seeking = null; });
    return this.seeking;
  }

  async seekOn() {
    for (let done = -1; done !== this.wanted && this.frames && !this.fault;) {
      done = this.wanted;
      const tape = /** @type {Tape} */ (this.tapeOf(done));
      const {part, offset, player} = tape;
      await new Promise(resolve => {
        const timer = setTimeout(resolve, kMostSeek);
        player.addEventListener('seeked', () => { clearTimeout(timer); resolve(null); }, {once: true});
        player.currentTime = (part.first + done - offset + 0.5) / (part.video.fps || 16);
      });
      this.show(tape);
    }
  }

  /** @param {Tape} tape */
  show(tape) {
    for (const {player} of this.tapes) player.hidden = player !== tape.player;
  }

  async play() {
    if (this.playing || !this.tapes.length || this.fault) return;
    this.playing = true;
    this.dispatchEvent(new CustomEvent('state'));
    if (this.frame >= this.frames - 1) await this.seek(0);
    else await this.seeking;
    if (this.playing && this.tape) await this.run(this.tape);
  }

  /** @param {Tape} tape */
  async run(tape) {
    tape.player.playbackRate = this.rate;
    tape.player.muted = this.muted;
    this.count(tape);
    // Being stopped before it has begun is no fault.
    await tape.player.play().catch(() => {});
  }

  // Tells each frame that the browser shows.
  /** @param {Tape} tape */
  count(tape) {
    tape.player.requestVideoFrameCallback((_, {mediaTime}) => {
      if (!this.playing || this.tape !== tape) return;
      const {first, last, video} = tape.part;
      const local = Math.max(first, Math.min(last, Math.round(mediaTime * (video.fps || 16))));
      this.tell(tape.offset + local - first);
      if (local >= last) window.setTimeout(() => this.passEnd(tape), 1000 / (video.fps || 16) / this.rate);
      this.count(tape);
    });
  }

  /** @param {Tape} tape */
  async passEnd(tape) {
    if (!this.playing || this.tape !== tape) return;
    const next = this.tapes[this.tapes.indexOf(tape) + 1];
    tape.player.pause();
    const ends = !next && !this.loop;
    if (ends) this.pause();
    await this.seek(next ? next.offset : ends ? this.frames - 1 : 0);
    if (this.playing && this.tape) await this.run(this.tape);
  }

  pause() {
    const played = this.playing;
    this.playing = false;
    for (const {player} of this.tapes) player.pause();
    if (played) this.dispatchEvent(new CustomEvent('state'));
  }
}
customElements.define('video-reel', Reel);
