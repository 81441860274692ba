"""The ops, for tensors of torch and arrays of any framework that speaks DLPack (NumPy, CuPy, …).

Of torch every function has gradients, composes with torch.compile(fullgraph=True) and runs on its current CUDA stream.
Values are float32, float16 or bfloat16, on the CPU also float64 (slow definitions, for gradcheck); parameters may have
another of the first three. On the CPU the kernels compute in float32: 16-bit values and strides that no kernel takes
pass through scratch about 1 MiB at a time. Every wrong argument raises ValueError or TypeError with its name, what was
expected and what came.

`out=` takes the result's tensor: of the same shape and dtype, any strides, in memory of its own or (where a function says
so) `x` itself. It works without gradients only.
"""

from ._op import Op

_rms_norm = Op("rms_norm")
_rms_norm_backward = Op("rms_norm_backward")


def rms_norm(x, weight=None, eps=1e-6, *, round_twice=False, out=None):
    """x / sqrt(mean(x²) + eps) · weight over the last dim.

    x [..., C], any strides; weight [C] or None. The result is contiguous, of x's dtype. `round_twice` rounds the normalised
    values to x's dtype before they are multiplied by the weight, as diffusers' RMSNorm and transformers' LlamaRMSNorm
    do (torch.nn.RMSNorm rounds once). `out` may be x."""
    if out is not None:
        return _rms_norm.out(out, x, weight, eps, round_twice)
    return _rms_norm(x, weight, eps, round_twice)
