"""Whole blocks and attention of diffusers' Wan transformer.

A block is adaptive LayerNorm, attention, the gated residual add with the norm after it, attention over the text, the
residual add with the adaptive norm after it, feed-forward and the last gated residual add: three passes over the hidden
states, where its own code makes about fifteen. Values are rounded where the block rounds them, since it computes these
parts in float32. Linear layers are called as modules, whatever adapters or hooks they have, and at level safe so are
norms of queries and keys; at the other levels these share one pass with the rotary positions.

Attention is replaced if the module has diffusers' own processor for it, no backend chosen by the user, and no parallel
config; if gradients are recorded, `ops.attention` is torch's."""

import torch
from diffusers.models.transformers import transformer_wan

from . import ops
from ._processors import chosen, dispatched_check
from ._rules import Rule, _plain, apart, narrow, takes, unhooked


def _affine(norm):
    """Says whether the parameters of this norm can be read here, because no hook has to load them first. Otherwise the norm is called."""
    return type(norm) is transformer_wan.FP32LayerNorm and unhooked(norm) and narrow(norm.weight, norm.bias)


def _block_check(block):
    norms = [block.norm1, block.norm3]
    if not all(isinstance(n, transformer_wan.FP32LayerNorm) and n.weight is None and n.bias is None for n in norms):
        return "its norms are not those of diffusers"
    return None


def _block(block, twice, x, text, temb, rotary):
    if not (takes(x) and narrow(block.scale_shift_table, temb)) or temb.device != x.device:
        return _plain(block, x, text, temb, rotary)
    if temb.ndim == 4:  # there are six rows for each token
        parts = [t.squeeze(2) for t in (block.scale_shift_table.unsqueeze(0) + temb.float()).chunk(6, dim=2)]
    else:
        parts = (block.scale_shift_table + temb.float()).chunk(6, dim=1)
    shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = parts

    with apart(x):
        normed = ops.ada_layer_norm(x, scale, shift, eps=block.norm1.eps)
    attended = block.attn1(normed, None, None, rotary)
    if _affine(block.norm2):
        norm = block.norm2
        normed, x = ops.add_norm(x, attended, norm.weight, norm.bias, norm="layer", gate=gate, eps=norm.eps)
    else:
        x = ops.gated_residual(x, attended, gate)
        normed = block.norm2(x)
    attended = block.attn2(normed, text, None, None)
    normed, x = ops.add_norm(x, attended, norm="layer", scale=ffn_scale, shift=ffn_shift, eps=block.norm3.eps)
    return ops.gated_residual(x, block.ffn(normed), ffn_gate)


def _bare(norm):
    return type(norm) is torch.nn.RMSNorm and norm.eps is not None and unhooked(norm)


def _with_positions(attention, q, k, rotary, twice):
    """Returns q and k, normalised and rotated, as [batch, tokens, heads, head dim]: in one pass that rounds once, if
    the level allows."""
    cos, sin = (table[0, :, 0, start::2].float().contiguous() for start, table in enumerate(rotary))
    norms = attention.norm_q, attention.norm_k
    if not twice and all(map(_bare, norms)) and norms[0].eps == norms[1].eps and q.shape == k.shape:
        return ops.qk_norm_rope(q, k, norms[0].weight, norms[1].weight, cos, sin, attention.heads, norms[0].eps)
    q, k = (torch.unflatten(norm(t), 2, (attention.heads, -1)) for norm, t in zip(norms, (q, k)))
    return ops.rope(q, cos, sin), ops.rope(k, cos, sin)


def _attention(attention, twice, x, text=None, mask=None, rotary=None, **kwargs):
    if not takes(x) or kwargs or chosen(attention.processor, transformer_wan.WanAttnProcessor):
        return _plain(attention, x, text, mask, rotary, **kwargs)
    image = None
    if attention.add_k_proj is not None:  # an image's tokens come before 512 of text, as in diffusers
        count = text.shape[1] - 512
        image, text = text[:, :count], text[:, count:]
    q, k, v = transformer_wan._get_qkv_projections(attention, x, text)
    v = torch.unflatten(v, 2, (attention.heads, -1))
    if rotary is None:
        q, k = (torch.unflatten(t, 2, (attention.heads, -1)) for t in (attention.norm_q(q), attention.norm_k(k)))
    else:
        q, k = _with_positions(attention, q, k, rotary, twice)
    result = ops.attention(q, k, v, mask)
    if image is not None:
        k, v = transformer_wan._get_added_kv_projections(attention, image)
        k, v = (torch.unflatten(t, 2, (attention.heads, -1)) for t in (attention.norm_added_k(k), v))
        result = result + ops.attention(q, k, v)
    result = attention.to_out[0](result.flatten(2, 3))
    return attention.to_out[1](result)


def rules():
    return {
        transformer_wan.WanTransformerBlock: Rule("a whole block", _block, _block_check, lambda block: [block.norm1, block.norm3]),
        transformer_wan.WanAttention: Rule("rope and attention", _attention,
                                           dispatched_check(transformer_wan.WanAttnProcessor)),
    }
