"""The ops, for tensors of torch and arrays of any framework that supports DLPack (NumPy, CuPy, …).

With torch every function has gradients, composes with torch.compile(fullgraph=True) and runs on its current CUDA
stream. Values are float32, float16 or bfloat16, on the CPU also float64 (slow definitions, for gradcheck); parameters
may have another of the first three dtypes. On the CPU the kernels compute in float32: 16-bit values, and strides that
no kernel takes, go through scratch about 1 MiB at a time (attention's operands as a whole, those of group_norm and
channel_norm one sample at a time). Results are contiguous and rounded once, unless a function says otherwise. Every
wrong argument raises ValueError or TypeError with its name, what was expected and what was given; only what torch itself
refuses (sparse tensors, or arguments of a convolution, product or backward pass that it computes) raises torch's errors.

`out=` takes the result's tensor: it has the same shape and dtype and any strides, and is in separate memory or (if a
function says so) the first argument itself. It works only without gradients.
"""

import math

from . import _attention, _conv_norm, _linear, _mlp, _small
from ._op import Op
from ._op import shape_of as _shape

_names = ["rms_norm", "layer_norm", "add_norm", "gated_residual", "activation", "glu", "rope", "rope_1d", "rope_3d",
          "group_norm", "attention", "attention_lse", "attention_coarse", "lora", "reparameterize", "rms_modulate", "qk_norm_rope",
          "channel_norm", "linear", "scaled_linear", "channel_norm_codes", "scaled_conv3d"]
_op = {name: Op(name) for name in _names}
for _name in ["rms_norm", "layer_norm", "add_norm", "gated_residual", "activation", "glu", "group_norm", "attention",
              "reparameterize", "rms_modulate", "qk_norm_rope", "channel_norm"]:
    Op(_name + "_backward")  # torch must know the backward ops; nobody calls them by name

_rms_norm, _layer_norm, _add_norm, _gated_residual = (_op[name] for name in _names[:4])
_activation, _glu, _rope, _rope_1d, _rope_3d, _group_norm = (_op[name] for name in _names[4:10])

_NONE, _SILU, _GELU_TANH, _GELU_ERF, _MISH = range(5)
_GELU = {"none": _GELU_ERF, "tanh": _GELU_TANH}
_NORMS = {"rms": 0, "layer": 1}
_ACTIVATIONS = {None: _NONE, "silu": _SILU, "mish": _MISH, "gelu": _GELU_ERF, "gelu_tanh": _GELU_TANH}


def _choice(function, name, value, table):
    if not isinstance(value, (str, type(None))) or value not in table:
        raise ValueError(f"{function}: expected {name} to be one of {', '.join(map(repr, table))}, got {value!r}")
    return table[value]


def _scales(scale, x, n):
    """Returns the scales of n adapters in the op's form, [n]: numbers in float32 (float64 if x is float64)."""
    if type(scale).__module__ == "numpy" and not scale.shape:
        scale = float(scale)
    if isinstance(scale, (str, bytes, list, tuple, dict, complex)):
        raise TypeError(f"lora: expected scale to be a number or a tensor, got {type(scale).__name__}")
    if hasattr(scale, "reshape"):
        if math.prod(scale.shape) != 1:
            return scale  # the op says whether there are n of them
        return scale.reshape(1) if n == 1 else scale.reshape(1).repeat(n)
    if type(x).__module__ == "numpy":
        import numpy
        return numpy.full(n, scale, "float64" if x.dtype == "float64" else "float32")
    if not hasattr(x, "new_full"):
        raise TypeError(f"lora: expected scale to be a tensor beside {type(x).__name__}, got {type(scale).__name__}")
    import torch
    return x.new_full((n,), scale, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)


