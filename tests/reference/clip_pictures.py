"""Makes the pictures that CLIP's vision model is given, by other libraries' code: transformers' CLIPImageProcessorPil, and the arithmetic of Wan
2.1's repository (wan/modules/clip.py) restated with torch. It also compares the vision model on fresh random weights and pictures."""

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import CLIPImageProcessorPil

import random_models as rm
from precision import float64

MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def random_picture(rng, width, height):
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([128 + 90 * np.sin((x + 2 * i * y) / (3.0 + 4 * rng.random())) for i in range(3)], -1)
    return Image.fromarray(np.clip(waves + rng.normal(0, 30, waves.shape), 0, 255).astype(np.uint8))


def processor(side, **options):
    return CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side}, **options)


def original_pixels(image, side):
    """Returns [3, side, side]: the picture in [-1, 1], resized by torch's bicubic without padding to a square, then normalised by CLIP's mean and
    deviation."""
    pixels = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).contiguous().float().div(255).sub_(0.5).div_(0.5)
    square = torch.nn.functional.interpolate(pixels[None], size=(side, side), mode="bicubic", align_corners=False)
    square = square.mul_(0.5).add_(0.5)[0]
    return square.sub_(torch.tensor(MEAN)[:, None, None]).div_(torch.tensor(DEVIATION)[:, None, None])


def original_names(tensors, config):
    """Returns a vision model's tensors with the names and shapes of the original checkpoint, and a part of its text tower."""
    tensors = {k.removeprefix("vision_model."): v for k, v in tensors.items()}
    embeddings, out = "embeddings.", {}
    out["visual.cls_embedding"] = tensors[embeddings + "class_embedding"][None, None]
    out["visual.pos_embedding"] = tensors[embeddings + "position_embedding.weight"][None]
    out["visual.patch_embedding.weight"] = tensors[embeddings + "patch_embedding.weight"]
    for kind in ("weight", "bias"):
        out[f"visual.pre_norm.{kind}"] = tensors[f"pre_layrnorm.{kind}"]
        out[f"visual.post_norm.{kind}"] = tensors[f"post_layernorm.{kind}"]
        for i in range(config.num_hidden_layers):
            layer, to = f"encoder.layers.{i}.", f"visual.transformer.{i}."
            out[f"{to}norm1.{kind}"], out[f"{to}norm2.{kind}"] = tensors[f"{layer}layer_norm1.{kind}"], tensors[f"{layer}layer_norm2.{kind}"]
            out[f"{to}attn.to_qkv.{kind}"] = torch.cat([tensors[f"{layer}self_attn.{n}_proj.{kind}"] for n in "qkv"])
            out[f"{to}attn.proj.{kind}"] = tensors[f"{layer}self_attn.out_proj.{kind}"]
            out[f"{to}mlp.0.{kind}"], out[f"{to}mlp.2.{kind}"] = tensors[f"{layer}mlp.fc1.{kind}"], tensors[f"{layer}mlp.fc2.{kind}"]
    out["visual.head"] = torch.randn(config.hidden_size, 8)
    out["log_scale"], out["textual.norm.weight"] = torch.ones(1), torch.randn(8)
    return {k: v.contiguous() for k, v in out.items()}


def compare_encoder(ctx, i, bound):
    heads = ctx.rng.choice([1, 3])
    patch = ctx.rng.choice([7, 14])
    model = rm.image_encoder(ctx.rng, projection=i % 2 == 1, hidden_size=heads * ctx.rng.choice([8, 80]), num_attention_heads=heads,
                             intermediate_size=ctx.rng.choice([40, 130]), num_hidden_layers=ctx.rng.choice([1, 2, 5]), patch_size=patch,
                             image_size=patch * ctx.rng.choice([1, 2, 4]))
    c, folder = model.config, ctx.folder / f"clip-{i}"
    if i % 3 == 2:
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(p.to(torch.bfloat16))
    model.save_pretrained(folder)
    pixels = torch.randn(ctx.rng.choice([1, 2]), 3, c.image_size, c.image_size)
    original = folder / "original"
    original.mkdir()
    tensors = load_file(folder / "model.safetensors")
    if i % 3 == 2:
        tensors = {k: v.to(torch.bfloat16) for k, v in tensors.items()}
    (original / "config.json").write_text((folder / "config.json").read_text())
    torch.save(original_names(tensors, c), original / "models_clip_tiny.pth")
    ours = [ctx.stage("image-encoder", where, {"pixel_values": pixels})["image_embeds"] for where in (folder, original / "models_clip_tiny.pth")]
    with torch.no_grad():
        r32 = model(pixels, output_hidden_states=True).hidden_states[-2]
        with float64():
            r64 = model.double()(pixels.double(), output_hidden_states=True).hidden_states[-2]
    label = f"image encoder {i}: {c.num_attention_heads}x{c.hidden_size // c.num_attention_heads}, {c.num_hidden_layers} layers, {len(pixels)} pictures"
    ctx.check(label, ours[0], r64, r32, bound)
    ctx.report(f"{label}: the original's names", float((ours[0] - ours[1]).abs().max()), 0.0)


def compare_pixels(ctx):
    wrong = {"processor": 0, "original": 0}
    out, rng = ctx.folder / "pixels.safetensors", np.random.default_rng(ctx.rng.randrange(2**32))
    model = rm.image_encoder(ctx.rng, hidden_size=8, num_attention_heads=1, num_hidden_layers=1, intermediate_size=8, patch_size=14, image_size=42)
    model.save_pretrained(ctx.folder / "clip-42" / "image_encoder")
    odd = processor(42, image_mean=[0.5, 0.4, 0.3], image_std=[0.2, 0.25, 0.3], rescale_factor=1 / 254)
    odd.save_pretrained(ctx.folder / "clip-42" / "image_processor")
    for i in range(30):
        image = random_picture(rng, ctx.rng.randint(1, 600), ctx.rng.randint(1, 600))
        if max(image.width / image.height, image.height / image.width) > 70:
            continue
        image.save(ctx.folder / "odd.png")
        for kind in wrong:
            own = ["--model", ctx.folder / "clip-42" / "image_encoder"] if kind == "processor" and i % 3 == 0 else []
            ctx.run("stage", "image-processor", "--image", ctx.folder / "odd.png", "--clip-preparation", kind, "--out", out, *own)
            prepare = odd if own else processor(224)
            want = prepare(images=image, return_tensors="pt")["pixel_values"][0] if kind == "processor" else original_pixels(image, 224)
            if not torch.equal(load_file(out)["pixel_values"][0], want):
                wrong[kind] += 1
                print("    differs:", image.size, kind, "own config" if own else "")
    for kind, count in wrong.items():
        ctx.report(f"CLIP's pixels of 30 pictures, {kind}: wrong", float(count), 0.0)


def compare(ctx, draws, bound):
    for i in range(draws):
        compare_encoder(ctx, i, bound)
    compare_pixels(ctx)
