"""Functions in the style of Hugging Face's kernels, which write into a given tensor."""

from .. import ops
from .._op import enable_torch


def rmsnorm(out, input, weight, eps=1e-6):
    """Writes input / sqrt(mean(input²) + eps) · weight into `out` and returns it; weight may be None, and out may be
    input. It is an op registered with torch, with a fake function, and has no gradient (asking for one is an error)."""
    return ops.rms_norm(input, weight, eps, out=out)


def gelu_fast(out, x):
    """Writes GELU of x, by its approximation with tanh, into `out` and returns it."""
    return ops.gelu(x, "tanh", out=out)


def inject_optimized_kernels(pipe):
    """Calls `tachyscope.optimize(pipe)` at level safe and returns how many modules of each class now run our kernels.
    Modules are recognised by what they compute, so this also covers norms without weights and those that say
    `variance_epsilon`, and leaves those whose forward does not do what their name promises.
    `tachyscope.restore(pipe)` undoes it."""
    enable_torch()
    from .. import _optimize

    return _optimize.optimize(pipe, verbose=False).counts()
