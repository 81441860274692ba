"""Makes tiny complete image-to-video models, and diffusers' results with them from a picture.

    python tests/golden/image_pipeline/make.py    (torch 2.11.0, diffusers 0.42.1, transformers 5.23.0, Pillow 13.0, safetensors; seed 23)

    first.png, last.png       pictures of odd sizes and another shape than the video's
    embeds.safetensors        image_embeds [1, 7, 12]; embeds_pair.safetensors [2, 7, 12], as encode_image gives them
    <case>/                   WanImageToVideoPipeline.save_pretrained, random weights in bf16 files; the cases:
        ti2v     expand_timesteps: the picture is the first latent frame (Wan2.2-TI2V-5B), residual VAE of patch 2
        i2v      mask and encoded video in channels, image branch (Wan2.1-I2V-14B)
        flf2v    the same with two pictures (Wan2.1-FLF2V-14B)
        i2v22    channels, no image branch (one expert of Wan2.2-I2V-A14B), with and without a last picture
        flf2v_clip   as flf2v, with CLIP's vision model and its processor: the runs on it, and i2v_clip, which lends
                     i2v its vision model, are made from the pictures alone
    runs.json                 per run: case, sampler, prompt, size, seed …
    golden.safetensors        <run>.condition, <run>.latents [z, T, h, w], of some <run>.frames [T, H, W, 3] u8: diffusers' own
                              prepare_latents and schedulers, everything in float64 but the noise. The pipeline's own
                              float32 run is asserted to agree. <run>.embeds: what its encode_image makes in float64.
"""

import json
import pathlib
import random
import shutil
import sys

import numpy as np
import torch
from diffusers import WanImageToVideoPipeline
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import generation  # noqa: E402
import random_models as rm  # noqa: E402
from clip_pictures import processor  # noqa: E402
from precision import float64  # noqa: E402

torch.set_num_threads(1)
TOKENS = 5  # tokens of a picture in CLIP's vision model
COMMON = dict(prompt="the red cat moves, a bee sings", negative_prompt="ugly", num_frames=9, guidance_scale=4.0, flow_shift=3.0)
RUNS = {
    "ti2v_unipc": dict(case="ti2v", sampler="unipc", width=96, height=64, num_inference_steps=12, seed=7),
    "ti2v_euler": dict(case="ti2v", sampler="euler", width=64, height=96, num_inference_steps=8, seed=8),
    "ti2v_crop": dict(case="ti2v", sampler="dpm++", width=96, height=64, num_inference_steps=8, seed=9, fit="crop"),
    "i2v_unipc": dict(case="i2v", sampler="unipc", width=48, height=32, num_inference_steps=12, seed=10),
    "flf2v_euler": dict(case="flf2v", sampler="euler", width=32, height=48, num_inference_steps=8, seed=11, last=True),
    "i2v22_unipc": dict(case="i2v22", sampler="unipc", width=48, height=32, num_inference_steps=8, seed=12),
    "i2v_clip": dict(case="i2v", sampler="unipc", width=48, height=32, num_inference_steps=6, seed=14, clip=True),
    "flf2v_clip": dict(case="flf2v_clip", sampler="euler", width=32, height=48, num_inference_steps=6, seed=15, last=True, clip=True),
    "i2v22_last": dict(case="i2v22", sampler="dpm++", width=48, height=32, num_inference_steps=8, seed=13, last=True),
}


