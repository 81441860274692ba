// Changes a job that waits. The form knows which revision of the job it began with: if the job was changed in another
// tab meanwhile, both versions are shown and the visitor chooses. What was typed is kept until it is saved or given
// up, over a reload, a server that is away, and even the end of the job.
import {ApiFault, api, sentence} from './api.js';
import {draft, fieldsOf} from './actions.js';
import {look} from './asker.js';
import {button, el} from './dom.js';
import {store} from './store.js';

/** @typedef {import('./store.js').Video} Video */
/**
 * @typedef {{name: string, label: string, also: string[], kind: 'text' | 'whole' | 'number',
 *   of: (video: Video) => any}} Field
 */
/** @typedef {Record<string, string>} Values */

/** @type {Field[]} */
const kFields = [
  {name: 'prompt', label: 'Prompt', also: [], kind: 'text', of: video => video.prompt},
  {name: 'negative_prompt', label: 'What to avoid', also: [], kind: 'text', of: () => ''},
  {name: 'size', label: 'Size', also: [], kind: 'text', of: video => video.size},
  {name: 'num_frames', label: 'Frames', also: ['frames'], kind: 'whole', of: video => video.num_frames},
  {name: 'num_inference_steps', label: 'Steps', also: ['steps'], kind: 'whole', of: () => ''},
  {name: 'guidance_scale', label: 'Guidance', also: ['guidance'], kind: 'number', of: () => ''},
  {name: 'seed', label: 'Seed', also: [], kind: 'whole', of: video => video.seed},
];
const kKept = 'tachyscope-edit:';

/**
 * Returns a field as the job's maker spelt it.
 * @param {Field} field
 * @param {Record<string, any>} settings
 */
const spelling = (field, settings) => [field.name, ...field.also].find(name => name in settings) ?? field.name;

/**
 * @param {Video} video
 * @returns {Values}
 */
function valuesOf(video) {
  /** @type {Values} */
  const values = {};
  for (const field of kFields)
    values[field.name] = String(video.settings[spelling(field, video.settings)] ?? field.of(video) ?? '');
  return values;
}

/**
 * Returns the ids of the jobs that were being edited when the page was left.
 * @returns {string[]}
 */
export const keptEdits = () =>
    Object.keys(sessionStorage).filter(name => name.startsWith(kKept)).map(name => name.slice(kKept.length));

export class EditForm {
  /**
   * @param {Video} video
   * @param {() => void} closed
   */
  constructor(video, closed) {
    this.video = video;  // as it was when the form was opened, or last saved over
    this.closed = closed;
    this.before = valuesOf(video);
    /** @type {Map<string, HTMLInputElement | HTMLTextAreaElement>} */
    this.inputs = new Map();
    this.fault = el('div', {class: 'fault', role: 'alert'});
    this.save = el('button', {type: 'submit', class: 'primary', text: 'Save'});
    this.element = el('form', {
      class: 'edit',
      'aria-label': 'Change this job',
      onsubmit: (/** @type {Event} */ event) => {
        event.preventDefault();
        void this.send(this.video.revision);
      },
      oninput: () => this.keep()
    });
    for (const field of kFields) this.element.append(this.row(field));
    this.element.append(this.fault, el('div', {class: 'row ends'}, this.save, button('Give up', () => this.close())));
    this.restore();
  }

  /** @param {Field} field */
  row(field) {
    const id = `${field.name}-${this.video.id}`;
    const long = field.kind === 'text' && field.name !== 'size';
    const inputmode = field.kind === 'text' ? undefined : field.kind === 'whole' ? 'numeric' : 'decimal';
    const input = long ? el('textarea', {id, rows: field.name === 'prompt' ? 3 : 1}) :
                         el('input', {id, inputmode, placeholder: 'the model’s'});
    input.value = this.before[field.name];
    this.inputs.set(field.name, input);
    return el('div', {class: `field ${long ? 'long' : ''}`}, el('label', {for: id, text: field.label}), input,
        el('p', {class: 'fault', id: `${id}-fault`}));
  }

  focus() { this.inputs.get('prompt')?.focus(); }

  keep() {
    /** @type {Values} */
    const values = {};
    for (const [name, input] of this.inputs) values[name] = input.value;
    sessionStorage.setItem(kKept + this.video.id, JSON.stringify({values, video: this.video}));
  }

