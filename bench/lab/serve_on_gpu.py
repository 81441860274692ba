"""Measures the server on a GPU: POST to the first step, interruption with equal bits, cancels, and plans against what is seen. The models are those of
serve_models.py beside it.

    bench/lab/serve_on_gpu.py PROGRAM --small FOLDER --large FOLDER [--device cuda] [--quick] [--parts first large] [--given-back-only]
                              [--gpus 0,1] [--out FILE.json]

PROGRAM is tachyscope-serve. --quick takes tiny videos, to try the script with the model that ships as both. The figures are one JSON object.
With --parts several a server with one GPU and one with those of --gpus make the same videos, four for each GPU.
"""

import argparse
import hashlib
import http.client
import json
import pathlib
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = {}


class Server:
    def __init__(self, program, *options):
        self.files = pathlib.Path(tempfile.mkdtemp(prefix="serve-"))
        self.errors = (self.files / "stderr.txt").open("wb")
        begin = time.monotonic()
        self.process = subprocess.Popen([program, "--port", "0", "--json", "--files", self.files, *map(str, options)], stdout=subprocess.PIPE,
                                        stderr=self.errors, cwd=ROOT)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError((self.files / "stderr.txt").read_text()[-2000:])
        self.port = json.loads(line)["port"]
        while self.ask("GET", "/ready")[0] != 200:
            time.sleep(0.02)
        self.ready_seconds = time.monotonic() - begin

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"} if body is not None else {})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def get(self, method, path, body=None):
        status, data = self.ask(method, path, body)
        if status != 200:
            raise RuntimeError(f"{method} {path}: {status} {data[:500]}")
        return json.loads(data)

    def post(self, **fields):
        return Job(self, fields)

    def row(self, job):
        """Returns the times of the job's row, in ms."""
        base = sqlite3.connect(f"file:{self.files}/tachyscope.db?mode=ro", uri=True, timeout=10)
        base.row_factory = sqlite3.Row
        return dict(base.execute("SELECT * FROM jobs WHERE id = ?", (job.id,)).fetchone())

    def stop(self):
        begin = time.monotonic()
        self.process.terminate()
        code = self.process.wait(30)
        return {"exit_code": code, "seconds": round(time.monotonic() - begin, 3), "stderr": (self.files / "stderr.txt").read_text()[-1500:]}


class Job:
    """A job, and a thread that notes when each of its events comes."""

    def __init__(self, server, fields):
        self.server, self.events, self.news = server, [], threading.Condition()
        self.posted = time.monotonic()
        self.video = server.get("POST", "/v1/videos", fields)
        self.answered = time.monotonic()
        self.id = self.video["id"]
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=600)
        connection.request("GET", f"/v1/videos/{self.id}/events")
        stream, kind = connection.getresponse(), ""
        try:
            while line := stream.readline():
                now = time.monotonic()
                if line.startswith(b"event:"):
                    kind = line[6:].strip().decode()
                elif line.startswith(b"data:"):
                    with self.news:
                        self.events.append((now, kind, json.loads(line[5:])))
                        self.news.notify_all()
        except (OSError, ValueError, http.client.HTTPException):
            pass
        with self.news:
            self.events.append((time.monotonic(), "closed", {}))
            self.news.notify_all()

    def wait(self, test, seconds=300):
        """Waits for an event for which test(kind, data) is true, and returns its time."""
        with self.news:
            end = time.monotonic() + seconds
            while True:
                for now, kind, data in self.events:
                    if test(kind, data):
                        return now
                    if kind in ("done", "failed") and test is not ended:
                        raise RuntimeError(f"{self.id} ended with {kind} {data}, {self.story()}")
                left = end - time.monotonic()
                if left <= 0 or not self.news.wait(left):
                    raise RuntimeError(f"{self.id}: nothing came in {seconds} s: {self.story()}")

    def stage(self, name, done=0):
        return self.wait(lambda kind, data: kind == "progress" and data["stage"] == name and data["done"] >= done)

    def end(self):
        self.wait(ended)
        last = self.events[-1] if self.events[-1][1] != "closed" else self.events[-2]
        if last[1] != "done":
            raise RuntimeError(f"{self.id} {last}")
        return last[0]

    def story(self):
        return [(round(now - self.posted, 3), kind, data.get("stage"), data.get("done")) for now, kind, data in self.events]

    def sha(self):
        return hashlib.sha256(self.server.ask("GET", f"/v1/videos/{self.id}/content")[1]).hexdigest()


