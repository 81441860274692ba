"""A stand-in for Self-Forcing's causal Wan, with its names, arguments, caches and roundings, in code of our own."""

import types

import torch
import torch.nn.functional as F
from torch import nn

from wrapper_stubs import in_grid

NAME = "wan.modules.causal_model"


class WanRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.dim, self.eps, self.weight = dim, eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


class WanLayerNorm(nn.LayerNorm):
    def __init__(self, dim, eps=1e-6, elementwise_affine=False):
        super().__init__(dim, eps, elementwise_affine)

    def forward(self, x):
        return super().forward(x).type_as(x)


def attention(q, k, v, k_lens=None, dtype=torch.bfloat16):
    """Rounds to bfloat16, as theirs does without a GPU."""
    return F.scaled_dot_product_attention(*(t.transpose(1, 2).to(dtype) for t in (q, k, v))).transpose(1, 2)


def flash_attention(q, k, v, k_lens=None):
    assert q.device.type == "cuda"


class WanT2VCrossAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.dim, self.num_heads, self.head_dim = dim, num_heads, dim // num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm_q, self.norm_k = WanRMSNorm(dim), WanRMSNorm(dim)

    def heads(self, x):
        return x.view(*x.shape[:2], self.num_heads, self.head_dim)

    def forward(self, x, context, context_lens, crossattn_cache=None):
        cache = {"is_init": False} if crossattn_cache is None else crossattn_cache
        if not cache["is_init"]:
            cache.update(is_init=True, k=self.heads(self.norm_k(self.k(context))), v=self.heads(self.v(context)))
        q = self.heads(self.norm_q(self.q(x)))
        return self.o(flash_attention(q, cache["k"], cache["v"], k_lens=context_lens).flatten(2))


class CausalWanSelfAttention(WanT2VCrossAttention):
    def __init__(self, dim, num_heads, local_attn_size=-1, sink_size=0):
        super().__init__(dim, num_heads)
        self.local_attn_size, self.sink_size = local_attn_size, sink_size
        self.max_attention_size = 1000 if local_attn_size == -1 else local_attn_size * 2

    def forward(self, x, seq_lens, grid_sizes, freqs, block_mask, kv_cache=None, current_start=0, cache_start=None):
        q, k, v = self.heads(self.norm_q(self.q(x))), self.heads(self.norm_k(self.k(x))), self.heads(self.v(x))
        if kv_cache is None:
            return self.o(attention(q, k * 0.5, v).flatten(2))  # stands for training, which is not ours
        frame = int(grid_sizes[0, 1] * grid_sizes[0, 2])
        first = torch.roll(freqs, -(current_start // frame), 0)
        pairs = freqs.shape[1]
        freqs = torch.cat([first[:, :pairs - 2 * (pairs // 3)], freqs[:, pairs - 2 * (pairs // 3):]], dim=1)
        q, k = in_grid(q, grid_sizes, freqs), in_grid(k, grid_sizes, freqs)
        new, end, sink, size = x.shape[1], current_start + x.shape[1], self.sink_size * frame, kv_cache["k"].shape[1]
        seen, local = kv_cache["global_end_index"].item(), kv_cache["local_end_index"].item()
        gone = new + local - size if self.local_attn_size != -1 and end > seen and new + local > size else 0
        for name in ("k", "v"):
            if gone:
                kv_cache[name][:, sink:local - gone] = kv_cache[name][:, sink + gone:local].clone()
        local += end - seen - gone
        kv_cache["k"][:, local - new:local], kv_cache["v"][:, local - new:local] = k, v
        begin = max(0, local - self.max_attention_size)
        y = attention(q, kv_cache["k"][:, begin:local], kv_cache["v"][:, begin:local])
        kv_cache["global_end_index"].fill_(end)
        kv_cache["local_end_index"].fill_(local)
        return self.o(y.flatten(2))


class CausalWanAttentionBlock(nn.Module):
    def __init__(self, dim=48, ffn_dim=96, num_heads=2, local_attn_size=-1, sink_size=0):
        super().__init__()
        self.dim, self.ffn_dim, self.num_heads = dim, ffn_dim, num_heads
        self.norm1, self.norm2 = WanLayerNorm(dim), WanLayerNorm(dim)
        self.norm3 = WanLayerNorm(dim, elementwise_affine=True)
        self.self_attn = CausalWanSelfAttention(dim, num_heads, local_attn_size, sink_size)
        self.cross_attn = WanT2VCrossAttention(dim, num_heads)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn_dim), nn.GELU(approximate="tanh"), nn.Linear(ffn_dim, dim))
        self.modulation = nn.Parameter(torch.randn(1, 6, dim) / dim**0.5)

    def forward(self, x, e, seq_lens, grid_sizes, freqs, context, context_lens, block_mask, kv_cache=None, crossattn_cache=None, current_start=0,
                cache_start=None):
        rows = (self.modulation.unsqueeze(1) + e).chunk(6, dim=2)

        def by_frames(t):
            return t.unflatten(1, (e.shape[1], -1))

        y = (by_frames(self.norm1(x)) * (1 + rows[1]) + rows[0]).flatten(1, 2)
        y = self.self_attn(y, seq_lens, grid_sizes, freqs, block_mask, kv_cache, current_start, cache_start)
        x = x + (by_frames(y) * rows[2]).flatten(1, 2)
        x = x + self.cross_attn(self.norm3(x), context, context_lens, crossattn_cache=crossattn_cache)
        y = self.ffn((by_frames(self.norm2(x)) * (1 + rows[4]) + rows[3]).flatten(1, 2))
        return x + (by_frames(y) * rows[5]).flatten(1, 2)


class CausalHead(nn.Module):
    def __init__(self, dim=48, out_dim=16, patch_size=(1, 2, 2)):
        super().__init__()
        self.dim, self.out_dim, self.patch_size = dim, out_dim, patch_size
        self.norm, self.head = WanLayerNorm(dim), nn.Linear(dim, 4 * out_dim)
        self.modulation = nn.Parameter(torch.randn(1, 2, dim) / dim**0.5)

    def forward(self, x, e):
        shift, scale = (self.modulation.unsqueeze(1) + e).chunk(2, dim=2)
        return self.head(self.norm(x).unflatten(1, (e.shape[1], -1)) * (1 + scale) + shift)


def causal_model():
    module = types.ModuleType(NAME)
    for value in (attention, CausalWanSelfAttention, CausalWanAttentionBlock, CausalHead):
        setattr(module, value.__name__, value)
    module.WAN_CROSSATTENTION_CLASSES = {"t2v_cross_attn": WanT2VCrossAttention}
    return module
