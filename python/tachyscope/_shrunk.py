"""Small copies of the blocks of other projects, by which a rule is tried before it is used.

Classes of ComfyUI and WanVideoWrapper change from version to version. So a block is replaced only if a copy of it with
few channels and random weights, which runs the project's own code, gives what our rule gives."""

import collections
import copy

import torch
from torch import nn

HEADS, HEAD_DIM, HIDDEN = 2, 12, 40
CHANNELS = HEADS * HEAD_DIM
_OF_OURS = ("forward", "_tachyscope_forward", "_tachyscope_comfyui")


def shrunk(module, channels, hidden, generator):
    """Returns the copy of a module with layers of `channels` and `hidden` features. Throws ValueError for other sizes."""
    small = {hidden: HIDDEN, channels: CHANNELS}  # a single size is that of the channels

    def size(n):
        if n not in small:
            raise ValueError(f"it has a size of {n} beside {channels} channels and {hidden} of its feed-forward")
        return small[n]

    def draw(dims):
        return nn.Parameter(torch.randn(dims, generator=generator, device="cpu") * 0.3, False)

    def one(m):
        if isinstance(m, nn.Linear):
            layer = torch.nn.utils.skip_init(nn.Linear, size(m.in_features), size(m.out_features), m.bias is not None, device="cpu")
            layer._parameters.update({name: p if p is None else draw(p.shape) for name, p in layer._parameters.items()})
            return layer
        result = copy.copy(m)
        result.__dict__ = {name: collections.OrderedDict() if name.endswith("_hooks") else value for name, value in m.__dict__.items()
                           if name not in _OF_OURS}
        result._modules = {name: child if child is None else one(child) for name, child in m._modules.items()}
        result._parameters = {name: p if p is None else draw([n if n in (1, 2, 6) else size(n) for n in p.shape])
                              for name, p in m._parameters.items()}
        _resize(result, size)
        return result

    return one(module)


def _resize(module, size):
    """Changes the sizes that a module remembers."""
    own = module.__dict__
    for name, value in {"num_heads": HEADS, "head_dim": HEAD_DIM, "dim": CHANNELS, "ffn_dim": HIDDEN}.items():
        if isinstance(own.get(name), int):
            own[name] = value
    if "normalized_shape" in own:
        own["normalized_shape"] = tuple(size(n) for n in own["normalized_shape"])
    for name in ("weight_function", "bias_function"):  # ComfyUI's patches
        if own.get(name):
            own[name] = []
    own.pop("comfy_cast_weights", None)


def draws(*shapes):
    """Returns random tensors, the same for each call, and the generator that made them."""
    generator = torch.Generator("cpu").manual_seed(0)
    return [torch.randn(shape, generator=generator, device="cpu") for shape in shapes], generator


_found = {}  # what a trial found, by the classes that a block is made of


def tried_once(attempt):
    """Returns a rule's check: attempt(module) says why the rule may not stand in for the module, or returns None. It is
    asked once for all modules that are made of the same classes; a ValueError of attempt is a reason of this one alone."""

    def check(module):
        absent = (p is None for m in module.modules() for p in m._parameters.values())
        key = attempt, getattr(module, "rope_func", None), *(type(m) for m in module.modules()), *absent
        if key not in _found:
            try:
                _found[key] = attempt(module)
            except (AttributeError, ValueError) as error:
                return str(error)
        return _found[key]

    return check


def differs(theirs, ours, bound=1e-3):
    """Runs both and returns why ours may not stand in for theirs, or None."""
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        try:
            expected = _tensors(theirs())
        except Exception as error:  # another version of the project, whose interface we do not know
            return f"its own code does not run with the arguments that are known here ({type(error).__name__}: {error})"
        try:
            got = _tensors(ours())
        except Exception as error:
            return f"our rule does not run on its layers ({type(error).__name__}: {error})"
    same = len(got) == len(expected) and all(a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=bound, atol=bound)
                                             for a, b in zip(got, expected))
    return None if same else "a small copy of it gives other values than our rule"


def _tensors(result):
    return [t for t in (result if isinstance(result, tuple) else (result,)) if isinstance(t, torch.Tensor)]
