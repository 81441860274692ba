// One picture with the frames per second and the time from key to picture during the last minute.
const kSeconds = 60;

export class Graph {
  constructor(canvas) {
    this.canvas = canvas;
    this.frames = [];     // when each was drawn
    this.rates = [];      // [when, frames per second]
    this.latencies = [];  // [when, milliseconds]
  }

  clear() { this.frames = []; }

  frame(now) { this.frames.push(now); }
  latency(now, milliseconds) { this.latencies.push([now, milliseconds]); }

  // The values for the last second.
  fps(now) {
    while (this.frames.length && this.frames[0] < now - 1000) this.frames.shift();
    return this.frames.length;
  }

  latencyOf(share) {
    const sorted = this.latencies.map((entry) => entry[1]).sort((a, b) => a - b);
    return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : null;
  }

  draw(now) {
    this.rates.push([now, this.fps(now)]);
    for (const list of [this.rates, this.latencies]) while (list.length && list[0][0] < now - kSeconds * 1000) list.shift();
    const scale = window.devicePixelRatio || 1, width = this.canvas.clientWidth, height = this.canvas.clientHeight;
    if (this.canvas.width !== Math.round(width * scale)) this.canvas.width = Math.round(width * scale);
    if (this.canvas.height !== Math.round(height * scale)) this.canvas.height = Math.round(height * scale);
    const c = this.canvas.getContext("2d");
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, width, height);
    const style = getComputedStyle(document.documentElement);
    this.line(c, this.rates, now, width, height, style.getPropertyValue("--one"), "left", 30);
    this.line(c, this.latencies, now, width, height, style.getPropertyValue("--two"), "right", 500);
  }

  line(c, list, now, width, height, color, side, least) {
    const most = Math.max(least, ...list.map((entry) => entry[1])) * 1.1;
    const x = (when) => width * (1 - (now - when) / (kSeconds * 1000)), y = (value) => height * (1 - value / most);
    c.strokeStyle = c.fillStyle = color;
    c.lineWidth = 1.5;
    c.beginPath();
    for (const [when, value] of list) c.lineTo(x(when), y(value));
    c.stroke();
    if (side === "right") for (const [when, value] of list) c.fillRect(x(when) - 1.5, y(value) - 1.5, 3, 3);
    c.font = "11px system-ui";
    c.textAlign = side;
    c.fillText(String(Math.round(most)), side === "left" ? 4 : width - 4, 12);
  }
}
