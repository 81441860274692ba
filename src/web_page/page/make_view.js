// The view `make`: a form that fits the model that is chosen. It says beforehand what a video would take, sends one or
// many, and shows what becomes of them.
import {ApiFault, sentence} from './api.js';
import {button, el, setText, stylesheet} from './dom.js';
import {isOfKind} from './make_files.js';
import {Form, faultLine, kFileFields} from './make_form.js';
import {keepDraft, keepFiles, keptDraft, keptFiles} from './make_keeper.js';
import {fileFieldsOf, leftOf} from './make_layout.js';
import {SizeChoice} from './make_measures.js';
import {ModelChoice} from './make_models.js';
import {Parts} from './make_parts.js';
import {PlanLine} from './make_plan.js';
import {PresetBar} from './make_presets.js';
import {goesOn, videosOf} from './make_request.js';
import {Results} from './make_results.js';
import {SecondPerson} from './make_speakers.js';
import {Submission} from './make_submit.js';
import {store} from './store.js';

await stylesheet('make.css');

const applying = () => import('./make_apply.js');

/**
 * The prompt of a first visit, with which the models that ship make something good.
 * @type {Record<string, string>}
 */
const kExamples = {text: 'a red circle moves right', picture: 'it begins to move', talk: 'a person talks and nods'};

const kUsable = 'A video that was made here brings its settings; pictures and sounds find their places.';

export class MakeView extends HTMLElement {
  constructor() {
    super();
    /** @type {string[]} */
    this.route = [];
    /** @type {File[]} */
    this.given = [];
    const form = this.form = new Form();
    this.ready = false;
    this.note = el('div', {class: 'note', role: 'status'});
    this.models = new ModelChoice(form, (text, kind) => this.say(text, kind));
    this.sizes = new SizeChoice(form);
    /** @type {PlanLine} */
    this.plan = new PlanLine(form, this.sizes, () => this.submission.show());
    this.results = new Results();
    this.parts = new Parts(form);
    this.presets = new PresetBar(form, fields => this.apply(fields), (text, kind) => this.say(text, kind));
    this.files = fileFieldsOf(form);
    this.many = el('input', {type: 'checkbox', id: 'many-prompts'});
    this.many.addEventListener('change', () => {
      form.draft.manyPrompts = this.many.checked, form.changed('manyPrompts');
    });
    this.count = el('input', {type: 'number', id: 'make-count', min: 1, max: 100, value: 1});
    this.count.addEventListener('input', () => {
      form.draft.count = Math.min(100, Math.max(1, Math.round(this.count.valueAsNumber) || 1)), form.changed('count');
    });
    this.from = el('div', {class: 'from', hidden: true}, el('p'), button('Begin anew', () => {
      form.set('from_frame', ''), form.set('video', '');
    }), faultLine(form, 'extended'), faultLine(form, 'from_frame'));
    // The places for videos and references are made when somebody opens them.
    this.videos = el('details', {id: 'make-videos', hidden: true, ontoggle: () => void this.showVideos()},
        el('summary', {text: 'Videos and references'}));
    /** @type {Submission} */
    this.submission = new Submission(form, this.plan, this.parts, video => this.results.add(video.id),
        (text, kind, more) => this.say(text, kind, more));
    this.second = new SecondPerson(this.form, this.files.audio_reference_2.element).element;
  }

