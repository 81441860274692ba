// The button that makes the video or videos of the form, and everything that is said around it: what is missing, how
// many are in the queue, and why the server did not take one.
import {ApiFault, sentence} from './api.js';
import {button, el, setText} from './dom.js';
import {atField, freshStamp} from './make_form.js';
import {missing, wishesOf} from './make_request.js';
import {seedAfter} from './make_seed.js';
import {Sender} from './make_send.js';

/** @typedef {(text: string, kind?: 'good' | 'bad', more?: HTMLElement) => void} Say */

export class Submission {
  /**
   * @param {import('./make_form.js').Form} form
   * @param {import('./make_plan.js').PlanLine} plan
   * @param {import('./make_parts.js').Parts} parts
   * @param {(video: import('./store.js').Video) => void} sent
   * @param {Say} say
   */
  constructor(form, plan, parts, sent, say) {
    this.form = form;
    this.plan = plan;
    this.parts = parts;
    this.say = say;
    this.sending = false;
    this.sender = new Sender(form, sent);
    this.send = button('Make the video', () => void this.submit(), {class: 'primary send', 'aria-describedby': 'plan'});
    this.halt = button('Stop sending', () => this.stop(), {hidden: true});
    this.fault = el('p', {class: 'fault', role: 'alert', hidden: true});
    this.element = el('div', {}, el('div', {class: 'row'}, this.send, this.halt), this.fault);
  }

  stop() { this.sender.stop(); }

  show() {
    const all = wishesOf(this.form).length, left = all - this.sender.taken, parts = this.parts.prompts.length;
    const fresh = parts ? `Make the video of ${parts + 1} parts` : all > 1 ? `Make ${all} videos` : 'Make the video';
    const others = left ? `Send the other ${left}` : 'Send the other parts';
    const words = this.sending ? 'Sending …' : this.sender.taken ? others : fresh;
    setText(this.send, words);
    this.send.disabled = this.sending || this.plan.refusal !== '' || !this.form.model;
    this.send.title = this.plan.refusal;
    this.halt.hidden = !this.sending || all < 2;
  }

  async submit() {
    if (this.sending || this.send.disabled) return;
    this.form.clearFaults();
    this.fault.hidden = true;
    const lack = missing(this.form);
    if (lack) {
      this.blame(...lack);
      return;
    }
    this.sending = true;
    this.show();
    const parts = this.parts.prompts, goOn = this.parts.continues;
    try {
      const last = await this.sender.send((done, all) => {
        if (all > 1) this.say(`${done} of ${all} are in the queue.`);
      });
      if (last && parts.length) await this.sender.sendParts(parts, goOn);
      if (last) this.sent(wishesOf(this.form).length, last.seed);
    } catch (fault) {
      this.failed(fault);
    } finally {
      this.sending = false;
      this.show();
    }
  }

  /** @param {number} all @param {number | null} seed */
  sent(all, seed) {
    const {taken} = this.sender;
    if (taken < all) return this.say(`${taken} of ${all} are in the queue; the others were not sent.`);
    this.say(all > 1 ? `All ${all} were put into the queue.` : 'It was put into the queue.', 'good',
        el('a', {href: '#/queue', text: 'See the queue'}));
    this.form.draft.stamp = freshStamp();
    seedAfter(this.form, seed);
  }

  /** @param {unknown} fault */
  failed(fault) {
    const {taken} = this.sender, all = wishesOf(this.form).length, parts = this.sender.parts.length;
    const before = !taken ?
        '' :
        taken < all ?
        `${taken} of ${all} are in the queue, and the other ${all - taken} wait here. ` :
        `${Math.max(parts, 1)} of ${this.parts.prompts.length + 1} parts are in the queue, and the others wait here. `;
    const said = before + sentence(fault), known = fault instanceof ApiFault;
    if (known && fault.nearest) this.plan.refused(fault);
    const room = known && fault.retryAfter ? ` There may be room in ${fault.retryAfter} s.` : '';
    if (known && fault.status === 429)
      this.blame('', `${said}${room} Nothing is lost: send again later.`);
    else if (known && fault.status === 0) this.blame('', `${said} The draft is kept.`);
    else if (!known || !fault.param || !this.blame(fault.param, before + atField(fault))) this.blame('', said);
  }

  /**
   * Says a fault at its field, or at the button. Returns false if there is no such field.
   * @param {string} name
   * @param {string} message
   */
  blame(name, message) {
    if (name) {
      const known = this.form.fault(name, message);
      if (known) document.getElementById(`make-${name}`)?.focus();
      return known;
    }
    this.fault.textContent = message;
    this.fault.hidden = false;
    return true;
  }
}
