// WAV files, made in the browser: what a microphone gave, and short tones that stand in for a sound of the same length.

/**
 * @param {Float32Array} samples  from -1 to 1
 * @param {number} rate  samples per second
 */
export function wavOf(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  /** @param {number} at @param {string} text */
  const put = (at, text) => { for (let i = 0; i < text.length; ++i) view.setUint8(at + i, text.charCodeAt(i)); };
  put(0, 'RIFF');
  view.setUint32(4, 36 + 2 * samples.length, true);
  put(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);  // whole numbers
  view.setUint16(22, 1, true);  // one channel
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  put(36, 'data');
  view.setUint32(40, 2 * samples.length, true);
  for (let i = 0; i < samples.length; ++i)
    view.setInt16(44 + 2 * i, Math.round(Math.max(-1, Math.min(1, samples[i])) * 32767), true);
  return new Blob([view.buffer], {type: 'audio/wav'});
}

/**
 * Returns a quiet tone.
 * @param {number} seconds
 */
export function toneOf(seconds) {
  const rate = 4000, samples = new Float32Array(Math.max(1, Math.round(seconds * rate)));
  for (let i = 0; i < samples.length; ++i) samples[i] = 0.1 * Math.sin(i * 0.7);
  return wavOf(samples, rate);
}

/**
 * Returns the length of a sound in seconds, or null where this browser cannot read it.
 * @param {Blob} file
 */
export async function secondsOf(file) {
  const context = new OfflineAudioContext(1, 1, 16000);
  try {
    return (await context.decodeAudioData(await file.arrayBuffer())).duration;
  } catch {
    return null;
  }
}
