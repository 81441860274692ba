// The places for what a clip takes of videos: one to begin with and how much of it is made anew, one to follow, a mask,
// and pictures of what is to be seen. Each is shown only if the model takes it. They are loaded when a model does.
import {sentence} from './api.js';
import {button, el} from './dom.js';
import {FileField} from './make_files.js';
import {field} from './make_form.js';
import {goesOn} from './make_request.js';

/** @typedef {import('./make_form.js').Form} Form */

/**
 * Returns the first picture of a video, or the picture itself.
 * @param {File} file
 * @returns {Promise<File>}
 */
async function firstPicture(file) {
  if (file.type.startsWith('image/')) return file;
  const url = URL.createObjectURL(file), video = el('video', {src: url, muted: true, preload: 'auto'});
  try {
    await new Promise((resolve, reject) => {
      video.addEventListener('loadeddata', resolve);
      video.addEventListener('error', () => reject(new Error(`${file.name} cannot be shown by this browser.`)));
    });
    const canvas = el('canvas', {width: video.videoWidth, height: video.videoHeight});
    canvas.getContext('2d')?.drawImage(video, 0, 0);
    const blob = await new Promise(resolve => canvas.toBlob(resolve, 'image/png'));
    return new File([blob ?? ''], 'frame.png', {type: 'image/png'});
  } finally {
    URL.revokeObjectURL(url);
  }
}

export class VideoFields {
  /** @param {Form} form */
  constructor(form) {
    this.form = form;
    this.paint = button('Paint a mask …', () => void this.ask());
    /** @type {Record<string, FileField>} */
    this.files = {
      video: new FileField(form, 'video', {
        label: 'Video to change', kind: 'video', help: 'It is denoised anew; its length is that of the clip.',
      }),
      control_video: new FileField(form, 'control_video', {
        label: 'Control video', kind: 'video',
        help: 'Depth, poses, lines or flow to follow; or with a mask, the video of which a part is made anew.',
      }),
      mask_video: new FileField(form, 'mask_video', {
        label: 'Mask', kind: 'video', more: this.paint,
        help: 'A video or a picture: white where the clip is made anew, black where it is kept.',
      }),
      reference: new FileField(form, 'reference', {
        label: 'References', kind: 'picture', many: true,
        help: 'Up to four pictures of persons, things or places that the video shows.',
      }),
    };
    const strength = el('input', {type: 'number', min: 0, max: 1, step: 'any', placeholder: '0.8'});
    this.strength = field(form, 'strength', 'Strength', strength,
        {help: 'How much of the video is made anew: 1 is all of it.'});
    const {video, control_video: control, mask_video: mask, reference} = this.files;
    this.element =
        el('div', {}, video.element, this.strength, control.element, mask.element, reference.element);
    form.addEventListener('load', () => this.show());
    form.addEventListener('change', () => this.show());
    this.show();
  }

  /** The video that a mask is of. */
  get masked() { return this.form.file('control_video') ?? this.form.file('video'); }

  show() {
    const takes = this.form.model?.takes ?? {};
    for (const [name, {element}] of Object.entries(this.files)) element.hidden = (takes[name] ?? 'no') === 'no';
    if (goesOn(this.form)) this.files.video.element.hidden = true;
    this.strength.hidden = this.files.video.element.hidden;
    this.paint.disabled = !this.masked;
    this.paint.title = this.masked ? '' : 'Choose the video that the mask is of first.';
  }

  async ask() {
    const film = this.masked;
    if (!film) return;
    try {
      const {paintedMask} = await import('./mask_dialog.js');
      const mask = await paintedMask(await firstPicture(film));
      if (mask && film === this.masked) this.form.setFiles('mask_video', [mask]);
    } catch (fault) {
      this.form.fault('mask_video', sentence(fault));
    }
  }
}
