"""Compares `tachyscope convert` with other libraries: diffusers and transformers load the folders it writes and find the source's weights, bit for
bit; the gguf package reads its GGUF files, whose blocks are those of its own quantiser; its 8-bit weights are torch's. The shipped model makes the
same frames from all lossless forms."""

import json

import gguf
import numpy as np
import torch
from diffusers import AutoencoderKLWan, DiffusionPipeline, WanTransformer3DModel
from gguf import GGMLQuantizationType as T
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import UMT5EncoderModel

import layouts
import random_models as rm
import single_files

_PREFIX = "model.diffusion_model."
_KEPT = ("patch_embedding", "text_embedding", "time_embedding", "time_projection", "img_emb", "head")


def differing(got, want):
    """Returns the tensors of `want` that `got` lacks or that differ in any bit."""
    wrong = [k for k in want if k not in got or got[k].dtype != want[k].dtype or not torch.equal(got[k], want[k])]
    return float(len(wrong) + len(got.keys() - want.keys()))


def list_of(value):
    return list(value) if isinstance(value, tuple) else value


def is_block_matrix(name, w):
    return name.startswith("blocks.") and name.endswith(".weight") and w.ndim == 2


def compare_folders(ctx, variant):
    """Converts random models in the original layout to folders that diffusers loads."""
    dit = rm.transformer(ctx.rng, variant, attention_head_dim=128, num_attention_heads=2, in_channels=36 if variant == "i2v" else 16,
                         out_channels=16, text_dim=32, **({"image_dim": 1280, "added_kv_proj_dim": 256} if variant == "i2v" else {}))
    t5, vae = rm.text_encoder(ctx.rng, d_model=32), rm.vae(ctx.rng, base_dim=12, z_dim=16, latents_mean=[0.0] * 16,
                                                           latents_std=[1.0] * 16, num_res_blocks=2)
    source, out = ctx.folder / f"convert-original-{variant}", ctx.folder / f"convert-{variant}"
    layouts.save_original(source, dit, t5, vae)
    if variant == "i2v":
        layouts.save_original_transformer(source, dit, "i2v")
    ctx.run("convert", source, out, "--to", "diffusers", "--max-shard-size", f"{ctx.rng.choice([20, 200, 1000])}KB")
    made = WanTransformer3DModel.from_pretrained(out / "transformer")
    ctx.report(f"convert: diffusers' transformer {variant}: tensors that differ", differing(made.state_dict(), dit.state_dict()), 0.0)
    keys = [k for k in dit.config if not k.startswith("_") and list_of(made.config[k]) != list_of(dit.config[k])]
    ctx.report(f"convert: options of the transformer {variant} that differ {keys or ''}", float(len(keys)), 0.0)
    made = AutoencoderKLWan.from_pretrained(out / "vae")
    ctx.report(f"convert: diffusers' VAE {variant}: tensors that differ", differing(made.state_dict(), vae.state_dict()), 0.0)
    made = UMT5EncoderModel.from_pretrained(out / "text_encoder", dtype=torch.float32)
    ctx.report(f"convert: transformers' text encoder {variant}: tensors that differ", differing(made.state_dict(), t5.state_dict()), 0.0)


def compare_gguf(ctx, dit):
    """Compares types, shapes and bytes of random bf16 or f32 weights as GGUF."""
    for name in ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "BF16", "F16"):
        kind, dtype = T[name], ctx.rng.choice([torch.bfloat16, torch.float32])
        state = {layouts._rename(k, layouts._DIT): v.to(dtype) for k, v in dit.items()}
        source, out = ctx.folder / "convert-source.safetensors", ctx.folder / f"convert-{name}.gguf"
        save_file({_PREFIX + k: v.contiguous() for k, v in state.items()}, source)
        ctx.run("convert", source, out, "--to", f"gguf:{name}")
        reader = gguf.GGUFReader(out)
        read, wrong = {t.name: t for t in reader.tensors}, []
        for key, w in state.items():
            plain = w.ndim == 1 or w.numel() <= 1024 or w.ndim > 4 or "modulation" in key
            kept = T.BF16 if dtype == torch.bfloat16 else T.F16
            want = T.F32 if plain else kept if kind in (T.Q8_0, T.Q5_1, T.Q5_0, T.Q4_1, T.Q4_0) and key.split(".")[0] in _KEPT else kind
            tensor = read.pop(key, None)
            values = w.float().numpy()
            shape = list(values.shape) if w.ndim <= 4 else [values.shape[0] * values.shape[1], *values.shape[2:]]
            bytes_ = gguf.quants.quantize(values, want).tobytes()
            if tensor is None or tensor.tensor_type != want or list(tensor.shape)[::-1] != shape or tensor.data.tobytes() != bytes_:
                wrong.append(key)
            elif w.ndim > 4:
                noted = reader.get_field(f"comfy.gguf.orig_shape.{key}")
                if noted.contents() != list(values.shape):
                    wrong.append(f"shape of {key}")
            elif not np.array_equal(gguf.dequantize(tensor.data, want).reshape(values.shape),
                                    gguf.dequantize(gguf.quants.quantize(values, want), want)):
                wrong.append(f"values of {key}")
        if reader.get_field("general.architecture").contents() != "wan":
            wrong.append("architecture")
        ctx.report(f"convert: gguf {name} of {str(dtype)[6:]}: tensors that differ {wrong[:2] or ''}", float(len(wrong) + len(read)), 0.0)


