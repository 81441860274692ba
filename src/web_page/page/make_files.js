// A place for a file of the form: chosen, dropped, pasted, recorded or cropped, with a preview of it.
import {button, bytes, el} from './dom.js';
import {faultLine} from './make_form.js';

/** @typedef {'picture' | 'sound' | 'video'} Kind */
/** @typedef {{label: string, kind: Kind, many?: boolean, help?: string, more?: Node}} Wanted */

const kGrace = 10000;  // ms
const kPictures = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];

const kTypes = {picture: kPictures.join(), sound: 'audio/*,video/*', video: 'video/*,image/gif'};
const kUsable = {
  picture: 'picture that can be used. PNG, JPEG, WebP and GIF can.',
  sound: 'sound. WAV, MP3, M4A, FLAC, OGG and videos with sound can be used.',
  video: 'video. MP4, MOV, MKV, WebM, AVI and GIF can be used.'
};

/** @param {File} file @param {Kind} kind */
export const isOfKind = (file, kind) => kind === 'picture' ? kPictures.includes(file.type) :
    kind === 'video'                                       ? /^video\/|\/gif$|\/x-matroska$/.test(file.type) :
                                                             /^(audio|video)\//.test(file.type);

/**
 * Says why a file of another kind cannot be taken.
 * @param {File} file
 * @param {Kind} kind
 */
export const wrongKind = (file, kind) => `${file.name} is no ${kUsable[kind]}`;

export class FileField {
  /**
   * @param {import('./make_form.js').Form} form
   * @param {string} name
   * @param {Wanted} wanted
   */
  constructor(form, name, wanted) {
    this.form = form;
    this.name = name;
    this.wanted = wanted;
    /** @type {Map<File, string>} addresses of the files that are shown */
    this.urls = new Map();
    this.input = el('input', {
      type: 'file',
      id: `make-${name}`,
      multiple: wanted.many,
      accept: kTypes[wanted.kind] + (name === 'mask_video' ? `,${kTypes.picture}` : ''),
      'aria-describedby': `fault-${name}`
    });
    this.input.addEventListener('change', () => { this.take([...this.input.files ?? []]), this.input.value = ''; });
    this.shown = el('div', {class: 'shown'});
    this.actions = el('div', {class: 'row'});
    this.element = el('div', {class: 'field drop wide'},
        el('label',
            {for: this.input.id, text: wanted.label
            }),
        this.input, this.shown, this.actions, wanted.help ? el('p', {class: 'help', text: wanted.help}) : null,
        wanted.more,
        faultLine(form, name, this.input));
    this.element.addEventListener('dragover', event => { event.preventDefault(), this.element.classList.add('over'); });
    this.element.addEventListener('dragleave', () => this.element.classList.remove('over'));
    this.element.addEventListener('drop', event => this.dropped(event));
    form.addEventListener('load', () => this.show());
    form.addEventListener('change', event => { if (/** @type {CustomEvent} */ (event).detail === name) this.show(); });
    this.show();
  }

  get files() { return this.form.files.get(this.name) ?? []; }

  /** @param {DragEvent} event */
  dropped(event) {
    this.element.classList.remove('over');
    const files = [...event.dataTransfer?.files ?? []];
    if (!files.length) return;
    event.preventDefault();
    event.stopPropagation();
    this.take(files);
  }

  /**
   * Takes what fits and says what does not.
   * @param {File[]} files
   */
  take(files) {
    const fits = (/** @type {File} */ file) => isOfKind(file, this.wanted.kind) ||
        this.name === 'mask_video' && isOfKind(file, 'picture');  // one mask for all frames
    const good = files.filter(fits), bad = files.find(file => !good.includes(file));
    if (good.length) this.form.setFiles(this.name, this.wanted.many ? [...this.files, ...good] : good.slice(0, 1));
    if (bad) this.form.fault(this.name, wrongKind(bad, this.wanted.kind));
    else if (!this.wanted.many && good.length > 1)
      this.form.fault(this.name, `Only one file has room here; the first one is taken.`);
  }

  close() { this.release([...this.urls.keys()]); }

  // A picture that is just being loaded would fail if its address went at once.
  /** @param {File[]} files */
  release(files) {
    for (const file of files) {
      const url = this.urls.get(file);
      if (url) window.setTimeout(() => URL.revokeObjectURL(url), kGrace);
      this.urls.delete(file);
    }
  }

  show() {
    const {files} = this, shown = [...this.urls.keys()];
    this.actions.replaceChildren();
    if (this.wanted.kind === 'sound') this.actions.append(button('Record', () => void this.record()));
    if (files.length === shown.length && files.every((file, index) => file === shown[index])) return;
    this.release(shown);
    this.shown.replaceChildren(...files.map((file, index) => this.preview(file, index)));
    this.element.classList.toggle('filled', files.length > 0);
  }

  /** @param {File} file @param {number} index */
  preview(file, index) {
    const url = URL.createObjectURL(file);
    this.urls.set(file, url);
    const picture = isOfKind(file, 'picture');
    const view = picture ? el('img', {src: url, alt: file.name}) :
                           el(this.wanted.kind === 'video' ? 'video' : 'audio',
                               {src: url, controls: true, muted: true, 'aria-label': file.name});
    view.addEventListener('error',
        () => this.form.fault(this.name,
            `${file.name} cannot be shown: it may be broken, or of a kind that this browser does not know.`));
    return el('figure', {}, view, el('figcaption', {text: `${file.name}, ${bytes(file.size)}`}),
        el('div', {class: 'row'},
            this.wanted.kind === 'picture' ? button('Crop', () => void this.crop(file, index), {'aria-label': `Crop ${file.name}`}) : null,
            button('Remove', () => this.form.setFiles(this.name, this.files.filter(other => other !== file)),
                {'aria-label': `Remove ${file.name}`})));
  }

  /** @param {File} file @param {number} index */
  async crop(file, index) {
    const {cropInto} = await import('./crop_dialog.js');
    await cropInto(this, file, index);
  }

  async record() {
    const {recordInto} = await import('./voice_recorder.js');
    await recordInto(this);
  }
}