def ended(kind, _):
    return kind in ("done", "failed")


class Memory:
    """Samples the memory in use on the GPU, by all processes, every 10 ms."""

    def __init__(self):
        self.most = 0
        try:
            import pynvml
            pynvml.nvmlInit()
            self.nvml, self.device = pynvml, pynvml.nvmlDeviceGetHandleByIndex(0)
            threading.Thread(target=self.sample, daemon=True).start()
        except Exception as error:
            self.nvml = None
            OUT["memory"] = f"not seen: {error}"

    def now(self):
        return self.nvml.nvmlDeviceGetMemoryInfo(self.device).used if self.nvml else 0

    def sample(self):
        while True:
            self.most = max(self.most, self.now())
            time.sleep(0.01)

    def peak(self, action):
        self.most = self.now()
        action()
        return self.most


class Trace:
    """Notes, every 3 ms, what changes while a job gives its place to another: the GPU's memory, the files of its folder, and both rows."""

    def __init__(self, server, memory, old, new):
        self.server, self.memory, self.old, self.new = server, memory, old, new
        self.lines, self.last, self.going = [], {}, True
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        base = sqlite3.connect(f"file:{self.server.files}/tachyscope.db?mode=ro", uri=True, timeout=10)
        while self.going:
            self.note("GB", round(self.memory.now() / 1e9))
            self.note("files", self.states())
            for name, job in (("old", self.old), ("new", self.new)):
                self.note(name, base.execute("SELECT status FROM jobs WHERE id = ?", (job.id,)).fetchone()[0])
            time.sleep(0.003)

    def states(self):
        try:
            return sorted(f"{p.name}: {p.stat().st_size >> 20} MiB" for p in (self.server.files / "jobs" / self.old.id).glob("*resume*"))
        except FileNotFoundError:  # it was renamed just now
            return self.last.get("files")

    def note(self, what, value):
        if self.last.get(what) != value:
            self.last[what] = value
            self.lines.append((round(time.monotonic() - self.new.posted, 3), what, value))

    def stop(self):
        self.going = False
        self.thread.join()
        return self.lines


def milliseconds(values):
    return {"median": round(1e3 * statistics.median(values), 1), "most": round(1e3 * max(values), 1), "all": [round(1e3 * v, 1) for v in values]}


def part(name):
    def around(function):
        def run(*args):
            begin = time.monotonic()
            try:
                OUT[name] = function(*args)
            except Exception as error:
                OUT[name] = {"failed": str(error)[:1500], "trace": traceback.format_exc()[-600:]}
            OUT.setdefault("seconds_of_parts", {})[name] = round(time.monotonic() - begin, 1)
            print(name, json.dumps(OUT[name])[:1800], flush=True)
        return run
    return around


@part("memory_and_first_run")
def first_run(server, memory, fields, idle):
    plan = server.get("POST", "/v1/videos/plan", fields)
    peak = memory.peak(lambda: server.post(**fields).end())
    return {"planned": plan["gpu_bytes"], "host_planned": plan["host_bytes"], "used_before_the_server": idle, "peak": peak, "seen": peak - idle,
            "planned_seconds": plan["seconds"], "after": memory.now()}


@part("post_to_first_step")
def post_to_first_step(server, fields, count):
    seen, answered, by_row, stories = [], [], [], []
    for i in range(count):
        job = server.post(**{**fields, "prompt": f"a cat in a garden, number {i}", "seed": i})
        seen.append(job.stage("denoise") - job.posted)
        answered.append(job.answered - job.posted)
        job.end()
        row = server.row(job)
        by_row.append((row["started_ms"] - row["created_ms"]) / 1e3)
        stories = job.story()
    return {"post_to_denoise": milliseconds(seen), "post_answered": milliseconds(answered), "created_to_started": milliseconds(by_row), "last": stories[:6]}


