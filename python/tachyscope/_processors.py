"""Attention of diffusers' class Attention (SD3, SDXL, PixArt, DiT, VAEs), and the checks that all rules for attention
make first.

Linear layers and norms of queries and keys are called as modules. A module's processor decides what it computes. The
rule in this file stands in for two processors of diffusers; every other processor (the user's, or those of IP
adapters, perturbed guidance, fused projections) runs as it is, whether it was there when `optimize` was
called or came later."""

import torch
from diffusers.models import attention_dispatch, attention_processor

from . import ops
from ._rules import FLOATS, Rule, _plain, in_region, takes, takes_norm, unhooked

_OWN = (attention_processor.AttnProcessor2_0, attention_processor.JointAttnProcessor2_0)


def _other_backend():
    return attention_dispatch._AttentionBackendRegistry._active_backend != attention_dispatch.AttentionBackendName.NATIVE


def dispatched_check(cls):
    """Returns the check for attention whose processor `cls` lets diffusers' dispatcher choose a kernel."""

    def check(attention):
        if type(attention.processor) is not cls:
            return f"its processor is {type(attention.processor).__name__}"
        return "another attention backend was chosen for diffusers" if _other_backend() else None

    return check


def chosen(processor, cls):
    """Says whether the user has chosen another computation since the module was replaced."""
    return (type(processor) is not cls or processor._attention_backend is not None or processor._parallel_config is not None
            or _other_backend())


def projected_out(attention, x):
    """Applies the layers after attention to heads [batch, tokens, heads, head dim]."""
    return attention.to_out[1](attention.to_out[0](x.flatten(2, 3)))


def mask_of_heads(attention, mask, batch, keys):
    """Returns a mask [batch, queries or 1, keys] in a form that broadcasts to the scores; other masks as the module
    prepares them."""
    if mask is None:
        return None
    if mask.dim() == 3 and mask.shape[0] == batch and mask.shape[-1] == keys:
        return mask[:, None]
    mask = attention.prepare_attention_mask(mask, keys, batch)
    return mask.view(batch, attention.heads, -1, mask.shape[-1])


def fits_mask(mask, x):
    return mask is None or mask.dtype in ((torch.bool, *FLOATS) if in_region(x) else (torch.bool, x.dtype))


def _heads(attention, x, text):
    """Returns queries of x, and keys and values of the text: [batch, tokens, heads, head dim], the first two
    normalised."""
    parts = attention.to_q(x), attention.to_k(text), attention.to_v(text)
    return _normed(attention, parts, attention.norm_q, attention.norm_k)


def _normed(attention, parts, norm_q, norm_k):
    heads = (torch.unflatten(t, -1, (attention.heads, -1)) for t in parts)
    return [t if norm is None else norm(t) for t, norm in zip(heads, (norm_q, norm_k, None))]


def _joint(attention, x, text):
    q, k, v = _heads(attention, x, x)
    if text is None:
        return projected_out(attention, ops.attention(q, k, v))
    added = attention.add_q_proj(text), attention.add_k_proj(text), attention.add_v_proj(text)
    added = _normed(attention, added, attention.norm_added_q, attention.norm_added_k)
    q, k, v = (torch.cat(pair, dim=1) for pair in zip((q, k, v), added))
    both = ops.attention(q, k, v)
    text = both[:, x.shape[1]:].flatten(2, 3)
    return projected_out(attention, both[:, :x.shape[1]]), text if attention.context_pre_only else attention.to_add_out(text)


def _normed_image(attention, x):
    """Applies GroupNorm to tokens [batch, tokens, channels], which have channels last."""
    norm = attention.group_norm
    if unhooked(norm) and takes_norm("group_norm", x, norm.weight, norm.bias):
        return ops.group_norm(x.transpose(1, 2), norm.num_groups, norm.weight, norm.bias, norm.eps).transpose(1, 2)
    return norm(x.transpose(1, 2)).transpose(1, 2)


def _single(attention, x, text, mask):
    given = x
    if x.dim() == 4:
        x = x.flatten(2).transpose(1, 2)
    mask = mask_of_heads(attention, mask, x.shape[0], (x if text is None else text).shape[1])
    if attention.group_norm is not None:
        x = _normed_image(attention, x)
    if text is None:
        text = x
    elif attention.norm_cross:
        text = attention.norm_encoder_hidden_states(text)
    q, k, v = _heads(attention, x, text)
    x = projected_out(attention, ops.attention(q, k, v, mask))
    if given.dim() == 4:
        x = x.transpose(-1, -2).reshape(given.shape)
    if attention.residual_connection:
        x = x + given
    return x if attention.rescale_output_factor == 1 else x / attention.rescale_output_factor


def _attention(attention, twice, hidden_states, encoder_hidden_states=None, attention_mask=None, **kwargs):
    x, text, mask = hidden_states, encoder_hidden_states, attention_mask
    joint = type(attention.processor) is attention_processor.JointAttnProcessor2_0
    # Only spatial norms need the time, and the check excludes those; the module itself reports or refuses everything else.
    known = type(attention.processor) in _OWN and not kwargs.keys() - (set() if joint else {"temb"})
    fits = takes(x) and fits_mask(mask, x) and (x.dim() == 3 or (x.dim() == 4 and not joint))
    if not known or not fits or (joint and mask is not None):
        return _plain(attention, x, text, mask, **kwargs)
    return _joint(attention, x, text) if joint else _single(attention, x, text, mask)


def _attention_check(attention):
    if type(attention.processor) not in _OWN:
        return f"its processor is {type(attention.processor).__name__}"
    if attention.spatial_norm is not None:
        return "it normalises by the position in the image"
    return None


def rules():
    return {attention_processor.Attention: Rule("attention", _attention, _attention_check)}
