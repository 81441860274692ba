"""Makes tiny models of two experts (Wan2.2 A14B), and diffusers' results with them.

    python tests/golden/experts/make.py    (torch 2.11.0, diffusers 0.42.1, transformers 5.23.0, Pillow, safetensors; seed 31)

Text encoder, tokenizer and VAE are those of tests/golden/pipeline; the picture is tests/golden/image_pipeline/first.png.

    <case>/diffusers/    transformer/ (high noise), transformer_2/ (low noise), model_index.json as WanPipeline.save_pretrained
                         and WanImageToVideoPipeline.save_pretrained write them, bf16; the cases:
        t2v      boundary 0.875, guidance 4 and 3
        i2v      boundary 0.9, mask and encoded video in channels (36), no image branch
    <case>/original/     the same weights as high_noise_model/ and low_noise_model/ of the original repository
    runs.json            per run: case, layout, sampler, steps, guidance scales, seed …
    golden.safetensors   <run>.latents [z, T, h, w]: everything in float64 but the noise, by diffusers' schedulers or the
                         original's solvers (tests/reference/generation.py). The pipelines' own float32 runs are asserted
                         to agree with the former.
"""

import json
import pathlib
import random
import shutil
import sys

import torch
from diffusers import AutoencoderKLWan, WanImageToVideoPipeline, WanPipeline
from diffusers.models import embeddings
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast, UMT5EncoderModel

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import generation  # noqa: E402
import layouts  # noqa: E402
import random_models as rm  # noqa: E402
from precision import float64  # noqa: E402

torch.set_num_threads(1)
COMMON = dict(prompt="the red cat moves, a bee sings", negative_prompt="ugly", num_frames=5, width=48, height=32)
BOUNDARY = dict(t2v=0.875, i2v=0.9)
# The shift and the number of steps are chosen so that both experts take several steps.
RUNS = {
    "t2v_unipc": dict(case="t2v", sampler="unipc", num_inference_steps=12, flow_shift=5.0, guidance_scale=4.0, guidance_scale_2=3.0, seed=3),
    "t2v_euler": dict(case="t2v", sampler="euler", num_inference_steps=9, flow_shift=3.0, guidance_scale=3.0, guidance_scale_2=6.0, seed=4),
    "t2v_half_guided": dict(case="t2v", sampler="dpm++", num_inference_steps=9, flow_shift=5.0, guidance_scale=4.0, guidance_scale_2=1.0, seed=5),
    "i2v_unipc": dict(case="i2v", sampler="unipc", num_inference_steps=10, flow_shift=5.0, guidance_scale=3.5, guidance_scale_2=3.5, seed=6),
    "t2v_original": dict(case="t2v", sampler="unipc", num_inference_steps=10, flow_shift=12.0, guidance_scale=4.0, guidance_scale_2=3.0, seed=7),
    "i2v_original": dict(case="i2v", sampler="dpm++", num_inference_steps=10, flow_shift=5.0, guidance_scale=3.5, guidance_scale_2=2.5, seed=8),
}


def expert(rng, case):
    dit = rm.transformer(rng, attention_head_dim=12, num_attention_heads=2, in_channels=36 if case == "i2v" else 16, out_channels=16,
                         text_dim=24, ffn_dim=40, num_layers=1)
    with torch.no_grad():
        for p in dit.parameters():
            p.copy_(p.to(torch.bfloat16))
    return dit


def make_pipeline(case, rng):
    parts = HERE.parent / "pipeline" / "model"
    make = WanPipeline if case == "t2v" else WanImageToVideoPipeline
    return make(tokenizer=PreTrainedTokenizerFast.from_pretrained(parts / "tokenizer"),
                text_encoder=UMT5EncoderModel.from_pretrained(parts / "text_encoder", torch_dtype=torch.float32),
                vae=AutoencoderKLWan.from_pretrained(parts / "vae", torch_dtype=torch.float32),
                scheduler=generation.scheduler("unipc", 5.0), transformer=expert(rng, case), transformer_2=expert(rng, case),
                boundary_ratio=BOUNDARY[case])


def narrow(file):
    save_file({k: v.to(torch.bfloat16) for k, v in load_file(file).items()}, file)


