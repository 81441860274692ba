"""Compares `tachyscope vae encode` and `decode`, from pictures to pictures, with diffusers' AutoencoderKLWan on the same weights.

Latents are the posterior's mode, normalised by the config's mean and std. The bounds are those of the VAE's stages (compare.py)."""

import numpy as np
import torch
from diffusers import AutoencoderKLWan
from PIL import Image
from safetensors import safe_open

import random_models as rm
from precision import float64

VAE_BOUND = 1e-5


def draw(ctx, folder, frames, height, width):
    """Draws pictures with shapes that move, as uint8 [T, H, W, 3]."""
    folder.mkdir()
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(ctx.rng.randrange(2**31)).integers(0, 40, (frames, height, width, 3))
    out = []
    for t in range(frames):
        inside = np.hypot(x - width * (0.3 + 0.03 * t), y - height * 0.5) < height * 0.25
        picture = np.where(inside[..., None], [200, 40, 60], np.stack([x * 200 // width, y * 200 // height, 0 * x + 120], -1)) + noise[t]
        out.append(np.clip(picture, 0, 255).astype(np.uint8))
        Image.fromarray(out[-1]).save(folder / f"in_{t:04}.png")
    return np.stack(out)


def compare_one(ctx, label, model, folder, frames, height, width):
    c = model.config
    video = draw(ctx, ctx.folder / f"in-{label}", frames, height, width)
    pixels = torch.from_numpy(video).float().div(255).mul(2).sub(1).permute(3, 0, 1, 2)[None]
    mean, std = (torch.tensor(v, dtype=torch.float64).view(-1, 1, 1, 1) for v in (c.latents_mean, c.latents_std))
    with torch.no_grad():
        raw32 = model.encode(pixels).latent_dist.mode()[0]
        with float64():
            raw64 = model.double().encode(pixels.double()).latent_dist.mode()[0]
        model.float()
    got = {}
    for scale, more in (("normalised", []), ("raw", ["--raw"])):
        out = ctx.folder / f"{label}-{scale}.safetensors"
        ctx.run("vae", "encode", ctx.folder / f"in-{label}", "-o", out, "--model", folder, "-q", *more)
        with safe_open(out, "pt") as file:
            got[scale], about = file.get_tensor("latents"), file.metadata()
        ctx.report(f"vae {label}: scale and size in the file, wrong",
                   float((about["scale"], about["width"], about["height"], about["frames"]) != (scale, str(width), str(height), str(frames))), 0)
    ctx.check(f"vae encode {label}: {frames}x{height}x{width}, raw", got["raw"], raw64, raw32, VAE_BOUND)
    ctx.check(f"vae encode {label}: normalised", got["normalised"], (raw64 - mean) / std, (raw32.double() - mean) / std, VAE_BOUND)
    for scale in got:
        target = ctx.folder / f"out-{label}-{scale}"
        ctx.run("vae", "decode", ctx.folder / f"{label}-{scale}.safetensors", "-o", str(target) + "/", "--model", folder, "-q")
        latents = got[scale].double() * std + mean if scale == "normalised" else got[scale]
        with torch.no_grad():
            want = model.decode(latents.float()[None]).sample[0].permute(1, 2, 3, 0).clamp(-1, 1).add(1).div(2).mul(255).round()
        ours = np.stack([np.asarray(Image.open(f)).astype(np.int16) for f in sorted(target.glob("*.png"))])
        ctx.report(f"vae decode {label}, {scale}: levels of 255 apart", float(np.abs(ours - want.numpy()).max()), 1.0)


def compare(ctx):
    for i in range(2):
        folder = ctx.folder / f"vae-command-{i}"
        model = rm.vae(ctx.rng)
        model.save_pretrained(folder)
        compare_one(ctx, f"random {i}", model, folder, 4 * ctx.rng.randint(0, 2) + 1, 8 * ctx.rng.randint(2, 5), 8 * ctx.rng.randint(2, 5))
    shipped = ctx.repo / "models" / "sprites" / "vae"
    if (shipped / "config.json").exists():
        model = AutoencoderKLWan.from_pretrained(shipped, torch_dtype=torch.float32).eval()
        compare_one(ctx, "shipped", model, shipped, 9, 64, 80)
