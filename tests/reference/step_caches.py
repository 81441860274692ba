"""The published step caches, written down once more from their papers and code for Wan, around diffusers' transformer:

    EasyCache (arXiv 2507.02860), TeaCache (2411.19108), MagCache (2506.09045): the functions below
    TaylorSeer (2503.06923): diffusers' own hook, TaylorSeerCacheConfig in its lite mode

`compare` runs them on fresh random models. tests/golden/step_caches/make.py makes golden files with them."""

import contextlib
import json
import re

import numpy as np
import torch
from diffusers import WanPipeline
from diffusers.hooks import TaylorSeerCacheConfig
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

import generation
import random_models as rm
from precision import float64

KINDS = ("easycache", "teacache", "magcache", "taylorseer")
CLOSE = 1e-3  # a sum that is this close to its threshold, relatively, could be turned round by rounding


class Add(torch.nn.Module):
    """Stands in for all blocks of a transformer: adds what they added in an earlier step."""

    def __init__(self, added):
        super().__init__()
        self.added = added

    def forward(self, x, *_):
        return x + self.added


class Cached:
    """Predicts velocities of the branches of guidance in the steps of one network. Subclasses say how a step decides. `made` lists for each step and
    branch whether the transformer's blocks ran; `margin` is how close a decision was."""

    def __init__(self, dit, steps, threshold):
        self.dit, self.steps, self.threshold, self.made, self.margin = dit, steps, threshold, [], 1.0

    def below(self, value):
        self.margin = min(self.margin, abs(value - self.threshold) / self.threshold)
        return value < self.threshold

    def velocities(self, i, x, t, texts):
        self.made.append([])
        return [self.branch(i, b, x, t, text) for b, text in enumerate(texts)]

    def model(self, x, t, text):
        self.made[-1].append(1)
        return self.dit(x, t, text).sample


class EasyCache(Cached):
    first = 10

    def __init__(self, *args):
        super().__init__(*args)
        self.k = self.before = self.computed_from = None
        self.sum, self.out, self.moved = 0.0, {}, {}

    def branch(self, i, b, x, t, text):
        if b == 0:
            self.computes = True
            if i < self.first or i == self.steps - 1:
                self.sum = 0.0
            elif self.k is not None:
                self.sum += (self.k * (x - self.before).abs().mean() / self.out[0].abs().mean()).item()
                self.computes = not self.below(self.sum)
                if self.computes:
                    self.sum = 0.0
            self.before = x
        if not self.computes:
            self.made[-1].append(0)
            return x + self.moved[b]
        v = self.model(x, t, text)
        if b == 0:
            if self.computed_from is not None:
                self.k = ((v - self.out[0]).abs().mean() / (x - self.computed_from).abs().mean()).item()
            self.computed_from = x
        self.out[b], self.moved[b] = v, v - x
        return v


class OfBlocks(Cached):
    """Keeps what the blocks added, for each branch."""

    def __init__(self, *args):
        super().__init__(*args)
        self.added = {}

    def branch(self, i, b, x, t, text):
        if self.reuses(i, b, t, text):
            self.made[-1].append(0)
            blocks, self.dit.blocks = self.dit.blocks, torch.nn.ModuleList([Add(self.added[b])])
            try:
                return self.dit(x, t, text).sample
            finally:
                self.dit.blocks = blocks
        seen = {}
        hooks = [self.dit.blocks[0].register_forward_pre_hook(lambda _, args: seen.update(first=args[0])),
                 self.dit.blocks[-1].register_forward_hook(lambda _, args, out: seen.update(last=out))]
        v = self.model(x, t, text)
        for hook in hooks:
            hook.remove()
        self.added[b] = seen["last"] - seen["first"]
        return v


class TeaCache(OfBlocks):
    def __init__(self, *args, coefficients):
        super().__init__(*args)
        self.polynomial, self.embedding, self.sum = np.poly1d(coefficients), {}, {}

    def reuses(self, i, b, t, text):
        e = self.dit.condition_embedder(t, text, None)[0]
        return self.decide(i, b, e)

    def decide(self, i, b, e):
        before, self.embedding[b] = self.embedding.get(b), e
        if i == 0 or i == self.steps - 1:
            self.sum[b] = 0.0
            return False
        self.sum[b] += float(self.polynomial(((e - before).abs().mean() / before.abs().mean()).item()))
        if self.below(self.sum[b]):
            return True
        self.sum[b] = 0.0
        return False


