// The view `gallery`: all finished videos, and one of them with its settings at #/gallery/ID.
import {key, sentence, signedUrl} from './api.js';
import {copyToMake, join, remove} from './actions.js';
import {button, el, iconButton, setText, stylesheet} from './dom.js';
import {finished} from './finished.js';
import {LazyPictures} from './lazy_pictures.js';
import {store} from './store.js';

/** @typedef {import('./store.js').Video} Video */

const kFurther = '1500px';  // how far from the end the next page is fetched
await stylesheet('gallery.css');

/** @param {Video} video */
export const titleOf = video => video.prompt ?? (video.kind === 'join' ? 'Joined videos' : 'A video');

/**
 * Saves a video as a file.
 * @param {Video} video
 */
export async function download(video) {
  try {
    const link = el('a', {href: await signedUrl(video.id), download: `${video.id}.mp4`});
    link.click();
  } catch (error) {
    store.notice(sentence(error), 'bad');
  }
}

export class GalleryView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
    /** @type {Map<string, HTMLElement>} */
    this.cards = new Map();
    this.list = el('ul', {class: 'cards', 'aria-label': 'Finished videos'});
    this.told = el('div', {role: 'status', class: 'told-below'});
    this.end = el('div', {class: 'list-end'});
    this.pictures = new LazyPictures();
    this.further = new IntersectionObserver(seen => {
      if (seen.some(one => one.isIntersecting)) void this.fetchMore();
    }, {rootMargin: kFurther});
  }

  async connectedCallback() {
    const id = this.route[1];
    if (id) {
      const {VideoDetail} = await import('./video_detail.js');
      if (this.isConnected) this.append(new VideoDetail(id));
    } else {
      this.showList();
    }
  }

  disconnectedCallback() {
    this.pictures.stop();
    this.further.disconnect();
    if (this.list.isConnected || this.cards.size) finished.listener = () => {};
    window.removeEventListener('scroll', this.keepScroll);
  }

  keepScroll = () => { finished.scroll = window.scrollY; };

  showList() {
    finished.look(key());
    this.compare = button('Compare', () => {
      location.hash = `#/compare/${[...finished.ticked].join('/')}`;
    }, {id: 'compare'});
    this.join = button('Join', () => void this.joinTicked(), {id: 'join'});
    this.clear = button('Clear', () => this.untick(), {id: 'untick'});
    this.count = el('span', {class: 'dim', id: 'ticked', role: 'status'});
    this.append(el('div', {class: 'row spread'}, el('h1', {text: 'Gallery'}),
                    el('div', {class: 'row', role: 'group', 'aria-label': 'Ticked videos'}, this.count, this.compare,
                        this.join, this.clear)),
        this.list, this.told, this.end);
    finished.listener = (added, gone) => this.change(added, gone);
    this.pictures.keepOnly(new Set(finished.videos.map(video => video.id)));
    this.change(finished.videos, []);
    this.tellTicked();
    const {scroll} = finished;
    requestAnimationFrame(() => {
      window.scrollTo(0, scroll);
      window.addEventListener('scroll', this.keepScroll, {passive: true});
    });
    this.further.observe(this.end);
  }

  /** @param {Video[]} added @param {string[]} gone */
  change(added, gone) {
    for (const id of gone) {
      const card = this.cards.get(id);
      if (!card) continue;
      const focused = card.contains(document.activeElement);
      const next = card.nextElementSibling ?? card.previousElementSibling;
      this.pictures.forget(/** @type {Element} */ (card.firstElementChild));
      card.remove();
      this.cards.delete(id);
      if (focused) /** @type {HTMLElement | null} */ (next?.querySelector('a') ?? null)?.focus();
    }
    // In one piece, where they come one after the other at the end, as a new page does.
    const places = new Map(added.map(video => [video, finished.videos.indexOf(video)]));
    for (const video of [...added].sort((a, b) => (places.get(a) ?? 0) - (places.get(b) ?? 0)))
      this.list.insertBefore(this.cardOf(video), this.list.children[places.get(video) ?? 0] ?? null);
    this.tell();
    this.tellTicked();
  }

  /** @param {Video} video */
  cardOf(video) {
    const title = titleOf(video);
    const shot = el('a', {class: 'shot', href: `#/gallery/${video.id}`, 'aria-label': `Open: ${title.slice(0, 120)}`});
    const tick = el('input', {
      type: 'checkbox',
      'aria-label': `Tick: ${title.slice(0, 80)}`,
      onchange: () => this.tick(video.id, tick.checked)
    });
    tick.checked = finished.ticked.has(video.id);
    const card =
        el('li', {class: 'card', 'data-id': video.id}, shot, el('p', {class: 'title', text: title, title}), el('p', {
          class: 'dim',
          text: [video.size, `${Number(video.seconds)} s`, video.seed === null ? '' : `seed\u00a0${video.seed}`]
                    .filter(text => text)
                    .join(' · ')
        }),
            el('div', {class: 'row'}, el('label', {class: 'check'}, tick, 'Tick'), el('span', {class: 'space'}),
                video.kind === 'video' && iconButton('copy', 'Copy the settings', () => copyToMake(video)),
                iconButton('download', 'Download', () => void download(video)),
                iconButton('remove', 'Remove', () => void this.removeVideo(video))));
    this.cards.set(video.id, card);
    this.pictures.watch(shot, video.id);
    return card;
  }

  /** @param {Video} video */
  async removeVideo(video) {
    if (await remove(video)) finished.drop(video.id);
  }

  /** @param {string} id @param {boolean} on */
  tick(id, on) {
    if (on) finished.ticked.add(id);
    else finished.ticked.delete(id);
    this.tellTicked();
  }

  untick() {
    finished.ticked.clear();
    for (const box of this.list.querySelectorAll('input')) box.checked = false;
    this.tellTicked();
  }

  tellTicked() {
    const count = finished.ticked.size;
    if (!this.count || !this.compare || !this.join || !this.clear) return;
    setText(this.count, count ? `${count} ticked` : 'Tick videos to compare or join them.');
    this.compare.disabled = count !== 2;
    this.join.disabled = count < 2;
    this.clear.disabled = count === 0;
    this.compare.title = count === 2 ? '' : 'Tick two videos.';
    this.join.title =
        count < 2 ? 'Tick at least two videos; they are joined in the order in which you ticked them.' : '';
  }

  async joinTicked() {
    if (await join([...finished.ticked])) this.untick();
  }

  async fetchMore() {
    if (!finished.more) return this.tell();
    try {
      await finished.next();
      this.fault = '';
    } catch (error) {
      this.fault = sentence(error);
    }
    this.tell();
    // The end may still be near, and then nobody tells again.
    this.further.unobserve(this.end);
    if (this.isConnected && finished.more && !this.fault) this.further.observe(this.end);
  }

  tell() {
    this.told.replaceChildren();
    if (this.fault)
      this.told.append(el('p', {class: 'fault', text: this.fault}), button('Try again', () => void this.fetchMore()));
    else if (finished.more) this.told.append(el('p', {class: 'dim', text: 'More videos are being fetched …'}));
    else if (!finished.videos.length)
      this.told.append(el('p', {}, 'No video is finished yet. ', el('a', {href: '#/make', text: 'Make one'}), '.'));
    else
      this.told.append(el('p', {
        class: 'dim',
        text: finished.videos.length === 1 ? 'This is the only video.' :
                                             `These are all ${finished.videos.length} videos.`
      }));
  }
}
customElements.define('gallery-view', GalleryView);
