// Asks which frames of two videos become one: this video up to the frame that is shown, then another one; or only a
// piece of this one.
import {ask, button, el} from './dom.js';
import {finished} from './finished.js';
import {wholeOf} from './reel.js';
import {store} from './store.js';

/** @typedef {import('./store.js').Video} Video */

/**
 * @param {string} name
 * @param {number} value
 * @param {number} most
 */
function frameInput(name, value, most) {
  return el('input', {type: 'number', id: name, min: 0, max: most, value, required: true});
}

/** @param {Video} video */
const labelOf = video => [(video.prompt ?? 'joined videos').slice(0, 60), `seed ${video.seed ?? '–'}`,
  new Date(video.created_at * 1000).toLocaleTimeString()].join(' · ');

/**
 * @param {Video} video
 * @param {number} frame the one that is shown
 * @returns {Promise<Record<string, any>[] | null>} what is joined, as the API wants it
 */
export async function askJoin(video, frame) {
  if (!finished.videos.length && finished.more) await finished.next().catch(() => {});
  const known = finished.videos.length ? finished.videos : [...store.videos.values()];
  const others =
      known.filter(other => other.status === 'completed' && other.size === video.size && other.fps === video.fps);
  const last = wholeOf(video).last;
  const first = frameInput('join-first', 0, last), end = frameInput('join-last', frame, last);
  const next = el('select', {id: 'join-next'}, el('option', {value: '', text: 'nothing: only this piece'}),
      ...others.map(other => el('option', {value: other.id, text: labelOf(other)})));
  const nextFirst = frameInput('join-next-first', 0, 0), nextLast = frameInput('join-next-last', 0, 0);
  const second = el('div', {class: 'row'}, el('label', {for: 'join-next-first', text: 'from frame'
  }), nextFirst, el('label', {for: 'join-next-last', text: 'to'
  }), nextLast);
  const fault = el('p', {class: 'fault', role: 'alert'});
  const choose = () => {
    const chosen = others.find(other => other.id === next.value);
    second.hidden = !chosen;
    const most = chosen ? wholeOf(chosen).last : 0;
    for (const input of [nextFirst, nextLast]) input.max = String(most), input.disabled = !chosen;
    nextFirst.value = '0', nextLast.value = String(most);
  };
  next.addEventListener('change', choose);
  choose();
  const answer = await ask('Join',
      close => [el('form', {
        method: 'dialog',
        onsubmit: (/** @type {Event} */ event) => {
          event.preventDefault();
          const wrong = Number(first.value) > Number(end.value) ||
              (next.value && Number(nextFirst.value) > Number(nextLast.value));
          fault.textContent = wrong ? 'The first frame comes after the last one.' : '';
          if (!wrong) close('join');
        },
      },
          el('div', {class: 'row'}, 'This video', el('label', {for: 'join-first', text: 'from frame'
          }), first, el('label', {for: 'join-last', text: 'to'
          }), end), el('label', {for: 'join-next', text: 'and after it'
          }), next, second, fault, el('div', {class: 'row end'}, button('Cancel', () => close('')), el('button', {
            type: 'submit',
            class: 'primary',
            text: 'Join'
          })))]);
  if (answer !== 'join') return null;
  const parts = [{id: video.id, first_frame: Number(first.value), last_frame: Number(end.value)}];
  if (next.value)
    parts.push({id: next.value, first_frame: Number(nextFirst.value), last_frame: Number(nextLast.value)});
  return parts;
}
