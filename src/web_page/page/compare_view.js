// The view `compare`: two results frame by frame in step, beside each other, under a wipe, or as their difference, and
// the settings in which they differ.
import {ApiFault, api, sentence} from './api.js';
import {el} from './dom.js';
import {titleOf} from './gallery_view.js';
import {Reel, wholeOf} from './reel.js';
import {settingsOf, settingsTable} from './settings_table.js';
import {Transport} from './transport.js';
import {settingsInFile} from './video_detail.js';

/** @typedef {import('./store.js').Video} Video */

const kWays = {beside: 'Side by side', wipe: 'Wipe', difference: 'Difference'};

export class CompareView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
    /** @type {Reel[]} */
    this.reels = [new Reel(), new Reel()];
    this.transport = new Transport();
    this.stage = el('div', {class: 'stage beside'});
    this.wipe = el('input', {
      type: 'range',
      min: 0,
      max: 100,
      value: 50,
      'aria-label': 'Wipe: how much of A is seen',
      oninput: () => this.setWipe(Number(this.wipe.value))
    });
    this.table = el('section', {'aria-labelledby': 'differences'});
  }

  async connectedCallback() {
    const ids = this.route.slice(1, 3);
    if (ids.length < 2)
      return this.append(el('h1', {text: 'Compare'}),
          el('p', {}, 'Tick two videos in the ', el('a', {href: '#/gallery', text: 'gallery'}), '.'));
    this.build();
    const columns = await Promise.all(ids.map((id, at) => this.fill(id, at)));
    if (!this.isConnected) return;
    this.transport.tell();
    this.tellSettings(columns);
  }

  build() {
    this.slots = this.reels.map((reel, at) => {
      const name = 'AB'[at], told = el('p', {class: 'told', role: 'status', text: 'The video is being fetched …'});
      reel.muted = at > 0;
      reel.addEventListener('fault', event => this.say(at, /** @type {CustomEvent} */ (event).detail, 'fault'));
      return el('div', {class: 'film', 'data-name': name}, reel, told,
          el('span', {class: 'tag', text: name, 'aria-hidden': true}));
    });
    const line = el('div', {class: 'wipe-line', 'aria-hidden': true});
    this.stage.append(...this.slots, line);
    this.stage.addEventListener('pointerdown', event => this.drag(event));
    this.stage.addEventListener('pointermove', event => { if (event.buttons & 1) this.drag(event); });
    this.wipeRow = el('label', {class: 'wipe row'}, 'A', this.wipe, 'B');
    const ways = el('fieldset', {class: 'row ways'}, el('legend', {class: 'unseen', text: 'How they are compared'}),
        ...Object.entries(kWays).map(([way, text]) => el('label', {class: 'check'}, el('input', {
          type: 'radio',
          name: 'way',
          value: way,
          checked: way === 'beside',
          onchange: () => this.setWay(way)
        }),
                                         text)));
    this.append(el('p', {}, el('a', {href: '#/gallery', text: '‹ Gallery'})), el('h1', {text: 'Compare'}), ways,
        this.stage, this.wipeRow, this.transport, this.table);
    this.transport.drive(this.reels);
    this.setWay('beside');
    this.setWipe(50);
  }

  /**
   * Shows one of the two. Returns its settings, and the video if it is there.
   * @param {string} id
   * @param {number} at
   * @returns {Promise<{video: Video | null, settings: Map<string, string>}>}
   */
  async fill(id, at) {
    try {
      /** @type {Video} */
      const video = await api('GET', `/v1/videos/${encodeURIComponent(id)}`);
      if (video.status !== 'completed') throw new ApiFault(0, {message: 'this video is not finished'});
      if (await this.reels[at].load([wholeOf(video)])) this.say(at, '');
      return {video, settings: settingsOf(video, await settingsInFile(this.reels[at].file))};
    } catch (error) {
      this.reels[at].fault = 'missing';
      this.say(at,
          error instanceof ApiFault && error.code === 'not_found' ? 'There is no such video, or it was removed.' :
                                                                    sentence(error),
          'fault');
      return {video: null, settings: new Map()};
    }
  }

  /** @param {number} at @param {string} text @param {string} [kind] */
  say(at, text, kind = '') {
    const told = /** @type {HTMLElement} */ (this.slots?.[at].querySelector('.told'));
    told.hidden = text === '';
    told.textContent = text;
    told.className = `told ${kind}`.trim();
  }

  /** @param {{video: Video | null, settings: Map<string, string>}[]} columns */
  tellSettings(columns) {
    const only = el('input',
        {type: 'checkbox', id: 'only-differences', onchange: () => table.classList.toggle('only', only.checked)});
    const table = settingsTable(columns.map(column => column.settings), ['A', 'B']);
    const count = table.querySelectorAll('tr.differs').length;
    const [a, b] = columns.map(({video}) => video);
    const differing = count === 0 ? 'All settings are the same.' :
        count === 1               ? 'One setting differs.' :
                                    `${count} settings differ.`;
    const apart = a && b && a.num_frames !== b.num_frames ?
        ` The shorter one stays at its last frame (${Math.min(a.num_frames ?? 0, b.num_frames ?? 0) - 1}).` :
        '';
    this.table.replaceChildren(el('h2', {id: 'differences', text: 'Settings'}), el('p', {
      class: 'dim',
      id: 'summary',
      text: a && b ? differing + apart : 'One of the two is not there.'
    }),
        el('p', {class: 'row'},
            ...columns.map(({video}, at) => video &&
                    el('span', {}, `${'AB'[at]}: `,
                        el('a', {href: `#/gallery/${video.id}`, text: titleOf(video).slice(0, 80)})))),
        el('label', {class: 'check'}, only, 'Only what differs'), table);
  }

  /** @param {string} way */
  setWay(way) {
    this.stage.className = `stage ${way}`;
    if (this.wipeRow) this.wipeRow.hidden = way !== 'wipe';
  }

  /** @param {number} percent */
  setWipe(percent) {
    this.wipe.value = String(percent);
    this.wipe.setAttribute('aria-valuetext', `${Math.round(percent)} percent of A`);
    this.stage.style.setProperty('--wipe', `${percent}%`);
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (!this.stage.classList.contains('wipe')) return;
    const box = this.stage.getBoundingClientRect();
    this.setWipe(Math.max(0, Math.min(100, (event.clientX - box.left) / box.width * 100)));
    event.preventDefault();
  }
}
customElements.define('compare-view', CompareView);