  connectedCallback() {
    this.append(el('h1', {text: 'Make a video'}), this.models.tablist, this.models.reason,
        el('div', {class: 'make', id: 'make-panel', role: 'tabpanel'}, leftOf(this), el('div', {class: 'right'},
            el('div', {class: 'panel'}, this.plan.element, this.submission.element, this.note), this.results.element)));
    this.addEventListener('keydown', event => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void this.submission.submit();
    });
    this.form.addEventListener('change', event => this.changed(/** @type {CustomEvent} */ (event).detail));
    this.form.addEventListener('load', () => this.show());
    void this.start();
  }

  disconnectedCallback() {
    this.plan.close();
    this.results.close();
    for (const one of Object.values(this.files)) one.close();
    this.submission.stop();
  }

  async start() {
    const kept = keptDraft(), handed = sessionStorage.getItem('draft');
    try {
      const [, preset, files] = await Promise.all([this.models.ask(), this.presets.ask(), keptFiles(kept)]);
      if (!this.isConnected) return;
      if (kept) this.form.take(kept), this.form.files = files;
      else if (preset) await (await applying()).applyFields(this.form, this.models, preset);
      if (!kept && !this.form.draft.values.prompt) this.form.draft.values.prompt = kExamples.text;
      if (handed) await this.handed(handed);
      else if (!kept && !this.form.draft.models.text && this.form.models.length)
        await this.models.take(this.form.models[0].id);
      for (const mode of /** @type {const} */ ([this.form.draft.mode, 'text', 'picture', 'talk']))
        if (await this.models.choose(mode)) break;
      this.ready = true;
      keepDraft(this.form.draft);
      this.dataset.ready = 'yes';
      void this.models.learn();
      if (this.given.length) await this.use(this.given.splice(0));
    } catch (fault) {
      if (fault instanceof ApiFault && fault.status === 401) return;
      this.say(sentence(fault), 'bad');
      window.setTimeout(() => { if (this.isConnected && !this.ready) void this.start(); }, 2000);
    }
  }

  /**
   * Takes fields that another view has handed over.
   * @param {string} text
   */
  async handed(text) {
    sessionStorage.removeItem('draft');
    /** @type {Record<string, any>} */
    let fields = {};
    try {
      fields = JSON.parse(text);
    } catch {
      return;
    }
    this.offerUndo('The settings of the other video are in the form.');
    this.form.take({mode: this.form.draft.mode, models: this.form.draft.models});
    this.form.files = new Map();
    await (await applying()).applyFields(this.form, this.models, fields, Boolean(fields.video));
  }

  /**
   * Says that the form was filled anew, with a way back.
   * @param {string} text
   */
  offerUndo(text) {
    const draft = structuredClone(this.form.draft), files = new Map(this.form.files);
    this.say(text, 'good', button('Undo', () => {
      this.form.take(draft), this.form.files = files;
      this.form.loaded(), this.form.changed('applied');
      this.note.replaceChildren();
    }));
  }

  /** @param {Record<string, any>} fields */
  async apply(fields) {
    this.offerUndo('The preset is in the form.');
    await (await applying()).applyFields(this.form, this.models, fields);
  }

  async reset() { await (await applying()).emptyForm(this); }

  /** @param {File | undefined} file */
  async restore(file) { if (file) await (await applying()).restoreFrom(this, file); }

  /**
   * Finds the place of files that were dropped beside the places for files.
   * @param {File[]} files
   */
  async use(files) {
    const settings = files.find(
        file => file.type === 'video/mp4' || file.type === 'application/json' || /\.(mp4|json)$/i.test(file.name));
    if (settings) return this.restore(settings);
    const sound = files.every(file => isOfKind(file, 'sound')),
          picture = files.every(file => isOfKind(file, 'picture'));
    if (!sound && !picture)
      return this.say(`${files[0].name} is nothing that can be used here. ${kUsable}`,
          'bad');
    if (this.form.draft.mode === 'text' && !await this.models.choose(sound ? 'talk' : 'picture') &&
        !(picture && await this.models.choose('talk')))
      return;
    this.files[sound ? 'audio_reference' : 'input_reference'].take(files);
  }

  /** @param {string} name */
  changed(name) {
    if (kFileFields.includes(name)) void keepFiles(name, this.form.files.get(name) ?? []);
    if (name === 'applied') for (const each of kFileFields) void keepFiles(each, this.form.files.get(each) ?? []);
    if (this.ready) keepDraft(this.form.draft);
    this.submission.fault.hidden = true;
    this.submission.show();
    this.showFrom();
  }

  show() {
    const {mode, manyPrompts, count} = this.form.draft, {prompt} = this.form.draft.values;
    if (prompt !== kExamples[mode] && Object.values(kExamples).includes(prompt))
      this.form.set('prompt', kExamples[mode]);
    const takes = this.form.model?.takes ?? {};
    this.many.checked = manyPrompts;
    if (document.activeElement !== this.count) this.count.value = String(count);
    document.getElementById('make-panel')?.setAttribute('aria-labelledby', `tab-${mode}`);
    this.files.audio_reference.element.hidden = this.second.hidden = mode !== 'talk';
    const label = this.files.input_reference.element.querySelector('label');
    if (label) setText(label, mode === 'talk' ? 'Photo' : 'Picture to begin with');
    void this.showVideos();
    const none = takes.last_image === 'no';
    this.files.last_image.element.hidden = mode === 'text';
    this.files.last_image.input.disabled = none;
    this.files.last_image.element.title = none ? `${this.form.model?.id} takes no end frame.` : '';
    this.files.last_image.element.classList.toggle('refused', none);
    const help = this.files.last_image.element.querySelector('.help');
    if (help)
      setText(help,
          none ? `${this.form.model?.id} takes no end frame. Wan2.1-FLF2V and Wan2.2-I2V-A14B do.` :
                 'The picture that the video ends with.');
    this.showFrom();
    this.submission.show();
  }

  async showVideos() {
    const {videos, form} = this;
    videos.hidden = form.draft.mode === 'talk' || form.model?.takes?.video !== 'optional';
    if (videos.hidden || !videos.open && !videosOf(form).length) return;
    const {VideoFields} = await import('./make_videos.js');
    if (videos.children[1]) return;
    videos.append(new VideoFields(form).element);
    videos.open = true;
  }

  showFrom() {
    const on = goesOn(this.form);
    this.from.hidden = !on;
    const frame = this.form.get('from_frame'), id = this.form.get('video'), prompt = store.videos.get(id)?.prompt;
    setText(/** @type {HTMLElement} */ (this.from.firstElementChild),
        `It goes on from ${frame ? `frame ${frame}` : 'the last picture'} of ` +
            (prompt ? `“${prompt.slice(0, 80)}”.` : `${id}.`));
    this.files.input_reference.element.hidden = on || this.form.draft.mode === 'text';
  }

  /** @param {string} text @param {'good' | 'bad'} [kind] @param {HTMLElement} [more] */
  say(text, kind, more) {
      this.note.replaceChildren(el('p', {class: kind === 'bad' ? 'fault' : kind ?? ''}, text, ' ', more)); }
}
customElements.define('make-view', MakeView);
