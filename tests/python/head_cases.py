"""Cases of the ops on heads and channels: rotary positions, attention, group norm (op_cases.py has the ops on rows)."""

import torch
import torch.nn.functional as F

from op_cases import CASES as ROW_CASES
from op_cases import case
from tachyscope import ops


def rotated(x, cos, sin, halves):
    """Rotates pairs by tables [tokens, head dim / 2], in float32 or wider."""
    wide = torch.promote_types(x.dtype, torch.float32)
    cos, sin = (t.to(x.device, wide)[None, :, None] for t in (cos, sin))
    a, b = x.to(wide).chunk(2, -1) if halves else (x.to(wide)[..., ::2], x.to(wide)[..., 1::2])
    parts = (a * cos - b * sin, a * sin + b * cos)
    return (torch.cat(parts, -1) if halves else torch.stack(parts, -1).flatten(-2)).to(x.dtype)


def frequencies(dim, theta=10000.0):
    return theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def grid_angles(grid, dim, reverse):
    frames, rows, columns = (torch.arange(n, dtype=torch.float64) for n in grid)
    frames = frames.flip(0) if reverse else frames
    side = 2 * (dim // 6)
    axes = [torch.outer(positions, frequencies(d))
            for positions, d in ((frames, dim - 2 * side), (rows, side), (columns, side))]
    t, h, w = grid
    return torch.cat([axes[0].view(t, 1, 1, -1).expand(t, h, w, -1), axes[1].view(1, h, 1, -1).expand(t, h, w, -1),
                      axes[2].view(1, 1, w, -1).expand(t, h, w, -1)], -1).reshape(t * h * w, -1)


def rope(name, x, halves):
    def ours(x, cos, sin, out=None):
        return ops.rope(x, cos, sin, halves=halves, out=out)

    return case(name, ours, lambda x, cos, sin: rotated(x, cos, sin, halves), "rope",
                lambda x, cos, sin: (x, cos, sin, halves, False), ("x",), aliases=True, x=x,
                cos=(x[1], x[3] // 2), sin=(x[1], x[3] // 2))


def qk_norm_rope(name, x, heads, weights=True):
    def raw(q, k, cos, sin, q_weight=None, k_weight=None):
        return q, k, q_weight, k_weight, cos, sin, heads, 1e-5

    def ours(**given):
        return ops.qk_norm_rope(*raw(**given))

    def theirs(q, k, cos, sin, q_weight=None, k_weight=None):
        return tuple(rotated(F.rms_norm(t, t.shape[-1:], w, 1e-5).unflatten(-1, (heads, -1)), cos, sin, False)
                     for t, w in ((q, q_weight), (k, k_weight)))

    table, weight = (x[1], x[2] // heads // 2), (x[2],) if weights else None
    return case(name, ours, theirs, "qk_norm_rope", raw, ("q", "k", "q_weight", "k_weight") if weights else ("q", "k"),
                q=x, k=x, cos=table, sin=table, q_weight=weight, k_weight=weight)


def rope_1d(name, x, first, reverse, halves):
    positions = torch.arange(first, first + x[1], dtype=torch.float64)
    angles = torch.outer(positions.flip(0) if reverse else positions, frequencies(x[3]))
    return case(name, lambda x, out=None: ops.rope_1d(x, first=first, reverse_time=reverse, halves=halves, out=out),
                lambda x: rotated(x, angles.cos(), angles.sin(), halves), "rope_1d",
                lambda x: (x, 10000.0, first, reverse, halves, False), aliases=True, x=x)


def rope_3d(name, grid, heads, dim, reverse):
    t, h, w = grid
    angles = grid_angles(grid, dim, reverse)
    return case(name, lambda x, out=None: ops.rope_3d(x, grid, reverse_time=reverse, out=out),
                lambda x: rotated(x, angles.cos(), angles.sin(), False), "rope_3d",
                lambda x: (x, t, h, w, 10000.0, reverse, False, False), aliases=True, x=(2, t * h * w, heads, dim))


def group_norm(name, x, groups, affine, act=None):
    acts = {None: (lambda t: t, 0), "silu": (F.silu, 1), "mish": (F.mish, 4)}
    apply, kind = acts[act]
    channels = (x[1],) if affine else None
    return case(name, lambda x, weight=None, bias=None, out=None: ops.group_norm(x, groups, weight, bias,
                                                                                 activation=act, out=out),
                lambda x, weight=None, bias=None: apply(F.group_norm(x, groups, weight, bias)), "group_norm",
                lambda x, weight=None, bias=None: (x, groups, weight, bias, 1e-5, kind), aliases=True,
                x=x, weight=channels, bias=channels)


def channel_norm(name, x, silu):
    def theirs(x, gamma):
        y = F.normalize(x, dim=1, eps=1e-12) * x.shape[1] ** 0.5 * gamma.view(-1, *[1] * (x.dim() - 2))
        return F.silu(y) if silu else y

    return case(name, lambda x, gamma, out=None: ops.channel_norm(x, gamma, silu=silu, out=out), theirs, "channel_norm",
                lambda x, gamma: (x, gamma, silu), aliases=True, x=x, gamma=(x[1],))


def attention(name, q, k, mask=None, causal=False, offset=0, own=False, window=None):
    def ours(q, k, v, mask=None, **out):
        return ops.attention(q, k, v, mask, causal=causal, causal_offset=offset, window=window, own_backward=own,
                             **out)

    def theirs(q, k, v, mask=None):
        group = q.shape[2] // k.shape[2]
        k, v = (t.repeat_interleave(group, 2) for t in (k, v))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5
        if mask is not None:
            scores = scores + mask
        if causal:
            seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(offset)
            seen = seen.triu(offset - window + 1) if window else seen
            scores = scores.masked_fill(~seen, float("-inf"))
        return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)

    def raw(q, k, v, mask=None):
        return q, k, v, mask, q.shape[-1] ** -0.5, causal, offset, *([] if own else [window or 0])

    grads = ("q", "k", "v") if own else ()
    return case(name, ours, theirs, "attention_lse" if own else "attention", raw, grads, q=q, k=k, v=k, mask=mask)


def lora(name, x, n, rank, out, scales=True, rows=None):
    """Returns the sum of all adapters, or with `rows` the adapter that each row names."""
    rows = None if rows is None else torch.tensor(rows)

    def ours(x, a, b, scales=None, out=None):
        call = ops.grouped_lora if scales is None else ops.lora  # one function takes both forms
        return call(x, a, b, scales, None if rows is None else rows[: len(x)], out=out)

    def theirs(x, a, b, scales=None):
        wide = torch.promote_types(x.dtype, torch.float32)
        x, a, b = (t.to(wide) for t in (x, a, b))
        parts = torch.einsum("...k,nrk,nor->...no", x, a, b)
        parts = parts if scales is None else parts * scales.to(wide)[:, None]
        if rows is not None:
            parts = parts * (rows[..., None] == torch.arange(n))[..., None]
        return parts.sum(-2)

    def in_dtype(**given):
        return theirs(**given).to(given["x"].dtype)

    raw = lambda x, a, b, scales=None: (x, a, b, scales, None if rows is None else rows.int())  # noqa: E731
    return case(name, ours, in_dtype, "lora", raw, x=x, a=(n, rank, x[-1]), b=(n, out, rank),
                scales=(n,) if scales else None)


def one_lora(name, x, rank, out, scale):
    def theirs(x, a, b):
        wide = torch.promote_types(x.dtype, torch.float32)
        return (scale * (x.to(wide) @ a.to(wide).T @ b.to(wide).T)).to(x.dtype)

    def raw(x, a, b):
        return x, a, b, None if scale == 1 else torch.full((1,), scale, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32, device=x.device), None

    return case(name, lambda x, a, b, out=None: ops.lora(x, a, b, scale, out=out), theirs, "lora", raw, x=x, a=(rank, x[-1]), b=(out, rank))


def linear(name, x, out, act=None, bias=True, gate=None, residual=False):
    """A linear layer with what follows it; `gate` is the gate's shape."""
    acts = {None: lambda t: t, "silu": F.silu, "mish": F.mish, "gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh")}

    def ours(x, weight, bias=None, gate=None, residual=None, out=None):
        return ops.linear(x, weight, bias, activation=act, gate=gate, residual=residual, out=out)

    def theirs(x, weight, bias=None, gate=None, residual=None):
        y = acts[act](F.linear(x, weight, None if bias is None else bias.to(x.dtype)))
        y = y if gate is None else gate * y
        return y if residual is None else residual + y

    def raw(x, weight, bias=None, gate=None, residual=None):
        return x, weight, bias, gate, residual, list(acts).index(act) if act in (None, "silu") else {"gelu_tanh": 2, "gelu": 3, "mish": 4}[act]

    shape = (*x[:-1], out)
    return case(name, ours, theirs, "linear", raw, x=x, weight=(out, x[-1]), bias=(out,) if bias else None, gate=gate,
                residual=shape if residual else None)


def reparameterize(name, shape):
    def theirs(mean, logvar, noise):
        return mean + torch.exp(logvar.clamp(-30, 20) / 2) * noise

    return case(name, ops.reparameterize, lambda **given: theirs(**given), "reparameterize",
                lambda mean, logvar, noise: (mean, logvar, noise), ("mean", "logvar"), aliases=True,
                mean=shape, logvar=shape, noise=shape)


HEAD_CASES = [
    lora("lora, the sum of three", (3, 5, 24), 3, 4, 40),
    lora("lora without scales", (7, 33), 1, 5, 17, scales=False),
    lora("lora of each row's own", (2, 4, 24), 3, 4, 40, rows=[[0, 2, -1, 1], [1, 1, 0, -1]]),
    one_lora("lora of one", (3, 5, 24), 4, 40, 1),
    one_lora("lora of one, scaled", (7, 33), 5, 17, 0.5),
    linear("linear", (3, 5, 24), 40),
    linear("linear without bias", (2, 3, 33), 17, bias=False),
    linear("linear with gelu", (2, 7, 16), 24, "gelu_tanh"),
    linear("linear with exact gelu", (2, 7, 16), 24, "gelu"),
    linear("linear with silu and a gate", (3, 5, 24), 40, "silu", gate=(3, 1, 40), residual=True),
    linear("linear with mish, a row's gate", (2, 5, 24), 16, "mish", gate=(2, 5, 16), residual=True),
    linear("linear with a gate", (2, 5, 24), 40, gate=(40,), residual=True),
    linear("linear with a residual", (2, 5, 24), 40, residual=True),
    reparameterize("reparameterize", (2, 4, 5, 7)),
    rope("rope", (2, 7, 3, 20), False),
    rope("rope by halves", (2, 7, 3, 20), True),
    rope("rope of many rows", (2, 900, 3, 128), False),
    qk_norm_rope("qk_norm_rope", (2, 7, 40), 2),
    qk_norm_rope("qk_norm_rope without weights", (3, 5, 36), 3, weights=False),
    qk_norm_rope("qk_norm_rope of many rows", (2, 900, 384), 3),
    rope_1d("rope_1d", (2, 9, 2, 16), 5, False, True),
    rope_1d("rope_1d in reverse", (1, 9, 2, 16), 0, True, False),
    rope_3d("rope_3d", (3, 2, 5), 2, 44, False),
    rope_3d("rope_3d in reverse", (3, 2, 5), 1, 128, True),
    group_norm("group_norm", (2, 12, 5, 7), 3, True),
    group_norm("group_norm_silu", (2, 8, 3, 5, 4), 4, True, "silu"),
    group_norm("group_norm_mish of vectors", (3, 20), 5, False, "mish"),
    channel_norm("channel_norm", (2, 12, 5, 7), False),
    channel_norm("channel_norm of clips, silu", (2, 8, 3, 5, 4), True),
    attention("attention", (2, 9, 3, 20), (2, 13, 3, 20)),
    attention("attention, causal", (2, 9, 3, 20), (2, 9, 3, 20), causal=True),
    attention("attention, groups of heads", (2, 5, 6, 16), (2, 11, 2, 16), causal=True, offset=6),
    attention("attention, one query of groups", (2, 1, 6, 16), (2, 11, 2, 16), causal=True, offset=6),
    attention("attention, one query of groups, masks", (2, 1, 6, 16), (2, 11, 2, 16), (2, 6, 1, 11)),
    attention("attention, one query of groups, mask of keys", (3, 1, 4, 8), (3, 70, 2, 8), (3, 1, 1, 70)),
    attention("attention, window", (2, 9, 3, 20), (2, 13, 3, 20), causal=True, offset=4, window=3),
    attention("attention, window, one query of groups", (2, 1, 6, 16), (2, 11, 2, 16), causal=True, offset=8, window=5),
    attention("attention, mask of keys", (2, 9, 2, 8), (2, 13, 2, 8), (2, 1, 1, 13)),
    attention("attention, mask of all samples", (2, 9, 4, 8), (2, 13, 2, 8), (4, 9, 13)),
    attention("attention, any mask", (2, 9, 4, 8), (2, 13, 2, 8), (2, 1, 9, 13)),
    attention("attention, our backward", (2, 9, 3, 20), (2, 13, 3, 20), own=True),
    attention("attention, our backward, masked", (2, 9, 2, 8), (2, 13, 2, 8), (2, 2, 9, 13), own=True),
    attention("attention, our backward, causal", (1, 9, 2, 8), (1, 13, 2, 8), causal=True, offset=4, own=True),
]
CASES = ROW_CASES + HEAD_CASES
BY_NAME = {case.name: case for case in CASES}
