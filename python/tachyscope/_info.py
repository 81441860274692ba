"""How this package was built, and a warning where that does not fit the machine."""

import warnings

from . import _build

_said = False


def build_info():
    """Returns how the package was built: its version, the commit of its sources (None where they were not in git), the
    version of CUDA (None without GPU kernels) and the architectures that GPU kernels were compiled for."""
    return {"version": _build.VERSION, "commit": _build.COMMIT or None, "cuda": _build.CUDA or None,
            "architectures": list(_build.ARCHITECTURES)}


def warn_without_kernels(torch):
    """Warns once if torch sees a GPU and the package was built without GPU kernels."""
    global _said
    if _said or _build.CUDA or not hasattr(torch, "cuda") or torch.cuda.device_count() == 0:
        return
    _said = True
    warnings.warn("tachyscope was built without GPU kernels, and torch sees a GPU: tensors there are refused. Build it again where nvcc is, "
                  "with CMAKE_ARGS=-DTACHY_CUDA=ON pip install .", RuntimeWarning, stacklevel=3)
