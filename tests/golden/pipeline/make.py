"""Makes a tiny complete model in both layouts, and diffusers' results with it from a prompt.

    python tests/golden/pipeline/make.py        (torch 2.11.0, diffusers 0.42.1, transformers 5.23.0, safetensors)

    model/       WanPipeline.save_pretrained, random weights (bf16 and f32 files), generation_config.json for small runs
    original/    the same weights in the original repository's layout (.pth), see tests/reference/layouts.py
    run.json     prompt, size, seed … of the runs below
    golden.safetensors
        noise                                the starting noise
        diffusers_unipc, …_euler, …_dpm++    final latents of 20 guided steps: diffusers' schedulers, transformer in float64
        unguided                             the same for unipc with guidance 1
        original_unipc, …                    the original's grids and solvers (tests/reference/generation.py), in float64
        prompt, negative                     last_hidden_state of the text encoder
        frames                               [T, H, W, 3] u8 of diffusers_unipc's latents, decoded in float64
        metadata                             the reference's own float32 errors of mean, logvar, decoded
        input_ids, attention_mask            of the prompt, [1, 512]
        video, mean, logvar                  one clip through the VAE's encoder
        latents, decoded                     random latents through its decoder
        hidden_states, timestep, sample      random latents through the transformer, with `prompt` as its text
"""

import inspect
import json
import pathlib
import random
import shutil
import sys

import torch
from diffusers import AutoencoderKLWan, WanPipeline
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import generation  # noqa: E402
import layouts  # noqa: E402
import random_models as rm  # noqa: E402
from diffusers.models import embeddings  # noqa: E402
from precision import error, float64  # noqa: E402

torch.set_num_threads(1)
RUN = dict(prompt="the red cat moves, a bee sings", negative_prompt="ugly", height=32, width=48, num_frames=5,
           num_inference_steps=20, guidance_scale=5.0, flow_shift=3.0, seed=7)


def rounded(model, dtype):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype))
    return model


def save_model(pipe):
    folder = HERE / "model"
    shutil.rmtree(folder, ignore_errors=True)
    pipe.save_pretrained(folder)
    for part in ("transformer", "vae"):  # the published models have bf16 files
        file = folder / part / "diffusion_pytorch_model.safetensors"
        save_file({k: v.to(torch.bfloat16) for k, v in load_file(file).items()}, file)
    (folder / "generation_config.json").write_text(json.dumps(dict(
        height=16, width=32, num_frames=5, fps=8, num_inference_steps=2, guidance_scale=4.0, flow_shift=3.0, negative_prompt="ugly")) + "\n")
    file = folder / "tokenizer" / "tokenizer.json"  # compact
    file.write_text(json.dumps(json.loads(file.read_text()), ensure_ascii=False, separators=(",", ":")))


def save_original(pipe):
    folder = HERE / "original"
    shutil.rmtree(folder, ignore_errors=True)
    layouts.save_original(folder, pipe.transformer, pipe.text_encoder, pipe.vae, tokenizer=False)
    shutil.copytree(HERE / "model" / "tokenizer", folder / "google" / "umt5-xxl")
    weights = folder / "diffusion_pytorch_model.safetensors"
    save_file({k: v.to(torch.bfloat16) for k, v in load_file(weights).items()}, weights)
    for name in ("models_t5_umt5-xxl-enc-bf16.pth", "Wan2.1_VAE.pth"):
        torch.save({k: v.to(torch.bfloat16) for k, v in torch.load(folder / name).items()}, folder / name)


def encode(pipe, text):
    ids = pipe.tokenizer([text], padding="max_length", max_length=512, truncation=True, return_attention_mask=True, return_tensors="pt")
    hidden = pipe.text_encoder(ids.input_ids, ids.attention_mask).last_hidden_state
    return ids, hidden[:, : int(ids.attention_mask.sum())]


def padded(rows):
    return torch.cat([rows, torch.zeros(1, 512 - rows.shape[1], rows.shape[2], dtype=rows.dtype)], 1)