def compare_eight_bits(ctx, dit):
    state = {layouts._rename(k, layouts._DIT): v.to(torch.bfloat16).contiguous() for k, v in dit.items()}
    source = ctx.folder / "convert-source.safetensors"
    save_file(state, source)
    for form in ("single", "fp8", "int8"):
        out, want = ctx.folder / f"convert-{form}.safetensors", {}
        ctx.run("convert", source, out, "--to", form)
        for key, w in state.items():
            name = key if form == "int8" else _PREFIX + key
            if form == "single" or not is_block_matrix(key, w):
                want[name] = w
            elif form == "fp8":
                scale = w.float().abs().max() / 448
                want[name] = (w.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
                want[name.removesuffix("weight") + "scale_weight"] = scale
            else:
                scale = w.float().abs().amax(1, keepdim=True).clamp(min=1e-5) / 127
                want[name] = (w.float() / scale).round().clamp(-128, 127).to(torch.int8)
                want[name + "_scale"] = scale
        if form == "fp8":
            want[_PREFIX + "scaled_fp8"] = torch.zeros(2, dtype=torch.float8_e4m3fn)
        as_bytes = [{k: v.reshape(-1).view(torch.uint8) if v.element_size() == 1 else v for k, v in t.items()}
                    for t in (load_file(out), want)]
        shapes = {k: v.shape for k, v in load_file(out).items()} == {k: v.shape for k, v in want.items()}
        ctx.report(f"convert: {form}: tensors that differ from torch's", differing(*as_bytes) + (not shapes), 0.0)
        with safe_open(out, "pt") as file:
            about = file.metadata()
        ctx.report(f"convert: {form}: the header has the config", 0.0 if json.loads(about["config"])["num_layers"] else 1.0, 0.0)


def compare_experts(ctx):
    """Converts two transformers to a folder with both, and to a file of the one that is named."""
    same = dict(attention_head_dim=128, num_attention_heads=1, in_channels=16, out_channels=16, text_dim=32, ffn_dim=64, num_layers=1)
    high, low = (rm.transformer(ctx.rng, **same) for _ in range(2))
    vae = rm.vae(ctx.rng, base_dim=12, z_dim=16, latents_mean=[0.0] * 16, latents_std=[1.0] * 16, num_res_blocks=2)
    source, out = ctx.folder / "convert-experts", ctx.folder / "convert-experts-diffusers"
    layouts.save_original(source, high, rm.text_encoder(ctx.rng, d_model=32), vae)
    for file in ("config.json", "diffusion_pytorch_model.safetensors"):
        (source / file).unlink()
    for name, dit in (("high_noise_model", high), ("low_noise_model", low)):
        layouts.save_original_transformer(source / name, dit)
    ctx.run("convert", source, out, "--to", "diffusers")
    for name, dit in (("transformer", high), ("transformer_2", low)):
        made = WanTransformer3DModel.from_pretrained(out / name).state_dict()
        ctx.report(f"convert: {name} of two experts: tensors that differ", differing(made, dit.state_dict()), 0.0)
        file = ctx.folder / "convert-expert.safetensors"
        ctx.run("convert", source, file, "--to", "single", "--part", name, "--overwrite")
        want = {_PREFIX + layouts._rename(k, layouts._DIT): v for k, v in dit.state_dict().items()}
        ctx.report(f"convert: the file of {name}: tensors that differ", differing(load_file(file), want), 0.0)
    index = json.loads((out / "model_index.json").read_text())
    ctx.report("convert: model_index.json has the boundary", abs(index["boundary_ratio"] - 0.875), 0.0)


def compare_comfy(ctx, model):
    """Converts ComfyUI's folders, whose files contain the tokenizer and the VAE's statistics, to a pipeline."""
    dit, t5, vae = (load_file(next((model / part).glob("*.safetensors"))) for part in ("transformer", "text_encoder", "vae"))
    comfy, out = ctx.folder / "convert-comfy/models", ctx.folder / "convert-comfy-diffusers"
    for folder in ("diffusion_models", "text_encoders", "vae"):
        (comfy / folder).mkdir(parents=True)
    stored, meant = single_files.scaled(t5, lambda name: "relative_attention_bias" in name)
    save_file(single_files.dit_names(dit), comfy / "diffusion_models/dit.safetensors")
    save_file(stored | {"spiece_model": single_files.carried_tokenizer(model)}, comfy / "text_encoders/t5.safetensors")
    save_file(single_files.vae_names(vae), comfy / "vae/vae.safetensors", {"config": (model / "vae/config.json").read_text()})
    ctx.run("convert", comfy / "diffusion_models/dit.safetensors", out, "--to", "diffusers")
    kept = {k: v.to(t5[k].dtype) for k, v in meant.items()}  # a folder has bfloat16 where weights were quantised
    for part, want in (("transformer", dit), ("text_encoder", kept), ("vae", vae)):
        ctx.report(f"convert: ComfyUI's {part}: tensors that differ",
                   differing(load_file(next((out / part).glob("*.safetensors"))), want), 0.0)
    pipe = DiffusionPipeline.from_pretrained(out)
    ids = DiffusionPipeline.from_pretrained(model).tokenizer("a red circle moves right").input_ids
    ctx.report("convert: ComfyUI's tokenizer: ids", 0.0 if pipe.tokenizer("a red circle moves right").input_ids == ids else 1.0, 0.0)
    mean = json.loads((model / "vae/config.json").read_text())["latents_mean"]
    ctx.report("convert: ComfyUI's VAE has its statistics", 0.0 if list(pipe.vae.config.latents_mean) == mean else 1.0, 0.0)


def compare_shipped(ctx, model):
    folder = ctx.folder / "convert-sprites"
    ctx.run("convert", model, folder, "--to", "diffusers", "--max-shard-size", "7MB")
    for part, load in (("transformer", WanTransformer3DModel), ("vae", AutoencoderKLWan), ("text_encoder", UMT5EncoderModel)):
        states = [load.from_pretrained(path / part).state_dict() for path in (folder, model)]
        ctx.report(f"convert: the shipped model's {part} in diffusers: tensors that differ", differing(*states), 0.0)
    pipe = DiffusionPipeline.from_pretrained(folder)
    ctx.report("convert: DiffusionPipeline opens the folder", 0.0 if pipe.transformer.config.num_layers == 6 else 1.0, 0.0)

    args = ["--sinusoid", "original", "--grid", "original", "-n", "blurred"]

    def frames(name, source, *more):
        out = ctx.folder / f"convert-frames-{name}"
        ctx.run("generate", *single_files._RUN, *args, "-m", source, *more, "-o", f"{out}/")
        return single_files.pixels([p.read_bytes() for p in sorted(out.glob("*.png"))])

    want = frames("source", model)
    ctx.report("convert: frames of the diffusers folder are the source's", 0.0 if frames("folder", folder) == want else 1.0, 0.5)
    parts = ["--vae", model, "--text-encoder", model]
    for form, ending, exact in (("single", "safetensors", True), ("gguf:BF16", "gguf", True), ("fp8", "safetensors", False),
                                ("int8", "safetensors", False), ("gguf:Q8_0", "gguf", False), ("gguf:Q4_0", "gguf", False)):
        file = ctx.folder / f"convert-sprites-{form.replace(':', '-')}.{ending}"
        ctx.run("convert", model, file, "--to", form)
        got = frames(form.replace(":", "-"), file, *parts)
        what = "are" if exact else "are not"
        ctx.report(f"convert: frames of {form} {what} the source's", 0.0 if len(got) == 5 and (got == want) == exact else 1.0, 0.5)
        if not exact:  # the folder has dequantised bfloat16 weights, which in bfloat16 give the same as the file
            back = ctx.folder / f"convert-back-{form.replace(':', '-')}"
            ctx.run("convert", file, back, "--to", "diffusers", *parts, "--tokenizer", model / "tokenizer")
            low, name = ["--dtype", "bf16"], form.replace(":", "-")
            same = frames(f"back-{name}", back, *low) == frames(f"low-{name}", file, *parts, *low)
            ctx.report(f"convert: frames of {form} in bfloat16 are those of the folder made of it", 0.0 if same else 1.0, 0.5)


def compare(ctx):
    for variant in ("t2v", "i2v"):
        compare_folders(ctx, variant)
    dit = rm.transformer(ctx.rng, attention_head_dim=128, num_attention_heads=1, in_channels=16, out_channels=16, text_dim=64,
                         ffn_dim=ctx.rng.choice([96, 160]), num_layers=2)
    state = dict(dit.state_dict())
    compare_gguf(ctx, state)
    compare_eight_bits(ctx, state)
    compare_experts(ctx)
    model = ctx.repo / "models/sprites"
    if (model / "model_index.json").exists():
        compare_comfy(ctx, model)
        compare_shipped(ctx, model)
    else:
        print("left out: the shipped model is not here")
