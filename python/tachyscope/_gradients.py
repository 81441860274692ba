"""The gradients of the ops: for each op the tensors that its backward pass keeps, and that pass. From these two come
the autograd.Function of eager code and the registration of the public op (torch.library.register_autograd).

A pass reads `ctx.saved_tensors` once: under checkpointing a second reading is an error, and with activations that lie
elsewhere a second transfer.

The last argument of a backward op says whether the gradients of parameters are wanted: beside adapters, a model's own
weights and modulations get none. A gradient that was not requested comes as a tensor without values, or None; `_given`
turns it into None."""

import torch

from . import _gradients_linear, _gradients_torch
from ._ops import add_op_namespace_prefix

_rules = {}
direct = {}  # name of an op -> what backward passes call: the public op, or the C function in front of it if there is one


def _rule(cls):
    _rules[cls.__name__] = cls
    return cls


def _given(gradient, parameter, wanted=True):
    return gradient if wanted and parameter is not None else None


def _wants(ctx, *inputs):
    """Says whether the gradient of any of these inputs is wanted."""
    return any(ctx.needs_input_grad[i] for i in inputs)


def _branch(ctx, x, u, gate, index):
    """Returns what the backward pass of a residual add needs of the branch u: nothing, unless a gate's gradient is wanted or u's dtype is its own."""
    return None if gate is None or (not _wants(ctx, index) and u.dtype == x.dtype) else u


def _refuse(ctx, index, name):
    if ctx.needs_input_grad[index]:
        raise NotImplementedError(f"{name} has no gradient here; it is treated as a constant")


def _sum_to(gradient, like):
    """The sum over the dims along which `like` was broadcast."""
    return gradient.sum_to_size(like.shape).to(like.dtype)


def _pass(name, dy, x=None):
    """Returns the backward pass for gradients like `dy`. This is the op, or torch's operations in three cases: on the
    CPU, where ours are definitions; for a given `x` with channels first, since ours take them last; and under
    torch.func, which takes no op whose autograd is registered in Python."""
    if torch._C._are_functorch_transforms_active():
        return _gradients_torch.passes(name)
    first = x is not None and x.dim() > 2 and x.is_contiguous() and x.numel() > x.shape[0] * x.shape[1]
    if (dy.is_cpu or first) and dy.dtype != torch.float64:
        return _gradients_torch.passes(name)
    return direct[name]


@_rule
class rms_norm:
    @staticmethod
    def keep(ctx, inputs, output):
        x, weight, ctx.eps, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        wanted = _wants(ctx, 1)
        dx, dweight = _pass("rms_norm_backward", dy)(dy, x, weight, ctx.eps, wanted)
        return dx, _given(dweight, weight, wanted), None, None


@_rule
class rms_modulate:
    @staticmethod
    def keep(ctx, inputs, output):
        x, scale, _, weight, ctx.eps = inputs
        ctx.save_for_backward(x, scale, weight)

    @staticmethod
    def backward(ctx, dy):
        x, scale, weight = ctx.saved_tensors
        wanted = _wants(ctx, 1, 2, 3)
        dx, dscale, dshift, dweight = _pass("rms_modulate_backward", dy)(dy, x, scale, weight, ctx.eps, wanted)
        return dx, _given(dscale, scale, wanted), _given(dshift, scale, wanted), _given(dweight, weight, wanted), None


@_rule
class layer_norm:
    @staticmethod
    def keep(ctx, inputs, output):
        x, weight, bias, scale, _, ctx.eps = inputs
        ctx.save_for_backward(x, weight, bias, scale)

    @staticmethod
    def backward(ctx, dy):
        x, weight, bias, scale = ctx.saved_tensors
        wanted = _wants(ctx, 1, 2, 3, 4)
        dx, *others = _pass("layer_norm_backward", dy)(dy, x, weight, bias, scale, ctx.eps, wanted)
        return dx, *(_given(given, of, wanted) for given, of in zip(others, (weight, bias, scale, scale))), None


