// From the form to requests: each video of it as a body for the interface. Several prompts and several pictures make a
// video for each pair, and each of them as often as was asked for.
import {masksOf} from './make_speakers.js';

/** @typedef {import('./make_form.js').Form} Form */
/** @typedef {{prompt: string, picture: File | undefined, count: number}} Wish */

/** Files that a mode sends. @type {Record<import('./make_form.js').Mode, string[]>} */
const kFilesOf = {text: [], picture: ['last_image'], talk: ['last_image', 'audio_reference', 'audio_reference_2']};

/**
 * Returns the videos and references that go with what is in the form.
 * @param {Form} form
 */
export const videosOf = form => form.draft.mode === 'talk' ? [] :
    ['video', 'control_video', 'mask_video', 'reference'].filter(name => form.file(name) &&
        (form.model?.takes?.[name] ?? 'no') !== 'no' && !(name === 'video' && goesOn(form)));


/** @param {Form} form */
export function promptsOf(form) {
  const text = form.get('prompt');
  return form.draft.manyPrompts ? text.split('\n').map(line => line.trim()).filter(line => line) :
                                  [text.trim()].filter(line => line);
}

/**
 * Returns the videos that the form asks for, in their order.
 * @param {Form} form
 * @returns {Wish[]}
 */
export function wishesOf(form) {
  const pictures = form.draft.mode === 'text' || goesOn(form) ? [] : form.files.get('input_reference') ?? [];
  /** @type {Wish[]} */
  const wishes = [];
  for (const prompt of promptsOf(form))
    for (const picture of pictures.length ? pictures : [undefined])
      for (let count = 0; count < form.draft.count; ++count) wishes.push({prompt, picture, count});
  return wishes;
}

/**
 * Says whether the video goes on where another one ends.
 * @param {Form} form
 */
export const goesOn = form => form.get('video') !== '';

/** @param {Form} form */
export const addressOf = form => goesOn(form) ? '/v1/videos/extensions' : '/v1/videos';

/**
 * Returns the body for one video. `files` replaces files by smaller ones of the same meaning.
 * @param {Form} form
 * @param {Wish} wish
 * @param {(file: File, name: string) => Blob | string} [files]
 */
export function bodyOf(form, wish, files = file => file) {
  const body = new FormData();
  body.append('prompt', wish.prompt);
  for (const [name, text] of Object.entries(form.draft.values)) {
    if (name === 'prompt' || (name === 'fps' && form.draft.mode === 'talk')) continue;
    if (name === 'strength' && !videosOf(form).includes('video')) continue;
    // Several videos of the same begin with seeds one after the other.
    const given =
        name === 'seed' && wish.count && /^[0-9]+$/.test(text) ? String(BigInt(text) + BigInt(wish.count)) : text;
    const list = (name === 'without' || name === 'speaker_boxes') && !text.startsWith('[');
    body.append(name === 'video' ? 'video[id]' : name, list ? JSON.stringify([text]) : given);
  }
  const model = form.model;
  if (model) body.append('model', model.id);
  if (form.draft.loras.length) body.append('loras', JSON.stringify(form.draft.loras));
  /** @param {string} name @param {File} file */
  const add = (name, file) => {
    const sent = files(file, name);
    if (typeof sent === 'string') body.append(name, sent);
    else body.append(name, sent, file.name);
  };
  if (wish.picture) add('input_reference', wish.picture);
  const masks = form.draft.mode === 'talk' ? masksOf(form) : [];
  for (const name of [...kFilesOf[form.draft.mode], ...masks]) {
    const file = form.file(name);
    if (file && (model?.takes?.[name] ?? 'optional') !== 'no') add(name, file);
  }
  for (const name of videosOf(form)) {
    const all = form.files.get(name) ?? [];
    for (const file of all) add(all.length > 1 ? `${name}[]` : name, file);
  }
  return body;
}

/**
 * Returns what is missing before anything can be sent: the field and a sentence.
 * @param {Form} form
 * @returns {[string, string] | null}
 */
export function missing(form) {
  const takes = form.model?.takes ?? {}, mode = form.draft.mode;
  if (goesOn(form) && takes.input_reference === 'no')
    return ['video', `${form.model?.id} begins with no picture, so it cannot go on from another video.`];
  if (!promptsOf(form).length) return ['prompt', 'Say what the video should show.'];
  if (mode !== 'text' && !form.files.get('input_reference') && !goesOn(form) &&
      (takes.input_reference === 'required' || mode === 'talk'))
    return [
      'input_reference', mode === 'talk' ? 'A photo of who talks is needed.' : 'A picture to begin with is needed.'
    ];
  if (mode === 'talk' && !form.file('audio_reference'))
    return ['audio_reference', 'The speech is needed: choose a sound, or record one.'];
  if (takes.last_image === 'required' && !form.file('last_image'))
    return ['last_image', 'This model goes from one picture to another and needs both.'];
  return null;
}
