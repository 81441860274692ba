#!/usr/bin/env python3
"""Judges what 8 bits cost as each kind of GPU would compute them: clips of the shipped model's held-out captions in 16 bits and with each 8-bit form,
the kernels chosen by TACHY_CUDA_CAPABILITY (training/judge.py reads the clips).

    python3 bench/peers/eight_bits_quality.py build/bench/peers/clips [--limit 96] [--few 48] [--jobs 6] [--device cuda] [--only TEXT]

The forms as 8.0 get --limit captions, those that other capabilities share with it --few. All forms are made at the same time, --jobs at once, and read
as they come. Prints for each form the attributes and the clips that are right, the difference to the clips in 16 bits of the same captions, in points,
and the PSNR of the frames against these, median and lowest of a clip. The exit code is 1 if a form loses more than half a point of attributes. Needs
numpy."""
import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # each clip is read by a process of its own
    os.environ.setdefault(name, "1")
import numpy as np  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training"))
import judge  # noqa: E402
from sparse_quality import psnr  # noqa: E402

ATTENTION = ["attention=int8", "int8_keys=all"]
INT8, FP8 = ["math=int8", *ATTENTION, "vae_math=int8"], ["math=fp8", *ATTENTION, "vae_math=fp8"]
# (capability, dtype, name, fields, whether it gets all captions, the kernel of attention in 8 bits if it is not the chosen one). The first form of a
# dtype is what the others are compared with.
FORMS = [
    (80, "bf16", "bf16", [], True, ""),
    (80, "bf16", "linear layers in int8", ["math=int8"], True, ""),
    (80, "bf16", "attention in 8 bits", ATTENTION, True, ""),
    (80, "bf16", "VAE in int8", ["vae_math=int8"], True, ""),
    (80, "bf16", "all of them", INT8, True, ""),
    (89, "bf16", "linear layers in e4m3", ["math=fp8"], True, ""),
    (89, "bf16", "VAE in e4m3", ["vae_math=fp8"], True, ""),
    (89, "bf16", "all in e4m3", FP8, True, ""),
    (89, "bf16", "attention, v in e4m3", ATTENTION, False, "flash8_sm89"),
    (89, "bf16", "attention, sums in f16", ATTENTION, False, "flash8_sm80_half"),
    (86, "bf16", "all in int8", INT8, False, ""),
    (89, "bf16", "all in int8", INT8, False, ""),
    (120, "bf16", "all in e4m3", FP8, False, ""),
    (75, "f16", "f16", [], False, ""),
    (75, "f16", "linear layers in int8", ["math=int8"], False, ""),
]
BOUND = 0.5  # points


def make(args, items, form):
    capability, dtype, _, fields, _, kernel = form
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "prompts.txt").write_text("\n".join(item["caption"] for item in items) + "\n", encoding="utf-8")
        env = {**os.environ, "TACHY_CUDA_CAPABILITY": str(capability)}
        if kernel:
            env["TACHY_FORCE"] = f"attention8:{kernel}"
        done = subprocess.run([args.clips, str(args.model), args.device, dtype, "1", str(folder / "prompts.txt"), str(folder / "out.rgb"), *fields],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        if done.returncode != 0:
            return None, done.stderr.strip().splitlines()[-1:]
        frames, height, width = map(int, done.stdout.splitlines()[0].split())
        return np.fromfile(folder / "out.rgb", np.uint8).reshape(len(items), frames, height, width, 3), None


def read(clip, scene):
    return judge.score(judge.look(clip), scene)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "sprites")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=int, default=96)
    parser.add_argument("--few", type=int, default=48)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--only", default="", help="forms whose capability or name holds this, and those in 16 bits")
    args = parser.parse_args()
    items = json.loads((args.model / "heldout.json").read_text(encoding="utf-8"))[:args.limit]
    forms = [f for f in FORMS if not f[3] or args.only in f"{f[0]} {f[2]}"]
    counts = [args.limit if f[4] else args.few for f in forms]
    start = time.time()
    judge.shape_of([np.ones((8, 8), bool)])  # the silhouettes that all processes compare with are made once
    pool = multiprocessing.get_context("fork").Pool()
    known, missed = {}, 0

    def begin(count, form):
        """Makes a form's clips, and asks for their scores."""
        videos, error = make(args, items[:count], form)
        if videos is None:
            return None, error
        return videos, pool.starmap_async(read, [(v, item["scene"]) for v, item in zip(videos, items)])

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as at_once:
        waiting = [at_once.submit(begin, count, form) for form, count in zip(forms, counts)]
        print("| as | form | captions | attributes right | against 16 bits | clips all right | PSNR, median | lowest | s |\n| " + "--- | " * 9, flush=True)
        for form, made in zip(forms, waiting):
            videos, scores = made.result()
            if videos is None:
                print(f"| {form[0] / 10} | {form[2]} | failed: {' '.join(scores)} |", flush=True)
                missed += 1
                continue
            scores = scores.get()
            known.setdefault(form[1], (videos, scores))
            base, theirs = known[form[1]]
            table, other = judge.table(scores), judge.table(theirs[:len(videos)])
            near = sorted(pool.starmap(psnr, zip(videos, base))) if videos is not base else []
            lost = 0.0 + other["all"] - table["all"]
            missed += lost > BOUND
            print(f"| {form[0] / 10} | {form[2]} | {len(videos)} | {table['all']:.2f} % | {0.0 - lost:+.2f} | {table['perfect']:.1f} % | "
                  + (f"{near[len(near) // 2]:.1f} dB | {near[0]:.1f}" if near else "– | –") + f" | {time.time() - start:.0f} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
