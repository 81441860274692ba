"""Makes the golden folder with which `tachyscope validate` compares a model: values of the PyTorch reference, never our own.

    python tools/golden/make_validation.py MODEL OUT [--size 128x128] [--frames 9] [--steps 20] [--prompt …] [--seed 7]

MODEL is a diffusers folder, OUT the folder to make; a model that ships keeps it as MODEL/golden. Needs the packages of
tests/reference/requirements.txt (made with torch 2.11.0, diffusers 0.42.1, transformers 5.23.0). Every stage and a whole
generation run in float64; the folder also has the reference's own errors in float32 and bfloat16, because the bounds are three times those, and the
transformer's errors in bfloat16 with linear layers in fp8 (tests/reference/fp8.py). The largest error of one draw is a noisy figure (a norm of a
nearly zero vector enlarges rounding a hundredfold), so where inputs are random it is the largest of five draws, and the mean error is kept too. Seed
5.

    golden.json             what is in it, the SHA-256 of the weight files, the reference's own errors
    STAGE.safetensors       inputs and float64 outputs of a stage, named as `tachyscope stage` names them
    generation.safetensors  final latents of the whole run
    frames.png              its frames side by side
"""

import argparse
import copy
import hashlib
import json
import math
import os
import pathlib
import sys

import torch
from diffusers import WanPipeline
from PIL import Image
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import fp8  # noqa: E402
import generation  # noqa: E402
from precision import float64  # noqa: E402

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
NEGATIVE = "ugly"
DRAWS = 5


def psnr(a, b):
    mse = ((a.double() - b.double()) ** 2).mean().item()
    return 10 * math.log10(255**2 / mse) if mse else 999.0


class Golden:
    def __init__(self, out, only):
        self.out, self.only, self.stages = out, only, []

    def wants(self, name):
        return not self.only or name in self.only

    def stage(self, name, inputs, outputs, errors, **params):
        """outputs: name -> float64; errors: name -> {dtype: the reference's own max and mean}, or {} when exact."""
        if not self.wants(name):
            return
        tensors = {k: (v.float() if v.is_floating_point() else v).contiguous() for k, v in {**inputs, **outputs}.items()}
        save_file(tensors, self.out / f"{name}.safetensors")
        self.stages.append(dict(stage=name, outputs={k: errors.get(k, {}) for k in outputs}, **params))


def own_errors(run, inputs, outputs, draw=None, names=("float32", "bfloat16")):
    """Returns the reference's errors in each lower precision against float64, by run(inputs, precision) -> outputs: the largest and the
    highest mean of the stored inputs and of DRAWS - 1 more made by draw()."""
    errors = {k: {name: dict(max=0.0, mean=0.0) for name in names} for k in outputs}
    for i in range(DRAWS if draw else 1):
        if i:
            inputs, outputs = draw(), None
        outputs = outputs or dict(zip(errors, run(inputs, torch.float64)))
        for name in names:
            for (k, want), got in zip(outputs.items(), run(inputs, DTYPES.get(name, name))):
                e = (got.double() - want.double()).abs() / want.double().abs().max()
                own = errors[k][name]
                own["max"], own["mean"] = max(own["max"], e.max().item()), max(own["mean"], e.mean().item())
    return errors


def in_precision(model, dtype, call):
    model = copy.deepcopy(model)  # rounding the weights must not outlive the call
    if dtype == "fp8":
        fp8.round_layers(model)
        dtype = torch.bfloat16
    model = model.to(dtype)
    with torch.no_grad():
        if dtype != torch.float64:
            return call(model, dtype)
        with float64():
            return call(model, dtype)


