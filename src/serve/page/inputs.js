// The inputs that are held on keyboard, mouse, touch screen and gamepad together, in the model's form: names of keys and
// [pitch, yaw]. They are held until released; nothing is held once the page loses the focus.
const kArrows = {ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
const kArrowKeys = {ArrowUp: "W", ArrowDown: "S", ArrowLeft: "A", ArrowRight: "D"};
const kPadKeys = {12: "ArrowUp", 13: "ArrowDown", 14: "ArrowLeft", 15: "ArrowRight"};
const kDeadZone = 0.2;
const kLeastPause = 30;  // milliseconds between two messages

export class Inputs {
  // send(object with keys, mouse, stamp); pressed(stamp, when): the time of the input with that stamp
  constructor(canvas, pads, send, pressed) {
    this.canvas = canvas;
    this.pads = pads;
    this.sendMessage = send;
    this.pressed = pressed;
    this.info = {keys: [], mouse: false, mouse_step: 0};
    this.codes = new Set();
    this.fingers = new Map();  // the key of each pointer on a button of the pad
    this.drag = null;          // {id, x, y, dx, dy} on the canvas
    this.gamepad = {keys: new Set(), mouse: [0, 0]};
    this.away = false;  // the page has lost the focus, which a gamepad does not need
    this.stamp = 0;
    this.last = "";
    this.at = -Infinity;
    this.changedAt = null;
    addEventListener("keydown", (event) => this.key(event, true));
    addEventListener("keyup", (event) => this.key(event, false));
    addEventListener("blur", () => this.leave());
    for (const name of ["focus", "pointerdown"]) addEventListener(name, () => { this.away = false; });
    addEventListener("pagehide", () => this.leave());
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.leave(); });
    canvas.addEventListener("pointerdown", (event) => this.pointerDown(event));
    canvas.addEventListener("pointermove", (event) => this.pointerMove(event));
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) canvas.addEventListener(name, (event) => this.pointerUp(event));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  }

  setUp(info) {
    this.info = info;
    this.release(false);
    this.last = "";
    this.stamp = 0;
    this.pads.replaceChildren(...info.keys.filter((name) => name !== "still").map((name) => this.pad(name)));
  }

  pad(name) {
    const button = document.createElement("button");
    button.textContent = name;
    button.dataset.key = name;
    button.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      button.setPointerCapture(event.pointerId);
      this.fingers.set(event.pointerId, name);
      this.changed();
    });
    for (const kind of ["pointerup", "pointercancel", "lostpointercapture"])
      button.addEventListener(kind, (event) => { if (this.fingers.delete(event.pointerId)) this.changed(); });
    return button;
  }

  knows(code) {
    if (code in kArrows) return this.info.mouse || this.info.keys.includes(kArrowKeys[code]);
    return code.startsWith("Key") && this.info.keys.includes(code.slice(3));
  }

  key(event, down) {
    // A key is released no matter what else is held by then. While Command is held, a Mac does not report released letters.
    if (!down && (this.codes.delete(event.code) || event.key === "Meta")) {
      if (event.key === "Meta") this.codes.clear();
      event.preventDefault();
      return this.changed();
    }
    if (!down || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    if (event.ctrlKey || event.altKey || event.metaKey || !this.knows(event.code)) return;
    event.preventDefault();
    if (event.repeat) return;
    this.codes.add(event.code);
    this.changed();
  }

  pointerDown(event) {
    this.canvas.focus();
    if (!this.info.mouse || this.drag) return;
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = {id: event.pointerId, x: event.clientX, y: event.clientY, dx: 0, dy: 0};
  }

  // Acts like a stick: the distance of the pointer from where it was pressed.
  pointerMove(event) {
    if (!this.drag || this.drag.id !== event.pointerId) return;
    const unit = this.canvas.clientWidth / 8;
    this.drag.dx = (event.clientX - this.drag.x) / unit;
    this.drag.dy = (event.clientY - this.drag.y) / unit;
    this.changed();
  }

  pointerUp(event) {
    if (!this.drag || this.drag.id !== event.pointerId) return;
    this.drag = null;
    this.changed();
  }

  poll() {
    const keys = new Set(), mouse = [0, 0];
    for (const pad of this.away ? [] : navigator.getGamepads?.() ?? []) {
      if (!pad || !pad.connected) continue;
      const axis = (n) => Math.abs(pad.axes[n] ?? 0) > kDeadZone ? pad.axes[n] : 0;
      if (axis(1) < 0) keys.add("W");
      if (axis(1) > 0) keys.add("S");
      if (axis(0) < 0) keys.add("A");
      if (axis(0) > 0) keys.add("D");
      mouse[0] -= axis(3) * 2;
      mouse[1] += axis(2) * 2;
      for (const [button, code] of Object.entries(kPadKeys)) if (pad.buttons[button]?.pressed) keys.add(code);
    }
    const same = keys.size === this.gamepad.keys.size && [...keys].every((key) => this.gamepad.keys.has(key)) &&
      mouse.every((value, n) => Math.abs(value - this.gamepad.mouse[n]) < 0.02);
    if (same) return this.flush();
    this.gamepad = {keys, mouse};
    this.changed();
  }

  leave() {
    this.away = true;
    this.release();
  }

  release(send = true) {
    this.codes.clear();
    this.fingers.clear();
    this.drag = null;
    this.gamepad = {keys: new Set(), mouse: [0, 0]};
    if (send) this.changed(true);
  }

  // [names, [pitch, yaw]]
  held() {
    const names = new Set(), mouse = [0, 0], step = this.info.mouse_step || 0.1;
    for (const code of [...this.codes, ...this.gamepad.keys]) {
      if (code in kArrows && this.info.mouse) kArrows[code].forEach((value, n) => { mouse[n] += value * step; });
      else if (code in kArrowKeys) names.add(kArrowKeys[code]);
      else names.add(code.replace(/^Key/, ""));
    }
    for (const name of this.fingers.values()) names.add(name);
    mouse[0] += this.gamepad.mouse[0] * step;
    mouse[1] += this.gamepad.mouse[1] * step;
    if (this.drag) {
      const stick = (value) => Math.max(-3, Math.min(3, Math.abs(value) < 0.1 ? 0 : value));
      mouse[0] -= stick(this.drag.dy) * step;
      mouse[1] += stick(this.drag.dx) * step;
    }
    const round = (value) => Math.round(Math.max(-1, Math.min(1, value)) * 1000) / 1000;
    return [this.info.keys.filter((name) => names.has(name)), mouse.map(round)];
  }

  changed(now = false) {
    if (this.changedAt === null) this.changedAt = performance.now();
    this.flush(now);
  }

  flush(now = false) {
    if (this.changedAt === null || (!now && performance.now() - this.at < kLeastPause)) return;
    const [keys, mouse] = this.held();
    const message = this.info.mouse ? {type: "input", keys, mouse} : {type: "input", keys};
    const text = JSON.stringify(message);
    const when = this.changedAt;
    this.changedAt = null;
    if (text === this.last) return;
    this.last = text;
    this.at = performance.now();
    this.pressed(++this.stamp, when);
    this.sendMessage({...message, stamp: this.stamp});
  }
}
