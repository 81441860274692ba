// The page: connects the socket, the canvas, the inputs and the figures.
import {Connection} from "./connection.js";
import {Playback} from "./playback.js";
import {Inputs} from "./inputs.js";
import {Graph} from "./graph.js";
import {address, ask, keepKey, needsTickets} from "./key.js";

const $ = (id) => document.getElementById(id);
const kMostUpload = 8 * 1024 * 1024, kMostMessage = 1024;
// Values that programs that watch the page may read.
const status = window.worldPage = {state: "connecting", drawn: 0, latencies: [], run: 0, info: null, lastFrame: null};
const graph = new Graph($("graph"));
const waiting = new Map();  // for each stamp, when its key was pressed
let info = null, shownStamp = 0, recording = false, begun = false;
let told = {};  // the server's own seed and prompt, which it knows more exactly than this page does

function say(state, text) {
  status.state = state;
  document.body.dataset.state = state;
  $("cover").hidden = state === "running";
  $("cover-text").textContent = text;
  $("again").hidden = state !== "closed";
  $("key-form").hidden = state !== "key";
  const open = connection.ready && info !== null;
  for (const id of ["start", "reset", "stop", "record", "picture"]) $(id).disabled = !open;
  if (state !== "running") graph.clear();
}

const playback = new Playback($("view"), (header, now) => {
  ++status.drawn;
  status.lastFrame = header;
  graph.frame(now);
  if (header.stamp <= shownStamp) return;
  let first = Infinity;
  for (const [stamp, when] of waiting) if (stamp <= header.stamp) first = Math.min(first, when), waiting.delete(stamp);
  shownStamp = header.stamp;
  if (first === Infinity) return;
  const latency = performance.now() - first;
  graph.latency(now, latency);
  status.latencies.push(latency);
  if (status.latencies.length > 1000) status.latencies.shift();
  $("latency").textContent = `${Math.round(latency)} ms`;
  $("latency-95").textContent = `${Math.round(graph.latencyOf(0.95))} ms`;
});

const connection = new Connection({
  state: (state, text) => say(state, text),
  frame: (header, jpeg) => playback.add(header, jpeg),
  event: (event) => {
    if (event.type === "hello") hello(event);
    else if (event.type === "state") world(event);
    else if (event.type === "block") block(event);
    else if (event.type === "recording") recorded(event);
    else if (event.type === "notice") $("note").textContent = event.text;
  },
});

const inputs = new Inputs($("view"), $("pads"), (message) => connection.send(message), (stamp, when) => {
  if (status.state === "running") waiting.set(stamp, when);
});

function hello(event) {
  info = status.info = event;
  waiting.clear();
  shownStamp = 0;
  playback.setUp(event);
  inputs.setUp(event);
  showRecording(false);
  $("device").textContent = `${event.kind}, ${event.width}x${event.height}, ${event.device}`;
  $("picture-label").hidden = !event.takes_image;
  $("prompt-label").hidden = !event.takes_prompt;
  if (event.prompt && !$("prompt").value) $("prompt").value = event.prompt;
  if (!begun) $("seed").value = event.seed;
  begun = true;
  told = {seed: String(event.seed), prompt: event.prompt.replace(/\r\n?/g, "\n")};
  const ways = [];
  if (event.keys.length) ways.push(`keys ${event.keys.filter((name) => name !== "still").join(" ")}`);
  if (event.mouse) ways.push("arrows, or drag in the picture, to look around");
  else if (event.keys.length) ways.push("arrows");
  $("help").textContent = ways.length ? `Hold ${ways.join("; ")}; or use a gamepad.` : "This world follows its prompt.";
  if (event.takes_image && !event.has_picture) say("waiting", "Choose a picture: the world begins with it.");
  else if (event.takes_prompt && !$("prompt").value) say("waiting", "Write a prompt: the world begins with it.");
  else start();
}

function start() {
  const message = {type: "start"}, seed = $("seed").value, prompt = $("prompt").value;
  if (seed !== told.seed) message.seed = Math.min(Math.max(Math.trunc(Number(seed)) || 0, 0), Number.MAX_SAFE_INTEGER);
  if (info.takes_prompt && prompt !== told.prompt) message.prompt = prompt;
  if (new TextEncoder().encode(JSON.stringify(message)).length > kMostMessage)
    return void ($("note").textContent = "the prompt is too long: about 900 letters are accepted");
  for (const name of ["seed", "prompt"]) if (name in message) told[name] = null;  // from here on they come from this page
  say("starting", "starting …");
  connection.send(message);
  $("view").focus();
}

function world(event) {
  if (event.state === "opening") return say("opening", "opening the world …");
  status.run = event.run;
  $("note").textContent = event.state === "error" ? event.text : "";
  if (event.state === "running") say("running", "");
  else if (event.state === "starting") say("starting", "starting …");
  else if (event.state === "stopped") say("stopped", "stopped. Start begins again.");
  else say("error", `${event.text}. Start begins again.`);
}

function block(event) {
  $("block").textContent = `${Math.round(event.seconds * 1000)} ms`;
  $("dropped").textContent = event.dropped + playback.skipped;
}

function showRecording(on) {
  recording = on;
  $("record").classList.toggle("on", on);
  $("record").textContent = on ? "Stop recording" : "Record";
}

function recorded(event) {
  showRecording(event.state === "on");
  if (event.state === "lost") $("note").textContent = `the recording could not be written: ${event.text}`;
  if (event.state !== "done") return;
  const link = $("download");
  link.href = address("recording", {id: event.id});
  // A link cannot send the key, so the page itself fetches the file.
  link.onclick = needsTickets() ? (click) => { click.preventDefault(); fetchRecording(event.id); } : null;
  link.download = "world.mp4";
  link.textContent = `world.mp4 (${event.frames} frames, ${(event.bytes / 1e6).toFixed(1)} MB)`;
  link.hidden = false;
}

async function fetchRecording(id) {
  const reply = await ask("recording", {}, {id}).catch(() => null);
  if (!reply?.ok) return void ($("note").textContent = "the recording could not be fetched");
  const link = Object.assign(document.createElement("a"), {href: URL.createObjectURL(await reply.blob()), download: "world.mp4"});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function upload(file) {
  if (!file) return;
  if (file.size > kMostUpload) return void ($("note").textContent = "the picture's file is too large: at most 8 MiB are accepted");
  $("note").textContent = "sending the picture …";
  try {
    const reply = await ask("picture", {method: "POST", body: file}, {session: info.session});
    $("note").textContent = reply.ok ? "" : (await reply.text()).trim();
  } catch {
    $("note").textContent = "the picture could not be sent";
  }
}

$("start").onclick = start;
$("reset").onclick = () => { connection.send({type: "reset"}); $("view").focus(); };
$("stop").onclick = () => connection.send({type: "stop"});
$("record").onclick = () => { connection.send({type: "record", on: !recording}); $("view").focus(); };
$("key-form").onsubmit = (event) => { event.preventDefault(); keepKey($("key").value.trim()); $("key").value = ""; connection.open(); };
$("again").onclick = () => connection.open();
$("picture").onchange = (event) => { upload(event.target.files[0]); event.target.value = ""; };
setInterval(() => inputs.poll(), 16);
setInterval(() => {
  const now = performance.now();
  $("fps").textContent = status.state === "running" ? graph.fps(now) : "–";
  graph.draw(now);
}, 250);
status.connection = connection;
connection.open();
