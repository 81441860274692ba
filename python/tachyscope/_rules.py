"""The modules of diffusers and transformers that our kernels can replace, and how each is then computed.

A rule belongs to a class by what its forward does, not by its name. That is a class of torch or diffusers itself (or
one that inherits its forward). In transformers, where every model has its own copy of the same lines, it is a class
whose forward has the same code as the one that the rule was written for (`_transformers.py`). Parameters are read when
the module is called and nothing of them is kept, so the rules hold before and after offloading, with adapters and under
hooks. Heads are separated by `torch.unflatten`: if the user has set a default device, torch.compile cannot trace the
tensor's own method of that name.

A rule's `check` tells why this particular module should be left alone (or None). Its `call` computes; it uses the plain
forward for tensors that the module itself would convert (`_plain`).
"""

import contextlib
import importlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad

from . import ops
from ._autocast import WIDENED
from ._mlp import gelu_in_product, product_with_gelu

MARK = "_tachyscope_forward"  # the attribute in which a module keeps the forward that we gave it
eight_bits = None  # `_scaled.product`, once that file is imported
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
IN_FLOAT32 = " where it is float32"  # added to the report at level safe


def _usual(x, *parameters):
    """Says whether our op gives the module's result: 16- or 32-bit floats of one dtype, and no autocast, which would
    choose a dtype."""
    if x.dtype not in FLOATS or not 1 <= x.dim() <= 6:
        return False
    if x.device.type not in ("cpu", "cuda") or torch.is_autocast_enabled(x.device.type):
        return False
    if forward_ad._current_level >= 0:  # our ops have no forward-mode derivatives
        return False
    return all(p is None or p.dtype == x.dtype for p in parameters)


def in_region(x):
    """Says whether x is inside of torch.autocast."""
    return x.device.type in ("cpu", "cuda") and torch.is_autocast_enabled(x.device.type)


def takes(x, *parameters):
    """Says whether our ops take these values. Inside of torch.autocast these are any 16- and 32-bit floats: linear layers and attention bring
    them to the region's dtype, and everything else is computed in float32 and rounded once. Elsewhere they are the usual ones."""
    if not in_region(x):
        return _usual(x, *parameters)
    with_tangents = forward_ad._current_level >= 0
    return x.dtype in FLOATS and 1 <= x.dim() <= 6 and not with_tangents and all(p is None or p.dtype in FLOATS for p in parameters)


def takes_norm(name, x, *parameters):
    """Says whether our norm gives the values and the dtype of torch's function of this name, also inside of torch.autocast: there torch brings all to
    float32 on some devices, and otherwise takes parameters in float32 beside 16-bit values."""
    if not takes(x, *parameters) or not in_region(x) or name in WIDENED[x.device.type] or name == "rms_norm":
        return takes(x, *parameters)
    given = {p.dtype for p in parameters if p is not None}
    return given <= {x.dtype} or (x.dtype != torch.float32 and given == {torch.float32})


def apart(x):
    """Returns a context in which our norms keep their dtypes inside of torch.autocast, as code that makes norms of single operations does."""
    return torch.autocast(x.device.type, enabled=False) if in_region(x) else contextlib.nullcontext()


def narrow(*parameters):
    """Says whether our ops take these parameters beside 16- or 32-bit values, whose dtype they need not have."""
    return all(p is None or p.dtype != torch.float64 for p in parameters)


def unhooked(module):
    """Says whether the module may be computed without being called: it has no hooks of any kind, and no other replaced
    forward."""
    own = module.__dict__.get("forward")
    if own is not None and own is not module.__dict__.get(MARK):
        return False
    hooks = (module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks)
    return not any(hooks) and "_hf_hook" not in module.__dict__


def fuses(twice, x):
    """Says whether values that a module rounds several times may be rounded once."""
    return not twice or x.dtype == torch.float32


def _plain(module, *args, **kwargs):
    return type(module).forward(module, *args, **kwargs)


def _one_dim(module, shape):
    return None if len(shape) == 1 else f"it normalises over {len(shape)} dims"


# Norms. With `twice`, level safe keeps a module's two roundings.


def _torch_rms(module, twice, x):
    if not takes_norm("rms_norm", x, module.weight):
        return _plain(module, x)
    return ops.rms_norm(x, module.weight, module.eps)


def _torch_rms_check(module):
    if module.eps is None:
        return "its eps depends on the dtype"
    return _one_dim(module, module.normalized_shape)


