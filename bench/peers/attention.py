#!/usr/bin/env python3
"""Times attention on one GPU, ours beside cuDNN, FlashAttention-4 and SageAttention, in one run, in TFLOP/s.

    bench/peers/attention.py BUILD [--json FILE]

BUILD is a build folder with CUDA (target lab_flash90, which times our kernel beside cuDNN's before and after the peers). The peers
need torch with CUDA; FlashAttention-4 (flash-attn-4 with nvidia-cutlass-dsl) and SageAttention 2++ are timed where they can be
imported. bf16, head sizes 128 and 64, causal masks (their rates count the pairs that are seen), data like a model's: values of size 1, a mean and a
few outlier channels in k. Times are medians. The difference of a peer's result from cuDNN's is relative to its norm. Peers are timed with their
launches, ours and the program's cuDNN as CUDA graphs; that matters for the shapes with few keys only."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import typing

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel



class Shape(typing.NamedTuple):
    heads: int
    queries: int
    keys: int
    size: int = 128  # size of a head
    causal: bool = False

    def __str__(self):
        return f"{self.heads:2} x {self.queries:5} x {self.keys:5}" + (f" x {self.size}" if self.size != 128 else "") + (" causal" if self.causal else "")

    def flops(self):
        return 4 * self.heads * self.queries * (self.keys + 1) * self.size / 2 if self.causal else 4 * self.heads * self.queries * self.keys * self.size


SHAPES = [Shape(12, 32760, 32760), Shape(40, 32760, 32760), Shape(40, 75600, 75600), Shape(12, 4680, 32760), Shape(40, 32760, 512),
          Shape(12, 32760, 512), Shape(24, 32760, 32760, 64), Shape(12, 32760, 32760, causal=True), Shape(32, 4096, 4096, causal=True),
          Shape(32, 4096, 4096, 64, True)]
TILES = ["cudnn", "192x2", "128x2", "8 bits", "by table", "causal"]


def median_ms(call, count, warm_up=2):
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(count):
        start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return sorted(times)[len(times) // 2]


def inputs(shape):
    heads, queries, keys, size, _ = shape

    def normal(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    q, k, v = normal(1, heads, queries, size), normal(1, heads, keys, size), normal(1, heads, keys, size)
    k = k + 2 * normal(1, heads, 1, size)
    k[..., ::37] *= 4
    return q, k, v


def peers():
    """Returns {name: function of q, k, v ([1, H, L, D]) and `causal`}. The function returns a call, whose result is [1, H, Lq, D]."""
    def cudnn(q, k, v, causal):
        def call():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return call

    found = {"cuDNN": cudnn}
    try:
        from flash_attn.cute import flash_attn_func

        def flash4(q, k, v, causal):
            rows = [x.transpose(1, 2).contiguous() for x in (q, k, v)]

            def call():
                out = flash_attn_func(*rows, causal=causal)
                return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)
            return call
        found["FlashAttention-4"] = flash4
    except ImportError as error:
        print(f"FlashAttention-4 is left out: {error}", file=sys.stderr)
    try:
        from sageattention import sageattn_qk_int8_pv_fp8_cuda_sm90

        def sage(q, k, v, causal):
            return lambda: sageattn_qk_int8_pv_fp8_cuda_sm90(q, k, v, tensor_layout="HND", is_causal=causal, smooth_k=True, pv_accum_dtype="fp32+fp32")
        found["SageAttention"] = sage
    except ImportError as error:
        print(f"SageAttention is left out: {error}", file=sys.stderr)
    return found


def ours(build):
    """Returns {shape: {tile: TFLOP/s}}; for 8 bits this includes the rounding. Prints how far the result is from cuDNN's."""
    out = subprocess.run([build / "bench/lab/lab_flash90", *TILES], check=True, stdout=subprocess.PIPE, text=True).stdout
    print("\n".join(line for line in out.splitlines() if "  8 bits  " in line))
    rows = {}
    for heads, queries, keys, size, name, rate in re.findall(r"^ *(\d+) x +(\d+) x +(\d+)(?: x (\d+))?  (\S+(?: \S+)*)  .*? ([\d.]+) TFLOP/s", out, re.M):
        shape = Shape(int(heads), int(queries), int(keys), int(size or 128), name == "causal")
        rows.setdefault(shape, {})[name] = float(rate)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    table = {shape: {} for shape in SHAPES}

    def add(shape, name, rate):
        table[shape].setdefault(name, []).append(round(rate, 1))

    def add_ours():
        for shape, rates in ours(args.build.resolve()).items():
            for tile, rate in rates.items():
                add(shape, "cuDNN, as a graph" if tile == "cudnn" else f"ours, {tile}", rate)

    add_ours()
    known = peers()
    for shape in SHAPES:
        q, k, v = inputs(shape)
        reference, failed = None, set()
        for turn in range(2):
            for name, make in known.items():
                if name in failed:
                    continue
                try:
                    call = make(q, k, v, shape.causal)
                    rate = shape.flops() / median_ms(call, 5 if shape.queries > 40000 else 15) / 1e9
                except Exception as error:  # the others still get their figures if a peer does not support the shape
                    print(f"{shape}, {name}: {str(error).splitlines()[0]}")
                    failed.add(name)
                    continue
                add(shape, name, rate)
                if turn == 0:
                    part = call()[:, :2, :2048].float()
                    reference = part if reference is None else reference
                    print(f"{shape}, {name}: differs by {float((part - reference).norm() / reference.norm()):.1e}")
        torch.cuda.empty_cache()
    add_ours()
    for shape, rates in table.items():
        print(f"{shape}  " + "; ".join(f"{name} {' '.join(map(str, each))}" for name, each in rates.items()))
    if args.json:
        args.json.write_text(json.dumps({"gpu": torch.cuda.get_device_name(), "tflops": [{**shape._asdict(), **rates} for shape, rates in table.items()]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
