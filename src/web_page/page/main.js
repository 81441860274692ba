// The frame of the page: which view is shown, whether the server is there, and the question for a key where it wants
// one. A view is a module that is loaded when somebody first goes there.
import {api, setKey, signals} from './api.js';
import {button, el, setText} from './dom.js';
import {catchFiles} from './dropped.js';
import {store} from './store.js';

/** @typedef {HTMLElement & {route: string[], given?: File[]}} View */
/** @type {Record<string, {load: () => Promise<any>, tag: string, title: string}>} */
const kViews = {
  make: {load: () => import('./make_view.js'), tag: 'make-view', title: 'Make'},
  queue: {load: () => import('./queue_view.js'), tag: 'queue-view', title: 'Queue'},
  gallery: {load: () => import('./gallery_view.js'), tag: 'gallery-view', title: 'Gallery'},
  compare: {load: () => import('./compare_view.js'), tag: 'compare-view', title: 'Compare'},
  worlds: {load: () => import('./worlds_view.js'), tag: 'worlds-view', title: 'Worlds'},
  keys: {load: () => import('./keys_view.js'), tag: 'keys-view', title: 'Keys'},
};

const main = /** @type {HTMLElement} */ (document.getElementById('view'));
const away = /** @type {HTMLElement} */ (document.getElementById('away'));
const count = /** @type {HTMLElement} */ (document.getElementById('waiting'));
let shown = '';
let locked = false;  // the question for a key is shown
let visits = 0;
/** @type {File[]} */
let given = [];  // files that were dropped on another view, for the form

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// Shows the view of the address. Whoever goes somewhere by keyboard or with a reader lands at its beginning.
async function show() {
  if (locked) return;
  const route = location.hash.replace(/^#\/?/, '').split('/').filter(part => part).map(decoded);
  const name = route[0] in kViews ? route[0] : 'make';
  const {load, tag, title} = kViews[name];
  for (const link of document.querySelectorAll('nav a')) {
    if (link.getAttribute('href') === `#/${name === 'compare' ? 'gallery' : name}`)
      link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const visit = ++visits;
  try {
    await load();
  } catch {
    if (visit === visits)
      main.replaceChildren(el('p', {class: 'fault', text: 'This part of the page could not be loaded.'}),
          button('Try again', () => location.reload()));
    return;
  }
  if (visit !== visits || locked) return;
  const view = /** @type {View} */ (document.createElement(tag));
  view.route = route;
  if (name === 'make') view.given = given.splice(0);
  const first = shown === '';
  shown = location.hash;
  main.replaceChildren(view);
  document.title = `${title} – Tachyscope`;
  if (!first) main.focus({preventScroll: true}), window.scrollTo(0, 0);
}

// Asks for a key in place of the view, which comes back as it was asked for.
function lock() {
  if (locked) return;
  locked = store.asker.held = true;
  const input =
      el('input', {id: 'key', type: 'password', autocomplete: 'current-password', required: true, spellcheck: 'false'});
  const remember = el('input', {type: 'checkbox', id: 'remember'});
  const fault = el('p', {class: 'fault', role: 'alert'});
  const enter = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setKey(input.value.trim(), remember.checked);
    try {
      store.me = await api('GET', '/v1/key');
      unlock();
    } catch (error) {
      fault.textContent = /** @type {any} */ (error).status === 401 ? 'This is not a key of this server.' :
                                                                      'The server cannot be reached. Try again.';
      input.select();
    }
  };
  main.replaceChildren(el('form', {class: 'panel narrow', id: 'key-form', onsubmit: enter},
    el('h1', {text: 'A key, please'}),
    el('p', {text: 'This server makes videos for those who have a key. Whoever runs it gives keys out.'}),
    el('label', {for: 'key', text: 'Key'}), input,
    el('label', {class: 'check'}, remember, ' Keep it in this browser'), fault,
    el('button', {type: 'submit', class: 'primary', text: 'Enter'})));
  input.focus();
}

/**
 * Takes files that were dropped anywhere but on the form to it.
 * @param {File[]} files
 */
function take(files) {
  const view = main.firstElementChild;
  if (locked) return store.notice('Files can be dropped here once the key is there.', 'bad');
  if (view?.localName === 'make-view') return /** @type {any} */ (view).use(files);
  given = files;
  location.hash = '#/make';
}

function unlock() {
  locked = store.asker.held = false;
  void store.refresh();
  void show();
}

let since = 0;
function tellState() {
  if (!store.online && !since) since = Date.now();
  if (store.online && since) {
    since = 0;
    store.notice('The server is back.', 'good');
  }
  away.hidden = store.online;
  setText(away,
      store.online ?
          '' :
          'The server does not answer. What waits in its queue is kept there; this page tries again by itself.');
  const active = store.waiting().length + store.running().length;
  count.hidden = active === 0;
  setText(count, active ? String(active) : '');
  count.setAttribute('aria-label', `${active} not ready yet`);
}

async function who() {
  try {
    store.me = await api('GET', '/v1/key');
    store.tell();
  } catch {
    if (!locked) window.setTimeout(() => void who(), 3000);
  }
}

// The address stays: what follows its # names a view.
document.querySelector('.skip')?.addEventListener('click', event => {
  event.preventDefault();
  main.focus();
});
signals.addEventListener('keyNeeded', lock);
window.addEventListener('hashchange', () => void show());
catchFiles(take);
store.subscribe(tellState);
void show();
store.start();
void who();
// For tests, which look at what the page knows without asking the server again.
/** @type {any} */ (window).page = {store};
