// Crops a picture to the video's proportions: a frame over it, moved and resized by mouse, finger or keys.
import {sentence} from './api.js';
import {ask, button, el} from './dom.js';

const kMostShown = 480;     // pixels of the longer side on the screen
const kMostKept = 2048;     // of the cropped picture
const kLeast = 16;          // pixels of the picture that are kept at least

/** @typedef {{x: number, y: number, width: number, height: number}} Box */

/**
 * Returns the largest box of these proportions in the middle.
 * @param {number} width
 * @param {number} height
 * @param {number} ratio
 * @returns {Box}
 */
export function middleBox(width, height, ratio) {
  const w = Math.min(width, height * ratio), h = w / ratio;
  return {x: (width - w) / 2, y: (height - h) / 2, width: w, height: h};
}

/**
 * Moves the box and changes its width, within the picture and about its middle.
 * @param {Box} box
 * @param {{width: number, height: number}} picture
 * @param {number} dx
 * @param {number} dy
 * @param {number} scale
 * @returns {Box}
 */
export function changedBox(box, picture, dx, dy, scale) {
  const ratio = box.width / box.height;
  const width = Math.min(Math.max(box.width * scale, kLeast, kLeast * ratio), picture.width, picture.height * ratio),
        height = width / ratio;
  const x = box.x + (box.width - width) / 2 + dx, y = box.y + (box.height - height) / 2 + dy;
  return {
    x: Math.min(Math.max(x, 0), picture.width - width),
    y: Math.min(Math.max(y, 0), picture.height - height),
    width,
    height
  };
}

class Cropper {
  /** @param {ImageBitmap} picture @param {number} ratio */
  constructor(picture, ratio) {
    this.picture = picture;
    this.box = middleBox(picture.width, picture.height, ratio);
    this.scale = kMostShown / Math.max(picture.width, picture.height);
    this.canvas = el('canvas', {class: 'cropper', tabindex: 0, role: 'application', autofocus: true,
      'aria-label': 'Frame over the picture. Arrows move it, plus and minus resize it.'});
    this.canvas.width = Math.max(1, Math.round(picture.width * this.scale));
    this.canvas.height = Math.max(1, Math.round(picture.height * this.scale));
    this.canvas.addEventListener('keydown', event => this.pressed(event));
    this.canvas.addEventListener('pointerdown', event => this.canvas.setPointerCapture(event.pointerId));
    this.canvas.addEventListener('pointermove', event => this.dragged(event));
    this.canvas.addEventListener('wheel', event => {
      event.preventDefault(), this.change(0, 0, event.deltaY < 0 ? 1.05 : 1 / 1.05);
    }, {passive: false});
    this.draw();
  }

  /** @param {number} dx @param {number} dy @param {number} scale */
  change(dx, dy, scale) {
    this.box = changedBox(this.box, this.picture, dx, dy, scale);
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const step = (event.shiftKey ? 10 : 1) * Math.max(1, this.picture.width / 100);
    /** @type {Record<string, [number, number, number]>} */
    const moves = {ArrowLeft: [-step, 0, 1], ArrowRight: [step, 0, 1], ArrowUp: [0, -step, 1], ArrowDown: [0, step, 1],
      '+': [0, 0, 1.05], '=': [0, 0, 1.05], '-': [0, 0, 1 / 1.05]};
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    this.change(...move);
  }

  /** @param {PointerEvent} event */
  dragged(event) {
    if (!this.canvas.hasPointerCapture(event.pointerId)) return;
    const each = this.picture.width / this.canvas.clientWidth;  // the style may shrink the canvas
    this.change(event.movementX * each, event.movementY * each, 1);
  }

  draw() {
    const pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext('2d'));
    const {x, y, width, height} = this.box, s = this.scale;
    pen.drawImage(this.picture, 0, 0, this.canvas.width, this.canvas.height);
    pen.fillStyle = '#000a';
    pen.beginPath();
    pen.rect(0, 0, this.canvas.width, this.canvas.height);
    pen.rect(x * s, y * s, width * s, height * s);
    pen.fill('evenodd');
    pen.strokeStyle = '#fff';
    pen.lineWidth = 2;
    pen.strokeRect(x * s, y * s, width * s, height * s);
  }

  /**
   * Returns the pixels in the frame.
   * @returns {Promise<Blob | null>}
   */
  cut() {
    const {x, y, width, height} = this.box, by = Math.min(1, kMostKept / Math.max(width, height));
    const cut = el('canvas');
    cut.width = Math.max(1, Math.round(width * by)), cut.height = Math.max(1, Math.round(height * by));
    cut.getContext('2d')?.drawImage(this.picture, x, y, width, height, 0, 0, cut.width, cut.height);
    return new Promise(resolve => cut.toBlob(resolve, 'image/png'));
  }
}

/**
 * Asks for a part of a picture. Returns null if nothing was chosen.
 * @param {File} file
 * @param {number} ratio  width by height
 * @returns {Promise<File | null>}
 */
export async function cropped(file, ratio) {
  const picture = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name} cannot be read as a picture.`);
  });
  try {
    const cropper = new Cropper(picture, Number.isFinite(ratio) && ratio > 0 ? ratio : 1);
    const answer = await ask('Crop the picture',
        close => [cropper.canvas,
            el('p', {class: 'help', text: 'Drag the frame, or use the arrows; plus and minus change its size.'}),
            el('div', {class: 'row end'}, button('Smaller', () => cropper.change(0, 0, 1 / 1.1)),
                button('Larger', () => cropper.change(0, 0, 1.1)), button('Leave it', () => close('')),
                button('Use this part', () => close('yes'), {class: 'primary'})),
    ],
        'wide');
    if (answer !== 'yes') return null;
    const cut = await cropper.cut();
    return cut && new File([cut], `${file.name.replace(/\.[^.]*$/, '')}-cropped.png`, {type: 'image/png'});
  } finally {
    picture.close();
  }
}

/**
 * Crops a picture of the form in its place there, in the shape of the video.
 * @param {import('./make_files.js').FileField} field
 * @param {File} file
 * @param {number} index
 */
export async function cropInto(field, file, index) {
  const {form, name} = field;
  try {
    const size = form.get('size') || form.model?.defaults?.size || '1x1';
    const [width, height] = String(size).split('x').map(Number);
    const made = await cropped(file, width / height);
    if (made) form.setFiles(name, field.files.map((other, at) => at === index ? made : other));
  } catch (fault) {
    form.fault(name, sentence(fault));
  }
}
