"""Makes the held-out clips of models/sprites-edit with this engine and judges them by training/edit/judge_edit.py: depth videos that are followed,
objects that become others, objects at a drawn mask, reference pictures, and both of the latter.

    python3 tests/reference/judge_edit.py build/tachyscope [--limit 10] [--tasks depth,inpaint] [--record FILE] [--level aggressive]

It takes one item of each task in turn, says what each gave, and prints the table and the measures that miss their limits at the end. Further options
go to `tachyscope generate`. It ends with 0 whatever is missed, unless --demand is given."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "training" / "edit"), str(ROOT / "training")]  # before this folder, which has a judge.py, too
import heldout  # noqa: E402
import judge_edit  # noqa: E402
import judging  # noqa: E402


def write(frames, folder):
    folder.mkdir()
    for i, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / f"{i:03d}.png", compress_level=1)
    return str(folder)


def inputs(media, folder):
    """Writes an item's media as files, and returns the options that name them."""
    out = []
    if "control" in media:
        out += ["--control-video", write(media["control"], folder / "control")]
    if "mask" in media:
        out += ["--mask-video", write(media["mask"].astype(np.uint8) * 255, folder / "mask")]
    if "picture" in media:
        Image.fromarray(media["picture"]).save(folder / "picture.png")
        out += ["--reference", str(folder / "picture.png")]
    return out


def round_trip(binary, model, clip, folder):
    source, latents, target = write(clip, folder / "truth"), str(folder / "latents.safetensors"), folder / "trip"
    target.mkdir()
    subprocess.run([binary, "vae", "encode", source, "-m", str(model), "-o", latents, "-q"], check=True)
    subprocess.run([binary, "vae", "decode", latents, "-m", str(model), "-o", f"{target}/", "-q"], check=True)
    return judging.load(str(target))


def one(binary, model, item, extra):
    """Makes the clip of an item and returns its scores."""
    media = heldout.media(item)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "clip").mkdir()
        subprocess.run([binary, "generate", "--prompt", item["caption"], "--model", str(model), "--seed", str(item["seed"]), "-q", "-o", f"{folder}/clip/",
                        *inputs(media, folder), *extra], check=True)
        trip = round_trip(binary, model, media["truths"][0], folder) if item["task"] in judge_edit.MASKED else None
        return judge_edit.score(item, judging.load(str(folder / "clip")), media, trip)


def said(item, score):
    parts = [f"{k} {score[k][0]}/{score[k][1]}" for k in ("position", "attributes") if k in score]
    parts += [f"kept {score['kept']:.2f} dB"] if "kept" in score else []
    return f"{item['task']} {item['seed']}: {', '.join(parts)} {' '.join(score['wrong'])} | {item['caption']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "sprites-edit")
    parser.add_argument("--limit", type=int, default=10, help="held-out items of each task")
    parser.add_argument("--tasks", default=",".join(heldout.TASKS))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no item is begun after this time")
    parser.add_argument("--record", help="a file to which each item's scores are added, a line of JSON each")
    parser.add_argument("--demand", action="store_true", help="end with 1 if a measure misses its limit")
    args, extra = parser.parse_known_args()
    tasks, start = args.tasks.split(","), time.time()
    items = sorted((i for i in heldout.items(args.limit) if i["task"] in tasks), key=lambda i: i["seed"])
    done, scores = [], []
    for item in items:
        if time.time() - start > args.seconds:
            break
        scores.append(one(args.binary, args.model, item, extra))
        done.append(item["task"])
        print(said(item, scores[-1]), flush=True)
        if args.record:
            with open(args.record, "a", encoding="utf-8") as f:
                f.write(json.dumps({"task": item["task"], "seed": item["seed"], **scores[-1]}) + "\n")
    table = judge_edit.table(done, scores)
    missed = judging.misses(table, {k: v for k, v in judge_edit.LIMITS.items() if k.split()[0] in done})
    print(json.dumps(table), f"{time.time() - start:.0f} s")
    print("missed:", "; ".join(map(str, missed)) if missed else "nothing")
    return int(args.demand and bool(missed))


if __name__ == "__main__":
    sys.exit(main())
