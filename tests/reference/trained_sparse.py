"""Attention that models were trained with in place of attending to all keys, in PyTorch, for diffusers' WanTransformer3DModel:

    Cubes    Video Sparse Attention (FastWan): cubes of 4x4x4 tokens, a softmax over the chosen ones, and one between the means of all
    Linear   Sparse-Linear Attention (TurboDiffusion): blocks of 128 queries and 64 keys, and linear attention to everything

diffusers' tokens stay in their own order: `block` says in which block each of them lies. tests/golden/wan/make_trained.py compares these formulas with
the published code, where a folder with it is given."""

import math

import torch
import torch.nn.functional as F
from diffusers.models.transformers import transformer_wan
from safetensors.torch import load_file, save_file

import random_models as rm

CLOSE = 1e-3  # scores closer than this share of their spread may be ordered by rounding


def cubes(grid):
    """Returns each token's cube, and the number of cubes."""
    t, h, w = (torch.arange(n) // 4 for n in grid)
    high, wide = math.ceil(grid[1] / 4), math.ceil(grid[2] / 4)
    return ((t[:, None, None] * high + h[None, :, None]) * wide + w[None, None, :]).flatten(), math.ceil(grid[0] / 4) * high * wide


def means(x, block, count):
    """[B, L, H, D] -> [B, H, blocks, D]"""
    return torch.stack([x[:, block == i].mean(1) for i in range(count)], 2)


class Trained:
    """Stands in for diffusers' dispatch_attention_fn: self-attention over a grid of tokens goes to attend()."""

    def __init__(self, dit, layers, share):
        self.dit, self.layers, self.share, self.closest, self.calls = dit, layers, share, 1.0, 0

    def __enter__(self):
        self.dense, transformer_wan.dispatch_attention_fn = transformer_wan.dispatch_attention_fn, self
        self.hooks = [b.attn1.register_forward_pre_hook(lambda _, args, kwargs, i=i: self.enter(i, args, kwargs), with_kwargs=True)
                      for i, b in enumerate(self.dit.blocks)]
        return self

    def __exit__(self, *_):
        transformer_wan.dispatch_attention_fn = self.dense
        for hook in self.hooks:
            hook.remove()

    def enter(self, index, args, kwargs):
        self.index, self.u = index, args[0] if args else kwargs["hidden_states"]

    def __call__(self, query, key, value, attn_mask=None, **rest):
        if query.shape[1] != len(self.block) or key.shape[1] != query.shape[1]:
            return self.dense(query, key, value, attn_mask=attn_mask, **rest)
        self.calls += 1
        return self.attend(query, key, value)

    def chosen(self, scores, keep):
        best = scores.sort(-1, descending=True)
        if keep < scores.shape[-1]:
            gap = (best.values[..., keep - 1] - best.values[..., keep]) / scores.std(-1)
            self.closest = min(self.closest, gap.min().item())
        return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, best.indices[..., :keep], True)

    @staticmethod
    def masked(q, k, v, mask):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


class Cubes(Trained):
    def __init__(self, dit, layers, share, grid):
        super().__init__(dit, layers, share)
        self.block, self.count = cubes(grid)
        self.keep = max(1, min(math.ceil(share * self.count - 1e-9), self.count))

    def attend(self, q, k, v):
        gate = self.layers[self.index](self.u).unflatten(-1, q.shape[2:])
        q_c, k_c, v_c = (means(x, self.block, self.count) for x in (q, k, v))
        scores = q_c @ k_c.transpose(-1, -2) / math.sqrt(q.shape[-1])
        coarse = (scores.softmax(-1) @ v_c).transpose(1, 2)[:, self.block]
        seen = self.chosen(scores, self.keep)
        return coarse * gate + self.masked(q, k, v, seen[:, :, self.block][..., self.block])


