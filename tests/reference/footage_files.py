"""Compares VACE and video to video with adapters, and VACE from files of other kinds, on fresh random models: diffusers loads the same adapter with
load_lora_weights, and runs the values that the gguf package and torch dequantise."""

import json

import gguf
import numpy as np
from diffusers import WanVACEPipeline, WanVideoToVideoPipeline
from safetensors.torch import load_file, save_file

import footage
import generation
import gguf_files
import images
import layouts
import loras
import random_models as rm
import single_files

_WIDE = dict(num_attention_heads=2, attention_head_dim=128, num_layers=4, ffn_dim=96)  # rows are whole blocks of GGUF, heads those of files
_KEPT = ("patch_embedding", "text_embedding", "time_embedding", "time_projection", "head", "vace_patch_embedding")


def model_of(ctx, folder, vace):
    common, sizes = footage.parts(ctx, folder)
    if vace:
        dit = rm.transformer(ctx.rng, "vace", **sizes, **_WIDE, vace_in_channels=2 * sizes["in_channels"] + 64, vace_layers=[0, 2])
        pipe = WanVACEPipeline(transformer=dit, **common)
    else:
        pipe = WanVideoToVideoPipeline(transformer=rm.transformer(ctx.rng, **sizes, **_WIDE), **common)
    pipe.save_pretrained(folder / "model")
    return pipe


def run_of(ctx, folder, vace):
    """Draws a run with a control, a mask and a reference, or one that changes a video; returns it, what it is given, and our arguments."""
    run = dict(prompt="the red cat moves", negative_prompt="ugly", width=32, height=48, num_frames=9, num_inference_steps=6, guidance_scale=3.0,
               flow_shift=3.0, sampler=ctx.rng.choice(generation.SAMPLERS), seed=ctx.rng.randrange(2**31))
    given = dict(control=footage.clip(ctx, folder / "control", 9, 32, 48, lambda w, h: images.picture(ctx, w, h)), mask=None, references=[], first=None,
                 last=None, outpaint=None, keep=None)
    args = ["generate", run["prompt"], "-n", "ugly", "--size", "32x48", "--frames", 9, "--steps", 6, "--guidance", 3, "--shift", 3, "--seed", run["seed"],
            "--sampler", run["sampler"], "-q"]
    if not vace:
        run["strength"] = 0.5
        return run, given, [*args, "--video", folder / "control", "--strength", 0.5]
    given["mask"] = footage.clip(ctx, folder / "mask", 9, 32, 48, lambda w, h: footage.blob(ctx, w, h))
    given["references"] = [images.picture(ctx, 40, 70)]
    given["references"][0].save(folder / "reference.png")
    return run, given, [*args, "--control-video", folder / "control", "--mask-video", folder / "mask", "--reference", folder / "reference.png"]


def latents(ctx, folder, args, *more):
    out = folder / "out.safetensors"
    (folder / "out.gif").unlink(missing_ok=True)
    ctx.run(*args, *more, "-o", folder / "out.gif", "--save-latents", out)
    return load_file(out)["latents"]


def before_and_after(name):
    """Gives the projections of a control block the names that the original has for them."""
    return name.replace(".proj_in.", ".before_proj.").replace(".proj_out.", ".after_proj.")


def original_name(name):
    return before_and_after(layouts._rename(name, layouts._DIT))


def all_pairs(ctx, pipe, original):
    """Returns an adapter for each matrix of the blocks, those of the control among them."""
    weights = {name: w for name, w in pipe.transformer.state_dict().items() if not name.startswith("vace_")}
    out = loras.pairs(ctx.rng, weights, 4, original)
    control = {name.removeprefix("vace_"): w for name, w in pipe.transformer.state_dict().items() if name.startswith("vace_blocks")}
    for key, value in loras.pairs(ctx.rng, control, 4, original).items():
        out[before_and_after(key.replace("blocks.", "vace_blocks.", 1)) if original else key.replace("blocks.", "vace_blocks.", 1)] = value
    return out


def compare_adapters(ctx, vace):
    what = "VACE" if vace else "video to video"
    folder = ctx.folder / f"footage-lora-{vace}"
    folder.mkdir()
    pipe = model_of(ctx, folder, vace)
    run, given, args = run_of(ctx, folder, vace)
    plain = footage.pipeline(pipe, run, given)
    for original in (False, True):
        state, strength = all_pairs(ctx, pipe, original), ctx.rng.choice([0.5, -0.75])
        file = folder / f"lora-{original}.safetensors"
        save_file({k: v.contiguous() for k, v in state.items()}, file)
        names = "the original's" if original else "diffusers'"
        told = json.loads(ctx.run("lora", file, "-m", folder / "model", "--json"))
        ctx.report(f"{what}: an adapter in {names} names: layers that are not found", float(told["layers"] - told["matched"]) + (told["layers"] == 0), 0.5)
        # diffusers reads the original's names of plain blocks alone, so it gets its own names for the same values.
        pipe.load_lora_weights(in_diffusers_names(state, original), adapter_name="a")
        pipe.set_adapters(["a"], [strength])
        want = footage.pipeline(pipe, run, given)
        pipe.unload_lora_weights()
        effect = (want - plain).abs().max().item()
        for mode in ("merge", "runtime"):
            ours = latents(ctx, folder, args, "--model", folder / "model", "--lora", f"{file}:{strength}", "--lora-mode", mode)
            ctx.report(f"{what}: an adapter in {names} names, {mode}: error of its effect", (ours - want).abs().max().item() / effect, 1e-3)


