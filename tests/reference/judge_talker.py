"""Talking photos of held-out people and speech through the engine, judged by training/talker/judge.py.

    tests/reference/judge_talker.py BINARY [--limit 6] [--seconds 5] [--speech as-is|late|silent] [--json FILE] [-- options of `talk` …]

Item i has seed i. Exits with 1 where a measure misses its limit."""

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
sys.path.insert(0, str(ROOT / "training" / "talker"))
import faces  # noqa: E402
import heldout  # noqa: E402
import judge  # noqa: E402
import speech  # noqa: E402


def main():
    options = sys.argv[sys.argv.index("--") + 1:] if "--" in sys.argv else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--model", default=str(ROOT / "models" / "talker"))
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--speech", choices=["as-is", "late", "silent"], default="as-is", help="late: 5 frames late; silent: nothing is said")
    parser.add_argument("--json", help="a file for the table")
    args = parser.parse_args([a for a in sys.argv[1:sys.argv.index("--")]] if options else sys.argv[1:])
    items = json.loads(pathlib.Path(args.model, "heldout.json").read_text(encoding="utf-8"))
    late, scores, began = judge.LATE if args.speech == "late" else 0, [], time.time()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for i, item in enumerate(items[:args.limit]):
            photo, sound = heldout.make_media(item, folder, "item", late, args.speech == "silent")
            heldout.write_wav(sound, heldout.speech_of(item, late, args.speech == "silent")[:int(args.seconds * speech.RATE)])
            subprocess.run([args.binary, "talk", item["caption"], "--photo", photo, "--audio", sound, "--model", args.model, "--seed", str(i), "-q",
                            "-o", f"{folder}/{i:03d}/", *options], check=True)
            clip = np.stack([np.asarray(Image.open(f)) for f in sorted((folder / f"{i:03d}").glob("*.png"))])
            assert len(clip) == int(args.seconds * faces.FPS), len(clip)
            scores.append(judge.score(item, clip, speech.Utterance.of(items[(i + 1) % len(items)]["utterance"])))
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