@_rule
class add_norm:
    @staticmethod
    def keep(ctx, inputs, output):
        x, u, gate, weight, bias, scale, _, ctx.kind, ctx.eps, _ = inputs
        ctx.dtype = u.dtype
        ctx.save_for_backward(_branch(ctx, x, u, gate, 2), gate, weight, bias, scale, output[1])

    @staticmethod
    def backward(ctx, dy, dsum):
        """The gradients of the modulation and the gate are computed here; the op computes those of the norm and the residual add."""
        u, gate, weight, bias, scale, h = ctx.saved_tensors
        dy = dy.to(h.dtype)
        dscale = dshift = dgate = None
        if scale is not None:
            if _wants(ctx, 5):
                if ctx.kind == 0:
                    normed = direct["rms_norm"](h, weight, ctx.eps, False)
                    normed = normed if bias is None else normed + bias
                else:
                    normed = direct["layer_norm"](h, weight, bias, None, None, ctx.eps)
                dscale = _sum_to(dy * normed, scale)
            if _wants(ctx, 6):
                dshift = _sum_to(dy, scale)
            dy = dy * (1 + scale).to(dy.dtype)
        wanted = _wants(ctx, 3, 4)
        dh, dweight, dbias = _pass("add_norm_backward", dy)(dy, dsum, h, weight, bias, ctx.kind, ctx.eps, wanted)
        if gate is None:
            du = dh.to(ctx.dtype)
        else:
            du, dgate = _residual(ctx, dh, u, gate, 2)
        return dh, du, dgate, _given(dweight, weight, wanted), _given(dbias, bias, wanted), dscale, dshift, None, None, None


def _residual(ctx, dy, u, gate, index):
    """Returns the gradients of the branch and of the gate, whose place among the inputs is `index`."""
    wanted = _wants(ctx, index)
    du, dgate = _pass("gated_residual_backward", dy)(dy, dy if u is None else u, gate, wanted)
    return du, _given(dgate, gate, wanted)


@_rule
class gated_residual:
    @staticmethod
    def keep(ctx, inputs, output):
        x, u, gate = inputs
        ctx.dtype = u.dtype
        ctx.save_for_backward(_branch(ctx, x, u, gate, 2), gate)

    @staticmethod
    def backward(ctx, dy):
        u, gate = ctx.saved_tensors
        return dy, *((dy.to(ctx.dtype), None) if gate is None else _residual(ctx, dy, u, gate, 2))


@_rule
class activation:
    @staticmethod
    def keep(ctx, inputs, output):
        x, ctx.kind = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, dy):
        return _pass("activation_backward", dy)(dy, *ctx.saved_tensors, ctx.kind), None


@_rule
class glu:
    @staticmethod
    def keep(ctx, inputs, output):
        gate, up, ctx.kind, _ = inputs
        ctx.save_for_backward(gate, up)

    @staticmethod
    def backward(ctx, dy):
        return *_pass("glu_backward", dy)(dy, *ctx.saved_tensors, ctx.kind), None, None


@_rule
class qk_norm_rope:
    @staticmethod
    def keep(ctx, inputs, output):
        *tensors, ctx.heads, ctx.eps = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, dq, dk):
        _refuse(ctx, 4, "qk_norm_rope: cos")
        _refuse(ctx, 5, "qk_norm_rope: sin")
        kept = _, _, q_weight, k_weight, _, _ = ctx.saved_tensors
        wanted = _wants(ctx, 2, 3)
        dq, dk, dq_weight, dk_weight = _pass("qk_norm_rope_backward", dq)(dq, dk, *kept, ctx.heads, ctx.eps, wanted)
        return dq, dk, _given(dq_weight, q_weight, wanted), _given(dk_weight, k_weight, wanted), None, None, None, None


