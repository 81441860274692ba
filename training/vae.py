"""Trains the video autoencoder (diffusers' AutoencoderKLWan) on rendered clips.

The network is run over the whole clip at once, which equals the reference's chunked walk exactly (`--check` proves it) and
trains several times faster. Run under torchrun for several devices. It stops when its minutes are over, fully annealed;
`--resume DIR` continues from exported weights.
"""
import argparse
import json
import math
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import world
from common import Clock, Flat, Team

CONFIG = dict(base_dim=16, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2, attn_scales=[], temperal_downsample=[False, True, True])


# ------------------------------------------------------------------------------------------- the whole-clip network
# Activations are [B * T, C, H, W], frames of a clip one after the other; t is the number of frames.
def _shifted(x, t, kt, stride=1, pad=True):
    """Stacks each frame and its kt - 1 predecessors (zeros before the first) on the channels: returns [B * T', kt * C, H, W], and T'."""
    x = x.unflatten(0, (-1, t))
    if pad:
        x = F.pad(x, (0, 0, 0, 0, 0, 0, kt - 1, 0))
    n = (x.shape[1] - kt) // stride + 1
    x = torch.cat([x[:, j:j + stride * (n - 1) + 1:stride] for j in range(kt)], 2)
    return x.flatten(0, 1), n


