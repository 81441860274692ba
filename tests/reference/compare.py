"""Compares this engine with the reference on fresh random inputs and weights, with a new seed each run.

Error means max|y - R| / max|R| where R is the reference in float64; e is the reference's own float32 error. Each stage
must stay within max(3e, 5e-6) (VAE: max(3e, 1e-5)); 20 steps with guidance within 1e-5."""

import argparse
import contextlib
import io
import multiprocessing
import os
import pathlib
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed

import diffusers
import torch
import transformers
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import causal_compare  # noqa: E402
import clip_pictures  # noqa: E402
import conversions  # noqa: E402
import experts  # noqa: E402
import footage  # noqa: E402
import footage_files  # noqa: E402
import generation  # noqa: E402
import gguf_files  # noqa: E402
import images  # noqa: E402
import loras  # noqa: E402
import layouts  # noqa: E402
import ops  # noqa: E402
import presets  # noqa: E402
import properties  # noqa: E402
import random_models as rm  # noqa: E402
import single_files  # noqa: E402
import sparse  # noqa: E402
import step_caches  # noqa: E402
import trained_files  # noqa: E402
import trained_sparse  # noqa: E402
import talk  # noqa: E402
import vae_command  # noqa: E402
import world_compare  # noqa: E402
import infinitetalk  # noqa: E402
import wav2vec2  # noqa: E402
from precision import error, float64  # noqa: E402

STAGE_BOUND, VAE_BOUND = 5e-6, 1e-5