def save_model(pipe, case):
    whole = HERE / "scratch"
    pipe.save_pretrained(whole)
    for part in ("transformer", "transformer_2"):
        shutil.copytree(whole / part, HERE / case / "diffusers" / part)
        narrow(HERE / case / "diffusers" / part / "diffusion_pytorch_model.safetensors")
    shutil.copy(whole / "model_index.json", HERE / case / "diffusers")
    shutil.rmtree(whole)
    for part, dit in (("high_noise_model", pipe.transformer), ("low_noise_model", pipe.transformer_2)):
        layouts.save_original_transformer(HERE / case / "original" / part, dit, case)
        narrow(HERE / case / "original" / part / "diffusion_pytorch_model.safetensors")


def picture(pipe):
    image = Image.open(HERE.parent / "image_pipeline" / "first.png").convert("RGB")
    return image, pipe.video_processor.preprocess(image, height=COMMON["height"], width=COMMON["width"]).float()


def reference(pipe, name, run):
    original = name.endswith("original")
    start = torch.randn(1, 16, 2, 4, 6, generator=torch.Generator().manual_seed(run["seed"]))
    parts = [pipe.transformer, pipe.transformer_2, pipe.text_encoder, pipe.vae]
    sinusoid = embeddings.get_timestep_embedding
    if original:
        embeddings.get_timestep_embedding = layouts.sinusoid64
    with torch.no_grad(), float64():
        for part in parts:
            part.double()
        text = pipe.encode_prompt(COMMON["prompt"], COMMON["negative_prompt"], True, max_sequence_length=512, device="cpu", dtype=torch.float64)
        extra = []
        if run["case"] == "i2v":
            extra = [pipe.prepare_latents(picture(pipe)[1].double(), 1, 16, COMMON["height"], COMMON["width"], COMMON["num_frames"],
                                          torch.float64, "cpu", None, start.double(), None)[1]]

        def velocity(x, t):
            high = float(t) >= BOUNDARY[run["case"]] * 1000
            dit, scale = (pipe.transformer, run["guidance_scale"]) if high else (pipe.transformer_2, run["guidance_scale_2"])
            c, u = (dit(torch.cat([x, *extra], 1), t[None], e).sample for e in text)
            return u + scale * (c - u)

        if original:
            sigma, timesteps = generation.original_grid(run["sampler"], run["num_inference_steps"], run["flow_shift"])
            seen = [float(t) for t in timesteps]
            x = generation.original_steps(run["sampler"], start.double(), sigma,
                                          lambda i, x: velocity(x, torch.tensor(timesteps[i], dtype=torch.float64)))
        else:
            scheduler = generation.scheduler(run["sampler"], run["flow_shift"])
            scheduler.set_timesteps(run["num_inference_steps"])
            seen, x = [float(t) for t in scheduler.timesteps], start.double()
            for t in scheduler.timesteps:
                x = scheduler.step(velocity(x, t), t, x, return_dict=False)[0]
    embeddings.get_timestep_embedding = sinusoid
    for part in parts:
        part.float()
    high = sum(t >= BOUNDARY[run["case"]] * 1000 for t in seen)
    assert 3 <= high <= len(seen) - 3, (name, high, len(seen))
    return x[0], high


def pipeline(pipe, run):
    """Runs diffusers' own pipeline in float32."""
    pipe.scheduler = generation.scheduler(run["sampler"], run["flow_shift"])
    pipe.set_progress_bar_config(disable=True)
    given = {k: run[k] for k in ("num_inference_steps", "guidance_scale", "guidance_scale_2")}
    if run["case"] == "i2v":
        given["image"] = picture(pipe)[0]
    with torch.no_grad():
        return pipe(**COMMON, **given, generator=torch.Generator().manual_seed(run["seed"]), output_type="latent").frames[0]


def main():
    rng, golden = random.Random(31), {}
    for case in BOUNDARY:
        shutil.rmtree(HERE / case, ignore_errors=True)
        pipe = make_pipeline(case, rng)
        save_model(pipe, case)
        for name, run in RUNS.items():
            if run["case"] != case:
                continue
            latents, run["high_noise_steps"] = reference(pipe, name, run)
            if not name.endswith("original"):
                own = pipeline(pipe, run)
                apart = float((own.double() - latents).abs().max() / latents.abs().max())
                print(f"{name}: {run['high_noise_steps']} steps of high noise; the pipeline in float32 apart {apart:.1e}")
                assert apart < 1e-5
            golden[f"{name}.latents"] = latents.float().contiguous()
    save_file(golden, HERE / "golden.safetensors")
    (HERE / "runs.json").write_text(json.dumps(dict(common=COMMON, runs=RUNS), indent=1) + "\n")


main()