def _conv(m, x, t):
    """Applies a causal convolution; a kernel of three frames runs as a 2-D convolution over three stacked frames."""
    w = m.weight
    kt, k = w.shape[2], w.shape[3]
    if kt > 1:
        x, _ = _shifted(x, t, kt)
    return F.conv2d(x, w.transpose(1, 2).flatten(1, 2), m.bias, padding=k // 2)


def _norm(m, x):
    return F.normalize(x.float(), dim=1) * (m.scale * m.gamma.float().view(1, -1, 1, 1))


def _act(m, x):
    return F.silu(_norm(m, x)).to(x.dtype)


def _res(m, x, t):
    h = x if isinstance(m.conv_shortcut, torch.nn.Identity) else _conv(m.conv_shortcut, x, t)
    x = _conv(m.conv1, _act(m.norm1, x), t)
    return _conv(m.conv2, _act(m.norm2, x), t) + h


def _attention(m, x):
    n, c, h, w = x.shape
    q, k, v = m.to_qkv(_norm(m.norm, x).to(x.dtype)).flatten(2).transpose(1, 2).unsqueeze(1).chunk(3, -1)
    o = F.scaled_dot_product_attention(q, k, v).squeeze(1).transpose(1, 2).reshape(n, c, h, w)
    return x + m.proj(o)


def _mid(m, x, t):
    x = _res(m.resnets[0], x, t)
    return _res(m.resnets[1], _attention(m.attentions[0], x), t)


def _resample(m, x, t):
    """Up- or downsamples; returns (activations, frames). The first frame skips the convolutions in time."""
    conv = m.resample[1]
    if m.mode == "upsample3d":
        x = x.unflatten(0, (-1, t))
        b, _, c, h, w = x.shape
        y = _conv(m.time_conv, x[:, 1:].flatten(0, 1), t - 1)
        y = y.view(b, t - 1, 2, c, h, w).flatten(1, 2)
        x, t = torch.cat([x[:, :1], y.to(x.dtype)], 1).flatten(0, 1), 2 * t - 1
    if m.mode.startswith("up"):
        return F.conv2d(x.repeat_interleave(2, 2).repeat_interleave(2, 3), conv.weight, conv.bias, padding=1), t
    x = F.conv2d(F.pad(x, (0, 1, 0, 1)), conv.weight, conv.bias, stride=2)
    if m.mode == "downsample3d":
        y, n = _shifted(x, t, 3, stride=2, pad=False)
        y = F.conv2d(y, m.time_conv.weight.transpose(1, 2).flatten(1, 2), m.time_conv.bias)
        x, t = torch.cat([x.unflatten(0, (-1, t))[:, :1], y.unflatten(0, (-1, n))], 1).flatten(0, 1), n + 1
    return x, t


def encode(vae, x):
    """Encodes clips x [B, 3, 1 + 4k, H, W] in -1..1 to (mean, log variance), each [B, z, 1 + k, H / 8, W / 8]."""
    e, t = vae.encoder, x.shape[2]
    h = _conv(e.conv_in, x.transpose(1, 2).flatten(0, 1), t)
    for layer in e.down_blocks:
        if hasattr(layer, "mode"):
            h, t = _resample(layer, h, t)
        else:
            h = _res(layer, h, t)
    h = _mid(e.mid_block, h, t)
    h = _conv(vae.quant_conv, _conv(e.conv_out, _act(e.norm_out, h), t), t)
    return h.unflatten(0, (-1, t)).transpose(1, 2).float().chunk(2, 1)


def decode(vae, z):
    """Decodes latents z [B, z, 1 + k, h, w], not normalised, to clips [B, 3, 1 + 4k, 8h, 8w], not clamped."""
    d, t = vae.decoder, z.shape[2]
    h = _conv(vae.post_quant_conv, z.transpose(1, 2).flatten(0, 1), t)
    h = _mid(d.mid_block, _conv(d.conv_in, h, t), t)
    for block in d.up_blocks:
        for r in block.resnets:
            h = _res(r, h, t)
        if block.upsamplers is not None:
            h, t = _resample(block.upsamplers[0], h, t)
    h = _conv(d.conv_out, _act(d.norm_out, h), t)
    return h.unflatten(0, (-1, t)).transpose(1, 2).float()


# ------------------------------------------------------------------------------------------- training
def coloured(x):
    return 1 + 1.5 * (x.amax(1, keepdim=True) - x.amin(1, keepdim=True) > 0.5)


def loss_of(vae, x, late, weights=None):
    """Returns the reconstruction loss of clips x; `late` (a tensor, 0..1) brings in the squared error. Returns (loss, mean squared error).
    weights(x): how much each value counts, besides its frame; by default objects count more than their surroundings."""
    mean, logvar = encode(vae, x)
    z = mean + torch.exp(0.5 * logvar.clamp(-30, 20)) * torch.randn_like(mean)
    d = decode(vae, z) - x
    w = (weights or coloured)(x)
    w = w * torch.cat([torch.full_like(w[:, :, :1], 4.0), torch.ones_like(w[:, :, 1:])], 2)  # the first frame has its own path through the network
    rec = (w * (d.abs() + 4.0 * late * d * d)).mean()
    edge = (d[..., 1:] - d[..., :-1]).abs().mean() + (d[..., 1:, :] - d[..., :-1, :]).abs().mean()
    flow = (d[:, :, 1:] - d[:, :, :-1]).abs().mean()
    kl = 0.5 * (mean * mean + logvar.exp() - 1 - logvar).mean()
    return rec + 0.5 * edge + 0.25 * flow + 1e-4 * kl, (d.detach() ** 2).mean()


def pool(seed, n):
    """Draws the numbers of n training scenes, [n, BG + 2 OBJ]."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(world.pack([world.sample_scene(rng) for _ in range(n)]))


def draw(bank, n, rng):
    """Draws n packed scenes, each with the background of one scene and the objects of another."""
    p = bank[rng.integers(0, len(bank), n)].clone()
    p[:, :world.BG] = bank[rng.integers(0, len(bank), n), :world.BG]
    return p


def psnr(mse):
    """Converts a mean squared error between clips in -1..1 to decibels."""
    return 10 * math.log10(4 / max(mse, 1e-12))


@torch.no_grad()
def evaluate(vae, device, n=64, batch=8, chunked=False):
    """Returns the PSNR of held-out clips: (mean over clips, mean of first frames, lowest clip). `chunked` uses the reference's own walk."""
    scenes = [world.Scene.of(i["scene"]) for i in world.heldout_set(n)]
    p = torch.from_numpy(world.pack(scenes)).to(device)
    all_, first = [], []
    for i in range(0, n, batch):
        x = world.render(p[i:i + batch], torch)
        x = torch.round((x + 1) * 127.5) / 127.5 - 1
        if chunked:
            y = vae.decode(vae.encode(x).latent_dist.mode()).sample
        else:
            y = decode(vae, encode(vae, x)[0])
        e = (y.clamp(-1, 1) - x) ** 2
        all_ += [psnr(float(v)) for v in e.mean((1, 2, 3, 4))]
        first += [psnr(float(v)) for v in e[:, :, 0].mean((1, 2, 3))]
    return float(np.mean(all_)), float(np.mean(first)), min(all_)


def build(resume=None):
    from diffusers import AutoencoderKLWan
    if resume:
        return AutoencoderKLWan.from_pretrained(resume, torch_dtype=torch.float32)
    vae = AutoencoderKLWan(**CONFIG)
    with torch.no_grad():
        vae.quant_conv.bias[CONFIG["z_dim"]:] = -5.0  # training starts with little noise on the latents
        for m in vae.modules():                       # and with residual blocks that only pass their input on
            if hasattr(m, "conv_shortcut"):
                m.conv2.weight.zero_()
                m.conv2.bias.zero_()
    return vae


def check():
    """Compares the whole-clip network with the reference's chunked walk in float64: returns the largest difference relative to the largest value."""
    torch.manual_seed(0)
    vae = build()
    for m in vae.modules():
        if hasattr(m, "conv_shortcut"):
            m.conv2.reset_parameters()
    vae = vae.double()
    x = torch.rand(1, 3, 9, 32, 48, dtype=torch.float64) * 2 - 1
    with torch.no_grad():
        ref = vae.encode(x).latent_dist
        mean, _ = encode(vae, x)
        worst = float((mean - ref.mean).abs().max() / ref.mean.abs().max())
        out = vae._decode(ref.mean, return_dict=False)[0]
        worst = max(worst, float((decode(vae, ref.mean).clamp(-1, 1) - out).abs().max() / out.abs().max()))
    print(f"whole clip against chunked: {worst:.1e}")
    assert worst < 1e-4


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--out", default="models/sprites/vae")
    a.add_argument("--resume")
    a.add_argument("--minutes", type=float, default=9)
    a.add_argument("--max-steps", type=int, default=0)
    a.add_argument("--batch", type=int, default=4, help="clips per process")
    a.add_argument("--lr", type=float, default=1e-3)
    a.add_argument("--pool", type=int, default=8192)
    a.add_argument("--eval", type=int, default=64)
    a.add_argument("--no-compile", action="store_true")
    a.add_argument("--check", action="store_true")
    args = a.parse_args()
    if args.check:
        return check()
    team = Team()
    clock = Clock(team, args.minutes, args.max_steps)
    torch.manual_seed(1)
    vae = build(args.resume).to(team.device)
    torch.manual_seed(100 + team.rank)
    rng = np.random.default_rng(100 + team.rank)
    flat = Flat(team, [vae], weight_decay=1e-3)
    bank = pool(1000 + team.rank, args.pool)
    loss_fn, render = loss_of, world.render
    if not args.no_compile:
        loss_fn, render = torch.compile(loss_of, dynamic=False), torch.compile(world.render, dynamic=False)
    team.log(f"vae: {flat.flat.numel() / 1e6:.2f} M parameters, {team.size} processes, {args.batch} clips each")
    step, began, mark = 0, time.time(), time.time()
    late = torch.zeros((), device=team.device)
    while clock.tick(step):
        if step % 20 == 0:
            late.fill_(min(1.0, max(0.0, (clock.fraction - 0.4) / 0.2)))
        p = draw(bank, args.batch, rng)
        p = p.pin_memory().to(team.device, non_blocking=True) if team.cuda else p
        with torch.no_grad():
            x = render(p, torch)
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            loss, mse = loss_fn(vae, x, late)
        loss.backward()
        flat.step(clock.lr(step, args.lr, warm=300), decay=0.999)
        if step % 100 == 0:
            team.log(f"step {step} {100 * clock.fraction:.0f} % loss {float(loss.detach()):.4f} psnr {psnr(float(mse)):.2f} dB "
                     f"{10 * (time.time() - mark):.1f} ms a step, {time.time() - began:.0f} s")
            mark = time.time()
        step += 1
    if team.rank == 0:
        flat.averaged([vae])[0].save_pretrained(args.out)
        mean, first, low = evaluate(build(args.out).to(team.device), team.device, args.eval)
        team.log(f"vae: {step} steps, {time.time() - began:.0f} s, held-out PSNR {mean:.2f} dB, first frame {first:.2f}, lowest clip {low:.2f}")
        with open(args.out.rstrip("/") + ".log.json", "w") as f:
            json.dump({"steps": step, "seconds": time.time() - began, "clips": step * args.batch * team.size, "psnr": mean, "psnr_first": first, "psnr_lowest": low}, f)
    team.close()


if __name__ == "__main__":
    main()
