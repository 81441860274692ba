// Every other setting of the interface, as /openapi.json describes them: a control for each, with its help. They are
// fetched when somebody opens them, or when a video's settings are restored.
import {api} from './api.js';
import {el} from './dom.js';
import {field, kFileFields} from './make_form.js';

/**
 * @typedef {{type?: string | string[], enum?: (string | null)[], description?: string, minimum?: number,
 *   maximum?: number, exclusiveMinimum?: number, oneOf?: unknown[], items?: unknown}} Schema
 */

// Left out are fields that the form has in other places, that are no setting of a video, or that need a file.
const kElsewhere = new Set([
  ...kFileFields, 'prompt', 'negative_prompt', 'size', 'width', 'height', 'num_frames', 'seconds', 'fps', 'seed',
  'num_inference_steps', 'guidance_scale', 'loras', 'preset', 'model', 'extra_params',
  'strength', 'reference_2', 'reference_3', 'reference_4'
]);

/** @type {Promise<Record<string, Schema>> | null} */
let asked = null;

/**
 * The fields of a request.
 * @returns {Promise<Record<string, Schema>>}
 */
export function requestFields() {
  asked ??= api('GET', '/openapi.json').then(about => about.components.schemas.CreateVideo.properties).catch(fault => {
    asked = null;
    throw fault;
  });
  return asked;
}

/** @param {Schema} schema @param {string} type */
export const isOf = (schema, type) => (Array.isArray(schema.type) ? schema.type : [schema.type]).includes(type);

/** @param {Schema} schema */
function controlOf(schema) {
  const choices = schema.enum?.filter(choice => choice !== null);
  if (choices)
    return el('select', {}, el('option', {value: '', text: 'default'}),
        ...choices.map(choice => el('option', {value: choice, text: String(choice)})));
  if (isOf(schema, 'integer') || isOf(schema, 'number'))
    return el('input', {
      type: 'number',
      min: schema.minimum ?? schema.exclusiveMinimum,
      max: schema.maximum,
      step: isOf(schema, 'integer') ? 1 : 'any',
      placeholder: 'default'
    });
  return el('input', {placeholder: schema.items || schema.oneOf ? 'default; several with commas' : 'default'});
}

/** @param {import('./make_form.js').Form} form */
export class AdvancedFields {
  /** @param {import('./make_form.js').Form} form */
  constructor(form) {
    this.form = form;
    this.inside = el('div', {class: 'grid'});
    this.count = el('span', {class: 'count', hidden: true});
    this.search = el('input', {type: 'search', placeholder: 'Find a setting', 'aria-label': 'Find a setting'});
    this.search.addEventListener('input', () => this.filter());
    this.element = el('details', {class: 'advanced'}, el('summary', {}, 'Every other setting ', this.count),
        this.search, this.inside);
    this.element.addEventListener('toggle', () => { if (this.element.open) void this.fill(); });
    this.filled = false;
    form.addEventListener('load', () => this.show());
    form.addEventListener('change', () => this.show());
  }

  /** Says how many of them are set, so that none counts unseen. */
  show() {
    const set = Object.keys(this.form.draft.values)
                    .filter(name => !kElsewhere.has(name) && name !== 'from_frame')
                    .length;
    this.count.hidden = set === 0;
    this.count.textContent = String(set);
    this.count.title = `${set} of them are set`;
    if (set) void this.fill();
  }

  filter() {
    const wanted = this.search.value.trim().toLowerCase();
    for (const one of this.inside.children)
      if (one instanceof HTMLElement) one.hidden = !(one.textContent ?? '').toLowerCase().includes(wanted);
  }

  /** Makes the controls, once. */
  async fill() {
    if (this.filled) return;
    try {
      const fields = await requestFields();
      if (this.filled) return;
      this.filled = true;
      this.inside.replaceChildren(
          ...Object.entries(fields).filter(([name]) => !kElsewhere.has(name)).map(([name,
            schema]) => field(this.form, name, name.replaceAll('_', ' '), controlOf(schema), {
            help: (schema.description ?? '').replaceAll('`', '')
          })));
      this.filter();
    } catch {
      this.inside.replaceChildren(
          el('p', {class: 'fault', text: 'The server does not answer. Close this and open it again.'}));
    }
  }
}
