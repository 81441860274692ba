// Says by painting who is where in a photo of two people, or which part of a video is made anew: one brush for each, by
// mouse, finger or keys. A pixel belongs to one of them at most, so the two masks never overlap.
import {ask, button, el} from './dom.js';

const kMostShown = 480;  // pixels of the longer side on the screen
const kColours = ['', '#2f7de1', '#e8912d'];

/** Whose pixel it is, for each pixel of a picture: 0 nobody's, 1 or 2. */
export class Regions {
  /** @param {number} width @param {number} height */
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.owner = new Uint8Array(width * height);
  }

  /**
   * Gives a disc of the picture to somebody.
   * @param {number} x
   * @param {number} y
   * @param {number} radius
   * @param {number} who
   */
  paint(x, y, radius, who) {
    for (let row = Math.max(0, Math.ceil(y - radius)); row <= Math.min(this.height - 1, y + radius); ++row) {
      const half = Math.sqrt(radius * radius - (row - y) * (row - y));
      const from = Math.max(0, Math.ceil(x - half)), to = Math.min(this.width, Math.floor(x + half) + 1);
      if (to > from) this.owner.fill(who, row * this.width + from, row * this.width + to);
    }
  }

  /** @param {number} who */
  has(who) { return this.owner.includes(who); }

  /**
   * Returns a picture that is white where somebody is, and black everywhere else.
   * @param {number} who
   * @returns {Promise<Blob | null>}
   */
  mask(who) {
    const canvas = el('canvas');
    canvas.width = this.width, canvas.height = this.height;
    const data = new ImageData(this.width, this.height), pixels = new Uint32Array(data.data.buffer);
    for (let at = 0; at < pixels.length; ++at) pixels[at] = this.owner[at] === who ? 0xffffffff : 0xff000000;
    canvas.getContext('2d')?.putImageData(data, 0, 0);
    return new Promise(resolve => canvas.toBlob(resolve, 'image/png'));
  }
}

class Painter {
  /** @param {ImageBitmap} picture @param {string[]} names  of the brushes; the first one is nobody's */
  constructor(picture, names) {
    this.picture = picture;
    this.names = names;
    this.regions = new Regions(picture.width, picture.height);
    this.scale = kMostShown / Math.max(picture.width, picture.height);
    this.who = 1;
    this.at = {x: picture.width / 2, y: picture.height / 2};
    this.seen = false;  // the brush, for whoever uses keys
    this.canvas = el('canvas', {class: 'painter', tabindex: 0, role: 'application', autofocus: true,
      'aria-label': 'The picture. Arrows move the brush, the space bar paints.'});
    this.canvas.width = Math.max(1, Math.round(picture.width * this.scale));
    this.canvas.height = Math.max(1, Math.round(picture.height * this.scale));
    this.overlay = el('canvas');
    this.overlay.width = this.canvas.width, this.overlay.height = this.canvas.height;
    this.brush = el('input', {type: 'range', id: 'brush', min: 2, max: 40, value: 20});
    this.canvas.addEventListener('keydown', event => this.pressed(event));
    this.canvas.addEventListener('pointerdown', event => {
      this.canvas.setPointerCapture(event.pointerId);
      this.seen = false;
      this.stroke(event, true);
    });
    this.canvas.addEventListener('pointermove', event => {
      if (this.canvas.hasPointerCapture(event.pointerId)) this.stroke(event, false);
    });
    this.draw();
  }

  /** In pixels of the picture; the brush is told in hundredths of its longer side. */
  get radius() {
    return Math.max(1, Number(this.brush.value) / 200 * Math.max(this.picture.width, this.picture.height));
  }

  /** @param {PointerEvent} event @param {boolean} begins */
  stroke(event, begins) {
    const box = this.canvas.getBoundingClientRect(), from = this.at;
    this.at = {
      x: (event.clientX - box.left) / box.width * this.picture.width,
      y: (event.clientY - box.top) / box.height * this.picture.height
    };
    const far = begins ? 0 : Math.hypot(this.at.x - from.x, this.at.y - from.y);
    for (let gone = 0; gone < far; gone += this.radius / 2)
      this.dab(from.x + (this.at.x - from.x) * gone / far, from.y + (this.at.y - from.y) * gone / far);
    this.dab(this.at.x, this.at.y);
    this.draw();
  }

