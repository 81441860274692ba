"""Calls whose gradients are recorded, of so few values that the host's time counts: torch's own functions, whose autograd
is in C++, take less of it than an op whose gradients are written in Python. These functions return None for every other
call, and where torch refuses the arguments, which our op then names. A norm in 16 bits is rounded before its activation, as
in modules of torch."""

from . import _op as way

MOST = 1 << 23  # values of a norm; from here on our passes over memory save more time than the host takes
FACTOR = 8  # an activation, which has one pass each way, saves less: its limit is this many times MOST
_torch = _nn = _Tensor = _grad = _compiling = None


def _ready():
    """Looks up what is used of torch, once it has been enabled."""
    global _torch, _nn, _Tensor, _grad, _compiling
    if way._Tensor == ():
        return False
    import torch
    _torch, _nn, _Tensor = torch, torch._C._nn, torch.Tensor
    _grad, _compiling = torch.is_grad_enabled, torch.compiler.is_compiling
    return True


def _torchs(x, weight=None, bias=None, factor=1):
    """Says whether torch should compute this call."""
    if (_torch is None and not _ready()) or not _grad() or not isinstance(x, _Tensor) or not 0 < x.numel() <= factor * MOST:
        return False
    if not (x.requires_grad or (weight is not None and weight.requires_grad) or (bias is not None and bias.requires_grad)):
        return False
    return x.is_contiguous() and not _compiling()


def rms_norm(x, weight, eps, round_twice):
    """Returns torch's on a GPU alone, where it is one kernel for tensors of one dtype; elsewhere it is made of several operations."""
    if round_twice or not getattr(x, "is_cuda", False) or not _torchs(x, weight) or (weight is not None and weight.dtype != x.dtype):
        return None
    try:
        return _torch.rms_norm(x, x.shape[-1:], weight, eps)
    except (RuntimeError, TypeError):
        return None


def layer_norm(x, weight, bias, eps):
    if not _torchs(x, weight, bias):
        return None
    try:
        return _torch.layer_norm(x, x.shape[-1:], weight, bias, eps)
    except (RuntimeError, TypeError):
        return None


def _activated(x, kind):
    """The numbers are those of ops.py."""
    if kind == 1:
        return _nn.silu(x)
    if kind == 4:
        return _nn.mish(x)
    return _nn.gelu(x, approximate="tanh") if kind == 2 else _nn.gelu(x)


def activation(x, kind):
    try:
        return _activated(x, kind) if _torchs(x, factor=FACTOR) else None
    except RuntimeError:
        return None


def group_norm(x, groups, weight, bias, eps, act):
    if not _torchs(x, weight, bias):
        return None
    try:
        y = _torch.group_norm(x, groups, weight, bias, eps)
        return _activated(y, act) if act else y
    except (RuntimeError, TypeError):
        return None
