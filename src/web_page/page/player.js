// A video with its controls, and the reason in its place where it cannot be shown.
import {el, setText} from './dom.js';
import {Reel} from './reel.js';
import {Transport} from './transport.js';

/** @typedef {import('./reel.js').Part} Part */

export class Player extends HTMLElement {
  constructor() {
    super();
    this.reel = new Reel();
    this.transport = new Transport();
    this.told = el('p', {class: 'told', role: 'status', text: 'The video is being fetched …'});
    this.reel.addEventListener('fault', event => this.say(/** @type {CustomEvent} */ (event).detail, 'fault'));
  }

  connectedCallback() {
    this.append(el('div', {class: 'film'}, this.reel, this.told), this.transport);
    this.transport.drive([this.reel]);
  }

  /**
   * Shows these parts, one after the other.
   * @param {Part[]} parts
   */
  async load(parts) {
    this.say('The video is being fetched …');
    const there = await this.reel.load(parts);
    if (there) this.say('');
    this.transport.tell();
    return there;
  }

  /**
   * Says something in the picture's place, or over it. "" takes it away.
   * @param {string} text
   * @param {'' | 'fault'} [kind]
   */
  say(text, kind = '') {
    this.told.hidden = text === '';
    this.told.className = `told ${kind}`.trim();
    setText(this.told, text);
  }
}
customElements.define('video-player', Player);
