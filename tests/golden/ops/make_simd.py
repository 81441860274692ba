"""Makes golden values of the ops that src/ops computes with Highway, from PyTorch and the models' own modules.

Made with Python 3.11, torch 2.11.0, diffusers 0.42.1, transformers 5.23.0, seed 20240607:
    python tests/golden/ops/make_simd.py
writes simd.json beside this file: {case: {name: {"shape": [...], "data": [...]}}}, float32 values printed exactly.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from diffusers.models.autoencoders.autoencoder_kl_wan import WanRMS_norm
from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed
from diffusers.video_processor import VideoProcessor
from transformers.models.umt5.modeling_umt5 import UMT5LayerNorm
from transformers.activations import ACT2FN

torch.set_num_threads(1)
torch.manual_seed(20240607)
cases = {}


def add(case, **tensors):
    entry = {}
    for name, t in tensors.items():
        t = torch.as_tensor(t).detach()
        if t.is_floating_point():
            t = t.float()
        data = [v if isinstance(v, int) else float(np.format_float_scientific(np.float32(v), unique=True)) for v in t.flatten().tolist()]
        data = [v if isinstance(v, int) or np.isfinite(v) else str(v) for v in data]
        entry[name] = {"shape": list(t.shape), "data": data}
    cases[case] = entry


with torch.no_grad():
    # Norms
    norm = UMT5LayerNorm(40, eps=1e-6)
    norm.weight.normal_()
    x = torch.randn(3, 40) * 3
    add("rmsnorm_umt5", x=x, weight=norm.weight, y=norm(x))

    x, scale, shift = torch.randn(4, 24) + 5, torch.randn(2, 24), torch.randn(2, 24)
    row = torch.tensor([0, 1, 1, 0], dtype=torch.int32)
    weight, bias = torch.randn(24), torch.randn(24)
    plain = F.layer_norm(x, (24,), eps=1e-6)
    affine = F.layer_norm(x, (24,), weight, bias, eps=1e-6)
    index = row.long()
    add("layernorm_modulate", x=x, scale=scale, shift=shift, row=row, weight=weight, bias=bias, affine=affine,
        modulated=plain * (1 + scale[index]) + shift[index])

    wan_norm = WanRMS_norm(20, images=False)
    wan_norm.gamma.normal_()
    x = torch.randn(1, 20, 2, 2, 3)
    x[:, :, 0, 0, 1] = 0  # a zero position
    x[:, :, 1, 1, 2] *= 1e-14  # below the clamp of the norm
    last = lambda t: t.permute(0, 2, 3, 4, 1).reshape(-1, 20)
    add("channel_norm_wan", x=last(x), gamma=wan_norm.gamma.flatten(), plain=last(wan_norm(x)),
        silu=last(F.silu(wan_norm(x))))

    # Rope: the tables of three head dims, and q as Wan's attention makes it
    for head_dim, grid in ((128, (2, 2, 3)), (64, (3, 2, 2)), (40, (2, 3, 2)), (12, (21, 3, 5))):
        rope = WanRotaryPosEmbed(head_dim, (1, 2, 2), 1024)
        hidden = torch.zeros(1, 1, grid[0], 2 * grid[1], 2 * grid[2])
        cos, sin = rope(hidden)
        length = grid[0] * grid[1] * grid[2]
        add(f"rope_table_{head_dim}", grid=torch.tensor(grid, dtype=torch.int64),
            cos=cos.reshape(length, head_dim)[:, 0::2], sin=sin.reshape(length, head_dim)[:, 1::2])

    heads, head_dim, grid = 2, 20, (2, 1, 2)
    rope = WanRotaryPosEmbed(head_dim, (1, 2, 2), 1024)
    cos, sin = rope(torch.zeros(1, 1, grid[0], 2 * grid[1], 2 * grid[2]))
    norm = torch.nn.RMSNorm(heads * head_dim, eps=1e-6)
    norm.weight.normal_()
    x = torch.randn(2, 4, heads * head_dim)
    q = norm(x).unflatten(2, (heads, head_dim))
    first, second = q.unflatten(-1, (-1, 2)).unbind(-1)
    c, s = cos[..., 0::2], sin[..., 1::2]
    rotated = torch.empty_like(q)
    rotated[..., 0::2], rotated[..., 1::2] = first * c - second * s, first * s + second * c
    add("qk_norm_rope_wan", x=x, weight=norm.weight, grid=torch.tensor(grid, dtype=torch.int64), normed=norm(x),
        y=rotated.flatten(2))

    # Activations on a grid that reaches both tails, computed in float64 and rounded once
    x = torch.cat([torch.linspace(-12, 12, 97), torch.tensor([0.0, -0.0, 1e-6, -1e-6, 1e-30, 80.0, -80.0, 700.0])])
    wide = x.double()
    add("activation", x=x, silu=F.silu(wide), gelu_tanh=F.gelu(wide, approximate="tanh"), gelu_erf=F.gelu(wide))
    a, b = torch.randn(3, 17), torch.randn(3, 17)
    add("glu_umt5", a=a, b=b, y=ACT2FN["gelu_new"](a) * b)

    # Attention: plain, with a mask of -inf, with T5's bias and finfo.min, uniform weights
    b, lq, lk, h, d = 2, 5, 7, 2, 12
    q, k, v = torch.randn(b, lq, h, d), torch.randn(b, lk, h, d), torch.randn(b, lk, h, d)
    run = lambda mask, scale: F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                                             attn_mask=mask, scale=scale).transpose(1, 2)
    key_mask = torch.zeros(b, lk)
    key_mask[0, 2:4] = -float("inf")
    key_mask[1, 0] = -float("inf")
    bias = torch.randn(h, lq, lk)
    lowest = torch.finfo(torch.float32).min
    t5_mask = torch.zeros(b, lk)
    t5_mask[:, 4:] = lowest
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) + (bias + t5_mask[:, None, None, :])
    t5 = torch.einsum("bhqk,bkhd->bqhd", F.softmax(scores.float(), dim=-1), v)
    add("attention", q=q, k=k, v=v, key_mask=key_mask, bias=bias, t5_mask=t5_mask, plain=run(None, d**-0.5),
        masked=run(key_mask[:, None, None, :], d**-0.5), t5=t5,
        uniform=run(torch.full((b, 1, 1, lk), lowest), d**-0.5))

    # Patches: the input side is Wan's patch convolution, the output side the transformer's own reshape
    video, kernel = torch.randn(1, 3, 2, 4, 6), torch.randn(4, 3, 1, 2, 2)
    tokens = F.conv3d(video, kernel, stride=(1, 2, 2)).flatten(2).transpose(1, 2)
    projected = torch.randn(1, 12, 1 * 2 * 2 * 3)
    back = projected.reshape(1, 2, 2, 3, 1, 2, 2, 3).permute(0, 7, 1, 4, 2, 5, 3, 6)
    back = back.flatten(6, 7).flatten(4, 5).flatten(2, 3)
    add("patchify_wan", video=video, kernel=kernel, tokens=tokens, projected=projected, unpatchified=back)

    # Pixels: every rounding boundary, and values outside
    x = torch.cat([(torch.arange(255) + 0.5) / 255 * 2 - 1, torch.linspace(-1.2, 1.2, 96)]).reshape(1, 1, 1, 117, 3)
    video = x.permute(0, 4, 1, 2, 3)  # [B, C, F, H, W]
    frames = VideoProcessor(vae_scale_factor=8).postprocess_video(video, output_type="np")
    add("to_rgb8_diffusers", x=x.reshape(117, 3), y=torch.from_numpy((frames * 255).round().astype("uint8")).reshape(117, 3).int())

    # Widening: all 8-bit patterns, and 16-bit ones of every exponent
    bytes_ = torch.arange(256, dtype=torch.uint8)
    halves = torch.cat([torch.arange(0, 65536, 97), torch.tensor([0, 1, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0x8000, 0x8001, 0xFC00])])
    as_half = torch.from_numpy(halves.numpy().astype(np.uint16).view(np.int16))
    add("widen", halves=halves.int(), e4m3=bytes_.view(torch.float8_e4m3fn).float(),
        e5m2=bytes_.view(torch.float8_e5m2).float(), f16=as_half.view(torch.float16).float(),
        bf16=as_half.view(torch.bfloat16).float())

path = pathlib.Path(__file__).with_name("simd.json")
path.write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in cases.items()) + "\n}\n")
print(path, path.stat().st_size)