def picture(width, height, seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([128 + 90 * np.sin((x + 2 * i * y) / (3.0 + i)) for i in range(3)], -1)
    return Image.fromarray(np.clip(waves + rng.normal(0, 25, waves.shape), 0, 255).astype(np.uint8))


def make_model(case, rng, tokenizer, t5):
    if case == "ti2v":
        z = 6
        vae = rm.vae(rng, base_dim=4, decoder_base_dim=4, z_dim=z, dim_mult=[1, 1, 2, 2], num_res_blocks=1, is_residual=True, in_channels=12,
                     out_channels=12, patch_size=2, scale_factor_spatial=16)
        channels = {}
    else:
        z = 4
        vae = rm.vae(rng, base_dim=4, z_dim=z, dim_mult=[1, 1, 1, 1], num_res_blocks=1)
        channels = dict(in_channels=2 * z + 4)
        if case != "i2v22":
            channels.update(image_dim=12, added_kv_proj_dim=24)
        if case.startswith("flf2v"):
            channels.update(pos_embed_seq_len=14 if case == "flf2v" else 2 * TOKENS)
    dit = rm.transformer(rng, **{**dict(attention_head_dim=12, num_attention_heads=2, in_channels=z, out_channels=z, text_dim=24, ffn_dim=40,
                                        num_layers=2), **channels})
    for part in (dit, vae):
        with torch.no_grad():
            for p in part.parameters():
                p.copy_(p.to(torch.bfloat16))
    return WanImageToVideoPipeline(tokenizer=tokenizer, text_encoder=t5, vae=vae, scheduler=generation.scheduler("unipc", 3.0),
                                   transformer=dit, expand_timesteps=case == "ti2v")


def clip(pipe):
    """Gives the pipeline the vision model and the processor; they are the same for all pipelines."""
    model = rm.image_encoder(random.Random(24), hidden_size=12, intermediate_size=20, num_hidden_layers=3, num_attention_heads=2)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(torch.bfloat16))
    assert model.config.image_size == 28 and (28 // model.config.patch_size) ** 2 + 1 == TOKENS
    pipe.register_modules(image_encoder=model, image_processor=processor(28))


def save_model(pipe, case):
    folder = HERE / case
    shutil.rmtree(folder, ignore_errors=True)
    pipe.save_pretrained(folder)
    for file in folder.glob("*/*.safetensors"):
        save_file({k: v.to(torch.bfloat16) for k, v in load_file(file).items()}, file)
    file = folder / "tokenizer" / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()), ensure_ascii=False, separators=(",", ":")))


def preprocess(pipe, image, run):
    mode = "crop" if run.get("fit") == "crop" else "default"
    return pipe.video_processor.preprocess(image, height=run["height"], width=run["width"], resize_mode=mode).float()


def embeds_in_float64(pipe, pictures):
    pixels = pipe.image_processor(images=pictures, return_tensors="pt")["pixel_values"].double()
    with torch.no_grad(), float64():
        out = pipe.image_encoder.double()(pixels, output_hidden_states=True).hidden_states[-2]
    pipe.image_encoder.float()
    return out


