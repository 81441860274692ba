// Says beforehand what a video would take, by the plan of the server: memory, time, its place in the queue; and whether
// it fits at all, with the nearest that does. The sizes that are offered are asked for as well, so that those that the
// memory cannot hold are greyed before somebody chooses them.
import {ApiFault, api, sentence} from './api.js';
import {button, bytes, el, seconds} from './dom.js';
import {atField} from './make_form.js';
import {bodyOf, goesOn, missing, wishesOf} from './make_request.js';
import {masksOf} from './make_speakers.js';
import {store} from './store.js';

/** @typedef {import('./make_form.js').Form} Form */
/**
 * @typedef {{fits: boolean, reason: string | null, nearest: Record<string, any> | null, seconds: number,
 *   seconds_to_preview: number, queue_position: number, wait_seconds: number, gpu_bytes: number, host_bytes: number,
 *   warnings: string[], videos: Record<string, Record<string, number>>}} Plan
 */

const kPause = 350;             // ms without a change before the server is asked
const kSmallEnough = 100_000;   // bytes of a file that is sent for a plan as it is

/** @returns {Promise<Blob | null>} */
function smallPicture() {
  return new Promise(resolve => el('canvas', {width: 16, height: 16}).toBlob(resolve, 'image/png'));
}

export class PlanLine {
  /**
   * @param {Form} form
   * @param {import('./make_measures.js').SizeChoice} sizes
   * @param {() => void} changed
   */
  constructor(form, sizes, changed) {
    this.form = form;
    this.sizes = sizes;
    this.changed = changed;
    this.element = el('div', {id: 'plan', role: 'status', class: 'plan'});
    /** Why nothing can be sent as it stands; "" if it can. */
    this.refusal = '';
    this.timer = 0;
    this.stopper = new AbortController();
    /** @type {WeakMap<File, Blob>} what stands in for a file in plans */
    this.standIns = new WeakMap();
    /** @type {WeakMap<File, string>} what a video is, as an earlier plan has told */
    this.facts = new WeakMap();
    /** @type {Map<string, string>} */
    this.asked = new Map();  // why each size does not fit, by all that matters for it
    form.addEventListener('change', () => this.soon());
    form.addEventListener('load', () => this.soon());
    // When it would begin changes with the queue.
    let active = -1;
    this.unsubscribe = store.subscribe(() => {
      const now = store.waiting().length + store.running().length;
      if (now !== active && active >= 0 && !document.hidden) this.soon();
      active = now;
    });
  }

  soon() {
    window.clearTimeout(this.timer);
    this.stopper.abort();
    this.timer = window.setTimeout(() => void this.ask(), kPause);
  }

  close() {
    this.unsubscribe();
    window.clearTimeout(this.timer);
    this.stopper.abort();
  }

  // A plan needs to know that there is a picture, not which one, and how long a sound is, not what it says.
  /** @param {File} file @param {string} name */
  async standIn(file, name) {
    const known = this.standIns.get(file);
    if (known) return known;
    let small = /** @type {Blob} */ (file);
    if (file.size > kSmallEnough && name.startsWith('audio')) {
      const {secondsOf, toneOf} = await import('./wav.js'), length = await secondsOf(file);
      if (length !== null) small = toneOf(length);
    } else if (file.size > kSmallEnough) {
      small = await smallPicture() ?? file;
    }
    this.standIns.set(file, small);
    return small;
  }

  async body() {
    const wish = wishesOf(this.form)[0] ?? {prompt: 'a video', picture: this.form.file('input_reference'), count: 0};
    /** @type {Map<File, Blob>} */
    const small = new Map();
    for (const [name, files] of this.form.files)
      if (!name.endsWith('video'))
        for (const file of files) small.set(file, await this.standIn(file, name));
    if (wish.picture) small.set(wish.picture, await this.standIn(wish.picture, 'input_reference'));
    const body = bodyOf(this.form, wish, file => this.facts.get(file) ?? small.get(file) ?? file);
    for (const name of masksOf(this.form)) body.delete(name);  // they are of the photo's size, and change no plan
    if (goesOn(this.form)) {  // its last picture is known to the server alone
      body.delete('video[id]'), body.delete('from_frame');
      const picture = await smallPicture();
      if (picture) body.append('input_reference', picture, 'picture.png');
    }
    return body;
  }

