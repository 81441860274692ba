"""What the results of each op look like, told from its arguments alone: one function an op, of the op's name."""

import torch


def _like(t):
    return torch.empty_like(t, memory_format=torch.contiguous_format)


def _gradient(t, like):
    """The gradient of a parameter; of no values where there is none."""
    return like.new_empty((0,), dtype=torch.float32) if t is None else _like(t)


def rms_norm(x, weight, eps, round_twice):
    return _like(x)


def rms_norm_backward(dy, x, weight, eps):
    return _like(x), _gradient(weight, x)
