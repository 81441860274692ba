#!/usr/bin/env python3
"""Measures what each step cache saves and costs on the shipped model: clips of the held-out captions with and without it, compared frame by frame and
judged (training/judge.py).

    python3 bench/peers/step_caches.py build/tachyscope [--limit 16] [--only taylorseer] [--threads 2]

Prints for each setting the median of the steps that were reused and of a clip's seconds, the median and the lowest PSNR of a clip's frames, and the
share of attributes and of whole clips that the judge finds right. Needs numpy and Pillow."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training"))
import judge  # noqa: E402
from sparse_quality import psnr  # noqa: E402

SETTINGS = [("none", []), ("rate, 0.1", ["--step-cache", "0.1"])] + [
    (f"{kind}, {threshold}", ["--step-cache-kind", kind, "--step-cache", str(threshold)])
    for kind, thresholds in (("easycache", (0.05, 0.1)), ("teacache", (0.1, 0.2)), ("magcache", (0.06, 0.12)), ("taylorseer", (0.5, 0.667, 0.8)))
    for threshold in thresholds]


def clip(args, item, seed, extra, folder):
    """Returns the frames, the number of reused steps, and the seconds of the whole clip."""
    folder.mkdir(parents=True)
    done = subprocess.run([args.binary, "generate", item["caption"], "--model", str(args.model), "--seed", str(seed), "--json", "-t", str(args.threads),
                           "-o", f"{folder}/", *extra], check=True, capture_output=True, text=True)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    event = next(e for e in said if e.get("event") == "done")
    return judge.load(str(folder)), event["steps_reused"], event["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "sprites")
    parser.add_argument("--limit", type=int, default=16)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    items = json.loads((args.model / "heldout.json").read_text(encoding="utf-8"))[:args.limit]
    first = {}
    print("| cache | steps reused | a clip | PSNR, median | lowest | attributes right | clips all right |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name, extra in SETTINGS:
        if name != "none" and args.only not in name:
            continue
        near, scores, saved, times = [], [], [], []
        with tempfile.TemporaryDirectory() as scratch:
            for i, item in enumerate(items):
                frames, reused, seconds = clip(args, item, i, extra, pathlib.Path(scratch) / str(i))
                first.setdefault(i, frames)
                near.append(psnr(first[i], frames))
                saved.append(reused), times.append(seconds)
                scores.append(judge.score(judge.look(frames), item["scene"]))
        found = judge.table(scores)
        print(f"| {name} | {np.median(saved):g} | {np.median(times):.1f} s | {np.median(near):.1f} dB | {min(near):.1f} | {found['all']:.1f} % | "
              f"{found['perfect']:.1f} % |", flush=True)


main()
