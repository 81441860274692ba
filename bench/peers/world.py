#!/usr/bin/env python3
"""Times worlds and streams on a GPU, block by block: ours beside the original's computation in PyTorch, with models of true shape with random
weights.

    python3 bench/peers/world.py build/tachyscope [--rows ROW …] [--models FOLDER] [--seconds 480] [--json FILE]
    python3 bench/peers/world.py build/tachyscope --list                              # the rows, with the seconds that each is expected to take
    python3 bench/peers/world.py build/tachyscope --tiny --device cpu                 # the script itself, anywhere

Rows of Matrix-Game 2's universal model at 640x352 (mg2), Self-Forcing 1.3B at 832x480 with a window of 21 (sf), the world that ships (world), and its
sizes with two steps (small):
    NAME           `tachyscope bench --model …`: steady blocks, graphed; by component besides
    NAME-queued    without graphs
    NAME-busy      beside two processes that keep two of the host's cores busy
    NAME-pinned    the same, all of them on the same two cores
    NAME-eager     the original's way in PyTorch (bench/peers/world_torch.py), NAME-compiled: by torch.compile
    sf-clip        81 frames from a prompt to the last frame, the second of two videos of one process
Rows run in the order of ROWS, most wanted first; --seconds is a hard limit: rows that would not fit are left out and named, and a row that runs too
long is stopped. Every row's figures are printed as they come, and a table of the targets comes last. Needs torch with CUDA, diffusers and
safetensors for the rows of PyTorch."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import world_model  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SHAPES = {"mg2": "universal", "sf": "self-forcing", "small": "small", "world": None, "tiny": "tiny"}  # None: the model exists already
BLOCKS = {"mg2": 500, "sf": 100, "small": 500, "world": 500, "tiny": 6}
# row: the seconds that it is expected to take if its model exists already
ROWS = {"mg2": 75, "mg2-eager": 45, "sf": 60, "sf-eager": 45, "mg2-queued": 30, "world": 15, "world-queued": 12, "small": 15, "small-queued": 12, "mg2-busy": 75, "sf-clip": 30,
        "sf-queued": 30, "mg2-compiled": 150, "small-eager": 30, "mg2-pinned": 75, "sf-busy": 55, "sf-compiled": 170}
FEW = {"queued": 60, "eager": 30, "compiled": 30, "busy": None, "pinned": None}
TINY_ROWS = ("tiny", "tiny-queued", "tiny-busy", "tiny-pinned", "tiny-eager", "tiny-compiled")
# the targets, issue 19: (row, figure, words, must, aim, whether more is better)
MUSTS = [("mg2", "fps", "Matrix-Game 2 universal 352x640, FPS", 90, 110, True), ("mg2", "block_ms", "  a block, ms", 133, 110, False),
         ("mg2", "first_ms", "  action to the first four frames on the host, ms", 85, 68, False), ("sf-clip", "fps", "Self-Forcing 480x832, 81 frames, FPS", 34, 42, True),
         ("sf", "fps", "  steady, window 21, FPS", 27, 33, True), ("mg2", "p95_of_median", "P95 / median", 1.03, 1.01, False),
         ("mg2-busy", "p95_of_median", "  beside two busy processes", 1.05, 1.01, False), ("mg2", "cpu_ms", "host CPU of a steady block, ms", 1, 1, False),
         ("mg2", "plan_gib", "planned peak, Matrix-Game 2, GiB", 7, 7, False), ("sf", "plan_gib", "planned peak, Self-Forcing, GiB", 12, 12, False),
         ("world", "fps", "the world that ships, FPS", 400, 400, True), ("small", "fps", "  its sizes with two steps, FPS", 400, 400, True)]
STAGES = [(0.15, "15-20 %"), (0.30, "30-35 %"), (0.50, "50-70 %")]


def family(row):
    return row.split("-")[0]


def median(values):
    return sorted(values)[len(values) // 2]


def p95(values):
    return sorted(values)[max(0, -(-95 * len(values) // 100) - 1)]


class Busy:
    """Runs two processes that do nothing useful on these cores, for as long as the block lasts."""

    def __init__(self, count, cores):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=(lambda: os.sched_setaffinity(0, cores)) if cores else None)
                          for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def ended(command, seconds, cores=None):
    """Runs a command and returns its standard output. Raises a RuntimeError with its messages if it fails or runs too long."""
    command = [str(word) for word in command]
    pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=max(1, seconds), preexec_fn=pin)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{' '.join(command)}: ended after {seconds:.0f} s") from None
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-1500:]}")
    return done.stdout


def ours(args, row, folder, seconds):
    name, way = family(row), row.partition("-")[2]
    blocks = args.blocks or FEW.get(way) or BLOCKS[name]
    command = [args.ours, "bench", "--model", folder, "--device", args.device, "--level", args.level, "--blocks", min(blocks, BLOCKS[name]), "--json"]
    if way == "queued":
        command.append("--no-graph")
    cores = set(sorted(os.sched_getaffinity(0))[:2]) if way == "pinned" else None
    if way in ("busy", "pinned"):
        with Busy(2, cores):
            out = ended(command, seconds, cores)
    else:
        out = ended(command, seconds)
    report = json.loads(out)
    lines, b = {line["id"]: line for line in report["lines"]}, report["blocks"]
    whole, first = lines["block"], lines["action to first frame"]
    cpu = lines.get("host CPU time of a block")
    parts = {line["id"].removeprefix("block: "): round(100 * line["share"], 1) for line in report["lines"] if line["id"].startswith("block: ")}
    return {"fps": 1e6 * b["frames"] / whole["mean_us"], "block_ms": whole["median_us"] / 1000, "mean_ms": whole["mean_us"] / 1000, "p95_ms": whole["p95_us"] / 1000,
            "first_ms": first["median_us"] / 1000, "p95_of_median": whole["p95_us"] / whole["median_us"], "blocks": whole["repeats"],
            "start_ms": lines["start to first frame"]["median_us"] / 1000, "cpu_ms": cpu["median_us"] / 1000 if cpu else None,
            "plan_gib": b["plan_bytes"] / 2**30, "held_gib": b["held_bytes"] / 2**30, "seen_gib": b["taken_bytes"] / 2**30 or None, "graphs": b["graphs"], "parts_percent": parts}


def theirs(args, row, folder, seconds):
    name, way = family(row), row.partition("-")[2]
    command = [args.python, HERE / "world_torch.py", folder, "--shape", SHAPES[name], "--device", args.device, "--blocks", min(args.blocks or FEW[way], BLOCKS[name]),
               "--seconds", f"{max(5, seconds - 15):.0f}"]
    if way == "compiled":
        command.append("--compile")
    r = json.loads(ended(command, seconds).splitlines()[-1])
    wholes = [1000 * v for v in r["seconds"]]
    return {"fps": 1000 * r["frames"] / (sum(wholes) / len(wholes)), "block_ms": median(wholes), "mean_ms": sum(wholes) / len(wholes), "p95_ms": p95(wholes),
            "first_ms": 1000 * median(r["first_seconds"]), "p95_of_median": p95(wholes) / median(wholes), "blocks": len(wholes), "seen_gib": r["peak_gib"],
            "ready_s": r["ready_s"], "torch": r["torch"]}


def clip(args, row, folder, seconds):
    """Times 81 frames as `generate` makes them block by block, in the second of two videos, which loads nothing. The time runs from the first block's beginning to
    the last one's frames. The time from the last block's last step to its frames is assumed to be the time that the block before took from its last
    step to the next block (for its frames and the pass that updates the memory)."""
    size, frames = ("32x16", 5) if family(row) == "tiny" else ("832x480", 81)
    more = ["--block", "1"] if family(row) == "tiny" else []
    with tempfile.TemporaryDirectory() as out:
        command = [args.ours, "generate", "a cat walks through the snow", "--model", folder, "--preset", "self-forcing-4", *more, "--device", args.device, "--level", args.level,
                   "--size", size, "--frames", frames, "--seed", "1", "--seed", "2", "--json", "-o", f"{out}/clip.mp4"]
        began, events = time.time(), []
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=errors, text=True)
            end = threading.Timer(max(1, seconds), child.kill)  # also stops a child that prints nothing
            end.start()
            try:
                for line in child.stdout:
                    event = json.loads(line)
                    if event["event"] == "done" or event["event"] == "progress" and event["stage"] == "denoise":
                        events.append((time.time(), event.get("done")))
            finally:
                end.cancel()
                child.kill()
                child.wait()
            if time.time() - began > seconds:
                raise RuntimeError(f"{row}: ended after {seconds:.0f} s")
            if len([None for _, done in events if done is None]) != 2:
                errors.seek(0)
                raise RuntimeError(f"{' '.join(map(str, command))}: {errors.read()[-1500:]}")
        first_end, second_end = (i for i, (_, done) in enumerate(events) if done is None)
        second = events[first_end + 1: second_end]
        begins = [i for i in range(1, len(second)) if second[i][1] == second[i - 1][1]]
        gap = second[begins[-1]][0] - second[begins[-1] - 1][0] if begins else 0
        took = second[-1][0] - second[0][0] + gap
        return {"fps": frames / took, "seconds": took, "whole_s": events[second_end][0] - events[first_end][0], "block_ms": 1000 * took / (len(begins) + 1)}


def folder_of(args, name):
    if SHAPES[name] is None:
        return HERE.parents[1] / "models" / name
    folder = args.models / f"world-{SHAPES[name]}"
    if not folder.exists():
        start = time.time()
        world_model.make(folder, SHAPES[name])
        print(f"{folder.name}: made in {time.time() - start:.0f} s", flush=True)
    return folder


def say(row, figures):
    if "failed" in figures:
        return print(f"{row:<14} {figures['failed'][-600:]}", flush=True)
    words = {"fps": "FPS", "block_ms": "ms a block", "first_ms": "ms to the first frames", "p95_of_median": "P95/median", "cpu_ms": "ms of host CPU", "plan_gib": "GiB planned",
             "held_gib": "held", "seen_gib": "seen", "blocks": "blocks", "seconds": "s", "ready_s": "s of making ready"}
    print(f"{row:<14} " + ", ".join(f"{figures[k]:.4g} {w}" for k, w in words.items() if figures.get(k) is not None), flush=True)
    if figures.get("parts_percent"):
        print(" " * 15 + ", ".join(f"{k} {v} %" for k, v in figures["parts_percent"].items()), flush=True)


def table(report):
    print(f"\n{'what':<52} {'reached':>9} {'must':>7} {'aim':>7}")
    for row, figure, words, must, aim, more in MUSTS:
        value = report.get(row, {}).get(figure)
        if value is not None:
            reached = value >= must if more else value <= must
            print(f"{words:<52} {value:>9.4g} {must:>7g} {aim:>7g}  {'' if reached else 'MISSED'}")
    for name in ("mg2", "sf", "world", "small", "tiny"):
        mine = report.get(name, {}).get("mean_ms")
        if not mine:
            continue
        queued = report.get(f"{name}-queued", {}).get("mean_ms")
        if queued:
            print(f"{name}: graph against queued launches {queued / mine:.2f}x (must {1.25 if name in ('world', 'small') else 1.0})")
        for way in ("eager", "compiled"):
            other = report.get(f"{name}-{way}", {})
            if other.get("mean_ms"):
                saved = [1 - report[name][k] / other[k] for k in ("mean_ms", "block_ms", "p95_ms")]
                goals = [words for part, words in STAGES if saved[0] >= part] + (["2-3x"] if other["mean_ms"] >= 2 * mine else [])
                print(f"{name}: against {way} PyTorch {other['mean_ms'] / mine:.2f}x{' (must 3, aim 5)' if way == 'eager' else ''}; less time by mean {100 * saved[0]:.1f} %, "
                      f"median {100 * saved[1]:.1f} %, P95 {100 * saved[2]:.1f} %; staged goals reached: {', '.join(goals) or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("--rows", nargs="+", choices=[*ROWS, *TINY_ROWS], metavar="ROW")
    parser.add_argument("--models", type=pathlib.Path, help="where models lie or are made (default: a temporary folder)")
    parser.add_argument("--seconds", type=float, default=86400, help="in all, the making of models included")
    parser.add_argument("--blocks", type=int, help="of each row (default: 500 of mg2, world and small, 100 of sf, fewer of the slow ways)")
    parser.add_argument("--level", default="aggressive")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--python", default=sys.executable, help="that has torch and diffusers")
    parser.add_argument("--tiny", action="store_true", help="a tiny model, to try the script")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows = args.rows or (TINY_ROWS if args.tiny else ROWS)
    if args.list:
        print("\n".join(f"{row:<14} {ROWS.get(row, 10)} s" for row in rows))
        return
    began, report = time.time(), {}
    with tempfile.TemporaryDirectory() as temporary:
        args.models = args.models or pathlib.Path(temporary)
        for row in rows:
            left = args.seconds - (time.time() - began)
            if left < ROWS.get(row, 10):
                report[row] = {"failed": f"left out: {left:.0f} s are left, and it takes about {ROWS.get(row, 10)}"}
            else:
                try:
                    folder = folder_of(args, family(row))
                    left = args.seconds - (time.time() - began)
                    report[row] = (theirs if row.endswith(("eager", "compiled")) else clip if row.endswith("clip") else ours)(args, row, folder, left)
                except (RuntimeError, OSError, ValueError, KeyError, IndexError) as e:
                    report[row] = {"failed": f"{type(e).__name__}: {e}"}
            say(row, report[row])
            if args.json:
                args.json.write_text(json.dumps(report, indent=1))
        table(report)
    sys.exit(any("failed" in r and not r["failed"].startswith("left out") for r in report.values()))


if __name__ == "__main__":
    main()
