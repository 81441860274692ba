// Loads a style sheet that only some views need, once, and waits for it, so that nothing is shown without its style.
import {el} from './dom.js';

/** @type {Map<string, Promise<void>>} */
const loaded = new Map();

/**
 * @param {string} name a file beside this one
 * @returns {Promise<void>}
 */
export function style(name) {
  let there = loaded.get(name);
  if (!there) {
    there = new Promise(resolve => {
      const link = el('link', {rel: 'stylesheet', href: `page/${name}`, onload: () => resolve(), onerror: () => resolve()});
      document.head.append(link);
    });
    loaded.set(name, there);
  }
  return there;
}
