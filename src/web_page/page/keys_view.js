// Who the visitor is to this server, what the key allows, and, for administrators, who else has one. Keys themselves
// are never shown: the server has only their hashes.
import {api, sentence, setKey} from './api.js';
import {button, el} from './dom.js';
import {store} from './store.js';

/** @typedef {{name: string | null, priority: boolean, admin: boolean}} Holder */

/** @param {Holder} holder */
const sees = holder => (holder.admin ? 'the videos of all' : 'only their own videos');

export class KeysView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
    this.content = el('div');
  }

  connectedCallback() {
    this.append(el('h1', {text: 'Keys'}), this.content);
    void this.load();
  }

  async load() {
    try {
      const me = await api('GET', '/v1/key');
      store.me = me;
      const all = me.keys && me.admin ? (await api('GET', '/v1/keys')).data : null;
      this.content.replaceChildren(...(me.keys ? this.held(me, all) : this.open()));
    } catch (error) {
      this.content.replaceChildren(
          el('p', {class: 'fault', role: 'alert', text: sentence(error)}), button('Try again', () => void this.load()));
    }
  }

  open() {
    return [el('section', {class: 'panel'}, el('p', {
      text:
          'This server has no keys. It answers this machine alone, and everybody who uses this machine sees and ' +
              'changes all videos.'
    }),
        el('p', {
          text:
              'To let others in, start it with a file of keys. Each key has a name, and sees only its own videos ' +
                  'unless it may see all.'
        }),
        el('pre', {},
            el('code',
                {text: 'tachyscope serve --keys keys --new-key alice\ntachyscope serve --keys keys --host 0.0.0.0'})))];
  }

  /**
   * @param {Holder} me
   * @param {Holder[] | null} all
   */
  held(me, all) {
    const mine = el('section', {class: 'panel', 'aria-labelledby': 'my-key'},
        el('h2', {id: 'my-key', text: `Your key is “${me.name}”`}),
        el('ul', {}, el('li', {
          text: me.admin ? 'You see and change the videos of all.' :
                           'You see and change only your own videos. Others do not see yours, but for administrators.'
        }),
            el('li', {
              text: me.priority ? 'You may give your videos a priority over others.' :
                                  'Your videos have the usual priority.'
            }),
            el('li', {text: 'Saved presets are yours alone.'})),
        el('p', {
          class: 'dim',
          text: 'A link to a video that you copy from the gallery needs no key, and ends after ten minutes.'
        }),
        button('Use another key', () => {
          setKey('');
          location.reload();
        }));
    if (!all) return [mine];
    const rows = all.map(holder => el('tr', {}, el('th', {scope: 'row', text: holder.name ?? ''}),
                             el('td', {text: sees(holder)}), el('td', {text: holder.priority ? 'yes' : 'no'})));
    return [
      mine,
      el('section', {class: 'panel', 'aria-labelledby': 'all-keys'}, el('h2', {id: 'all-keys', text: 'Who has a key'}),
          el('table', {},
              el('thead', {},
                  el('tr', {}, ...['Name', 'Sees', 'Gives priority'].map(text => el('th', {scope: 'col', text})))),
              el('tbody', {}, ...rows)),
          el('p', {
            class: 'dim',
            text:
                'Names and rights are lines of the file that the server was started with. A new line counts from its ' +
                    'next start on:'
          }),
          el('pre', {}, el('code', {text: 'tachyscope serve --keys FILE --new-key NAME'})))
    ];
  }

  disconnectedCallback() {}
}
customElements.define('keys-view', KeysView);
