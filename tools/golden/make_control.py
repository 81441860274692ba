"""Makes the golden folder of a model with control blocks (VACE): values of the PyTorch reference, never our own.

    python tools/golden/make_control.py models/sprites-edit models/sprites-edit/golden [--frames 9] [--steps 10] [--seed 7]

As make_validation.py does (torch 2.11.0, diffusers 0.42.1, transformers 5.23.0; its words on errors hold here, too), for what is new in such a model:

    golden.json                what is in it, the SHA-256 of the weight files, the reference's own errors
    transformer.safetensors    random inputs with control, and float64 outputs of diffusers' WanVACETransformer3DModel
    control.png, mask.png      a video and its mask that training/edit/controls.py draws, frames side by side; picture.png: a reference
    generation.safetensors     final latents of a clip that follows all three, by the steps of diffusers' WanVACEPipeline in float64
    frames.png                 its frames side by side

diffusers' pipeline itself, in float32, must give the same latents; how far it is off is `pipeline_error`. Seed 5 draws the random inputs."""

import argparse
import hashlib
import json
import os
import pathlib
import sys
from types import SimpleNamespace

import torch
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "training" / "edit"), str(ROOT / "tests" / "reference"), str(pathlib.Path(__file__).parent)]
import footage  # noqa: E402
import heldout  # noqa: E402
import make_validation as made  # noqa: E402

import diffusers  # noqa: E402
import transformers  # noqa: E402
from diffusers import WanVACEPipeline  # noqa: E402

FILES = {"control_video": "control.png", "mask_video": "mask.png", "reference": "picture.png"}


class Controlled(torch.nn.Module):
    """The transformer with control latents that each precision has of its own."""

    def __init__(self, transformer, controls):
        super().__init__()
        self.inner, self.controls = transformer, controls

    @property
    def blocks(self):
        return self.inner.blocks

    def forward(self, x, t, context):
        return self.inner(x, t, context, control_hidden_states=self.controls[x.dtype])


def control_of(pipe, run, given, dtype):
    """Returns control latents as WanVACEPipeline makes them, computed in `dtype`."""
    vae = made.copy.deepcopy(pipe.vae).to(dtype)
    own, pipe.vae = pipe.vae, vae
    try:
        with torch.no_grad():
            video, mask = footage.compose(run, given)
            video, mask, pictures = pipe.preprocess_conditions(video, mask, given["references"], 1, run["height"], run["width"], run["num_frames"], dtype, "cpu")
            control = pipe.prepare_video_latents(video, mask, pictures)
            return torch.cat([control.to(dtype), pipe.prepare_masks(mask, pictures).to(dtype)], 1)
    finally:
        pipe.vae = own


def whole(pipe, golden, run, given):
    """Returns what golden.json says of the run, whose results it writes."""
    controls = {torch.float32: control_of(pipe, run, given, torch.float32), torch.bfloat16: control_of(pipe, run, given, torch.bfloat16)}
    with made.float64():
        controls[torch.float64] = control_of(pipe, run, given, torch.float64)

    class Cut(torch.nn.Module):
        """The autoencoder behind latents whose first frame is the reference."""

        def __init__(self, vae):
            super().__init__()
            self.vae, self.config = vae, vae.config

        def decode(self, x):
            return self.vae.decode(x[:, :, 1:])
    longer = {**run, "num_frames": run["num_frames"] + 4}  # the reference is a latent frame of its own
    stood = SimpleNamespace(text_encoder=pipe.text_encoder, tokenizer=pipe.tokenizer, transformer=Controlled(pipe.transformer, controls), vae=Cut(pipe.vae))
    results = {}
    for name in ("float64", "float32", "bfloat16", "fp8"):
        dtype = made.DTYPES.get(name, name)
        with torch.no_grad():
            if name == "float64":
                with made.float64():
                    results[name] = made.generate(stood, longer, dtype)
            else:
                results[name] = made.generate(stood, longer, dtype)
        print("made", name, flush=True)
    latents, frames = results["float64"][0][:, 1:], results["float64"][1]
    away = lambda x: (x.double() - latents.double()).abs() / latents.abs().max()  # noqa: E731
    pipeline = away(footage.pipeline(pipe, run, given)).max().item()
    assert pipeline < 1e-4, pipeline
    errors = {name: dict(latents=dict(max=away(x[:, 1:]).max().item(), mean=away(x[:, 1:]).mean().item()),
                         max_level=(f.int() - frames.int()).abs().max().item(), psnr=min(made.psnr(a, b) for a, b in zip(f, frames)))
              for name, (x, f) in results.items() if name != "float64"}
    made.save_file(dict(latents=latents.float().contiguous()), golden.out / "generation.safetensors")
    Image.fromarray(torch.cat(list(frames), 1).numpy()).save(golden.out / "frames.png", optimize=True)
    return dict(run={**run, **FILES}, errors=errors, pipeline_error=pipeline)


