"""Linear layers in 8 bits, at level extreme: a scale for each row of the weight and for each token, e4m3 on a GPU that
multiplies it (compute capability 8.9) and int8 elsewhere.

The layers are those of repeated blocks. A layer keeps its weight, and its codes are made when it is first called and
made again when the weight has changed (another tensor, or one that was written to): that is half a 16-bit weight more.
Where gradients are recorded, under autocast, for few tokens, and where the layer would convert or patch its weight, its
own code runs. Code of torch.compile keeps the codes that it was compiled with."""

import re
import sys

import torch
from torch import nn

from . import _op as way
from . import _rules, ops
from ._rules import MARK, Rule, _plain, _usual, unhooked

_CODES = "_tachyscope_codes"
_IN_BLOCKS = re.compile(r"(^|\.)\d+\.")
_LEAST_SIZE, _STEP, _LEAST_ROWS = 32, 16, 32


def _kind(device):
    """Returns the codes that products on this device multiply fastest."""
    e4m3 = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 9)
    return "float8_e4m3fn" if e4m3 else "int8"


def _converts(layer):
    """Says whether ComfyUI would cast or patch this layer's weight in the call."""
    return bool(getattr(layer, "comfy_cast_weights", False) or getattr(layer, "weight_function", ()) or getattr(layer, "bias_function", ()))


def _codes(layer):
    """Returns (codes, scales) of the layer's weight as it is now."""
    weight = layer.weight
    kept = layer.__dict__.get(_CODES)
    if torch.compiler.is_compiling():
        return None if kept is None else kept[1:]
    now = (weight.data_ptr(), weight._version, weight.device)
    if kept is None or kept[0] != now:
        with torch.no_grad():
            kept = layer.__dict__[_CODES] = (now, *ops.codes_of(weight, _kind(weight.device)))
    return kept[1:]


def _fits(layer, x):
    weight, bias = layer.weight, layer.bias
    if not _usual(x, weight, bias) or type(weight) not in (torch.Tensor, nn.Parameter) or weight.device != x.device:
        return False
    return x.numel() >= _LEAST_ROWS * x.shape[-1] and not way.records(x, weight, bias) and not _converts(layer)


def product(layer, x, activation=None):
    """Returns the layer's result in 8 bits with the activation after it, or None where it may not be computed so."""
    if MARK not in layer.__dict__ or not isinstance(layer, nn.Linear) or not unhooked(layer) or not _fits(layer, x):
        return None
    codes = _codes(layer)
    return None if codes is None else ops.scaled_linear(x, *codes, layer.bias, activation=activation)


_rules.eight_bits = product


def _call(layer, twice, x):
    y = product(layer, x)
    return _plain(layer, x) if y is None else y


def _check(layer):
    if layer.in_features < _LEAST_SIZE or layer.out_features < _LEAST_SIZE or layer.in_features % _STEP or layer.out_features % _STEP:
        return f"it has {layer.in_features} and {layer.out_features} features: 8 bits take multiples of {_STEP} from {_LEAST_SIZE} on"
    return None


_RULE = Rule("a linear layer in 8 bits", _call, _check)


def _known():
    """Returns the classes of layers that only multiply: torch's, and ComfyUI's where it is imported."""
    operations = sys.modules.get("comfy.ops")
    theirs = (getattr(getattr(operations, name, None), "Linear", None) for name in ("disable_weight_init", "manual_cast"))
    return {nn.Linear, *(cls for cls in theirs if isinstance(cls, type))}


def rule_of(name, module):
    """Returns the rule for a linear layer of a repeated block, or None."""
    return _RULE if _IN_BLOCKS.search(name) and type(module) in _known() else None


def forget(module):
    """Drops the codes of a layer that is computed by its own code again."""
    module.__dict__.pop(_CODES, None)
