// The controls of a player: steps from frame to frame, play, a slider, speed. They drive one reel, or several in
// step: all show the same number of a frame, and one that is shorter stays at its last.
import {button, el, icon, setText} from './dom.js';

/** @typedef {import('./reel.js').Reel} Reel */

const kSpeeds = [0.25, 0.5, 1, 2];
const kTyping = 'input:not([type=range]):not([type=checkbox]), textarea, select, dialog *';

export class Transport extends HTMLElement {
  constructor() {
    super();
    /** @type {Reel[]} */
    this.reels = [];
    this.keys = (/** @type {KeyboardEvent} */ event) => this.press(event);
    this.slider = el('input', {
      type: 'range',
      min: 0,
      max: 0,
      value: 0,
      step: 1,
      'aria-label': 'Frame',
      oninput: () => void this.seek(Number(this.slider.value))
    });
    this.readout = el('output', {class: 'frame', 'aria-live': 'off'});
    this.toggle = button('', () => void (this.playing ? this.pause() : this.play()), {class: 'icon play'});
    const step = (/** @type {string} */ sign, /** @type {string} */ label, /** @type {() => void} */ act) =>
        button(sign, act, {'aria-label': label, title: label, class: 'icon'});
    this.speed = el('select', {'aria-label': 'Speed', onchange: () => this.setSpeed()},
      ...kSpeeds.map(rate => el('option', {value: rate, selected: rate === 1, text: `${rate}×`})));
    this.loop = el('input', {
      type: 'checkbox',
      onchange: () => this.reels.forEach(reel => {
        reel.loop = this.loop.checked;
      })
    });
    this.bar = el('div', {class: 'row', role: 'group', 'aria-label': 'Player'},
      step('|‹', 'First frame (Home)', () => void this.seek(0)),
      step('‹', 'One frame back (,)', () => void this.step(-1)),
      this.toggle,
      step('›', 'One frame on (.)', () => void this.step(1)),
      step('›|', 'Last frame (End)', () => void this.seek(this.frames - 1)),
      this.readout,
      el('label', {class: 'check'}, this.loop, 'Again and again'), this.speed);
  }

  connectedCallback() {
    this.append(this.slider, this.bar);
    document.addEventListener('keydown', this.keys);
    this.tell();
  }

  disconnectedCallback() {
    document.removeEventListener('keydown', this.keys);
    this.replaceChildren();
  }

  /** The longest one that can be played. */
  get leader() {
    const sound = this.reels.filter(reel => !reel.fault);
    return sound.reduce((a, b) => b.frames > a.frames ? b : a, sound[0] ?? this.reels[0]);
  }
  get frames() { return this.leader?.frames ?? 0; }
  get frame() { return this.leader?.frame ?? 0; }
  get playing() { return this.reels.some(reel => reel.playing); }

  /** @param {Reel[]} reels */
  drive(reels) {
    this.reels = reels;
    for (const reel of reels) {
      reel.addEventListener('frame', () => this.follow(reel));
      reel.addEventListener('state', () => this.settle(reel));
      reel.addEventListener('fault', () => this.tell());
    }
    this.tell();
  }

  /** @param {number} frame */
  async seek(frame) {
    if (this.playing) this.pause();
    const wanted = Math.max(0, Math.min(this.frames - 1, frame));
    await Promise.all(this.reels.map(reel => reel.seek(wanted)));
    this.tell();
  }

  /** @param {number} count */
  step(count) { return this.seek(this.frame + count); }

  async play() {
    this.setSpeed();
    const {leader} = this;
    if (!leader || leader.fault) return;
    if (leader.frame >= leader.frames - 1) await Promise.all(this.reels.map(reel => reel.seek(0)));
    for (const reel of this.reels) if (reel === leader || reel.frame < reel.frames - 1) void reel.play();
  }

  pause() {
    for (const reel of this.reels) reel.pause();
  }

  setSpeed() {
    const rate = Number(this.speed.value);
    for (const reel of this.reels) {
      reel.rate = rate * (this.leader.fps / reel.fps);
      if (reel.picture) reel.picture.playbackRate = reel.rate;
    }
  }

  // Each reel is played by the browser's clock; one that has got away from the leader by more than a frame is brought
  // back.
  /** @param {Reel} reel */
  follow(reel) {
    if (reel !== this.leader) return;
    if (this.playing)
      for (const other of this.reels) {
        const right = Math.min(reel.frame, other.frames - 1);
        if (other !== reel && Math.abs(other.frame - right) > 1 && !other.seeking) void other.seek(right);
      }
    this.tell();
  }

  // Whoever stops stops at the leader's frame.
  /** @param {Reel} reel */
  settle(reel) {
    if (reel === this.leader && !reel.playing)
      for (const other of this.reels) {
        if (other === reel) continue;
        other.pause();
        void other.seek(Math.min(reel.frame, other.frames - 1));
      }
    this.tell();
  }

  tell() {
    const {frame, frames, playing, leader} = this;
    const there = frames > 0 && !this.reels.every(reel => reel.fault);
    for (const control of this.querySelectorAll('button, input, select')) /** @type {HTMLInputElement} */
      (control).disabled = !there;
    this.slider.max = String(Math.max(0, frames - 1));
    this.slider.value = String(frame);
    const text = `Frame ${frame} of 0 to ${Math.max(0, frames - 1)}`;
    this.slider.setAttribute('aria-valuetext', text);
    setText(this.readout, there ? `${frame} / ${frames - 1} · ${(frame / leader.fps).toFixed(2)} s` : '');
    const label = playing ? 'Stop (space)' : 'Play (space)';
    if (this.toggle.title !== label) {
      this.toggle.title = label;
      this.toggle.setAttribute('aria-label', label);
      this.toggle.replaceChildren(icon(playing ? 'pause' : 'play'));
    }
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    const at = event.target instanceof Element ? event.target : document.body;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || at.closest(kTyping) || !this.frames)
      return;
    const {key} = event;
    if (key === ',' || key === '.') void this.step(key === '.' ? 1 : -1);
    else if (key === ' ' && !at.closest('button, a, input, summary')) void (this.playing ? this.pause() : this.play());
    else if ((key === 'Home' || key === 'End') && !at.closest('input'))
      void this.seek(key === 'Home' ? 0 : this.frames - 1);
    else return;
    event.preventDefault();
  }
}
customElements.define('video-transport', Transport);
