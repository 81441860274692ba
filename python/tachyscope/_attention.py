"""`ops.attention`: what is decided in Python. Windows on both sides become causal ones, masks of bools added ones, and calls
whose gradients are recorded go to torch's scaled_dot_product_attention, unless our backward pass was asked for."""

import sys

from . import _op as way


class Seen:
    """Which keys a query sees, as the op takes it: all, or with `causal` keys up to i + offset, of these the last `window`."""

    def __init__(self, causal, offset, window, q, k):
        self.causal, self.offset, self.window = causal, offset, 0
        if window is None:
            return
        if isinstance(window, int):
            if not causal:
                raise ValueError(f"attention: expected window (left, right) without causal, got {window}")
            window = (window - 1, 0)
        left, right = self._sides(window)
        queries, keys = q.shape[1], k.shape[1]
        right = 0 if causal else keys if right is None else right  # so many keys reach the last one from anywhere
        self.causal, self.offset = True, max(-queries, min(offset + right, keys))
        if left is not None:
            self.window = max(0, left + self.offset - offset) + 1

    @staticmethod
    def _sides(window):
        whole = isinstance(window, (tuple, list)) and len(window) == 2
        if not whole or not all(side is None or (isinstance(side, int) and side >= 0) for side in window):
            raise ValueError(f"attention: expected window an int from 1 on, or (left, right) of ints from 0 on or None, got {window!r}")
        return window

    def mask(self, q, k):
        """As bools [queries, keys], of torch."""
        import torch

        seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device).tril(self.offset)
        return seen.triu(self.offset - self.window + 1) if self.window else seen


def run(ops, q, k, v, mask, scale, seen, own_backward, out):
    if scale is None:
        scale = q.shape[-1] ** -0.5 if len(getattr(q, "shape", ())) else 1.0
    mask = _added(mask, q)
    args = (q, k, v, mask, scale, seen.causal, seen.offset, seen.window)
    if out is not None:
        return ops["attention"].out(out, *args)
    if not way.records(q, k, v, mask):
        return ops["attention"](*args)
    if not own_backward:
        return _by_torch(q, k, v, mask, scale, seen)
    if seen.window:
        raise ValueError("attention: expected no window beside own_backward, which has none; torch's backward pass has")
    if k.shape[2] and q.shape[2] > k.shape[2]:  # the sum over a group's heads is torch's
        k, v = (t.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for t in (k, v))
    return ops["attention_lse"](q, k, v, *args[3:7])[0]


def _added(mask, q):
    """A mask of bools as numbers to add: 0 where it is True, -inf elsewhere."""
    if mask is None or str(getattr(mask, "dtype", "")) not in ("bool", "torch.bool"):
        return mask
    if type(mask).__module__ == "numpy":
        return sys.modules["numpy"].where(mask, 0, float("-inf")).astype(q.dtype)
    return mask.new_zeros(mask.shape, dtype=q.dtype).masked_fill_(mask.logical_not(), float("-inf"))


def _by_torch(q, k, v, mask, scale, seen):
    import torch

    causal = seen.causal
    if causal and (seen.offset != 0 or seen.window or mask is not None):
        there = seen.mask(q, k)
        hidden = torch.zeros(there.shape, dtype=q.dtype, device=q.device).masked_fill(~there, float("-inf"))
        mask, causal = hidden if mask is None else mask.to(q.dtype) + hidden, False
    result = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=None if mask is None else mask.to(q.dtype),
        is_causal=causal, scale=scale, enable_gqa=q.shape[2] != k.shape[2])
    return result.transpose(1, 2)
