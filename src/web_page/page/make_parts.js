// Prompts for the parts that follow the first one. A part goes on from the last picture of the part before, if the
// model can begin with a picture; otherwise the parts are cuts of one video.
import {button, el, iconButton} from './dom.js';
import {goesOn, videosOf} from './make_request.js';

export class Parts {
  /** @param {import('./make_form.js').Form} form */
  constructor(form) {
    this.form = form;
    this.list = el('ol', {class: 'parts', start: 2});
    this.note = el('p', {class: 'help', id: 'parts-note'});
    this.add = button('Add a part', () => {
      form.draft.parts.push('');
      this.changed();
      /** @type {HTMLElement | null} */ (this.list.querySelector('li:last-child textarea'))?.focus();
    }, {'aria-describedby': 'parts-note'});
    this.element = el('details', {class: 'parts-box'}, el('summary', {text: 'Parts with prompts of their own'}),
        this.list, this.add, this.note);
    form.addEventListener('load', () => this.show());
    form.addEventListener('change', () => this.explain());
  }

  /** Why there can be no parts now; "" if there can. */
  get refusal() {
    const form = this.form;
    if (form.draft.mode === 'talk') return 'A talking photo is one part: it follows its speech, however long that is.';
    if (form.file('last_image') && form.draft.mode === 'picture')
      return 'An end frame belongs to a single clip. Remove it to add parts.';
    if (form.model?.takes?.last_image === 'required')
      return `${form.model.id} goes from one picture to another, so its videos have no parts.`;
    if (form.draft.manyPrompts || form.draft.count > 1 || (form.files.get('input_reference')?.length ?? 0) > 1)
      return 'Several videos at once have no parts.';
    if (videosOf(form).length) return 'A video or a reference belongs to a single clip. Remove it to add parts.';
    if (goesOn(form)) return 'This video goes on from another one already.';
    return '';
  }

  /** The prompts of the further parts. */
  get prompts() { return this.refusal ? [] : this.form.draft.parts.map(text => text.trim()).filter(text => text); }

  /** Whether a part begins with the last picture of the one before. */
  get continues() { return (this.form.model?.takes?.input_reference ?? 'no') !== 'no'; }

  changed() {
    this.form.changed('parts');
    this.show();
  }

  show() {
    this.list.replaceChildren(...this.form.draft.parts.map((text, index) => this.row(text, index)));
    if (this.form.draft.parts.length) this.element.open = true;
    this.explain();
  }

  explain() {
    const refusal = this.refusal, id = this.form.model?.id ?? 'this model';
    this.add.disabled = refusal !== '';
    for (const area of this.list.querySelectorAll('textarea')) area.disabled = refusal !== '';
    this.note.textContent = refusal ||
        (this.continues ?
                'Each part goes on from the last picture of the one before, and at the end they become one video. ' +
                    'All of it is put into the queue at once.' :
                `${id} cannot begin with a picture, so the parts are cuts: each is made from its prompt, ` +
                    'and at the end they become one video.');
  }

  /** @param {string} text @param {number} index */
  row(text, index) {
    const area = el('textarea', {rows: 2, 'aria-label': `Prompt of part ${index + 2}`});
    area.value = text;
    area.addEventListener('input', () => { this.form.draft.parts[index] = area.value, this.form.changed('parts'); });
    return el('li', {}, el('div', {class: 'beside'}, area, iconButton('close', `Remove part ${index + 2}`, () => {
      this.form.draft.parts.splice(index, 1), this.changed();
    })));
  }
}