def single_stages(pipe, golden, prompt):
    torch.manual_seed(5)
    ids = pipe.tokenizer([prompt], padding="max_length", max_length=512, truncation=True, return_attention_mask=True, return_tensors="pt")
    golden.stage("tokenize", {}, dict(input_ids=ids.input_ids, attention_mask=ids.attention_mask), {}, prompt=prompt)

    length = int(ids.attention_mask.sum())
    short = dict(input_ids=ids.input_ids[:, :length], attention_mask=ids.attention_mask[:, :length])

    def measured(name, inputs, keys, run, draw=None, **more):
        if golden.wants(name):
            outputs = dict(zip(keys, run(inputs, torch.float64)))
            golden.stage(name, inputs, outputs, own_errors(run, inputs, outputs, draw, **more))

    def text(x, dtype):
        return in_precision(pipe.text_encoder, dtype, lambda m, _: [m(x["input_ids"], x["attention_mask"]).last_hidden_state])
    measured("text-encoder", short, ["last_hidden_state"], text)

    c = pipe.transformer.config
    hidden = text(short, torch.float64)[0].float()
    rows = torch.cat([hidden, torch.zeros(1, 8, hidden.shape[2])], 1)

    def draw_latents():
        return dict(hidden_states=torch.randn(1, c.in_channels, 2, 8, 12), timestep=torch.tensor([500.0]), encoder_hidden_states=rows)

    def transformer(x, dtype):
        return in_precision(pipe.transformer, dtype, lambda m, d: [m(
            x["hidden_states"].to(d), x["timestep"], x["encoder_hidden_states"].to(d)).sample])
    measured("transformer", draw_latents(), ["sample"], transformer, draw_latents, names=("float32", "bfloat16", "fp8"))

    z = pipe.vae.config.z_dim

    def decode(x, dtype):
        return in_precision(pipe.vae, dtype, lambda m, d: [m.decode(x["latents"].to(d)).sample])
    draw = lambda: dict(latents=torch.randn(1, z, 2, 4, 6))  # noqa: E731
    measured("vae-decode", draw(), ["decoded"], decode, draw)

    def encode(x, dtype):
        def call(m, d):
            posterior = m.encode(x["video"].to(d)).latent_dist
            return [posterior.mean, posterior.logvar]
        return in_precision(pipe.vae, dtype, call)
    draw = lambda: dict(video=torch.rand(1, 3, 5, 32, 48) * 2 - 1)  # noqa: E731
    measured("vae-encode", draw(), ["mean", "logvar"], encode, draw)

    scheduler = generation.scheduler("unipc", 3.0)
    scheduler.set_timesteps(20)
    golden.stage("sampler", {}, dict(sigmas=scheduler.sigmas, timesteps=scheduler.timesteps), {}, sampler="unipc", grid="diffusers", steps=20, shift=3.0)
    noise = torch.randn(1, z, 2, 4, 6, generator=torch.Generator().manual_seed(11))
    golden.stage("noise", {}, dict(noise=noise), {}, seed=11, shape=list(noise.shape))


