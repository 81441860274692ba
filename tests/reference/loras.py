"""Compares adapters on the shipped model: the command line's `--lora`, and a folder with the weights from diffusers' load_lora_weights and fuse_lora,
with the same prompt and seed."""

import json
import shutil

import torch
from diffusers import WanTransformer3DModel
from diffusers.loaders import WanLoraLoaderMixin
from safetensors.torch import load_file, save_file

import layouts

_RUN = ["-p", "a red circle moves right", "--size", "64x32", "-f", "5", "--steps", "3", "--guidance", "3", "--seed", "3", "-q"]


def pairs(rng, weights, rank, original):
    """Makes a pair for each matrix of the blocks, in diffusers' names or, with alphas, in the original's."""
    out = {}
    generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
    for name, w in weights.items():
        if not name.startswith("blocks.") or not name.endswith(".weight") or w.ndim != 2:
            continue
        a, b = (torch.randn(*shape, generator=generator) * 0.15 for shape in ((rank, w.shape[1]), (w.shape[0], rank)))
        if original:
            stem = "diffusion_model." + layouts._rename(name, layouts._DIT).removesuffix(".weight")
            out |= {f"{stem}.lora_down.weight": a, f"{stem}.lora_up.weight": b, f"{stem}.alpha": torch.tensor(float(rank) / 2)}
        else:
            stem = "transformer." + name.removesuffix(".weight")
            out |= {f"{stem}.lora_A.weight": a, f"{stem}.lora_B.weight": b}
    return out


def fused(model, state, strength, folder):
    """Makes two models with the adapter fused by diffusers: in float32, and rounded once to the dtypes of the model's files."""
    dit = WanTransformer3DModel.from_pretrained(model / "transformer", torch_dtype=torch.float32)
    dit.load_lora_adapter(WanLoraLoaderMixin.lora_state_dict(dict(state)), adapter_name="a", prefix="transformer")
    dit.fuse_lora(lora_scale=strength)
    dit.unload_lora()
    dtypes = {k: v.dtype for k, v in load_file(next((model / "transformer").glob("*.safetensors"))).items()}
    exact = {k: v.contiguous() for k, v in dit.state_dict().items()}
    out = []
    for name, state in (("exact", exact), ("rounded", {k: v.to(dtypes[k]) for k, v in exact.items()})):
        shutil.copytree(model, folder / name)
        for old in (folder / name / "transformer").glob("*.safetensors*"):
            old.unlink()
        save_file(state, folder / name / "transformer/diffusion_pytorch_model.safetensors")
        out.append(folder / name)
    return out


def compare(ctx):
    model = ctx.repo / "models/sprites"
    if not (model / "model_index.json").exists():
        print("left out: the shipped model is not here")
        return
    weights = load_file(next((model / "transformer").glob("*.safetensors")))

    def latents(folder, *args):
        out = ctx.folder / "lora-latents.safetensors"
        ctx.run("generate", *_RUN, "-m", folder, *args, "-o", ctx.folder / "lora.gif", "--save-latents", out)
        return load_file(out)["latents"]

    plain = latents(model)
    for original in (True, False):
        rank, strength = ctx.rng.choice([4, 7, 16]), ctx.rng.choice([0.5, 1.0, -0.75])
        state = pairs(ctx.rng, weights, rank, original)
        file = ctx.folder / f"lora-{original}.safetensors"
        save_file(state, file)
        exact, rounded = (latents(folder) for folder in fused(model, state, strength, ctx.folder / f"fused-{original}"))
        effect = (exact - plain).abs().max().item()
        names = "original" if original else "diffusers'"
        # A merged weight is rounded once to bfloat16, the dtype of the model's files. Where peft's float32 sum lies within one float32 ulp of the
        # midpoint of two values, the two may round differently. This happens to a few weights in ten thousand.
        for mode, want, bound in (("merge", rounded, 0.01), ("runtime", exact, 5e-4)):
            ours = latents(model, "--lora", f"{file}:{strength}", "--lora-mode", mode)
            ctx.report(f"adapter in {names} names, rank {rank}, {mode}: error of its effect", (ours - want).abs().max().item() / effect, bound)
        told = json.loads(ctx.run("lora", file, "-m", model, "--json"))
        ctx.report(f"adapter in {names} names: layers that `lora` finds", float(told["layers"] - told["matched"]) + (told["layers"] == 0), 0.5)
