// Records a voice: one channel from the microphone, as it comes, which becomes a WAV file.
import {sentence} from './api.js';
import {button, el} from './dom.js';
import {wavOf} from './wav.js';

const kMostSeconds = 600;

export class VoiceRecorder {
  constructor() {
    /** @type {Float32Array[]} */
    this.pieces = [];
    this.count = 0;
    this.rate = 0;
    this.level = 0;  // the loudest of the newest samples, from 0 to 1
    /** @type {AudioContext | null} */
    this.context = null;
    /** @type {MediaStream | null} */
    this.stream = null;
    /** @type {() => void} */
    this.onFull = () => {};
  }

  get seconds() { return this.rate ? this.count / this.rate : 0; }

  /** Asks for the microphone and begins. Throws an Error with a message for people. */
  async start() {
    if (!navigator.mediaDevices)
      throw new Error(
          'Browsers lend the microphone only to pages of this machine (127.0.0.1) or over https. A sound file ' +
              'works here, too.');
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({audio: {channelCount: 1, echoCancellation: false}});
    } catch (fault) {
      throw new Error(/** @type {Error} */ (fault).name === 'NotFoundError' ?
          'There is no microphone here.' : 'The browser did not lend the microphone.');
    }
    const context = this.context = new AudioContext();
    this.rate = context.sampleRate;
    // A ScriptProcessor runs without a file of its own, which an AudioWorklet would have to fetch.
    const source = context.createMediaStreamSource(this.stream), tap = context.createScriptProcessor(4096, 1, 1);
    tap.onaudioprocess = (event) => this.take(event.inputBuffer.getChannelData(0));
    source.connect(tap);
    tap.connect(context.destination);
  }

  /** @param {Float32Array} samples */
  take(samples) {
    this.pieces.push(samples.slice());
    this.count += samples.length;
    this.level = samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
    if (this.seconds >= kMostSeconds) this.onFull();
  }

  /** Ends the recording and gives the microphone back. */
  close() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = null;
    void this.context?.close();
    this.context = null;
  }

  /** Returns the recording as a WAV file; null if nothing came. */
  finish() {
    this.close();
    if (this.count === 0) return null;
    const all = new Float32Array(this.count);
    let at = 0;
    for (const piece of this.pieces) all.set(piece, at), at += piece.length;
    return new File([wavOf(all, this.rate)], 'voice.wav', {type: 'audio/wav'});
  }
}

/**
 * Records in the place of a file of the form, which the voice then takes.
 * @param {import('./make_files.js').FileField} field
 */
export async function recordInto(field) {
  const recorder = new VoiceRecorder();
  field.form.fault(field.name, '');
  try {
    await recorder.start();
  } catch (fault) {
    field.form.fault(field.name, sentence(fault));
    return;
  }
  const time = el('span', {class: 'time', text: '0.0 s'}),
        level = el('progress', {max: 1, value: 0, 'aria-label': 'Loudness'});
  const timer = window.setInterval(() => {
    time.textContent = `${recorder.seconds.toFixed(1)} s`, level.value = recorder.level;
    if (!field.element.isConnected) window.clearInterval(timer), recorder.close();
  }, 100);
  /** @param {boolean} keep */
  const end = keep => {
    window.clearInterval(timer);
    const voice = recorder.finish();
    if (keep && voice) field.form.setFiles(field.name, [voice]);
    else field.show();
  };
  recorder.onFull = () => end(true);
  const stop = button('Stop and use', () => end(true), {class: 'primary'});
  field.actions.replaceChildren(
      el('span', {role: 'status', text: 'Recording'}), time, level, stop, button('Discard', () => end(false)));
  stop.focus();
}
