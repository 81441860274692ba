// The LoRAs of a video: chosen from those that the server has, each with the words that call it up, its notes, a
// strength, and the expert that it is for where a model has two.
import {api, blobUrl, key} from './api.js';
import {bytes, button, el, iconButton} from './dom.js';
import {faultLine} from './make_form.js';

/** @typedef {import('./make_form.js').Lora} Lora */
/**
 * @typedef {{id: string, bytes: number, title: string, notes: string, base_model: string, trigger_words: string[],
 *   strength: number | null, picture: string | null}} Offered
 */

/**
 * Returns the picture of a LoRA, which is fetched when it comes near the screen; null if there is none.
 * @param {Offered} lora
 */
function pictureOf(lora) {
  if (!lora.picture) return null;
  const image = el('img', {alt: '', loading: 'lazy', class: 'lora-picture', onerror: () => image.remove()});
  if (!key()) image.src = lora.picture;
  else  // an <img> sends no key
    void blobUrl(lora.picture).then(url => {
      image.addEventListener('load', () => URL.revokeObjectURL(url), {once: true});
      image.src = url;
    }).catch(() => image.remove());
  return image;
}

export class LoraPicker {
  /** @param {import('./make_form.js').Form} form */
  constructor(form) {
    this.form = form;
    /** @type {Offered[]} */
    this.offered = [];
    this.chosen = el('ul', {class: 'loras'});
    this.search = el('input', {type: 'search', placeholder: 'Name, word or note', 'aria-label': 'Search for a LoRA'});
    this.found = el('ul', {class: 'found', 'aria-label': 'LoRAs of this server'});
    this.count = el('span', {class: 'count'});
    this.search.addEventListener('input', () => this.showFound());
    this.element = el('details', {class: 'lora-picker'}, el('summary', {}, 'LoRAs ', this.count), this.chosen,
        this.search, this.found, faultLine(form, 'loras'));
    this.element.addEventListener('toggle', () => { if (this.element.open) void this.ask(); });
    form.addEventListener('load', () => {
      this.show();
      if (form.draft.loras.length) void this.ask();
    });
  }

  async ask() {
    try {
      this.offered = (await api('GET', '/v1/loras')).data;
    } catch {
      return;  // the page's own line says that the server is away
    }
    this.show();
    this.showFound();
  }

  get list() { return this.form.draft.loras; }

  changed() {
    this.form.changed('loras');
    this.show();
    this.showFound();
  }

  show() {
    this.count.textContent = this.list.length ? String(this.list.length) : '';
    this.chosen.replaceChildren(...this.list.map(lora => this.row(lora)));
  }

  /** @param {Lora} lora */
  row(lora) {
    const about = this.offered.find(one => one.id === lora.name);
    const strength = el('input', {
      type: 'number',
      min: -100,
      max: 100,
      step: 0.05,
      value: lora.strength ?? 1,
      'aria-label': `Strength of ${lora.name}`
    });
    strength.addEventListener('input', () => {
      lora.strength = strength.valueAsNumber || 0, this.form.changed('loras');
    });
    const expert = el('select', {'aria-label': `Expert of ${lora.name}`},
        ...['both', 'high', 'low'].map(
            name => el('option', {value: name, text: name === 'both' ? 'both experts' : `${name} noise`})));
    expert.value = lora.expert ?? 'both';
    expert.addEventListener('change', () => {
      if (expert.value === 'both') delete lora.expert;
      else lora.expert = expert.value;
      this.form.changed('loras');
    });
    const one = (this.form.model?.experts ?? 1) < 2;
    return el('li', {}, about ? pictureOf(about) : null, el('strong', {text: about?.title || lora.name}), strength,
        one && !lora.expert ? null : expert, iconButton('close', `Remove ${lora.name}`, () => {
          this.form.draft.loras = this.list.filter(other => other !== lora), this.changed();
        }), about ? this.about(about) : null);
  }

  /** @param {Offered} lora */
  about(lora) {
    return el('div', {class: 'help'}, lora.notes, ...lora.trigger_words.map(word =>
        button(`+ ${word}`, () => this.addWord(word), {class: 'word', title: 'Put this into the prompt'})));
  }

  /** @param {string} word */
  addWord(word) {
    const prompt = this.form.get('prompt');
    if (!prompt.includes(word)) this.form.set('prompt', prompt.trim() ? `${prompt.trimEnd()}, ${word}` : word);
  }

  showFound() {
    const wanted = this.search.value.trim().toLowerCase();
    const fits = this.offered.filter(lora => !this.list.some(one => one.name === lora.id) &&
            [lora.id, lora.title, lora.notes, lora.base_model, ...lora.trigger_words].some(
                text => text.toLowerCase().includes(wanted)));
    if (!this.offered.length)
      return this.found.replaceChildren(
          el('li', {class: 'help', text: 'This server has none. Its --lora-dir names the folder with them.'}));
    this.found.replaceChildren(...fits.slice(0, 50).map(
        lora => el('li', {}, pictureOf(lora),
            button(lora.title ? `${lora.title} (${lora.id})` : lora.id, () => this.add(lora), {class: 'plain'}),
            el('span', {
              class: 'help',
              text:
                  [lora.base_model, bytes(lora.bytes), lora.trigger_words.join(', '), lora.notes].filter(Boolean).join(
                      ' · ')
            }))));
    if (fits.length > 50)
      this.found.append(el('li', {class: 'help', text: `and ${fits.length - 50} more: search for a word of theirs`}));
  }

  /** @param {Offered} lora */
  add(lora) {
    this.list.push(lora.strength === null ? {name: lora.id} : {name: lora.id, strength: lora.strength});
    this.changed();
  }
}
