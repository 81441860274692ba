"""The gradients of the ops: for each one what its backward pass keeps, and that pass. From the two are made the
autograd.Function of eager code and the registration of the public op (torch.library.register_autograd)."""

import torch

_rules = {}


def _rule(cls):
    _rules[cls.__name__] = cls
    return cls


@_rule
class rms_norm:
    @staticmethod
    def keep(ctx, inputs, output):
        x, weight, ctx.eps, _ = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        dx, dweight = torch.ops.tachyscope.rms_norm_backward(dy, x, weight, ctx.eps)
        return dx, dweight if weight is not None else None, None, None


def _nothing(name):
    """The rule of an op that has no gradient, such as a backward op: asking for it is an error and no wrong number."""

    def backward(ctx, *grads):
        raise NotImplementedError(f"{name}: this op has no gradient of its own")

    return type(name, (), {"keep": staticmethod(lambda ctx, inputs, output: None), "backward": staticmethod(backward)})


def register(op):
    rule = _rules.get(op.name) or _nothing(op.name)
    torch.library.register_autograd("tachyscope::" + op.name, rule.backward, setup_context=rule.keep)
    private = op.private
    op.function = type(op.name, (torch.autograd.Function,), {
        "forward": staticmethod(lambda *args: private(*args)),
        "setup_context": staticmethod(rule.keep),
        "backward": staticmethod(rule.backward),
    })