@_rule
class rope:
    @staticmethod
    def keep(ctx, inputs, output):
        _, cos, sin, ctx.halves, ctx.back = inputs
        ctx.save_for_backward(cos, sin)

    @staticmethod
    def backward(ctx, dy):
        _refuse(ctx, 1, "rope: cos")
        _refuse(ctx, 2, "rope: sin")
        return direct["rope"](dy, *ctx.saved_tensors, ctx.halves, not ctx.back), None, None, None, None


@_rule
class rope_1d:
    @staticmethod
    def keep(ctx, inputs, output):
        ctx.words, ctx.back = inputs[1:-1], inputs[-1]

    @staticmethod
    def backward(ctx, dy):
        return direct["rope_1d"](dy, *ctx.words, not ctx.back), None, None, None, None, None


@_rule
class rope_3d:
    @staticmethod
    def keep(ctx, inputs, output):
        ctx.words, ctx.back = inputs[1:-1], inputs[-1]

    @staticmethod
    def backward(ctx, dy):
        return direct["rope_3d"](dy, *ctx.words, not ctx.back), None, None, None, None, None, None, None


@_rule
class channel_norm:
    @staticmethod
    def keep(ctx, inputs, output):
        x, gamma, ctx.silu = inputs
        ctx.save_for_backward(x, gamma)

    @staticmethod
    def backward(ctx, dy):
        x, gamma = ctx.saved_tensors
        wanted = _wants(ctx, 1)
        dx, dgamma = _pass("channel_norm_backward", dy, x)(dy, x, gamma, ctx.silu, wanted)
        return dx, _given(dgamma, gamma, wanted), None


@_rule
class group_norm:
    @staticmethod
    def keep(ctx, inputs, output):
        x, ctx.groups, weight, bias, ctx.eps, ctx.act = inputs
        ctx.save_for_backward(x, weight, bias)

    @staticmethod
    def backward(ctx, dy):
        x, weight, bias = ctx.saved_tensors
        wanted = _wants(ctx, 2, 3)
        dx, dweight, dbias = _pass("group_norm_backward", dy, x)(dy, x, ctx.groups, weight, bias, ctx.eps, ctx.act, wanted)
        return dx, None, _given(dweight, weight, wanted), _given(dbias, bias, wanted), None, None


@_rule
class attention_lse:
    @staticmethod
    def keep(ctx, inputs, output):
        q, k, v, mask, ctx.scale, ctx.causal, ctx.causal_offset = inputs
        out, lse = output
        ctx.mark_non_differentiable(lse)
        ctx.save_for_backward(q, k, v, mask, out, lse)

    @staticmethod
    def backward(ctx, dout, _):
        _refuse(ctx, 3, "attention: mask")
        q, k, v, mask, out, lse = ctx.saved_tensors
        gradients = direct["attention_backward"](q, k, v, mask, ctx.scale, ctx.causal, ctx.causal_offset, dout, out, lse)
        return *gradients, None, None, None, None