def in_diffusers_names(state, original):
    if not original:
        return state
    back = {}
    for key, value in state.items():
        stem, role = key.removeprefix("diffusion_model.").rsplit(".lora_" if ".lora_" in key else ".", 1)
        if role == "alpha":
            continue
        if role.startswith("up"):  # the alpha is half of the rank
            value = value * 0.5
        for ours, theirs in ORIGINAL.items():
            stem = stem.replace(theirs, ours)
        back[f"transformer.{stem}.lora_{'A' if role.startswith('down') else 'B'}.weight"] = value
    return back


ORIGINAL = {"attn1.to_q": "self_attn.q", "attn1.to_k": "self_attn.k", "attn1.to_v": "self_attn.v", "attn1.to_out.0": "self_attn.o",
            "attn2.to_q": "cross_attn.q", "attn2.to_k": "cross_attn.k", "attn2.to_v": "cross_attn.v", "attn2.to_out.0": "cross_attn.o",
            "ffn.net.0.proj": "ffn.0", "ffn.net.2": "ffn.2", "proj_in": "before_proj", "proj_out": "after_proj"}


def compare_files(ctx):
    """VACE as GGUF, as fp8 with scales and as ComfyUI's file, each beside a plain file of the values that it stands for."""
    folder = ctx.folder / "footage-kinds"
    folder.mkdir()
    pipe = model_of(ctx, folder, True)
    run, given, args = run_of(ctx, folder, True)
    # Files are run as their own programs do it, unless somebody asks for diffusers' ways.
    args += ["--vae", folder / "model", "--text-encoder", folder / "model", "--grid", "diffusers", "--sinusoid", "diffusers"]
    state = {original_name(k): v.float().clone().contiguous() for k, v in pipe.transformer.state_dict().items()}
    own_names = {original_name(k): k for k in pipe.transformer.state_dict()}
    rng = np.random.default_rng(ctx.rng.randrange(2**32))
    kinds = {}

    def kind_of(name, w):
        return gguf.GGMLQuantizationType.Q8_0 if w.ndim == 2 and name.split(".")[0] not in _KEPT else None

    stored, meant = gguf_files.quantised(state, kind_of, rng)
    gguf_files.write(folder / "vace.gguf", "wan", stored)
    kinds["GGUF"] = folder / "vace.gguf", meant
    stored, meant = single_files.scaled(state, lambda name: name.split(".")[0] in _KEPT)
    save_file(stored, folder / "fp8.safetensors")
    kinds["fp8"] = folder / "fp8.safetensors", meant
    save_file({"model.diffusion_model." + k: v for k, v in state.items()}, folder / "comfy.safetensors")
    kinds["ComfyUI's"] = folder / "comfy.safetensors", state
    lora = folder / "lora.safetensors"
    save_file({k: v.contiguous() for k, v in all_pairs(ctx, pipe, True).items()}, lora)
    for name, (file, meant) in kinds.items():
        meant = {k: v.reshape(state[k].shape).float().contiguous() for k, v in meant.items()}
        save_file(meant, folder / "plain.safetensors")
        ours, plain = (latents(ctx, folder, args, "-m", f) for f in (file, folder / "plain.safetensors"))
        ctx.report(f"VACE as a file of {name}: values that differ from those of its plain file", float((ours != plain).sum()), 0.0)
        pipe.transformer.load_state_dict({own_names[k]: v for k, v in meant.items()})
        want = footage.pipeline(pipe, run, given)
        ctx.report(f"VACE as a file of {name}: latents", generation.relative(ours, want), 1e-5)
        with_lora = [latents(ctx, folder, args, "-m", f, "--lora", f"{lora}:0.5", "--lora-mode", "runtime") for f in (file, folder / "plain.safetensors")]
        ctx.report(f"VACE as a file of {name} with an adapter: values that differ", float((with_lora[0] != with_lora[1]).sum()), 0.0)
        ctx.report(f"VACE as a file of {name}: the adapter does something", float(generation.relative(with_lora[0], ours) < 1e-3), 0.5)


def compare(ctx):
    for vace in (True, False):
        compare_adapters(ctx, vace)
    compare_files(ctx)
