"""`ops.attention`: what is decided in Python. Masks of bools become added ones, and calls whose gradients are recorded go to
torch's scaled_dot_product_attention, unless our backward pass was asked for."""

import sys

from . import _op as way


def run(ops, q, k, v, mask, scale, causal, causal_offset, own_backward, out):
    if scale is None:
        scale = q.shape[-1] ** -0.5 if len(getattr(q, "shape", ())) else 1.0
    mask = _added(mask, q)
    if out is not None:
        return ops["attention"].out(out, q, k, v, mask, scale, causal, causal_offset)
    if not way.records(q, k, v, mask):
        return ops["attention"](q, k, v, mask, scale, causal, causal_offset)
    if not own_backward:
        return _by_torch(q, k, v, mask, scale, causal, causal_offset)
    if k.shape[2] and q.shape[2] > k.shape[2]:  # the sum over a group's heads is torch's
        k, v = (t.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for t in (k, v))
    return ops["attention_lse"](q, k, v, mask, scale, causal, causal_offset)[0]


def _added(mask, q):
    """A mask of bools as numbers to add: 0 where it is True, -inf elsewhere."""
    if mask is None or str(getattr(mask, "dtype", "")) not in ("bool", "torch.bool"):
        return mask
    if type(mask).__module__ == "numpy":
        return sys.modules["numpy"].where(mask, 0, float("-inf")).astype(q.dtype)
    return mask.new_zeros(mask.shape, dtype=q.dtype).masked_fill_(mask.logical_not(), float("-inf"))


def _by_torch(q, k, v, mask, scale, causal, causal_offset):
    import torch

    if causal and (causal_offset != 0 or mask is not None):
        seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=q.device).tril(causal_offset)
        hidden = torch.zeros(seen.shape, dtype=q.dtype, device=q.device).masked_fill(~seen, float("-inf"))
        mask, causal = hidden if mask is None else mask.to(q.dtype) + hidden, False
    result = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=None if mask is None else mask.to(q.dtype),
        is_causal=causal, scale=scale, enable_gqa=q.shape[2] != k.shape[2])
    return result.transpose(1, 2)
