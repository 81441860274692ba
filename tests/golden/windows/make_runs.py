#!/usr/bin/env python3
"""Writes the results of diffusers' transformer on a clip in context windows to runs.safetensors beside this file.

    python3 tests/golden/windows/make_runs.py --repo PATH      # a checkout of kijai/ComfyUI-WanVideoWrapper (see make.py)

Versions: torch 2.11.0, diffusers 0.42.1. The tiny models of ../pipeline/model and ../image_pipeline/i2v22 run in float64, with 49 frames (13 latent
ones) of 48x32 in windows of 17 (5) that share 8 (2), 4 steps of Euler, guidance 5, seed 7. PATH's context.py gives the windows and masks; FreeNoise,
blending and the first frames of image models' windows are restated here from its nodes_sampler.py. KIND.MASK (and noise.static without FreeNoise):
final latents [z, T, h, w]. image.KIND: the same for i2v22, whose channels diffusers' pipeline makes from its first.png, guidance 4 and shift 3 as
in ../image_pipeline/runs.json. riflex.K: the whole clip at once, where frequency K of the time axis turns 0.9 times (RIFLEx). The prompts are those
of the two folders."""
import argparse
import pathlib
import sys
import types

import torch
from diffusers import WanImageToVideoPipeline, WanTransformer3DModel
from PIL import Image
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
sys.path.insert(0, str(HERE))
import generation  # noqa: E402
import make  # noqa: E402
from precision import float64  # noqa: E402

CLIP, FRAMES, OVERLAP, STEPS, GUIDANCE, SEED = 13, 5, 2, 4, 5.0, 7
torch.set_num_threads(1)


def noise(free, z=16):
    generator = torch.Generator().manual_seed(SEED)
    out = torch.randn(z, CLIP, 4, 6, generator=generator)
    for first in range(0, CLIP - FRAMES, FRAMES - OVERLAP) if free else []:
        place = first + FRAMES
        count = min(FRAMES - OVERLAP, CLIP - place)
        out[:, place : place + count] = out[:, first + torch.randperm(count, generator=generator)]
    return out


def run(context, dit, texts, kind, mask, start, channels=None, guidance=GUIDANCE):
    schedule = context.get_context_scheduler(make.KINDS[kind])
    scheduler = generation.scheduler("euler", 3.0)
    scheduler.set_timesteps(STEPS)
    x = start.double()
    for step, t in enumerate(scheduler.timesteps):
        total, weight = torch.zeros_like(x), torch.zeros_like(x)
        for window in schedule(step, STEPS, CLIP, FRAMES, 1, OVERLAP):
            part = x[:, window]
            if channels is not None:
                beside = channels[:, window].clone()
                beside[:, 0] = channels[:, 0]
                part = torch.cat([part, beside])
            c, u = (dit(part[None], t[None], text).sample[0] for text in texts)
            values = context.create_window_mask(torch.zeros(1, FRAMES, 1, 1), window, CLIP, OVERLAP, kind == "looped", mask)
            total[:, window] += (u + guidance * (c - u)) * values
            weight[:, window] += values
        x = scheduler.step(total / weight, t, x, return_dict=False)[0]
    return x


def padded(rows):
    rows = rows.double()
    return torch.cat([rows, torch.zeros(1, 512 - rows.shape[1], rows.shape[2], dtype=rows.dtype)], 1)


def image_runs(context):
    folder = HERE.parent / "image_pipeline"
    pipe = WanImageToVideoPipeline.from_pretrained(folder / "i2v22", torch_dtype=torch.float32)
    for part in (pipe.transformer, pipe.text_encoder, pipe.vae):
        part.double()
    image = pipe.video_processor.preprocess(Image.open(folder / "first.png").convert("RGB"), height=32, width=48).double()
    z = pipe.vae.config.z_dim
    start = noise(True, z)
    condition = pipe.prepare_latents(image, 1, z, 32, 48, 4 * CLIP - 3, torch.float64, "cpu", None, start[None].double())[1][0]
    texts = pipe.encode_prompt("the red cat moves, a bee sings", "ugly", True, max_sequence_length=512, device="cpu", dtype=torch.float64)
    return {f"image.{kind}": run(context, pipe.transformer, texts, kind, "linear", start, condition, 4.0) for kind in make.KINDS}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repo", type=pathlib.Path, required=True)
    context = make.load(parser.parse_args().repo)
    golden = load_file(HERE.parent / "pipeline/golden.safetensors")
    out = {}
    with torch.no_grad(), float64():
        dit = WanTransformer3DModel.from_pretrained(HERE.parent / "pipeline/model/transformer", torch_dtype=torch.float32).double()
        texts = padded(golden["prompt"]), padded(golden["negative"])
        for kind in make.KINDS:
            for mask in ("linear", "pyramid"):
                out[f"{kind}.{mask}"] = run(context, dit, texts, kind, mask, noise(True))
        out["noise.static"] = run(context, dit, texts, "static", "linear", noise(False))
        out |= image_runs(context)
        for k in (1, 2):
            angles = torch.arange(dit.rope.freqs_cos.shape[0], dtype=torch.float64)[:, None] * (0.9 * 2 * torch.pi / CLIP)
            kept = dit.rope.freqs_cos.clone(), dit.rope.freqs_sin.clone()
            dit.rope.freqs_cos[:, 2 * k - 2 : 2 * k], dit.rope.freqs_sin[:, 2 * k - 2 : 2 * k] = angles.cos(), angles.sin()
            out[f"riflex.{k}"] = run(types.SimpleNamespace(get_context_scheduler=lambda _: lambda *_: [list(range(CLIP))], create_window_mask=lambda *_: 1), dit, texts,
                                     "static", "linear", noise(False))
            dit.rope.freqs_cos, dit.rope.freqs_sin = kept
    for name, value in out.items():
        assert value.isfinite().all(), name
        print(name, list(value.shape), float(value.abs().max()))
    save_file({k: v.float().contiguous() for k, v in out.items()}, HERE / "runs.safetensors")


if __name__ == "__main__":
    main()
