// Makes elements. Texts always go in as texts, never as HTML, so nothing that somebody wrote into a prompt can become
// a part of the page.

/** @typedef {Node | string | null | undefined | false} Child */
/** @typedef {{class?: string, text?: string, [name: string]: any}} Properties */

/**
 * Makes an element. A property that begins with `on` is a listener (`onclick`); `class` and `text` say what they say;
 * true and false set and leave out an attribute; everything else is an attribute's value.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'class') made.className = value;
    else if (name === 'text') made.textContent = value;
    else if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children) if (child) made.append(child);
  return made;
}

/**
 * Makes a button that does not send a form.
 * @param {string} text
 * @param {(event: MouseEvent) => void} press
 * @param {Properties} [properties]
 */
export function button(text, press, properties = {}) {
  return el('button', {type: 'button', text, onclick: press, ...properties});
}

/**
 * Makes a button that is only a picture. `label` says what it does, to readers and as a tip.
 * @param {keyof typeof kIcons} name
 * @param {string} label
 * @param {(event: MouseEvent) => void} press
 * @param {Properties} [properties]
 */
export function iconButton(name, label, press, properties = {}) {
  const made = button(
      '', press, {'aria-label': label, title: label, ...properties, class: `icon ${properties.class ?? ''}`.trim()});
  made.append(icon(name));
  return made;
}

// Outlines in a square of 24.
const kIcons = {
  up: 'M12 19V5M5 12l7-7 7 7',
  down: 'M12 5v14M5 12l7 7 7-7',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  edit: 'M4 20h4L20 8l-4-4L4 16z',
  remove: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  pause: 'M8 5v14M16 5v14',
  play: 'M7 5l12 7-12 7z',
  stop: 'M6 6h12v12H6z',
  keep: 'M5 12l5 5L20 7',
  close: 'M5 5l14 14M19 5L5 19',
  enlarge: 'M4 10V4h6M20 14v6h-6M4 4l7 7M20 20l-7-7',
  grip: 'M9 5v.1M9 12v.1M9 19v.1M15 5v.1M15 12v.1M15 19v.1',
  more: 'M12 5v.1M12 12v.1M12 19v.1',
  download: 'M12 4v11M6 10l6 6 6-6M4 20h16',
  add: 'M12 5v14M5 12h14',
};

/** @param {keyof typeof kIcons} name */
export function icon(name) {
  const kSvg = 'http://www.w3.org/2000/svg';
  const made = document.createElementNS(kSvg, 'svg');
  made.setAttribute('viewBox', '0 0 24 24');
  made.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS(kSvg, 'path');
  line.setAttribute('d', kIcons[name]);
  made.append(line);
  return made;
}

/**
 * Loads a view's own style beside the page's. A view awaits it before it is shown, so that it never flashes without.
 * @param {string} name of a file of this folder
 * @returns {Promise<void>}
 */
export function stylesheet(name) {
  return new Promise(resolve => {
    const done = () => resolve();
    document.head.append(el('link', {rel: 'stylesheet', href: `page/${name}`, onload: done, onerror: done}));
  });
}

/**
 * Returns a time as a person says it: "8 s", "3 min 20 s", "1 h 5 min".
 * @param {number | null | undefined} time
 */
export function seconds(time) {
  if (time === null || time === undefined || !Number.isFinite(time)) return '–';
  if (time < 1) return 'less than 1 s';
  const whole = Math.round(time);
  if (whole < 60) return `${whole} s`;
  if (whole < 600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ''}`;
  const minutes = Math.round(whole / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ''}`;
}

/**
 * Returns a time that is only an estimate, so coarsely that it does not flicker.
 * @param {number | null | undefined} time
 */
export function about(time) {
  if (time === null || time === undefined || !Number.isFinite(time)) return 'some time';
  if (time < 1.5) return 'a moment';
  const step = time < 10 ? 1 : time < 60 ? 5 : time < 600 ? 10 : 60;
  return seconds(Math.round(time / step) * step);
}

/**
 * Returns a number as a place: "1st", "2nd", "11th".
 * @param {number} number
 */
export function ordinal(number) {
  const ten = number % 10, teen = Math.floor(number / 10) % 10 === 1;
  return `${number}${teen ? 'th' : ten === 1 ? 'st' : ten === 2 ? 'nd' : ten === 3 ? 'rd' : 'th'}`;
}

/**
 * Returns a size as a person reads it: "15 kB", "2.3 MB".
 * @param {number | null | undefined} count
 */
export function bytes(count) {
  if (count === null || count === undefined) return '–';
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${Math.round(count / 1e3)} kB`;
  return count < 1e9 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e9).toFixed(1)} GB`;
}

/**
 * Writes a text into an element only where it differs, so that nothing flickers and no reader repeats it.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Shows a <dialog> with these children until it is closed, and resolves with its return value ("" if it was
 * dismissed). Escape closes it, and the focus goes back to where it was.
 * @param {string} title
 * @param {(close: (value: string) => void) => Child[]} fill
 * @param {string} [kind] a class for its style
 * @returns {Promise<string>}
 */
export function ask(title, fill, kind = '') {
  return new Promise(resolve => {
    const before = document.activeElement;
    const heading = el('h2', {text: title, id: 'dialog-title'});
    const dialog = el('dialog', {'aria-labelledby': 'dialog-title', class: kind});
    dialog.append(heading,
        ...fill(value => dialog.close(value))
            .filter(child => child)
            .map(child => /** @type {Node | string} */ (child)));
    dialog.addEventListener('close', () => {
      dialog.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      resolve(dialog.returnValue);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

const kMostNotices = 3, kNoticeMs = 6000;

/**
 * Adds a line to the notices at the foot of the page. A fault stays until it is dismissed.
 * @param {string} text
 * @param {'good' | 'bad' | ''} kind
 */
export function showNotice(text, kind) {
  const notices = document.getElementById('notices');
  if (!notices) return;
  /** @type {HTMLElement} */
  const line = el('p', {class: kind}, text, iconButton('close', 'Dismiss', () => line.remove()));
  notices.append(line);
  while (notices.childElementCount > kMostNotices) notices.firstElementChild?.remove();
  if (kind !== 'bad') window.setTimeout(() => line.remove(), kNoticeMs);
}
