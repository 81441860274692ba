// Asks the server. Everything that the page does goes through these functions to the same addresses under /v1 that
// programs use (/openapi.json), with the key that the visitor has given, if the server wants one.

const kKeyName = 'tachyscope-key';  // the page of a world has it under the same name

/** Says what the server refused, or that it could not be reached (status 0). */
export class ApiFault extends Error {
  /**
   * @param {number} status
   * @param {{message?: string, code?: string | null, param?: string | null, nearest?: Record<string, any>}} error
   * @param {number} [retryAfter] seconds
   */
  constructor(status, error, retryAfter = 0) {
    super(error.message || `the server answered ${status}`);
    this.status = status;
    this.code = error.code ?? '';
    this.param = error.param ?? '';
    this.nearest = error.nearest ?? null;
    this.retryAfter = retryAfter;
  }
}

/** Tells whoever shows it: `keyNeeded`, `reached` and `unreachable`. */
export const signals = new EventTarget();

// A key that the browser keeps is this tab's from its beginning on: the pages of worlds look there.
if (!sessionStorage.getItem(kKeyName) && localStorage.getItem(kKeyName))
  sessionStorage.setItem(kKeyName, localStorage.getItem(kKeyName) ?? '');

/** @returns {string} */
export const key = () => sessionStorage.getItem(kKeyName) ?? '';

/**
 * Keeps the key as long as this tab is open, or as long as the browser keeps it. "" forgets it.
 * @param {string} text
 * @param {boolean} [remember]
 */
export function setKey(text, remember = false) {
  sessionStorage.removeItem(kKeyName);
  localStorage.removeItem(kKeyName);
  links.clear();
  if (text) sessionStorage.setItem(kKeyName, text);
  if (text && remember) localStorage.setItem(kKeyName, text);
}

/** @returns {Record<string, string>} */
export const keyHeader = () => (key() ? {Authorization: `Bearer ${key()}`} : {});

/**
 * Sends a request and returns the answer once its header is there. Throws ApiFault unless the status says success.
 * @param {string} method
 * @param {string} path
 * @param {{body?: any, headers?: Record<string, string>, signal?: AbortSignal}} [options] a FormData or Blob is sent as
 *     it is, anything else as JSON
 * @returns {Promise<Response>}
 */
export async function request(method, path, options = {}) {
  const {body, headers = {}, signal} = options;
  const asIs = body === undefined || body instanceof FormData || body instanceof Blob;
  /** @type {RequestInit} */
  const init = {method, headers: {...keyHeader(), ...headers}, signal, body: asIs ? body : JSON.stringify(body)};
  if (!asIs) /** @type {Record<string, string>} */ (init.headers)['Content-Type'] = 'application/json';
  let answer;
  try {
    answer = await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    signals.dispatchEvent(new Event('unreachable'));
    throw new ApiFault(0, {code: 'unreachable', message: 'the server cannot be reached'});
  }
  signals.dispatchEvent(new Event('reached'));
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => null);
  if (answer.status === 401) signals.dispatchEvent(new Event('keyNeeded'));
  throw new ApiFault(answer.status, said?.error ?? {}, Number(answer.headers.get('Retry-After')) || 0);
}

/**
 * Sends a request and returns the JSON that comes back.
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {{headers?: Record<string, string>, signal?: AbortSignal}} [options]
 * @returns {Promise<any>}
 */
export async function api(method, path, body, options = {}) {
  const answer = await request(method, path, {body, ...options});
  try {
    return await answer.json();
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiFault(0, {code: 'unreachable', message: 'the server went away in the middle of its answer'});
  }
}

/**
 * The same for what should come soon: after some milliseconds the server counts as unreachable.
 * @param {string} path
 * @param {number} ms
 * @returns {Promise<any>}
 */
export async function lookUp(path, ms = 20000) {
  const ending = new AbortController(), timer = setTimeout(() => ending.abort(), ms);
  try {
    return await api('GET', path, undefined, {signal: ending.signal});
  } catch (error) {
    if (!ending.signal.aborted) throw error;
    signals.dispatchEvent(new Event('unreachable'));
    throw new ApiFault(0, {code: 'unreachable', message: 'the server does not answer'});
  } finally {
    clearTimeout(timer);
  }
}

/** @type {Map<string, {query: Promise<string>, until: number}>} */
const links = new Map();
const kMostLinks = 300;

/** @param {string} id */
async function linkQuery(id) {
  const link = new URL((await api('GET', `/v1/videos/${encodeURIComponent(id)}/link`)).url, location.href);
  return ['expires', 'signature']
      .map(name => `${name}=${encodeURIComponent(link.searchParams.get(name) ?? '')}`)
      .join('&');
}

/**
 * Returns an address of something of a video (`/v1/videos/ID/content…`, `…/previews/N`, `…/inputs/NAME`) for <img> and
 * <video>, which cannot send a key: the plain address where the visitor has no key, a signed one otherwise, which
 * counts for some minutes.
 * @param {string} id
 * @param {string} path
 * @returns {Promise<string>}
 */
export async function signedPath(id, path) {
  if (!key()) return path;
  const now = Date.now() / 1000;
  let known = links.get(id);
  if (!known || known.until < now) {
    known = {query: linkQuery(id), until: now + 8 * 60};  // the server's ten minutes, with room to load a video
    known.query.catch(() => links.delete(id));
    links.set(id, known);
    if (links.size > kMostLinks) links.delete(links.keys().next().value ?? '');
  }
  return `${path}${path.includes('?') ? '&' : '?'}${await known.query}`;
}

/**
 * The same for a video's file or one of its pictures.
 * @param {string} id
 * @param {'video' | 'thumbnail' | 'spritesheet'} [variant]
 */
export const signedUrl = (id, variant = 'video') =>
    signedPath(id, `/v1/videos/${encodeURIComponent(id)}/content?variant=${variant}`);

/**
 * Fetches a file with the key and returns an address of it within this page. The caller gives it back by
 * URL.revokeObjectURL.
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<string>}
 */
export async function blobUrl(path, signal) {
  const answer = await request('GET', path, {signal});
  return URL.createObjectURL(await answer.blob());
}

/**
 * Returns a fault as a sentence for the page.
 * @param {unknown} error
 * @returns {string}
 */
export function sentence(error) {
  const text = (error instanceof Error ? error.message : String(error)).replaceAll('`', '');
  return text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? '' : '.') : 'Something went wrong.';
}
