// Does to a video all that can be done to it, for all views: each function asks the server, lets the store know, and
// says in place what went wrong. None of them throws; they resolve to the video, or to null where nothing was done.
import {ApiFault, api, sentence} from './api.js';
import {ask, button, el} from './dom.js';
import {store} from './store.js';

/** @typedef {import('./store.js').Video} Video */

/** @param {string} id */
const address = id => `/v1/videos/${encodeURIComponent(id)}`;

/**
 * @param {string} id
 * @param {unknown} error
 * @returns {null}
 */
function tell(id, error) {
  if (error instanceof ApiFault && error.code === 'not_found') {
    store.drop(id);
    store.notice('This video is gone: it was removed elsewhere.', 'bad');
  } else if (error instanceof ApiFault && error.status === 429) {
    store.notice(
        `${sentence(error)} ${error.retryAfter ? `There may be room in ${error.retryAfter} s.` : ''}`.trim(), 'bad');
  } else {
    store.notice(sentence(error), 'bad');
  }
  void store.refresh();
  return null;
}

/**
 * @param {string} id
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @returns {Promise<Video | null>}
 */
async function change(id, method, path, body) {
  try {
    const video = await api(method, path, body);
    store.put(video);
    return video;
  } catch (error) {
    return tell(id, error);
  }
}

// A job under way takes a moment to obey; meanwhile its card says what it was asked for.
/**
 * @param {string} id
 * @param {'cancel' | 'keep' | 'pause'} what
 * @param {string} path
 */
async function stop(id, what, path) {
  store.liveOf(id).asked = what;
  store.tell(id);
  const video = await change(id, 'POST', `${address(id)}/${path}`);
  if (!video) {
    const live = store.live.get(id);
    if (live) live.asked = '';
    store.tell(id);
  }
  return video;
}

/**
 * Stops a video.
 * @param {string} id
 */
export const cancel = id => stop(id, 'cancel', 'cancel');
/**
 * Stops a video and keeps the frames that are there.
 * @param {string} id
 */
export const keep = id => stop(id, 'keep', 'cancel?keep=true');
/** @param {string} id */
export const pause = id => stop(id, 'pause', 'pause');
/** @param {string} id */
export const resume = id => change(id, 'POST', `${address(id)}/continue`);

/**
 * Gives a queued video the place in front of another one; "" is the end.
 * @param {string} id
 * @param {string} before
 */
export const move = (id, before) => change(id, 'PATCH', address(id), {before});

/**
 * Removes a video with its files, once the visitor has said yes.
 * @param {Video} video
 * @returns {Promise<boolean>} whether it is gone
 */
export async function remove(video) {
  const what = video.status === 'completed' ? 'the video and its file' :
      video.status === 'in_progress'        ? 'the video that is being made' :
                                              'this entry';
  const answer = await ask('Remove it?',
      close => [el('p', {text: `“${(video.prompt ?? 'joined videos').slice(0, 120)}”`, class: 'quote'}),
          el('p', {text: `This removes ${what} for good.`}),
          el('div', {class: 'row end'}, button('No', () => close(''), {autofocus: true}),
              button('Remove', () => close('yes'), {class: 'danger'})),
  ]);
  if (answer !== 'yes') return false;
  try {
    await api('DELETE', address(video.id));
  } catch (error) {
    tell(video.id, error);
    return error instanceof ApiFault && error.code === 'not_found';
  }
  store.drop(video.id);
  return true;
}

/**
 * Opens the view that makes videos with these fields, as the API spells them.
 * @param {Record<string, any>} fields
 */
export function draft(fields) {
  sessionStorage.setItem('draft', JSON.stringify(fields));
  if (location.hash === '#/make') window.dispatchEvent(new HashChangeEvent('hashchange'));
  else location.hash = '#/make';
}

/**
 * Returns the fields by which a video was asked for, with the seed that it got. Files are left out.
 * @param {Video} video
 * @returns {Record<string, any>}
 */
export function fieldsOf(video) {
  /** @type {Record<string, any>} */
  const fields = {model: video.model};
  for (const [name, value] of Object.entries(video.settings))
    if (!(value && typeof value === 'object' && 'sha256' in value)) fields[name] = value;
  if (!('seed' in fields) && video.seed !== null) fields.seed = video.seed;
  return fields;
}

/**
 * Copies the settings of a video into the form. Its files go along as addresses, `_inputs`, that the form fetches.
 * @param {Video} video
 */
export function copyToMake(video) {
  /** @type {Record<string, {path: string, file: string}>} */
  const inputs = {};
  for (const [name, value] of Object.entries(video.settings))
    if (value?.sha256)
      inputs[name] = {path: `${address(video.id)}/inputs/${encodeURIComponent(name)}`, file: value.file};
  draft({...fieldsOf(video), ...(Object.keys(inputs).length ? {_inputs: inputs} : {})});
}

/**
 * Opens the form for a video that goes on where this one ends.
 * @param {Video} video
 * @param {Record<string, any>} [more] fields that say from where
 */
export function extend(video, more = {}) {
  const {seed, strength, keep, outpaint, ...fields} = fieldsOf(video);  // the last ones are about a video that it was given
  draft({...fields, ...more, video: {id: video.id}});
}

/**
 * Makes one video of several.
 * @param {(string | Record<string, any>)[]} videos
 * @returns {Promise<Video | null>}
 */
export async function join(videos) {
  try {
    const video = await api('POST', '/v1/videos/join', {videos});
    store.put(video);
    store.notice('The joined video is in the queue.', 'good');
    return video;
  } catch (error) {
    return tell('', error);
  }
}
