#!/usr/bin/env python3
"""Measures what an option costs in quality: judges two folders of clips of the same captions and seeds (training/judge.py) and compares them frame by
frame.

    tachyscope generate --model models/sprites --prompt-file captions.txt --device cuda --crf 12 -o dense/clip.mp4
    tachyscope generate … --attention int8 -o int8/clip.mp4
    python3 bench/peers/clip_quality.py dense int8 [--set models/sprites/heldout.json] [--limit 96]

captions.txt has a line for each caption of the set; the clips are clip-1.mp4, clip-2.mp4 and so on, as generate names them. The PSNR is that of the
decoded files, median and lowest of a clip. Needs numpy and ffmpeg.
"""
import argparse
import json
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training"))
import judge  # noqa: E402
from sparse_quality import psnr  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dense", type=pathlib.Path)
    parser.add_argument("other", type=pathlib.Path)
    parser.add_argument("--set", type=pathlib.Path, default=ROOT / "models" / "sprites" / "heldout.json")
    parser.add_argument("--limit", type=int, default=240)
    args = parser.parse_args()
    items = json.loads(args.set.read_text(encoding="utf-8"))[:args.limit]
    near, scores = [], {args.dense: [], args.other: []}
    for i, item in enumerate(items):
        clips = [judge.load(str(folder / f"clip-{i + 1}.mp4")) for folder in scores]
        near.append(psnr(*clips))
        for clip, found in zip(clips, scores.values()):
            found.append(judge.score(judge.look(clip), item["scene"]))
    for folder, found in scores.items():
        print(f"{folder}: {json.dumps(judge.table(found))}")
    print(f"PSNR: median {np.median(near):.1f}, lowest {min(near):.1f} dB")


if __name__ == "__main__":
    main()
