// Lays fields over the form, as the interface spells them: those of a preset, of another video, or of a dropped file.
import {request} from './api.js';
import {requestFields} from './make_advanced.js';
import {fieldsOf, settingsIn} from './mp4_settings.js';

/** @typedef {import('./make_form.js').Form} Form */
/** @typedef {import('./make_models.js').ModelChoice} ModelChoice */

/**
 * Returns the fields under the names that are documented, whatever their spelling. What /openapi.json does not know
 * stays.
 * @param {Record<string, any>} fields
 */
async function documented(fields) {
  const about = await requestFields();
  /** @type {Map<string, string>} */
  const names = new Map();
  for (const [name, schema] of Object.entries(about))
    for (const alias of /** @type {any} */ (schema)['x-aliases'] ?? []) names.set(alias, name);
  /** @type {Record<string, any>} */
  const out = {};
  for (const [name, value] of Object.entries({...fields, ...fields.extra_params})) out[names.get(name) ?? name] = value;
  delete out.extra_params;
  return out;
}

/**
 * Fetches the files that an earlier video was made with. One that is gone is left out, and the form says that it is
 * missing.
 * @param {Record<string, {path: string, file: string}> | undefined} inputs
 */
async function filesOf(inputs) {
  /** @type {Map<string, File>} */
  const files = new Map();
  for (const [name, {path, file}] of Object.entries(await documented(inputs ?? {}))) {
    try {
      const blob = await (await request('GET', path)).blob();
      files.set(name, new File([blob], file, {type: blob.type}));
    } catch {
      // The form asks for it.
    }
  }
  return files;
}

/** @param {any} value @returns {import('./make_form.js').Lora[]} */
const lorasIn = value =>
    (Array.isArray(value) ? value : [value]).map(one => typeof one === 'string' ? {name: one} : {...one});

/**
 * @param {Form} form
 * @param {ModelChoice} models
 * @param {Record<string, any>} given
 * @param {boolean} [pictured] whether the video began with a picture
 */
export async function applyFields(form, models, given, pictured = false) {
  const {model, loras, width, height, seconds, video, preset, _inputs: inputs, ...others} = await documented(given);
  const {values} = form.draft, files = await filesOf(inputs);
  for (const [name, file] of files) {
    const more = /^reference_\d$/.test(name);
    form.files.set(more ? 'reference' : name, more ? [...form.files.get('reference') ?? [], file] : [file]);
  }
  if (loras) form.draft.loras = lorasIn(loras);
  if (width && height) values.size = `${width}x${height}`;
  if (preset) values.preset = String(preset);
  if (video) values.video = typeof video === 'object' ? String(video.id) : String(video);
  for (const [name, value] of Object.entries(others)) {
    if (Array.isArray(value) && value.length) values[name] = JSON.stringify(value);
    else if (['string', 'number', 'boolean'].includes(typeof value)) values[name] = String(value);
  }
  if (values.prompt?.includes('\n')) form.draft.manyPrompts = false;
  if (given.seed !== undefined && given.seed !== null) form.draft.keepSeed = true;
  if (model)
    await models.take(String(model), pictured || video || files.has('input_reference') ? 'picture' : form.draft.mode);
  // Only now is it known how long a second of the model is.
  if (seconds && values.num_frames === undefined) {
    const {framesOf} = await import('./make_measures.js');
    values.num_frames = String(framesOf(
        Number(seconds), Number(values.fps) || form.model?.defaults?.fps || 16, form.model?.frame_multiple ?? 4));
  }
  form.loaded();
  form.changed('applied');
}

/**
 * Takes the settings out of a file that was dropped. Returns what is to be said of it; throws an Error with a message
 * for people.
 * @param {Form} form
 * @param {ModelChoice} models
 * @param {File} file
 */
export async function applyFile(form, models, file) {
  const settings = await settingsIn(file), about = await requestFields();
  const {fields, inputs, model} = fieldsOf(settings, about);
  const known = form.models.find(one => one.id === model);
  form.draft.values = {}, form.draft.loras = [], form.draft.parts = [];
  const pictured = inputs.includes('image');
  if (known) fields.model = known.id;
  await applyFields(form, models, fields, pictured);
  const said = [`The settings of ${file.name} are in the form.`];
  if (model && !known) said.push(`It was made by ${model}, which this server does not have under that name.`);
  const names = inputs.map(name => name.replaceAll('_', ' ')).join(', ');
  if (inputs.length)
    said.push(`Its files are not in it: choose ${inputs.length === 1 ? 'the' : 'them'} ${names} again.`);
  return said.join(' ');
}

/**
 * Fills the form with the settings in a file, and says so, with a way back.
 * @param {import('./make_view.js').MakeView} view
 * @param {File} file
 */
export async function restoreFrom(view, file) {
  const {form} = view, draft = structuredClone(form.draft), files = new Map(form.files);
  try {
    const said = await applyFile(form, view.models, file);
    const now = form.draft;
    form.draft = draft;
    view.offerUndo(said);
    form.draft = now, form.files = files;
  } catch (fault) {
    view.say(fault instanceof Error ? fault.message : String(fault), 'bad');
  }
}

/** @param {import('./make_view.js').MakeView} view */
export async function emptyForm(view) {
  const {form} = view;
  view.offerUndo('The form is empty.');
  const {mode, models} = form.draft, preset = await view.presets.ask().catch(() => null);
  form.take({mode, models});
  form.files = new Map();
  if (preset) await applyFields(form, view.models, preset);
  form.loaded(), form.changed('applied');
}
