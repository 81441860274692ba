"""Wan's blocks and attention in ComfyUI-WanVideoWrapper, in the form of 2025 and later, whose block computes queries and
keys and hands them to its attention.

A block has dozens of arguments for the models that the wrapper knows. One that is called with any of those beyond
plain Wan runs its own code, and so does attention whose mode is not `sdpa`. Linear layers are called as modules,
with whatever the wrapper does in them (fp8, LoRA at run time, block swap)."""

import inspect
import sys

import torch

from . import _shrunk, ops
from ._rules import Rule, _plain, takes
from ._wan_parts import added_modulated, added_norm, heads_of, modulated, tables, turned
from .compat._rope import rope_apply_triton

_END = "wanvideo.modules.model"
# Arguments of a block that change what plain Wan computes, with the values that do not.
_NEUTRAL = dict.fromkeys(["camera_embed", "audio_proj", "multitalk_audio_embedding", "ref_target_masks", "inner_t", "inner_c", "cross_freqs",
                          "x_ip", "adapter_proj", "mtv_motion_tokens", "humo_audio_input", "lynx_x_ip", "lynx_ref_feature", "x_ovi",
                          "x_onetoall_ref", "e_tr"], None) | {"enhance_enabled": False, "longcat_num_cond_latents": 0}
# Those that count only beside one of the above.
_IDLE = {"last_step", "seq_chunks", "chunked_self_attention", "audio_scale", "human_num", "e_ip", "freqs_ip", "ip_scale", "zero_timestep",
         "mtv_motion_rotary_emb", "mtv_strength", "mtv_freqs", "humo_audio_scale", "lynx_ip_scale", "lynx_ref_scale", "e_ovi", "freqs_ovi",
         "context_ovi", "seq_lens_ovi", "grid_sizes_ovi", "longcat_avatar_options", "onetoall_freqs", "onetoall_ref", "onetoall_ref_scale",
         "tr_num", "tr_start"}
_TO_SELF = {"attention_mode_override", "frame_tokens", "transformer_options"}
_TO_CROSS = {"num_latent_frames", "nag_params", "nag_context"}
_LONGCAT = 4096  # channels by which the wrapper knows that model


def _idle(options, known):
    return all(name in known or (name in _NEUTRAL and (value is None or value is False or value is _NEUTRAL[name] or
                                                       (type(value) is int and value == 0)))
               for name, value in options.items())


def _of(options, names):
    """Returns those of the options that have these names. torch.compile cannot trace an intersection with a dict's keys."""
    return {name: value for name, value in options.items() if name in names}


def _plain_wan(block, x, e, context, options):
    """Says whether this call is one of plain Wan's."""
    if not isinstance(e, torch.Tensor) or len(e) == 2 or not isinstance(context, torch.Tensor) or not takes(x) or x.dim() != 3:
        return False
    clip = options.get("clip_embed")
    if x.shape[0] == 1 and (context.shape[0] > 1 or (clip is not None and clip.shape[0] > 1)):
        return False  # several prompts share the frames
    attention = block.self_attn
    others = (block.kv_cache, block.seg_idx, getattr(attention, "ref_adapter", None))
    modes = (block.attention_mode, options.get("attention_mode_override"))
    if any(value is not None for value in others) or {"radial_sage_attention", "sageattn_3"} & set(modes):
        return False
    return (x.shape[2] != _LONGCAT and block.rope_func in ("comfy", "default")
            and _idle(options, _IDLE | _TO_SELF | _TO_CROSS | {"clip_embed", "original_seq_len", "reverse_time"}))