class MagCache(OfBlocks):
    """`ratios` alternate between the prompt and the negative prompt, from the second step on. `split`: the number of steps of the first of two
    experts, whose steps are all computed if `whole`."""

    def __init__(self, *args, ratios, most, retention, split=0, whole=False):
        super().__init__(*args)
        table = np.array([1.0, 1.0] + list(ratios))
        self.ratios = [nearest(table[b::2], self.steps) for b in range(2)]
        self.most, self.retention, self.split, self.whole = most, retention, split, whole
        self.begin()

    def begin(self):
        """Another network takes over: each of two experts begins anew."""
        self.state, self.ran = {b: (1.0, 0.0, 0) for b in range(2)}, set()

    def retained(self, call):
        calls, split = 2 * self.steps, 2 * self.split
        if self.split == 0:
            return call < int(calls * self.retention)
        if self.whole:
            return call < int(split + (calls - split) * self.retention)
        return call < int(split * self.retention) or split <= call <= (calls - split) * self.retention + split

    def reuses(self, i, b, *_):
        if self.retained(2 * i + b):
            self.ran.add(b)
            return False
        ratio, error, reused = self.state[b]
        ratio, reused = ratio * self.ratios[b][i], reused + 1
        error += abs(1 - ratio)
        if self.below(error) and reused <= self.most and b in self.ran:  # the published code would fail where nothing is kept yet
            self.state[b] = ratio, error, reused
            return True
        self.state[b] = 1.0, 0.0, 0
        self.ran.add(b)
        return False


def nearest(table, steps):
    if steps == 1:
        return table[-1:]
    return table[np.round(np.arange(steps) * ((len(table) - 1) / (steps - 1))).astype(int)]


class TaylorSeer(Cached):
    """diffusers' hook; `threshold` is its interval."""

    def __enter__(self):
        self.dit.enable_cache(TaylorSeerCacheConfig(cache_interval=self.threshold, disable_cache_before_step=3, max_order=1,
                                                    taylor_factors_dtype=torch.float64, use_lite_mode=True))
        self.hook = self.dit.blocks[0].attn1.register_forward_hook(lambda *_: self.ran.append(1))
        return self

    def __exit__(self, *_):
        self.hook.remove()
        self.dit.disable_cache()

    def branch(self, i, b, x, t, text):
        self.ran = []
        with self.dit.cache_context(("cond", "uncond")[b]):
            v = self.dit(x, t, text).sample
        self.made[-1].append(len(self.ran))
        return v


def denoise(cache, start, texts, guidance, scheduler):
    """Returns the final latents."""
    x = start.double()
    with torch.no_grad(), cache if hasattr(cache, "__enter__") else contextlib.nullcontext():
        for i, t in enumerate(scheduler.timesteps):
            v = cache.velocities(i, x, t[None], texts)
            v = v[0] if len(v) == 1 else v[1] + guidance * (v[0] - v[1])
            x = scheduler.step(v, t, x, return_dict=False)[0]
    return x


def cache_of(kind, dit, steps, values):
    if kind == "easycache":
        return EasyCache(dit, steps, values["easycache"])
    if kind == "teacache":
        return TeaCache(dit, steps, values["teacache_threshold"], coefficients=values["teacache_coefficients"])
    if kind == "magcache":
        return MagCache(dit, steps, values["magcache_threshold"], ratios=values["magcache_ratios"], most=values["magcache_steps"],
                        retention=values["magcache_retention"])
    return TaylorSeer(dit, steps, values["taylorseer"])


def ratios_of(file):
    """Returns the published tables of ratios by the names that src/resolve/magcache_ratios.inc gives them."""
    return {name: [float(x) for x in re.findall(r"[\d.]+", numbers)]
            for name, numbers in re.findall(r"double (\w+)\[\] = \{(.*?)\};", file.read_text(), re.S)}


