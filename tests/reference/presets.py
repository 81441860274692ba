"""Compares the presets of distilled models, in whole runs of a random model, with their recipes, written down here in float64.

Each recipe comes from the preset's model card or reference implementation (src/request/presets.cpp names it). Where diffusers
has the scheduler (LightX2V's lists are FlowMatchEulerDiscreteScheduler with given sigmas) the lists are compared with it."""

import json
import math

import numpy as np
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from safetensors.torch import load_file

import generation

SIZE, FRAMES = "48x32", 5


def table_of_shift_8():
    sigma = np.linspace(1, 0, 1001)[:-1]
    return 8 * sigma / (1 + 7 * sigma)


def recipe(name):
    """Returns (sigmas without the last 0, timesteps, stochastic, scale of the first noise)."""
    if name.startswith("lightx2v"):
        n = int(name[-1])
        scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=5.0)
        scheduler.set_timesteps(sigmas=np.linspace(1, 1 / n, n))
        return scheduler.sigmas[:-1].double().tolist(), scheduler.timesteps.double().tolist(), False, 1.0
    if name == "causvid-9":
        t = [999, 934, 862, 756, 603, 410, 250, 140, 74]
        return [x / 1000 for x in t], t, False, 1.0
    if name == "fastwan-3":
        t, table = [1000, 757, 522], table_of_shift_8()
        return [table[np.abs(1000 * table - x).argmin()] for x in t], t, True, 1.0
    angles = torch.tensor([math.atan(80), 1.5, 1.4, 1.0], dtype=torch.float64)
    sigma = torch.sin(angles) / (torch.cos(angles) + torch.sin(angles))
    return sigma.tolist(), (1000 * sigma.float()).to(torch.bfloat16).double().tolist(), True, sigma[0].item()


def run_recipe(name, start, generator, velocity):
    sigma, timesteps, stochastic, scale = recipe(name)
    x = start * scale
    for i, s in enumerate(sigma):
        following = sigma[i + 1] if i + 1 < len(sigma) else 0.0
        v = velocity(timesteps[i], x)
        if not stochastic:
            x = x + (following - s) * v
            continue
        x = (1 - following) * (x - s * v)
        if following > 0:
            x = x + following * torch.randn(start.shape, generator=generator)
    return x


def compare(ctx):
    listed = {p["name"]: p for p in json.loads(ctx.run("presets", "--json"))}
    pipe = generation.small_pipeline(ctx)
    seed, prompt, out = ctx.rng.randrange(2**31), "the red cat moves, a bee sings", ctx.folder / "latents.safetensors"
    with torch.no_grad():
        text, _ = pipe.encode_prompt(prompt, None, False, max_sequence_length=512, device="cpu", dtype=torch.float32)

    def velocity(t, x):
        with torch.no_grad():
            return pipe.transformer(x[None].float(), torch.tensor([t], dtype=torch.float32), text).sample[0].double()

    def from_noise():
        generator = torch.Generator().manual_seed(seed)
        return generator, torch.randn(16, 2, 4, 6, generator=generator).double()

    for name in ("lightx2v-4", "lightx2v-8", "fastwan-3", "causvid-9", "rcm-4"):
        sigma, timesteps, _, _ = recipe(name)
        ours = listed[name]["sets"][0]
        ctx.report(f"preset {name}: sigmas", max(abs(a - b) for a, b in zip(ours["sigmas"], [*sigma, 0], strict=True)), 6e-8)
        ctx.report(f"preset {name}: timesteps", max(abs(a - b) for a, b in zip(ours["timesteps"], timesteps, strict=True)), 1e-4)
        generator, start = from_noise()
        want = run_recipe(name, start, generator, velocity)
        check(ctx, name, prompt, seed, out, want)

    grid, timesteps = generation.original_grid("unipc", 10, 5.0)
    want = generation.original_steps("unipc", from_noise()[1], grid, lambda i, x: velocity(timesteps[i], x))
    check(ctx, "accvid-10", prompt, seed, out, want)


def check(ctx, name, prompt, seed, out, want):
    ctx.run("generate", prompt, "--model", ctx.folder / "pipeline", "--preset", name, "--size", SIZE, "--frames", FRAMES,
            "--seed", seed, "--save-latents", out, "-q", "-o", str(ctx.folder / "frames") + "/")
    ctx.report(f"preset {name}: a whole run", generation.relative(load_file(out)["latents"], want), 1e-5)
