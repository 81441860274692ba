// The preview of a job under way. The server sends a strip of small pictures, one for each part of the clip, side by
// side; here they move, as the video will. A new strip takes the old one's place when it has come, so that nothing
// flickers, and a click enlarges it.
import {signedPath} from './api.js';
import {ask, el, setText} from './dom.js';
import {hasEnded, store} from './store.js';

const kPictureMs = 250;  // a part of a clip is about so long

export class LivePicture {
  /**
   * @param {string} id the job's
   * @param {HTMLCanvasElement} canvas hidden until there is something to show
   */
  constructor(id, canvas) {
    this.id = id;
    this.canvas = canvas;
    this.wanted = '';
    /** @type {HTMLImageElement | null} */
    this.strip = null;
    this.count = 1;
    this.at = 0;
    this.timer = 0;
  }

  /** @param {string} path the preview's address, or "" */
  show(path) {
    if (!path || path === this.wanted) return;
    this.wanted = path;
    void this.load(path);
  }

  /** @param {string} path */
  async load(path) {
    const next = new Image();
    try {
      next.src = await signedPath(this.id, path);
      await next.decode();
    } catch {
      return;  // it is not kept any longer, or the server is away: the next one comes
    }
    if (this.wanted !== path) return;  // a newer one came meanwhile
    const [width, height] = (store.videos.get(this.id)?.size ?? '').split('x').map(Number);
    const aspect = width / height || 1;
    this.strip = next;
    this.count = Math.max(1, Math.round(next.naturalWidth / (next.naturalHeight * aspect)));
    this.canvas.width = Math.round(next.naturalWidth / this.count), this.canvas.height = next.naturalHeight;
    this.draw();
    this.canvas.hidden = false;
    this.canvas.dataset.path = path;
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    if (!this.timer && this.count > 1 && !still) this.timer = window.setInterval(() => this.step(), kPictureMs);
  }

  step() {
    if (!this.canvas.isConnected) {
      window.clearInterval(this.timer);
      this.timer = 0;
      return;
    }
    this.at = (this.at + 1) % this.count;
    this.draw();
  }

  draw() {
    if (!this.strip) return;
    const {width, height} = this.canvas, from = Math.min(this.at, this.count - 1) * width;
    this.canvas.getContext('2d')?.drawImage(this.strip, from, 0, width, height, 0, 0, width, height);
  }
}

/**
 * Shows the previews of a job as large as they go, the newest unless the visitor looks back.
 * @param {string} id
 * @returns {Promise<string>}
 */
export function enlarge(id) {
  const canvas = el('canvas', {class: 'large', role: 'img', 'aria-label': 'Preview', hidden: true}),
        picture = new LivePicture(id, canvas);
  const caption = el('p', {class: 'dim', 'aria-live': 'off'});
  const back = el('input', {type: 'range', min: 1, max: 1, value: 1, 'aria-label': 'Which preview'});
  let newest = true;
  const update = () => {
    const video = store.videos.get(id), previews = store.live.get(id)?.previews;
    if (!video || hasEnded(video)) {
      setText(caption,
          !video                           ? 'The video was removed.' :
              video.status === 'completed' ? 'The video is ready.' :
                                             'The video was stopped.');
      return;
    }
    if (!previews?.length) {
      setText(caption, 'There is no preview yet.');
      return;
    }
    back.max = String(previews.length);
    if (newest) back.value = back.max;
    picture.show(previews[Number(back.value) - 1]);
    setText(caption, `Preview ${back.value} of ${previews.length} so far`);
  };
  back.addEventListener('input', () => {
    newest = back.value === back.max;
    update();
  });
  const end = store.watch(id), unsubscribe = store.subscribe(update);
  update();
  return ask('Preview',
      close => [canvas, back, caption,
          el('div', {class: 'row end'},
              el('button', {type: 'button', text: 'Close', autofocus: true, onclick: () => close('')}))],
      'wide')
      .finally(() => {
        end();
        unsubscribe();
      });
}