def _queries_and_keys(block, x, grid_sizes, freqs, twice, reverse_time):
    """Returns q and k [batch, tokens, heads, head dim] with their positions, or None for positions of another form."""
    attention = block.self_attn
    norms = attention.norm_q, attention.norm_k
    if block.rope_func == "comfy":
        turns = tables(freqs, x.shape[1])
        return None if turns is None else turned(attention.q(x), attention.k(x), norms, attention.num_heads, *turns, twice)
    if not freqs.is_complex() or grid_sizes.shape[-1] != 3:
        return None
    heads = (heads_of(norm, t, attention.num_heads) for norm, t in zip(norms, (attention.q(x), attention.k(x))))
    return tuple(rope_apply_triton(t, grid_sizes, freqs, reverse_time) for t in heads)


def _block(block, twice, x, e, seq_lens, grid_sizes, freqs, context, current_step, **options):
    if not _plain_wan(block, x, e, context, options):
        return _plain(block, x, e=e, seq_lens=seq_lens, grid_sizes=grid_sizes, freqs=freqs, context=context, current_step=current_step, **options)
    shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = block.get_mod(e.to(x.device), block.modulation)
    normed = modulated(block.norm1, x, scale, shift, twice)
    pair = _queries_and_keys(block, normed, grid_sizes, freqs, twice, options.get("reverse_time", False))
    if pair is None:
        return _plain(block, x, e=e, seq_lens=seq_lens, grid_sizes=grid_sizes, freqs=freqs, context=context, current_step=current_step, **options)
    values = torch.unflatten(block.self_attn.v(normed), 2, (block.self_attn.num_heads, -1))
    attended = block.self_attn(*pair, values, seq_lens, **_of(options, _TO_SELF))
    normed, x = added_norm(block.norm3, x, attended, gate)
    attended = block.cross_attn(normed, context, grid_sizes, clip_embed=options.get("clip_embed"), rope_func=block.rope_func,
                                orig_seq_len=options.get("original_seq_len"), longcat_num_cond_latents=0,
                                **_of(options, _TO_CROSS))
    normed, x = added_modulated(block.norm2, x, attended.to(x.dtype), ffn_scale, ffn_shift, twice)
    return ops.gated_residual(x, block.ffn(normed), ffn_gate), None, None, None


def _base_block(block, twice, x, vace_hints=None, vace_context_scale=(1.0,), **options):
    if vace_hints is not None:
        return _plain(block, x, vace_hints=vace_hints, vace_context_scale=vace_context_scale, **options)
    return _block(block, twice, x, **options)


def _attends_itself(attention, mode, *tensors):
    """Says whether the wrapper would call torch's attention for these tensors."""
    return (attention.attention_mode if mode is None else mode) == "sdpa" and takes(*tensors)


def _self_attention(attention, twice, q, k, v, seq_lens, transformer_options={}, attention_mode_override=None, frame_tokens=1536, **options):
    given = {"transformer_options": transformer_options, "attention_mode_override": attention_mode_override, "frame_tokens": frame_tokens}
    others = any(value is not None for name, value in options.items() if not name.endswith("_scale"))
    if others or not _attends_itself(attention, attention_mode_override, q, k, v):
        return _plain(attention, q, k, v, seq_lens, **given, **options)
    return attention.o(ops.attention(q, k, v).flatten(2))


_CROSS_IDLE = _IDLE | {"grid_sizes", "num_latent_frames", "nag_params", "rope_func", "orig_seq_len"}


def _cross_attention(attention, twice, x, context, grid_sizes=None, clip_embed=None, **options):
    others = (getattr(attention, name, None) for name in ("ip_adapter", "k_fusion"))
    known = _idle(options, _CROSS_IDLE) and x.shape[-1] != _LONGCAT and all(other is None for other in others)
    if not known or not _attends_itself(attention, None, x):
        return _plain(attention, x, context, grid_sizes=grid_sizes, clip_embed=clip_embed, **options)

    def attended(key, value, norm, of):
        return ops.attention(q, heads_of(norm, key(of), heads).to(x.dtype), torch.unflatten(value(of), 2, (heads, -1)).to(x.dtype))

    heads = attention.num_heads
    q = heads_of(attention.norm_q, attention.q(x), heads)
    y = attended(attention.k, attention.v, attention.norm_k, context)
    if clip_embed is not None and hasattr(attention, "k_img"):
        y = y + attended(attention.k_img, attention.v_img, attention.norm_k_img, clip_embed)
    return attention.o(y.flatten(2))


