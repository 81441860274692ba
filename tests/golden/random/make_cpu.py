#!/usr/bin/env python3
"""Writes golden values of torch's CPU normal generator to cpu_normal.json beside this file.

Versions: torch 2.11.0, with ATEN_CPU_CAPABILITY=avx2 (avx512 gave the same values);
seeds 0, 1, 42, 2^31, 2^63 + 5. For each case: the float32 bit patterns (hex) of the first 16 and last 18 values,
every value when there are at most 34, and the sum over all bit patterns as unsigned integers modulo 2^64.
`sequence`: several draws, one after the other, from one generator of seed 7.
"""
import json
import os
import pathlib

os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")
import numpy
import torch

SIZES = [*range(1, 18), 31, 32, 33, 100, 1000, 16 * 3 * 10 * 14, 16 * 3 * 10 * 14 + 7, 100003]
SEEDS = [0, 1, 42, 2**31, 2**63 + 5]
SEQUENCE = [3, 20, 1, 2, 16, 5]


def generator(seed):
    g = torch.Generator("cpu")
    g.manual_seed(seed - 2**64 if seed >= 2**63 else seed)
    return g


def bits(n, g):
    return torch.randn(n, generator=g, dtype=torch.float32).numpy().view(numpy.uint32)


def hexes(values):
    return [f"{int(v):08x}" for v in values]


def case(seed, n):
    v = bits(n, generator(seed))
    total = int(v.astype(object).sum()) % 2**64
    item = {"seed": str(seed), "n": n, "sum": str(total)}
    if n <= 34:
        return item | {"all": hexes(v)}
    return item | {"first": hexes(v[:16]), "last": hexes(v[-18:])}


def main():
    torch.set_num_threads(1)
    g = generator(7)
    out = {
        "torch": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability(),
        "cases": [case(seed, n) for seed in SEEDS for n in SIZES],
        "sequence": {"seed": "7", "draws": [hexes(bits(n, g)) for n in SEQUENCE]},
    }
    text = json.dumps(out, separators=(",", ":")).replace('{"seed"', '\n{"seed"')
    pathlib.Path(__file__).with_name("cpu_normal.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