def main():
    rng = random.Random(11)
    dit = rm.transformer(rng, attention_head_dim=12, num_attention_heads=2, in_channels=16, out_channels=16, text_dim=24, ffn_dim=40,
                         num_layers=2)
    t5 = rm.text_encoder(rng, d_model=24, vocab_size=64, d_kv=8, num_heads=2, d_ff=40, num_layers=2)
    defaults = inspect.signature(AutoencoderKLWan.__init__).parameters  # the original layout has the published statistics
    vae = rm.vae(rng, base_dim=2, z_dim=16, num_res_blocks=2, latents_mean=list(defaults["latents_mean"].default),
                 latents_std=list(defaults["latents_std"].default))
    for part in (dit, t5, vae):
        rounded(part, torch.bfloat16)
    scratch = HERE / "scratch"
    rm.tiny_tokenizer(scratch)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(scratch)
    shutil.rmtree(scratch)
    pipe = WanPipeline(tokenizer=tokenizer, text_encoder=t5, vae=vae, scheduler=generation.scheduler("unipc", 3.0), transformer=dit)
    save_model(pipe)
    save_original(pipe)

    golden = {}
    start = torch.randn(1, 16, 2, 4, 6, generator=torch.Generator().manual_seed(RUN["seed"]))
    golden["noise"] = start
    torch.manual_seed(5)
    golden["video"], golden["latents"] = torch.rand(2, 3, 5, 16, 24) * 2 - 1, torch.randn(2, 16, 2, 2, 3)
    with torch.no_grad():  # norms over two channels amplify float32 rounding, and the bounds need the resulting error
        posterior = vae.encode(golden["video"]).latent_dist
        single = dict(decoded=vae.decode(golden["latents"]).sample, mean=posterior.mean, logvar=posterior.logvar)
    with torch.no_grad(), float64():
        for part in (dit, t5, vae):
            part.double()
        ids, cond = encode(pipe, RUN["prompt"])
        uncond = encode(pipe, RUN["negative_prompt"])[1]
        golden.update(prompt=cond, negative=uncond, input_ids=ids.input_ids, attention_mask=ids.attention_mask)
        text = padded(cond), padded(uncond)

        def velocity(x, t, guidance):
            c, u = (dit(x.double(), t, e).sample for e in text)
            return u + guidance * (c - u)

        for name, guidance in [*((n, RUN["guidance_scale"]) for n in generation.SAMPLERS), ("unguided", 1.0)]:
            scheduler = generation.scheduler("unipc" if name == "unguided" else name, RUN["flow_shift"])
            scheduler.set_timesteps(RUN["num_inference_steps"])
            x = start.double()
            for t in scheduler.timesteps:
                x = scheduler.step(velocity(x, t[None], guidance), t, x, return_dict=False)[0]
            golden[name if name == "unguided" else f"diffusers_{name}"] = x
        mean, std = (torch.tensor(v, dtype=torch.float64).view(1, -1, 1, 1, 1) for v in (vae.config.latents_mean, vae.config.latents_std))
        pixels = vae.decode(golden["diffusers_unipc"].double() * std + mean).sample[0]
        frames = ((pixels / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 3, 0)

        posterior = vae.encode(golden["video"].double()).latent_dist
        golden.update(mean=posterior.mean, logvar=posterior.logvar, decoded=vae.decode(golden["latents"].double()).sample)
        errors = {f"{k}_float32_error": repr(error(v, golden[k])) for k, v in single.items()}
        golden["hidden_states"], golden["timestep"] = torch.randn(1, 16, 2, 4, 6), torch.tensor([500.0])
        golden["sample"] = dit(golden["hidden_states"].double(), golden["timestep"], padded(cond.float().double())).sample

        sinusoid, embeddings.get_timestep_embedding = embeddings.get_timestep_embedding, layouts.sinusoid64
        try:
            for name in generation.SAMPLERS:
                sigma, timesteps = generation.original_grid(name, RUN["num_inference_steps"], RUN["flow_shift"])
                golden[f"original_{name}"] = generation.original_steps(name, start.double(), sigma, lambda i, x: velocity(
                    x, torch.tensor([timesteps[i]], dtype=torch.float64), RUN["guidance_scale"]))
        finally:
            embeddings.get_timestep_embedding = sinusoid
    for k, v in golden.items():
        assert not v.is_floating_point() or v.isfinite().all(), k
        print(k, list(v.shape), v.dtype, f"max {float(v.abs().max()):.3f}")
    golden = {k: (v.float() if v.is_floating_point() else v).contiguous() for k, v in golden.items()}
    golden["frames"] = frames.contiguous()
    save_file(golden, HERE / "golden.safetensors", errors)
    (HERE / "run.json").write_text(json.dumps(RUN) + "\n")


main()