def _try_block(block):
    """Tries a small copy with both forms of positions that it may be asked for."""
    if block.rope_func not in ("comfy", "default"):
        raise ValueError(f"its rope_func is {block.rope_func}")
    channels, pairs = _shrunk.CHANNELS, _shrunk.HEAD_DIM // 2
    (x, angles, context, clip, e), generator = _shrunk.draws((1, 6, channels), (8, pairs), (1, 5, channels), (1, 3, channels), (1, 6, channels))
    small = _shrunk.shrunk(block, block.dim, block.ffn_dim, generator)
    turns = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], dim=-1).unflatten(-1, (2, 2))[None, :6, None]
    given = {"e": e, "seq_lens": torch.tensor([6]), "grid_sizes": torch.tensor([[1, 2, 3]]), "context": context, "current_step": 0,
             "freqs": turns if block.rope_func == "comfy" else torch.polar(torch.ones_like(angles), angles)}
    if hasattr(block.cross_attn, "k_img"):
        given["clip_embed"] = clip
    return _shrunk.differs(lambda: type(block).forward(small, x.clone(), **given), lambda: _block(small, False, x.clone(), **given))


def _try_self_attention(attention):
    (q, k, v), generator = _shrunk.draws(*[(1, 6, _shrunk.HEADS, _shrunk.HEAD_DIM)] * 3)
    small = _shrunk.shrunk(attention, attention.dim, attention.dim, generator)
    lens = torch.tensor([6])
    return _shrunk.differs(lambda: type(attention).forward(small, q, k, v, lens), lambda: _self_attention(small, False, q, k, v, lens))


def _try_cross_attention(attention):
    channels = _shrunk.CHANNELS
    (x, context, clip), generator = _shrunk.draws((1, 6, channels), (1, 5, channels), (1, 3, channels))
    small = _shrunk.shrunk(attention, attention.dim, attention.dim, generator)
    given = {"clip_embed": clip} if hasattr(attention, "k_img") else {}
    return _shrunk.differs(lambda: type(attention).forward(small, x, context, **given), lambda: _cross_attention(small, False, x, context, **given))


def _norms(block):
    return [norm for norm in (block.norm1, block.norm2, block.norm3) if isinstance(norm, torch.nn.LayerNorm)]


_RULES = {
    "WanAttentionBlock": ("a whole block", _block, _try_block, _norms),
    "VaceWanAttentionBlock": ("a whole block", _block, _try_block, _norms),
    "BaseWanAttentionBlock": ("a whole block", _base_block, _try_block, _norms),
    "WanSelfAttention": ("attention", _self_attention, _try_self_attention, lambda m: []),
    "WanT2VCrossAttention": ("attention", _cross_attention, _try_cross_attention, lambda m: []),
    "WanI2VCrossAttention": ("attention", _cross_attention, _try_cross_attention, lambda m: []),
}


def modules():
    """Returns the wrapper's modules that this process has imported; ComfyUI names them by the wrapper's folder."""
    return [module for name, module in list(sys.modules.items()) if name.endswith(_END) and hasattr(module, "WanAttentionBlock")]


def rules():
    found = {}
    for module in modules():
        new = "current_step" in inspect.signature(module.WanAttentionBlock.forward).parameters
        for name, (op, call, attempt, inside) in _RULES.items():
            cls = getattr(module, name, None)
            if isinstance(cls, type) and "forward" in cls.__dict__:
                check = _shrunk.tried_once(attempt) if new else lambda module: "it is of an old version of WanVideoWrapper"
                found[cls] = Rule(op, call, check, inside)
    return found
