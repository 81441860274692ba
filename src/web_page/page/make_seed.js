// The seed: empty for one that the server draws, a die that draws one here, and whether it stays for the next video.
import {button, el} from './dom.js';
import {field} from './make_form.js';

/** @param {import('./make_form.js').Form} form */
export function seedField(form) {
  const input =
      el('input', {inputmode: 'numeric', pattern: '[0-9]*', placeholder: 'drawn for each video', autocomplete: 'off'});
  const die = button('⚄ Draw', () => {
    form.set('seed', String(crypto.getRandomValues(new Uint32Array(1))[0]));
  }, {title: 'Draw a number', 'aria-label': 'Draw a seed'});
  const keep = el('input', {type: 'checkbox', id: 'keep-seed'});
  keep.addEventListener('change', () => { form.draft.keepSeed = keep.checked, form.changed('keepSeed'); });
  form.addEventListener('load', () => { keep.checked = form.draft.keepSeed; });
  return field(form, 'seed', 'Seed', input, {beside: [die, el('label', {class: 'check'}, keep, 'keep')]});
}

/**
 * After a video was asked for: a seed that is kept stays, also one that the server drew; any other goes.
 * @param {import('./make_form.js').Form} form
 * @param {number | null} seed
 */
export function seedAfter(form, seed) {
  if (!form.draft.keepSeed) form.set('seed', '');
  else if (!form.get('seed') && seed !== null) form.set('seed', String(seed));
}
