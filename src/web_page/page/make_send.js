// Sends the videos of the form, one request for each, and stops well: where the queue is full, it says how many are
// in it and goes on with the others on a click. Every request has a name of its own, so that one that is sent twice,
// over a bad line or after a reload, makes one video.
import {ApiFault, api} from './api.js';
import {addressOf, bodyOf, wishesOf} from './make_request.js';
import {store} from './store.js';

/** @typedef {import('./store.js').Video} Video */

export class Sender {
  /**
   * @param {import('./make_form.js').Form} form
   * @param {(video: Video) => void} sent  called with each video that the server has taken
   */
  constructor(form, sent) {
    this.form = form;
    this.sent = sent;
    this.stopped = false;
    this.done = 0;   // videos of this draft that the server has taken
    /** @type {string[]} the ids of the parts of this draft's video that it has taken, the first one among them */
    this.parts = [];
    /** @type {Video | null} */
    this.last = null;
    this.stamp = '';  // the draft that they belong to
  }

  /** How many the server has already taken of the draft as it is now. */
  get taken() { return this.stamp === this.form.draft.stamp ? this.done : 0; }

  stop() { this.stopped = true; }

  /**
   * Sends those that are not in the queue yet. Throws ApiFault for the first that the server does not take.
   * @param {(done: number, all: number) => void} told
   * @returns {Promise<Video | null>} the last one
   */
  async send(told) {
    const wishes = wishesOf(this.form), {stamp} = this.form.draft;
    if (this.stamp !== stamp) this.done = 0, this.parts = [], this.last = null;
    this.stamp = stamp;
    this.stopped = false;
    while (this.done < wishes.length && !this.stopped && this.form.draft.stamp === stamp) {
      told(this.done, wishes.length);
      this.last =
          await this.one(addressOf(this.form), bodyOf(this.form, wishes[this.done]), `page-${stamp}-${this.done}`);
      ++this.done;
      this.sent(this.last);
    }
    return this.last;
  }

  /**
   * Sends the further parts of the video that was sent last, and the request that joins all of them. Each waits in the
   * queue until the part before it is there; parts that go on begin with its last picture, which is shown once.
   * @param {string[]} prompts
   * @param {boolean} goOn  whether a part begins with the last picture of the one before
   */
  async sendParts(prompts, goOn) {
    const first = /** @type {Video} */ (this.last), {values, loras} = this.form.draft, {stamp} = this;
    if (!this.parts.length) this.parts = [first.id];
    while (this.parts.length <= prompts.length) {
      const number = this.parts.length, body = new FormData();
      const fields = {
        ...values,
        model: first.model,
        ...(loras.length ? {loras: JSON.stringify(loras)} : {}),
        prompt: prompts[number - 1]
      };
      for (const [name, text] of Object.entries(fields)) body.append(name, text);
      if (goOn) body.append('video[id]', this.parts[number - 1]);
      const part =
          await this.one(goOn ? '/v1/videos/extensions' : '/v1/videos', body, `page-${stamp}-part-${number + 1}`);
      this.parts.push(part.id);
    }
    const videos = this.parts.map((id, at) => goOn && at ? {id, first_frame: 1} : id);
    this.sent(await this.one('/v1/videos/join', {videos}, `page-${stamp}-join`));
  }

  /**
   * A line that breaks is tried again, since the name makes sure that nothing is made twice.
   * @param {string} address
   * @param {FormData | Record<string, any>} body
   * @param {string} name
   * @returns {Promise<Video>}
   */
  async one(address, body, name) {
    for (let tries = 0; ; ++tries) {
      try {
        const video = await api('POST', address, body, {headers: {'Idempotency-Key': name}});
        store.put(video);
        return video;
      } catch (fault) {
        if (!(fault instanceof ApiFault) || fault.status !== 0 || tries === 3) throw fault;
        await new Promise(resolve => window.setTimeout(resolve, 500 * 2 ** tries));
      }
    }
  }
}
