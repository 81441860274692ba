// The view `worlds`.
import {el} from './dom.js';

export class WorldsView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
  }

  connectedCallback() {
    this.append(el('h1', {text: 'Worlds'}));
  }

  disconnectedCallback() {}
}
customElements.define('worlds-view', WorldsView);
