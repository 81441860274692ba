// The view `make`.
import {el} from './dom.js';

export class MakeView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
  }

  connectedCallback() {
    this.append(el('h1', {text: 'Make'}));
  }

  disconnectedCallback() {}
}
customElements.define('make-view', MakeView);
