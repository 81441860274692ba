"""The ops in torch: loads libtachyscope_torch.so, which registers their kernels, and gives the public ones a fake function
(shapes without values, for torch.compile) and gradients (`_gradients.py`)."""

import ctypes
import pathlib

import torch

from . import _fake, _gradients
from ._ops import add_op_namespace_prefix
from ._ops import ops as space


def _on_one_device(name, fake):
    """The fake function, for tensors of one device only: what the kernels check, which never see tensors without values."""

    def checked(*args):
        for arg in args:
            if isinstance(arg, torch.Tensor) and arg.device != args[0].device:
                raise ValueError(f"{name}: expected all tensors on {args[0].device} as the first, got one on {arg.device}")
        return fake(*args)

    return checked


def register(ops):
    """Registers all, and returns a function that tells the text of this thread's last error of a wrong argument."""
    library = ctypes.CDLL(str(pathlib.Path(__file__).parent / "libtachyscope_torch.so"))
    library.tachyscope_register_torch.restype = ctypes.c_char_p
    why = library.tachyscope_register_torch(space.name.encode())
    if why is not None:
        raise ImportError(why.decode())
    for op in ops:
        op.public = getattr(space, op.name).default
        op.private = getattr(space, "_" + op.name).default
        fake = _on_one_device(op.name, getattr(_fake, op.name))
        for name in (op.name, "_" + op.name):
            torch.library.register_fake(add_op_namespace_prefix(name), fake)
        if hasattr(space, f"_{op.name}_out"):
            op.into = getattr(space, f"_{op.name}_out").default
            torch.library.register_fake(add_op_namespace_prefix(f"_{op.name}_out"), lambda *args: None)
    for op in ops:
        _gradients.register(op)
    library.tachyscope_last_refusal.restype = ctypes.c_char_p
    return lambda: library.tachyscope_last_refusal().decode()
