// Videos of several parts, each with a prompt of its own. Where the model can begin with a picture, each part goes on
// from the last picture of the one before, so it is asked for when that is ready; otherwise all parts are asked for at
// once and follow one another by cuts. When all are ready they are joined. A chain is kept in the browser, and goes on
// while a page of this server is open; of several, one does the work.
import {ApiFault, api, sentence} from './api.js';
import {store} from './store.js';

/** @typedef {{id: string, prompts: string[], fields: Record<string, string>, goesOn: boolean, ids: string[]}} Chain */

const kName = 'tachyscope-chains';
const kPause = 700;  // ms between two looks
const kMostChains = 100;

/** @returns {Chain[]} */
export function keptChains() {
  try {
    const chains = JSON.parse(localStorage.getItem(kName) ?? '[]');
    return Array.isArray(chains) ? chains : [];
  } catch {
    return [];
  }
}

/** @param {Chain[]} chains */
const keep = chains => localStorage.setItem(kName, JSON.stringify(chains.slice(-kMostChains)));

/** @param {string} id */
const remove = id => keep(keptChains().filter(chain => chain.id !== id));

/**
 * Keeps a chain whose first part is in the queue, and works on it.
 * @param {Chain} chain
 */
export function beginChain(chain) {
  keep([...keptChains(), chain]);
  startChains();
}

let started = false;
/** Works on the chains that there are, unless another page does. */
export function startChains() {
  if (started) return;
  started = true;
  const work = async () => {
    while (keptChains().length) {
      for (const chain of keptChains()) await step(chain);
      await new Promise(resolve => window.setTimeout(resolve, kPause));
    }
  };
  // Pages that are neither of this machine nor over https have no locks. There two pages may ask for the same part, which
  // the part's name makes one.
  const done = navigator.locks ? navigator.locks.request(kName, work) : work();
  void done.finally(() => { started = false; });
}

/** @param {Chain} chain @param {number} part @returns {Promise<import('./store.js').Video>} */
async function askFor(chain, part) {
  const body = new FormData();
  for (const [name, text] of Object.entries({...chain.fields, prompt: chain.prompts[part]})) body.append(name, text);
  if (chain.goesOn) body.append('video[id]', chain.ids[part - 1]);
  const video = await api('POST', chain.goesOn ? '/v1/videos/extensions' : '/v1/videos', body, {headers: {'Idempotency-Key': `chain-${chain.id}-${part}`}});
  store.put(video);
  return video;
}

/**
 * Does what can be done for a chain now.
 * @param {Chain} chain
 */
async function step(chain) {
  try {
    const videos = [];
    for (const id of chain.ids) videos.push(await api('GET', `/v1/videos/${id}`));
    const failed = videos.findIndex(video => video.status === 'failed');
    if (failed >= 0) return end(chain, `Part ${failed + 1} of “${chain.prompts[0]}” was not made, so its parts are not joined.`, 'bad');
    const ready = videos.every(video => video.status === 'completed');
    if (chain.ids.length < chain.prompts.length) {
      if (chain.goesOn && !ready) return;
      chain.ids.push((await askFor(chain, chain.ids.length)).id);
      return keep(keptChains().map(other => other.id === chain.id ? chain : other));
    }
    if (!ready) return;
    store.put(await api('POST', '/v1/videos/join', {videos: chain.ids}, {headers: {'Idempotency-Key': `chain-${chain.id}-join`}}));
    end(chain, `All ${chain.ids.length} parts of “${chain.prompts[0]}” are ready and are being joined.`, 'good');
  } catch (fault) {
    // A full queue and a server that is away pass.
    if (fault instanceof ApiFault && (fault.status === 429 || fault.status === 0 || fault.status >= 500)) return;
    end(chain, `The parts of “${chain.prompts[0]}” do not go on: ${sentence(fault)}`, 'bad');
  }
}

/** @param {Chain} chain @param {string} text @param {'good' | 'bad'} kind */
function end(chain, text, kind) {
  remove(chain.id);
  store.notice(text, kind);
}
