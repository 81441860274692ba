"""Applies torch.autocast to the arguments of the ops, as torch does to those of its own functions.

Norms take float32 where torch's do on that device: LayerNorm and GroupNorm on CUDA devices, in newer versions also
RMSNorm. Attention and the rows that adapters multiply take the dtype of the region (the op itself rounds adapters on a
GPU); gated products and a draw from a posterior take the widest dtype of their inputs. Everything else keeps its dtypes, because the kernels compute in float32 anyway. float64, and
anything that is not a tensor of floats, is left alone, as in torch."""

import torch

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_NORMS = {"layer_norm": ("layer_norm", 5), "group_norm": ("group_norm", 4), "rms_norm": ("rms_norm", 2),
          "rms_modulate": ("rms_norm", 4)}  # torch's name, and how many of the first arguments it casts
_NARROW = {"attention": 3, "attention_lse": 3, "attention_coarse": 3, "lora": 1, "linear": 3, "scaled_linear": 1}
_WIDEST = {"glu": 2, "reparameterize": 3}


def _cast(args, count, dtype):
    def one(arg):
        return arg.to(dtype) if isinstance(arg, torch.Tensor) and arg.dtype in _FLOATS and arg.dtype != dtype else arg

    return (*map(one, args[:count]), *args[count:])


def _widened(key):
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return {name: count for name, (theirs, count) in _NORMS.items() if has("aten::" + theirs, key)}


# The norms that torch computes in float32 under autocast on a device, from its dispatcher: name -> number of arguments.
WIDENED = {"cuda": _widened("AutocastCUDA"), "cpu": _widened("AutocastCPU")}


def cast(name, args):
    """Returns the op's arguments as the active torch.autocast region for their device changes them, if there is one."""
    kind = args[0].device.type
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return args
    if name in _NARROW:
        return _cast(args, _NARROW[name], torch.get_autocast_dtype(kind))
    if name in _NORMS:
        return _cast(args, WIDENED[kind].get(name, 0), torch.float32)
    if name in _WIDEST:
        count = _WIDEST[name]
        dtype = args[0].dtype
        for arg in args[1:count]:
            if isinstance(arg, torch.Tensor):  # the op refuses all else
                dtype = torch.promote_types(dtype, arg.dtype)
        return _cast(args, count, dtype)
    return args
