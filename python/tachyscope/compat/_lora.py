"""Low-rank adapters: a single one, and the sum of several."""

import torch

from .. import ops
from ._check import agree, compare_times


def grouped_lora_forward_optimized(x, a, b, scales):
    """The sum that n adapters add: scales[i] · (x·a[i]ᵀ)·b[i]ᵀ over all i, by `ops.grouped_lora`.

    x [batch, in] (or with more leading dims), a [n, rank, in], b [n, out, rank], scales [n]. The result is [batch,
    out]; it has gradients for all four."""
    return ops.grouped_lora(x, a, b, scales)


def single_lora_forward_optimized(x, a, b, scale):
    """The value that one adapter adds: scale · (x·aᵀ)·bᵀ. x [batch, in], a [rank, in], b [out, rank], scale a number or
    a tensor."""
    return ops.lora(x, a, b, scale)


def _grouped(x, a, b, scales):
    """Computes it in float32 between the two products, like the kernels."""
    x_, a, b, scales = (t.float() for t in (x, a, b, scales))
    parts = torch.einsum("...k,nrk,nor->n...o", x_, a, b)
    return (parts * scales.view(-1, *[1] * x.dim())).sum(0).to(x.dtype)


def _single(x, a, b, scale):
    return (x.float() @ a.float().T @ b.float().T * scale).to(x.dtype)


def _draw(batch, n, rank, size, out, dtype=torch.float32):
    """Draws adapters whose results are about as large as x."""
    x, a, b = torch.randn(batch, size), torch.randn(n, rank, size) / size ** 0.5, torch.randn(n, out, rank) / rank ** 0.5
    return x.to(dtype), a.to(dtype), b.to(dtype), torch.rand(n)


def validate_lora_kernels():
    """Says whether one adapter and several agree with products of torch, in float32 and bfloat16."""
    pairs = []
    for draw in (_draw(5, 3, 4, 24, 40), _draw(17, 1, 16, 128, 64), _draw(9, 4, 8, 64, 32, torch.bfloat16)):
        x, a, b, _ = draw
        pairs += [(_grouped, grouped_lora_forward_optimized, draw), (_single, single_lora_forward_optimized, (x, a[0], b[0], 0.5))]
    return agree(pairs)


def benchmark_lora_kernels():
    """Returns the microseconds that torch's products and the kernels take, for rank 16, with one
    adapter and with four."""
    x, a, b, scales = _draw(64, 4, 16, 512, 512)

    def loop(x, a, b, scales):
        return sum(x @ a[i].T @ b[i].T * scales[i] for i in range(len(a)))

    return compare_times({"single": (_single, single_lora_forward_optimized, (x, a[0], b[0], 0.5)),
                          "grouped": (loop, grouped_lora_forward_optimized, (x, a, b, scales))})
