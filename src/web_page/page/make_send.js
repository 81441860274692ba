// Sends the videos of the form, one request for each, and stops well: where the queue is full, it says how many are in it
// and goes on with the others on a click. Every request has a name of its own, so that one that is sent twice, over a bad
// line or after a reload, makes one video.
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
    this.done = this.taken;
    this.stamp = stamp;
    this.stopped = false;
    let last = null;
    while (this.done < wishes.length && !this.stopped && this.form.draft.stamp === stamp) {
      told(this.done, wishes.length);
      last = await this.one(bodyOf(this.form, wishes[this.done]), `page-${stamp}-${this.done}`);
      ++this.done;
      this.sent(last);
    }
    return last;
  }

  /**
   * A line that breaks is tried again, since the name makes sure that nothing is made twice.
   * @param {FormData} body
   * @param {string} name
   * @returns {Promise<Video>}
   */
  async one(body, name) {
    for (let tries = 0; ; ++tries) {
      try {
        const video = await api('POST', addressOf(this.form), body, {headers: {'Idempotency-Key': name}});
        store.put(video);
        return video;
      } catch (fault) {
        if (!(fault instanceof ApiFault) || fault.status !== 0 || tries === 3) throw fault;
        await new Promise(resolve => window.setTimeout(resolve, 500 * 2 ** tries));
      }
    }
  }
}
