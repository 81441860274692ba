// One finished video: the player, what can be done with it, and every setting that it was made with.
import {ApiFault, api, sentence} from './api.js';
import {copyToMake, draft, extend, join, remove} from './actions.js';
import {button, el} from './dom.js';
import {finished, isGone} from './finished.js';
import {download, titleOf} from './gallery_view.js';
import {askJoin} from './join_dialog.js';
import {Player} from './player.js';
import {wholeOf} from './reel.js';
import {factsOf, settingsOf, settingsTable} from './settings_table.js';
import {store} from './store.js';

/** @typedef {import('./store.js').Video} Video */
/** @typedef {import('./reel.js').Part} Part */

const kMostParts = 50;
const kPause = 3000;  // ms between two looks whether it is still there

/**
 * Returns the settings that a file holds, or none where it holds none.
 * @param {Blob | null} file
 * @returns {Promise<Record<string, unknown>>}
 */
export async function settingsInFile(file) {
  if (!file) return {};
  try {
    const {settingsIn} = await import('./mp4_settings.js');
    return await settingsIn(new File([file], 'video.mp4'));
  } catch {
    return {};
  }
}

/**
 * Returns the parts of which a continued video is the last: each up to the frame from which the next one goes on, whose
 * first picture is the same again.
 * @param {Video} video
 * @returns {Promise<Part[]>}
 */
export async function partsOf(video) {
  const parts = [wholeOf(video)];
  for (let now = video; now.extended_from_video_id && parts.length < kMostParts;) {
    /** @type {Video} */
    let source;
    try {
      source = await api('GET', `/v1/videos/${now.extended_from_video_id}`);
    } catch {
      break;
    }
    if (source.status !== 'completed' || source.size !== video.size || source.fps !== video.fps) break;
    if (parts[0].last > 0) parts[0].first = 1;
    parts.unshift({...wholeOf(source), last: now.extended_from_frame ?? wholeOf(source).last});
    now = source;
  }
  return parts;
}

export class VideoDetail extends HTMLElement {
  /** @param {string} id */
  constructor(id = '') {
    super();
    this.videoId = id;
    /** @type {Video | null} */
    this.video = null;
    this.player = new Player();
    this.gone = el('div', {role: 'alert'});
    this.settings = el('section', {'aria-labelledby': 'settings-title'});
    /** @type {Part[]} */
    this.parts = [];
    this.timer = 0;
  }

  async connectedCallback() {
    this.append(el('p', {}, el('a', {href: '#/gallery', text: '‹ Gallery'})));
    try {
      this.video = await api('GET', `/v1/videos/${encodeURIComponent(this.videoId)}`);
    } catch (error) {
      const text = error instanceof ApiFault && error.code === 'not_found' ?
          'There is no such video, or it was removed.' :
          sentence(error);
      if (this.isConnected) this.append(el('h1', {text: 'Not here'}), el('p', {class: 'fault', text}));
      return;
    }
    if (!this.isConnected || !this.video) return;
    if (this.video.status !== 'completed') {
      const text = this.video.status === 'failed' ? `It was not made: ${this.video.error?.message ?? ''}.` :
                                                    'It is not finished yet.';
      this.append(
          el('h1', {text: titleOf(this.video)}), el('p', {text}), el('a', {href: '#/queue', text: 'To the queue'}));
      return;
    }
    await this.showVideo(this.video);
  }

  disconnectedCallback() {
    this.unsubscribe?.();
    window.clearTimeout(this.timer);
  }

  /** @param {Video} video */
  async showVideo(video) {
    this.actions = el('div', {class: 'row', role: 'group', 'aria-label': 'What to do with it'});
    this.origin = el('div');
    this.append(el('h1', {text: titleOf(video), class: 'quote-title'}), this.player, this.gone, this.actions,
        this.origin, this.settings);
    this.tellSettings(video, {});
    this.fillActions(video);
    this.unsubscribe = store.subscribe(ids => {
      if (ids.has(video.id) && !store.videos.has(video.id)) void this.look(video.id);
    });
    this.watch(video.id);
    this.parts = await partsOf(video);
    if (!this.isConnected) return;
    this.tellOrigin(video);
    await this.player.load(this.parts);
    const last = this.player.reel.tapes[this.parts.length - 1];
    if (this.isConnected && last?.file) this.tellSettings(video, await settingsInFile(last.file));
  }

  // The store looks for videos that were removed elsewhere now and then, and knows the newest ones only.
  /** @param {string} id */
  watch(id) {
    this.timer = window.setTimeout(async () => {
      if (!document.hidden) await this.look(id);
      if (this.isConnected && !this.gone.childElementCount) this.watch(id);
    }, kPause);
  }

