"""Compares block-sparse attention in whole runs on fresh random models with diffusers' pipelines, whose self-attention gets an equivalent mask:
text-to-video, image-to-video, a given first frame, and two experts.

The order of the tokens and both ways of choosing blocks are written down here once more, from their descriptions
(src/models/wan/sparse.h, src/ops/choose_blocks/choose_blocks.h). diffusers' tokens stay in their own order: query i sees key
j where the block of i's place lists the block of j's."""

import math

import torch
import torch.nn.functional as F
from diffusers import WanImageToVideoPipeline, WanPipeline
from diffusers.models.transformers import transformer_wan
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

import generation
import images
import random_models as rm

BLOCK = 128  # tokens
SIDE = 5  # a rod has about this many frames and rows
CLOSE = 1e-4  # scores closer than this share of their spread may be ordered by rounding


def places(frames, rows, columns):
    """Returns each token's place in the order of rods, for tokens by frames, rows and columns."""
    def parts(extent):
        count = max(1, (2 * extent + SIDE) // (2 * SIDE))
        return [range(i * extent // count, (i + 1) * extent // count) for i in range(count)]

    out, place, rod = torch.empty(frames, rows, columns, dtype=torch.int64), 0, 0
    for i, slab in enumerate(parts(frames)):
        for high in parts(rows)[::1 if i % 2 == 0 else -1]:  # back and forth
            for column in range(columns)[::1 if rod % 2 == 0 else -1]:
                for t in slab:
                    for h in high:
                        out[t, h, column] = place
                        place += 1
            rod += 1
    return out.flatten()


def sliding_tile(grid, place, keep):
    """Returns bools [blocks, blocks]: the nearest blocks by their centres, in the grid's shape."""
    block = place // BLOCK
    middles = []
    at = torch.stack(torch.meshgrid(*(torch.arange(n) for n in grid), indexing="ij"), -1).flatten(0, 2)
    for b in range(int(block.max()) + 1):
        own = at[block == b]
        middles.append([(int(own[:, i].sum()) << 20) // (len(own) * grid[i]) for i in range(3)])
    seen = torch.zeros(len(middles), len(middles), dtype=torch.bool)
    for i, query in enumerate(middles):
        apart = [[abs(a - b) for a, b in zip(query, key)] for key in middles]
        order = sorted(range(len(middles)), key=lambda j: (j != i, max(apart[j]), sum(apart[j]), j))
        seen[i, order[:keep]] = True
    return seen


class SparseAttention:
    """Stands in for diffusers' dispatch_attention_fn: self-attention over `grid` gets a mask after the dense steps."""

    def __init__(self, grid, share, chooser, dense_steps):
        self.grid, self.chooser, self.dense_steps, self.step, self.masked, self.closest = grid, chooser, dense_steps, 0, 0, 1.0
        self.place = places(*grid)
        self.block = self.place // BLOCK
        blocks = int(self.block.max()) + 1
        self.keep = min(max(math.floor(share * blocks + 0.5), 1), blocks)
        self.own = torch.eye(blocks, dtype=torch.bool)
        self.near = sliding_tile(grid, self.place, self.keep)
        self.dense = transformer_wan.dispatch_attention_fn

    def top_k(self, q, k):
        """Returns bools [batch, heads, blocks, blocks]: the blocks whose mean keys have the largest products with the mean query."""
        means = [torch.stack([x[:, self.block == b].double().mean(1) for b in range(len(self.own))], 1) for x in (q, k)]
        scores = torch.einsum("bihd,bjhd->bhij", *means)
        spread = scores.std(-1, keepdim=True)
        scores = scores.masked_fill(self.own, float("inf"))
        best = scores.sort(-1, descending=True)
        if 1 < self.keep < len(self.own):
            gap = (best.values[..., self.keep - 1] - best.values[..., self.keep])[..., None] / spread
            self.closest = min(self.closest, gap.min().item())
        return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, best.indices[..., :self.keep], True)

    def __call__(self, query, key, value, attn_mask=None, **rest):
        tokens = len(self.place)
        if query.shape[1] != tokens or key.shape[1] != tokens or self.step < self.dense_steps:
            return self.dense(query, key, value, attn_mask=attn_mask, **rest)
        assert attn_mask is None
        seen = self.near if self.chooser == "sliding-tile" else self.top_k(query, key)
        mask = seen[..., self.block, :][..., self.block]
        self.masked += 1
        q, k, v = (t.transpose(1, 2) for t in (query, key, value))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)

    def __enter__(self):
        transformer_wan.dispatch_attention_fn = self
        return self

    def __exit__(self, *_):
        transformer_wan.dispatch_attention_fn = self.dense

    def after_step(self, pipe, step, timestep, tensors):
        self.step = step + 1
        return tensors


def pipeline(ctx, variant, folder):
    """Makes a model of one of the kinds, with a head size large enough for the choice of blocks to matter."""
    if variant == "ti2v":
        return images.pipeline(ctx, variant, folder)
    z, image = ctx.rng.choice([4, 6]), variant.endswith("i2v22")
    size = dict(num_attention_heads=2, attention_head_dim=ctx.rng.choice([12, 32]), text_dim=24, in_channels=2 * z + 4 if image else z,
                out_channels=z, num_layers=2, ffn_dim=48)
    rm.tiny_tokenizer(folder / "tokenizer-source")
    experts = dict(transformer_2=rm.transformer(ctx.rng, **size), boundary_ratio=0.875) if variant.startswith("experts") else {}
    make = WanImageToVideoPipeline if image else WanPipeline
    pipe = make(tokenizer=PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer-source"),
                text_encoder=rm.text_encoder(ctx.rng, d_model=24, vocab_size=64), vae=rm.vae(ctx.rng, base_dim=8, z_dim=z, num_res_blocks=1),
                scheduler=generation.scheduler("unipc", 3.0), transformer=rm.transformer(ctx.rng, **size), **experts)
    pipe.set_progress_bar_config(disable=True)
    pipe.save_pretrained(folder / "model")
    return pipe


def compare_run(ctx, variant, chooser, folder):
    folder.mkdir()
    pipe = pipeline(ctx, variant, folder)
    pixels = 32 if variant == "ti2v" else 16  # pixels of a token's side
    grid = 3, ctx.rng.randint(9, 12), ctx.rng.randint(12, 16)
    steps, dense_steps, share, seed = 5, ctx.rng.randint(0, 2), ctx.rng.choice([0.3, 0.5, 0.7]), ctx.rng.randrange(2**31)
    width, height = grid[2] * pixels, grid[1] * pixels
    call = dict(prompt="the red cat moves", negative_prompt="ugly", width=width, height=height, num_frames=9, num_inference_steps=steps,
                guidance_scale=4.0, output_type="latent")
    args = ["generate", call["prompt"], "-n", call["negative_prompt"], "--model", folder / "model", "--size", f"{width}x{height}", "--frames", 9,
            "--steps", steps, "--guidance", 4, "--shift", 3, "--seed", seed, "--sampler", "unipc", "--save-latents", folder / "out.safetensors", "-q",
            "-o", f"{folder}/frames/"]
    if variant in ("ti2v", "i2v22", "experts-i2v22"):
        call["image"] = images.picture(ctx, 61, 47)
        call["image"].save(folder / "first.png")
        args += ["--image", folder / "first.png"]
    sparse = ["--sparse-attention", share, "--sparse-chooser", chooser, "--sparse-dense-steps", dense_steps]

    def reference(attention):
        with torch.no_grad(), attention:
            return pipe(**call, generator=torch.Generator().manual_seed(seed), callback_on_step_end=attention.after_step).frames[0]

    attention = SparseAttention(grid, share, chooser, dense_steps)
    want, dense = reference(attention), reference(SparseAttention(grid, share, chooser, steps))
    if attention.closest < CLOSE:
        return False  # rounding could change this choice of blocks
    ctx.run(*args, *sparse)
    label = f"sparse attention, {variant}, {chooser}: {attention.keep} of {len(attention.own)} blocks, {dense_steps} of {steps} steps dense"
    ctx.report(label, generation.relative(load_file(folder / "out.safetensors")["latents"], want), 1e-5)
    # The masks must change the result, or this would compare nothing.
    ctx.report(f"{label}: how little it leaves out", 1e-3 / max(generation.relative(dense, want), 1e-30), 1.0)
    return True


def compare(ctx):
    choosers = ["top-k", "sliding-tile"]
    kinds = [("t2v", c) for c in choosers] + [(v, ctx.rng.choice(choosers)) for v in ("ti2v", "i2v22", "experts", "experts-i2v22")]
    for i, (variant, chooser) in enumerate(kinds):
        for draw in range(5):
            if compare_run(ctx, variant, chooser, ctx.folder / f"sparse-{i}-{draw}"):
                break
        else:
            ctx.report(f"sparse attention, {variant}: five draws with choices that rounding could turn round", 1.0, 0.0)
