// The view `gallery`.
import {el} from './dom.js';

export class GalleryView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
  }

  connectedCallback() {
    this.append(el('h1', {text: 'Gallery'}));
  }

  disconnectedCallback() {}
}
customElements.define('gallery-view', GalleryView);
