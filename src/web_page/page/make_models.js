// Chooses the model that makes the video, by the things that it can do: the tabs of the view are those things. A tab
// for which this server has no model is greyed, and says why.
import {api, sentence} from './api.js';
import {el} from './dom.js';
import {faultLine} from './make_form.js';

/** @typedef {import('./make_form.js').Form} Form */
/** @typedef {import('./make_form.js').Mode} Mode */
/** @typedef {import('./make_form.js').Model} Model */

/** @type {{mode: Mode, label: string, none: string}[]} */
export const kModes = [
  {mode: 'text', label: 'Text', none: 'No model of this server makes a video from text alone.'},
  {
    mode: 'picture',
    label: 'Picture',
    none: 'No model of this server begins with a picture. Wan2.1-I2V, Wan2.2-I2V-A14B and Wan2.2-TI2V-5B do.'
  },
  {
    mode: 'talk',
    label: 'Talking photo',
    none: 'No model of this server follows speech. InfiniteTalk with Wan2.1-I2V does.'
  },
];

/**
 * Says whether a model that is open can do this.
 * @param {Model} model
 * @param {Mode} mode
 */
export function can(model, mode) {
  const takes = model.takes;
  if (!takes) return false;
  if (mode === 'talk') return takes.audio_reference !== 'no';
  if (takes.audio_reference === 'required') return false;
  return mode === 'text' ? takes.input_reference !== 'required' : takes.input_reference !== 'no';
}

export class ModelChoice {
  /** @param {Form} form @param {(text: string, kind?: 'good' | 'bad') => void} say */
  constructor(form, say) {
    this.form = form;
    this.say = say;
    this.tabs = kModes.map(({mode, label}) => el('button', {
      type: 'button',
      role: 'tab',
      id: `tab-${mode}`,
      'aria-controls': 'make-panel',
      text: label,
      onclick: () => void this.choose(mode)
    }));
    this.reason = el('p', {class: 'help', id: 'tab-reason', role: 'status'});
    this.tablist =
        el('div', {role: 'tablist', 'aria-label': 'What the video is made from', class: 'tabs'}, ...this.tabs);
    this.tablist.addEventListener('keydown', event => this.pressed(event));
    this.select = el('select', {id: 'make-model'});
    this.select.addEventListener('change', () => void this.take(this.select.value));
    this.element = el('div', {class: 'field'}, el('label', {for: 'make-model', text: 'Model'
    }), this.select, faultLine(form, 'model', this.select));
    form.addEventListener('load', () => this.show());
  }

  /** Asks which models there are. */
  async ask() {
    /** @type {Model[]} */
    const models = (await api('GET', '/v1/models')).data;
    this.form.models =
        models.filter(model => model.kind === 'video').sort((a, b) => Number(b.default) - Number(a.default));
  }

  /**
   * Has the server open a model, so that it tells what it takes.
   * @param {Model} model
   */
  async open(model) {
    if (model.takes) return;
    try {
      Object.assign(model, await api('GET', `/v1/models/${encodeURIComponent(model.id)}?open=true`));
    } catch (fault) {
      model.fault = sentence(fault);
    }
  }

  /** Opens all, one after the other, to know which tabs there are. */
  async learn() {
    for (const model of this.form.models) await this.open(model);
    this.show();
  }

  /**
   * Returns the model for a mode: the one that was chosen for it, or the first that can do it.
   * @param {Mode} mode
   */
  async find(mode) {
    const wanted = this.form.draft.models[mode];
    const models = [...this.form.models].sort((a, b) => Number(b.id === wanted) - Number(a.id === wanted));
    for (const model of models) {
      await this.open(model);
      if (can(model, mode)) return model;
    }
    return null;
  }

  /**
   * Goes to a mode, if a model can do it.
   * @param {Mode} mode
   */
  async choose(mode) {
    const model = await this.find(mode);
    if (!model) {
      const faults = this.form.models.flatMap(one => one.fault ? [`${one.id}: ${one.fault}`] : []);
      this.reason.textContent = [kModes.find(one => one.mode === mode)?.none ?? '', ...faults].join(' ');
      return false;
    }
    this.reason.textContent = '';
    const {draft} = this.form, same = draft.mode === mode && draft.models[mode] === model.id;
    draft.mode = mode;
    draft.models[mode] = model.id;
    if (!same) this.form.changed('mode');
    this.form.loaded();
    return true;
  }

  /**
   * Takes a model by its name, and the mode that it can do.
   * @param {string} id
   * @param {Mode} [wished]
   */
  async take(id, wished = this.form.draft.mode) {
    const model = this.form.models.find(one => one.id === id);
    if (!model) return false;
    await this.open(model);
    const mode = can(model, wished) ? wished : kModes.find(one => can(model, one.mode))?.mode;
    if (!mode) {
      this.show();
      this.form.fault('model', model.fault ?? `${id} makes no videos here.`);
      return false;
    }
    this.form.draft.models[mode] = id;
    return this.choose(mode);
  }

  show() {
    const {mode} = this.form.draft, chosen = this.form.model;
    this.select.replaceChildren(...this.form.models.map(
        model => el('option', {value: model.id, text: model.makes ? `${model.id} (${model.makes})` : model.id})));
    if (chosen) this.select.value = chosen.id;
    const known = this.form.models.every(model => model.takes || model.fault);
    for (const [index, tab] of this.tabs.entries()) {
      const {mode: own, none} = kModes[index], off = known && !this.form.models.some(model => can(model, own));
      tab.setAttribute('aria-selected', String(own === mode));
      tab.tabIndex = own === mode ? 0 : -1;
      tab.setAttribute('aria-disabled', String(off));
      tab.title = off ? none : '';
    }
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const at = this.tabs.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.tabs.length - 1}[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const tab = this.tabs[(to + this.tabs.length) % this.tabs.length];
    tab.focus();
    void this.choose(kModes[this.tabs.indexOf(tab)].mode);
  }
}
