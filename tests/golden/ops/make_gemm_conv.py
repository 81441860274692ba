"""Makes golden values of the linear layer and the convolutions, from PyTorch and diffusers' Wan VAE modules in float64.

Made with Python 3.11, torch 2.11.0, diffusers 0.42.1, seed 20260611:
    python tests/golden/ops/make_gemm_conv.py
writes gemm_conv.json beside this file: {case: {name: {"shape": [...], "data": [...]}}}. Inputs are float32 values,
frames are channels-last, weights keep PyTorch's order.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d, WanResample

torch.set_num_threads(1)
torch.manual_seed(20260611)
cases = {}


def rand(*shape):
    return torch.randn(*shape).half().double()  # few digits in the file, and exact in every dtype


def add(case, **tensors):
    entry = {}
    for name, t in tensors.items():
        t = t.detach()
        data = [v if isinstance(v, int) else float(np.format_float_scientific(np.float32(v), unique=True))
                for v in t.flatten().tolist()]
        entry[name] = {"shape": list(t.shape), "data": data}
    cases[case] = entry


def last(t):  # [1, C, T, H, W] or [F, C, H, W] → channels-last frames
    return t[0].permute(1, 2, 3, 0) if t.dim() == 5 else t.permute(0, 2, 3, 1)


def fill(module):
    for p in module.parameters():
        p.data = rand(*p.shape)
    return module.double()


with torch.no_grad():
    x, w, b, mul = rand(5, 19), rand(7, 19) / 4, rand(7), rand(5, 7)
    res, gate, row = rand(5, 7), rand(2, 7), torch.tensor([0, 1, 1, 0, 1], dtype=torch.int32)
    t = F.linear(x, w, b)
    add("linear", x=x, weight=w, bias=b, multiply=mul, residual=res, gate=gate, row=row, none=t, silu=F.silu(t),
        gelu_tanh=F.gelu(t, approximate="tanh"), gelu_erf=F.gelu(t),
        gated=res + gate[row.long()] * (F.gelu(t, approximate="tanh") * mul))

    # A clip of 1 + 2 frames goes through the streaming module: first the history is zero, then it has one frame, then the cache is full.
    conv = fill(WanCausalConv3d(3, 5, 3, padding=1))
    x = rand(1, 3, 4, 5, 4)
    add("causal_conv3d", x=last(x), weight=conv.weight, bias=conv.bias, y=last(conv(x)))

    # The time convolutions of the up- and downsampler get the frames that their caches would hold.
    up = fill(WanCausalConv3d(4, 6, (3, 1, 1), padding=(1, 0, 0)))
    x, cache = rand(1, 4, 2, 3, 2), rand(1, 4, 2, 3, 2)
    add("time_up", x=last(x), cache=last(cache), weight=up.weight, bias=up.bias, y=last(up(x, cache)))
    down = fill(WanCausalConv3d(4, 4, (3, 1, 1), stride=(2, 1, 1), padding=(0, 0, 0)))
    x, cache = rand(1, 4, 4, 3, 2), rand(1, 4, 1, 3, 2)
    add("time_down", x=last(x), cache=last(cache), weight=down.weight, bias=down.bias,
        y=last(down(torch.cat([cache, x], dim=2))))

    module = fill(WanResample(6, "upsample2d"))
    x = rand(2, 6, 3, 4)
    conv = module.resample[1]
    add("upsample2d", x=last(x), weight=conv.weight, bias=conv.bias, y=last(module.resample(x)))
    module = fill(WanResample(4, "downsample2d"))
    x = rand(2, 4, 6, 8)
    conv = module.resample[1]
    add("downsample2d", x=last(x), weight=conv.weight, bias=conv.bias, y=last(module.resample(x)))
    w, b, x = rand(6, 5, 3, 3), rand(6), rand(1, 5, 4, 3)
    add("conv2d", x=last(x), weight=w, bias=b, y=last(F.conv2d(x, w, b, padding=1)))
    w, x = rand(9, 5, 1, 1), rand(1, 5, 4, 3)
    add("conv1x1", x=last(x), weight=w, y=last(F.conv2d(x, w)))

path = pathlib.Path(__file__).with_name("gemm_conv.json")
path.write_text(json.dumps(cases, separators=(",", ":")) + "\n")