  /** @param {string} id */
  async look(id) {
    if (!this.isConnected || this.gone.childElementCount || !await isGone(id)) return;
    const file = this.player.reel.file;
    this.actions?.replaceChildren();
    finished.drop(id);
    this.gone.append(el('p', {class: 'fault', text: 'This video was removed elsewhere.'}));
    if (!file) return;
    this.gone.append(
        el('p', {text: 'This page still holds its file, until you leave.'}), button('Save the file', () => {
          const link = el('a', {href: this.player.reel.tapes[0]?.url, download: `${id}.mp4`});
          link.click();
        }));
  }

  /** @param {Video} video @param {Record<string, unknown>} inFile */
  tellSettings(video, inFile) {
    const list = el('dl', {class: 'made-facts'});
    for (const [name, text] of factsOf(video)) list.append(el('dt', {text: name}), el('dd', {text}));
    this.settings.replaceChildren(
        el('h2', {text: 'Settings', id: 'settings-title'}), settingsTable([settingsOf(video, inFile)]), list);
  }

  /** @param {Video} video */
  fillActions(video) {
    const actions = /** @type {HTMLElement} */ (this.actions);
    const goOn = button('Continue from this frame', () => this.goOn(), {id: 'go-on', class: 'primary'});
    const why = el('span', {class: 'dim', id: 'go-on-why'});
    actions.append(goOn, button('Join …', () => void this.joinFromHere(), {id: 'join-here'}),
        video.kind === 'video' ? button('Copy the settings', () => copyToMake(video), {id: 'copy'}) : '',
        button('Compare …', () => this.compare(video), {id: 'compare-with'}),
        button('Download', () => void download(video), {id: 'download'}), button('Remove', async () => {
          if (await remove(video)) finished.drop(video.id), location.hash = '#/gallery';
        }, {id: 'remove'}), why);
    void this.findModel(video).then(model => {
      this.model = model;
      goOn.disabled = model === '';
      why.textContent = model === '' ? 'It cannot be continued: no model of this server begins with a picture.' : '';
    });
  }

  /**
   * Returns the model that can go on from a picture: the video's own, another one, or "" where there is none.
   * @param {Video} video
   * @returns {Promise<string>}
   */
  async findModel(video) {
    try {
      /** @type {any[]} */
      const models = (await api('GET', '/v1/models')).data.filter((/** @type {any} */ model) => model.kind === 'video');
      const takes = (/** @type {any} */ model) => model.takes?.input_reference !== 'no';
      return (models.find(model => model.id === video.model && takes(model)) ?? models.find(takes))?.id ?? '';
    } catch {
      return video.model;
    }
  }

  goOn() {
    const place = this.player.reel.place() ?? (this.video && {video: this.video, frame: wholeOf(this.video).last});
    if (!place) return;
    const more = {from_frame: place.frame, ...(this.model ? {model: this.model} : {})};
    if (place.video.kind === 'video') extend(place.video, more);
    else draft({model: place.video.model, size: place.video.size, ...more, video: {id: place.video.id}});
  }

  async joinFromHere() {
    const place = this.player.reel.place();
    if (!place) return;
    this.player.transport.pause();
    const parts = await askJoin(place.video, place.frame);
    if (parts) await join(parts);
  }

  /** @param {Video} video */
  compare(video) {
    finished.ticked = new Set([video.id]);
    store.notice('Tick the video to compare it with.');
    location.hash = '#/gallery';
  }

  /** @param {Video} video */
  tellOrigin(video) {
    const {parts} = this;
    const from = video.extended_from_video_id, other = video.remixed_from_video_id;
    if (!this.origin || !(from || other)) return;
    const frame = video.extended_from_frame === null ? 'its last frame' : `frame ${video.extended_from_frame}`;
    this.origin.append(el('p', {}, from ? `It continues ` : 'It was made from ',
        el('a', {href: `#/gallery/${from ?? other}`, text: 'another video'}),
        from ? ` from ${frame}.` : ', with another prompt.'));
    if (!from) return;
    if (parts.length === 1) {
      this.origin.append(el('p', {
        class: 'dim',
        text: 'The video that it continues cannot be shown before it: it is gone, or has another size.'
      }));
      return;
    }
    const box = el('input', {type: 'checkbox', checked: true, id: 'from-the-beginning',
      onchange: () => void this.player.load(box.checked ? parts : [wholeOf(video)])});
    this.origin.append(el('div', {class: 'row'}, el('label', {class: 'check'}, box, 'Show it from the beginning'),
        button('Save as one video',
            () => void join(
                parts.map(({video: one, first, last}) => ({id: one.id, first_frame: first, last_frame: last}))),
            {id: 'save-as-one'})));
  }
}
customElements.define('video-detail', VideoDetail);