def rms_norm(x, weight=None, eps=1e-6, *, round_twice=False, out=None):
    """x / sqrt(mean(x²) + eps) · weight over the last dim.

    x [..., C], any strides; weight [C] or None. The result has x's dtype. `round_twice` rounds the normalised values to x's
    dtype before they are multiplied by the weight, as diffusers' RMSNorm and transformers' LlamaRMSNorm do
    (torch.nn.RMSNorm rounds once). `out` may be x."""
    if out is not None:
        return _rms_norm.out(out, x, weight, eps, round_twice)
    y = _small.rms_norm(x, weight, eps, round_twice)
    return _rms_norm(x, weight, eps, round_twice) if y is None else y


def rms_modulate(x, scale, shift, weight=None, eps=1e-6, *, out=None):
    """rms_norm(x, weight, eps) · (1 + scale) + shift in one pass, rounded once; otherwise like `ada_layer_norm`."""
    if out is not None:
        return _op["rms_modulate"].out(out, x, scale, shift, weight, eps)
    return _op["rms_modulate"](x, scale, shift, weight, eps)


def layer_norm(x, weight=None, bias=None, eps=1e-5, *, out=None):
    """(x − mean) / sqrt(var + eps) · weight + bias over the last dim. x [..., C]; weight, bias [C] or None. `out` may be x."""
    if out is not None:
        return _layer_norm.out(out, x, weight, bias, None, None, eps)
    y = _small.layer_norm(x, weight, bias, eps)
    return _layer_norm(x, weight, bias, None, None, eps) if y is None else y


def ada_layer_norm(x, scale, shift, weight=None, bias=None, eps=1e-6, *, out=None):
    """layer_norm(x, weight, bias, eps) · (1 + scale) + shift in one pass, rounded once.

    scale and shift have one shape, which broadcasts to x's [..., C] with its last dim: [B, 1, C] modulates each sample,
    [B, L, C] each token. `out` may be x."""
    if out is not None:
        return _layer_norm.out(out, x, weight, bias, scale, shift, eps)
    return _layer_norm(x, weight, bias, scale, shift, eps)


def layernorm_modulate(x, scale, shift, weight=None, bias=None, eps=1e-6, *, out=None):
    """Another name for `ada_layer_norm`."""
    return ada_layer_norm(x, scale, shift, weight, bias, eps, out=out)


def add_norm(x, u, weight=None, bias=None, *, norm="rms", gate=None, scale=None, shift=None, eps=1e-6,
             round_twice=False):
    """The residual add and the norm after it in one pass: (y, h) with h = x + gate · u and y = norm(h) · weight + bias;
    with scale and shift, y is then multiplied by (1 + scale) and shift is added.

    x and u [..., C]; h has x's dtype (the residual stream's), y has u's. The norm sees h as rounded to its dtype.
    `norm` is "rms" or "layer"; weight and bias [C]; gate, scale and shift have one shape, as in `ada_layer_norm`.
    `round_twice` is as in `rms_norm`, only for an RMSNorm with a weight."""
    kind = _choice("add_norm", "norm", norm, _NORMS)
    return _add_norm(x, u, gate, weight, bias, scale, shift, kind, eps, round_twice)


def gated_residual(x, u, gate=None, *, out=None):
    """x + gate · u. x and u [..., C]; gate is None or broadcasts to them with its last dim. The result has x's dtype.
    `out` may be x."""
    if out is not None:
        return _gated_residual.out(out, x, u, gate)
    return _gated_residual(x, u, gate)


def _act(x, kind, out):
    if out is not None:
        return _activation.out(out, x, kind)
    y = _small.activation(x, kind)
    return _activation(x, kind) if y is None else y


def gelu(x, approximate="none", *, out=None):
    """GELU of each value: by the error function, or with approximate="tanh" by its usual approximation. `out` may be x."""
    return _act(x, _GELU_ERF if approximate == "none" else _choice("gelu", "approximate", approximate, _GELU), out)


def silu(x, *, out=None):
    """x · sigmoid(x) of each value. `out` may be x."""
    return _act(x, _SILU, out)


def mish(x, *, out=None):
    """x · tanh(log(1 + exp(x))) of each value. `out` may be x."""
    return _act(x, _MISH, out)


