"""diffusers' BasicTransformerBlock: the blocks of SDXL's UNet (LayerNorm), DiT (AdaLayerNormZero) and PixArt (one table
of shifts, scales and gates in each block, added to those from the time).

It consists of a norm, attention, the residual add with the norm after it, attention over the text, the residual add
with the norm after it, feed-forward and the last residual add. With plain LayerNorms this rounds where the block does
at every level."""

import torch
from diffusers.models import attention

from ._adaptive import GATES_IN_FLOAT32, added_norm, gated, idle, modulated
from ._rules import Rule, _plain, takes

_KNOWN = ("layer_norm", "ada_norm_zero", "ada_norm_single")


def _check(block):
    if block.norm_type not in _KNOWN:
        return f"no rule for its norms ({block.norm_type})"
    if block.pos_embed is not None:
        return "it adds positions to the output of its norms"
    return None


def _first(block, x, timestep, class_labels, twice):
    """Returns the first norm and (gate, shift, scale, last gate) for the parts that are modulated after it, None if
    none are."""
    if block.norm_type == "layer_norm":
        return block.norm1(x), (None,) * 4
    if block.norm_type == "ada_norm_zero":
        normed, *parts = block.norm1(x, timestep, class_labels, hidden_dtype=x.dtype)
        return normed, [t[:, None] for t in parts]
    values = block.scale_shift_table + torch.unflatten(timestep, -1, (6, -1))
    shift, scale, *parts = values.chunk(6, dim=1)
    return modulated(x, block.norm1, scale, shift, twice, for_linear=True), parts


def _block(block, twice, hidden_states, attention_mask=None, encoder_hidden_states=None, encoder_attention_mask=None,
           timestep=None, cross_attention_kwargs=None, class_labels=None, added_cond_kwargs=None):
    x, text, kwargs = hidden_states, encoder_hidden_states, cross_attention_kwargs or {}
    single = block.norm_type == "ada_norm_single"
    odd = kwargs.keys() & {"scale", "gligen"} or block._chunk_size is not None or (single and timestep.dim() != 2)
    if odd or not takes(x) or x.dim() != 3:
        return _plain(block, x, attention_mask, text, encoder_attention_mask, timestep, cross_attention_kwargs, class_labels,
                      added_cond_kwargs)
    normed, (gate, shift, scale, ffn_gate) = _first(block, x, timestep, class_labels, twice)
    attended = block.attn1(normed, encoder_hidden_states=text if block.only_cross_attention else None,
                           attention_mask=attention_mask, **kwargs)
    if block.attn2 is not None:
        if single:
            normed = x = gated(x, attended, gate, twice)
        else:
            normed, x = added_norm(x, attended, block.norm2, twice, gate)
        attended, gate = block.attn2(normed, encoder_hidden_states=text, attention_mask=encoder_attention_mask, **kwargs), None
    last = block.norm2 if single else block.norm3
    normed, x = added_norm(x, attended, last, twice, gate, scale, shift)
    return gated(x, block.ff(normed), ffn_gate, twice)


def _inside(block):
    norms = [block.norm1, block.norm2] if block.norm_type == "ada_norm_single" else [block.norm2, block.norm3]
    return idle(*(norm for norm in norms if norm is not None))


def rules():
    return {attention.BasicTransformerBlock: Rule("a whole block", _block, _check, _inside, GATES_IN_FLOAT32)}
