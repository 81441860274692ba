// The view `queue`.
import {el} from './dom.js';

export class QueueView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
  }

  connectedCallback() {
    this.append(el('h1', {text: 'Queue'}));
  }

  disconnectedCallback() {}
}
customElements.define('queue-view', QueueView);
