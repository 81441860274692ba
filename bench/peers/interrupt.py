#!/usr/bin/env python3
"""Measures how long a generation takes to end after ctrl-C at any point: while it loads, in the first step, in a later one, while it decodes.

    bench/peers/interrupt.py BUILD MODEL [--size 1280x720] [--frames 81] [--steps 4] [--device cuda] [--at load:10 denoise:0 denoise:1 decode:5]
                             [--limit 0.5] [--extra …]

For each point of --at (a stage and how much of it is done; a number behind a third colon waits that many seconds more) one process is
started, interrupted there and waited for. Prints the seconds until its end, and what it said; nothing but the state for --resume may
stay behind. Exit code 1 when one took longer than --limit seconds, ended otherwise than with 130, or left a file.
"""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time


def reached(line, stage, done):
    try:
        event = json.loads(line)
    except ValueError:
        return False
    return event.get("event") == "progress" and event["stage"] == stage and event["done"] >= done


def interrupt(command, folder, point):
    stage, done, *wait = point.split(":")
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in child.stdout:
        if reached(line, stage, int(done)):
            break
    else:
        return None, child.wait(), f"{point} was never reached: {child.stderr.read()[-300:]}"
    time.sleep(float(wait[0]) if wait else 0)
    start = time.monotonic()
    child.send_signal(signal.SIGINT)
    code = child.wait()  # waiting is safe, since it prints less than its pipes can hold
    return time.monotonic() - start, code, child.stderr.read().strip()[-200:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--frames", type=int, default=81)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--at", nargs="+", default=["load:10", "denoise:0:3", "denoise:1:1.5", "denoise:1:4", "decode:5"])
    parser.add_argument("--limit", type=float, default=0.5)
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[], help="further options of generate")
    args = parser.parse_args()
    command = [str(args.build.resolve() / "tachyscope"), "generate", "a red circle moves right", "--model", str(args.model.resolve()), "--device", args.device,
               "--size", args.size, "--frames", str(args.frames), "--steps", str(args.steps), "--json", "-o", "out.mp4", *args.extra]
    worst, bad = 0.0, 0
    for point in args.at:
        with tempfile.TemporaryDirectory() as folder:
            seconds, code, said = interrupt(command, folder, point)
            left = sorted(path.name for path in pathlib.Path(folder).iterdir() if path.name != "out.mp4.resume")
        if seconds is None:
            print(f"{point:16} {said}", flush=True)
            bad += 1
            continue
        worst, bad = max(worst, seconds), bad + (code != 130 or bool(left) or seconds > args.limit)
        print(f"{point:16} {seconds:6.3f} s, exit code {code}{', LEFT ' + ', '.join(left) if left else ''}: {said}", flush=True)
    print(f"{len(args.at)} interrupts, the slowest {worst:.3f} s (limit {args.limit:g}), {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