def transformer_stage(pipe, golden):
    torch.manual_seed(5)
    c = pipe.transformer.config

    def draw():
        return dict(hidden_states=torch.randn(1, c.in_channels, 2, 8, 12), timestep=torch.tensor([500.0]),
                    encoder_hidden_states=torch.randn(1, 16, c.text_dim) * 0.2, control_hidden_states=torch.randn(1, c.vace_in_channels, 2, 8, 12))

    def run(x, dtype):
        return made.in_precision(pipe.transformer, dtype, lambda m, d: [m(
            x["hidden_states"].to(d), x["timestep"], x["encoder_hidden_states"].to(d), control_hidden_states=x["control_hidden_states"].to(d)).sample])
    inputs = draw()
    outputs = dict(sample=run(inputs, torch.float64)[0])
    golden.stage("transformer", inputs, outputs, made.own_errors(run, inputs, outputs, draw, names=("float32", "bfloat16", "fp8")))


def draw_inputs(out, frames):
    """Draws an item of the held-out set for a reference at a drawn mask; returns what footage.py takes, and the caption."""
    item = next(i for i in heldout.items(2) if i["task"] == "placed")
    media = heldout.media(item)
    pick = range(0, 4 * frames, 4)  # every fourth frame, so that something moves
    control, mask = ([Image.fromarray(media[k][i].astype("uint8") * (255 if k == "mask" else 1)) for i in pick] for k in ("control", "mask"))
    picture = Image.fromarray(media["picture"])
    for name, list_ in (("control.png", control), ("mask.png", mask)):
        strip = Image.new(list_[0].mode, (list_[0].width * frames, list_[0].height))
        for i, f in enumerate(list_):
            strip.paste(f, (i * f.width, 0))
        strip.save(out / name, optimize=True)
    picture.save(out / "picture.png", optimize=True)
    return dict(control=control, mask=[m.convert("L") for m in mask], references=[picture], first=None, last=None, outpaint=None, keep=None), item["caption"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--frames", type=int, default=9)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(2)
    args.out.mkdir(parents=True, exist_ok=True)
    pipe = WanVACEPipeline.from_pretrained(args.model, torch_dtype=torch.float32)
    golden = made.Golden(args.out, [])
    transformer_stage(pipe, golden)
    given, caption = draw_inputs(args.out, args.frames)
    run = dict(prompt=caption, negative_prompt=made.NEGATIVE, width=128, height=128, num_frames=args.frames, num_inference_steps=args.steps,
               guidance_scale=3.0, flow_shift=3.0, sampler="unipc", grid="diffusers", seed=args.seed)
    generation = whole(pipe, golden, run, given)
    weights = {str(f.relative_to(args.model)): hashlib.sha256(f.read_bytes()).hexdigest()
               for f in sorted(args.model.glob("*/*.safetensors")) if args.out.resolve() not in f.resolve().parents}
    (args.out / "golden.json").write_text(json.dumps(dict(
        tachyscope_golden=2, model=os.path.relpath(args.model.resolve(), args.out.resolve()),
        made_with=f"torch {torch.__version__.split('+')[0]}, diffusers {diffusers.__version__}, transformers {transformers.__version__}",
        weights=weights, stages=golden.stages, generation=generation), indent=1) + "\n")
    for f in args.out.iterdir():
        f.chmod(0o644)
    print(f"{args.out}: {sum(f.stat().st_size for f in args.out.iterdir()) / 1e3:.0f} kB")
    print(json.dumps({k: generation[k] for k in ("errors", "pipeline_error")}, indent=1))


if __name__ == "__main__":
    main()
