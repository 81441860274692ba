"""The parts of `ops.channel_norm_codes`, `ops.scaled_conv3d` and `ops.conv3d_codes_of` that are decided in Python: which
codes there are, codes of float8 as the bytes that the ops take, and the codes of a weight."""

import torch

from . import _op as way
from ._linear import _LEAST, _TOPS

_TAPS, _GROUP = (3, 3, 3), 32  # tensor cores multiply so many channels at once


def top_of(name, dtype):
    """Returns the largest code's value."""
    if not isinstance(dtype, str) or dtype not in _TOPS:
        raise ValueError(f"{name}: expected dtype to be one of {', '.join(map(repr, _TOPS))}, got {dtype!r}")
    return _TOPS[dtype]


def _number(name, what, value):
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected {what} to be a number, got {type(value).__name__}") from None


def _bytes(name, t, what):
    """Returns the codes as the op takes them, and whether they are e4m3."""
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"{name}: expected {what} to be a tensor of torch, got {type(t).__name__}")
    e4m3 = t.dtype == torch.float8_e4m3fn
    return (t.view(torch.int8) if e4m3 else t), e4m3


def _refuse_gradients(name, *tensors):
    if way.records(*tensors):
        raise ValueError(f"{name}: expected no tensor that requires grad, got one; it has no gradients")


def norm_codes(op, x, gamma, scale, silu, dtype):
    top_of("channel_norm_codes", dtype)
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"channel_norm_codes: expected x to be a tensor of torch, got {type(x).__name__}")
    _refuse_gradients("channel_norm_codes", x, gamma)
    e4m3 = dtype != "int8"
    codes = op(x, gamma, _number("channel_norm_codes", "scale", scale), bool(silu), e4m3)
    return codes.view(torch.float8_e4m3fn) if e4m3 else codes


def conv(op, x, codes, scales, bias, frames, residual, gamma, next_scale, silu):
    name = "scaled_conv3d"
    _refuse_gradients(name, scales, bias, residual, gamma)
    x, e4m3 = _bytes(name, x, "x")
    codes, same = _bytes(name, codes, "codes")
    if same != e4m3:
        raise ValueError(f"{name}: expected codes of one kind, got x in {'e4m3' if e4m3 else 'int8'} and codes in {'e4m3' if same else 'int8'}")
    y = op(x, codes, scales, bias, residual, gamma, frames, _number(name, "next_scale", next_scale), bool(silu), e4m3)
    return y.view(torch.float8_e4m3fn) if e4m3 and gamma is not None else y


def codes_of(weight, x_scale, dtype):
    name = "conv3d_codes_of"
    top = top_of(name, dtype)
    if not isinstance(weight, torch.Tensor) or weight.dim() != 5 or tuple(weight.shape[2:]) != _TAPS or not weight.is_floating_point():
        raise ValueError(f"{name}: expected weight [out, in, 3, 3, 3] of floats, got {way.shape_of(weight)}")
    if not 0 < _number(name, "x_scale", x_scale) < float("inf"):
        raise ValueError(f"{name}: expected an x_scale above 0, got {x_scale}")
    wide = weight.detach().float()
    largest = wide.abs().amax(dim=(1, 2, 3, 4))
    scales = torch.where(largest == 0, 1.0, (largest / top).clamp_min(_LEAST))
    codes = (wide / scales[:, None, None, None, None]).clamp(-top, top)
    codes = codes.round().to(torch.int8) if dtype == "int8" else codes.to(torch.float8_e4m3fn).view(torch.int8)
    codes = codes.flatten(2).transpose(1, 2)
    codes = torch.nn.functional.pad(codes, (0, -codes.shape[2] % _GROUP)).contiguous()
    return (codes if dtype == "int8" else codes.view(torch.float8_e4m3fn)), scales * x_scale
