// The view `compare`.
import {el} from './dom.js';

export class CompareView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
  }

  connectedCallback() {
    this.append(el('h1', {text: 'Compare'}));
  }

  disconnectedCallback() {}
}
customElements.define('compare-view', CompareView);
