#!/usr/bin/env python3
"""Writes golden values of torch's CUDA normal generator to tests/golden/random/cuda_normal.json (or the path given). It was run once on an H200 (132
multiprocessors); needs torch with CUDA, nothing else. Seeds 0, 42, 2^40 + 7. Sizes on both sides of 132 * 2048 = 270336 values (one value a thread;
above it the layout depends on the number of multiprocessors) and of four times that (one draw of four a thread). Stored per case: the first 8 and
last 8 values and 64 at a fixed stride, as float32 bit patterns with their positions. `sequence`: draws one after the other from one generator, which
shows how far each advances it."""
import json
import pathlib
import sys

import torch

SEEDS = [0, 42, 2**40 + 7]
SIZES = [1, 15, 16, 1000, 70_000, 270_336, 270_337, 500_000, 1_081_344, 1_081_345, 1_500_000, 3_000_001]
SEQUENCE = [5, 1000, 1_500_000, 16]


def positions(n):
    stride = max(1, n // 64)
    return sorted({*range(min(8, n)), *range(max(0, n - 8), n), *list(range(0, n, stride))[:64]})


def sample(n, g):
    values = torch.randn(n, generator=g, device="cuda", dtype=torch.float32).cpu()
    at = positions(n)
    bits = values[at].view(torch.int32).tolist()
    return {"n": n, "at": at, "bits": [f"{b & 0xffffffff:08x}" for b in bits]}


def generator(seed):
    g = torch.Generator("cuda")
    g.manual_seed(seed)
    return g


def main():
    here = pathlib.Path(__file__).resolve().parents[2]
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "tests/golden/random/cuda_normal.json"
    props = torch.cuda.get_device_properties(0)
    g = generator(7)
    out = {
        "torch": torch.__version__, "cuda": torch.version.cuda, "device": props.name,
        "multiprocessors": props.multi_processor_count,
        "cases": [{"seed": str(seed)} | sample(n, generator(seed)) for seed in SEEDS for n in SIZES],
        "sequence": {"seed": "7", "draws": [sample(n, g) for n in SEQUENCE]},
    }
    text = json.dumps(out, separators=(",", ":")).replace('{"seed"', '\n{"seed"')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    print(f"{path}: {len(out['cases'])} cases, {props.name}, {props.multi_processor_count} multiprocessors")


if __name__ == "__main__":
    main()
