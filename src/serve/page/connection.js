// The socket: opens it, opens it again after an interruption, and says why if it cannot. messages.h in the server
// describes the headers of frames.
import {address, ask, key, keepKey, needsTickets, ticket} from "./key.js";

const kHeaderBytes = 32;
const kTries = 8;
const kSilence = 20000;  // milliseconds without a message, until the server has said how often it sends one

export class Connection {
  // on: {open(), event(object), frame(header, jpeg), state(name, text)}; the names are connecting, key, busy, closed, cut
  constructor(on) {
    this.on = on;
    this.tries = 0;
    this.socket = null;
    this.seen = -1;
    this.seenTimer = 0;
    this.farewell = null;
    this.greeted = false;  // the world is open: orders may be sent
    this.heard = 0;
    this.silence = kSilence;
    setInterval(() => this.watch(), 250);
    // A reload requests the page before it drops this one, and the world must be free by then. A page that stays connects again.
    addEventListener("beforeunload", () => this.socket?.close());
  }

  async open() {
    clearTimeout(this.timer);
    this.on.state("connecting", "connecting …");
    let first = null;
    if (needsTickets()) {
      try {
        first = await ticket();
      } catch {
        return this.later();
      }
      if (!first) {
        const wrong = key() !== null;
        keepKey(null);
        return this.on.state("key", wrong ? "This is not a key of this server." : "This server needs a key.");
      }
    }
    const at = address("socket");
    at.protocol = at.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(at);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.farewell = null;
    this.greeted = false;
    this.seen = -1;
    this.heard = performance.now();
    let opened = false;
    socket.onopen = () => {
      opened = true;
      this.tries = 0;
      if (first) socket.send(JSON.stringify({type: "ticket", ticket: first}));
    };
    socket.onmessage = (message) => {
      if (socket !== this.socket) return;
      this.heard = performance.now();
      if (typeof message.data === "string") this.event(JSON.parse(message.data));
      else this.frame(message.data);
    };
    socket.onclose = () => { if (socket === this.socket) this.closed(opened); };
  }

  // If the connection is lost silently (the network was left, the machine slept), the socket does not report it.
  watch() {
    if (this.socket === null || performance.now() - this.heard < this.silence) return;
    const socket = this.socket;
    this.closed(socket.readyState === WebSocket.OPEN);
    socket.close();
  }

  get ready() { return this.greeted && this.socket !== null && this.socket.readyState === WebSocket.OPEN; }

  send(object) {
    if (this.ready) this.socket.send(JSON.stringify(object));
  }

  event(event) {
    if (event.type === "hello") this.silence = 4 * event.alive, this.greeted = true;
    if (event.type === "closing") this.farewell = event;
    else if (event.type !== "alive") this.on.event(event);
  }

  frame(data) {
    if (data.byteLength <= kHeaderBytes) return;
    const view = new DataView(data);
    const header = {
      run: view.getUint32(4, true),
      sequence: Number(view.getBigUint64(8, true)),
      frame: Number(view.getBigUint64(16, true)),
      stamp: Number(view.getBigUint64(24, true)),
    };
    this.seen = header.sequence;
    // The server sends more once it knows what has arrived; not every frame needs its own message.
    if (!this.seenTimer) this.seenTimer = setTimeout(() => {
      this.seenTimer = 0;
      if (this.seen >= 0) this.send({type: "seen", sequence: this.seen});
    }, 40);
    this.on.frame(header, new Uint8Array(data, kHeaderBytes));
  }

  async closed(opened) {
    this.socket = null;
    if (this.farewell?.reason === "busy") return this.busy(this.farewell.text);
    if (this.farewell) return this.on.state("closed", `closed: ${this.farewell.text}`);
    if (!opened) {
      // A refused socket does not tell the page why.
      let state = null;
      try {
        const reply = await ask("state", {signal: AbortSignal.timeout(10000)});
        if (reply.status === 403) return this.on.state("closed", "refused: a token is needed. Open the whole address that the server printed.");
        state = await reply.json();
      } catch {
        // the server is gone
      }
      if (state && state.busy) return this.busy(state.text);
    }
    this.later();
  }

  busy(text) {
    this.on.state("busy", `${text} This page continues as soon as the world is free.`);
    this.timer = setTimeout(() => this.open(), 2000);
  }

  later() {
    if (++this.tries > kTries) return this.on.state("closed", "the server no longer answers");
    this.on.state("cut", "the connection was cut; connecting again …");
    this.timer = setTimeout(() => this.open(), Math.min(500 * this.tries, 3000));
  }
}
