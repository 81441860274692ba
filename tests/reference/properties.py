"""A property test: the engine gives the same results as the reference for any config.

Each draw makes a random model (dims, heads, layers, patches, channels, norms, strides, dtype of the file), random sizes
and a random batch, in diffusers' layout or the original's, and compares a stage or a whole guided generation. The fixed comparisons use a handful of
round numbers; here a config may have nearly any values that are allowed. A failing draw prints its number and config; `compare.py BINARY --only
properties --seed S --draw N` repeats it alone."""

import contextlib
import json
import random
import shutil

import torch
from diffusers import WanPipeline
from diffusers.models import embeddings
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

import generation
import layouts
import random_models as rm
from precision import float64

DRAWS = 50
# The error of one step is relative to the largest output; a generation adds up the errors of its steps.
STAGE_BOUND, VAE_BOUND, RUN_BOUND = 5e-6, 1e-5, 1e-5
HEAD_DIMS = (6, 8, 10, 12, 16, 18, 24, 32, 40, 64, 72, 96, 128)


@contextlib.contextmanager
def original_sinusoid(original):
    kept = embeddings.get_timestep_embedding
    if original:
        embeddings.get_timestep_embedding = layouts.sinusoid64
    try:
        yield
    finally:
        embeddings.get_timestep_embedding = kept


def save_component(rng, model, folder):
    """Saves in diffusers' layout, in float32, or in bf16 or f16; the reference then computes with the rounded weights."""
    dtype = rng.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype))
    model.save_pretrained(folder)
    file = next(folder.glob("*.safetensors"))
    save_file({k: v.to(dtype) for k, v in load_file(file).items()}, file)
    return str(dtype)[6:]


def draw_transformer(rng, original, variant):
    heads, head_dim = rng.randint(1, 4), rng.choice(HEAD_DIMS)
    channels = rng.randint(1, 20)
    config = dict(patch_size=rng.choice([(1, 2, 2), (1, 2, 2), (1, 1, 1), (1, 2, 1), (2, 2, 2), (1, 4, 4)]), num_attention_heads=heads,
                  attention_head_dim=head_dim, in_channels=channels, out_channels=rng.choice([channels, rng.randint(1, 20)]),
                  text_dim=rng.randint(1, 70), freq_dim=2 * rng.randint(1, 150), ffn_dim=rng.randint(1, 300), num_layers=rng.randint(1, 4),
                  cross_attn_norm=rng.random() < 0.8, eps=rng.choice([1e-6, 1e-5, 1e-3]))
    if variant in ("i2v", "flf2v"):
        # The original's config does not give the width of its image branch, which is CLIP's.
        config.update(image_dim=1280 if original else rng.randint(1, 40), added_kv_proj_dim=heads * head_dim)
    if variant == "flf2v":
        config.update(pos_embed_seq_len=514 if original else 2 * rng.randint(1, 20))
    return config


def draw_vae(rng, original):
    if original:  # this layout has no config: whatever tensor sizes do not tell is as in Wan2.1
        return dict(base_dim=rng.randint(1, 10) * 2, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2, temperal_downsample=[False, True, True])
    levels = rng.randint(1, 4)
    config = dict(z_dim=rng.randint(1, 20), num_res_blocks=rng.randint(1, 3))
    while True:
        down = [rng.random() < 0.5 for _ in range(levels - 1)]
        if sum(down) <= 2:
            break
    config["temperal_downsample"] = down
    if rng.random() < 0.3:  # Wan2.2's averages need widths that divide each other, and an equal last pair
        config.update(base_dim=4 * rng.randint(1, 3), dim_mult=[[1], [1, 1], [1, 2, 2], [1, 2, 4, 4]][levels - 1], is_residual=True, patch_size=2, in_channels=12,
                      out_channels=12, decoder_base_dim=4 * rng.randint(1, 3))
    else:
        config.update(base_dim=2 * rng.randint(1, 9), dim_mult=[rng.randint(1, 4) for _ in range(levels)])
    config["latents_mean"] = [round(rng.uniform(-1, 1), 4) for _ in range(config["z_dim"])]
    config["latents_std"] = [round(rng.uniform(0.5, 3), 4) for _ in range(config["z_dim"])]
    return config


def draw_text_encoder(rng):
    return dict(vocab_size=rng.randint(70, 300), d_model=rng.randint(1, 70), d_kv=rng.randint(1, 40), d_ff=rng.randint(1, 200),
                num_layers=rng.randint(1, 4), num_heads=rng.randint(1, 6), layer_norm_epsilon=1e-6)


