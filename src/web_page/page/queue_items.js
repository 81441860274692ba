// The entries of the queue: a job that waits, one that is being made, and one that has just ended. Each makes its
// element once and then changes what differs, so that focus, pictures and forms stay where they are.
import {copyToMake, keep, pause, remove, resume} from './actions.js';
import {bytes, button, el, iconButton, ordinal, setText} from './dom.js';
import {factsOf, readyIn, shortTitle, stageOf, thumbnail, titleOf} from './job_parts.js';
import {LivePicture, enlarge} from './live_picture.js';
import {store} from './store.js';

/** @typedef {import('./store.js').Video} Video */
/** @typedef {{update: (video: Video, place: number, count: number) => void, element: HTMLElement}} Item */

// Reasons that say no more than the place does.
const kSaidByPlace = /^it (is the next one|waits for its turn)/;

/** @param {string} id */
const now = id => /** @type {Video} */ (store.videos.get(id));

export class WaitingItem {
  /**
   * @param {Video} video
   * @param {{step: (id: string, by: number) => void, edit: (video: Video, item: HTMLElement) => void}} owner
   */
  constructor(video, owner) {
    const id = video.id;
    this.prompt = el('p', {class: 'prompt'});
    this.facts = el('p', {class: 'dim facts'});
    this.state = el('p', {class: 'state'});
    this.grip = iconButton('grip', '', () => {}, {class: 'grip'});
    this.up = iconButton('up', 'Move up', () => owner.step(id, -1));
    this.down = iconButton('down', 'Move down', () => owner.step(id, 1));
    this.edit = iconButton('edit', 'Edit', () => owner.edit(now(id), this.element), {'data-do': 'edit'});
    this.hold = iconButton('pause', 'Hold', () => void (now(id).paused ? resume(id) : pause(id)), {'data-do': 'hold'});
    this.settings = '';
    /** @type {HTMLElement} */
    this.picture = el('div', {class: 'thumb'});
    this.element = el('li', {class: 'job waiting', 'data-id': id}, this.grip, this.picture,
      el('div', {class: 'what'}, this.prompt, this.facts, this.state),
      el('div', {class: 'acts', role: 'group'}, this.up, this.down, this.edit, this.hold,
        iconButton('copy', 'Copy', () => copyToMake(now(id)), {'data-do': 'copy'}),
        iconButton('remove', 'Remove', () => void remove(now(id)), {'data-do': 'remove'})));
  }

  /**
   * @param {Video} video
   * @param {number} place from 0
   * @param {number} count
   */
  update(video, place, count) {
    const settings = video.revision + video.seed;
    if (settings !== this.settings) {
      this.settings = settings;
      setText(this.prompt, titleOf(video));
      setText(this.facts, factsOf(video));
      const picture = thumbnail(video);
      this.picture.replaceWith(picture);
      this.picture = picture;
      this.grip.setAttribute('aria-label', `Move ${shortTitle(video)}: arrow keys, or drag`);
      this.element.querySelector('.acts')?.setAttribute('aria-label', shortTitle(video));
      this.edit.hidden = video.kind !== 'video';
    }
    const ahead = video.queue_position;
    const line = video.paused ? 'On hold' :
        ahead === null        ? 'Waits' :
        ahead === 0           ? 'Next in line' :
                                `${ordinal(ahead + 1)} in line`;
    const ready = video.paused ? '' : readyIn(store.live.get(video.id));
    const why = ahead !== null && kSaidByPlace.test(video.why ?? '') ? '' : video.why;
    setText(this.state, [line, ready, why].filter(text => text).join(' · '));
    const label = video.paused ? 'Let it go on' : 'Hold';
    if (this.hold.title !== label) {
      this.hold.title = label;
      this.hold.setAttribute('aria-label', label);
      this.hold.replaceChildren(iconButton(video.paused ? 'play' : 'pause', '', () => {}).firstChild ?? '');
    }
    this.up.disabled = place === 0;
    this.down.disabled = place === count - 1;
  }
}

export class RunningItem {
  /** @param {Video} video */
  constructor(video) {
    const id = video.id;
    const canvas = el('canvas', {class: 'live', hidden: true});
    this.picture = new LivePicture(id, canvas);
    this.state = el('p', {class: 'state'});
    this.bar = el('progress', {max: 100, value: 0, 'aria-label': `Progress of ${shortTitle(video)}`});
    this.pause = button('Pause', () => void pause(id), {'data-do': 'pause'});
    this.keep = button('Stop and keep', () => void keep(id), {'data-do': 'keep'});
    this.element = el('li', {class: 'job running', 'data-id': id},
        el('button',
            {type: 'button', class: 'preview', 'aria-label': 'Enlarge the preview', onclick: () => void enlarge(id)},
            thumbnail(video), canvas),
        el('div', {class: 'what'}, el('p', {class: 'prompt', text: titleOf(video)}),
            el('p', {class: 'dim facts', text: factsOf(video)}), this.bar, this.state,
            el('div', {class: 'row'}, this.pause, this.keep,
                button('Stop and delete', () => void remove(now(id)), {'data-do': 'remove'}),
                iconButton('copy', 'Copy', () => copyToMake(now(id)), {'data-do': 'copy'}))));
  }

  /** @param {Video} video */
  update(video) {
    const live = store.live.get(video.id), ready = readyIn(live);
    this.picture.show(live?.previews[live.previews.length - 1] ?? '');
    if (this.bar.value !== video.progress) this.bar.value = video.progress;
    setText(this.state, `${stageOf(video, live)}${ready && !live?.asked ? ` · ${ready}` : ''}`);
    const frames = live?.stage === 'decode' && live.done > 0;
    this.pause.disabled = Boolean(live?.asked);
    this.keep.disabled = Boolean(live?.asked) || !frames;
    this.keep.title =
        frames ? 'The frames that are there become the video' : 'No frame is there yet; pause it to go on later';
  }
}

export class EndedItem {
  /** @param {Video} video */
  constructor(video) {
    const id = video.id;
    this.state = el('p', {class: 'state'});
    const picture = thumbnail(video);
    this.element = el('li', {class: 'job ended', 'data-id': id},
        video.status === 'completed' ?
            el('a', {href: `#/gallery/${id}`, 'aria-label': `Look at ${shortTitle(video)}`}, picture) :
            picture,
        el('div', {class: 'what'}, el('p', {class: 'prompt', text: titleOf(video)}),
            el('p', {class: 'dim facts', text: factsOf(video)}), this.state),
        el('div', {class: 'acts', role: 'group', 'aria-label': shortTitle(video)},
            iconButton('copy', 'Copy', () => copyToMake(now(id)), {'data-do': 'copy'}),
            iconButton('remove', 'Remove', () => void remove(now(id)), {'data-do': 'remove'})));
  }

  /** @param {Video} video */
  update(video) {
    const failed = video.status === 'failed', stopped = failed && video.error?.code === 'cancelled';
    const expired = !failed && video.expires_at !== null && video.expires_at * 1000 < Date.now();
    this.state.className = `state ${failed && !stopped ? 'fault' : ''}`;
    setText(this.state, expired ? 'Its file is not kept any longer. Copy it to make it again.' : stopped ? 'Stopped'
      : failed ? `It failed: ${video.error?.message ?? 'nobody knows why'}` : `Ready · ${bytes(video.bytes)}`);
  }
}
