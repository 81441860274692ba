// The worlds of this server, with links to their pages, and whether somebody is there.
import {api, sentence} from './api.js';
import {button, el, setText} from './dom.js';

const kPause = 5000;  // ms between two looks

export class WorldsView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
    this.content = el('div');
    this.timer = 0;
    this.gone = false;
  }

  connectedCallback() {
    this.append(el('h1', {text: 'Worlds'}), el('p', {
      text:
          'A world is a video that you steer with keys and mouse while it is made. One visitor at a time has the ' +
              'worlds of this server; videos that are being made wait meanwhile.'
    }),
        this.content);
    void this.load();
  }

  async load() {
    try {
      const models = (await api('GET', '/v1/models')).data;
      const worlds = models.filter((/** @type {any} */ model) => model.kind === 'world')
                         .map((/** @type {any} */ model) => model.id);
      if (!worlds.length) {
        this.content.replaceChildren(el('p',
            {class: 'dim', text: 'This server has no world. Whoever starts it can add one: --model NAME=FOLDER.'}));
        return;
      }
      this.content.replaceChildren(
          el('ul', {class: 'jobs'}, ...worlds.map((/** @type {string} */ name) => this.entry(name))));
    } catch (error) {
      this.content.replaceChildren(
          el('p', {class: 'fault', role: 'alert', text: sentence(error)}), button('Try again', () => void this.load()));
    }
  }

  /** @param {string} name */
  entry(name) {
    const state = el('span', {class: 'dim', role: 'status'});
    const look = async () => {
      try {
        const now = await api('GET', `/world/${encodeURIComponent(name)}/state`);
        setText(state, now.busy ? 'Somebody is there' : 'Free');
      } catch {
        setText(state, 'Its state is unknown');
      }
      if (!this.gone) this.timer = window.setTimeout(() => void look(), kPause);
    };
    void look();
    return el('li', {class: 'panel world', 'data-id': name}, el('div', {class: 'row'},
      el('a', {href: `/world/${encodeURIComponent(name)}`, text: `Enter “${name}”`}), state));
  }

  disconnectedCallback() {
    this.gone = true;
    window.clearTimeout(this.timer);
  }
}
customElements.define('worlds-view', WorldsView);
