// Keeps an unfinished draft over reloads: its texts in sessionStorage, for this tab, and in localStorage, for the next
// one; its files in the database of the browser. Where that keeps nothing (a private window, a full disk), the draft
// lives as long as the page.
import {kFileFields} from './make_form.js';

const kName = 'tachyscope-draft';
const kMostKept = 200 << 20;  // bytes of files

/** @param {'readonly' | 'readwrite'} how @returns {Promise<IDBObjectStore>} */
function fileStore(how) {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(kName, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore('files');
    asked.onerror = () => reject(asked.error);
    asked.onsuccess = () => resolve(asked.result.transaction('files', how).objectStore('files'));
  });
}

/** @template T @param {IDBRequest<T>} asked @returns {Promise<T>} */
function answerOf(asked) {
  return new Promise((resolve, reject) => {
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

/** @param {import('./make_form.js').Draft} draft */
export function keepDraft(draft) {
  try {
    for (const storage of [sessionStorage, localStorage]) storage.setItem(kName, JSON.stringify(draft));
  } catch {
    // The draft is kept by the page alone.
  }
}

/** @returns {Partial<import('./make_form.js').Draft> | null} null on a first visit */
export function keptDraft() {
  try {
    const draft = JSON.parse(sessionStorage.getItem(kName) ?? localStorage.getItem(kName) ?? 'null');
    return draft && typeof draft === 'object' && typeof draft.values === 'object' ? draft : null;
  } catch {
    return null;
  }
}

/** @param {string} name @param {File[]} files */
export async function keepFiles(name, files) {
  try {
    const store = await fileStore('readwrite');
    const size = files.reduce((sum, file) => sum + file.size, 0);
    if (files.length && size <= kMostKept) await answerOf(store.put(files, name));
    else await answerOf(store.delete(name));
  } catch {
    // The files are kept by the page alone.
  }
}

/**
 * Returns the files of a draft. Those that another tab has kept since are not of it.
 * @param {Partial<import('./make_form.js').Draft> | null} draft
 * @returns {Promise<Map<string, File[]>>}
 */
export async function keptFiles(draft) {
  /** @type {Map<string, File[]>} */
  const kept = new Map();
  try {
    for (const name of kFileFields) {
      const files = await answerOf((await fileStore('readonly')).get(name));
      if (Array.isArray(files) &&
          files.every((file, at) => file instanceof File && file.name === draft?.files?.[name]?.[at]))
        kept.set(name, files);
    }
  } catch {
    // There are none.
  }
  return kept;
}