def geglu(gate, up, approximate="none", *, round_twice=False, out=None):
    """gelu(gate) · up. Both are [..., C] of one dtype, with any strides: halves of one product need no copies (`up,
    gate = h.chunk(2, -1)` is diffusers' order). `round_twice` rounds gelu(gate) to that dtype first, like modules
    that compute it separately. `out` may be gate."""
    kind = _choice("geglu", "approximate", approximate, _GELU)
    return _glu(gate, up, kind, round_twice) if out is None else _glu.out(out, gate, up, kind, round_twice)


def swiglu(gate, up, *, round_twice=False, out=None):
    """silu(gate) · up, otherwise like `geglu`."""
    return _glu(gate, up, _SILU, round_twice) if out is None else _glu.out(out, gate, up, _SILU, round_twice)


def rope(x, cos, sin, *, halves=False, out=None):
    """Rotary positions by tables: pairs (a, b) of each head become (a·cos − b·sin, a·sin + b·cos).

    x [batch, tokens, heads, head dim]; cos and sin [tokens, head dim / 2], constants. Pairs are neighbours (Wan, LTX),
    or with `halves` channels p and p + head dim / 2 (LLaMA). It is computed in float32 and rounded once. `out` may be
    x."""
    if out is not None:
        return _rope.out(out, x, cos, sin, halves, False)
    return _rope(x, cos, sin, halves, False)


def rope_1d(x, theta=10000.0, *, first=0, reverse_time=False, halves=False, out=None):
    """`rope` with token i at position first + i: the angles are position · theta^(−2p / head dim); their tables are
    made in float64 and kept. `reverse_time` counts positions down. `out` may be x."""
    if out is not None:
        return _rope_1d.out(out, x, theta, first, reverse_time, halves, False)
    return _rope_1d(x, theta, first, reverse_time, halves, False)


def rope_3d(x, grid, theta=10000.0, *, reverse_time=False, halves=False, out=None):
    """`rope` by frame, row and column of a video's tokens, as Wan does it.

    x [batch, t · h · w, heads, head dim] with grid = (t, h, w); a head's pairs are split over the three axes.
    `reverse_time` counts frames from the last one. `out` may be x."""
    try:
        frames, rows, columns = grid
    except (TypeError, ValueError):
        raise ValueError(f"rope_3d: expected grid to be (frames, rows, columns), got {grid!r}") from None
    if out is not None:
        return _rope_3d.out(out, x, frames, rows, columns, theta, reverse_time, halves, False)
    return _rope_3d(x, frames, rows, columns, theta, reverse_time, halves, False)


def qk_norm_rope(q, k, q_weight, k_weight, cos, sin, heads, eps=1e-6):
    """Queries and keys of a self-attention in one pass: RMSNorm over all channels, then `rope` on each head's
    neighbours.

    q and k [batch, tokens, channels], which may be parts of one projection; q_weight and k_weight [channels] or None;
    cos and sin [tokens, head dim / 2], constants. Returns q and k as [batch, tokens, heads, head dim], rounded once."""
    return _op["qk_norm_rope"](q, k, q_weight, k_weight, cos, sin, heads, eps)


