"""The ops in torch: loads libtachyscope_torch.so, which registers their kernels, and gives the public ones a fake
function (shapes without values, for torch.compile) and gradients (`_gradients.py`)."""

import ctypes
import pathlib

import torch

from . import _core, _fake, _gradients
from ._ops import add_op_namespace_prefix
from ._ops import ops as space


def _on_one_device(name, fake):
    """Wraps the fake function so that all tensors must be on one device. The kernels check this, too, but they never
    see tensors without values."""

    def checked(*args):
        for arg in args:
            if isinstance(arg, torch.Tensor) and arg.device != args[0].device:
                raise ValueError(f"{name}: expected all tensors on {args[0].device} as the first, got one on {arg.device}")
        return fake(*args)

    return checked


def register(ops):
    """Registers all ops. Returns a function that returns the text of this thread's last error about a wrong argument."""
    library = ctypes.CDLL(str(pathlib.Path(__file__).parent / "libtachyscope_torch.so"))
    library.tachyscope_register_torch.restype = ctypes.c_char_p
    why = library.tachyscope_register_torch(space.name.encode())
    if why is not None:
        raise ImportError(why.decode())
    for op in ops:
        op.public = getattr(space, op.name).default
        op.private = getattr(space, "_" + op.name).default
        op.needed = [(i, a.name) for i, a in enumerate(op.private._schema.arguments) if a.type.kind() == "TensorType"]
        fake = _on_one_device(op.name, getattr(_fake, op.name))
        for name in (op.name, "_" + op.name):
            torch.library.register_fake(add_op_namespace_prefix(name), fake)
        if hasattr(space, f"_{op.name}_out"):
            op.into = getattr(space, f"_{op.name}_out").default
            torch.library.register_fake(add_op_namespace_prefix(f"_{op.name}_out"), lambda *args: None)
    for op in ops:
        _gradients.register(op)
    if hasattr(_core, "_torch_front"):
        _in_front(ops)
    library.tachyscope_last_refusal.restype = ctypes.c_char_p
    return lambda: library.tachyscope_last_refusal().decode()


def _in_front(ops):
    """Puts C functions in front of the eager paths, for calls with plain tensors that nothing watches."""
    _core._use_torch({
        "tensor": torch.Tensor, "parameter": torch.nn.Parameter,
        # Modes and tracers see only ops; profilers name them; autocast changes arguments, and functorch changes the meaning of tensors.
        "watchers": (torch._C._is_torch_function_mode_enabled, torch._C._len_torch_dispatch_stack,
                     torch._C._are_functorch_transforms_active, torch._C._is_tracing), "autocast": torch._C._is_any_autocast_enabled,
        "forward_ad": torch.autograd.forward_ad, "profiler": torch.autograd.profiler, "grad_enabled": torch.is_grad_enabled, "is_negated": torch.Tensor.is_neg,
        "empty_like": torch.empty_like, "empty_strided": torch.Tensor.new_empty_strided,
        "dtypes": (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8)})
    for op in ops:
        inside = _core._torch_front(op.name, op.private, None)
        recorder = _gradients.recorder(op, inside)
        op.eager = _core._torch_front(op.name, op.any_eager, recorder)
        op.of_cast = _core._torch_front(op.name, op.dispatched, recorder, True)
        _gradients.direct[op.name] = _core._torch_front(op.name, op.public, op.public, True)  # autocast changes no backward pass
