// The settings of finished videos, side by side: those with which it was asked for, and, where the file is at hand, all
// that it holds, defaults included. Names are those of the API, so that what is read here can be asked for again.
import {bytes, el, seconds} from './dom.js';

/** @typedef {import('./store.js').Video} Video */

// In this order, before all others.
const kFirst = [
  'prompt', 'negative_prompt', 'model', 'level', 'seed', 'size', 'num_frames', 'fps', 'seconds', 'num_inference_steps',
  'guidance_scale'
];
// In the file, but no settings of a request, or said better by the video's own fields.
const kNoSettings = new Set(['output', 'tachyscope', 'model', 'width', 'height', 'join', 'videos']);

/** @param {unknown} value @returns {string} */
function textOf(value) {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(textOf).join(', ');
  if (typeof value !== 'object') return String(value);
  const object = /** @type {Record<string, unknown>} */ (value);
  if ('sha256' in object) return `${object.file ?? 'a file'} (${String(object.sha256).slice(0, 8)})`;
  return Object.entries(object).map(([name, one]) => `${name} ${textOf(one)}`).join(', ');
}

/**
 * Returns the settings of a video as texts.
 * @param {Video} video
 * @param {Record<string, unknown>} [inFile] what the file says
 * @returns {Map<string, string>}
 */
export function settingsOf(video, inFile = {}) {
  const given = {...video.settings};
  for (const [other, own] of [['steps', 'num_inference_steps'], ['guidance', 'guidance_scale']])
    if (other in given) given[own] = given[other], delete given[other];
  const facts = {
    prompt: video.prompt,
    model: video.model,
    seed: video.seed,
    size: video.size,
    num_frames: video.num_frames,
    fps: video.fps,
    seconds: video.seconds
  };
  /** @type {Map<string, string>} */
  const all = new Map();
  for (const [name, value] of Object.entries({...inFile, ...given, ...facts})) {
    const text = textOf(value);
    const isFile = `${name}_sha256` in inFile || (name.endsWith('_sha256') && name in inFile);
    if (!(kNoSettings.has(name) && !(name in facts)) && !isFile && (text || name === 'negative_prompt'))
      all.set(name, text);
  }
  return all;
}

/**
 * Returns all names in their order.
 * @param {Map<string, string>[]} columns
 */
function namesOf(columns) {
  const names = new Set(columns.flatMap(column => [...column.keys()]));
  return [...kFirst.filter(name => names.has(name)), ...[...names].filter(name => !kFirst.includes(name)).sort()];
}

/**
 * Returns a table of the settings of one video, or of several with their differences marked.
 * @param {Map<string, string>[]} columns
 * @param {string[]} [heads]
 */
export function settingsTable(columns, heads = []) {
  const body = el('tbody');
  for (const name of namesOf(columns)) {
    const texts = columns.map(column => column.get(name) ?? '');
    const differs = texts.some(text => text !== texts[0]);
    const label = el('th', {scope: 'row', text: name.replaceAll('_', ' '), title: name});
    if (differs) label.append(el('span', {class: 'mark', text: ' ≠'}), el('span', {class: 'unseen', text: ' differs'}));
    body.append(el('tr', {class: differs ? 'differs' : '', 'data-name': name}, label,
        ...texts.map(text => el('td', {text: text || '–'}))));
  }
  return el('table', {class: 'settings'},
      heads.length > 0 && el('thead', {}, el('tr', {}, el('td'), ...heads.map(text => el('th', {scope: 'col', text})))),
      body);
}

/**
 * Returns what is known of the making of a video, as [name, text].
 * @param {Video} video
 * @returns {[string, string][]}
 */
export function factsOf(video) {
  const time = (/** @type {number | null} */ at) => at ? new Date(at * 1000).toLocaleString() : '';
  const took = video.started_at && video.ended_at ? seconds(video.ended_at - video.started_at) : '';
  return /** @type {[string, string][]} */ ([
    ['made', time(video.completed_at)], ['took', took], ['file', bytes(video.bytes)],
    ['kept until', time(video.expires_at)]
  ]).filter(([, text]) => text);
}
