"""A stand-in for WanVideoWrapper's Wan blocks of 2025 and later, with their names, arguments and roundings, in code of
our own (see comfy_stubs.py)."""

import types

import torch
import torch.nn.functional as F
from torch import nn

from comfy_stubs import Projections, feed_forward, rotate

NAME = "custom_nodes.ComfyUI-WanVideoWrapper.wanvideo.modules.model"


class WanRMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x, num_chunks=1):
        x = x.to(self.weight.dtype)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps).to(x.dtype) * self.weight


class WanLayerNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x)


def in_grid(x, grid_sizes, freqs):
    """Positions of Wan's original code: complex tables, split over frames, rows and columns."""
    size = freqs.shape[1] // 3
    parts = freqs.split([freqs.shape[1] - 2 * size, size, size], dim=1)
    results = []
    for sample, grid in zip(x, grid_sizes.tolist()):
        turns = torch.cat([part[:n].view(*(n if j == i else 1 for j in range(3)), -1).expand(*grid, -1)
                           for i, (part, n) in enumerate(zip(parts, grid))], dim=-1).flatten(0, 2)
        pairs = torch.view_as_complex(torch.unflatten(sample[:len(turns)].double(), -1, (-1, 2)).contiguous())
        turned = torch.view_as_real(pairs * turns[:, None]).flatten(-2)
        results.append(torch.cat([turned.to(x.dtype), sample[len(turns):]]))
    return torch.stack(results)


def attend(q, k, v, mode):
    if mode != "sdpa":
        q = q * 1.25  # another kernel, whose values show that it was called
    return F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)


class Attention(Projections):
    def __init__(self, dim, heads, image=False):
        super().__init__(dim, heads, image, nn.Linear, WanRMSNorm)
        self.attention_mode, self.ref_adapter = "sdpa", None

    def heads(self, part, norm, x):
        y = part(x)
        if norm is not None:
            y = norm(y.to(norm.weight.dtype)).to(x.dtype)
        return torch.unflatten(y, 2, (self.num_heads, -1))


def wrapper():
    """Returns a module with the Wan blocks of WanVideoWrapper."""
    module = types.ModuleType(NAME)

    class WanSelfAttention(Attention):
        def forward(self, q, k, v, seq_lens, transformer_options={}, attention_mode_override=None, lynx_ref_feature=None,
                    lynx_ref_scale=1.0, onetoall_ref=None, onetoall_ref_scale=1.0, frame_tokens=1536):
            y = attend(q, k, v, attention_mode_override or self.attention_mode)
            return self.o(y.flatten(2) if onetoall_ref is None else (y + onetoall_ref * onetoall_ref_scale).flatten(2))

    class WanT2VCrossAttention(Attention):
        ip_adapter = k_fusion = None

        def forward(self, x, context, grid_sizes=None, clip_embed=None, audio_proj=None, audio_scale=1.0, num_latent_frames=21, nag_params={},
                    nag_context=None, rope_func="comfy", inner_t=None, inner_c=None, cross_freqs=None, adapter_proj=None, ip_scale=1.0,
                    orig_seq_len=None, lynx_x_ip=None, lynx_ip_scale=1.0, longcat_num_cond_latents=None, **kwargs):
            q, k, v = (self.heads(*parts) for parts in ((self.q, self.norm_q, x), (self.k, self.norm_k, context), (self.v, None, context)))
            y = attend(q, k, v, self.attention_mode)
            if nag_context is not None:
                y = y * 2
            if clip_embed is not None and hasattr(self, "k_img"):
                y = y + attend(q, self.heads(self.k_img, self.norm_k_img, clip_embed), self.heads(self.v_img, None, clip_embed), self.attention_mode)
            return self.o(y.flatten(2))

    class WanI2VCrossAttention(WanT2VCrossAttention):
        def forward(self, x, context, grid_sizes=None, clip_embed=None, **kwargs):
            return super().forward(x, context, grid_sizes, clip_embed, **kwargs)

    class WanAttentionBlock(nn.Module):
        def __init__(self, dim=48, heads=2, hidden=64, image=False, rope_func="comfy"):
            super().__init__()
            self.dim, self.ffn_dim, self.num_heads, self.head_dim = dim, hidden, heads, dim // heads
            self.attention_mode, self.rope_func, self.kv_cache, self.seg_idx = "sdpa", rope_func, None, None
            self.norm1, self.norm2 = (WanLayerNorm(dim, 1e-6, elementwise_affine=False) for _ in range(2))
            self.norm3 = WanLayerNorm(dim, 1e-6)
            self.self_attn = WanSelfAttention(dim, heads)
            self.cross_attn = (WanI2VCrossAttention if image else WanT2VCrossAttention)(dim, heads, image)
            self.ffn = feed_forward(dim, hidden, nn.Linear)
            self.modulation = nn.Parameter(torch.zeros(1, 6, dim))

        def get_mod(self, e, modulation):
            return (modulation + e).chunk(6, dim=1)

        def forward(self, x, e, seq_lens, grid_sizes, freqs, context, current_step, last_step=False, clip_embed=None, camera_embed=None,
                    num_latent_frames=21, original_seq_len=None, enhance_enabled=False, nag_params={}, nag_context=None, x_ip=None,
                    reverse_time=False, longcat_num_cond_latents=0, attention_mode_override=None, frame_tokens=None, transformer_options={}):
            dtype, attention = x.dtype, self.self_attn
            shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = self.get_mod(e, self.modulation)
            y = torch.addcmul(shift, self.norm1(x.to(shift.dtype)), 1 + scale).to(dtype)
            if camera_embed is not None:
                y = y + camera_embed
            turn = (lambda t: rotate(t, freqs)) if self.rope_func == "comfy" else (lambda t: in_grid(t, grid_sizes, freqs))
            q, k = (turn(attention.heads(part, norm, y)) for part, norm in ((attention.q, attention.norm_q), (attention.k, attention.norm_k)))
            y = attention(q, k, attention.heads(attention.v, None, y), seq_lens, attention_mode_override=attention_mode_override,
                          transformer_options=transformer_options, frame_tokens=frame_tokens)
            if enhance_enabled:
                y = y * 1.5
            x = x.addcmul_(y, gate)
            x = x + self.cross_attn(self.norm3(x.to(self.norm3.weight.dtype)).to(dtype), context, grid_sizes, clip_embed=clip_embed,
                                    nag_params=nag_params, nag_context=nag_context, rope_func=self.rope_func).to(dtype)
            y = self.ffn(torch.addcmul(ffn_shift, self.norm2(x.to(ffn_shift.dtype)), 1 + ffn_scale).to(dtype))
            return x.addcmul(y.to(ffn_gate.dtype), ffn_gate).to(dtype), None, None, None

    class BaseWanAttentionBlock(WanAttentionBlock):
        def forward(self, x, vace_hints=None, vace_context_scale=[1.0], **kwargs):
            x, *more = super().forward(x, **kwargs)
            return x if vace_hints is None else x + vace_hints, *more

    for cls in (WanSelfAttention, WanT2VCrossAttention, WanI2VCrossAttention, WanAttentionBlock, BaseWanAttentionBlock):
        setattr(module, cls.__name__, cls)
        cls.__module__ = NAME
    return module


