"""Calls of so few values that the host's time counts: torch's own functions take less of it than an op. Where gradients are
recorded that is so of more values, since torch's autograd is in C++ and an op's gradients are written in Python. These functions
return None for every other call, and where torch refuses the arguments, which our op then names. A norm in 16 bits is rounded
before its activation and an adapter's first product before its second, as in modules of torch."""

from functools import partial

from . import _op as way

MOST = 1 << 23  # values of a norm; from here on our passes over memory save more time than the host takes
FACTOR = 8  # an activation, which has one pass each way, saves less: its limit is this many times MOST
SHARE = 8  # an adapter's limit is this part of MOST, since in the forward pass ours is one kernel
FEW = 128  # on a GPU an activation whose gradients are not recorded is torch's up to this part of MOST
_torch = _Tensor = _grad = _compiling = _linear = None
_activations = _dtypes = ()


def _ready():
    """Looks up what is used of torch, once it has been enabled."""
    global _torch, _Tensor, _grad, _compiling, _linear, _activations, _dtypes
    if way._Tensor == ():
        return False
    import torch
    nn = torch._C._nn
    _Tensor, _grad, _compiling, _linear = torch.Tensor, torch.is_grad_enabled, torch.compiler.is_compiling, nn.linear
    _activations = (None, nn.silu, partial(nn.gelu, approximate="tanh"), nn.gelu, nn.mish)  # by the numbers of ops.py
    _dtypes = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    _torch = torch
    return True


def _torchs(x, weight=None, bias=None):
    """Says whether torch should compute this call of a norm."""
    if (_torch is None and not _ready()) or not isinstance(x, _Tensor):
        return False
    if not (x.requires_grad or getattr(weight, "requires_grad", False) or getattr(bias, "requires_grad", False)):
        return False
    return _grad() and not _compiling() and 0 < x.numel() <= MOST and x.is_contiguous()


def rms_norm(x, weight, eps, round_twice):
    """Returns torch's on a GPU alone, where it is one kernel for tensors of one dtype; elsewhere it is made of several operations."""
    if round_twice or not getattr(x, "is_cuda", False) or not _torchs(x, weight) or (weight is not None and weight.dtype != x.dtype):
        return None
    try:
        return _torch.rms_norm(x, (x.size(-1),), weight, eps)
    except (IndexError, RuntimeError, TypeError):
        return None


def layer_norm(x, weight, bias, eps):
    if not _torchs(x, weight, bias):
        return None
    try:
        return _torch.layer_norm(x, (x.size(-1),), weight, bias, eps)
    except (IndexError, RuntimeError, TypeError):
        return None


def activation(x, kind):
    if (_torch is None and not _ready()) or _compiling() or not isinstance(x, _Tensor) or x.dtype not in _dtypes:
        return None
    most = FACTOR * MOST if x.requires_grad and _grad() else MOST // FEW if x.is_cuda else 0
    if not 0 < x.numel() <= most or not x.is_contiguous():
        return None
    try:
        return _activations[kind](x)
    except RuntimeError:
        return None


def group_norm(x, groups, weight, bias, eps, act):
    if not _torchs(x, weight, bias):
        return None
    try:
        y = _torch.group_norm(x, groups, weight, bias, eps)
        return _activations[act](y) if act else y
    except (IndexError, RuntimeError, TypeError):
        return None


def lora(x, a, b, scale):
    """One adapter as torch's two linear layers; `scale` is a number."""
    if _torch is None and not _ready():
        return None
    try:
        if not (x.requires_grad or a.requires_grad or b.requires_grad) or not isinstance(x, _Tensor) or not _grad() or _compiling():
            return None
        if not 0 < x.numel() <= MOST // SHARE or not x.dtype == a.dtype == b.dtype or x.dtype not in _dtypes:
            return None
        y = _linear(x, a)
        return _linear(y if scale == 1 else y * scale, b)
    except (AttributeError, RuntimeError, TypeError):
        return None
