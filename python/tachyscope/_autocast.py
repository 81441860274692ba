"""What torch.autocast does to the arguments of the ops: what it does to those of torch's own functions.

Norms take float32 where torch's do on that device: LayerNorm and GroupNorm on CUDA devices, in newer versions RMSNorm too.
Attention and adapters take the dtype of the region, gated products and a posterior's draw the widest of their inputs. Everything else
keeps its dtypes: the kernels compute in float32 anyway. float64 and what is no tensor of floats is left alone, as by torch."""

import torch

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_NORMS = {"layer_norm": ("layer_norm", 5), "group_norm": ("group_norm", 4), "rms_norm": ("rms_norm", 2),
          "rms_modulate": ("rms_norm", 4)}  # torch's name; the first so many arguments
_NARROW = {"attention": 3, "attention_lse": 3, "lora": 3}
_WIDEST = {"glu": 2, "reparameterize": 3}


def _cast(args, count, dtype):
    def one(arg):
        return arg.to(dtype) if isinstance(arg, torch.Tensor) and arg.dtype in _FLOATS and arg.dtype != dtype else arg

    return (*map(one, args[:count]), *args[count:])


def _widened(key):
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return {name: count for name, (theirs, count) in _NORMS.items() if has("aten::" + theirs, key)}


# Which norms torch computes in float32 in a region of a device, as its dispatcher knows: name -> how many arguments.
WIDENED = {"cuda": _widened("AutocastCUDA"), "cpu": _widened("AutocastCPU")}


def cast(name, args):
    """The arguments of the op as they are in the region of torch.autocast that is active for their device, if one is."""
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
            dtype = torch.promote_types(dtype, arg.dtype)
        return _cast(args, count, dtype)
    return args
