"""Norms modulated by the time, gated residual adds, and diffusers' modules of adaptive norms.

A block separately rounds a norm, its product with 1 + scale and the sum with shift, and gate · u before it is added. In
float32 one pass for all of these is as exact. In 16 bits one pass rounds once, so it is left to levels above safe. At
safe the add and the norm after it are still one pass, since that rounds where the block does, and torch does the
modulation."""

import torch
from diffusers.models import normalization
from torch import nn

from . import ops
from ._rules import FLOATS, IN_FLOAT32, Rule, _plain, _usual, apart, fuses, in_region, narrow, takes, unhooked

GATES_IN_FLOAT32 = " (its gates and scales fused where it is float32)"  # added to the report at level safe


def idle(*norms):
    """Returns those of the norms that are never called here: they have no parameters, so no hook has to load them."""
    return [norm for norm in norms if next(norm.parameters(), None) is None]


def _kind(norm, x):
    """Returns "layer" or "rms" if our ops give the norm's values from its parameters, None if the norm must be called."""
    if not unhooked(norm):
        return None
    if type(norm) is nn.LayerNorm:
        return "layer" if len(norm.normalized_shape) == 1 and takes(x, norm.weight, norm.bias) else None
    if type(norm) is normalization.FP32LayerNorm:
        return "layer" if len(norm.normalized_shape) == 1 and narrow(norm.weight, norm.bias) else None
    if type(norm) is normalization.RMSNorm and norm.bias is None and len(norm.dim) == 1:
        return "rms" if takes(x, norm.weight) else None
    return None


def modulated(x, norm, scale, shift, twice, for_linear=False):
    """norm(x) · (1 + scale) + shift, in one pass if the level allows that this rounds once. Inside of torch.autocast only what is `for_linear` is
    computed here, since linear layers round to the region's dtype, which the result then has already."""
    kind, region = _kind(norm, x), in_region(x)
    if kind is not None and fuses(twice, x) and (for_linear if region else x.dtype == scale.dtype == shift.dtype):
        with apart(x):
            if kind == "layer":
                y = ops.ada_layer_norm(x, scale, shift, norm.weight, norm.bias, norm.eps)
            else:
                y = ops.rms_modulate(x, scale, shift, norm.weight, norm.eps)
        return y.to(torch.get_autocast_dtype(x.device.type)) if region else y
    if kind is None or region:
        y = norm(x)
    elif kind == "layer":
        y = ops.layer_norm(x, norm.weight, norm.bias, norm.eps)
    else:
        y = ops.rms_norm(x, norm.weight, norm.eps, round_twice=twice)
    return y * (1 + scale) + shift


def gated(x, u, gate, twice):
    """x + gate · u."""
    wide = in_region(x) and x.dtype == torch.float32 and u.dtype in FLOATS and (gate is None or gate.dtype in FLOATS)
    if wide or (x.dtype == u.dtype and (gate is None or (fuses(twice, x) and gate.dtype == x.dtype))):
        return ops.gated_residual(x, u, gate)
    return x + (u if gate is None else gate * u)


def added_norm(x, u, norm, twice, gate=None, scale=None, shift=None):
    """(norm(h) · (1 + scale) + shift, h) with h = x + gate · u; only the norm if there is no scale. The first is for a linear layer."""
    others = [t for t in (u, gate, scale, shift) if t is not None]
    alike = all(t.dtype == x.dtype for t in others) or (in_region(x) and x.dtype == torch.float32 and all(t.dtype in FLOATS for t in others))
    kind = _kind(norm, x) if alike else None
    if kind is None:
        h = gated(x, u, gate, twice)
        y = norm(h)
    elif fuses(twice, x):
        return ops.add_norm(x, u, norm.weight, norm.bias, norm=kind, gate=gate, scale=scale, shift=shift, eps=norm.eps)
    else:
        u = u if gate is None else gate * u
        weighted = kind == "rms" and norm.weight is not None  # diffusers' RMSNorm also rounds before its weight
        y, h = ops.add_norm(x, u, norm.weight, norm.bias, norm=kind, eps=norm.eps, round_twice=weighted)
    return (y if scale is None else y * (1 + scale) + shift), h


def _norm_check(module):
    if type(module.norm) not in (nn.LayerNorm, normalization.FP32LayerNorm):
        return f"its norm is {type(module.norm).__name__}"
    return None if len(module.norm.normalized_shape) == 1 else "it normalises over several dims"


# Modules of adaptive norms: SiLU and a linear layer, which are both called, turn an embedding into the parts that modulate the norm.


def _zero(module, twice, x, timestep=None, class_labels=None, hidden_dtype=None, emb=None):
    if not _usual(x):
        return _plain(module, x, timestep, class_labels, hidden_dtype, emb)
    if module.emb is not None:
        emb = module.emb(timestep, class_labels, hidden_dtype=hidden_dtype)
    shift, scale, *others = module.linear(module.silu(emb)).chunk(6, dim=1)
    return modulated(x, module.norm, scale[:, None], shift[:, None], twice), *others


def _zero_single(module, twice, x, emb=None):
    if not _usual(x):
        return _plain(module, x, emb)
    shift, scale, gate = module.linear(module.silu(emb)).chunk(3, dim=1)
    return modulated(x, module.norm, scale[:, None], shift[:, None], twice), gate


def _zero_two(module, twice, hidden_states, emb=None):
    if not _usual(hidden_states):
        return _plain(module, hidden_states, emb)
    shift, scale, gate, *ffn, shift2, scale2, gate2 = module.linear(module.silu(emb)).chunk(9, dim=1)
    first, second = (modulated(hidden_states, module.norm, a[:, None], b[:, None], twice)
                     for a, b in ((scale, shift), (scale2, shift2)))
    return first, gate, *ffn, second, gate2


def _continuous(module, twice, x, conditioning_embedding):
    if not _usual(x):
        return _plain(module, x, conditioning_embedding)
    scale, shift = module.linear(module.silu(conditioning_embedding).to(x.dtype)).chunk(2, dim=1)
    return modulated(x, module.norm, scale[:, None], shift[:, None], twice)


def _of_time(module, twice, x, timestep=None, temb=None):
    if not _usual(x):
        return _plain(module, x, timestep, temb)
    temb = module.linear(module.silu(temb if module.emb is None else module.emb(timestep)))
    if module.chunk_dim == 1:
        shift, scale = (t[:, None] for t in temb.chunk(2, dim=1))
    else:
        scale, shift = temb.chunk(2, dim=0)
    return modulated(x, module.norm, scale, shift, twice)


def _text_and_video(module, twice, hidden_states, encoder_hidden_states, temb):
    if not _usual(hidden_states, encoder_hidden_states):
        return _plain(module, hidden_states, encoder_hidden_states, temb)
    parts = [t[:, None] for t in module.linear(module.silu(temb)).chunk(6, dim=1)]
    (shift, scale, gate), (text_shift, text_scale, text_gate) = parts[:3], parts[3:]
    return (modulated(hidden_states, module.norm, scale, shift, twice),
            modulated(encoder_hidden_states, module.norm, text_scale, text_shift, twice), gate, text_gate)


def rules():
    calls = {"AdaLayerNormZero": _zero, "AdaLayerNormZeroSingle": _zero_single, "SD35AdaLayerNormZeroX": _zero_two,
             "AdaLayerNormContinuous": _continuous, "AdaLayerNorm": _of_time, "CogVideoXLayerNormZero": _text_and_video}
    return {getattr(normalization, name): Rule("ada_layer_norm", call, _norm_check, lambda module: idle(module.norm), IN_FLOAT32)
            for name, call in calls.items()}
