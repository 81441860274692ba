// The event stream of a job (GET /v1/videos/ID/events), read by fetch, since EventSource can send no key.
//
// A browser has six connections to a server, for all tabs together. So all tabs share kSlots streams: who has none
// waits until another one ends, and lives on the list meanwhile.
import {ApiFault, request} from './api.js';

/** @typedef {{number: number, type: string, data: any}} JobEvent */

const kMostLine = 1 << 20;  // a longer line is no event of ours
const kSlots = 4;
const kWait = 1500;  // ms until a stream looks for a free slot again

/**
 * Cuts a stream of text/event-stream into events. Pieces may end anywhere.
 * @param {(event: JobEvent) => void} tell
 */
export function eventReader(tell) {
  let rest = '', type = '', data = '', number = 0;
  /** @param {string} line */
  const take = line => {
    if (line === '') {
      if (data) tell({number, type, data: JSON.parse(data)});
      type = data = '';
    } else if (line.startsWith('id: ')) number = Number(line.slice(4)) || 0;
    else if (line.startsWith('event: ')) type = line.slice(7);
    else if (line.startsWith('data: ')) data += line.slice(6);
  };
  return (/** @type {string} */ piece) => {
    const lines = (rest + piece).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > kMostLine) throw new Error('an event is too long');
    lines.forEach(take);
  };
}

/**
 * Follows a job until its end, or until the returned function is called. Where the connection breaks it comes back and
 * goes on after the last event that it has seen.
 * @param {string} id
 * @param {(event: JobEvent) => void} tell
 * @returns {() => void}
 */
export function follow(id, tell) {
  const stopping = new AbortController();
  void inSlot(() => read(id, tell, stopping.signal), stopping.signal);
  return () => stopping.abort();
}

/**
 * Does the work while this tab has one of the slots.
 * @param {() => Promise<void>} work
 * @param {AbortSignal} signal
 */
async function inSlot(work, signal) {
  if (!navigator.locks) return work();  // a page that did not come from this machine, nor by https
  while (!signal.aborted) {
    for (let slot = 0; slot < kSlots; ++slot) {
      const done = await navigator.locks.request(`tachyscope-events-${slot}`, {ifAvailable: true}, async lock => {
        if (lock && !signal.aborted) await work();
        return lock !== null;
      });
      if (done) return;
    }
    await new Promise(resolve => setTimeout(resolve, kWait));
  }
}

/**
 * @param {string} id
 * @param {(event: JobEvent) => void} tell
 * @param {AbortSignal} signal
 */
async function read(id, tell, signal) {
  let seen = 0, ended = false, pause = 500;
  const reader = () => eventReader(event => {
    seen = event.number, pause = 500;
    ended ||= event.type === 'done' || event.type === 'failed';
    if (!signal.aborted) tell(event);
  });
  while (!ended && !signal.aborted) {
    try {
      /** @type {Record<string, string>} */
      const headers = seen ? {'Last-Event-ID': String(seen)} : {};
      const answer = await request('GET', `/v1/videos/${encodeURIComponent(id)}/events`, {headers, signal});
      const body = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
      const take = reader();
      for (let piece = await body?.read(); piece && !piece.done; piece = await body?.read()) take(piece.value);
    } catch (error) {
      if (signal.aborted || (error instanceof ApiFault && error.status >= 400 && error.status < 500)) return;
    }
    if (ended || signal.aborted) return;
    await new Promise(resolve => setTimeout(resolve, pause));
    pause = Math.min(5000, pause * 2);
  }
}
