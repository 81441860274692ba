"""The parts of `ops.linear` and `ops.scaled_linear` that are decided in Python: the dtype of a bias on a GPU, codes of
float8 as the bytes that the op takes, and the codes of a weight."""

from . import _op as way

_TOPS = {"int8": 127.0, "float8_e4m3fn": 448.0}
_LEAST = 2.0 ** -126


def run(ops, x, weight, bias, act, gate, residual, out):
    args = (x, weight, _beside(bias, x if residual is None else residual), gate, residual, act)
    return ops["linear"](*args) if out is None else ops["linear"].out(out, *args)


def _beside(bias, like):
    """Returns the bias as the product adds it on a GPU: not wider than the result."""
    if bias is None or not getattr(like, "is_cuda", False) or bias.dtype == like.dtype or not hasattr(bias, "to"):
        return bias
    return bias.to(like.dtype)


def run_scaled(op, x, codes, scales, bias, act, out):
    e4m3 = str(getattr(codes, "dtype", "")) == "torch.float8_e4m3fn"
    if e4m3:
        import torch
        codes = codes.view(torch.int8)
    if way.records(x, scales, bias):
        raise ValueError("scaled_linear: expected no tensor that requires grad, got one; it has no gradients")
    args = (x, codes, scales, _beside(bias, x), act, e4m3)
    return op(*args) if out is None else op.out(out, *args)


def codes_of(weight, dtype):
    if not isinstance(dtype, str) or dtype not in _TOPS:
        raise ValueError(f"codes_of: expected dtype to be one of {', '.join(map(repr, _TOPS))}, got {dtype!r}")
    import torch

    if not isinstance(weight, torch.Tensor) or weight.dim() != 2 or not weight.is_floating_point():
        raise ValueError(f"codes_of: expected weight [out, in] of floats, got {way.shape_of(weight)}")
    wide, top = weight.detach().float(), _TOPS[dtype]
    scales = (wide.abs().amax(dim=1) / top).clamp_min(_LEAST)
    scales = torch.where(wide.abs().amax(dim=1) == 0, 1.0, scales)
    codes = (wide / scales[:, None]).clamp(-top, top)
    return (codes.round().to(torch.int8) if dtype == "int8" else codes.to(torch.float8_e4m3fn)), scales