@_rule
class lora:
    @staticmethod
    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, dy):
        """Computes the products with torch."""
        if not torch._C._is_any_autocast_enabled():
            return lora.products(dy, *ctx.saved_tensors)
        with torch.autocast(dy.device.type, enabled=False):
            return lora.products(dy, *ctx.saved_tensors)

    @staticmethod
    def products(dy, x, a, b, scales, index):
        return (lora.of_one if a.dim() == 2 and index is None else lora.of_all)(dy, x, a, b, scales, index)

    @staticmethod
    def of_one(dy, x, a, b, scales, _):
        # A GPU's products of 16-bit values add in float32, and only u and v are rounded between, as in two linear layers. The adapters are rounded
        # to x's dtype, as in the forward pass.
        alike = x.is_cuda and x.dtype == dy.dtype
        wide = x.dtype if alike else torch.promote_types(x.dtype, torch.float32)
        rows, dy, a_, b_ = (t.to(wide) for t in (x.flatten(0, -2), dy.flatten(0, -2), a, b))
        u, v = rows @ a_.t(), dy @ b_
        dscales = None
        if scales is not None:
            dscales = (u.float() * v.float()).sum().view(1).to(scales.dtype) if alike else (u * v).sum().view(1).to(scales.dtype)
            factor = scales.to(wide)
            u, v = u * factor, v * factor
        return (v @ a_).view(x.shape).to(x.dtype), (v.t() @ rows).to(a.dtype), (dy.t() @ u).to(b.dtype), dscales, None

    @staticmethod
    def of_all(dy, x, a, b, scales, index):
        """Returns sums over rows [m] and adapters [n], with the weight of each adapter in each row."""
        rows, dy = x.flatten(0, -2), dy.flatten(0, -2)
        wide = torch.promote_types(x.dtype, torch.float32)
        weights = rows.new_ones((1, a.shape[0]), dtype=wide) if scales is None else scales.to(wide)[None]
        if index is not None:
            used = (index.flatten()[:, None] == torch.arange(a.shape[0], device=x.device)).to(wide)
            weights = weights * used
        rows, dy, a_, b_ = (t.to(wide) for t in (rows, dy, a, b))
        u, v = torch.einsum("mk,nrk->mnr", rows, a_), torch.einsum("mo,nor->mnr", dy, b_)
        weighted = v * weights[..., None]
        dx = torch.einsum("mnr,nrk->mk", weighted, a_).view(x.shape).to(x.dtype)
        da = torch.einsum("mnr,mk->nrk", weighted, rows).to(a.dtype)
        db = torch.einsum("mnr,mo->nor", u * weights[..., None], dy).to(b.dtype)
        dscales = None
        if scales is not None:
            dscales = (u * v).sum(-1)
            dscales = (dscales if index is None else dscales * used).sum(0).to(scales.dtype)
        return dx, da, db, dscales, None


@_rule
class linear:
    @staticmethod
    def keep(ctx, inputs, output):
        *tensors, residual, ctx.act = inputs
        ctx.added = residual is not None
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, dy):
        def activate(z):
            return direct["activation"](z, ctx.act)

        def activation(dz, z):
            return _pass("activation_backward", dz)(dz, z, ctx.act)

        with torch.autocast(dy.device.type, enabled=False):
            return *_gradients_linear.products(ctx, dy, activate, activation), None


@_rule
class reparameterize:
    @staticmethod
    def keep(ctx, inputs, output):
        _, logvar, noise = inputs
        ctx.save_for_backward(logvar, noise)

    @staticmethod
    def backward(ctx, dz):
        _refuse(ctx, 2, "reparameterize: noise")
        return *_pass("reparameterize_backward", dz)(dz, *ctx.saved_tensors), None


def _nothing(name):
    """The rule of an op that has no gradient, such as a backward op: asking for it is an error rather than a wrong
    number."""

    def backward(ctx, *grads):
        raise NotImplementedError(f"{name}: this op has no gradient of its own")

    return type(name, (), {"keep": staticmethod(lambda ctx, inputs, output: None), "backward": staticmethod(backward)})


def register(op):
    rule = _rules.get(op.name) or _nothing(op.name)
    torch.library.register_autograd(add_op_namespace_prefix(op.name), rule.backward, setup_context=rule.keep)
    direct[op.name] = op.public
    private = op.private
    op.function = type(op.name, (torch.autograd.Function,), {
        "forward": staticmethod(lambda *args: private(*args)),
        "setup_context": staticmethod(rule.keep),
        "backward": staticmethod(rule.backward),
    })


def recorder(op, compute):
    """Records the gradients of a plain eager call, whose results `compute` makes. torch's own `Function.apply` inspects
    signatures and transforms, which takes three times as long as the rest; calls inside transforms do not come here."""
    rule = _rules.get(op.name)
    if rule is None:
        return op.any_eager
    keep = rule.keep

    def forward(ctx, *inputs):
        output = compute(*inputs)
        keep(ctx, inputs, output)
        return output

    function = type(op.name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(rule.backward)})
    return super(torch.autograd.Function, function).apply
