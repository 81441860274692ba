// The state of the form: its fields under the names of the interface, the files, and where a fault of a field is shown.
// Every part of the view reads and writes it here, and hears of it by the events `change` (somebody typed) and `load`
// (everything is new).
import {sentence} from './api.js';
import {el} from './dom.js';

/** @typedef {'text' | 'picture' | 'talk'} Mode */
/** @typedef {{name: string, strength?: number, expert?: string}} Lora */
/**
 * @typedef {{id: string, defaults: Record<string, any> | null, takes: Record<string, string> | null,
 *   makes: string | null, experts: number | null, size_multiple: number | null, frame_multiple: number | null,
 *   kind: string, default: boolean, fault?: string}} Model
 * @typedef {{mode: Mode, models: Partial<Record<Mode, string>>, values: Record<string, string>, loras: Lora[],
 *   parts: string[], keepSeed: boolean, manyPrompts: boolean, count: number, stamp: string,
 *   files: Record<string, string[]>}} Draft
 */

export const kFileFields = [
  'input_reference', 'last_image', 'audio_reference', 'audio_reference_2', 'speaker_mask', 'speaker_mask_2', 'video',
  'control_video', 'mask_video', 'reference'
];

/** @returns {Draft} */
const emptyDraft = () => ({
  mode: 'text',
  models: {},
  values: {},
  loras: [],
  parts: [],
  keepSeed: false,
  manyPrompts: false,
  count: 1,
  stamp: freshStamp(),
  files: {},
});

/** A name for what is sent once: the same request sent again under it makes no second video. */
export const freshStamp = () =>
    Array.from(crypto.getRandomValues(new Uint32Array(3)), word => word.toString(36)).join('');

export class Form extends EventTarget {
  /** @type {Draft} */
  draft = emptyDraft();
  /** @type {Map<string, File[]>} */
  files = new Map();
  /** @type {Model[]} */
  models = [];
  /** @type {Map<string, (message: string) => void>} */
  places = new Map();

  /** The model that is chosen for the mode, if it is known. */
  get model() { return this.models.find(model => model.id === this.draft.models[this.draft.mode]); }

  /** @param {string} name */
  get(name) { return this.draft.values[name] ?? ''; }

  /**
   * A text of "" leaves the field to the model.
   * @param {string} name
   * @param {string} text
   */
  set(name, text) {
    if (this.get(name) === text) return;
    if (text === '') delete this.draft.values[name];
    else this.draft.values[name] = text;
    this.changed(name);
  }

  /** @param {string} name */
  file(name) { return this.files.get(name)?.[0]; }

  /** @param {string} name @param {File[]} files */
  setFiles(name, files) {
    if (files.length) this.files.set(name, files);
    else this.files.delete(name);
    this.changed(name);
  }

  /**
   * Tells everybody that something was changed by the visitor.
   * @param {string} name
   */
  changed(name) {
    this.draft.stamp = freshStamp();
    this.draft.files = Object.fromEntries([...this.files].map(([each, files]) => [each, files.map(file => file.name)]));
    this.places.get(name)?.('');
    this.dispatchEvent(new CustomEvent('change', {detail: name}));
  }

  /** Tells everybody that all may be new. */
  loaded() {
    this.clearFaults();
    this.dispatchEvent(new Event('load'));
  }

  /** @param {Partial<Draft>} draft */
  take(draft) { this.draft = {...emptyDraft(), ...draft}; }

  /**
   * Shows a message at its field. Returns false if no part of the form has the field.
   * @param {string} name
   * @param {string} message
   */
  fault(name, message) {
    // The video that this one goes on from is no file.
    const place = this.places.get(name === 'video' && this.get(name) ? 'extended' : name) ??
        (name === 'num_frames' || name === 'fps' ? this.places.get('seconds') : undefined);
    place?.(message);
    return place !== undefined;
  }

  clearFaults() { for (const place of this.places.values()) place(''); }
}

/**
 * Returns what a fault says, for its own field, whose name stands there already.
 * @param {unknown} fault
 */
export function atField(fault) {
  const text = fault instanceof Error ? fault.message : String(fault);
  return sentence(new Error(text.replace(/^`[^`]*`: /, '')));
}

/**
 * Returns the element in which a field's faults are said, and says where it is.
 * @param {Form} form
 * @param {string} name
 * @param {HTMLElement} [control]
 */
export function faultLine(form, name, control) {
  const line = el('p', {class: 'fault', id: `fault-${name}`, role: 'alert', hidden: true});
  form.places.set(name, message => {
    line.textContent = message;
    line.hidden = message === '';
    if (message) control?.setAttribute('aria-invalid', 'true');
    else control?.removeAttribute('aria-invalid');
    if (message) /** @type {HTMLElement | null} */ (line.closest('.field'))?.removeAttribute('hidden');
    for (let box = message ? line.closest('details') : null; box; box = box.parentElement?.closest('details') ?? null)
      box.open = true;
  });
  return line;
}

/**
 * Makes a labelled control of a field, bound to the form. `more` may say a help, a class and what stands beside it.
 * @param {Form} form
 * @param {string} name
 * @param {string} label
 * @param {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} control
 * @param {{help?: string, class?: string, beside?: Node[]}} [more]
 */
export function field(form, name, label, control, more = {}) {
  const {help = '', class: kind = '', beside = []} = more;
  control.id = `make-${name}`;
  control.setAttribute('name', name);
  const note = help ? el('p', {class: 'help', id: `help-${name}`, text: help}) : null;
  const fault = faultLine(form, name, control);
  control.setAttribute('aria-describedby', `${note ? `${note.id} ` : ''}${fault.id}`);
  const show = () => { if (control.value !== form.get(name)) control.value = form.get(name); };
  control.addEventListener('input', () => form.set(name, control.value));
  form.addEventListener('load', show);
  form.addEventListener('change', event => { if (/** @type {CustomEvent} */ (event).detail === name) show(); });
  show();
  const row = beside.length ? el('div', {class: 'beside'}, control, ...beside) : control;
  return el('div', {class: `field ${kind}`.trim()}, el('label', {for: control.id, text: label}), row, note, fault);
}
