"""Plays held-out scripts in the engine's steered world and judges them by training/steer/judge.py.

    tests/reference/judge_world.py BINARY [--limit 8] [--seconds 60] [--jobs 1] [--json FILE] [--keep DIR] [-- options of `world` …]

Item i has seed i; frames are written as PNG, without loss. With --jobs N, N items are made and judged at the
same time, each run on one thread; scores do not depend on it. Exits with 1 where a measure misses its
limit."""

import argparse
import concurrent.futures
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training" / "steer"))
import heldout  # noqa: E402
import judge  # noqa: E402
import plane  # noqa: E402


def pngs(folder):
    return np.stack([np.asarray(Image.open(f).convert("RGB")) for f in sorted(pathlib.Path(folder).glob("*.png"))])


def score(task):
    """Makes item i of the list in a folder of its own, judges it and deletes it. Returns (measures, seconds until all frames were written)."""
    args, options, item, i, blocks = task
    torch.set_num_threads(1 if args.jobs > 1 else 2)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        picture, script = heldout.write_media(item, folder, "item", blocks)
        threads = ["--threads", "1"] if args.jobs > 1 else []
        began = time.time()
        subprocess.run([args.binary, "world", "--model", args.model, "--image", picture, "--actions", script, "--seed", str(i), "-q", *threads,
                        "-o", f"{folder}/frames/", *options], check=True)
        seconds = time.time() - began
        clip = pngs(folder / "frames")
    if clip.shape != (4 * blocks - 3, plane.HEIGHT, plane.WIDTH, 3):
        sys.exit(f"script {i}: frames {clip.shape}, expected {4 * blocks - 3} of {plane.HEIGHT} rows and {plane.WIDTH} columns")
    if args.keep:
        pathlib.Path(args.keep).mkdir(parents=True, exist_ok=True)
        np.save(pathlib.Path(args.keep, f"{i:03d}.npy"), clip)
    return judge.score(item, clip), seconds


def main():
    options = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--model", default=str(ROOT / "models" / "world"))
    parser.add_argument("--limit", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=1, help="items at a time")
    parser.add_argument("--json", help="a file for the table")
    parser.add_argument("--keep", help="a folder for the clips, as NNN.npy")
    args = parser.parse_args(sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:])
    items = json.loads(pathlib.Path(args.model, "heldout.json").read_text())[:args.limit]
    blocks, began = 1 + int(args.seconds * plane.FPS) // 4, time.time()
    tasks = [(args, options, item, i, blocks) for i, item in enumerate(items)]
    if args.jobs > 1:
        with concurrent.futures.ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            results = list(pool.map(score, tasks))
    else:
        results = [score(task) for task in tasks]
    table = judge.aggregate([measures for measures, _ in results])
    missed = judge.show(table, judge.LIMITS, "world: ")
    playing = sum(seconds for _, seconds in results)
    print(f"world: {len(results)} scripts of {args.seconds:g} s, {table['pairs']} pairs, {sum(4 * blocks - 3 for _ in results) / playing:.1f} frames a second{' each' if args.jobs > 1 else ''}, "
          f"pictures written as PNG; {time.time() - began:.0f} s")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({**table, "missed": missed}, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
