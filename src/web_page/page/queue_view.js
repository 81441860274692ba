// The queue: what is being made, with its previews; what waits, in an order that can be changed; and what has just
// ended.
import {ApiFault, api, sentence} from './api.js';
import {move} from './actions.js';
import {el, ordinal, setText, stylesheet} from './dom.js';
import {EditForm, keptEdits} from './edit_form.js';
import {EndedItem, RunningItem, WaitingItem} from './queue_items.js';
import {sortable} from './sortable.js';
import {hasEnded, store} from './store.js';

/** @typedef {import('./store.js').Video} Video */
/** @typedef {import('./queue_items.js').Item} Item */

const kMostEnded = 8;
await stylesheet('queue.css');

export class QueueView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
    /** @type {Map<string, Item>} */
    this.items = new Map();
    /** @type {Map<string, EditForm>} */
    this.edits = new Map();
    this.dragging = false;
    this.moving = Promise.resolve();
    this.unsubscribe = () => {};
    this.timer = 0;
    this.running = el('ul', {class: 'jobs'});
    this.waiting = el('ol', {class: 'jobs'});
    this.ended = el('ul', {class: 'jobs'});
    this.lost = el('div', {class: 'jobs'});
    this.nothing = el('p', {class: 'dim', hidden: true});
    this.more = el('p', {class: 'dim', text: `More wait than the ${1000} that are listed here.`, hidden: true});
  }

  connectedCallback() {
    const section = (/** @type {string} */ title, /** @type {string} */ id, /** @type {Node[]} */ ...parts) =>
      el('section', {'aria-labelledby': id, id: `${id}-section`}, el('h2', {id, text: title}), ...parts);
    this.append(el('h1', {text: 'Queue'}), this.addForm(), this.nothing,
        section('Being made', 'being-made', this.running), section('Waiting', 'waiting-jobs', this.waiting, this.more),
        section('Not saved', 'not-saved', this.lost), section('Just ended', 'just-ended', this.ended));
    sortable(this.waiting, {
      drop: (id, before) => this.drop(id, before),
      step: (id, by) => this.step(id, by),
      dragging: dragging => {
        this.dragging = dragging;
        if (!dragging) this.sync();
      }});
    for (const id of keptEdits()) this.openEdit(EditForm.kept(id, () => this.closeEdit(id)));
    this.unsubscribe = store.subscribe(() => this.sync());
    this.timer = window.setInterval(() => this.tick(), 1000);
    this.sync();
  }

  disconnectedCallback() {
    this.unsubscribe();
    window.clearInterval(this.timer);
  }

  // One more job, without leaving the view: a prompt, with the defaults of the model or of the visitor.
  addForm() {
    const prompt = el('input', {id: 'add-prompt', required: true, placeholder: 'A prompt', autocomplete: 'off'});
    const fault = el('p', {class: 'fault', role: 'alert'}),
          add = el('button', {type: 'submit', class: 'primary', text: 'Add'});
    const send = async () => {
      add.disabled = true;
      setText(fault, '');
      try {
        const presets = (await api('GET', '/v1/presets')).data;
        const usual = presets.some((/** @type {any} */ preset) => preset.id === 'default' && !preset.built_in);
        store.put(await api('POST', '/v1/videos', {prompt: prompt.value, ...(usual ? {preset: 'default'} : {})}));
        prompt.value = '';
      } catch (error) {
        const full = error instanceof ApiFault && error.status === 429;
        setText(fault,
            full ? `The queue is full. Your prompt stays here; there may be room in ${error.retryAfter} s.` :
                   sentence(error));
      }
      add.disabled = false;
      prompt.focus();
    };
    return el('form', {class: 'panel add', onsubmit: (/** @type {Event} */ event) => {
      event.preventDefault();
      void send();
    }}, el('label', {for: 'add-prompt', text: 'Add to the queue'}), el('div', {class: 'row'}, prompt, add), fault);
  }

  sync() {
    if (this.dragging) return;
    const focused = document.activeElement;
    const running = store.running(), waiting = store.waiting();
    const ended = [...store.videos.values()]
                      .filter(hasEnded)
                      .sort((a, b) => (b.ended_at ?? 0) - (a.ended_at ?? 0) || (a.id < b.id ? -1 : 1))
                      .slice(0, kMostEnded);
    const there = new Set();
    this.fill(this.running, running, there, 'running', video => new RunningItem(video));
    this.fill(this.waiting, waiting, there, 'waiting', video => new WaitingItem(video, {
      step: (id, by) => this.step(id, by),
      edit: one => this.openEdit(new EditForm(one, () => this.closeEdit(one.id)))}));
    this.fill(this.ended, ended, there, 'ended', video => new EndedItem(video));
    for (const name of [...this.items.keys()]) if (!there.has(name)) this.items.delete(name);
    this.placeEdits();
    for (const list of [this.running, this.waiting, this.ended, this.lost]) /** @type {HTMLElement} */
      (list.parentElement).hidden = !list.childElementCount;
    this.more.hidden = !store.more || waiting.length < 1000;
    this.nothing.hidden = !store.loaded || running.length + waiting.length > 0;
    setText(this.nothing,
        store.loaded ? 'Nothing waits. Add a prompt here, or make a video with all settings under Make.' : '');
    if (focused instanceof HTMLElement && focused !== document.activeElement && this.contains(focused)) focused.focus();
  }

  /**
   * Makes the list's entries those of the videos, in their order.
   * @param {HTMLElement} list
   * @param {Video[]} videos
   * @param {Set<string>} there
   * @param {string} kind
   * @param {(video: Video) => Item} make
   */
  fill(list, videos, there, kind, make) {
    const elements = videos.map((video, place) => {
      const name = `${kind} ${video.id}`;
      let item = this.items.get(name);
      if (!item) this.items.set(name, item = make(video));
      there.add(name);
      item.update(video, place, videos.length);
      return item.element;
    });
    const wanted = new Set(elements);
    for (const child of [...list.children]) if (!wanted.has(/** @type {any} */ (child))) child.remove();
    elements.forEach((element, i) => {
      if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null);
    });
  }

  tick() {
    for (const [kind, list] of /** @type {[string, Video[]][]} */ (
             [['running', store.running()], ['waiting', store.waiting()]]))
      list.forEach((video, place) => this.items.get(`${kind} ${video.id}`)?.update(video, place, list.length));
  }

  /** @param {EditForm | null} form */
  openEdit(form) {
    if (!form) return;
    const known = this.edits.get(form.video.id);
    if (!known) this.edits.set(form.video.id, form);
    this.placeEdits();
    (known ?? form).focus();
  }

  /** @param {string} id */
  closeEdit(id) {
    this.edits.delete(id);
    const item = this.items.get(`waiting ${id}`);
    this.sync();
    /** @type {HTMLElement | null | undefined} */ (item?.element.querySelector('[data-do=edit]'))?.focus();
  }

  // A form stays with its job while that waits, and alone when it has begun or is gone: what was typed is not lost.
  placeEdits() {
    for (const [id, form] of this.edits) {
      const home = this.items.get(`waiting ${id}`)?.element ?? (store.loaded ? this.lost : null);
      if (!home || form.element.parentElement === home) continue;
      const focused = document.activeElement;
      home.append(form.element);
      if (focused instanceof HTMLElement && form.element.contains(focused)) focused.focus();
      if (home === this.lost) form.late('This job does not wait any more. What you have typed is still here.');
    }
  }

  /**
   * @param {string} id
   * @param {string} before
   */
  drop(id, before) {
    const line = store.waiting().map(video => video.id), at = line.indexOf(id);
    if (before === (line[at + 1] ?? '')) return;  // it is where it was
    this.moving = this.moving.then(() => this.moveTo(id, before));
  }

  /**
   * @param {string} id
   * @param {number} by
   */
  step(id, by) {
    this.moving = this.moving.then(async () => {
      const line = store.waiting().map(video => video.id), at = line.indexOf(id);
      const to = Math.min(line.length - 1, Math.max(0, at + by));
      if (at < 0 || to === at) return;
      await this.moveTo(id, (to < at ? line[to] : line[to + 1]) ?? '');
    });
  }

  /**
   * @param {string} id
   * @param {string} before
   */
  async moveTo(id, before) {
    if (!await move(id, before)) return;
    await store.refresh();
    const at = store.waiting().findIndex(video => video.id === id);
    if (at >= 0) store.notice(`It is ${ordinal(at + 1)} in line now.`);
  }
}
customElements.define('queue-view', QueueView);
