"""WanVideoWrapper's linear layer, which adds its LoRA files to the weight in each call: weight + Σ strength · (up·down).

All adapters of a layer are one: their downs are stacked, and their ups lie side by side, each with its strength. For
many tokens one product adds that to the weight, and for few tokens (fewer than the weight's size over the sum of its
sides) `ops.lora` adds it to the result. The wrapper rounds each product, each strength and each sum; here it is one
rounding, so at level safe 16-bit layers keep their own code. So do layers of GGUF files and of ComfyUI's own quantised
weights, convolutions' adapters, and those that change a weight by a whole matrix."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

from . import _shrunk, ops
from ._rules import Rule, _plain, _usual, fuses

_END = "custom_linear"
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def _adapters(layer):
    """Returns (down [rank, in], up [out, rank]) of all adapters as one, None without adapters, or False for other forms."""
    names = getattr(layer, "lora_diffs", None)
    if not names or not hasattr(layer, "lora_diff_0_0"):
        return None
    downs, ups = [], []
    for i, entry in enumerate(names):
        if not isinstance(entry, tuple) or len(entry) != 3:
            return False
        up, down, alpha = (getattr(layer, name) for name in entry)
        if up.dim() != 2 or down.dim() != 2 or up.shape[0] != layer.weight.shape[0] or down.shape[1] != layer.weight.shape[1]:
            return False
        strength = layer._get_lora_strength(i)
        downs.append(down)
        ups.append(up * (strength * (float(alpha) / down.shape[0]) if alpha else strength))
    return (downs[0], ups[0]) if len(ups) == 1 else (torch.cat(downs), torch.cat(ups, dim=1))


def _known(layer, twice, x):
    weight, bias = layer.weight, layer.bias
    if not _usual(x) or not fuses(twice, x) or getattr(layer, "is_gguf", False) or getattr(layer, "_comfy_quant_format", None) is not None:
        return False
    return type(weight) in (torch.Tensor, nn.Parameter) and weight.dim() == 2 and weight.dtype in _FLOATS and weight.device == x.device


def _call(layer, twice, x):
    found = _adapters(layer) if _known(layer, twice, x) else False
    if not found or any(t.dtype != x.dtype or t.device != x.device for t in found):
        return _plain(layer, x)
    weight, bias = layer.weight.to(x), None if layer.bias is None else layer.bias.to(x)
    scale = getattr(layer, "scale_weight", None)
    down, up = found
    out, size = weight.shape
    if scale is not None and weight.numel() < x.numel():
        weight, scale = weight * scale, None
    if x.numel() // size * (size + out) < size * out:
        y = F.linear(x if scale is None else x * scale, weight, bias)
        return y + ops.lora(x if scale is None else x * scale, down, up)
    return F.linear(x if scale is None else x * scale, torch.addmm(weight, up, down), bias)


def _small(layer, generator):
    """Returns a copy of the layer with few channels and one adapter."""
    def draw(*shape):
        return torch.randn(shape, generator=generator, device="cpu") * 0.3

    small = copy.copy(layer)
    names = ("lora_diff_0_0", "lora_diff_0_1", "lora_diff_0_2")
    small.__dict__ = {name: value for name, value in layer.__dict__.items() if not name.startswith("lora_diff_") and name not in _shrunk._OF_OURS}
    small._parameters = {"weight": nn.Parameter(draw(8, 6), False), "bias": None if layer.bias is None else nn.Parameter(draw(8), False)}
    small._buffers = {"lora_diff_0_0": draw(8, 2), "lora_diff_0_1": draw(2, 6), "_lora_strength_0": torch.tensor([0.7], device="cpu"),
                      "_step": torch.zeros((), dtype=torch.long, device="cpu")}
    small.__dict__ |= {names[2]: 3.0, "lora_diffs": [names], "_lora_strength_is_scheduled": [False], "scale_weight": None, "is_gguf": False}
    return small


def _try(layer):
    (few, many), generator = _shrunk.draws((1, 2, 6), (1, 9, 6))
    small = _small(layer, generator)
    whys = [_shrunk.differs(lambda: type(layer).forward(small, x), lambda: _call(small, False, x)) for x in (few, many)]
    return next((why for why in whys if why), None)


def rules():
    """Returns the rule for the wrapper's layer in each copy of the wrapper that is imported."""
    found = {}
    for name, module in list(sys.modules.items()):
        cls = getattr(module, "CustomLinear", None) if name.endswith(_END) else None
        if isinstance(cls, type) and issubclass(cls, nn.Linear) and hasattr(cls, "_get_lora_strength"):
            found[cls] = Rule("a linear layer with LoRA", _call, _shrunk.tried_once(_try))
    return found