class Context:
    """The binary, a scratch folder, the random source and the results so far."""

    def __init__(self, binary, folder, seed):
        self.binary, self.folder, self.rng = binary, pathlib.Path(folder), rm.fresh_rng(seed)
        self.repo = pathlib.Path(__file__).resolve().parents[2]
        self.failures, self.count = [], 0

    def run(self, *args):
        done = subprocess.run([self.binary, *map(str, args)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(map(str, args))}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def stage(self, name, model, inputs, *args):
        source, target = self.folder / "in.safetensors", self.folder / "out.safetensors"
        save_file({k: v.contiguous() for k, v in inputs.items()}, source)
        self.run("stage", name, "--model", model, "--in", source, "--out", target, *args)
        return load_file(target)

    def report(self, what, value, bound):
        self.count += 1
        ok = value <= bound
        print(f"{'ok  ' if ok else 'FAIL'} {what:<62} {value:.2e}  (bound {bound:.1e})")
        if not ok:
            self.failures.append(what)

    def check(self, what, y, reference64, reference32, floor):
        self.report(what, error(y, reference64), max(3 * error(reference32, reference64), floor))


def save(model, folder, bf16):
    """Saves a component; with bf16 the file holds rounded weights and the reference computes with those, widened."""
    with torch.no_grad():
        for p in model.parameters() if bf16 else ():
            p.copy_(p.to(torch.bfloat16))
    model.save_pretrained(folder)
    if bf16:
        file = next(folder.glob("*.safetensors"))
        save_file({k: v.to(torch.bfloat16) for k, v in load_file(file).items()}, file)
    return model


def compare_text_encoder(ctx, i):
    model = save(rm.text_encoder(ctx.rng), ctx.folder / f"t5-{i}", bf16=i % 2 == 1)
    batch, length = 2, ctx.rng.choice([7, 33, 64])
    ids = torch.randint(3, model.config.vocab_size, (batch, length))
    mask = torch.ones_like(ids)
    mask[1, length // 2:] = 0
    ids[1, length // 2:] = 0
    y = ctx.stage("text-encoder", ctx.folder / f"t5-{i}", {"input_ids": ids, "attention_mask": mask})["last_hidden_state"]
    with torch.no_grad():
        r32 = model(ids, mask).last_hidden_state
        with float64():
            r64 = model.double()(ids, mask).last_hidden_state
    ctx.check(f"text encoder {i}: {length} tokens, batch {batch}", y, r64, r32, STAGE_BOUND)


def compare_transformer(ctx, variant, i):
    model = save(rm.transformer(ctx.rng, variant), ctx.folder / f"dit-{variant}-{i}", bf16=i % 2 == 1)
    c = model.config
    batch, frames, h, w = 2, ctx.rng.choice([1, 3]), 2 * ctx.rng.randint(1, 5), 2 * ctx.rng.randint(1, 5)
    rows = 512
    inputs = {"hidden_states": torch.randn(batch, c.in_channels, frames, h, w)}
    text = torch.randn(batch, rows, c.text_dim)
    for b in range(batch):  # a prompt of n tokens has zeros after them
        text[b, ctx.rng.randint(1, 40):] = 0
    inputs["encoder_hidden_states"] = text
    tokens = frames * h // 2 * (w // 2)
    if variant == "ti2v":
        time_ = torch.full((batch, tokens), 0.0)
        time_[:, (h // 2) * (w // 2):] = torch.tensor([[937.0], [421.0]])
        inputs["timestep"] = time_
    else:
        inputs["timestep"] = torch.tensor([ctx.rng.randint(0, 1000) for _ in range(batch)])
    if variant == "i2v":
        inputs["encoder_hidden_states_image"] = torch.randn(batch, ctx.rng.choice([5, 257]), c.image_dim)
    if variant == "vace":
        inputs["control_hidden_states"] = torch.randn(batch, c.vace_in_channels, frames, h, w)
        inputs["control_hidden_states_scale"] = torch.tensor([ctx.rng.choice([0.0, 0.6, 1.0, -1.5]) for _ in c.vace_layers])
    y = ctx.stage("transformer", ctx.folder / f"dit-{variant}-{i}", inputs)["sample"]
    with torch.no_grad():
        r32 = model(**inputs).sample
        with float64():
            wide = {k: v.double() if k != "timestep" and v.is_floating_point() else v for k, v in inputs.items()}
            r64 = model.double()(**wide).sample
    ctx.check(f"transformer {variant} {i}: {c.num_attention_heads}x{c.attention_head_dim}, {c.num_layers} layers, {frames}x{h}x{w}",
              y, r64, r32, STAGE_BOUND)


def compare_vae(ctx, i):
    model = save(rm.vae(ctx.rng), ctx.folder / f"vae-{i}", bf16=i % 2 == 1)
    c = model.config
    latents = torch.randn(2, c.z_dim, ctx.rng.choice([1, 2, 4]), ctx.rng.randint(1, 5), ctx.rng.randint(1, 5))
    y = ctx.stage("vae-decode", ctx.folder / f"vae-{i}", {"latents": latents})["decoded"]
    frames = 4 * ctx.rng.randint(0, 2) + 1
    video = torch.rand(2, 3, frames, 8 * ctx.rng.randint(1, 4), 8 * ctx.rng.randint(1, 4)) * 2 - 1
    moments = ctx.stage("vae-encode", ctx.folder / f"vae-{i}", {"video": video})
    with torch.no_grad():
        d32, e32 = model.decode(latents).sample, model.encode(video).latent_dist
        with float64():
            model.double()
            d64, e64 = model.decode(latents.double()).sample, model.encode(video.double()).latent_dist
    label = f"vae {i}: base {c.base_dim}, z {c.z_dim}"
    ctx.check(f"{label}: decode {list(latents.shape)}", y, d64, d32, VAE_BOUND)
    ctx.check(f"{label}: encode {list(video.shape)} mean", moments["mean"], e64.mean, e32.mean, VAE_BOUND)
    ctx.check(f"{label}: encode {list(video.shape)} logvar", moments["logvar"], e64.logvar, e32.logvar, VAE_BOUND)


def compare_noise(ctx):
    for n in [1, 15, 16, 17, ctx.rng.randint(18, 5000), 16 * 9 * 16 * 16]:
        seed = ctx.rng.randrange(2**63)
        out = ctx.folder / "noise.safetensors"
        ctx.run("stage", "noise", "--seed", seed, "--shape", n, "--out", out)
        want = torch.randn(n, generator=torch.Generator().manual_seed(seed))
        ctx.report(f"noise of {n} values, seed {seed}", (load_file(out)["noise"] - want).abs().max().item(), 4e-6)


GROUPS = {  # the longest come first, so that workers end together
    "conversions": lambda ctx, args: conversions.compare(ctx),
    "presets": lambda ctx, args: presets.compare(ctx),
    "properties": lambda ctx, args: properties.compare(ctx, args.seed, args.draw),
    "loras": lambda ctx, args: loras.compare(ctx),
    "noise": lambda ctx, args: compare_noise(ctx),
    "ops": lambda ctx, args: ops.compare(ctx, args.draws),
    "text-encoder": lambda ctx, args: [compare_text_encoder(ctx, i) for i in range(args.draws)],
    "image-encoder": lambda ctx, args: clip_pictures.compare(ctx, args.draws, STAGE_BOUND),
    "infinitetalk": lambda ctx, args: infinitetalk.compare(ctx, args.draws, STAGE_BOUND),
    "causal": lambda ctx, args: causal_compare.compare(ctx, args.draws, STAGE_BOUND),
    "world": lambda ctx, args: world_compare.compare(ctx, args.draws),
    "talking-photo": lambda ctx, args: talk.compare(ctx),
    "audio-encoder": lambda ctx, args: wav2vec2.compare(ctx, args.draws, STAGE_BOUND),
    "transformer": lambda ctx, args: [compare_transformer(ctx, v, i) for v in ("t2v", "i2v", "ti2v", "vace") for i in range(args.draws)],
    "vae": lambda ctx, args: [compare_vae(ctx, i) for i in range(args.draws)],
    "vae-command": lambda ctx, args: vae_command.compare(ctx),
    "layouts": lambda ctx, args: layouts.compare(ctx),
    "samplers": lambda ctx, args: generation.compare_schedules(ctx),
    "generation": lambda ctx, args: generation.compare_generation(ctx),
    "images": lambda ctx, args: images.compare(ctx),
    "experts": lambda ctx, args: experts.compare(ctx),
    "footage": lambda ctx, args: footage.compare(ctx),
    "footage-files": lambda ctx, args: footage_files.compare(ctx),
    "sparse": lambda ctx, args: sparse.compare(ctx),
    "trained-sparse": lambda ctx, args: trained_sparse.compare(ctx),
    "trained-files": lambda ctx, args: trained_files.compare(ctx),
    "step-caches": lambda ctx, args: step_caches.compare(ctx),
    "tokens": lambda ctx, args: generation.compare_tokens(ctx),
    "single-files": lambda ctx, args: single_files.compare(ctx),
    "gguf": lambda ctx, args: gguf_files.compare(ctx),
    "shipped": lambda ctx, args: generation.compare_shipped(ctx),
}


def run_group(name, args):
    """Returns what the group printed, how many comparisons it made, which failed, and its seconds. Its random numbers depend on the seed and its
    name, not on the groups that ran before it."""
    for library in (diffusers, transformers):
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
    torch.set_num_threads(1 if args.workers > 1 else torch.get_num_threads())
    seed = (args.seed + zlib.crc32(name.encode())) % 2**31
    torch.manual_seed(seed)
    start, said, failures, count = time.time(), io.StringIO(), [], 0
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
        ctx = Context(args.binary, folder, seed)
        try:
            GROUPS[name](ctx, args)
        except Exception:
            failures.append(name)
            print(f"FAIL {name}: {traceback.format_exc()}")
        failures, count = failures + ctx.failures, ctx.count
    return name, said.getvalue(), count, failures, time.time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31))
    parser.add_argument("--draws", type=int, default=6, help="random models per stage and variant")
    parser.add_argument("--draw", type=int, default=None, help="of the property test, this draw alone")
    parser.add_argument("--only", default="", help="run the groups whose name contains this")
    parser.add_argument("--workers", type=int, default=min(4, os.cpu_count()), help="groups at a time, each with one thread of PyTorch")
    args = parser.parse_args()
    print(f"seed {args.seed} (repeat with --seed {args.seed}), torch {torch.__version__}", flush=True)
    start, count, failures = time.time(), 0, []
    names = [name for name in GROUPS if args.only in name]
    with ProcessPoolExecutor(args.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run_group, name, args) for name in names]):
            name, said, compared, failed, seconds = done.result()
            print(f"{said}{name}: {compared} comparisons, {seconds:.0f} s", flush=True)
            count, failures = count + compared, failures + failed
    print(f"{time.time() - start:.0f} s")
    print(f"{count - len(failures)} passed, {len(failures)} failed{': ' if failures else ''}{', '.join(failures)}")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
