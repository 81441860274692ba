"""Compares image-to-video on fresh random models and pictures against diffusers' WanImageToVideoPipeline; pictures of odd sizes
against its VideoProcessor, bit for bit."""

import numpy as np
import torch
from diffusers import WanImageToVideoPipeline
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

import clip_pictures
import generation
import random_models as rm

VARIANTS = ("ti2v", "i2v", "flf2v", "i2v22", "i2v22_last", "i2v_clip", "flf2v_clip")


def picture(ctx, width, height):
    rng = np.random.default_rng(ctx.rng.randrange(2**32))
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([128 + 90 * np.sin((x + 2 * i * y) / (3.0 + 4 * rng.random())) for i in range(3)], -1)
    return Image.fromarray(np.clip(waves + rng.normal(0, 30, waves.shape), 0, 255).astype(np.uint8))


def pipeline(ctx, variant, folder):
    z = ctx.rng.choice([4, 6])
    if variant == "ti2v":
        vae = rm.vae(ctx.rng, base_dim=8, decoder_base_dim=ctx.rng.choice([8, 12]), z_dim=z, num_res_blocks=1, is_residual=True, in_channels=12,
                     out_channels=12, patch_size=2, scale_factor_spatial=16)
        dit = rm.transformer(ctx.rng, in_channels=z, out_channels=z, text_dim=24)
    else:
        vae = rm.vae(ctx.rng, base_dim=8, z_dim=z, num_res_blocks=1)
        heads, dim = ctx.rng.choice([1, 2]), ctx.rng.choice([12, 32])
        options = dict(in_channels=2 * z + 4, out_channels=z, text_dim=24, num_attention_heads=heads, attention_head_dim=dim)
        if variant.startswith(("i2v_clip", "flf2v")) or variant == "i2v":
            options.update(image_dim=24, added_kv_proj_dim=heads * dim)
        if variant.startswith("flf2v"):
            options.update(pos_embed_seq_len=34 if variant == "flf2v_clip" else 18)
        dit = rm.transformer(ctx.rng, **options)
    rm.tiny_tokenizer(folder / "tokenizer-source")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer-source")
    pipe = WanImageToVideoPipeline(tokenizer=tokenizer, text_encoder=rm.text_encoder(ctx.rng, d_model=24, vocab_size=64), vae=vae,
                                   scheduler=generation.scheduler("unipc", 3.0), transformer=dit, expand_timesteps=variant == "ti2v")
    if variant.endswith("_clip"):  # each picture has 17 rows
        side, heads = ctx.rng.choice([28, 56]), ctx.rng.choice([1, 2, 3])
        pipe.register_modules(image_encoder=rm.image_encoder(ctx.rng, hidden_size=24, intermediate_size=50, num_attention_heads=heads,
                                                             num_hidden_layers=ctx.rng.choice([2, 4]), image_size=side, patch_size=side // 4),
                              image_processor=clip_pictures.processor(side))
    pipe.set_progress_bar_config(disable=True)
    pipe.save_pretrained(folder / "model")
    return pipe


def compare(ctx):
    for i, variant in enumerate(VARIANTS):
        folder = ctx.folder / f"image-{variant}"
        folder.mkdir()
        pipe = pipeline(ctx, variant, folder)
        multiple = 32 if variant == "ti2v" else 16
        width, height = multiple * ctx.rng.randint(2, 3), multiple * ctx.rng.randint(2, 3)
        shape = ctx.rng.randint(5, 211), ctx.rng.randint(5, 211)
        first, last = picture(ctx, *shape), picture(ctx, ctx.rng.randint(5, 99), ctx.rng.randint(5, 99))
        first.save(folder / "first.png")
        last.save(folder / "last.png")
        fit, sampler = ctx.rng.choice(["stretch", "crop"]), generation.SAMPLERS[i % 3]
        two, seed = variant in ("flf2v", "flf2v_clip", "i2v22_last"), ctx.rng.randrange(2**31)
        embeds = None
        if variant in ("i2v", "flf2v"):
            embeds = torch.randn(2 if two else 1, 9, 24)
            save_file({"image_embeds": embeds}, folder / "embeds.safetensors")
        pipe.scheduler = generation.scheduler(sampler, 3.0)
        if not variant.endswith("_clip"):
            pipe.encode_image = lambda *_, e=embeds: e  # the vision model's results are given
        plain = type(pipe.video_processor)(vae_scale_factor=pipe.vae_scale_factor_spatial)
        mode = "crop" if fit == "crop" else "default"
        pipe.video_processor.preprocess = lambda *a, p=plain, m=mode, **k: p.preprocess(*a, **k, resize_mode=m)
        call = dict(image=first, prompt="the red cat moves", negative_prompt="ugly", height=height, width=width, num_frames=9, num_inference_steps=10,
                    guidance_scale=4.0, last_image=last if two else None)
        with torch.no_grad():
            want = pipe(**call, generator=torch.Generator().manual_seed(seed), output_type="latent").frames[0]
            pixels = pipe(**call, generator=torch.Generator().manual_seed(seed), output_type="np").frames[0]
        args = ["generate", "the red cat moves", "-n", "ugly", "--model", folder / "model", "--size", f"{width}x{height}", "--frames", 9, "--steps", 10,
                "--guidance", 4, "--shift", 3, "--seed", seed, "--sampler", sampler, "--image", folder / "first.png", "--image-fit", fit,
                "--save-latents", folder / "out.safetensors", "-q", "-o", f"{folder}/frames/"]
        if two:
            args += ["--last-image", folder / "last.png"]
        if embeds is not None:
            args += ["--image-embeds", folder / "embeds.safetensors"]
        ctx.run(*args)
        label = f"{variant}, {sampler}, picture {shape[0]}x{shape[1]} {fit} to {width}x{height}"
        ctx.report(f"{label}: latents", generation.relative(load_file(folder / "out.safetensors")["latents"], want), 1e-5)
        ours = np.stack([np.asarray(Image.open(f)).astype(np.int16) for f in sorted((folder / "frames").glob("*.png"))])
        ctx.report(f"{label}: levels apart", float(np.abs(ours - (pixels * 255).round().astype(np.int16)).max()), 1.0)
    compare_resize(ctx)


def compare_resize(ctx):
    from diffusers.video_processor import VideoProcessor
    processor, out = VideoProcessor(vae_scale_factor=8), ctx.folder / "fitted.safetensors"
    for fit, mode in (("stretch", "default"), ("crop", "crop")):
        wrong = 0
        for _ in range(30):
            image = picture(ctx, ctx.rng.randint(1, 300), ctx.rng.randint(1, 300))
            width, height = ctx.rng.randint(1, 300), ctx.rng.randint(1, 300)
            if fit == "crop" and max(image.width / image.height, image.height / image.width) > 20:
                continue
            image.save(ctx.folder / "odd.png")
            ctx.run("stage", "fit-image", "--image", ctx.folder / "odd.png", "--image-fit", fit, "--shape", f"{height},{width}", "--out", out)
            want = np.asarray(processor.resize(image, height, width, resize_mode=mode))
            if not np.array_equal(load_file(out)["image"].numpy(), want):
                wrong += 1
                print("    differs:", image.size, "to", (width, height), fit)
        ctx.report(f"resize, {fit}, 30 pictures of odd sizes: wrong", float(wrong), 0.0)
