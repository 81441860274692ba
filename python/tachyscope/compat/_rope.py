"""Rotary positions of Wan's original code, from a table of complex numbers."""

import math

import torch

from .. import ops
from ._check import agree, compare_times


def rope_apply_triton(x, grid_sizes, freqs, reverse_time=False):
    """Rotates neighbouring pairs of each head by frame, row and column, through `ops.rope`.

    x [batch, tokens, heads, head_dim]; grid_sizes [batch, 3] (frames, rows, columns), one for each sample; freqs
    complex [positions, head_dim / 2], split over the three axes as in Wan. Tokens after a sample's grid are left as
    they are. reverse_time counts frames from the last one. The result has x's dtype and a gradient for x. Reading
    grid_sizes waits for the GPU if they are on one."""
    grids = _grids(x, grid_sizes, freqs)
    if all(grid == grids[0] for grid in grids):
        return _turned(x, grids[0], freqs, reverse_time)
    return torch.cat([_turned(x[i:i + 1], grid, freqs, reverse_time) for i, grid in enumerate(grids)])


def rope_apply_real(x, grid_sizes, freqs, reverse_time=False):
    """Does the same as `rope_apply_triton`."""
    return rope_apply_triton(x, grid_sizes, freqs, reverse_time)


def rope_apply_real_3d(x, grid_sizes, freqs, reverse_time=False):
    """Does the same as `rope_apply_triton`."""
    return rope_apply_triton(x, grid_sizes, freqs, reverse_time)


def rope_apply(x, grid_sizes, freqs, reverse_time=False):
    """The plain form, with torch's complex numbers in float64; the others are compared with it."""
    results = []
    for sample, grid in zip(x, _grids(x, grid_sizes, freqs)):
        turns = _turns(grid, freqs, reverse_time).to(sample.device, torch.complex128)
        pairs = torch.view_as_complex(torch.unflatten(sample[: len(turns)].double(), -1, (-1, 2)).contiguous())
        turned = torch.view_as_real(pairs * turns[:, None]).flatten(-2).to(x.dtype)
        results.append(torch.cat([turned, sample[len(turns):]]))
    return torch.stack(results)


def _grids(x, grid_sizes, freqs):
    for name, t in (("x", x), ("freqs", freqs)):
        if not isinstance(t, torch.Tensor):
            raise TypeError(f"rope_apply: expected {name} to be a tensor of torch, got {type(t).__name__}")
    if x.dim() != 4 or x.shape[3] % 2 or not len(x):
        raise ValueError(f"rope_apply: expected x [batch, tokens, heads, even head dim], got {list(x.shape)}")
    if not freqs.is_complex() or freqs.dim() != 2 or freqs.shape[1] != x.shape[3] // 2:
        raise ValueError(f"rope_apply: expected freqs complex [positions, {x.shape[3] // 2}], got {freqs.dtype} {list(freqs.shape)}")
    grids = [tuple(int(n) for n in grid) for grid in getattr(grid_sizes, "tolist", lambda: grid_sizes)()]
    if len(grids) != len(x) or any(len(grid) != 3 for grid in grids):
        raise ValueError(f"rope_apply: expected grid_sizes [{len(x)}, 3], got {grids}")
    for grid in grids:
        if min(grid) < 1 or math.prod(grid) > x.shape[1]:
            raise ValueError(f"rope_apply: expected grid_sizes of at most {x.shape[1]} tokens as x has, got {grid}")
        if max(grid) > len(freqs):
            raise ValueError(f"rope_apply: expected freqs of at least {max(grid)} positions, got {len(freqs)}")
    return grids


def _turns(grid, freqs, reverse_time):
    """Returns the rotation of each token's pairs, complex [tokens, head_dim / 2]."""
    frames, rows, columns = grid
    side = freqs.shape[1] // 3
    time, down, across = freqs.split([freqs.shape[1] - 2 * side, side, side], dim=1)
    time = time[:frames].flip(0) if reverse_time else time[:frames]
    parts = (time.view(frames, 1, 1, -1), down[:rows].view(1, rows, 1, -1), across[:columns].view(1, 1, columns, -1))
    return torch.cat([part.expand(*grid, -1) for part in parts], dim=-1).flatten(0, 2)


def _turned(x, grid, freqs, reverse_time):
    turns = _turns(grid, freqs, reverse_time)
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    cos, sin = (part.to(x.device, wide).contiguous() for part in (turns.real, turns.imag))
    y = ops.rope(x[:, : len(turns)], cos, sin)
    return y if len(turns) == x.shape[1] else torch.cat([y, x[:, len(turns):]], dim=1)


def _draw(batch, grid, heads, dim, dtype=torch.float32, rest=0):
    side = 2 * (dim // 6)
    axes = [torch.outer(torch.arange(64.0), 10000.0 ** (-torch.arange(0.0, d, 2) / d)) for d in (dim - 2 * side, side, side)]
    angles = torch.cat(axes, dim=1)
    x = torch.randn(batch, math.prod(grid) + rest, heads, dim).to(dtype)
    return x, torch.tensor([grid] * batch, device="cpu"), torch.polar(torch.ones_like(angles), angles)


def validate_rope_implementation():
    """Says whether the kernels agree with `rope_apply` on a few shapes, in both orders of time, in float32 and
    bfloat16."""
    draws = [_draw(2, (3, 4, 5), 2, 24), _draw(1, (2, 3, 3), 3, 128, rest=4), _draw(1, (2, 3, 3), 3, 64, torch.bfloat16)]
    return agree((rope_apply, rope_apply_triton, (*draw, reverse)) for draw in draws for reverse in (False, True))


def benchmark_rope_implementation():
    """Returns microseconds of `rope_apply` and of the kernel, for a few heads of 128."""
    return compare_times({"rope_apply": (rope_apply, rope_apply_triton, _draw(1, (5, 8, 8), 4, 128))})