def qkv_rope(qkv, cos, sin, heads):
    """Splits a joined projection and applies positions: q, k and v as [batch, tokens, heads, head dim], where q and k
    are rotated by `rope` and v is a view.

    qkv [batch, tokens, 3 · heads · head dim]; cos and sin [tokens, head dim / 2], for neighbouring pairs. Models that
    normalise q and k between the two use `qk_norm_rope`."""
    if not hasattr(heads, "__index__"):
        raise TypeError(f"qkv_rope: expected heads to be a whole number, got {type(heads).__name__}")
    shape = _shape(qkv)
    if not isinstance(shape, list) or len(shape) != 3 or heads < 1 or shape[2] % (3 * heads):
        raise ValueError(f"qkv_rope: expected qkv [batch, tokens, 3 · {heads} · head dim], got {shape}")
    parts = qkv.reshape(shape[0], shape[1], 3, heads, shape[2] // (3 * heads))
    q, k, v = (parts[:, :, i] for i in range(3))
    return rope(q, cos, sin), rope(k, cos, sin), v


def linear(x, weight, bias=None, *, activation=None, gate=None, residual=None, out=None):
    """A linear layer with what follows it: act(x·weightᵀ + bias), or residual + gate · act(x·weightᵀ + bias), rounded once.

    x [..., in], weight [out, in], bias [out] or None; activation None, "silu", "mish", "gelu" or "gelu_tanh". residual has
    the result's shape [..., out], and its dtype is the result's; gate (beside a residual) broadcasts to it with its last
    dim. On the CPU the dtypes may differ, and 16-bit values are converted as a whole; on a GPU the weight has x's dtype, and
    the residual x's or float32. Sums are in float32, also those of float32 beside torch's TF32 switch. `out` may not be x."""
    return _linear.run(_op, x, weight, bias, _choice("linear", "activation", activation, _ACTIVATIONS), gate, residual, out)


def scaled_linear(x, codes, scales, bias=None, *, activation=None, out=None):
    """A linear layer in 8 bits: act(x·Wᵀ + bias) with W = scales[:, None] · codes, where each row of x is rounded to codes of
    the same kind with a scale of its own. It has no gradients.

    x [..., in] float32, float16 or bfloat16; codes [out, in] int8 or (of torch) float8_e4m3fn and scales [out] float32, as
    `codes_of` makes them; bias [out] or None. On a CPU int8 is the fast kind; e4m3 on a GPU needs compute capability 8.9."""
    act = _choice("scaled_linear", "activation", activation, _ACTIVATIONS)
    return _linear.run_scaled(_op["scaled_linear"], x, codes, scales, bias, act, out)


def codes_of(weight, dtype="int8"):
    """Rounds a weight [out, in] of torch to 8 bits with one scale for each row: (codes, scales) as `scaled_linear` takes
    them. dtype is "int8" or "float8_e4m3fn"."""
    return _linear.codes_of(weight, dtype)


def mlp(x, weight, bias, weight2, bias2, approximate="none"):
    """The feed-forward part of a transformer: gelu(x·weightᵀ + bias)·weight2ᵀ + bias2.

    x [..., in], weight [hidden, in], weight2 [out, hidden], bias [hidden] and bias2 [out] or None, of one dtype. The
    framework makes the products (torch's linear layers or NumPy's); GELU is ours and, if no gradients are recorded, in
    place. In that case, on a CUDA device with approximate="tanh" and a bias, it is part of the product and rounded once
    with it (except under torch.compile and autocast)."""
    return _mlp.run(gelu, x, weight, bias, weight2, bias2, approximate)


def group_norm(x, groups, weight=None, bias=None, eps=1e-5, *, activation=None, out=None):
    """GroupNorm of x [samples, channels, ...] followed by an activation: None, "silu", "mish", "gelu" or "gelu_tanh".

    weight and bias [channels] or None. Contiguous tensors and torch.channels_last ones are used as they are; others are
    converted one sample at a time. The result is laid out like x. `out` may be x."""
    act = _choice("group_norm", "activation", activation, _ACTIVATIONS)
    if out is not None:
        return _group_norm.out(out, x, groups, weight, bias, eps, act)
    y = _small.group_norm(x, groups, weight, bias, eps, act)
    return _group_norm(x, groups, weight, bias, eps, act) if y is None else y


def group_norm_silu(x, groups, weight=None, bias=None, eps=1e-5, *, out=None):
    """silu(group_norm(x)) in one pass."""
    return group_norm(x, groups, weight, bias, eps, activation="silu", out=out)


def group_norm_mish(x, groups, weight=None, bias=None, eps=1e-5, *, out=None):
    """mish(group_norm(x)) in one pass."""
    return group_norm(x, groups, weight, bias, eps, activation="mish", out=out)


def conv1d_group_norm(x, weight, bias, groups, norm_weight=None, norm_bias=None, eps=1e-5, *, stride=1, padding=0, dilation=1,
                      conv_groups=1, activation="mish"):
    """A convolution over one axis, GroupNorm and an activation, as in diffusers' Conv1dBlock:
    mish(group_norm(conv1d(x))).

    x [samples, in, length], weight [out, in / conv_groups, kernel], bias [out] or None, norm_weight and norm_bias [out]
    or None. stride, padding (a number, "same" or "valid"), dilation and conv_groups are those of torch's conv1d, which
    computes the convolution: x is a tensor of torch. `groups` are the norm's. Norm and activation (as in `group_norm`)
    are one pass of ours, in place if no gradients are recorded, and rounded once."""
    options = dict(stride=stride, padding=padding, dilation=dilation, groups=conv_groups)
    return _conv_norm.run(group_norm, x, weight, bias, groups, norm_weight, norm_bias, eps, options, activation)


def channel_norm(x, gamma, *, silu=False, out=None):
    """The norm of Wan's video VAE, of each position over its channels: x · gamma · sqrt(C) / max(|x|, 1e-12), followed
    by SiLU on request. x [samples, C, ...], gamma [C]. torch.channels_last tensors are used as they are; others are
    converted one sample at a time. The result is rounded once. `out` may be x."""
    if out is not None:
        return _op["channel_norm"].out(out, x, gamma, silu)
    return _op["channel_norm"](x, gamma, silu)


def channel_norm_codes(x, gamma, scale, *, silu=True, dtype="float8_e4m3fn"):
    """`channel_norm` of frames x [frames, C, height, width], divided by `scale` and rounded to codes of 8 bits, for
    `scaled_conv3d`. dtype is "float8_e4m3fn" or "int8". No value is larger than sqrt(C) · max |gamma|, so with a 448th (127th)
    of that as the scale none is clipped. The codes lie with channels last. It is for tensors of torch and has no gradients."""
    from . import _scaled_conv
    return _scaled_conv.norm_codes(_op["channel_norm_codes"], x, gamma, scale, silu, dtype)


def scaled_conv3d(x, codes, scales, bias=None, *, frames, residual=None, gamma=None, next_scale=1.0, silu=True):
    """A causal 3x3x3 convolution in 8 bits, with zeros before the first frame and around each: scales · (codes ∗ x) + bias +
    residual. With `gamma` it gives `channel_norm_codes` of that, with next_scale and silu, instead of the sums.

    x [clips · frames, C, height, width] of codes with channels last; codes and scales as `conv3d_codes_of` makes them, of one kind
    with x; bias and gamma [out] or None; residual [clips · frames, out, height, width]. The sums have the residual's dtype, which a GPU
    wants to be bfloat16; without one they are bfloat16. e4m3 on a GPU needs compute capability 8.9. It has no gradients."""
    from . import _scaled_conv
    return _scaled_conv.conv(_op["scaled_conv3d"], x, codes, scales, bias, frames, residual, gamma, next_scale, silu)


def conv3d_codes_of(weight, x_scale, dtype="float8_e4m3fn"):
    """Rounds a weight [out, in, 3, 3, 3] of torch to 8 bits with one scale for each output channel: (codes, scales) as
    `scaled_conv3d` takes them, for an x whose codes have the scale `x_scale`. dtype is "float8_e4m3fn" or "int8"."""
    from . import _scaled_conv
    return _scaled_conv.codes_of(weight, x_scale, dtype)


def attention(q, k, v, mask=None, *, scale=None, causal=False, causal_offset=0, window=None, own_backward=False, eight_bits=False,
              blocks=None, out=None):
    """softmax(q·kᵀ·scale + mask)·v, with softmax in float32.

    q [batch, queries, heads, head dim]; k and v [batch, keys, key heads, head dim], whose heads divide q's (query head
    h reads h // (heads / key heads)). scale: by default head dim ** -0.5. mask: bool (True: seen) or added to the
    scores; it broadcasts to [batch, heads, queries, keys] with its last dim. causal: query i sees keys up to i +
    causal_offset, which is keys − queries if the queries are the last ones. window: a number n shows only the last n of
    the keys that causal shows (a sliding window); (left, right) shows keys from i + causal_offset − left to i +
    causal_offset + right, where None means no limit and causal allows no key to the right. A query that sees no key
    gives zeros, also where there are no keys at all.

    If gradients are recorded, torch's scaled_dot_product_attention computes both passes. With own_backward ours do,
    which give the same bits in each run; the mask is then a constant.

    Two ways of doing less, without a window, gradients or `out`. eight_bits: q, k, v and the softmax's weights may be
    rounded to 8 bits where a GPU is faster so. blocks: each 128 queries attend to this share of the blocks of 128 keys,
    those with the largest product of mean query and mean key, and their own; without a mask, for self-attention."""
    seen = _attention.Seen(causal, causal_offset, window, q, k)
    if eight_bits or blocks is not None:
        return _attention.coarse(_op, q, k, v, mask, scale, seen, eight_bits, blocks, out)
    return _attention.run(_op, q, k, v, mask, scale, seen, own_backward, out)


def lora(x, a, b, scale=1.0, index=None, *, out=None):
    """The low-rank adapter of a linear layer, scale · (x·aᵀ)·bᵀ, to be added to the layer's result; or several of them
    stacked: their sum, or for each row the one that `index` names.

    x [..., in]. One adapter: a [rank, in], b [out, rank], scale a number or a tensor of one value. Stacked ones: a
    [n, rank, in], b [n, out, rank], scale a number for all, or a tensor [n]. index (for stacked ones) has x's dims
    without the last, int32 or int64 (used as int32), with values from −1 (none) to n − 1; on a GPU any other value
    means none. a and b have one dtype, may be 16-bit beside float32 and the reverse, and are then rounded to x's dtype
    on a GPU. The result of x·aᵀ stays in float32, except in small calls of one adapter whose gradients are recorded."""
    dims = len(getattr(a, "shape", ()))
    if dims not in (2, 3) or len(getattr(b, "shape", ())) != dims:
        raise ValueError(f"lora: expected a [rank, in] and b [out, rank], or a [n, rank, in] and b [n, out, rank], got {_shape(a)} "
                         f"and {_shape(b)}")
    if index is not None and dims == 2:
        raise ValueError("lora: expected no index beside a single adapter, or a [n, rank, in] and b [n, out, rank]")
    kind = "" if index is None else str(getattr(index, "dtype", ""))
    if kind == "torch.int64":
        index = index.int()
    elif kind == "int64":
        index = index.astype("int32")
    number = scale is None or type(scale) in (int, float)
    if number and index is None and dims == 2 and out is None:
        y = _small.lora(x, a, b, 1 if scale is None else scale)
        if y is not None:
            return y
    scales = None if scale is None or (number and scale == 1) else _scales(scale, x, a.shape[0] if dims == 3 else 1)
    if out is not None:
        return _op["lora"].out(out, x, a, b, scales, index)
    return _op["lora"](x, a, b, scales, index)


def grouped_lora(x, a, b, scales=None, index=None, *, out=None):
    """`lora` for stacked adapters alone: the sum over i of scales[i] · (x·a[i]ᵀ)·b[i]ᵀ, or for each row the one that
    `index` names. scales [n] or None for ones."""
    if len(getattr(a, "shape", ())) == 2:
        raise ValueError(f"lora: expected a [n, rank, in], got {_shape(a)}")
    return lora(x, a, b, scales, index, out=out)


def reparameterize(mean, logvar, noise, *, out=None):
    """A draw from a VAE's posterior: mean + exp(clamp(logvar, −30, 20) / 2) · noise.

    All have one shape [..., C] and dtype, and any strides; noise is a constant that the caller draws. `out` may be
    mean."""
    if out is not None:
        return _op["reparameterize"].out(out, mean, logvar, noise)
    return _op["reparameterize"](mean, logvar, noise)
