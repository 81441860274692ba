"""Kernels of video transformers for PyTorch, NumPy and everything that speaks DLPack.

    import torch, tachyscope
    y = tachyscope.ops.rms_norm(x, weight, eps=1e-6)

`tachyscope.ops` has the functions. Importing this package imports no torch; once torch is there, its tensors go through
ops registered with it (`torch.ops.tachyscope`), which have gradients and work under torch.compile.
"""

from . import ops
from ._core import set_threads, threads
from ._op import enable_torch

__all__ = ["enable_torch", "ops", "set_threads", "threads"]
