// The second person of a talking photo: what that one says, and who is where in the photo, painted on it.
import {sentence} from './api.js';
import {button, el} from './dom.js';
import {faultLine} from './make_form.js';

const kMasks = ['speaker_mask', 'speaker_mask_2'];

/**
 * Returns the masks that go with what is in the form: they are of the one photo, and for two voices.
 * @param {import('./make_form.js').Form} form
 * @returns {string[]} the fields
 */
export function masksOf(form) {
  const fit = form.file('audio_reference_2') && form.files.get('input_reference')?.length === 1;
  return fit ? kMasks : [];
}

export class SecondPerson {
  /**
   * @param {import('./make_form.js').Form} form
   * @param {HTMLElement} voice
   */
  constructor(form, voice) {
    this.form = form;
    this.photo = form.file('input_reference');
    this.paint = button('Paint who is where …', () => void this.ask());
    this.clear = button('Left and right instead', () => this.take([]));
    this.note = el('p', {class: 'help', role: 'status'});
    this.element = el('details', {}, el('summary', {text: 'Two people'}), voice,
        el('div', {class: 'field'}, el('div', {class: 'row'}, this.paint, this.clear), this.note,
            ...kMasks.map(name => faultLine(form, name, this.paint))));
    form.addEventListener('load', () => { this.photo = form.file('input_reference'), this.show(); });
    form.addEventListener('change', () => this.changed());
    this.show();
  }

  /** Masks of another photo mean nothing. */
  changed() {
    const photo = this.form.file('input_reference');
    const other = photo !== this.photo;
    this.photo = photo;
    if (other && this.form.file(kMasks[0])) this.take([]);
    else this.show();
  }

  /** @param {File[]} masks */
  take(masks) { kMasks.forEach((name, at) => this.form.setFiles(name, masks.slice(at, at + 1))); }

  show() {
    const photos = this.form.files.get('input_reference')?.length ?? 0, painted = Boolean(this.form.file(kMasks[0]));
    this.paint.disabled = photos !== 1;
    this.clear.hidden = !painted;
    const text = painted ? 'Both are painted on the photo.' :
        photos > 1       ? 'Who is where can be painted on one photo alone.' :
        photos === 0     ? 'With a photo, you can paint who is where. The first person is on the left otherwise.' :
                           'The first person is on the left, and the second one on the right, unless you paint it.';
    if (this.note.textContent !== text) this.note.textContent = text;
  }

  async ask() {
    const photo = this.form.file('input_reference');
    if (!photo) return;
    try {
      const {paintedMasks} = await import('./mask_dialog.js');
      const masks = await paintedMasks(photo);
      if (masks && photo === this.form.file('input_reference')) this.take(masks);
    } catch (fault) {
      this.form.fault(kMasks[0], sentence(fault));
    }
  }
}
