"""Kernels of video transformers for PyTorch, NumPy and everything that supports DLPack.

    import torch, tachyscope
    y = tachyscope.ops.rms_norm(x, weight, eps=1e-6)

`tachyscope.ops` has the functions. Importing this package does not import torch; once torch has been imported, its
tensors go through ops registered with it (`torch.ops.tachyscope`), which have gradients and work under torch.compile.

    report = tachyscope.optimize(pipe)   # a model or pipeline of diffusers or transformers
    tachyscope.restore(pipe)
    step = tachyscope.graph(model, *inputs)   # one CUDA graph, replayed with other inputs
    cache = tachyscope.ring_kv_cache(layers, window, frame_tokens, heads, head_dim)
    vae = tachyscope.vae.create_wan2_1_vae(z_channels=16)   # a module to train
    with tachyscope.Engine("Wan2.1-T2V-1.3B") as engine:   # videos, in a wheel with the engine
        engine.generate("a cat", seed=7).save("cat.mp4")
    world = tachyscope.World("Matrix-Game-2.0")   # a video that responds to keys, likewise
"""

import importlib.util
import sys

from . import _build, ops
from ._core import set_threads, threads
from ._info import build_info
from ._op import enable_torch

__version__ = _build.VERSION

_WITH_TORCH = {"optimize": "_optimize", "restore": "_optimize", "graph": "_graph", "ring_kv_cache": "_ring"}
_OF_ENGINE = {"World": "_world", "Engine": "_generate", "AsyncEngine": "_async_engine", "Job": "_generate",
              "TachyscopeWanPipeline": "_pipeline",
              **dict.fromkeys(("Audio", "Frame", "Plan", "Preview", "Progress", "Result"), "_result"),
              **dict.fromkeys(("EngineError", "ArgumentError", "NotFound", "OutOfMemory", "NotFinite", "Cancelled"), "_engine")}
_MODULES = ["ray", "vae"]  # the second needs torch
__all__ = ["__version__", "build_info", "enable_torch", "ops", "set_threads", "threads", *_WITH_TORCH, *_OF_ENGINE, *_MODULES]


def __dir__():
    """Returns the names for help() and completion, also of what is loaded when it is asked for; what needs torch only where torch is."""
    lazy = [*_OF_ENGINE, *_MODULES, *_WITH_TORCH] if importlib.util.find_spec("torch") else [*_OF_ENGINE, "ray"]
    return sorted({*globals(), *lazy})


def __getattr__(name):
    """Loads the names that need torch, which this package does not import by itself."""
    if name in _WITH_TORCH:
        enable_torch()
        module = importlib.import_module("." + _WITH_TORCH[name], __name__)
        return getattr(module, name)
    if name in _OF_ENGINE:
        return getattr(importlib.import_module("." + _OF_ENGINE[name], __name__), name)
    if name in _MODULES:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'tachyscope' has no attribute {name!r}")


if sys.modules.get("torch") is not None:
    try:
        enable_torch()  # torch.compile cannot do it while it compiles a first call
    except ImportError:  # torch is too old for the ops: their first call says so, and the engine does not need it
        pass
