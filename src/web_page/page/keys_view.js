// The view `keys`.
import {el} from './dom.js';

export class KeysView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
  }

  connectedCallback() {
    this.append(el('h1', {text: 'Keys'}));
  }

  disconnectedCallback() {}
}
customElements.define('keys-view', KeysView);
