"""The parts of Wan's blocks as ComfyUI and WanVideoWrapper write them: norms with modulation, gated residual adds, and
queries and keys with their positions.

Theirs round a norm, 1 + scale and the modulated value each, if all are of 16 bits; beside rows in float32 they round
once. A gated add rounds once. At level safe a modulation in 16 bits is therefore torch's, and the add is one pass with
the norm after it. Norms whose weights their owner would convert, patch or load first are called as modules."""

import torch
from torch import nn

from . import ops
from ._rules import MARK, apart, fuses, in_region, takes

_OURS = (MARK, "_tachyscope_comfyui")  # where a module keeps a forward of ours; the second is the node's


def bare(module):
    """Says whether the module may be computed without being called: it has no hooks, no patches of its weights and no
    forward but its class's or ours."""
    own = module.__dict__
    forward = own.get("forward")
    if forward is not None and all(forward is not own.get(mark) for mark in _OURS):
        return False
    hooks = (module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks)
    if any(hooks) or "_hf_hook" in own:
        return False
    return not (getattr(module, "weight_function", ()) or getattr(module, "bias_function", ()))


def layer_norm_of(norm, x):
    """Says whether our LayerNorm gives this norm's values of x from its parameters."""
    if not isinstance(norm, nn.LayerNorm) or len(norm.normalized_shape) != 1 or not bare(norm):
        return False
    return all(p is None or _beside(norm, p, x) for p in (norm.weight, norm.bias))


def _casts(norm):
    """Says whether the norm is ComfyUI's, which brings its parameters to x's dtype and device."""
    return hasattr(norm, "comfy_cast_weights")


def _beside(norm, parameter, x):
    """Says whether our norms of x take the parameter, and the norm itself would not round it first."""
    return parameter.device == x.device and (parameter.dtype == x.dtype or (parameter.dtype == torch.float32 and not _casts(norm)))


def _called(norm, x, dtype):
    """Calls the norm as its owner does: ComfyUI's on x, since it casts its weight, others on values of their weight's
    dtype, or of `dtype` if they have none."""
    if _casts(norm):
        return norm(x)
    weight = getattr(norm, "weight", None)
    floats = weight is not None and weight.dtype in (torch.float32, torch.bfloat16, torch.float16)
    return norm(x.to(weight.dtype if floats else dtype))


def _once(twice, x, scale):
    return fuses(twice, x) or scale.dtype == torch.float32


def modulated(norm, x, scale, shift, twice):
    """norm(x) · (1 + scale) + shift, in x's dtype."""
    known = layer_norm_of(norm, x)
    if known and _once(twice, x, scale):
        with apart(x):
            return ops.ada_layer_norm(x, scale, shift, norm.weight, norm.bias, norm.eps)
    y = ops.layer_norm(x, norm.weight, norm.bias, norm.eps) if known and not in_region(x) else _called(norm, x, scale.dtype)
    return torch.addcmul(shift, y, 1 + scale).to(x.dtype)


def added_norm(norm, x, u, gate=None):
    """(norm(h), h) with h = x + gate · u."""
    if layer_norm_of(norm, x):
        return ops.add_norm(x, u, norm.weight, norm.bias, norm="layer", gate=gate, eps=norm.eps)
    h = ops.gated_residual(x, u, gate)
    return _called(norm, h, h.dtype).to(x.dtype), h


def added_modulated(norm, x, u, scale, shift, twice):
    """(norm(h) · (1 + scale) + shift, h) with h = x + u."""
    if layer_norm_of(norm, x) and _once(twice, x, scale):
        return ops.add_norm(x, u, norm.weight, norm.bias, norm="layer", scale=scale, shift=shift, eps=norm.eps)
    y, h = added_norm(norm, x, u)
    return torch.addcmul(shift, y, 1 + scale).to(x.dtype), h


def tables(freqs, tokens):
    """Returns cos and sin [tokens, pairs] of ComfyUI's rotations [1, tokens, 1, pairs, 2, 2], or None for another form."""
    if not isinstance(freqs, torch.Tensor) or freqs.dim() != 6 or freqs.dtype != torch.float32:
        return None
    if freqs.shape[:3] != (1, tokens, 1) or freqs.shape[4:] != (2, 2):
        return None
    turns = freqs[0, :, 0]
    return turns[..., 0, 0].contiguous(), turns[..., 1, 0].contiguous()


def _rms_norm_of(norm, x):
    weight = getattr(norm, "weight", None)
    if not type(norm).__name__.endswith("RMSNorm") or weight is None or not isinstance(getattr(norm, "eps", None), float):
        return False
    return weight.shape == x.shape[-1:] and _beside(norm, weight, x) and bare(norm)


def turned(q, k, norms, heads, cos, sin, twice):
    """Returns q and k [batch, tokens, channels] normalised over all channels and rotated, [batch, tokens, heads, head
    dim]: in one pass that rounds once, if the level allows."""
    one, other = norms
    if fuses(twice, q) and q.shape == k.shape and takes(q, k) and all(_rms_norm_of(n, q) for n in norms) and one.eps == other.eps:
        return ops.qk_norm_rope(q, k, one.weight, other.weight, cos, sin, heads, one.eps)
    return tuple(ops.rope(heads_of(norm, t, heads), cos, sin) for norm, t in zip(norms, (q, k)))


def heads_of(norm, t, heads):
    """Returns t [batch, tokens, channels] normalised over all channels, as [batch, tokens, heads, head dim]."""
    return torch.unflatten(_called(norm, t, t.dtype).to(t.dtype), 2, (heads, -1))
