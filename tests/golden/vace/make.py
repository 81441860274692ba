"""Makes tiny VACE models, and diffusers' results with them and with videos that are given.

    python tests/golden/vace/make.py    (torch 2.11.0, diffusers 0.42.1, transformers 5.23.0, Pillow, safetensors; seed 41)

Text encoder, tokenizer and VAE are those of tests/golden/pipeline; its transformer serves for video to video.

    control/, mask/           9 pictures of 40x28 each: a video, and a mask with soft edges
    reference_1.png, _2.png   pictures of odd sizes; first.png, last.png of the clip's size
    <case>/                   transformer/ (and transformer_2/) and model_index.json as WanVACEPipeline.save_pretrained writes
                              them, bf16; one: control blocks after the first and the last of three; two: two experts
    runs.json                 per run: case, sampler, steps, what is given …
    golden.safetensors        <run>.control [c, n + T, h, w] or <run>.start [z, T, h, w], <run>.latents [z, T, h, w] and of some
                              <run>.frames [T, H, W, 3] u8: the steps of diffusers' pipelines by their own functions, everything
                              in float64 but the noise. The pipelines' own float32 runs are asserted to agree; how far they are
                              off is the metadata <run>.error.
"""

import json
import pathlib
import random
import shutil
import sys

import numpy as np
import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel, WanVACEPipeline, WanVideoToVideoPipeline
from PIL import Image, ImageDraw, ImageFilter
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerFast, UMT5EncoderModel

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import footage  # noqa: E402
import generation  # noqa: E402
import random_models as rm  # noqa: E402
from precision import float64  # noqa: E402

torch.set_num_threads(1)
COMMON = dict(prompt="the red cat moves, a bee sings", negative_prompt="ugly", num_frames=9, width=48, height=32, flow_shift=3.0)
BOUNDARY = 0.875
GIVEN = dict(control=True, mask=True, references=2)
RUNS = {
    "follow": dict(case="one", sampler="unipc", num_inference_steps=8, guidance_scale=4.0, seed=1, control=True),
    "inpaint": dict(case="one", sampler="euler", num_inference_steps=6, guidance_scale=4.0, seed=2, control=True, mask=True, scale=[0.5, 1.25]),
    "references": dict(case="one", sampler="dpm++", num_inference_steps=6, guidance_scale=1.0, seed=3, references=2),
    "all": dict(case="one", sampler="unipc", num_inference_steps=6, guidance_scale=4.0, seed=4, **GIVEN),
    "outpaint": dict(case="one", sampler="unipc", num_inference_steps=6, guidance_scale=3.0, seed=5, control=True, outpaint=[16, 0, 6, 5]),
    "keep": dict(case="one", sampler="unipc", num_inference_steps=6, guidance_scale=3.0, seed=6, control=True, keep=[4, 6], references=1),
    "first_last": dict(case="one", sampler="euler", num_inference_steps=6, guidance_scale=3.0, seed=7, first=True, last=True),
    "nothing": dict(case="one", sampler="unipc", num_inference_steps=4, guidance_scale=3.0, seed=8),
    "experts": dict(case="two", sampler="unipc", num_inference_steps=10, guidance_scale=4.0, guidance_scale_2=3.0, seed=9, **GIVEN),
    "v2v_unipc": dict(case="v2v", sampler="unipc", num_inference_steps=10, guidance_scale=4.0, seed=10, strength=0.7),
    "v2v_euler": dict(case="v2v", sampler="euler", num_inference_steps=9, guidance_scale=3.0, seed=11, strength=0.5),
    "v2v_part": dict(case="v2v", sampler="unipc", num_inference_steps=8, guidance_scale=4.0, seed=13, strength=0.8, mask=True),
    "v2v_dpm": dict(case="v2v", sampler="dpm++", num_inference_steps=8, guidance_scale=1.0, seed=12, strength=1.0),
}