def reference(pipe, run, first, last, embeds):
    """Does the pipeline's steps with everything in float64, using its own code for the condition and the schedulers."""
    z, scale = pipe.vae.config.z_dim, pipe.vae_scale_factor_spatial
    frames = (COMMON["num_frames"] - 1) // 4 + 1
    noise = torch.randn(1, z, frames, run["height"] // scale, run["width"] // scale, generator=torch.Generator().manual_seed(run["seed"]))
    image = preprocess(pipe, first, run)
    last_image = preprocess(pipe, last, run) if run.get("last") else None
    scheduler = generation.scheduler(run["sampler"], COMMON["flow_shift"])
    scheduler.set_timesteps(run["num_inference_steps"])
    with torch.no_grad(), float64():
        for part in (pipe.transformer, pipe.text_encoder, pipe.vae):
            part.double()
        text = pipe.encode_prompt(COMMON["prompt"], COMMON["negative_prompt"], True, max_sequence_length=512, device="cpu", dtype=torch.float64)
        made = pipe.prepare_latents(image.double(), 1, z, run["height"], run["width"], COMMON["num_frames"], torch.float64, "cpu", None,
                                    noise.double(), last_image.double() if last_image is not None else None)
        x, condition = made[0], made[1]
        expand = pipe.config.expand_timesteps
        for t in scheduler.timesteps:
            if expand:
                keep = made[2]
                model_input, time = (1 - keep) * condition + keep * x, (keep[0][0][:, ::2, ::2] * t).flatten()[None]
            else:
                model_input, time = torch.cat([x, condition], 1), t[None]
            c, u = (pipe.transformer(model_input, time, e, embeds.double() if embeds is not None else None).sample for e in text)
            x = scheduler.step(u + COMMON["guidance_scale"] * (c - u), t, x, return_dict=False)[0]
        if expand:
            x = (1 - made[2]) * condition + made[2] * x
        mean, std = (torch.tensor(v, dtype=torch.float64).view(1, -1, 1, 1, 1) for v in (pipe.vae.config.latents_mean, pipe.vae.config.latents_std))
        pixels = pipe.vae.decode(x * std + mean).sample[0]
    frames = ((pixels / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 3, 0)
    for part in (pipe.transformer, pipe.text_encoder, pipe.vae):
        part.float()
    return condition[0], x[0], frames


def pipeline(pipe, run, first, last, embeds):
    """Runs diffusers' own pipeline in float32."""
    pipe.scheduler = generation.scheduler(run["sampler"], COMMON["flow_shift"])
    pipe.set_progress_bar_config(disable=True)
    if embeds is not None:
        pipe.encode_image = lambda *_: embeds
    plain = type(pipe.video_processor)(vae_scale_factor=pipe.vae_scale_factor_spatial)
    if run.get("fit") == "crop":
        pipe.video_processor.preprocess = lambda *a, **k: plain.preprocess(*a, **k, resize_mode="crop")
    with torch.no_grad():
        out = pipe(first, COMMON["prompt"], COMMON["negative_prompt"], run["height"], run["width"], COMMON["num_frames"], run["num_inference_steps"],
                   COMMON["guidance_scale"], generator=torch.Generator().manual_seed(run["seed"]), output_type="latent",
                   last_image=last if run.get("last") else None).frames[0]
    pipe.video_processor = plain
    return out


def main():
    rng = random.Random(23)
    pictures = {"first": picture(53, 37, 1), "last": picture(40, 61, 2)}
    for name, image in pictures.items():
        image.save(HERE / f"{name}.png")
    torch.manual_seed(23)
    embeds, pair = torch.randn(1, 7, 12), torch.randn(2, 7, 12)
    save_file({"image_embeds": embeds}, HERE / "embeds.safetensors")
    save_file({"image_embeds": pair}, HERE / "embeds_pair.safetensors")
    scratch = HERE / "scratch"
    rm.tiny_tokenizer(scratch)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(scratch)
    shutil.rmtree(scratch)
    t5 = rm.text_encoder(rng, d_model=24, vocab_size=64, d_kv=8, num_heads=2, d_ff=40, num_layers=2)
    with torch.no_grad():
        for p in t5.parameters():
            p.copy_(p.to(torch.bfloat16))
    golden = {}
    for case in ("ti2v", "i2v", "flf2v", "i2v22", "flf2v_clip"):
        pipe = make_model(case, rng, tokenizer, t5)
        if case == "flf2v_clip":
            clip(pipe)
        save_model(pipe, case)
        given = {"i2v": embeds, "flf2v": pair}.get(case)
        for name, run in RUNS.items():
            if run["case"] != case:
                continue
            seen = given
            if run.get("clip"):
                clip(pipe)
                pipe.__dict__.pop("encode_image", None)
                seen = golden[f"{name}.embeds"] = embeds_in_float64(pipe, list(pictures.values())[: 2 if run.get("last") else 1])
            condition, latents, frames = reference(pipe, run, pictures["first"], pictures["last"], seen)
            own = pipeline(pipe, run, pictures["first"], pictures["last"], None if run.get("clip") else given)
            apart = float((own.double() - latents).abs().max() / latents.abs().max())
            print(name, list(latents.shape), f"pipeline in float32 apart {apart:.1e}, max {float(latents.abs().max()):.2f}")
            assert apart < 1e-5
            if run.get("clip"):
                golden[f"{name}.embeds"] = seen.flatten(0, 1).float()
            golden[f"{name}.condition"], golden[f"{name}.latents"] = condition.float(), latents.float()
            if name.endswith("unipc"):
                golden[f"{name}.frames"] = frames
    save_file({k: v.contiguous() for k, v in golden.items()}, HERE / "golden.safetensors")
    (HERE / "runs.json").write_text(json.dumps(dict(common=COMMON, runs=RUNS), indent=1) + "\n")


main()