@part("plans_against_seen")
def plans_against_seen(server, jobs):
    out = []
    for fields in jobs:
        plan = server.get("POST", "/v1/videos/plan", fields)["seconds"]
        job = server.post(**fields)
        job.end()
        row = server.row(job)
        seen = (row["ended_ms"] - row["started_ms"]) / 1e3
        out.append({"size": fields["size"], "frames": fields["num_frames"], "steps": fields["num_inference_steps"], "planned": round(plan, 3), "seen": seen,
                    "ratio": round(seen / plan, 3)})
    return {"jobs": out, "median_ratio": statistics.median(job["ratio"] for job in out)}


@part("cancels")
def cancels(server, memory, fields, few_steps):
    before, out = memory.now(), {}
    for name, stage, wait, wanted in (("load_or_text", "", 0.005, fields), ("denoise", "denoise", 0.3, fields), ("denoise_later", "denoise", 0.77, fields),
                                      ("decode", "decode", 0.05, few_steps), ("decode_later", "decode", 0.3, few_steps)):
        for method in ("DELETE", "POST"):
            job = server.post(**wanted)
            if stage:
                job.stage(stage)
            time.sleep(wait)
            begin = time.monotonic()
            status, _ = server.ask(method, f"/v1/videos/{job.id}" + ("" if method == "DELETE" else "/cancel"))
            answered = time.monotonic() - begin
            if method == "POST":
                job.wait(ended, 30)
            out[f"{name} {method}"] = {"status": status, "answered": round(answered, 3), "stopped": round(time.monotonic() - begin, 3)}
    return {"memory_before": before, "memory_after": memory.now(), "times": out}


@part("interrupted")
def interrupted(server, memory, long, short, short_warm, large_short, given_back_only):
    """The long job runs undisturbed, then held for a short one, then given back for one that does not fit beside it."""
    out = {}
    server.post(**short_warm).end()
    if not given_back_only:
        whole = server.post(**long)
        out["peak"] = memory.peak(whole.end)
        out["undisturbed"] = {"seconds": round(whole.events[-1][0] - whole.posted, 2), "story": whole.story()[:4]}
        want = whole.sha()
    job = server.post(**long)
    job.stage("denoise")
    for name, wait, fields in (("held", 2.0, short), ("held_again", 1.0, short), ("given_back", 1.0, large_short)):
        if not fields or (given_back_only and name != "given_back"):
            continue
        if name == "given_back":
            job.stage("denoise", 1)  # so that there is a state to go on from
        time.sleep(wait)
        used = memory.now()
        second = server.post(**{**fields, "priority": 5})
        trace = Trace(server, memory, job, second) if name == "given_back" else None
        first = second.stage("text") - second.posted if name == "given_back" else 0
        begun = second.stage("denoise") - second.posted
        mine = server.get("GET", f"/v1/videos/{job.id}")
        second.end()
        row = server.row(second)
        out[name] = {"trace": trace.stop() if trace else None, "first_sign": round(first, 3), "denoise_after": round(begun, 3), "created_to_started": (row["started_ms"] - row["created_ms"]) / 1e3,
                     "whole": round(second.events[-1][0] - second.posted, 3), "memory": [used, memory.now()], "the_long_one": {k: mine.get(k) for k in
                     ("status", "progress", "stage", "interrupted")}, "story": second.story()[:8]}
        print(name, json.dumps(out[name]), flush=True)
    if given_back_only:
        return out
    job.end()
    out["disturbed_seconds"] = round(job.events[-1][0] - job.posted, 2)
    out["bits_equal"] = job.sha() == want
    out["log"] = (server.files / "jobs" / job.id / "log.txt").read_text()[-600:] if (server.files / "jobs" / job.id / "log.txt").exists() else ""
    return out


@part("several")
def several(args):
    """The same videos by one GPU and by several: seconds from the first post to the last end, once each GPU has made two."""
    count = len(args.gpus.split(","))
    base = {"size": "832x480", "num_frames": 81, "num_inference_steps": 4, "guidance_scale": 1}
    out, sums = {"gpus": args.gpus, "videos": 4 * count}, []
    for name, options in (("one", ["--device", "cuda"]), ("several", ["--gpus", args.gpus])):
        server = Server(args.program, "--model", f"wan={args.small}", *options)
        for job in [server.post(**base, prompt="a dog", seed=100 + i) for i in range(2 * count if name == "several" else 2)]:
            job.end()
        begin = time.monotonic()
        jobs = [server.post(**base, prompt="a cat", seed=i) for i in range(4 * count)]
        ends = [job.end() for job in jobs]
        sums.append([job.sha() for job in jobs])
        rows = [server.row(job) for job in jobs]
        out[name] = {"seconds": round(max(ends) - begin, 2), "at_the_same_time": max(sum(a["started_ms"] <= b["started_ms"] < a["ended_ms"] for a in rows) for b in rows),
                     "ready_seconds": round(server.ready_seconds, 2), "stop": server.stop()["exit_code"]}
    return {**out, "times_as_fast": round(out["one"]["seconds"] / out["several"]["seconds"], 2), "files_equal": sums[0] == sums[1]}


