#!/usr/bin/env python3
"""Times the linear layers of Wan 2.1 1.3B at 32,760 tokens on a GPU, by torch and by the package's ops, each with what follows it in a block:
nothing, GELU, or the gate and the residual add. All ways of a row alternate in one run; codes of the weight are made before. comfy-kitchen's int8
layer is among them where it can be imported and, on a GPU, has its compiled kernels.

    PYTHONPATH=BUILD/python bench/peers/linear_layers.py [--tokens N] [--rounds N] [--dtype bfloat16] [--tiny]"""
import argparse

import torch
import torch.nn.functional as F

from python_models import distance, in_turns
from python_ops import comfy_kitchen
from tachyscope import ops

SHAPES = [("q", 1536, 1536), ("q, k, v", 1536, 4608), ("up", 1536, 8960), ("down", 8960, 1536)]


def ways(x, weight, bias, gate, residual, kitchen):
    """Returns {what follows: {name: call}}; the first way of each is torch's alone."""
    plain = {"torch": lambda: F.linear(x, weight, bias), "ours": lambda: ops.linear(x, weight, bias)}
    gelu = {"torch": lambda: F.gelu(F.linear(x, weight, bias), approximate="tanh"),
            "torch, our gelu": lambda: ops.gelu(F.linear(x, weight, bias), "tanh"),
            "ours": lambda: ops.linear(x, weight, bias, activation="gelu_tanh")}
    gated = {"torch": lambda: residual + gate * F.linear(x, weight, bias),
             "torch, our add": lambda: ops.gated_residual(residual, F.linear(x, weight, bias), gate),
             "ours": lambda: ops.linear(x, weight, bias, gate=gate, residual=residual)}
    for dtype in ["int8"] + ["float8_e4m3fn"] * (not x.is_cuda or torch.cuda.get_device_capability() >= (8, 9)):
        codes, scales = ops.codes_of(weight, dtype)
        plain[dtype] = lambda codes=codes, scales=scales: ops.scaled_linear(x, codes, scales, bias)
        gelu[dtype] = lambda codes=codes, scales=scales: ops.scaled_linear(x, codes, scales, bias, activation="gelu_tanh")
    if kitchen:
        codes, scales = ops.codes_of(weight, "int8")
        plain["kitchen int8"] = lambda: kitchen.int8_linear(x, codes, scales, bias, x.dtype)
        gelu["kitchen int8"] = lambda: F.gelu(kitchen.int8_linear(x, codes, scales, bias, x.dtype), approximate="tanh")
        gated["kitchen int8"] = lambda: kitchen.int8_linear(x, codes, scales, bias, x.dtype, residual=residual, residual_scale=gate[0, 0])
    return {"alone": plain, "gelu": gelu, "gate and residual": gated}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].replace("\n", " "))
    parser.add_argument("--tokens", type=int, default=32760)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--tiny", action="store_true", help="few channels, to try the script")
    options = parser.parse_args()
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, options.dtype)
    print(f"{torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU'}, torch {torch.__version__}, {options.dtype}")
    kitchen = comfy_kitchen(options.device)
    torch.manual_seed(0)
    with torch.device(options.device), torch.no_grad():
        for name, size, out in SHAPES:
            size, out = (size // 32, out // 32) if options.tiny else (size, out)
            tokens = 64 if options.tiny else options.tokens
            x, weight = torch.randn(1, tokens, size, dtype=dtype), torch.randn(out, size, dtype=dtype) * size ** -0.5
            bias, gate, residual = torch.randn(out, dtype=dtype), torch.randn(1, 1, out, dtype=dtype), torch.randn(1, tokens, out, dtype=dtype)
            for follows, calls in ways(x, weight, bias, gate, residual, kitchen).items():
                right = calls["torch"]()
                apart = {way: distance(call(), right) for way, call in calls.items()}
                for way, ms in in_turns(calls, options).items():
                    print(f"{name:10}{follows:20}{way:18}{ms * 1000:10.1f} us{apart[way]:12.1e}", flush=True)


if __name__ == "__main__":
    main()
