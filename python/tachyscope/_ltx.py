"""Whole blocks and attention of diffusers' LTX-Video transformer.

A block is a modulated RMSNorm, attention, the gated residual add, attention over the text, the residual add with the
next modulated RMSNorm, feed-forward and the last gated residual add. Positions rotate pairs of neighbours over the
width of all heads together, with separate tables for each sample: for the ops this is one head of that width. Norms of
queries and keys share a pass with the positions if one rounding is allowed; otherwise they are called as modules."""

import torch
from diffusers.models.transformers import transformer_ltx
from torch import nn

from . import ops
from ._adaptive import GATES_IN_FLOAT32, added_norm, gated, idle, modulated
from ._processors import chosen, dispatched_check, fits_mask, mask_of_heads, projected_out
from ._rules import Rule, _plain, takes, fuses, unhooked


def _block(block, twice, hidden_states, encoder_hidden_states, temb, image_rotary_emb=None, encoder_attention_mask=None):
    x, table = hidden_states, block.scale_shift_table
    if not takes(x, temb, table) or temb.device != x.device:
        return _plain(block, x, encoder_hidden_states, temb, image_rotary_emb, encoder_attention_mask)
    values = table + torch.unflatten(temb, -1, (table.shape[0], -1))  # [batch, one or all tokens, 6, channels]
    shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = values.unbind(dim=2)
    normed = modulated(x, block.norm1, scale, shift, twice, for_linear=True)
    attended = block.attn1(hidden_states=normed, encoder_hidden_states=None, image_rotary_emb=image_rotary_emb)
    x = gated(x, attended, gate, twice)
    attended = block.attn2(x, encoder_hidden_states=encoder_hidden_states, image_rotary_emb=None,
                           attention_mask=encoder_attention_mask)
    normed, x = added_norm(x, attended, block.norm2, twice, scale=ffn_scale, shift=ffn_shift)
    return gated(x, block.ff(normed), ffn_gate, twice)


def _one_pass(attention, q, k, twice):
    """Says whether norms of queries and keys may share a pass with the positions, which rounds once."""
    norms = attention.norm_q, attention.norm_k
    return (fuses(twice, q) and all(type(norm) is nn.RMSNorm and norm.eps is not None and unhooked(norm) for norm in norms)
            and norms[0].eps == norms[1].eps and q.shape == k.shape and takes(q, k, norms[0].weight, norms[1].weight))


def _turned(attention, q, k, rotary, twice):
    """Returns queries and keys [batch, tokens, channels], normalised, with pairs of neighbours rotated by tables [batch
    or 1, tokens, channels], in which neighbours have the same value. Samples with separate tables are treated as one
    long sample."""
    shape = q.shape
    cos, sin = (table[..., ::2].float().flatten(0, 1) for table in rotary)
    if cos.shape[0] != shape[1]:
        q, k = (t.reshape(1, -1, shape[2]) for t in (q, k))
    if _one_pass(attention, q, k, twice):
        q, k = ops.qk_norm_rope(q, k, attention.norm_q.weight, attention.norm_k.weight, cos, sin, 1, attention.norm_q.eps)
    else:
        q, k = (ops.rope(norm(t).unsqueeze(2), cos, sin) for norm, t in ((attention.norm_q, q), (attention.norm_k, k)))
    return q.view(shape), k.view(shape)


def _fits_tables(rotary, x):
    return rotary is None or all(t.dim() == 3 and t.shape[0] in (1, x.shape[0]) and t.shape[1] == x.shape[1] for t in rotary)


def _attention(attention, twice, hidden_states, encoder_hidden_states=None, attention_mask=None, image_rotary_emb=None, **kwargs):
    x, text, mask, rotary = hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb
    fits = takes(x) and fits_mask(mask, x) and _fits_tables(rotary, x)
    if not fits or kwargs or chosen(attention.processor, transformer_ltx.LTXVideoAttnProcessor):
        return _plain(attention, x, text, mask, rotary, **kwargs)
    text = x if text is None else text
    mask = mask_of_heads(attention, mask, x.shape[0], text.shape[1])
    q, k, v = attention.to_q(x), attention.to_k(text), attention.to_v(text)
    if rotary is None:
        q, k = attention.norm_q(q), attention.norm_k(k)
    else:
        q, k = _turned(attention, q, k, rotary, twice)
    q, k, v = (torch.unflatten(t, 2, (attention.heads, -1)) for t in (q, k, v))
    return projected_out(attention, ops.attention(q, k, v, mask))


def rules():
    return {
        transformer_ltx.LTXVideoTransformerBlock: Rule("a whole block", _block, inside=lambda b: idle(b.norm1, b.norm2),
                                                       safe=GATES_IN_FLOAT32),
        transformer_ltx.LTXAttention: Rule("rope and attention", _attention,
                                           dispatched_check(transformer_ltx.LTXVideoAttnProcessor)),
    }
