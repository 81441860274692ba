"""Compares models that were trained with sparse attention, from files of other kinds and with adapters, on fresh random models. A file of another kind
must give the bits of a plain file with the values that it stands for, which PyTorch's formulas (trained_sparse.py) compute one pass of. An adapter must
give what the same model gives with the adapter added to its matrices by PyTorch."""

import gguf
import numpy as np
import torch
from diffusers import WanPipeline
from safetensors.torch import load_file, save_file

import footage
import generation
import gguf_files
import layouts
import loras
import random_models as rm
import single_files
import trained_sparse

_WIDE = dict(num_attention_heads=2, attention_head_dim=128, num_layers=2, ffn_dim=96)  # rows are whole blocks of GGUF, heads those of files
_KEPT = ("patch_embedding", "text_embedding", "time_embedding", "time_projection", "head")
_SIZE = {"cubes": ("128x128", 17), "linear": ("160x128", 17)}  # 8 cubes; 400 tokens in 7 blocks of keys
_SHARE = {"cubes": 0.3, "linear": 0.3}


def original_name(name):
    """The names of published files: FastWan's as they are, TurboDiffusion's within its own attention."""
    if ".proj_l." in name:
        return name.replace("attn1.proj_l", "self_attn.attn_op.local_attn.proj_l")
    return name if "to_gate_compress" in name else layouts._rename(name, layouts._DIT)


def model_of(ctx, folder, kind):
    common, sizes = footage.parts(ctx, folder)
    pipe = WanPipeline(transformer=rm.transformer(ctx.rng, **sizes, **_WIDE), **common)
    pipe.save_pretrained(folder / "model")
    trained_sparse.add_to_file(folder / "model" / "transformer", kind, trained_sparse.layers_for(kind, pipe.transformer, ctx.rng.randrange(2**31)))
    return load_file(folder / "model" / "transformer" / "diffusion_pytorch_model.safetensors")


def latents(ctx, folder, kind, *more):
    size, frames = _SIZE[kind]
    out = folder / "out.safetensors"
    (folder / "out.gif").unlink(missing_ok=True)
    ctx.run("generate", "the red cat moves", "--size", size, "--frames", frames, "--steps", 1, "--guidance", 1, "--shift", 3, "--seed", 5, "--sampler", "euler",
            "--sparse-attention", _SHARE[kind], "-q", *more, "-o", folder / "out.gif", "--save-latents", out)
    return load_file(out)["latents"]


def compare_adapters(ctx, folder, kind, weights):
    file = folder / "model" / "transformer" / "diffusion_pytorch_model.safetensors"
    plain = latents(ctx, folder, kind, "-m", folder / "model")
    for original in (False, True):
        pairs = loras.pairs(ctx.rng, {k: v for k, v in weights.items() if "proj_l" not in k and "to_gate_compress" not in k}, 4, original)
        lora = folder / f"lora-{original}.safetensors"
        save_file({k: v.contiguous() for k, v in pairs.items()}, lora)
        merged = {k: v.float().clone() for k, v in weights.items()}
        for name in weights:
            stem = "transformer." + name.removesuffix(".weight")
            if original:
                stem = "diffusion_model." + original_name(name).removesuffix(".weight")
            down, up = (pairs.get(f"{stem}.lora_{role}.weight") for role in (("down", "up") if original else ("A", "B")))
            if down is not None:
                merged[name] += 0.5 * (0.5 if original else 1.0) * up @ down  # the original's alpha is half of the rank
        save_file({k: v.contiguous() for k, v in merged.items()}, file)
        want = latents(ctx, folder, kind, "-m", folder / "model")
        save_file(weights, file)
        effect = (want - plain).norm()
        for mode in ("merge", "runtime"):
            ours = latents(ctx, folder, kind, "-m", folder / "model", "--lora", f"{lora}:0.5", "--lora-mode", mode)
            names = "the original's" if original else "diffusers'"
            ctx.report(f"trained attention, {kind}: an adapter in {names} names, {mode}", ((ours - want).norm() / effect).item(), 1e-3)


def compare_files(ctx, folder, kind, weights):
    state = {original_name(k): v.float().clone().contiguous() for k, v in weights.items()}
    own_names = {original_name(k): k for k in weights}
    parts = ["--vae", folder / "model", "--text-encoder", folder / "model", "--grid", "diffusers", "--sinusoid", "diffusers"]
    rng = np.random.default_rng(ctx.rng.randrange(2**32))

    def kind_of(name, w):
        return gguf.GGMLQuantizationType.Q8_0 if w.ndim == 2 and name.split(".")[0] not in _KEPT else None

    kinds = {}
    stored, meant = gguf_files.quantised(state, kind_of, rng)
    gguf_files.write(folder / "trained.gguf", "wan", stored)
    kinds["GGUF"] = folder / "trained.gguf", meant
    stored, meant = single_files.scaled(state, lambda name: name.split(".")[0] in _KEPT)
    save_file(stored, folder / "fp8.safetensors")
    kinds["fp8"] = folder / "fp8.safetensors", meant
    save_file({"model.diffusion_model." + k: v for k, v in state.items()}, folder / "comfy.safetensors")
    kinds["ComfyUI's"] = folder / "comfy.safetensors", state
    torch.save(state, folder / "trained.pth")
    kinds["a .pth"] = folder / "trained.pth", state
    for name, (file, meant) in kinds.items():
        meant = {own_names[k]: v.reshape(state[k].shape).float().contiguous() for k, v in meant.items()}
        plain = folder / "model" / "transformer" / "diffusion_pytorch_model.safetensors"
        save_file(meant, plain)
        want = latents(ctx, folder, kind, "-m", folder / "model")
        ours = latents(ctx, folder, kind, "-m", file, *parts)
        what = f"trained attention, {kind}, as a file of {name}"
        ctx.report(f"{what}: values that differ from its folder's", float((ours != want).sum()), 0.0)
    dense = latents(ctx, folder, kind, "-m", file, *parts, "--sparse-attention", 0)
    ctx.report(f"{what}: its attention is another one than that to all keys", float(generation.relative(dense, ours) < 1e-3), 0.5)
    save_file(weights, plain)


def compare(ctx):
    for kind in trained_sparse.KINDS:
        folder = ctx.folder / f"trained-files-{kind}"
        folder.mkdir()
        weights = model_of(ctx, folder, kind)
        compare_adapters(ctx, folder, kind, weights)
        compare_files(ctx, folder, kind, weights)
