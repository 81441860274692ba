// Size and length. A model takes only some of them: sides that are multiples of a number, and 4n + 1 frames. So a
// length in seconds becomes the nearest number of frames that there can be, and what it becomes is said beside it.
import {el, setText} from './dom.js';
import {faultLine, field} from './make_form.js';

/** @typedef {import('./make_form.js').Form} Form */

/**
 * Returns the frames that the interface makes of a length.
 * @param {number} seconds
 * @param {number} fps
 * @param {number} multiple
 */
export const framesOf = (seconds, fps, multiple) => multiple * Math.max(0, Math.round(seconds * fps / multiple)) + 1;

/** @param {number} value @param {number} multiple */
const toMultiple = (value, multiple) => Math.max(multiple, Math.round(value / multiple) * multiple);

/**
 * Says whether two sizes differ so little that nobody needs both.
 * @param {string} one
 * @param {string} other
 */
function alike(one, other) {
  const [width, height] = one.split('x').map(Number), [otherWidth, otherHeight] = other.split('x').map(Number);
  return Math.abs(width / otherWidth - 1) < 0.05 && Math.abs(height / otherHeight - 1) < 0.05;
}

/**
 * Returns the sizes that are offered for a model, the one that it was made for first.
 * @param {string} size
 * @param {number} multiple
 */
export function offeredSizes(size, multiple) {
  const [width, height] = size.split('x').map(Number);
  /** @param {number} w @param {number} h */
  const near = (w, h) => `${toMultiple(w, multiple)}x${toMultiple(h, multiple)}`;
  const side = Math.sqrt(width * height);
  /** @type {string[]} */
  const sizes = [];
  for (const [w, h] of [[width, height], [height, width], [side, side], [side * 4 / 3, side * 3 / 4],
           [width / 2, height / 2], [width * 1.5, height * 1.5], [width * 2, height * 2]])
    if (!sizes.some(size => alike(size, near(w, h)))) sizes.push(near(w, h));
  return sizes;
}

/**
 * The sizes as a row of choices, and any other by two numbers.
 * @param {Form} form
 */
export class SizeChoice {
  /** @param {Form} form */
  constructor(form) {
    this.form = form;
    this.list = el('div', {class: 'chips', role: 'radiogroup', 'aria-label': 'Size'});
    this.width = el('input', {type: 'number', min: 1, max: 16384, 'aria-label': 'Width in pixels'});
    this.height = el('input', {type: 'number', min: 1, max: 16384, 'aria-label': 'Height in pixels'});
    const typed = () =>
        form.set('size', this.width.value && this.height.value ? `${this.width.value}x${this.height.value}` : '');
    for (const side of [this.width, this.height]) side.addEventListener('change', typed);
    this.element = el('div', {class: 'field wide'}, el('span', {class: 'label', text: 'Size'}), this.list,
        el('div', {class: 'beside sides'}, this.width, el('span', {text: '×'}), this.height,
            el('span', {class: 'help', text: 'pixels'})),
        faultLine(form, 'size', this.list));
    form.addEventListener('change', event => {
      if (/** @type {CustomEvent} */ (event).detail === 'size') this.show();
    });
    form.addEventListener('load', () => this.show());
    /** @type {Map<string, string>} why a size is greyed */
    this.refused = new Map();
  }

  get sizes() {
    const model = this.form.model;
    return model?.defaults?.size ? offeredSizes(model.defaults.size, model.size_multiple ?? 16) : [];
  }

  show() {
    const own = this.form.model?.defaults?.size ?? '', chosen = this.form.get('size') || own;
    const focused = /** @type {HTMLInputElement | null} */ (this.list.querySelector('input:focus'))?.value;
    this.list.replaceChildren(...this.sizes.map(size => this.chip(size, size === chosen, size === own)));
    if (focused) /** @type {HTMLElement | null} */ (this.list.querySelector(`input[value="${focused}"]`))?.focus();
    [this.width.value, this.height.value] = chosen.includes('x') ? chosen.split('x') : ['', ''];
    for (const side of [this.width, this.height]) side.step = String(this.form.model?.size_multiple ?? 1);
  }

