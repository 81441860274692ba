"""Makes talking photos of held-out people and speech with the engine and judges them by training/talker/judge.py.

    tests/reference/judge_talker.py BINARY [--limit 6] [--seconds 5] [--speech as-is|late|silent] [--jobs 1] [--json FILE] [-- options of `talk` …]

Item i has seed i. With --jobs N, N items are made and judged at the same time, each run on one thread; scores
do not depend on it. Needs only numpy and Pillow. Exits with 1 where a measure misses its limit."""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training" / "talker"))
import faces  # noqa: E402
import heldout  # noqa: E402
import judge  # noqa: E402
import speech  # noqa: E402


def score(task):
    """Makes item i of the list in a folder of its own, judges it and deletes it."""
    args, options, items, i = task
    item, late, silent = items[i], judge.LATE if args.speech == "late" else 0, args.speech == "silent"
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        photo, sound = heldout.make_media(item, folder, "item", late, silent)
        heldout.write_wav(sound, heldout.speech_of(item, late, silent)[:int(args.seconds * speech.RATE)])
        threads = ["--threads", "1"] if args.jobs > 1 else []
        subprocess.run([args.binary, "talk", item["caption"], "--photo", photo, "--audio", sound, "--model", args.model, "--seed", str(i), "-q",
                        *threads, "-o", f"{folder}/frames/", *options], check=True)
        clip = np.stack([np.asarray(Image.open(f)) for f in sorted((folder / "frames").glob("*.png"))])
    assert len(clip) == int(args.seconds * faces.FPS), len(clip)
    return judge.score(item, clip, speech.Utterance.of(items[(i + 1) % len(items)]["utterance"]))


def main():
    options = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--model", default=str(ROOT / "models" / "talker"))
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--speech", choices=["as-is", "late", "silent"], default="as-is", help="late: 5 frames late; silent: nothing is said")
    parser.add_argument("--jobs", type=int, default=1, help="items at a time")
    parser.add_argument("--json", help="a file for the table")
    args = parser.parse_args([a for a in sys.argv[1:sys.argv.index("--")]] if options else sys.argv[1:])
    items = json.loads(pathlib.Path(args.model, "heldout.json").read_text(encoding="utf-8"))
    began = time.time()
    tasks = [(args, options, items, i) for i in range(min(args.limit, len(items)))]
    if args.jobs > 1:
        with concurrent.futures.ProcessPoolExecutor(args.jobs) as pool:
            scores = list(pool.map(score, tasks))
    else:
        scores = [score(task) for task in tasks]
    table = judge.aggregate(scores)
    limits = {"as-is": judge.LIMITS, "late": judge.LIMITS_LATE, "silent": judge.LIMITS_SILENT}[args.speech]
    missed = judge.misses(table, limits)
    for name, (way, limit, text) in limits.items():
        print(f"talker: {text:<64} {table.get(name, '-'):>8}   {way} {limit}{'   MISSED' if name in missed else ''}")
    print(f"talker: {len(scores)} clips of {args.seconds:g} s, {time.time() - began:.0f} s")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({**table, "missed": missed}, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
