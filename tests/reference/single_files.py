"""Makes files in ComfyUI's form from the shipped model: one file for each part, original names under model.diffusion_model.,
spiece.model inside the text encoder's file, fp8 with scales. The frames must be those of the folder, and of a folder
whose weights torch has dequantised, byte for byte."""

import json
import shutil

import torch
from safetensors.torch import load_file, save_file

import layouts

_RUN = ["-p", "a red circle moves right", "--size", "64x32", "-f", "5", "--steps", "2", "--seed", "3", "--guidance", "3",
        "--shift", "3", "--sampler", "unipc", "-q"]
_PREFIX = "model.diffusion_model."


def dit_names(tensors):
    return {_PREFIX + layouts._rename(k, layouts._DIT): v for k, v in tensors.items()}


def vae_names(tensors):
    return {layouts._vae_name(k, 3): v for k, v in tensors.items()}


def carried_tokenizer(model):
    return torch.frombuffer(bytearray((model / "tokenizer/spiece.model").read_bytes()), dtype=torch.uint8)


def scaled(tensors, keep):
    """Converts every matrix except those that `keep` names to fp8_scaled. Returns the file's tensors, and their values in float32."""
    stored, meant = {}, {}
    for name, w in tensors.items():
        if w.ndim != 2 or not name.endswith(".weight") or keep(name):
            stored[name] = meant[name] = w
            continue
        scale = w.float().abs().max() / 448
        q = (w.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        stored[name], stored[name[:-len("weight")] + "scale_weight"] = q, scale.reshape(1)
        stored[name[:-len("weight")] + "scale_input"] = torch.ones(1)
        meant[name] = q.float() * scale
    stored["scaled_fp8"] = torch.zeros(2, dtype=torch.float8_e4m3fn)
    return stored, meant


def compare(ctx):
    model = ctx.repo / "models/sprites"
    if not (model / "model_index.json").exists():
        print("left out: the shipped model is not here")
        return
    dit, t5, vae = (load_file(next((model / part).glob("*.safetensors"))) for part in ("transformer", "text_encoder", "vae"))
    comfy = ctx.folder / "comfy/models"
    for folder in ("diffusion_models", "text_encoders", "vae"):
        (comfy / folder).mkdir(parents=True)
    # Width and heads follow from the shapes; the VAE has its own statistics, in the header.
    files = {"dit": comfy / "diffusion_models/sprites.safetensors", "t5": comfy / "text_encoders/umt5_sprites.safetensors",
             "vae": comfy / "vae/sprites_vae.safetensors"}
    save_file(dit_names(dit), files["dit"])
    save_file(t5 | {"spiece_model": carried_tokenizer(model)}, files["t5"])
    save_file(vae_names(vae), files["vae"], {"config": (model / "vae/config.json").read_text()})

    def frames(name, *args):
        out = ctx.folder / name
        ctx.run("generate", *_RUN, *args, "-o", f"{out}/")
        return [p.read_bytes() for p in sorted(out.glob("*.png"))]

    def same(what, a, b):
        ctx.report(what, 0.0 if a and len(a) == 5 and [len(x) for x in a] and pixels(a) == pixels(b) else 1.0, 0.5)

    # Single files with original names get the original repository's defaults, so the folder is asked to compute with those, too.
    as_original = ["--sinusoid", "original", "--grid", "original", "-n", "blurred"]
    folder = frames("folder", "-m", model, *as_original)
    same("single files that are named: the folder's frames",
         frames("named", "-m", files["dit"], "--vae", files["vae"], "--text-encoder", files["t5"], *as_original), folder)
    same("single files found in ComfyUI's folders", frames("found", "--diffusion-model", files["dit"], *as_original), folder)
    told = json.loads(ctx.run("info", files["dit"], "--json"))
    config = json.loads((model / "transformer/config.json").read_text())
    want = {"layers": str(config["num_layers"]), "heads": f"{config['num_attention_heads']} of {config['attention_head_dim']}",
            "feed-forward": str(config["ffn_dim"]), "text width": str(config["text_dim"])}
    found = next(c for c in told["components"] if c["name"] == "transformer")["options"]
    ctx.report("info infers the transformer's config", 0.0 if want.items() <= found.items() and not told["missing"] else 1.0, 0.5)
    # These runs replace the parts of the folder one at a time.
    same("a folder with another file for its VAE", frames("vae", "-m", model, "--vae", files["vae"], *as_original), folder)
    again = ctx.folder / "again"
    settings = ctx.folder / "named/settings.json"
    ctx.run("generate", "--from", settings, "-o", f"{again}/", "-q")
    same("--from opens the same files again", [p.read_bytes() for p in sorted(again.glob("*.png"))], folder)
    compare_quantized(ctx, model, dit, t5, same, frames, as_original, files["vae"])


def compare_quantized(ctx, model, dit, t5, same, frames, args, vae):
    """Compares fp8_scaled files with a folder whose weights torch has dequantised."""
    stored_dit, meant_dit = scaled(dit_names(dit), lambda name: "embedding" in name or "head." in name)
    stored_t5, meant_t5 = scaled(t5, lambda name: "relative_attention_bias" in name)
    parts = {"dit": ctx.folder / "fp8/dit.safetensors", "t5": ctx.folder / "fp8/t5.safetensors"}
    (ctx.folder / "fp8").mkdir()
    save_file(stored_dit, parts["dit"])
    save_file(stored_t5 | {"spiece_model": carried_tokenizer(model)}, parts["t5"])
    folder = ctx.folder / "dequantised"
    shutil.copytree(model, folder)
    back = {layouts._rename(k, layouts._DIT): k for k in dit}
    save_file({back[k[len(_PREFIX):]]: v for k, v in meant_dit.items()}, next((folder / "transformer").glob("*.safetensors")))
    save_file(meant_t5, next((folder / "text_encoder").glob("*.safetensors")))
    want = frames("dequantised-frames", "-m", folder, *args)
    named = ["-m", parts["dit"], "--vae", vae, "--text-encoder", parts["t5"], *args]
    same("fp8_scaled files: those of the dequantised folder", frames("fp8-frames", *named), want)
    same("the same with weights that are not packed", frames("fp8-mapped", *named, "--weights", "mapped"), want)
    plain = frames("unscaled", "-m", model, *args)
    ctx.report("the scales matter", 1.0 if pixels(plain) == pixels(want) else 0.0, 0.5)


def pixels(frames):
    """Returns the pictures without the settings stored in each."""
    import io

    from PIL import Image

    return [Image.open(io.BytesIO(f)).convert("RGB").tobytes() for f in frames]
