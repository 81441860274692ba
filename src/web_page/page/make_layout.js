// The left side of the form: which fields it has, and in which order.
import {button, el} from './dom.js';
import {AdvancedFields} from './make_advanced.js';
import {FileField} from './make_files.js';
import {field} from './make_form.js';
import {LoraPicker} from './make_loras.js';
import {lengthFields} from './make_measures.js';
import {seedField} from './make_seed.js';

/** @param {import('./make_form.js').Form} form */
export function fileFieldsOf(form) {
  return {
    input_reference: new FileField(form, 'input_reference', {
      label: 'Picture to begin with', kind: 'picture', many: true,
      help: 'Several pictures make a video each, with the same settings.',
    }),
    audio_reference: new FileField(form, 'audio_reference', {label: 'Speech', kind: 'sound'}),
    last_image: new FileField(form, 'last_image', {
      label: 'End frame', kind: 'picture', help: 'The picture that the video ends with.',
    }),
    audio_reference_2: new FileField(form, 'audio_reference_2', {
      label: 'Speech of a second person', kind: 'sound',
      help: 'For a photo of two; “speakers” below says whether both talk at once.',
    }),
  };
}

/**
 * Returns the fields whose empty state shows what the model would take.
 * @param {import('./make_form.js').Form} form
 */
function modelsOwn(form) {
  const steps = el('input', {type: 'number', min: 1, max: 1000});
  const guidance = el('input', {type: 'number', min: 0, max: 100, step: 'any'});
  const negative = el('textarea', {rows: 2});
  form.addEventListener('load', () => {
    steps.placeholder = String(form.model?.defaults?.num_inference_steps ?? '');
    guidance.placeholder = String(form.model?.defaults?.guidance_scale ?? '');
    negative.placeholder = form.model?.defaults?.negative_prompt ?? '';
  });
  return {
    steps: field(form, 'num_inference_steps', 'Steps', steps),
    guidance: field(form, 'guidance_scale', 'Guidance', guidance, {help: '1 or less: off, twice as fast'}),
    negative: field(form, 'negative_prompt', 'Negative prompt', negative,
        {class: 'wide', help: 'What the video should not show.'}),
  };
}

/** @param {import('./make_view.js').MakeView} view */
export function leftOf(view) {
  const {form, files} = view, own = modelsOwn(form), count = el('label', {for: 'make-count', text: 'Videos of each'});
  const video = el('input', {
    type: 'file', id: 'make-settings', accept: 'video/mp4,application/json,.mp4,.json', class: 'unseen',
  });
  video.addEventListener('change', () => { void view.restore(video.files?.[0]), video.value = ''; });
  return el('div', {class: 'panel left'},
      field(form, 'prompt', 'Prompt', el('textarea', {rows: 3}), {class: 'wide'}),
      el('label', {class: 'check'}, view.many, 'Each line is a prompt of its own and makes a video'), view.from,
      files.input_reference.element, files.audio_reference.element, files.last_image.element, view.videos, view.second,
      el('div', {class: 'row top'}, view.models.element, el('div', {class: 'field'}, count, view.count)),
      view.sizes.element, lengthFields(form),
      el('div', {class: 'row top'}, own.steps, own.guidance), seedField(form), own.negative,
      view.parts.element, new LoraPicker(form).element, new AdvancedFields(form).element, view.presets.element,
      el('div', {class: 'row'}, el('label', {for: 'make-settings', class: 'button', text: 'Settings from a video …'}),
          video, button('Empty the form', () => void view.reset())));
}
