// Draws frames at the video's pace. A block's frames come together and are drawn one after another. Late frames delay the
// following ones. If for two seconds every frame arrived earlier than necessary, frames are drawn a little faster, so that
// one late block does not delay the pictures after the keys for ever. If more than two blocks pile up, frames are left out.
const kEnough = 30;  // milliseconds between a frame's arrival and its turn

export class Playback {
  // drawn(header, now): a frame is on the canvas
  constructor(canvas, drawn) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.drawn = drawn;
    this.queue = [];
    this.run = 0;
    this.due = 0;
    this.skipped = 0;
    this.starved = true;
    this.early = [];  // for the frames of the last two seconds: [when it arrived, how long before its turn]
    this.setUp({fps: 12, block_frames: 4, first_block_frames: 1, width: 160, height: 96});
    requestAnimationFrame((now) => this.tick(now));
  }

  setUp(info) {
    this.period = 1000 / info.fps;
    this.block = Math.max(info.block_frames, info.first_block_frames);
    this.canvas.width = info.width;
    this.canvas.height = info.height;
    this.canvas.style.aspectRatio = `${info.width} / ${info.height}`;
    this.clear();
    this.run = 0;
  }

  clear() {
    for (const entry of this.queue) entry.drop();
    this.queue = [];
  }

  add(header, jpeg) {
    if (header.run < this.run) return;
    if (header.run > this.run) this.clear();
    this.run = header.run;
    const now = performance.now();
    this.early.push([now, this.due + this.queue.length * this.period - now]);
    while (this.early[0][0] < now - 2000) this.early.shift();
    const entry = {header, bitmap: null, dropped: false, drop() { this.dropped = true; this.bitmap?.close(); }};
    this.queue.push(entry);
    createImageBitmap(new Blob([jpeg], {type: "image/jpeg"})).then((bitmap) => {
      if (entry.dropped) bitmap.close();
      else entry.bitmap = bitmap;
    }, () => { entry.failed = true; });
    while (this.queue.length > 2 * this.block) this.queue.shift().drop(), ++this.skipped;
  }

  tick(now) {
    requestAnimationFrame((next) => this.tick(next));
    while (this.queue.length && this.queue[0].failed) this.queue.shift();
    let head = this.queue[0];
    if (!head || !head.bitmap) return void (this.starved = true);
    if (this.starved && now > this.due) this.due = now;
    this.starved = false;
    if (now < this.due - 1) return;
    const least = Math.min(...this.early.map((entry) => entry[1]));
    const period = this.queue.length > this.block ? this.period * 0.8 : least > kEnough ? this.period * 0.9 : this.period;
    this.queue.shift();
    // If the screen is slower than the video, or the page was busy, frames that are overdue are left out.
    while (now - this.due >= period && this.queue[0]?.bitmap) {
      head.drop();
      head = this.queue.shift();
      this.due += period;
      ++this.skipped;
    }
    this.due += period;
    this.context.drawImage(head.bitmap, 0, 0, this.canvas.width, this.canvas.height);
    head.drop();
    this.drawn(head.header, now);
  }
}
