// The videos that were asked for in this tab: progress, the newest preview, and the video itself when it is there.
import {blobUrl, sentence, signedUrl} from './api.js';
import {button, el, seconds, setText} from './dom.js';
import {hasEnded, store} from './store.js';

/** @typedef {import('./store.js').Video} Video */

const kName = 'tachyscope-made';
const kMost = 6;

class Card {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.place = el('div', {class: 'screen'});
    this.title = el('p', {class: 'quote'});
    this.state = el('p', {class: 'state'});
    this.bar = el('progress', {max: 100, value: 0});
    this.actions = el('div', {class: 'row'});
    this.element = el('li', {class: 'panel made', 'data-id': id}, this.place,
        el('div', {class: 'about'}, this.title, this.state, this.bar, this.actions));
    this.status = '';
    this.preview = '';
    this.url = '';
  }

  close() {
    if (this.url) URL.revokeObjectURL(this.url);
  }

  show() {
    const video = store.videos.get(this.id);
    if (!video) return;
    setText(this.title, video.prompt ?? 'joined videos');
    this.bar.hidden = hasEnded(video);
    this.bar.value = video.progress;
    this.bar.setAttribute('aria-label', `Progress of ${video.prompt ?? 'the video'}`);
    setText(this.state, this.words(video));
    this.state.classList.toggle('fault', video.status === 'failed');
    if (video.status !== this.status) this.status = video.status, void this.enter(video);
    const newest = store.live.get(this.id)?.previews.at(-1);
    if (!hasEnded(video) && newest && newest !== this.preview) void this.showPreview(newest);
  }

  /** @param {Video} video */
  words(video) {
    if (video.status === 'completed')
      return `Ready: ${video.size.replace('x', '×')}, ${Number(video.seconds)} s, seed ${video.seed}.`;
    if (video.status === 'failed') return sentence(new Error(video.error?.message ?? 'It failed'));
    const left = store.live.get(this.id)?.eta.left();
    const time = left === null || left === undefined ? '' : `, ready in about ${seconds(left)}`;
    if (video.paused) return 'It is paused.';
    if (video.status === 'queued')
      return video.queue_position ? `${video.queue_position} before it${time}.` : `Next${time}.`;
    return `${video.progress} %${time}.`;
  }

  /** @param {Video} video */
  async enter(video) {
    if (video.status !== 'completed') return;
    try {
      const screen = el('video', {
        src: await signedUrl(this.id),
        controls: true,
        loop: true,
        autoplay: true,
        muted: true,
        playsinline: true,
        'aria-label': video.prompt ?? 'the video'
      });
      screen.muted = true;
      this.place.replaceChildren(screen);
    } catch (fault) {
      this.place.replaceChildren(el('p', {class: 'fault', text: sentence(fault)}));
    }
    this.actions.replaceChildren(el('a', {href: `#/gallery/${this.id}`, text: 'Open in the gallery'}),
        button('Use these settings', () => void import('./actions.js').then(({copyToMake}) => copyToMake(video))));
  }

  /** @param {string} address */
  async showPreview(address) {
    this.preview = address;
    try {
      const url = await blobUrl(address);
      if (this.preview !== address || this.status === 'completed') return URL.revokeObjectURL(url);
      if (this.url) URL.revokeObjectURL(this.url);
      this.url = url;
      this.place.replaceChildren(el('img', {src: url, alt: 'Preview'}));
    } catch {
      // An older preview stays.
    }
  }
}

export class Results {
  constructor() {
    this.list = el('ul', {class: 'results', 'aria-label': 'Just made'});
    this.element = el('section', {'aria-live': 'off', hidden: true}, el('h2', {text: 'Just made'}), this.list);
    /** @type {Map<string, Card>} */
    this.cards = new Map();
    this.unsubscribe = store.subscribe(() => this.show());
    this.timer = window.setInterval(() => this.show(), 1000);
    try {
      for (const id of JSON.parse(sessionStorage.getItem(kName) ?? '[]').reverse()) this.add(String(id));
    } catch {
      // It was no list.
    }
  }

  close() {
    this.unsubscribe();
    window.clearInterval(this.timer);
    for (const card of this.cards.values()) card.close();
  }

  /** @param {string} id */
  add(id) {
    if (this.cards.has(id)) return;
    const card = new Card(id);
    this.cards.set(id, card);
    this.list.prepend(card.element);
    while (this.cards.size > kMost) this.drop(this.cards.keys().next().value ?? '');
    sessionStorage.setItem(kName, JSON.stringify([...this.cards.keys()].reverse()));
    this.show();
  }

  /** @param {string} id */
  drop(id) {
    const card = this.cards.get(id);
    card?.close();
    card?.element.remove();
    this.cards.delete(id);
  }

  show() {
    if (store.loaded) for (const id of [...this.cards.keys()]) if (!store.videos.has(id)) this.drop(id);
    this.element.hidden = this.cards.size === 0;
    for (const card of this.cards.values()) card.show();
  }
}
