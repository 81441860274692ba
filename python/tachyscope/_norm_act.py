"""GroupNorm and the activation after it in one pass, and torch.nn.Sequential, where the two often follow a convolution.

If both are modules, GroupNorm's result is rounded before the activation reads it. In float32 one pass for both is as
exact. In 16 bits it rounds once, so it is left to levels above safe; at safe the two run one after the other."""

from torch import nn

from . import ops
from ._rules import IN_FLOAT32, Rule, fuses, takes_norm, unhooked


def activation_name(act):
    """Returns the name of the module's activation in `ops.group_norm`; None if that function lacks it."""
    if type(act) is nn.GELU:
        return "gelu" if act.approximate == "none" else "gelu_tanh"
    return {nn.SiLU: "silu", nn.Mish: "mish"}.get(type(act))


def joins(norm, act, x, twice):
    """Says whether `norm_act` may replace act(norm(x)). It may not if one of the two has a hook, which needs to see its
    result."""
    fits = type(norm) is nn.GroupNorm and activation_name(act) is not None and unhooked(norm) and unhooked(act)
    return fits and fuses(twice, x) and takes_norm("group_norm", x, norm.weight, norm.bias) and x.dim() > 1


def norm_act(norm, act, x):
    y = ops.group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps, activation=activation_name(act))
    return y if x.dim() > 3 else y.contiguous()  # the norm keeps channels last only for images and clips


def _sequence(sequence, twice, x):
    parts, i = list(sequence), 0
    while i < len(parts):
        if i + 1 < len(parts) and joins(parts[i], parts[i + 1], x, twice):
            x, i = norm_act(parts[i], parts[i + 1], x), i + 2
        else:
            x, i = parts[i](x), i + 1
    return x


def _activations(sequence):
    """Returns the names of the activations that come directly after a GroupNorm."""
    parts = list(sequence)
    pairs = [activation_name(act) for norm, act in zip(parts, parts[1:]) if type(norm) is nn.GroupNorm]
    return sorted({name for name in pairs if name is not None})


class _OfSequences(Rule):
    def words(self, module):
        return ", ".join(f"group_norm_{name}" for name in _activations(module))


def rules():
    return {nn.Sequential: _OfSequences("group_norm_mish", _sequence, safe=IN_FLOAT32, about=_activations)}
