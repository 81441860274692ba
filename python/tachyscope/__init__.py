"""Kernels of video transformers for PyTorch, NumPy and everything that speaks DLPack.

    import torch, tachyscope
    y = tachyscope.ops.rms_norm(x, weight, eps=1e-6)

`tachyscope.ops` has the functions. Importing this package imports no torch; once torch is there, its tensors go through
ops registered with it (`torch.ops.tachyscope`), which have gradients and work under torch.compile.

    report = tachyscope.optimize(pipe)   # a model or pipeline of diffusers or transformers
    tachyscope.restore(pipe)
"""

from . import ops
from ._core import set_threads, threads
from ._op import enable_torch

__all__ = ["enable_torch", "ops", "optimize", "restore", "set_threads", "threads"]


def __getattr__(name):
    """`optimize` and `restore` need torch, which this package does not import by itself."""
    if name in ("optimize", "restore"):
        enable_torch()
        from . import _optimize

        return getattr(_optimize, name)
    raise AttributeError(f"module 'tachyscope' has no attribute {name!r}")
