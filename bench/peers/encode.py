#!/usr/bin/env python3
"""Tests whether the encoder keeps pace with a GPU's decoder: sends frames at the decoder's rate to the writer that `generate` uses.

    python3 bench/peers/encode.py BUILD [--device cuda] [--threads N …] [--speeds NAME …] [--rounds 3] [--sizes 480p 720p 5b] [--json FILE]

BUILD holds tachyscope and bench/lab/lab_encode_pace (ninja lab_encode_pace). Film-like frames come from a clip of the shipped model, which is made
first, enlarged and given grain; noise has random bytes. On 16 processors the file must be complete at most 0.5 s after the last frame for film and
2.5 s for noise, with the same bytes in every round (exit code 1 otherwise). Without options the encoder is set as in `generate`."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SIZES = {"480p": (832, 480, 81, 3.6), "720p": (1280, 720, 81, 8.3), "5b": (1280, 704, 121, 15.0)}  # frames, and ms per frame, of the decoders in 8 bits on an H200
ASKED = {"film": 0.5, "noise": 2.5}
ROW = re.compile(r"^\| (\S+) \| (\d+) \| ([\d.]+) \(to ([\d.]+)\) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| (same|DIFFER) \|$")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--threads", nargs="*", default=[])
    parser.add_argument("--speeds", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    args = parser.parse_args()
    rows, good = [], True
    with tempfile.TemporaryDirectory() as folder:
        clip = pathlib.Path(folder) / "clip.mp4"
        subprocess.run([args.build / "tachyscope", "generate", "a red circle moves right over hills at day", "--device", args.device, "--crf", "1", "-q", "-o", clip], check=True)
        more = [f"threads={n}" for n in args.threads] + [f"speed={name}" for name in args.speeds] + [f"rounds={args.rounds}", f"to={folder}/out.mp4"]
        for size in args.sizes:
            done = subprocess.run([args.build / "bench/lab/lab_encode_pace", clip, *map(str, SIZES[size]), *more], stdout=subprocess.PIPE, text=True)
            print(done.stdout, flush=True)
            good = good and done.returncode == 0
            content = ""
            for line in done.stdout.splitlines():
                if line.startswith(("film,", "noise,")):
                    content = line.split(",")[0]
                elif found := ROW.match(line):
                    speed, threads, after, worst, waited, cpu, mb, bytes_ = found.groups()
                    rows.append({"size": size, "content": content, "speed": speed, "threads": int(threads), "after_last_s": float(after), "worst_s": float(worst),
                                 "frames_waited_s": float(waited), "cpu_s": float(cpu), "mb": float(mb), "same_bytes": bytes_ == "same", "asked_s": ASKED[content]})
    missed = [row for row in rows if row["after_last_s"] > row["asked_s"] or not row["same_bytes"]]
    for row in missed:
        print(f"missed: {row['content']} {row['size']}, {row['speed']}, threads {row['threads']}: {row['after_last_s']:.2f} s after the last frame, asked {row['asked_s']}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if good and rows and not missed else 1


if __name__ == "__main__":
    sys.exit(main())