class Linear(Trained):
    def __init__(self, dit, layers, share, grid):
        super().__init__(dit, layers, share)
        tokens = math.prod(grid)
        self.block, self.keys = torch.arange(tokens) // 128, torch.arange(tokens) // 64
        self.rows, self.count = int(self.block[-1]) + 1, int(self.keys[-1]) + 1
        self.keep = max(1, math.floor(share * self.count + 1e-9))

    def attend(self, q, k, v):
        arg = k - k.mean(1, keepdim=True)
        scores = means(q, self.block, self.rows) @ means(arg, self.keys, self.count).transpose(-1, -2)
        seen = self.chosen(scores, self.keep)
        phi_q, phi_k = q.softmax(-1), k.softmax(-1)
        sums = torch.einsum("blhc,blhd->bhcd", phi_k, v)
        linear = torch.einsum("blhc,bhcd->blhd", phi_q, sums) / (1e-5 + torch.einsum("blhc,bhc->blh", phi_q, phi_k.sum(1)))[..., None]
        return self.masked(q, k, v, seen[:, :, self.block][..., self.keys]) + self.layers[self.index](linear)


KINDS = {"cubes": (Cubes, "to_gate_compress"), "linear": (Linear, "attn1.proj_l")}


def layers_for(kind, dit, seed):
    """The branch's layer of each block, with random weights."""
    torch.manual_seed(seed)
    config = dit.config
    width = config.attention_head_dim * (config.num_attention_heads if kind == "cubes" else 1)
    return torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in dit.blocks])


def tensors_of(kind, layers):
    return {f"blocks.{i}.{KINDS[kind][1]}.{name}": p.detach().clone() for i, layer in enumerate(layers) for name, p in layer.named_parameters()}


def add_to_file(folder, kind, layers):
    file = folder / "diffusion_pytorch_model.safetensors"
    save_file({**load_file(file), **tensors_of(kind, layers)}, file)


def compare(ctx):
    """One pass of random transformers, by the share that published models have: 0.2 of the cubes (or 0.1 with 40 heads), 0.1 of the blocks."""
    from precision import float64
    for kind in KINDS:
        for draw in range(8):
            folder = ctx.folder / f"trained-{kind}-{draw}"
            dit = rm.transformer(ctx.rng, in_channels=4, out_channels=4, text_dim=16, num_layers=2, ffn_dim=48, attention_head_dim=12)
            dit.save_pretrained(folder)
            layers = layers_for(kind, dit, ctx.rng.randrange(2**31))
            add_to_file(folder, kind, layers)
            grid = (ctx.rng.randint(3, 9), ctx.rng.randint(5, 11), ctx.rng.randint(9, 13)) if kind == "cubes" else (ctx.rng.randint(7, 9), 12, 13)
            x = torch.randn(2, 4, grid[0], 2 * grid[1], 2 * grid[2])
            inputs = {"hidden_states": x, "timestep": torch.tensor([700.0, 300.0]), "encoder_hidden_states": torch.randn(2, 7, 16)}
            make = KINDS[kind][0]
            results = []
            for wide in (True, False):
                own, mine = (dit.double(), layers.double()) if wide else (dit.float(), layers.float())
                given = {k: v.double() if wide and k != "timestep" else v for k, v in inputs.items()}
                attention = make(own, mine, 0.2 if kind == "cubes" else 0.1, grid)
                with torch.no_grad(), attention:
                    if wide:
                        with float64():
                            results.append(own(**given).sample)
                    else:
                        results.append(own(**given).sample)
                if wide:
                    closest, plan = attention.closest, attention
            if closest < CLOSE or plan.keep == plan.count:
                continue
            out = ctx.stage("transformer", folder, {k: v for k, v in inputs.items()})["sample"]
            ctx.check(f"trained attention, {kind}: {plan.keep} of {plan.count} blocks of {math.prod(grid)} tokens", out, results[0], results[1].double(), 5e-6)
            break
        else:
            ctx.report(f"trained attention, {kind}: eight draws with choices that rounding could turn round", 1.0, 0.0)
