"""Backward passes in float32 by torch's operations. They are used on the CPU, where our own are definitions in plain
loops for float64 and for comparison, and for norms over channels that come first, which ours would convert back and
forth. Each function has the name, the arguments and the results of the op that it replaces, except that results that
were not requested are None.

Like the ops, they cannot be differentiated again: asking for that is an error."""

import torch

_RMS = 0  # add_norm's kinds
_ACTIVATIONS = {1: "silu", 2: "tanh", 3: "none", 4: "mish"}  # the numbers that ops.py uses


def _wide(t):
    return None if t is None else t.float()


def _to(gradient, like):
    """The sum over the dims along which `like` was broadcast, in its dtype."""
    return None if like is None else gradient.sum_to_size(like.shape).to(like.dtype)


def _norm(dy, x, weight, bias, scale, eps, centred, parameters):
    """Gradients of norm(x) · weight + bias, then · (1 + scale) + shift: (x's in float32, weight's, bias's, scale's,
    shift's)."""
    dy, x = dy.float(), x.float()
    s = dy if scale is None else dy * (1 + scale.float())
    if centred:
        aten, dims = torch.ops.aten, [x.shape[-1]]
        n, mean, r = aten.native_layer_norm(x, dims, None, None, eps)
        dx, dweight, dbias = aten.native_layer_norm_backward(
            s, x, dims, mean, r, _wide(weight), _wide(bias), [True, parameters and weight is not None, parameters and bias is not None])
    else:
        r = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
        n = x * r
        g = s if weight is None else s * weight.float()
        dx = (g - n * (g * n).mean(-1, keepdim=True)) * r
        dweight, dbias = (None if weight is None else s * n), s
    if not parameters:
        return dx, None, None, None, None
    dscale = dshift = None
    if scale is not None:
        affine = n if weight is None else n * weight.float()
        dscale, dshift = _to(dy * (affine if bias is None else affine + bias.float()), scale), _to(dy, scale)
    return dx, _to(dweight, weight), _to(dbias, bias), dscale, dshift


def rms_norm_backward(dy, x, weight, eps, parameters):
    dx, dweight, *_ = _norm(dy, x, weight, None, None, eps, False, parameters)
    return dx.to(x.dtype), dweight


def rms_modulate_backward(dy, x, scale, weight, eps, parameters):
    dx, dweight, _, dscale, dshift = _norm(dy, x, weight, None, scale, eps, False, parameters)
    return dx.to(x.dtype), dscale, dshift, dweight


def layer_norm_backward(dy, x, weight, bias, scale, eps, parameters):
    dx, *others = _norm(dy, x, weight, bias, scale, eps, True, parameters)
    return (dx.to(x.dtype), *others)


def add_norm_backward(dy, dsum, sum, weight, bias, kind, eps, parameters):
    dx, dweight, dbias, _, _ = _norm(dy, sum, weight, bias, None, eps, kind != _RMS, parameters)
    dx = dx if dsum is None else dx + dsum.float()
    return dx.to(sum.dtype), dweight, dbias


def gated_residual_backward(dy, u, gate, parameters):
    if gate is None:
        return dy.to(u.dtype), None
    return (dy.float() * gate.float()).to(u.dtype), _to(dy.float() * u.float(), gate) if parameters else None


def _activation(dy, x, kind):
    """dy · act'(x), in float32."""
    name = _ACTIVATIONS[kind]
    if name == "silu":
        return torch.ops.aten.silu_backward(dy, x)
    if name == "mish":
        return torch.ops.aten.mish_backward(dy, x)
    return torch.ops.aten.gelu_backward(dy, x, approximate=name)


def _activate(x, kind):
    name, f = _ACTIVATIONS[kind], torch.nn.functional
    return f.silu(x) if name == "silu" else f.mish(x) if name == "mish" else f.gelu(x, approximate=name)


def activation_backward(dy, x, kind):
    return _activation(dy.float(), x.float(), kind).to(x.dtype)


def glu_backward(dy, gate, up, kind):
    dy, wide = dy.float(), gate.float()
    return _activation(dy * up.float(), wide, kind).to(gate.dtype), (dy * _activate(wide, kind)).to(up.dtype)


def qk_norm_rope_backward(dq, dk, q, k, q_weight, k_weight, cos, sin, heads, eps, parameters):
    cos, sin = cos.float()[:, None], sin.float()[:, None]

    def one(dy, x, weight):
        a, b = dy.float()[..., ::2], dy.float()[..., 1::2]
        turned = torch.stack((a * cos + b * sin, b * cos - a * sin), -1).flatten(-3)
        dx, dweight, *_ = _norm(turned, x, weight, None, None, eps, False, parameters)
        return dx.to(x.dtype), dweight

    (dq, dq_weight), (dk, dk_weight) = one(dq, q, q_weight), one(dk, k, k_weight)
    return dq, dk, dq_weight, dk_weight


def channel_norm_backward(dy, x, gamma, silu, parameters):
    dy, wide = dy.float(), x.float()
    scale = gamma.float().view(-1, *[1] * (x.dim() - 2))
    length = wide.square().sum(1, keepdim=True).sqrt()
    factor = x.shape[1] ** 0.5 / length.clamp_min(1e-12)
    n = wide * factor
    s = torch.ops.aten.silu_backward(dy, n * scale) if silu else dy
    g = s * scale
    tangent = torch.where(length > 1e-12, (g * n).mean(1, keepdim=True), 0)  # below this length the factor is a constant
    dgamma = (s * n).transpose(0, 1).flatten(1).sum(1).to(gamma.dtype) if parameters else None
    return (factor * (g - n * tangent)).to(x.dtype), dgamma


def group_norm_backward(dy, x, groups, weight, bias, eps, act, parameters):
    n, c = x.shape[:2]
    if not x.numel():
        return torch.zeros_like(x), *(None if t is None else torch.zeros_like(t) for t in (weight, bias))
    positions = x.numel() // (n * c)
    wide, dy = x.float().contiguous(), dy.float()
    y, mean, rstd = torch.ops.aten.native_group_norm(wide, _wide(weight), _wide(bias), n, c, positions, groups, eps)
    s = dy if act == 0 else _activation(dy, y, act)
    dx, dweight, dbias = torch.ops.aten.native_group_norm_backward(
        s.contiguous(), wide, mean, rstd, _wide(weight), n, c, positions, groups,
        [True, parameters and weight is not None, parameters and bias is not None])
    like = torch.empty_like(x).copy_(dx)  # x's layout and dtype
    return like, *(t.to(of.dtype) if parameters and of is not None else None for t, of in ((dweight, weight), (dbias, bias)))


def reparameterize_backward(dz, logvar, noise):
    inside = (logvar >= -30) & (logvar <= 20)
    slope = torch.exp(logvar.float().clamp(-30, 20) / 2) * noise.float() / 2
    return dz, torch.where(inside, dz.float() * slope, 0).to(logvar.dtype)


class _Once(torch.autograd.Function):
    """A pass that refuses its own gradient."""

    @staticmethod
    def forward(function, *args):
        return function(*args)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = inputs[0].__name__

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError(f"{ctx.name}: this op has no gradient of its own")


def passes(name):
    """Returns the pass with that name, as a function of its arguments."""
    function = globals()[name]
    if not torch.is_grad_enabled():
        return function
    return lambda *args: _Once.apply(function, *args)
