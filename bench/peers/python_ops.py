#!/usr/bin/env python3
"""The Python package's calls beside torch's and, where they can be imported, quack's and Liger's: device time and host time.

    PYTHONPATH=BUILD/python bench/peers/python_ops.py [--device cpu] [--json FILE]

BUILD is a build folder with TACHY_PYTHON (and CUDA). Device time: that of a CUDA graph of calls on cold inputs, as
norms.py takes it, so the calls are captured as well; on the CPU medians by the clock. Host time: the best of 20 series of calls of tiny tensors whose
kernels take less than the call, output allocated. "composed" is RMSNorm as PyTorch users write it out.
"""
import argparse
import functools
import json
import time

import torch
import torch.nn.functional as F

import tachyscope
from norms import graph_us
from tachyscope import ops

SHAPES = [(1, 1024, 2048), (2, 1024, 2048), (4, 1024, 2048), (2, 4096, 3072), (4, 4096, 3072)]


def composed(x, weight, eps=1e-6):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def rms_norms():
    """name -> a function of x and weight; peers that are not installed are left out."""
    calls = {
        "ours": lambda x, weight: ops.rms_norm(x, weight, 1e-6),
        "F.rms_norm": lambda x, weight: F.rms_norm(x, x.shape[-1:], weight, 1e-6),
        "composed": composed,
    }
    try:
        from quack import rmsnorm
        calls["quack"] = lambda x, weight: rmsnorm(x, weight, eps=1e-6)
    except ImportError:
        pass
    try:
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction
        calls["Liger"] = lambda x, weight: LigerRMSNormFunction.apply(x, weight, 1e-6)
    except ImportError:
        pass
    return calls


def usable(calls, *tensors):
    """Those that take these tensors; what they make at first use they have made then. A peer may not know a shape or this GPU."""
    found = {}
    for name, call in calls.items():
        try:
            call(*tensors)
            found[name] = call
        except Exception as error:
            if name not in ("quack", "Liger"):
                raise
            print(f"{name} is left out for {list(tensors[0].shape)}: {type(error).__name__} {str(error).splitlines()[:1]}", flush=True)
    return found


def device_microseconds(shape, device, rounds):
    def make():
        return [torch.randn(n, device=device).bfloat16() for n in (shape, shape[-1:])]

    tensors = make()
    calls = usable(rms_norms(), *tensors)
    if device == "cuda":
        return {name: graph_us(make, call) for name, call in calls.items()}
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call(*tensors)
            times[name].append((time.perf_counter() - begin) * 1e6)
    return {name: sorted(t)[rounds // 2] for name, t in times.items()}


def host_microseconds(calls, series=20, count=500):
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(series):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.perf_counter() - begin) / count * 1e6)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
    return best


def table(title, rows):
    names = list(dict.fromkeys(name for _, times in rows for name in times))
    print(f"\n{title}\n" + f"{'':24}" + "".join(f"{name:>12}" for name in names))
    for label, times in rows:
        print(f"{label:24}" + "".join(f"{times.get(name, float('nan')):12.1f}" for name in names))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=21, help="calls on the CPU")
    parser.add_argument("--json", help="write the figures to this file as well")
    options = parser.parse_args()
    machine = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {tachyscope.threads()} threads"
    print(f"{machine}, torch {torch.__version__}, bf16, µs")

    with torch.no_grad():
        rows = [(str(list(shape)), device_microseconds(shape, options.device, options.rounds)) for shape in SHAPES]
    table("RMSNorm, device time", rows)
    gain = sum(times["composed"] / times["ours"] for _, times in rows) / len(rows)
    print(f"composed / ours on average: {gain:.2f}")

    x, weight = torch.randn(4, 64, device=options.device), torch.randn(64, device=options.device)
    calls = rms_norms() | {"layer_norm": lambda x, weight: F.layer_norm(x, (64,), weight)}

    def host_time(x):
        return host_microseconds({name: functools.partial(call, x, weight) for name, call in usable(calls, x, weight).items()})

    with torch.no_grad():
        plain = host_time(x)
    recorded = host_time(x.clone().requires_grad_())
    host = [("without gradients", plain), ("gradients recorded", recorded)]
    table("a call of a tiny tensor, host time", host)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine, "device_us": rows, "host_us": host}, file, indent=1)


if __name__ == "__main__":
    main()