def compare_transformer(ctx, rng, label, folder):
    original, variant = rng.random() < 0.35, rng.choice(["t2v", "t2v", "ti2v", "i2v", "flf2v"])
    config = draw_transformer(rng, original, variant)
    label.update(layout="original" if original else "diffusers", variant=variant, config=config)
    model = rm.transformer(rng, **config)
    if original:
        layouts.save_original_transformer(folder, model, variant if variant in ("i2v", "flf2v") else "t2v")
    else:
        label["file"] = save_component(rng, model, folder)
    pt, ph, pw = config["patch_size"]
    batch, t, h, w = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 6), rng.randint(1, 6)
    # If there are image rows before the text, the reference treats the last 512 rows as the text.
    rows = rng.choice([1, 2, 17, 64, 512]) if variant in ("t2v", "ti2v") else 512
    inputs = {"hidden_states": torch.randn(batch, config["in_channels"], t * pt, h * ph, w * pw)}
    text = torch.randn(batch, rows, config["text_dim"])
    for b in range(batch):  # a prompt of n tokens has zeros after them
        text[b, rng.randint(1, rows):] = 0
    inputs["encoder_hidden_states"] = text
    if variant == "ti2v":
        inputs["timestep"] = torch.tensor([[rng.choice([0.0, 937.0, 421.5]) for _ in range(t * h * w)] for _ in range(batch)])
    elif rng.random() < 0.5:
        inputs["timestep"] = torch.tensor([rng.randint(0, 1000) for _ in range(batch)])
    else:
        inputs["timestep"] = torch.tensor([rng.uniform(0, 1000) for _ in range(batch)])
    if variant == "i2v":
        inputs["encoder_hidden_states_image"] = torch.randn(batch, rng.choice([1, 7, 257]), config["image_dim"])
    if variant == "flf2v":
        inputs["encoder_hidden_states_image"] = torch.randn(2 * batch, config["pos_embed_seq_len"] // 2, config["image_dim"])
    label["inputs"] = {k: list(v.shape) for k, v in inputs.items()}
    y = ctx.stage("transformer", folder, inputs, "--weights", rng.choice(["packed", "mapped"]), "-t", rng.randint(1, 3))["sample"]
    with original_sinusoid(original), torch.no_grad():
        r32 = model(**inputs).sample
        with float64():
            wide = {k: v.double() if k != "timestep" and v.is_floating_point() else v for k, v in inputs.items()}
            r64 = model.double()(**wide).sample
    yield "sample", y, r64, r32, STAGE_BOUND


def farthest(run, values, exact):
    """Returns the float32 result that lies farthest from `exact`, among those of `values` and of their neighbours.

    A norm over two or three channels divides by next to nothing now and then. A result then depends on how its input was
    rounded, and the error of one float32 run says little about what float32 can do. The neighbours are one rounding down, to
    zero, up, and eight times some up and some down.
    """
    signs = torch.Generator().manual_seed(1)
    ways = [torch.full_like(values, to) for to in (-10.0, 0.0, 10.0)] + [10 * torch.randn(values.shape, generator=signs).sign() for _ in range(8)]
    moved = [values] + [torch.nextafter(values, way) for way in ways]
    return max(map(run, moved), key=lambda result: (result.double() - exact).abs().max())


def compare_vae(ctx, rng, label, folder):
    original = rng.random() < 0.3
    config = draw_vae(rng, original)
    label.update(layout="original" if original else "diffusers", config=config)
    model = rm.vae(rng, **config)
    if original:
        layouts.save_original(folder, rm.transformer(rng), rm.text_encoder(rng), model)
    else:
        label["file"] = save_component(rng, model, folder)
    stride = 2 ** (len(config["dim_mult"]) - 1) * config.get("patch_size", 1)
    latents = torch.randn(rng.randint(1, 2), config["z_dim"], rng.randint(1, 3), rng.randint(1, 4), rng.randint(1, 4))
    video = torch.rand(rng.randint(1, 2), 3, 4 * rng.randint(0, 2) + 1, stride * rng.randint(1, 3), stride * rng.randint(1, 3)) * 2 - 1
    label["inputs"] = {"latents": list(latents.shape), "video": list(video.shape)}
    y = ctx.stage("vae-decode", folder, {"latents": latents}, "-t", rng.randint(1, 3))["decoded"]
    moments = ctx.stage("vae-encode", folder, {"video": video})
    with torch.no_grad():
        e32 = model.encode(video).latent_dist
        with float64():
            model.double()
            d64, e64 = model.decode(latents.double()).sample, model.encode(video.double()).latent_dist
        model.float()
        d32 = farthest(lambda x: model.decode(x).sample, latents, d64)
    yield "decoded", y, d64, d32, VAE_BOUND
    yield "mean", moments["mean"], e64.mean, e32.mean, VAE_BOUND
    yield "logvar", moments["logvar"], e64.logvar, e32.logvar, VAE_BOUND


def compare_text_encoder(ctx, rng, label, folder):
    original = rng.random() < 0.35
    config = draw_text_encoder(rng)
    if not original:
        config.update(relative_attention_num_buckets=2 * rng.randint(4, 20), relative_attention_max_distance=rng.randint(30, 200),
                      layer_norm_epsilon=rng.choice([1e-6, 1e-4]))
    label.update(layout="original" if original else "diffusers", config=config)
    model = rm.text_encoder(rng, **config)
    if original:
        layouts.save_original(folder, rm.transformer(rng, text_dim=config["d_model"]), model, rm.vae(rng, z_dim=16, num_res_blocks=2))
    else:
        label["file"] = save_component(rng, model, folder)
    batch, length = rng.randint(1, 3), rng.choice([1, 2, rng.randint(3, 60), rng.randint(60, 512)])
    ids = torch.randint(3, config["vocab_size"], (batch, length))
    mask = torch.ones_like(ids)
    for b in range(batch):
        keep = rng.randint(1, length)
        mask[b, keep:], ids[b, keep:] = 0, 0
    label["inputs"] = {"input_ids": [batch, length]}
    y = ctx.stage("text-encoder", folder, {"input_ids": ids, "attention_mask": mask}, "-t", rng.randint(1, 3))["last_hidden_state"]
    with torch.no_grad():
        with float64():
            r64 = model.double()(ids, mask).last_hidden_state
        model.float()
        r32 = farthest(lambda rows: model(inputs_embeds=rows, attention_mask=mask).last_hidden_state, model.get_input_embeddings()(ids), r64)
    yield "last_hidden_state", y, r64, r32, STAGE_BOUND


def compare_run(ctx, rng, label, folder):
    """Compares a whole guided generation of a random pipeline, with diffusers' schedule in both layouts."""
    original = rng.random() < 0.4
    dit_config, vae_config, t5_config = draw_transformer(rng, original, "t2v"), draw_vae(rng, original), draw_text_encoder(rng)
    vae_config.pop("is_residual", None), vae_config.pop("patch_size", None)
    for key in ("in_channels", "out_channels", "decoder_base_dim"):
        vae_config.pop(key, None)
    stride = 2 ** (len(vae_config["dim_mult"]) - 1)
    time_stride = 2 ** sum(vae_config["temperal_downsample"])
    if (time_stride, stride) != (4, 8):  # diffusers' pipeline accepts no other strides
        vae_config.update(dim_mult=[1, 2, 4, 4], temperal_downsample=[False, True, True])
    z = vae_config["z_dim"]
    dit_config.update(in_channels=z, out_channels=z, patch_size=(1, 2, 2), text_dim=t5_config["d_model"])
    label.update(layout="original" if original else "diffusers", config=dict(transformer=dit_config, vae=vae_config, text_encoder=t5_config))
    dit, vae, t5 = rm.transformer(rng, **dit_config), rm.vae(rng, **vae_config), rm.text_encoder(rng, **t5_config)
    rm.tiny_tokenizer(folder / "tokenizer")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer")
    sampler, shift = rng.choice(generation.SAMPLERS), rng.choice([1.0, 3.0, 5.5])
    pipe = WanPipeline(tokenizer=tokenizer, text_encoder=t5, vae=vae, scheduler=generation.scheduler(sampler, shift), transformer=dit)
    pipe.set_progress_bar_config(disable=True)
    model = folder / "model"
    if original:
        layouts.save_original(model, dit, t5, vae)
    else:
        pipe.save_pretrained(model)
    width, height, frames = 16 * rng.randint(1, 3), 16 * rng.randint(1, 3), 4 * rng.randint(0, 2) + 1
    steps, guidance, seed = rng.randint(1, 6), rng.choice([1.0, 1.5, 5.0]), rng.randrange(2**31)
    prompt, negative = rng.choice(["a", "the red cat moves"]), rng.choice(["", "ugly"])
    label["inputs"] = dict(width=width, height=height, frames=frames, steps=steps, guidance=guidance, seed=seed, sampler=sampler, shift=shift)
    with original_sinusoid(original), torch.no_grad():
        want = pipe(prompt=prompt, negative_prompt=negative, height=height, width=width, num_frames=frames, num_inference_steps=steps,
                    guidance_scale=guidance, generator=torch.Generator().manual_seed(seed), output_type="latent").frames[0]
    out = folder / "out.safetensors"
    ctx.run("generate", prompt, "--negative-prompt", negative, "--model", model, "--size", f"{width}x{height}", "--frames", frames, "--steps",
            steps, "--guidance", guidance, "--shift", shift, "--seed", seed, "--sampler", sampler, "--grid", "diffusers", "--save-latents", out,
            "-q", "-t", rng.randint(1, 3), "-o", f"{folder}/frames/")
    got = load_file(out)["latents"]
    yield "latents", got.double(), want.double(), want.double(), RUN_BOUND


KINDS = (compare_transformer, compare_transformer, compare_vae, compare_text_encoder, compare_run)


def compare(ctx, seed, only=None):
    for i in range(DRAWS) if only is None else [only]:
        rng = random.Random(f"{seed}/{i}")
        torch.manual_seed(rng.randrange(2**31))
        kind = KINDS[i % len(KINDS)]
        name = kind.__name__[len("compare_"):]
        label, folder = {}, ctx.folder / f"draw-{i}"
        folder.mkdir()
        failed = len(ctx.failures)
        try:
            for what, *values in kind(ctx, rng, label, folder):
                ctx.check(f"draw {i}: {name} ({label['layout']}): {what}", *values)
        except RuntimeError as e:
            print(f"    {e}")
            ctx.report(f"draw {i}: {name}: did not run", 1.0, 0.0)
        if len(ctx.failures) > failed:
            print(f"    seed {seed}, draw {i}: {json.dumps(label)}")
        shutil.rmtree(folder)
