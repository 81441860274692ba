"""Compares models of two experts (like Wan2.2 A14B) on fresh random weights: text- and image-to-video, also to a last picture, in
diffusers' layout against its pipelines, and the same weights in the original's layout against its grid and solvers."""

import inspect

import torch
from diffusers import AutoencoderKLWan, WanImageToVideoPipeline, WanPipeline
from diffusers.models import embeddings
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

import generation
import images
import layouts
import random_models as rm

BOUNDARY = {"t2v": 0.875, "i2v": 0.9}
COMMON = dict(prompt="the red cat moves", negative_prompt="ugly", num_frames=5)


def pipeline(ctx, variant, folder):
    size = dict(num_attention_heads=ctx.rng.choice([1, 2]), attention_head_dim=ctx.rng.choice([12, 32]), text_dim=24,
                in_channels=36 if variant == "i2v" else 16, out_channels=16, num_layers=ctx.rng.choice([1, 2]),
                ffn_dim=ctx.rng.choice([48, 130]))
    rm.tiny_tokenizer(folder / "tokenizer-source")
    make = WanPipeline if variant == "t2v" else WanImageToVideoPipeline
    published = inspect.signature(AutoencoderKLWan.__init__).parameters  # the original layout allows no other statistics
    statistics = {k: list(published[k].default) for k in ("latents_mean", "latents_std")}
    pipe = make(tokenizer=PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer-source"),
                text_encoder=rm.text_encoder(ctx.rng, d_model=24, vocab_size=64), vae=rm.vae(ctx.rng, base_dim=8, z_dim=16, num_res_blocks=2, **statistics),
                scheduler=generation.scheduler("unipc", 3.0), transformer=rm.transformer(ctx.rng, **size),
                transformer_2=rm.transformer(ctx.rng, **size), boundary_ratio=BOUNDARY[variant])
    pipe.set_progress_bar_config(disable=True)
    pipe.save_pretrained(folder / "model")
    return pipe


def save_original(pipe, variant, folder):
    layouts.save_original(folder, pipe.transformer, pipe.text_encoder, pipe.vae)
    for name in ("config.json", "diffusion_pytorch_model.safetensors"):
        (folder / name).unlink()
    for name, dit in (("high_noise_model", pipe.transformer), ("low_noise_model", pipe.transformer_2)):
        layouts.save_original_transformer(folder / name, dit, variant)


def original_latents(pipe, variant, sampler, steps, shift, scales, seed, condition):
    shape = (1, 16, 2, *condition.shape[-2:])
    start = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()
    texts = pipe.encode_prompt(COMMON["prompt"], COMMON["negative_prompt"], True, max_sequence_length=512, device="cpu", dtype=torch.float32)
    sigma, timesteps = generation.original_grid(sampler, steps, shift)

    def velocity(i, x):
        high = timesteps[i] >= BOUNDARY[variant] * 1000
        dit, scale = (pipe.transformer, scales[0]) if high else (pipe.transformer_2, scales[1])
        seen = torch.cat([x.float(), condition], 1) if variant == "i2v" else x.float()
        c, u = (dit(seen, torch.tensor([timesteps[i]], dtype=torch.float64), e).sample for e in texts)
        return (u + scale * (c - u)).double()

    sinusoid, embeddings.get_timestep_embedding = embeddings.get_timestep_embedding, layouts.sinusoid64
    try:
        return generation.original_steps(sampler, start, sigma, velocity)[0]
    finally:
        embeddings.get_timestep_embedding = sinusoid


def compare(ctx):
    for variant, last in (("t2v", False), ("i2v", False), ("i2v", True)):
        folder = ctx.folder / f"experts-{variant}{'-last' if last else ''}"
        folder.mkdir()
        pipe = pipeline(ctx, variant, folder)
        width, height, steps = 16 * ctx.rng.randint(2, 3), 16 * ctx.rng.randint(2, 3), ctx.rng.randint(8, 14)
        sampler, shift, seed = ctx.rng.choice(generation.SAMPLERS), ctx.rng.choice([3.0, 5.0]), ctx.rng.randrange(2**31)
        scales = round(ctx.rng.uniform(2, 5), 2), round(ctx.rng.uniform(1.5, 5), 2)
        out = folder / "out.safetensors"
        args = ["generate", COMMON["prompt"], "-n", COMMON["negative_prompt"], "--size", f"{width}x{height}", "--frames", 5, "--steps", steps,
                "--guidance", scales[0], "--guidance-2", scales[1], "--shift", shift, "--seed", seed, "--sampler", sampler,
                "--save-latents", out, "-q", "-o", f"{folder}/frames/"]
        pipe.scheduler, call = generation.scheduler(sampler, shift), dict(COMMON, width=width, height=height, num_inference_steps=steps)
        condition = torch.zeros(1, 20, 2, height // 8, width // 8)
        if variant == "i2v":
            picture = images.picture(ctx, ctx.rng.randint(20, 99), ctx.rng.randint(20, 99))
            picture.save(folder / "first.png")
            args += ["--image", folder / "first.png"]
            call["image"] = picture
            ending = None
            if last:
                end = images.picture(ctx, ctx.rng.randint(20, 99), ctx.rng.randint(20, 99))
                end.save(folder / "last.png")
                args += ["--last-image", folder / "last.png"]
                call["last_image"] = end
                ending = pipe.video_processor.preprocess(end, height=height, width=width).float()
            with torch.no_grad():
                pixels = pipe.video_processor.preprocess(picture, height=height, width=width).float()
                condition = pipe.prepare_latents(pixels, 1, 16, height, width, 5, torch.float32, "cpu", None,
                                                 torch.zeros(1, 16, 2, height // 8, width // 8), ending)[1]
        with torch.no_grad():
            want = pipe(**call, guidance_scale=scales[0], guidance_scale_2=scales[1], generator=torch.Generator().manual_seed(seed),
                        output_type="latent").frames[0]
        ctx.run(*args, "--model", folder / "model")
        label = f"two experts, {variant}{' to a last picture' if last else ''}, {steps} steps of {sampler}, shift {shift:g}, guidance {scales[0]:g} and {scales[1]:g}"
        ctx.report(label, generation.relative(load_file(out)["latents"], want), 1e-5)
        save_original(pipe, variant, folder / "original")
        with torch.no_grad():
            want = original_latents(pipe, variant, sampler, steps, shift, scales, seed, condition)
        ctx.run(*args, "--model", folder / "original")
        ctx.report(f"{label}, original layout", generation.relative(load_file(out)["latents"], want), 1e-5)