def smooth(width, height, seed, levels=24):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([128 + 100 * np.sin((x * rng.uniform(0.5, 1) + i * y) / 5 + seed) for i in range(3)], -1)
    return Image.fromarray((np.clip(waves, 0, 255) // levels * levels).astype(np.uint8))


def make_inputs():
    for name in ("control", "mask"):
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir()
    for i in range(COMMON["num_frames"]):
        smooth(40, 28, 100 + i).save(HERE / "control" / f"{i:02}.png")
        mask = Image.new("L", (40, 28), 0)
        ImageDraw.Draw(mask).ellipse((6 + 2 * i, 5, 22 + 2 * i, 22), fill=255)
        mask.filter(ImageFilter.GaussianBlur(1)).save(HERE / "mask" / f"{i:02}.png")
    smooth(53, 37, 1).save(HERE / "reference_1.png")
    smooth(30, 61, 2).save(HERE / "reference_2.png")
    smooth(COMMON["width"], COMMON["height"], 3).save(HERE / "first.png")
    smooth(COMMON["width"], COMMON["height"], 4).save(HERE / "last.png")


def given(run):
    pictures = lambda folder, mode: [Image.open(f).convert(mode) for f in sorted((HERE / folder).glob("*.png"))]  # noqa: E731
    return dict(control=pictures("control", "RGB") if run.get("control") or run["case"] == "v2v" else None,
                mask=pictures("mask", "L") if run.get("mask") else None,
                references=[Image.open(HERE / f"reference_{i + 1}.png") for i in range(run.get("references", 0))],
                first=Image.open(HERE / "first.png") if run.get("first") else None,
                last=Image.open(HERE / "last.png") if run.get("last") else None,
                outpaint=run.get("outpaint"), keep=run.get("keep"))


def control_transformer(rng):
    dit = rm.transformer(rng, "vace", attention_head_dim=12, num_attention_heads=2, in_channels=16, out_channels=16, text_dim=24, ffn_dim=40,
                         num_layers=3, vace_layers=[0, 2], vace_in_channels=96)
    with torch.no_grad():
        for p in dit.parameters():
            p.copy_(p.to(torch.bfloat16))
    return dit


def make_pipeline(case, rng):
    parts = HERE.parent / "pipeline" / "model"
    common = dict(tokenizer=PreTrainedTokenizerFast.from_pretrained(parts / "tokenizer"),
                  text_encoder=UMT5EncoderModel.from_pretrained(parts / "text_encoder", torch_dtype=torch.float32),
                  vae=AutoencoderKLWan.from_pretrained(parts / "vae", torch_dtype=torch.float32), scheduler=generation.scheduler("unipc", 3.0))
    if case == "v2v":
        return WanVideoToVideoPipeline(transformer=WanTransformer3DModel.from_pretrained(parts / "transformer", torch_dtype=torch.float32), **common)
    two = dict(transformer_2=control_transformer(rng), boundary_ratio=BOUNDARY) if case == "two" else {}
    return WanVACEPipeline(transformer=control_transformer(rng), **two, **common)


def save_model(pipe, case):
    scratch = HERE / "scratch"
    pipe.save_pretrained(scratch)
    shutil.rmtree(HERE / case, ignore_errors=True)
    (HERE / case).mkdir()
    shutil.copy(scratch / "model_index.json", HERE / case / "model_index.json")
    for part in ("transformer", "transformer_2"):
        if not (scratch / part).is_dir():
            continue
        shutil.copytree(scratch / part, HERE / case / part)
        file = HERE / case / part / "diffusion_pytorch_model.safetensors"
        save_file({k: v.to(torch.bfloat16) for k, v in load_file(file).items()}, file)
    shutil.rmtree(scratch)


def main():
    make_inputs()
    rng = random.Random(41)
    golden, about = {}, {}
    for case in ("one", "two", "v2v"):
        pipe = make_pipeline(case, rng)
        if case != "v2v":
            save_model(pipe, case)
        for name, run in RUNS.items():
            if run["case"] != case:
                continue
            made = footage.reference(pipe, {**COMMON, **run}, given(run), float64)
            # diffusers' pipeline of video to video takes no mask; for that run, the same steps in float32
            own = footage.reference(pipe, {**COMMON, **run}, given(run), None)["latents"] if name == "v2v_part" else \
                footage.pipeline(pipe, {**COMMON, **run}, given(run))
            apart = float((own.double() - made["latents"]).abs().max() / made["latents"].abs().max())
            print(name, list(made["latents"].shape), f"pipeline in float32 apart {apart:.1e}, max {float(made['latents'].abs().max()):.2f}")
            assert apart < 1e-5
            about[f"{name}.error"] = repr(apart)
            for key in ("control", "start", "latents"):
                if key in made:
                    golden[f"{name}.{key}"] = made[key].float()
            if name in ("follow", "all", "v2v_unipc"):
                golden[f"{name}.frames"] = made["frames"]
    save_file({k: v.contiguous() for k, v in golden.items()}, HERE / "golden.safetensors", about)
    (HERE / "runs.json").write_text(json.dumps(dict(common=COMMON, runs=RUNS), indent=1) + "\n")


main()