  restore() {
    const text = sessionStorage.getItem(kKept + this.video.id);
    if (!text) return;
    const {values, video} = JSON.parse(text);
    this.video = video, this.before = valuesOf(video);
    for (const [name, input] of this.inputs) input.value = values[name] ?? input.value;
  }

  /**
   * Makes a form again for a job that was edited before a reload.
   * @param {string} id
   * @param {() => void} closed
   * @returns {EditForm | null}
   */
  static kept(id, closed) {
    try {
      return new EditForm(JSON.parse(sessionStorage.getItem(kKept + id) ?? '').video, closed);
    } catch {
      sessionStorage.removeItem(kKept + id);
      return null;
    }
  }

  close() {
    sessionStorage.removeItem(kKept + this.video.id);
    this.element.remove();
    this.closed();
  }

  /** Returns what differs from the job as the visitor saw it, as the API spells it. */
  changes() {
    /** @type {Record<string, any>} */
    const changes = {};
    for (const field of kFields) {
      const text = (this.inputs.get(field.name)?.value ?? '').trim();
      if (text === this.before[field.name].trim()) continue;
      if (text === '' && field.kind !== 'text') continue;
      const number = Number(text);
      changes[spelling(field, this.video.settings)] = field.kind === 'text' || Number.isNaN(number) ? text : number;
    }
    return changes;
  }

  /** @param {string} revision the one over which the visitor wants to save */
  async send(revision) {
    const changes = this.changes();
    this.tell();
    if (!Object.keys(changes).length) {
      this.close();
      return;
    }
    this.save.disabled = true;
    try {
      const video =
          await api('PATCH', `/v1/videos/${this.video.id}`, changes, {headers: {'If-Match': `"${revision}"`}});
      this.close();
      store.put(video);
      store.notice('The job is changed.', 'good');
    } catch (error) {
      await this.refused(error);
    } finally {
      this.save.disabled = false;
    }
  }

  /**
   * Says why it was not saved; with the ways out, if there are some.
   * @param {...(Node | string)} parts
   */
  tell(...parts) {
    for (const [name, input] of this.inputs) {
      input.removeAttribute('aria-invalid');
      input.removeAttribute('aria-describedby');
      const line = input.parentElement?.querySelector('.fault');
      if (line) line.textContent = '';
    }
    this.fault.replaceChildren(...parts);
  }

  /** @param {unknown} error */
  async refused(error) {
    if (!(error instanceof ApiFault)) throw error;
    if (error.code === 'changed_meanwhile') return this.conflict();
    if (error.code === 'not_found')
      return this.late('This job was removed elsewhere. What you have typed is still here.');
    const now = error.status ? await look(this.video.id).catch(() => undefined) : undefined;
    if (now && now.status !== 'queued')
      return this.late('This job has begun and cannot be changed any more. What you have typed is still here.');
    if (!error.status)
      return this.tell(el(
          'p', {text: 'The server cannot be reached. What you have typed stays here; save it again when it is back.'}));
    const field = kFields.find(one => one.name === error.param || one.also.includes(error.param)),
          input = field && this.inputs.get(field.name);
    if (!input) return this.tell(el('p', {text: sentence(error)}));
    this.tell();
    const line = /** @type {HTMLElement} */ (input.parentElement?.querySelector('.fault'));
    line.textContent = sentence(error);
    input.setAttribute('aria-invalid', 'true');
    input.setAttribute('aria-describedby', line.id);
    input.focus();
  }

  /** @param {string} text */
  late(text) {
    this.tell(el('p', {text}), button('Make another one with this', () => {
      const fields = {...fieldsOf(this.video), ...this.changes()};
      this.close();
      draft(fields);
    }));
  }

  // Two have changed the job. Each field that somebody else has changed is shown as it is now.
  async conflict() {
    const now = await look(this.video.id).catch(() => undefined);
    if (!now) return this.late('This job was removed elsewhere. What you have typed is still here.');
    const theirs = valuesOf(now);
    const lines = kFields.filter(field => theirs[field.name] !== this.before[field.name])
      .map(field => el('li', {text: `${field.label} is now: ${theirs[field.name] || 'empty'}`}));
    this.tell(el('p', {text: 'This job was changed elsewhere while you were changing it. Nothing is lost:'}),
        el('ul', {}, ...lines),
        el('div', {class: 'row'}, button('Save mine over it', () => void this.send(now.revision)),
            button('Take theirs', () => {
              this.close();
              store.put(now);
            })));
  }
}
