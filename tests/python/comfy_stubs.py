"""Stand-ins for the parts of ComfyUI and WanVideoWrapper that our nodes and rules meet, with their names, arguments and
roundings, in code of our own: layers that cast and patch their weights, attention with its seam, and Wan's blocks.

`comfyui()` and `wrapper()` return modules; a test puts them into sys.modules under the names that ours look for."""

import types

import torch
import torch.nn.functional as F
from torch import nn

SEAM = "optimized_attention_override"


class Cast:
    """A layer whose weights are brought to the input's dtype, and patched, in each call."""

    comfy_cast_weights, weight_function, bias_function = False, (), ()

    def values(self, x):
        found = []
        for name in ("weight", "bias"):
            p = getattr(self, name)
            p = None if p is None else p.to(x.dtype)
            for patch in getattr(self, name + "_function"):
                p = patch(p)
            found.append(p)
        return found


class Linear(Cast, nn.Linear):
    def forward(self, x):
        return F.linear(x, *self.values(x))


class LayerNorm(Cast, nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, *self.values(x), self.eps)


class RMSNorm(Cast, nn.Module):
    bias = None

    def __init__(self, dim, eps):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.values(x)[0], self.eps)


def by_torch(q, k, v, heads, mask=None, attn_precision=None, skip_reshape=False, skip_output_reshape=False, **kwargs):
    """ComfyUI's attention, by torch."""
    if not skip_reshape:
        q, k, v = (torch.unflatten(t, 2, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    if mask is not None:
        mask = mask.reshape(*(1,) * (mask.dim() == 2), *mask.shape[:mask.dim() - 2], *(1,) * (mask.dim() < 4), *mask.shape[-2:])
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return y if skip_output_reshape else y.transpose(1, 2).flatten(2)


def optimized_attention(*args, **kwargs):
    seam = (kwargs.get("transformer_options") or {}).get(SEAM)
    if seam is None or "_inside_attn_wrapper" in kwargs:
        return by_torch(*args, **kwargs)
    return seam(by_torch, *args, _inside_attn_wrapper=True, **kwargs)


def rotate(x, turns):
    """Pairs of x [batch, tokens, heads, channels] turned by [1, tokens, 1, pairs, 2, 2], in float32."""
    pairs = torch.unflatten(x.float(), -1, (-1, 2))
    return torch.einsum("...ij,...j->...i", turns, pairs).flatten(-2).to(x.dtype)


class Projections(nn.Module):
    def __init__(self, dim, heads, image, linear, norm):
        super().__init__()
        self.dim, self.num_heads, self.head_dim = dim, heads, dim // heads
        self.q, self.k, self.v, self.o = (linear(dim, dim) for _ in range(4))
        self.norm_q, self.norm_k = norm(dim, 1e-6), norm(dim, 1e-6)
        if image:
            self.k_img, self.v_img, self.norm_k_img = linear(dim, dim), linear(dim, dim), norm(dim, 1e-6)


def feed_forward(dim, hidden, linear):
    return nn.Sequential(linear(dim, hidden), nn.GELU(approximate="tanh"), linear(hidden, dim))


def comfyui():
    """Returns a module with the Wan blocks of ComfyUI."""
    module = types.ModuleType("comfy.ldm.wan.model")
    module.optimized_attention = optimized_attention

    class WanSelfAttention(Projections):
        def forward(self, x, freqs, transformer_options={}):
            q, k = (rotate(torch.unflatten(norm(part(x)), 2, (self.num_heads, -1)), freqs).flatten(2)
                    for part, norm in ((self.q, self.norm_q), (self.k, self.norm_k)))
            return self.o(module.optimized_attention(q, k, self.v(x), heads=self.num_heads, transformer_options=transformer_options))

    class WanCrossAttention(Projections):
        def forward(self, x, context, context_img_len=0, transformer_options={}):
            q, y = self.norm_q(self.q(x)), 0
            if hasattr(self, "k_img"):
                image, context = context[:, :context_img_len], context[:, context_img_len:]
                y = module.optimized_attention(q, self.norm_k_img(self.k_img(image)), self.v_img(image), heads=self.num_heads,
                                               transformer_options=transformer_options)
            y = y + module.optimized_attention(q, self.norm_k(self.k(context)), self.v(context), heads=self.num_heads,
                                               transformer_options=transformer_options)
            return self.o(y)

    class WanAttentionBlock(nn.Module):
        def __init__(self, dim, heads, hidden, image=False):
            super().__init__()
            self.dim, self.ffn_dim, self.num_heads = dim, hidden, heads
            self.norm1, self.norm2 = (LayerNorm(dim, 1e-6, elementwise_affine=False) for _ in range(2))
            self.norm3 = LayerNorm(dim, 1e-6)
            self.self_attn = WanSelfAttention(dim, heads, False, Linear, RMSNorm)
            self.cross_attn = WanCrossAttention(dim, heads, image, Linear, RMSNorm)
            self.ffn = feed_forward(dim, hidden, Linear)
            self.modulation = nn.Parameter(torch.zeros(1, 6, dim))

        def forward(self, x, e, freqs, context, context_img_len=257, transformer_options={}):
            rows = self.modulation.to(x.dtype)[None] + (e if e.dim() == 4 else e[:, None])
            rows = rows.repeat_interleave(-(-x.shape[1] // rows.shape[1]), dim=1)[:, :x.shape[1]].unbind(2)
            shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = rows
            y = self.self_attn(torch.addcmul(shift, self.norm1(x), 1 + scale), freqs, transformer_options=transformer_options)
            x = torch.addcmul(x, y, gate)
            x = x + self.cross_attn(self.norm3(x), context, context_img_len=context_img_len, transformer_options=transformer_options)
            return torch.addcmul(x, self.ffn(torch.addcmul(ffn_shift, self.norm2(x), 1 + ffn_scale)), ffn_gate)

    class WanModel(nn.Module):
        def __init__(self, dim=48, heads=2, hidden=64, layers=2, image=False, block=WanAttentionBlock):
            super().__init__()
            self.blocks = nn.ModuleList(block(dim, heads, hidden, image) for _ in range(layers))

        def forward(self, x, e, freqs, context, transformer_options={}):
            replaced = transformer_options.get("patches_replace", {}).get("dit", {})
            for i, block in enumerate(self.blocks):
                def original(args, block=block):
                    return {"img": block(args["img"], e=e, freqs=freqs, context=context, context_img_len=3, transformer_options=transformer_options)}
                patch = replaced.get(("double_block", i))
                x = (original({"img": x}) if patch is None else patch({"img": x}, {"original_block": original}))["img"]
            return x

    for cls in (WanSelfAttention, WanCrossAttention, WanAttentionBlock, WanModel):
        setattr(module, cls.__name__, cls)
        cls.__module__ = module.__name__
    return module