  async ask() {
    const model = this.form.model;
    if (!model?.takes) return;
    const lack = missing(this.form);
    if (lack && lack[0] !== 'prompt')
      return this.show(
          el('p', {class: lack[0] === 'video' ? 'fault' : 'dim', text: lack[1]}), lack[0] === 'video' ? lack[1] : '');
    const stopper = this.stopper = new AbortController();
    const body = await this.body();
    if (stopper.signal.aborted) return;
    try {
      /** @type {Plan} */
      const plan = await api('POST', '/v1/videos/plan', body, {signal: stopper.signal});
      for (const [name, facts] of Object.entries(plan.videos)) {
        const file = this.form.file(name);
        if (file) this.facts.set(file, JSON.stringify(facts));
      }
      if (plan.fits) this.show(this.fitting(plan), '');
      else this.show(this.unfitting(plan.reason ?? '', plan.nearest), plan.reason ?? 'It does not fit.');
      await this.askSizes(stopper.signal);
    } catch (fault) {
      if (!(fault instanceof ApiFault)) return;  // a newer question has taken its place
      this.refused(fault);
    }
  }

  /** @param {ApiFault} fault */
  refused(fault) {
    if (fault.status === 0 || fault.status === 401)
      return this.show(el('p', {class: 'dim', text: sentence(fault)}), '');
    if (fault.nearest) return this.show(this.unfitting(fault.message, fault.nearest), fault.message);
    const said = fault.param !== 'prompt' && this.form.fault(fault.param, atField(fault));
    this.show(said ? el('p', {class: 'fault', text: 'One of the fields needs another value.'}) :
                     el('p', {class: 'fault', text: sentence(fault)}),
        fault.message);
  }

  /** @param {Node} content @param {string} refusal */
  show(content, refusal) {
    this.element.replaceChildren(content);
    this.refusal = refusal;
    this.changed();
  }

  /** @param {Plan} plan */
  fitting(plan) {
    const count = wishesOf(this.form).length;
    const memory = plan.gpu_bytes ? `${bytes(plan.gpu_bytes)} of GPU memory` : `${bytes(plan.host_bytes)} of memory`;
    const others = `${plan.queue_position} ${plan.queue_position === 1 ? 'other' : 'others'}`;
    const begin = plan.wait_seconds >= 1 ? `begins in about ${seconds(plan.wait_seconds)}, after ${others}` :
                                           'begins at once';
    return el('div', {},
        el('p', {}, el('strong', {text: `About ${seconds(plan.seconds)}${count > 1 ? ' each' : ''}`}),
            `, ${begin}; ${memory}.`),
        ...plan.warnings.map(text => el('p', {class: 'warning', text: text.replaceAll('`', '')})));
  }

  /** @param {string} reason @param {Record<string, any> | null} nearest */
  unfitting(reason, nearest) {
    const fields = Object.entries(nearest ?? {});
    const words = fields
                      .map(([name, value]) => name === 'size' ? String(value).replace('x', '×') :
                              name === 'num_frames'           ? `${value} frames` :
                                                                `${name} ${value}`)
                      .join(', ');
    const plain = sentence(new Error(reason.replace(/; the nearest that fits: .*$/, '')));
    return el(
        'div', {}, el('p', {class: 'fault', id: 'unfit', text: plain}), fields.length ? button(`Use ${words}`, () => {
          for (const [name, value] of fields) this.form.set(name, String(value));
        }, {class: 'nearest'}) : null);
  }

  /**
   * Asks for the offered sizes that are not known yet, one after the other.
   * @param {AbortSignal} signal
   */
  async askSizes(signal) {
    const chosen = this.form.get('size') || this.form.model?.defaults?.size;
    for (const size of this.sizes.sizes) {
      const key = JSON.stringify(
          [size, this.form.model?.id, this.form.get('num_frames'), this.form.get('level'), this.form.get('dtype')]);
      if (!this.asked.has(key) && size !== chosen) {
        const body = await this.body();
        body.set('size', size);
        if (signal.aborted) return;
        try {
          const plan = await api('POST', '/v1/videos/plan', body, {signal});
          this.asked.set(key, plan.fits ? '' : plan.reason ?? 'It does not fit.');
        } catch (fault) {
          if (!(fault instanceof ApiFault) || fault.code !== 'over_limit') return;
          this.asked.set(key, fault.message);
        }
      }
      if (signal.aborted) return;
      this.sizes.refuse(size,
          sentence(new Error((this.asked.get(key) ?? '').replace(/; the nearest that fits: .*$/, '')))
              .replace('Something went wrong.', ''));
    }
  }
}
