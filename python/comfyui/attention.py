"""Our attention in ComfyUI's own place for another one: `optimized_attention_override` in a model's `transformer_options`.

ComfyUI calls that function instead of its attention, with the one that it would have called and that one's arguments.
The entry belongs to one clone of a model, so nothing has to be taken out of the model when ComfyUI unloads it."""

from tachyscope import ops
import torch

KEY = "optimized_attention_override"
WAYS = ["exact", "8 bits", "off"]
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_KNOWN = {"transformer_options", "_inside_attn_wrapper"}
_FEW_BLOCKS = 8  # with fewer blocks of keys than this, a share of them is no saving


def put(patcher, way, share):
    """Puts our attention into this clone. A call that it does not take goes to the function that another node had put
    there, or to ComfyUI's."""
    options = dict(patcher.model_options.get("transformer_options", {}))
    before = options.pop(KEY, None)
    if isinstance(before, Override):
        before = before.before
    if way != "off":
        before = Override(before, way == "8 bits", share)
    if before is not None:
        options[KEY] = before
    patcher.model_options = {**patcher.model_options, "transformer_options": options}


class Override:
    """ComfyUI's attention by our kernel."""

    def __init__(self, before, eight_bits, share):
        self.before, self.eight_bits, self.share = before, eight_bits, share

    def __call__(self, theirs, q, k, v, heads, mask=None, attn_precision=None, skip_reshape=False, skip_output_reshape=False,
                 **more):
        if more.keys() <= _KNOWN and _takes(q, k, v, heads, mask, skip_reshape):
            return self._ours(q, k, v, heads, mask, skip_reshape, skip_output_reshape)
        given = {"mask": mask, "attn_precision": attn_precision, "skip_reshape": skip_reshape,
                 "skip_output_reshape": skip_output_reshape, **more}
        if self.before is not None:
            return self.before(theirs, q, k, v, heads, **given)
        return theirs(q, k, v, heads, **given)

    def _ours(self, q, k, v, heads, mask, apart, keep_apart):
        q, k, v = (t.transpose(1, 2) if apart else torch.unflatten(t, 2, (heads, -1)) for t in (q, k, v))
        less = {}
        if not (torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))):
            if self.eight_bits:
                less["eight_bits"] = True
            if self.share < 1 and mask is None and q.shape == k.shape and q.shape[1] >= 128 * _FEW_BLOCKS:
                less["blocks"] = self.share
        result = ops.attention(q, k, v, _of_heads(mask), **less)
        return result.transpose(1, 2) if keep_apart else result.flatten(2)


def _of_heads(mask):
    """Returns the mask in a form that broadcasts to [batch, heads, queries, keys]: ComfyUI's have no heads, or neither
    heads nor samples."""
    return mask[:, None] if mask is not None and mask.dim() == 3 else mask


def _takes(q, k, v, heads, mask, apart):
    """Says whether our kernel computes this call. Under autocast torch's attention and ours choose the same dtype."""
    if not all(isinstance(t, torch.Tensor) and t.dim() == (4 if apart else 3) for t in (q, k, v)):
        return False
    if q.dtype not in _FLOATS or q.device.type not in ("cpu", "cuda") or not q.dtype == k.dtype == v.dtype:
        return False
    if k.shape != v.shape or q.shape[0] != k.shape[0] or q.shape[-1] != k.shape[-1]:
        return False
    if q.shape[1] != heads or k.shape[1] != heads if apart else q.shape[2] % heads:
        return False
    if mask is None:
        return True
    queries, keys = (t.shape[2 if apart else 1] for t in (q, k))
    full = (q.shape[0], heads, queries, keys)
    shape = tuple(_of_heads(mask).shape)
    fits = len(shape) in (2, 4) and shape[-1] == keys and all(n in (1, most) for n, most in zip(shape[::-1], full[::-1]))
    return fits and mask.dtype in (torch.bool, q.dtype)
