#!/usr/bin/env python3
"""Tests whether a run on a GPU ever gives different latents, by bench/lab/repeat in several processes on a folder of random weights.

    bench/peers/repetitions.py BUILD [--folder FOLDER] [--shape 14B] [--layers 4] [--reps 200] [--processes 4] [--size 832x480] [--frames 33]
                               [--parallel 1] [--trace 10] [--verify 10] [--json FILE]

Makes FOLDER (bench/peers/random_model.py) unless it is there; without --folder a temporary one. The first process runs as users do,
each further one with TACHY_STRESS set to its number: it has random delays, and fresh memory is filled with another byte. Every 10th repetition
compares the weights on the GPU with the files, and every 10th of the stressed processes is traced range by range. All processes must give the same
latents after every step. Exit code 1 when anything differed. --parallel lets several processes share the GPU."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def process(args, folder, scratch, number):
    hashes = pathlib.Path(scratch) / f"hashes{number}.json"
    reps = args.reps // args.processes + (number < args.reps % args.processes)
    command = [args.build / "bench/lab/repeat", folder, "--reps", reps, "--size", args.size, "--frames", args.frames, "--verify", args.verify, "--hashes", hashes]
    if number:
        command += ["--trace", args.trace]
    environment = {**os.environ, **({"TACHY_STRESS": str(number)} if number else {})}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    print(f"process {number}{f', TACHY_STRESS={number}' if number else ''}:\n{done.stdout}{done.stderr}", end="", flush=True)
    summary = re.search(r"(\d+) repetitions in ([\d.]+) s, (\d+) verified, (\d+) traced, stress \d+: (\d+) differ; (\w+)", done.stdout)
    return done.returncode, summary, json.loads(hashes.read_text()) if hashes.exists() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--shape", default="14B")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--reps", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--parallel", type=int, default=1, help="so many processes at a time")
    parser.add_argument("--size", default="832x480")
    parser.add_argument("--frames", type=int, default=33)
    parser.add_argument("--trace", type=int, default=10)
    parser.add_argument("--verify", type=int, default=10)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    args.build = args.build.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or pathlib.Path(scratch) / "model"
        if not (folder / "model_index.json").exists():
            start = time.time()
            subprocess.run([sys.executable, HERE / "random_model.py", folder, "--shape", args.shape, "--layers", str(args.layers)], check=True)
            print(f"{args.shape} with {args.layers} blocks made in {time.time() - start:.0f} s", flush=True)
        with concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
            results = list(pool.map(lambda number: process(args, folder, scratch, number), range(args.processes)))
    totals = [sum(int(summary.group(i)) if summary else 0 for _, summary, _ in results) for i in (1, 3, 4, 5)]
    unlike = sum(hashes != results[0][2] for _, _, hashes in results)  # the number of processes whose latents differ from the first one's
    figures = dict(zip(("repetitions", "verified", "traced", "different"), totals), processes=args.processes, layers=args.layers, unlike=unlike,
                   failed=sum(code != 0 or summary is None for code, summary, _ in results), latents=next((s.group(6) for _, s, _ in results if s), None))
    if args.json:
        args.json.write_text(json.dumps(figures) + "\n")
    print(f"{figures['repetitions']} repetitions in {args.processes} processes: {figures['different']} differ, {figures['verified']} verified, {figures['traced']} traced, "
          f"{figures['failed']} processes failed, {unlike} gave other latents than the first")
    return 1 if figures["failed"] or unlike else 0


if __name__ == "__main__":
    sys.exit(main())
