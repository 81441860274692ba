"""The part of `ops.attention` that is decided in Python. Windows on both sides become causal ones, masks of bools
become added ones, and calls whose gradients are recorded go to torch's scaled_dot_product_attention, unless our
backward pass was requested."""

import operator
import sys

from . import _op as way


_NO_END = 1 << 40  # more keys than there are; its readers limit it to those that exist


class Seen:
    """The keys that a query sees, in the op's form: all, or with `causal` keys up to i + offset, and of these the last
    `window`."""

    def __init__(self, causal, offset, window, q, k):
        self.causal, self.offset, self.window = causal, offset, 0
        if not (hasattr(q, "shape") and hasattr(k, "shape")):
            return  # there are no tensors: the op reports that
        for name, t in (("q", q), ("k", k)):
            if len(t.shape) != 4:
                raise ValueError(f"attention: expected {name} [batch, tokens, heads, head dim], got {way.shape_of(t)}")
        queries, keys = q.shape[1], k.shape[1]
        if offset and not causal and window is None:
            raise ValueError(f"attention: expected causal beside causal_offset {offset}, or a window")
        if not hasattr(offset, "__index__") or not -queries <= offset <= keys:
            raise ValueError(f"attention: expected causal_offset in [{-queries}, {keys}], got {offset!r}")
        if window is None:
            return
        left, right = self._sides(window, causal)
        right = 0 if causal else _NO_END if right is None else right
        self.causal, self.offset = True, offset + right
        self.window = 0 if left is None else left + right + 1

    @staticmethod
    def _sides(window, causal):
        try:
            if causal and not isinstance(window, (tuple, list)):
                sides = (operator.index(window) - 1, 0)
            else:
                sides = tuple(None if side is None else operator.index(side) for side in window)
        except TypeError:
            sides = ()
        if len(sides) != 2 or any(side is not None and not 0 <= side < _NO_END for side in sides):
            one = "an int of at least 1, or " if causal else "without causal "
            raise ValueError(f"attention: expected window {one}(left, right) of ints of at least 0 or None, got {window!r}")
        return sides

    def mask(self, q, k):
        """Returns the mask as a tensor of torch: bools [queries, keys]."""
        import torch

        last = torch.arange(q.shape[1], device=q.device)[:, None] + self.offset
        key = torch.arange(k.shape[1], device=q.device)
        return (key <= last) & (key > last - self.window) if self.window else key <= last


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
        _expect_heads(q, k, v)
        return _by_torch(q, k, v, mask, scale, seen)
    if seen.window:
        raise ValueError("attention: expected no window with own_backward, which does not support one; torch's backward pass does")
    if k.shape[2] and q.shape[2] > k.shape[2]:  # torch sums the gradients over a group's heads
        k, v = (t.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for t in (k, v))
    return ops["attention_lse"](q, k, v, *args[3:7])[0]


def coarse(ops, q, k, v, mask, scale, seen, eight_bits, blocks, out):
    """Computes attention in 8 bits, or over a share of the blocks of keys."""
    if seen.window or out is not None:
        raise ValueError(f"attention: expected no {'window' if seen.window else 'out'} beside eight_bits or blocks")
    if way.records(q, k, v, mask):
        raise ValueError("attention: expected no tensor that requires grad beside eight_bits or blocks, which have no gradients")
    try:
        blocks = 1.0 if blocks is None else float(blocks)
    except (TypeError, ValueError):
        raise TypeError(f"attention: expected blocks to be a number in (0, 1], got {blocks!r}") from None
    if scale is None:
        scale = q.shape[-1] ** -0.5 if len(getattr(q, "shape", ())) else 1.0
    return ops["attention_coarse"](q, k, v, _added(mask, q), scale, seen.causal, seen.offset, bool(eight_bits), blocks)


def _expect_heads(q, k, v):
    """Makes the op's own checks for calls that torch computes."""
    if (k.shape[0], k.shape[3]) != (q.shape[0], q.shape[3]) or not k.shape[2] or q.shape[2] % k.shape[2]:
        raise ValueError(f"attention: expected k with q's batch and head dim and heads that divide q's {way.shape_of(q)}, got {way.shape_of(k)}")
    if way.shape_of(v) != way.shape_of(k):
        raise ValueError(f"attention: expected v {way.shape_of(k)} as k, got {way.shape_of(v)}")


def _added(mask, q):
    """Turns a mask of bools into numbers to add: 0 where it is True, -inf elsewhere."""
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