  /** @param {string} size @param {boolean} chosen @param {boolean} own */
  chip(size, chosen, own) {
    const why = this.refused.get(size) ?? '';
    const choice = el('input', {type: 'radio', name: 'size-choice', value: size, disabled: why !== '' && !chosen});
    choice.checked = chosen;
    choice.addEventListener('change', () => this.form.set('size', own ? '' : size));
    return el('label',
        {class: `chip${why ? ' refused' : ''}`, title: why || (own ? 'The size that the model was made for' : '')},
        choice, el('span', {text: size.replace('x', '×')}),
        why ? el('span', {class: 'unseen', text: `, not possible: ${why}`}) : null);
  }

  /** @param {string} size @param {string} why */
  refuse(size, why) {
    if ((this.refused.get(size) ?? '') === why) return;
    if (why) this.refused.set(size, why);
    else this.refused.delete(size);
    this.show();
  }
}

/**
 * Seconds, frames and frames per second, each changing the others.
 * @param {Form} form
 */
export function lengthFields(form) {
  const seconds = el('input', {type: 'number', min: 0, step: 'any', inputmode: 'decimal'});
  const frames = el('input', {type: 'number', min: 1, max: 65536});
  const fps = el('input', {type: 'number', min: 0.1, max: 240, step: 'any', inputmode: 'decimal'});
  const note = el('p', {class: 'help', id: 'length-note'});
  let wanted = NaN;  // the seconds that somebody typed, as long as they count

  const rate = () => (talks() ? 0 : Number(form.get('fps'))) || form.model?.defaults?.fps || 16;
  const multiple = () => form.model?.frame_multiple ?? 4;
  const talks = () => form.draft.mode === 'talk';
  const show = () => {
    const own = form.model?.defaults?.num_frames ?? 0, count = Number(form.get('num_frames')) || (talks() ? 0 : own);
    if (document.activeElement !== seconds)
      seconds.value = form.get('num_frames') ? String(Number((count / rate()).toFixed(2))) : '';
    seconds.placeholder = talks() ? 'all' : own ? String(Number((own / rate()).toFixed(2))) : '';
    frames.placeholder = talks() ? '' : String(own || '');
    frames.step = talks() ? '1' : String(multiple());
    fps.disabled = talks();  // talking photos are made at 25 alone
    fps.placeholder = String(form.model?.defaults?.fps ?? '');
    setText(note, count ? `${count} frames at ${rate()} a second are ${(count / rate()).toFixed(2)} s.` +
        (talks() ? ' It ends earlier where the speech does.' : '') : talks() ? 'As long as the speech.' : '');
  };
  const fromSeconds = () => {
    wanted = Number(seconds.value);
    form.set('num_frames', seconds.value === '' || !(wanted > 0) ? '' : String(framesOf(wanted, rate(), multiple())));
  };
  seconds.addEventListener('input', fromSeconds);
  seconds.addEventListener('blur', show);
  const element = el('div', {class: 'row'}, bare(seconds, 'Seconds', 'make-seconds'),
      field(form, 'num_frames', 'Frames', frames), field(form, 'fps', 'Frames/s', fps), note);
  form.places.set('seconds', message => form.places.get('num_frames')?.(message));
  frames.addEventListener('input', () => { wanted = NaN; });
  // A new rate keeps the seconds that were asked for.
  fps.addEventListener('input', () => {
    if (wanted > 0 && form.get('num_frames')) form.set('num_frames', String(framesOf(wanted, rate(), multiple())));
  });
  form.addEventListener('change', show);
  form.addEventListener('load', () => { wanted = NaN, show(); });
  show();
  return element;
}

/**
 * A labelled control that is no field of its own.
 * @param {HTMLInputElement} control
 * @param {string} label
 * @param {string} id
 */
function bare(control, label, id) {
  control.id = id;
  control.setAttribute('aria-describedby', 'length-note');
  return el('div', {class: 'field'}, el('label', {for: id, text: label}), control);
}