def generate(pipe, run, dtype):
    """Returns final latents and frames [T, H, W, 3] u8, computed in `dtype` ("fp8": bfloat16 except in the fp8 layers); the sampler runs in float64
    or float32."""
    transformer = copy.deepcopy(pipe.transformer)
    if dtype == "fp8":
        fp8.round_layers(transformer)
        dtype = torch.bfloat16
    text_encoder, transformer, vae = (m.to(dtype) for m in (copy.deepcopy(pipe.text_encoder), transformer, copy.deepcopy(pipe.vae)))

    def encode(text):
        ids = pipe.tokenizer([text], padding="max_length", max_length=512, truncation=True, return_attention_mask=True, return_tensors="pt")
        rows = text_encoder(ids.input_ids, ids.attention_mask).last_hidden_state[:, : int(ids.attention_mask.sum())]
        return torch.cat([rows, torch.zeros(1, 512 - rows.shape[1], rows.shape[2], dtype=rows.dtype)], 1)

    wide = torch.float64 if dtype == torch.float64 else torch.float32
    texts = encode(run["prompt"]), encode(run["negative_prompt"])
    c = pipe.vae.config
    stride, frames = 8, (run["num_frames"] - 1) // 4 + 1
    x = torch.randn(1, c.z_dim, frames, run["height"] // stride, run["width"] // stride, generator=torch.Generator().manual_seed(run["seed"])).to(wide)

    def velocity(x, t):
        if run["guidance_scale"] <= 1:
            return transformer(x.to(dtype), t[None], texts[0]).sample.to(wide)
        v, u = (transformer(x.to(dtype), t[None], e).sample.to(wide) for e in texts)
        return u + run["guidance_scale"] * (v - u)

    if run["grid"] == "original":
        sigma, timesteps = generation.original_grid(run["sampler"], run["num_inference_steps"], run["flow_shift"])
        x = generation.original_steps(run["sampler"], x, sigma, lambda i, x: velocity(x, torch.tensor(timesteps[i], dtype=torch.float32)))
    else:
        scheduler = generation.scheduler(run["sampler"], run["flow_shift"])
        scheduler.set_timesteps(run["num_inference_steps"])
        for t in scheduler.timesteps:
            x = scheduler.step(velocity(x, t), t, x, return_dict=False)[0]
    mean, std = (torch.tensor(v, dtype=wide).view(1, -1, 1, 1, 1) for v in (c.latents_mean, c.latents_std))
    pixels = vae.decode((x * std + mean).to(dtype)).sample[0]
    return x[0], ((pixels.to(wide) / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 3, 0)


def whole_generation(pipe, golden, run):
    with torch.no_grad(), float64():
        latents, frames = generate(pipe, run, torch.float64)
    errors = {}
    for name in ("float32", "bfloat16", "fp8"):
        with torch.no_grad():
            x, f = generate(pipe, run, DTYPES.get(name, name))
        away = (x.double() - latents.double()).abs() / latents.abs().max()
        errors[name] = dict(latents=dict(max=away.max().item(), mean=away.mean().item()), max_level=(f.int() - frames.int()).abs().max().item(),
                            psnr=min(psnr(a, b) for a, b in zip(f, frames)))
    save_file(dict(latents=latents.float().contiguous()), golden.out / "generation.safetensors")
    Image.fromarray(torch.cat(list(frames), 1).numpy()).save(golden.out / "frames.png", optimize=True)
    return dict(run=run, errors=errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--size", default="128x128")
    parser.add_argument("--frames", type=int, default=9)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=3.0)
    parser.add_argument("--sampler", default="unipc", choices=generation.SAMPLERS)
    parser.add_argument("--grid", default="diffusers", choices=("diffusers", "original"))
    parser.add_argument("--stages", default="", help="only these, separated by commas (default: all)")
    parser.add_argument("--prompt", default="a red circle moves right over hills at day")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    width, height = map(int, args.size.split("x"))
    args.out.mkdir(parents=True, exist_ok=True)
    pipe = WanPipeline.from_pretrained(args.model, torch_dtype=torch.float32)
    golden = Golden(args.out, args.stages.split(",") if args.stages else [])
    single_stages(pipe, golden, args.prompt)
    run = dict(prompt=args.prompt, negative_prompt=NEGATIVE, width=width, height=height, num_frames=args.frames, num_inference_steps=args.steps,
               guidance_scale=args.guidance, flow_shift=3.0, sampler=args.sampler, grid=args.grid, seed=args.seed)
    whole = whole_generation(pipe, golden, run)
    weights = {str(f.relative_to(args.model)): hashlib.sha256(f.read_bytes()).hexdigest()
               for f in sorted(args.model.glob("*/*.safetensors")) if args.out.resolve() not in f.resolve().parents}
    import diffusers
    import transformers
    (args.out / "golden.json").write_text(json.dumps(dict(
        tachyscope_golden=2, model=os.path.relpath(args.model.resolve(), args.out.resolve()),
        made_with=f"torch {torch.__version__.split('+')[0]}, diffusers {diffusers.__version__}, transformers {transformers.__version__}",
        weights=weights, stages=golden.stages, generation=whole), indent=1) + "\n")
    for f in args.out.iterdir():
        f.chmod(0o644)
    total = sum(f.stat().st_size for f in args.out.iterdir())
    print(f"{args.out}: {total / 1e3:.0f} kB")
    print(json.dumps(whole["errors"], indent=1))


if __name__ == "__main__":
    main()