LORA_NAME = "custom_nodes.ComfyUI-WanVideoWrapper.custom_linear"


def custom_linear():
    """Returns a module with the wrapper's linear layer, which adds LoRA files to its weight in each call."""
    module = types.ModuleType(LORA_NAME)

    class CustomLinear(nn.Linear):
        def __init__(self, *sizes, **options):
            super().__init__(*sizes, **options)
            self.lora_diffs, self._lora_strength_is_scheduled, self.scale_weight, self.is_gguf = [], [], None, False
            self.register_buffer("_step", torch.zeros((), dtype=torch.long))

        def take(self, *adapters):
            """Takes (up, down, alpha, strength) or (difference, strength) of each file; a list of strengths has one for each step."""
            for i, (*matrices, strength) in enumerate(adapters):
                keys = [f"lora_diff_{i}_{j}" for j in range(len(matrices))]
                for key, value in zip(keys, matrices):
                    self.register_buffer(key, value) if isinstance(value, torch.Tensor) else setattr(self, key, value)
                self.lora_diffs.append(tuple(keys) if len(keys) > 1 else keys[0])
                self._lora_strength_is_scheduled.append(isinstance(strength, list))
                like = next(value for value in matrices if isinstance(value, torch.Tensor))
                self.register_buffer(f"_lora_strength_{i}", torch.tensor(strength if isinstance(strength, list) else [strength]).to(like))
            return self

        def _get_lora_strength(self, i):
            values = getattr(self, f"_lora_strength_{i}")
            return values[self._step] if self._lora_strength_is_scheduled[i] else values[0]

        def forward(self, x):
            weight, bias = self.weight.to(x), None if self.bias is None else self.bias.to(x)
            if self.scale_weight is not None:
                weight, x = (weight * self.scale_weight, x) if weight.numel() < x.numel() else (weight, x * self.scale_weight)
            for i, keys in enumerate(self.lora_diffs):
                if isinstance(keys, str):
                    weight = weight + getattr(self, keys) * self._get_lora_strength(i)
                    continue
                up, down, alpha = (getattr(self, key) for key in keys)
                weight = weight + (up.flatten(1) @ down.flatten(1)) * (self._get_lora_strength(i) * (alpha / down.shape[0] if alpha else 1.0))
            return F.linear(x, weight, bias)

    CustomLinear.__module__, module.CustomLinear = LORA_NAME, CustomLinear
    return module
