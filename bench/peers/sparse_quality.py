"""Measures what block-sparse attention costs in quality. It compares clips of a shipped model's held-out captions, made with --sparse-attention, with
the dense ones of the same seeds: the PSNR of the frames, and what the judge (training/judge.py) reads in them.

    python3 bench/peers/sparse_quality.py build/bench/peers/clips [--model models/sprites] [--device cpu|cuda] [--dtype bf16] [--size 128x128x33]
        [--limit 240] [--shares 0.3,0.5,0.7] [--choosers top-k,sliding-tile] [--dense-steps 0,-1]

In --dense-steps, -1 is the default of generate. Each configuration gets a line: the number of blocks that are kept, median and lowest PSNR of a clip
(over all its values), percentages of attributes right, clips with everything right. Without --size the model's own size is used."""

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

BLOCK = 128  # in tokens
STRIDE, PATCH = (4, 8, 8), (1, 2, 2)  # the VAE's and the transformer's, of models/sprites


def clips(args, items, sparse=()):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "prompts.txt").write_text("\n".join(item["caption"] for item in items) + "\n", encoding="utf-8")
        size = args.size.split("x") if args.size else ["0", "0", "0"]
        done = subprocess.run([args.clips, str(args.model), args.device, args.dtype, "1", str(folder / "prompts.txt"), str(folder / "out.rgb"), "1", *size,
                               *map(str, sparse)], check=True, stdout=subprocess.PIPE, text=True)
        lines = done.stdout.splitlines()
        frames, height, width = map(int, lines[0].split())
        return np.fromfile(folder / "out.rgb", np.uint8).reshape(len(items), frames, height, width, 3), sorted(map(float, lines[1:]))


def psnr(a, b):
    error = np.mean((a.astype(np.float64) - b) ** 2)
    return np.inf if error == 0 else 10 * np.log10(255**2 / error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "sprites")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="default")
    parser.add_argument("--size", help="WIDTHxHEIGHTxFRAMES")
    parser.add_argument("--limit", type=int, default=240)
    parser.add_argument("--shares", default="0.3,0.5,0.7")
    parser.add_argument("--choosers", default="top-k,sliding-tile")
    parser.add_argument("--dense-steps", default="0,-1")
    args = parser.parse_args()
    items = json.loads((args.model / "heldout.json").read_text(encoding="utf-8"))[:args.limit]

    def report(name, videos, seconds, dense=None):
        table = judge.table([judge.score(judge.look(video), item["scene"]) for video, item in zip(videos, items)])
        near = sorted(psnr(video, other) for video, other in zip(videos, dense)) if dense is not None else []
        text = f"PSNR median {near[len(near) // 2]:.1f}, lowest {near[0]:.1f} dB" if near else "the yardstick"
        print(f"{name}: {text}; {json.dumps(table)}; median {seconds[len(seconds) // 2]:.2f} s a clip", flush=True)

    dense, seconds = clips(args, items)
    frames, height, width = dense.shape[1:4]
    tokens = ((frames - 1) // STRIDE[0] + 1) // PATCH[0] * (height // STRIDE[1] // PATCH[1]) * (width // STRIDE[2] // PATCH[2])
    blocks = -(-tokens // BLOCK)
    print(f"{args.model.name}, {frames} frames of {width}x{height}: {tokens} tokens, {blocks} blocks; {len(items)} captions, {args.device}", flush=True)
    report("dense", dense, seconds)
    for chooser in args.choosers.split(","):
        for steps in args.dense_steps.split(","):
            for share in args.shares.split(","):
                kept = min(blocks, max(1, int(float(share) * blocks + 0.5)))
                name = f"{chooser} {share} ({kept} of {blocks} blocks), {'default' if steps == '-1' else steps} dense steps"
                report(name, *clips(args, items, (share, chooser, steps)), dense=dense)


if __name__ == "__main__":
    main()
