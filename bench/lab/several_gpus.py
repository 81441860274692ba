#!/usr/bin/env python3
"""Times whole `generate` runs on one and on several GPUs of a host, in turn: seconds of each denoising step and of each stage by the lines of --json,
and whether the latents are those of the first run of the same name.

    bench/lab/several_gpus.py PROGRAM CASE …          PROGRAM is the path of `tachyscope`; needs numpy

A case is NAME=GPUS:OPTIONS, as in
    1.3B.one='1:--model m/1.3B --size 832x480 --frames 81 --steps 4 --guidance 1'  1.3B.two='2:--model m/1.3B --size 832x480 --frames 81 --steps 4 --guidance 1'
Runs are of the same name up to its last dot. Words such as TACHY_PACE=off before the options are put into the environment. Models of true shape with random weights are made
by serve_models.py. All runs have the level `aggressive` and the same seed. A run with the word --profile among its options is profiled: at the end, a table
shows each rank's milliseconds in a pass beside those of the first run of the same name, divided by the number of ranks. Of a run with --block N, seconds
of each block and frames a second are shown, too: those of the blocks after the window was full and each graph was made. An example is
    sf.one='1:--model m/1.3B --size 832x480 --frames 477 --block 3 --block-window 21 --sampler self-forcing-4 --guidance 1'
GPUS may also be cpu4: four ranks in one process on the CPU. cards_table.py makes the table of all cards beside one with these functions."""

import argparse
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import tempfile
import time

import numpy as np

NUMBERS = {"F64": np.float64, "F32": np.float32, "F16": np.float16}


def latents(path):
    """Returns all values of a file of latents as float64."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    values = []
    for name, about in json.loads(raw[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = about["data_offsets"]
        data = raw[8 + size + begin:8 + size + end]
        if about["dtype"] == "BF16":
            array = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            array = np.frombuffer(data, NUMBERS[about["dtype"]])
        values.append(array.astype(np.float64).ravel())
    return np.concatenate(values)


def run(program, gpus, options, folder):
    """Runs one clip. Returns the moments of steps, the first and last moment of each stage, all seconds, the latents or what went wrong, and the ranks of
    its profile."""
    words, environment, ranks = options.split(), dict(os.environ), []
    if "--profile" in words:
        trace = folder / "trace.json"
        trace.unlink(missing_ok=True)
        words.insert(words.index("--profile") + 1, str(trace))
    while words and re.match(r"[A-Z_]+=", words[0]):
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    kept = folder / "latents.safetensors"
    kept.unlink(missing_ok=True)
    placed = ["--device", "cpu", "--ranks", gpus[3:]] if gpus.startswith("cpu") else ["--gpus", gpus]
    command = [program, "generate", "a red circle moves right", *words, *placed, "--json", "--seed", "3", "--level", "aggressive",
               "--save-latents", str(kept), "-o", str(folder / "video.mp4")]
    begin, steps, stages, said = time.monotonic(), [], {}, []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    for line in process.stdout:
        now = time.monotonic() - begin
        said = [*said[-5:], line]
        if not line.startswith("{") or (event := json.loads(line)).get("event") not in ("progress", "profile"):
            continue
        if event["event"] == "profile":
            ranks = event.get("ranks", [])
            continue
        stages.setdefault(event["stage"], [now, now])[1] = now
        if event["stage"] == "denoise":
            steps.append(now)
    failed = process.wait() != 0
    return steps, stages, time.monotonic() - begin, "".join(said) if failed else latents(kept), ranks


def option(words, name, default):
    """Returns the number that follows an option among words."""
    return int(words[words.index(name) + 1]) if name in words else default


def blocks(words, steps):
    """Returns the seconds of each steady block, and the frames of a block, of a video made block by block."""
    frames, block = option(words, "--frames", 81), option(words, "--block", 0)
    latents = (frames - 1) // 4 + 1
    begins = steps[::len(steps) * block // latents]  # a block reports its beginning, and each of its steps
    window = min(option(words, "--block-window", latents), latents)
    slots = window // block
    return [after - before for before, after in zip(begins, begins[1:])][2 * slots + 1:], 4 * block


def compare(one, several, stage):
    """Prints a stage's parts in the profile of one GPU, divided by the number of the others, beside those of each of these."""
    alone = [rank for rank in one if rank["stage"] == stage]
    ranks = [rank for rank in several if rank["stage"] == stage]
    if not alone or not ranks:
        return
    parts = [{part["part"]: part["us"] / 1000 for part in rank["parts"]} for rank in alone[:1] + ranks]
    names = list(dict.fromkeys(name for part in parts for name in part))
    print(f"{stage}, ms a pass".ljust(46) + f"one / {len(ranks)}".rjust(12) + "".join(f"rank {i}".rjust(12) for i in range(len(ranks))) + "slowest more".rjust(14))
    for name in [*names, "in all"]:
        row = [sum(part.values()) if name == "in all" else part.get(name, 0) for part in parts]
        row[0] /= len(ranks)
        print(f"  {name}".ljust(46) + "".join(f"{ms:12.3f}" for ms in row) + f"{max(row[1:]) - row[0]:14.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("cases", nargs="+", metavar="CASE")
    options = parser.parse_args()
    first, profiles = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for case in options.cases:
            name, rest = case.split("=", 1)
            steps, stages, seconds, made, ranks = run(options.program, *rest.split(":", 1), pathlib.Path(folder))
            taken = [after - before for before, after in zip(steps, steps[1:])]
            parts = ", ".join(f"{stage} {begin:.2f} to {end:.2f}" for stage, (begin, end) in stages.items())
            words = rest.split(":", 1)[1].split()
            shown = [] if "--block" in words else taken
            print(f"{name}: {seconds:.2f} s, steps {' '.join(f'{step:.4f}' for step in shown)}; {parts}", flush=True)
            if isinstance(made, str):
                print(f"  failed: {made}")
                continue
            if "--block" in words and len(steps) > 1:
                steady, frames = blocks(words, steps)
                middle = statistics.median(steady) if steady else float("nan")
                print(f"  {len(steady)} steady blocks of {1000 * middle:.1f} ms: {frames / middle:.1f} frames a second", flush=True)
                taken = steady
            alone = profiles.setdefault(name.rpartition(".")[0], ranks)
            if alone is not ranks:
                for stage in ("transformer", "decode"):
                    compare(alone, ranks, stage)
            values, step, steps = first.setdefault(name.rpartition(".")[0], (made, statistics.median(taken) if taken else None, len(taken)))
            if values is not made:
                size = np.sqrt(np.mean(values ** 2))
                far = np.sqrt(np.mean((values - made) ** 2)) / size
                factor = f", {step / statistics.median(taken):.3f} times as fast a step" if taken and step else ""
                apart = "equal latents" if np.array_equal(values, made) else f"latents differ by {far:.2e} of their RMS"
                print(f"  {apart if len(taken) == steps else 'latents after another number of steps'}{factor}", flush=True)


if __name__ == "__main__":
    main()