def random_values(rng):
    """Numbers with which small random models skip some steps and not others."""
    count = rng.randint(12, 30)
    ratios = [round(1 - rng.uniform(0, 0.05), 5) for _ in range(2 * (count - 1))]
    return dict(easycache=rng.choice([0.3, 0.5, 0.8]), teacache_threshold=rng.choice([0.3, 0.5]), teacache_coefficients=[0.2, 0.1, rng.choice([0.02, 0.05])],
                magcache_threshold=rng.choice([0.05, 0.1]), magcache_ratios=ratios, magcache_steps=rng.randint(2, 4), magcache_retention=rng.choice([0.1, 0.2]),
                taylorseer=rng.choice([2, 3, 5]))


def compare_run(ctx, kind, folder):
    folder.mkdir()
    rm.tiny_tokenizer(folder / "tokenizer-source")
    pipe = WanPipeline(tokenizer=PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer-source"),
                       text_encoder=rm.text_encoder(ctx.rng, d_model=24, vocab_size=64), vae=rm.vae(ctx.rng, base_dim=8, z_dim=4, num_res_blocks=1),
                       scheduler=generation.scheduler("unipc", 3.0),
                       transformer=rm.transformer(ctx.rng, in_channels=4, out_channels=4, text_dim=24, num_layers=2, ffn_dim=48))
    pipe.set_progress_bar_config(disable=True)
    pipe.save_pretrained(folder / "model")
    values, steps, seed, guidance = random_values(ctx.rng), ctx.rng.randint(14, 24), ctx.rng.randrange(2**31), ctx.rng.choice([1.0, 4.0])
    own = {k: v for k, v in values.items() if k.startswith(("teacache", "magcache"))}
    (folder / "model" / "generation_config.json").write_text(json.dumps(own))
    threshold = {"easycache": values["easycache"], "taylorseer": 1 - 1 / values["taylorseer"]}.get(kind)
    width, height, frames = 16 * ctx.rng.randint(2, 4), 16 * ctx.rng.randint(2, 4), 5
    ctx.run("generate", "the red cat moves", "-n", "ugly", "--model", folder / "model", "--size", f"{width}x{height}", "--frames", frames, "--steps", steps,
            "--guidance", guidance, "--shift", 3, "--seed", seed, "--sampler", "unipc", "--step-cache-kind", kind,
            *(["--step-cache", threshold] if threshold else []), "--save-latents", folder / "out.safetensors", "-q", "-o", f"{folder}/frames/")
    with torch.no_grad():
        rows = pipe.encode_prompt("the red cat moves", "ugly", guidance > 1, device="cpu", max_sequence_length=512)
    texts = [r.double() for r in rows if r is not None]
    start = torch.randn(1, 4, (frames + 3) // 4, height // 8, width // 8, generator=torch.Generator().manual_seed(seed))

    def latents(make):
        scheduler = generation.scheduler("unipc", 3.0)
        scheduler.set_timesteps(steps)
        dit = pipe.transformer.double()
        cache = make(dit)
        with float64():
            return cache, denoise(cache, start, texts, guidance, scheduler)

    cache, want = latents(lambda dit: cache_of(kind, dit, steps, values))
    plain = latents(lambda dit: Never(dit, steps, 1.0))[1]
    if cache.margin < CLOSE or all(map(all, cache.made)):
        return False
    skipped = sum(not any(of_step) for of_step in cache.made)
    label = f"step cache {kind}, {'guided' if guidance > 1 else 'alone'}: {skipped} of {steps} steps skipped"
    ctx.report(label, generation.relative(load_file(folder / "out.safetensors")["latents"], want[0]), 1e-5)
    ctx.report(f"{label}: how little it changes", 1e-4 / max(generation.relative(plain[0], want[0]), 1e-30), 1.0)
    return True


class Never(Cached):
    def branch(self, i, b, x, t, text):
        return self.model(x, t, text)


def compare(ctx):
    for kind in KINDS:
        for draw in range(8):
            if compare_run(ctx, kind, ctx.folder / f"step-cache-{kind}-{draw}"):
                break
        else:
            ctx.report(f"step cache {kind}: eight draws that skip nothing, or that rounding could turn round", 1.0, 0.0)
