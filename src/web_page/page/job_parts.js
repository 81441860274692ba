// The parts that the entries of the queue have in common: facts and states in words, and thumbnails.
import {signedPath, signedUrl} from './api.js';
import {about, el, seconds} from './dom.js';

/** @typedef {import('./store.js').Video} Video */
/** @typedef {import('./store.js').Live} Live */

/** @param {Video} video */
export const titleOf = video => video.prompt || (video.kind === 'join' ? 'Joined videos' : 'Without a prompt');

/** @param {Video} video */
export const shortTitle = video =>
    `“${titleOf(video).length > 60 ? `${titleOf(video).slice(0, 59)}…` : titleOf(video)}”`;

/**
 * Returns "sprites · 128x128 · 2.06 s · seed 7".
 * @param {Video} video
 */
export function factsOf(video) {
  const steps = video.settings.num_inference_steps ?? video.settings.steps;
  return [video.model, video.size, Number(video.seconds) > 0 && `${Number(video.seconds)} s long`,
    steps && `${steps}\u00a0steps`, video.seed !== null && `seed\u00a0${video.seed}`,
    video.priority && `priority ${video.priority}`].filter(fact => fact).join(' · ');
}

/** @type {Record<string, string>} */
const kStages = {text: 'Reading the prompt', 'image-embeds': 'Looking at the picture', speech: 'Listening to the voice',
  image: 'Looking at the picture', motion: 'Preparing the next part'};

/**
 * Returns what is being done, in words.
 * @param {Video} video
 * @param {Live | undefined} live
 */
export function stageOf(video, live) {
  if (live?.asked === 'keep') return 'Stopping; the frames that are there become the video';
  if (live?.asked === 'cancel') return 'Stopping';
  if (live?.asked === 'pause') return 'Pausing';
  const stage = live?.stage || video.stage || '';
  if (stage === 'denoise' && live?.total) return `Step ${Math.min(live.done + 1, live.total)} of ${live.total}`;
  if (stage === 'decode' && live?.total) return `Writing frame ${live.done} of ${live.total}`;
  return kStages[stage] ?? (stage === 'denoise' ? 'Making it' : stage === 'decode' ? 'Writing the video' : 'Beginning');
}

/**
 * Returns when it will be there: a time to wait, and for longer ones the hour, which does not change with every second.
 * @param {Live | undefined} live
 */
export function readyIn(live) {
  const left = live?.eta.left() ?? null;
  if (left === null) return '';
  if (left < 600) return `ready in about ${about(left)}`;
  const at = new Date(Date.now() + left * 1000);
  return `ready in about ${seconds(left)}, at ${at.toLocaleTimeString([], {hour: '2-digit', minute: '2-digit'})}`;
}

/**
 * Makes a small picture of a video: what it was made to begin with while it waits, its thumbnail when it is there.
 * @param {Video} video
 * @returns {HTMLElement}
 */
export function thumbnail(video) {
  const box = el('div', {class: 'thumb'});
  const words = el('span', {class: 'dim', text: video.kind === 'join' ? 'join' : video.size || 'text'});
  box.append(words);
  const given =
      Object.entries(video.settings).find(([name, value]) => value?.sha256 && !/audio|sound|voice/.test(name));
  const source = video.status === 'completed' ? signedUrl(video.id, 'thumbnail')
    : given && signedPath(video.id, `/v1/videos/${video.id}/inputs/${encodeURIComponent(given[0])}`);
  if (source)
    void source
        .then(src => {
          const image =
              el('img', {src, alt: '', loading: 'lazy', onload: () => words.remove(), onerror: () => image.remove()});
          box.append(image);
        })
        .catch(() => {});
  return box;
}