def _diffusers_rms(module, twice, x):
    if not takes(x, module.weight) or (module.weight is not None and module.weight.dtype != x.dtype):
        return _plain(module, x)
    with apart(x):
        return ops.rms_norm(x, module.weight, module.eps, round_twice=twice)


def _diffusers_rms_check(module):
    return "it has a bias" if module.bias is not None else _one_dim(module, module.dim)


def _layer_norm(module, twice, x):
    if not takes_norm("layer_norm", x, module.weight, module.bias):
        return _plain(module, x)
    return ops.layer_norm(x, module.weight, module.bias, module.eps)


def _float_layer_norm(module, twice, x):
    if not (takes(x) and narrow(module.weight, module.bias)):
        return _plain(module, x)
    with apart(x):
        return ops.layer_norm(x, module.weight, module.bias, module.eps)


def _group_norm(module, twice, x):
    if not takes_norm("group_norm", x, module.weight, module.bias) or x.dim() < 2:
        return _plain(module, x)
    y = ops.group_norm(x, module.num_groups, module.weight, module.bias, module.eps)
    return y if x.dim() > 3 else y.contiguous()  # the module keeps channels last only for images and clips


# Activations.


def _lying(function, x, **options):
    """Applies the function to each value. The result is laid out like x if that is an image with channels last."""
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        return function(x.movedim(1, -1), **options).movedim(-1, 1)
    return function(x, **options)


def _activation(function, **options):
    def call(module, twice, x):
        return _lying(function, x, **options) if takes(x) else _plain(module, x)

    return call


def _gelu(module, twice, x):
    return _lying(ops.gelu, x, approximate=module.approximate) if takes(x) else _plain(module, x)


def _silu_check(module):
    return "it works in place" if getattr(module, "inplace", False) else None


# Linear layers with an activation: the layer itself is called as usual.


def _projected_gelu(module, twice, x):
    proj = module.proj
    if not twice and module.approximate == "tanh" and type(proj) is nn.Linear and unhooked(proj) and _usual(x, proj.weight, proj.bias):
        if MARK in proj.__dict__:  # at level extreme
            y = eight_bits(proj, x, "gelu_tanh")
            return ops.gelu(proj(x), "tanh") if y is None else y
        if gelu_in_product(x, proj.weight, proj.bias):
            return product_with_gelu(x, proj.weight, proj.bias)
    h = proj(x)
    return ops.gelu(h, module.approximate) if takes(h) else module.gelu(h)


def _projected_glu(function):
    def call(module, twice, x, *args, **kwargs):
        if args or kwargs:
            return _plain(module, x, *args, **kwargs)
        h = module.proj(x)
        up, gate = h.chunk(2, dim=-1)
        if not takes(h):
            return up * (F.gelu(gate) if function is ops.geglu else F.silu(gate))
        return function(gate, up, round_twice=twice)

    return call


class Rule:
    """How modules of a class are computed: `op` for the report, `check(module)`, `call(module, twice, *args)`, and
    `inside(module)`: the modules inside that are no longer called. `safe` is added to the report at level safe. If the rule is not `about` a module,
    that counts as a module without a rule."""

    def __init__(self, op, call, check=lambda module: None, inside=lambda module: [], safe="", about=lambda module: True):
        self.op, self.call, self.check, self.inside, self.safe, self.about = op, call, check, inside, safe, about

    def begin(self, module):
        """Returns the function that computes this module, which is about to be replaced."""
        return self.call

    def words(self, module):
        """Returns the words of the report for the module."""
        return self.op


def _code(forward):
    """Returns a function's code, without its name, its lines and its help."""
    code = getattr(forward, "__wrapped__", forward).__code__
    constants = tuple(c for c in code.co_consts if not isinstance(c, str))
    return code.co_code, code.co_names, code.co_varnames, constants


def code_of(module):
    """Returns `_code` of the forward in the module's class; None if that is not a Python function."""
    forward = type(module).forward
    return _code(forward) if hasattr(getattr(forward, "__wrapped__", forward), "__code__") else None


def forwards(entries):
    """Returns {code of the forward: value} for each (model, class, value) whose class exists in this version of
    transformers."""
    found = {}
    for model, name, value in entries:
        try:
            cls = getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name)
        except (ImportError, AttributeError):
            continue
        found[_code(cls.forward)] = value
    return found


def replaced(module):
    """Says whether the module runs one of our forwards."""
    return MARK in getattr(module, "__dict__", {})
