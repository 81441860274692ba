// Presets: settings under a name, kept by the server. The one named "default" is laid under every new draft. Those that
// ship are for distilled models, and the server fills them in itself.
import {api, sentence} from './api.js';
import {button, el} from './dom.js';
import {isOf, requestFields} from './make_advanced.js';
import {faultLine} from './make_form.js';

/** @typedef {{id: string, fields: Record<string, any>, about: string, built_in: boolean}} Preset */

const kDefault = 'default';

export class PresetBar {
  /**
   * @param {import('./make_form.js').Form} form
   * @param {(fields: Record<string, any>) => Promise<void>} apply
   * @param {(text: string, kind?: 'good' | 'bad') => void} say
   */
  constructor(form, apply, say) {
    this.form = form;
    this.apply = apply;
    this.say = say;
    /** @type {Preset[]} */
    this.presets = [];
    this.select = el('select', {id: 'make-preset', 'aria-label': 'Preset'});
    this.select.addEventListener('change', () => void this.choose(this.select.value));
    this.name = el('input', {placeholder: 'a name', maxlength: 64, 'aria-label': 'Name of a preset to save'});
    this.element = el('div', {class: 'field wide'},
        el('label',
            {for: 'make-preset', text: 'Preset'
            }),
        el('div', {class: 'beside'}, this.select, this.name,
            button('Save', () => void this.save(this.name.value.trim())),
            button('Save as default', () => void this.save(kDefault),
                {title: 'Every new draft begins with these settings'}),
            this.remover = button('Delete', () => void this.remove(), {class: 'danger', hidden: true})),
        faultLine(form, 'preset', this.select));
    form.addEventListener('load', () => this.show());
  }

  /** Asks the server which there are, and returns the fields of the one named default. */
  async ask() {
    this.presets = (await api('GET', '/v1/presets')).data;
    this.show();
    return this.presets.find(preset => preset.id === kDefault && !preset.built_in)?.fields ?? null;
  }

  /** @param {string} [chosen] */
  show(chosen = this.form.get('preset')) {
    /** @param {boolean} shipped */
    const options = shipped => this.presets.filter(preset => preset.built_in === shipped).map(preset =>
        el('option', {value: preset.id, text: preset.id, title: preset.about || undefined}));
    const own = options(false), shipped = options(true);
    this.select.replaceChildren(el('option', {value: '', text: 'none'}),
        ...(own.length ? [el('optgroup', {label: 'saved'}, ...own)] : []),
        ...(shipped.length ? [el('optgroup', {label: 'for distilled models'}, ...shipped)] : []));
    this.select.value = chosen;
    if (this.select.selectedIndex < 0) this.select.value = '';
    this.remover.hidden = !this.presets.some(preset => preset.id === this.select.value && !preset.built_in);
  }

  /** @param {string} name */
  async choose(name) {
    const preset = this.presets.find(one => one.id === name);
    this.form.set('preset', preset?.built_in ? name : '');
    if (preset && !preset.built_in) await this.apply(preset.fields);
    this.show(name);
  }

  /** Returns what the form says as fields with their types, without prompt and files. */
  async fields() {
    const about = await requestFields();
    /** @type {Record<string, any>} */
    const fields = {};
    for (const [name, text] of Object.entries(this.form.draft.values)) {
      const schema = about[name];
      if (!schema || name === 'prompt' || name === 'preset' || (name === 'seed' && !this.form.draft.keepSeed)) continue;
      if (isOf(schema, 'integer') || isOf(schema, 'number')) fields[name] = Number(text);
      else fields[name] = schema.items ? text.split(',').map(one => one.trim()) : text;
    }
    if (this.form.draft.loras.length) fields.loras = this.form.draft.loras;
    if (this.form.model) fields.model = this.form.model.id;
    return fields;
  }

  /** @param {string} name */
  async save(name) {
    this.form.fault('preset', '');
    if (!name || name.includes('/')) {
      this.form.fault('preset', name ? 'The name of a preset has no slash.' : 'A preset needs a name.');
      return this.name.focus();
    }
    try {
      await api('PUT', `/v1/presets/${encodeURIComponent(name)}`, await this.fields());
      this.presets = (await api('GET', '/v1/presets')).data;
      this.name.value = '';
      this.show(name);
      this.say(name === kDefault ? 'Every new draft begins with these settings.' : `Saved as ${name}.`, 'good');
    } catch (fault) {
      this.form.fault('preset', sentence(fault));
    }
  }

  async remove() {
    const name = this.select.value;
    try {
      await api('DELETE', `/v1/presets/${encodeURIComponent(name)}`);
      await this.ask();
      this.say(`The preset ${name} is gone.`);
    } catch (fault) {
      this.form.fault('preset', sentence(fault));
    }
  }
}