def run_first(args, memory, idle):
    quick = args.quick
    size, frames = ("64x64", 9) if quick else ("832x480", 81)
    base = {"prompt": "a cat", "size": size, "num_frames": frames, "num_inference_steps": 3, "seed": 1}
    server = Server(args.program, "--model", f"wan={args.small}", "--device", args.device)
    OUT["ready_seconds"] = round(server.ready_seconds, 2)
    first_run(server, memory, base, idle)
    server.post(**{**base, "seed": 2}).end()
    tiny = {**base, "size": "64x64" if quick else "832x480", "num_frames": 5 if quick else 17, "num_inference_steps": 2}
    server.post(**tiny).end()
    post_to_first_step(server, tiny, 3 if quick else 12)
    sizes = ("64x64", "96x64", "64x96", "64x64", "96x96") if quick else ("832x480", "480x832", "640x480", "480x480", "832x480")
    plans_against_seen(server, [{**base, "size": s, "num_frames": f, "num_inference_steps": n, "seed": n} for s, f, n in zip(
        sizes, (9, 5, 9, 13, 5) if quick else (81, 49, 33, 65, 17), (3, 4, 6, 2, 5))])
    cancels(server, memory, {**base, "num_inference_steps": 20}, {**base, "num_inference_steps": 1})
    OUT["stop_of_the_first"] = server.stop()


def run_large(args, memory):
    size, frames = ("96x96", 33) if args.quick else ("1280x720", args.frames)
    long = {"model": "large", "prompt": "a cat", "size": size, "num_frames": frames, "num_inference_steps": 20 if args.quick else 2, "guidance_scale": 1, "seed": 7}
    short = {"model": "sprites", "prompt": "a red circle moves right", "num_frames": 9, "num_inference_steps": 4, "seed": 1}
    options = ["--model", f"large={args.large}", "--model", f"sprites={ROOT}/models/sprites", "--model", f"wan={args.small}", "--device", args.device, "--at-once", 1]
    second, vram = {**short, "size": "64x64"}, []
    if not args.quick:
        server = Server(args.program, *options)
        plan = server.get("POST", "/v1/videos/plan", long)
        OUT["large_plan"] = plan
        second = {"model": "wan", "prompt": "a dog", "size": "832x480", "num_frames": 17, "num_inference_steps": 2, "seed": 3}
        OUT["second_plan"] = server.get("POST", "/v1/videos/plan", second)
        OUT["short_plan"] = server.get("POST", "/v1/videos/plan", short)
        OUT["stop_of_the_planner"] = server.stop()
        vram = ["--max-vram", plan["gpu_bytes"] + OUT["short_plan"]["gpu_bytes"] + (1 << 30)]
    server = Server(args.program, *options, *vram)
    interrupted(server, memory, long, short, short, second, args.given_back_only)
    OUT["stop_of_the_large"] = server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--small", required=True)
    parser.add_argument("--large", default="")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--frames", type=int, default=81, help="of the long job at 1280x720")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", nargs="+", choices=("first", "large", "several"), default=("first", "large"))
    parser.add_argument("--gpus", default="0,1", help="the GPUs of `several`")
    parser.add_argument("--given-back-only", action="store_true", help="of the large part only how long it takes until a job has given its memory back")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    memory = Memory()
    idle = memory.now()
    try:
        if "first" in args.parts:
            run_first(args, memory, idle)
        if "large" in args.parts:
            run_large(args, memory)
        if "several" in args.parts:
            several(args)
    finally:
        if args.out:
            args.out.write_text(json.dumps(OUT, indent=1))


if __name__ == "__main__":
    main()
