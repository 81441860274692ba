"""What torch.autocast does to the arguments of the ops: what it does to those of torch's own functions.

LayerNorm and GroupNorm take float32 on CUDA devices (on the CPU torch leaves them as they come), attention and adapters the
dtype of the region, gated products and a posterior's draw the widest of their inputs. Everything else keeps its dtypes: the
kernels compute in float32 anyway. float64 and what is no tensor of floats is left alone, as by torch."""

import torch

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_WIDE_ON_CUDA = {"layer_norm": 5, "group_norm": 4}  # the first so many arguments
_NARROW = {"attention": 3, "attention_lse": 3, "lora": 3}
_WIDEST = {"glu": 2, "reparameterize": 3}


def _cast(args, count, dtype):
    def one(arg):
        return arg.to(dtype) if isinstance(arg, torch.Tensor) and arg.dtype in _FLOATS and arg.dtype != dtype else arg

    return (*map(one, args[:count]), *args[count:])


def cast(name, args):
    """The arguments of the op as they are in the region of torch.autocast that is active for their device, if one is."""
    kind = args[0].device.type
    if kind not in ("cpu", "cuda") or not torch.is_autocast_enabled(kind):
        return args
    if name in _NARROW:
        return _cast(args, _NARROW[name], torch.get_autocast_dtype(kind))
    if name in _WIDE_ON_CUDA and kind == "cuda":
        return _cast(args, _WIDE_ON_CUDA[name], torch.float32)
    if name in _WIDEST:
        count = _WIDEST[name]
        dtype = args[0].dtype
        for arg in args[1:count]:
            dtype = torch.promote_types(dtype, arg.dtype)
        return _cast(args, count, dtype)
    return args
