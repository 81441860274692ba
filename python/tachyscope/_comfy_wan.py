"""Wan's blocks and self-attention in ComfyUI.

Linear layers are called as modules, so weights in fp8, casts of --lowvram and LoRA patches count. Attention is
ComfyUI's `optimized_attention`, with the model's `transformer_options`, where the node puts ours. Blocks that a node
skips or replaces (skip layer guidance, `patches_replace`) are called or not as before. Under autocast a block runs its
own code."""

import sys

import torch

from . import _shrunk, ops
from ._rules import Rule, _plain, _usual
from ._wan_parts import added_modulated, added_norm, modulated, tables, turned

MODULE = "comfy.ldm.wan.model"


def _rows(rows, x):
    """Repeats rows [batch, frames, channels] for the tokens of x; one row of a sample stays one."""
    count, tokens = rows.shape[1], x.shape[1]
    if count == 1:
        return rows
    each = tokens // count if tokens % count == 0 else tokens // count + 1
    return torch.repeat_interleave(rows, each, dim=1)[:, :tokens]


def _modulation(block, x, e):
    """Returns the six rows that shift, scale and gate, each of a shape that broadcasts to x's."""
    table = block.modulation.to(device=x.device, dtype=x.dtype)
    rows = (table + e).chunk(6, dim=1) if e.dim() == 3 else (table.unsqueeze(0) + e).unbind(2)
    return [_rows(row, x) for row in rows]


def _block(block, twice, x, e, freqs, context, context_img_len=257, **options):
    fits = _usual(x) and x.dim() == 3 and e.dtype == x.dtype and e.device == x.device and e.dim() in (3, 4)
    if not fits or options.keys() - {"transformer_options"}:
        return _plain(block, x, e, freqs, context, context_img_len=context_img_len, **options)
    shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = _modulation(block, x, e)
    attended = block.self_attn(modulated(block.norm1, x, scale, shift, twice), freqs, **options)
    if isinstance(block.norm3, torch.nn.Identity):
        x = normed = ops.gated_residual(x, attended, gate)
    else:
        normed, x = added_norm(block.norm3, x, attended, gate)
    attended = block.cross_attn(normed, context, context_img_len=context_img_len, **options)
    normed, x = added_modulated(block.norm2, x, attended, ffn_scale, ffn_shift, twice)
    return ops.gated_residual(x, block.ffn(normed), ffn_gate)


def _self_attention(attention, twice, x, freqs, **options):
    turns = tables(freqs, x.shape[1]) if _usual(x) and x.dim() == 3 else None
    if turns is None or options.keys() - {"transformer_options"}:
        return _plain(attention, x, freqs, **options)
    attend = sys.modules[MODULE].optimized_attention
    q, k = turned(attention.q(x), attention.k(x), (attention.norm_q, attention.norm_k), attention.num_heads, *turns, twice)
    return attention.o(attend(q.flatten(2), k.flatten(2), attention.v(x), heads=attention.num_heads, **options))


def _inputs():
    """Returns inputs of a small block: x, rotations, a prompt, and the three forms of rows."""
    channels, pairs = _shrunk.CHANNELS, _shrunk.HEAD_DIM // 2
    (x, angles, context, *rows), generator = _shrunk.draws((2, 6, channels), (1, 6, 1, pairs), (2, 5, channels), (2, 1, 6, channels),
                                                           (2, 3, 6, channels), (2, 6, channels))
    freqs = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], dim=-1).unflatten(-1, (2, 2))
    return x, freqs, context, rows, generator


def _try_block(block):
    x, freqs, context, forms, generator = _inputs()
    small = _shrunk.shrunk(block, block.dim, block.ffn_dim, generator)
    whys = []
    for e in forms:
        given = {"e": e, "freqs": freqs, "context": context, "context_img_len": 2, "transformer_options": {}}
        whys.append(_shrunk.differs(lambda: type(block).forward(small, x.clone(), **given), lambda: _block(small, False, x.clone(), **given)))
    # An older version knows one form of rows alone, and its model never makes another.
    return next((why for why in whys if why is None), whys[0]) if _only_unknown(whys) else next(why for why in whys if why)


def _only_unknown(whys):
    return all(why is None or why.startswith("its own code does not run") for why in whys)


def _try_attention(attention):
    x, freqs, _, _, generator = _inputs()
    small = _shrunk.shrunk(attention, attention.dim, attention.dim, generator)
    given = {"freqs": freqs, "transformer_options": {}}
    return _shrunk.differs(lambda: type(attention).forward(small, x.clone(), **given), lambda: _self_attention(small, False, x.clone(), **given))


def rules():
    module = sys.modules.get(MODULE)
    found = {}
    if isinstance(getattr(module, "WanAttentionBlock", None), type):
        found[module.WanAttentionBlock] = Rule("a whole block", _block, _shrunk.tried_once(_try_block), _norms)
    if isinstance(getattr(module, "WanSelfAttention", None), type):
        found[module.WanSelfAttention] = Rule("norms of queries and keys with their positions", _self_attention,
                                              _shrunk.tried_once(_try_attention))
    return found


def _norms(block):
    return [norm for norm in (block.norm1, block.norm2, block.norm3) if isinstance(norm, torch.nn.LayerNorm)]
