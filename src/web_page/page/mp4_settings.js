// Reads the settings of a run out of a video that Tachyscope made (the comment of an mp4) or out of the JSON file
// beside one, in the browser: nothing is sent anywhere. The bytes may be anybody's, so every length is checked, and
// of what is found only fields that a request may have are taken over. Paths and hashes in it are left out.

const kMostSettings = 8 << 20;  // bytes, as the program itself reads
const kMostBoxes = 10000;

/** A file that holds no settings; the message is for people. */
export class NoSettings extends Error {}

/**
 * @param {Blob} file
 * @param {number} from
 * @param {number} to
 */
async function bytesOf(file, from, to) {
  return new DataView(await file.slice(from, to).arrayBuffer());
}

/** @param {DataView} view @param {number} at */
function fourLetters(view, at) {
  return String.fromCharCode(view.getUint8(at), view.getUint8(at + 1), view.getUint8(at + 2), view.getUint8(at + 3));
}

/**
 * Finds the first box of a kind between two places of the file.
 * @param {Blob} file
 * @param {string} kind
 * @param {{from: number, to: number}} within
 * @returns {Promise<{from: number, to: number} | null>} the box's content
 */
async function findBox(file, kind, within) {
  let at = within.from;
  for (let count = 0; at + 8 <= within.to && count < kMostBoxes; ++count) {
    const head = await bytesOf(file, at, Math.min(at + 16, within.to));
    let size = head.getUint32(0), before = 8;
    if (size === 1) {
      if (head.byteLength < 16) return null;
      size = Number(head.getBigUint64(8));
      before = 16;
    } else if (size === 0) {
      size = within.to - at;  // the last box, up to the end
    }
    if (size < before || at + size > within.to) return null;
    if (fourLetters(head, 4) === kind) return {from: at + before, to: at + size};
    at += size;
  }
  return null;
}

/**
 * Returns the comment of an mp4: moov, udta, meta, ilst, ©cmt, data.
 * @param {Blob} file
 */
async function commentOf(file) {
  /** @type {{from: number, to: number} | null} */
  let box = {from: 0, to: file.size};
  for (const kind of ['moov', 'udta', 'meta', 'ilst', '\u00a9cmt', 'data']) {
    box = box && await findBox(file, kind, box);
    if (box && kind === 'meta') box = {from: box.from + 4, to: box.to};  // version and flags
  }
  if (!box || box.to - box.from <= 8 || box.to - box.from > kMostSettings) return '';
  const view = await bytesOf(file, box.from + 8, box.to);  // type and locale
  return new TextDecoder().decode(view);
}

/**
 * Returns the settings in the file, as they stand there.
 * @param {File} file
 * @returns {Promise<Record<string, unknown>>}
 */
export async function settingsIn(file) {
  let text = '';
  if (/\.json$/i.test(file.name) || file.type === 'application/json') {
    if (file.size > kMostSettings) throw new NoSettings(`${file.name} is too large to be the settings of a video.`);
    text = await file.text();
  } else {
    const head = await bytesOf(file, 0, Math.min(12, file.size));
    if (head.byteLength < 12 || fourLetters(head, 4) !== 'ftyp')
      throw new NoSettings(`${file.name} is no mp4. Drop an mp4 that was made here, or the JSON file beside one.`);
    text = await commentOf(file);
  }
  /** @type {unknown} */
  let settings = null;
  try {
    settings = JSON.parse(text);
  } catch {
    // It is said below.
  }
  const found = /** @type {Record<string, unknown>} */ (settings);
  if (typeof found !== 'object' || found === null || Array.isArray(found) || typeof found.prompt !== 'string' ||
      found.tachyscope === undefined)
    throw new NoSettings(
        `${file.name} holds no settings: it was not made by this program, or another one has changed it.`);
  return found;
}

/**
 * Takes "folder/film.safetensors:0.8@high" apart. Only the file's name counts.
 * @param {string} text
 */
export function loraOf(text) {
  const expert = /@(high|low|both)$/.exec(text);
  if (expert) text = text.slice(0, -expert[0].length);
  const strength = /:([-+.0-9eE]+)$/.exec(text);
  if (strength) text = text.slice(0, -strength[0].length);
  /** @type {{name: string, strength?: number, expert?: string}} */
  const lora = {name: (text.split(/[\\/]/).pop() ?? '').replace(/\.(safetensors|sft|gguf|pt|pth|ckpt|bin)$/, '')};
  if (strength && Number.isFinite(Number(strength[1]))) lora.strength = Number(strength[1]);
  if (expert) lora.expert = expert[1];
  return lora;
}

/**
 * Sorts what a file holds into fields of a request and names of files that the video was made with.
 * @param {Record<string, unknown>} settings
 * @param {Record<string, {oneOf?: unknown[], type?: unknown}>} properties  those of a request, by /openapi.json
 * @returns {{fields: Record<string, unknown>, inputs: string[], model: string}}
 */
export function fieldsOf(settings, properties) {
  /** @type {Record<string, unknown>} */
  const fields = {};
  for (const [name, value] of Object.entries(settings)) {
    const plain = ['string', 'number', 'boolean'].includes(typeof value) ||
        Array.isArray(value) && value.every((one) => typeof one === 'string');
    if (!plain || !Object.hasOwn(properties, name) || name === 'model' || `${name}_sha256` in settings) continue;
    fields[name] = name === 'loras' && Array.isArray(value) ? value.map(loraOf) : value;
  }
  if (typeof settings.width === 'number' && typeof settings.height === 'number') {
    fields.size = `${settings.width}x${settings.height}`;
    delete fields.width, delete fields.height;
  }
  const encoding = /** @type {Record<string, unknown>} */ (settings.encoding ?? {});
  if (typeof encoding.crf === 'number') fields.crf = encoding.crf;
  if (typeof encoding.speed === 'string') fields.encode_speed = encoding.speed;
  const inputs = Object.keys(settings).filter((name) => `${name}_sha256` in settings);
  const model = typeof settings.model === 'string' ? settings.model.split(/[\\/]/).filter(Boolean).pop() ?? '' : '';
  return {fields, inputs, model};
}
