// The preview of a job under way. A new picture takes the old one's place when it has come, so that nothing flickers, and
// a click enlarges it.
import {signedPath} from './api.js';
import {ask, el, setText} from './dom.js';
import {hasEnded, store} from './store.js';

export class LivePicture {
  /**
   * @param {string} id the job's
   * @param {HTMLImageElement} image
   */
  constructor(id, image) {
    this.id = id;
    this.image = image;
    this.wanted = '';
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
    this.image.src = next.src;
    this.image.dataset.path = path;
    this.image.hidden = false;
  }
}

/**
 * Shows the previews of a job as large as they go, the newest unless the visitor looks back.
 * @param {string} id
 * @returns {Promise<string>}
 */
export function enlarge(id) {
  const image = el('img', {class: 'large', alt: 'Preview', hidden: true}), picture = new LivePicture(id, image);
  const caption = el('p', {class: 'dim', 'aria-live': 'off'});
  const back = el('input', {type: 'range', min: 1, max: 1, value: 1, 'aria-label': 'Which preview'});
  let newest = true;
  const update = () => {
    const video = store.videos.get(id), previews = store.live.get(id)?.previews;
    if (!video || hasEnded(video)) {
      setText(caption, !video ? 'The video was removed.' : video.status === 'completed' ? 'The video is ready.' : 'The video was stopped.');
      return;
    }
    if (!previews?.length) return;
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
  return ask('Preview', close => [image, back, caption, el('div', {class: 'row end'}, el('button', {type: 'button', text: 'Close', autofocus: true, onclick: () => close('')}))],
    'wide').finally(() => {
    end();
    unsubscribe();
  });
}
