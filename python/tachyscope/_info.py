"""How this package was built, and a warning where that does not fit the machine."""

import os
import re
import warnings

from . import _build

_said = False


def _kernels_beside():
    """Returns the architectures of the kernels that the package opens where they lie beside it (tachyscope-cuda13)."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tachyscope_cuda13", "lib")
    found = (re.fullmatch(r"libtachyscope_cuda13_sm(\d+[af]?)(?:_ptx)?\.so", name) for name in (os.listdir(folder) if os.path.isdir(folder) else ()))
    return sorted((match[1] for match in found if match), key=lambda a: int(a.rstrip("af")))


def build_info():
    """Returns how the package was built: its version, the commit of its sources (None where they were not in git), the
    version of CUDA (None without GPU kernels) and the architectures that GPU kernels were compiled for. Kernels may also
    be those of the package tachyscope-cuda13."""
    cuda, architectures = _build.CUDA or None, list(_build.ARCHITECTURES)
    if _build.APART:
        architectures = _kernels_beside()
        cuda = "13.0" if architectures else None
    return {"version": _build.VERSION, "commit": _build.COMMIT or None, "cuda": cuda, "architectures": architectures}


def warn_without_kernels(torch):
    """Warns once if torch sees a GPU and the package was built without GPU kernels."""
    global _said
    if _said or build_info()["cuda"] or not hasattr(torch, "cuda") or torch.cuda.device_count() == 0:
        return
    _said = True
    remedy = (f"pip install tachyscope-cuda13=={_build.VERSION}" if _build.APART else
              "Build it again where nvcc is, with CMAKE_ARGS=-DTACHY_CUDA=ON pip install .")
    warnings.warn("tachyscope has no GPU kernels here, and torch sees a GPU: tensors there are refused. " + remedy, RuntimeWarning, stacklevel=3)
