"""Whole blocks and attention of diffusers' FLUX transformer.

A double block does the same for text and image: an adaptive norm, joint attention, the gated residual add with the
modulated norm after it, feed-forward and the last gated residual add. A single block has attention and feed-forward
side by side and one gated residual add. Positions rotate pairs of neighbours in each head, first for the text's tokens
and then for the image's."""

import torch
from diffusers.models.transformers import transformer_flux

from . import ops
from ._adaptive import GATES_IN_FLOAT32, added_norm, gated, idle
from ._processors import chosen, dispatched_check, fits_mask, projected_out
from ._rules import Rule, _plain, takes


def _clipped(x):
    """Limits values to the range of float16, as the blocks do."""
    return x.clip(-65504, 65504) if x.dtype == torch.float16 else x


def _double(block, twice, hidden_states, encoder_hidden_states, temb, image_rotary_emb=None, joint_attention_kwargs=None):
    x, text = hidden_states, encoder_hidden_states
    if not takes(x, text):
        return _plain(block, x, text, temb, image_rotary_emb, joint_attention_kwargs)
    normed, *image_parts = block.norm1(x, emb=temb)
    normed_text, *text_parts = block.norm1_context(text, emb=temb)
    attended, attended_text, *from_adapters = block.attn(hidden_states=normed, encoder_hidden_states=normed_text,
                                                         image_rotary_emb=image_rotary_emb, **(joint_attention_kwargs or {}))
    x = _half(x, attended, block.norm2, block.ff, image_parts, twice)
    for other in from_adapters:
        x = x + other
    text = _half(text, attended_text, block.norm2_context, block.ff_context, text_parts, twice)
    return _clipped(text), x


def _half(x, attended, norm, ffn, parts, twice):
    """The part after attention, for the image or the text. `parts`: gate, shift, scale and the last gate for each
    sample."""
    gate, shift, scale, ffn_gate = (t[:, None] for t in parts)
    normed, x = added_norm(x, attended, norm, twice, gate, scale, shift)
    return gated(x, ffn(normed), ffn_gate, twice)


def _single(block, twice, hidden_states, encoder_hidden_states, temb, image_rotary_emb=None, joint_attention_kwargs=None):
    if not takes(hidden_states, encoder_hidden_states):
        return _plain(block, hidden_states, encoder_hidden_states, temb, image_rotary_emb, joint_attention_kwargs)
    tokens = encoder_hidden_states.shape[1]
    x = torch.cat([encoder_hidden_states, hidden_states], dim=1)
    normed, gate = block.norm(x, emb=temb)
    inner = block.act_mlp(block.proj_mlp(normed))
    attended = block.attn(hidden_states=normed, image_rotary_emb=image_rotary_emb, **(joint_attention_kwargs or {}))
    u = block.proj_out(torch.cat([attended, inner], dim=2))
    x = _clipped(gated(x, u, gate[:, None], twice))
    return x[:, :tokens], x[:, tokens:]


def _fits_tables(rotary, attention, tokens):
    return rotary is None or all(t.shape == (tokens, attention.head_dim) for t in rotary)


def _attention(attention, twice, hidden_states, encoder_hidden_states=None, attention_mask=None, image_rotary_emb=None, **kwargs):
    x, text, mask, rotary = hidden_states, encoder_hidden_states, attention_mask, image_rotary_emb
    joint = attention.added_kv_proj_dim is not None
    fits = takes(x) and fits_mask(mask, x) and joint == (text is not None)
    tokens = x.shape[1] + (text.shape[1] if fits and joint else 0)
    if (not fits or kwargs or chosen(attention.processor, transformer_flux.FluxAttnProcessor)
            or not _fits_tables(rotary, attention, tokens)):
        return _plain(attention, x, text, mask, rotary, **kwargs)
    parts = transformer_flux._get_qkv_projections(attention, x, text)
    q, k, v = (torch.unflatten(t, -1, (-1, attention.head_dim)) for t in parts[:3])
    q, k = attention.norm_q(q), attention.norm_k(k)
    if joint:
        added_q, added_k, added_v = (torch.unflatten(t, -1, (-1, attention.head_dim)) for t in parts[3:])
        added = attention.norm_added_q(added_q), attention.norm_added_k(added_k), added_v
        q, k, v = (torch.cat(pair, dim=1) for pair in zip(added, (q, k, v)))
    if rotary is not None:
        cos, sin = (table[:, ::2].to(x.device).float().contiguous() for table in rotary)
        q, k = ops.rope(q, cos, sin), ops.rope(k, cos, sin)
    both = ops.attention(q, k, v, mask)
    if not joint:
        return both.flatten(2, 3)
    text, image = both[:, :text.shape[1]], both[:, text.shape[1]:]
    return projected_out(attention, image), attention.to_add_out(text.flatten(2, 3))


def rules():
    block = dict(op="a whole block", safe=GATES_IN_FLOAT32)
    return {
        transformer_flux.FluxTransformerBlock: Rule(call=_double, inside=lambda b: idle(b.norm2, b.norm2_context), **block),
        transformer_flux.FluxSingleTransformerBlock: Rule(call=_single, **block),
        transformer_flux.FluxAttention: Rule("rope and attention", _attention,
                                             dispatched_check(transformer_flux.FluxAttnProcessor)),
    }