  /** @param {number} x @param {number} y */
  dab(x, y) {
    this.regions.paint(x, y, this.radius, this.who);
    const pen = this.overlay.getContext('2d');
    if (!pen) return;
    pen.globalCompositeOperation = this.who ? 'source-over' : 'destination-out';
    pen.fillStyle = kColours[this.who] || '#000';
    pen.beginPath();
    pen.arc(x * this.scale, y * this.scale, this.radius * this.scale, 0, 2 * Math.PI);
    pen.fill();
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const step = (event.shiftKey ? 10 : 1) * Math.max(1, this.picture.width / 100);
    /** @type {Record<string, [number, number]>} */
    const moves = {ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step], ' ': [0, 0]};
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    this.seen = true;
    this.at = {
      x: Math.min(Math.max(this.at.x + move[0], 0), this.picture.width),
      y: Math.min(Math.max(this.at.y + move[1], 0), this.picture.height)
    };
    if (event.key === ' ') this.dab(this.at.x, this.at.y);
    this.draw();
  }

  draw() {
    const pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext('2d'));
    pen.drawImage(this.picture, 0, 0, this.canvas.width, this.canvas.height);
    pen.globalAlpha = 0.55;
    pen.drawImage(this.overlay, 0, 0);
    pen.globalAlpha = 1;
    if (!this.seen) return;
    pen.lineWidth = 2;
    pen.strokeStyle = '#fff';
    pen.beginPath();
    pen.arc(this.at.x * this.scale, this.at.y * this.scale, this.radius * this.scale, 0, 2 * Math.PI);
    pen.stroke();
  }

  /** @returns {HTMLElement} */
  brushes() {
    const choice = this.names.map((name, who) => {
      const one = el('input', {type: 'radio', name: 'brush-of', value: who, checked: who === this.who,
        onchange: () => { this.who = who; }});
      return el('label', {class: 'check'}, one, el('span', {class: `swatch of-${who}`}), who ? name : 'Eraser');
    });
    return el('div', {}, el('div', {class: 'row', role: 'radiogroup', 'aria-label': 'Paint'}, ...choice.slice(1), choice[0]),
        el('div', {class: 'row'}, el('label', {for: 'brush', text: 'Size of the brush'}), this.brush));
  }
}

/**
 * Asks for one mask for each of the names but the first. Returns them, or null if it was left.
 * @param {File} photo
 * @param {string} title
 * @param {string} help
 * @param {string[]} names
 * @returns {Promise<Blob[] | null>}
 */
async function painted(photo, title, help, names) {
  const picture = await createImageBitmap(photo).catch(() => {
    throw new Error(`${photo.name} cannot be read as a picture.`);
  });
  try {
    const painter = new Painter(picture, names), all = names.map((_, who) => who).slice(1);
    const fault = el('p', {class: 'fault', role: 'alert'});
    const answer = await ask(title, close => {
      const use = () => {
        const nobody = all.find(who => !painter.regions.has(who));
        if (!nobody) return close('yes');
        fault.textContent = `${names[nobody]}: nothing is painted yet.`;
      };
      return [painter.canvas, painter.brushes(), fault, el('p', {class: 'help', text: help}),
        el('div', {class: 'row end'}, button('Leave it', () => close('')),
            button(names.length > 2 ? 'Use these' : 'Use this', use, {class: 'primary'}))];
    }, 'wide');
    if (answer !== 'yes') return null;
    return await Promise.all(all.map(async who => await painter.regions.mask(who) ?? new Blob()));
  } finally {
    picture.close();
  }
}

/**
 * Asks where the two people of a photo are. Returns the two masks, or null if it was left.
 * @param {File} photo
 * @returns {Promise<File[] | null>}
 */
export async function paintedMasks(photo) {
  const blobs = await painted(photo, 'Who is where', 'Paint over each face, or use the arrows and the space bar.',
      ['Nobody', 'First person', 'Second person']);
  return blobs && blobs.map((blob, at) => new File([blob], `person-${at + 1}.png`, {type: 'image/png'}));
}

/**
 * Asks which part of a picture is made anew. Returns the mask, or null if it was left.
 * @param {File} frame
 * @returns {Promise<File | null>}
 */
export async function paintedMask(frame) {
  const blobs = await painted(frame, 'What is made anew',
      'Paint over what is made anew, or use the arrows and the space bar.', ['Kept', 'Made anew']);
  return blobs && new File(blobs, 'mask.png', {type: 'image/png'});
}
