"""Cases that compare the ops with PyTorch: each has random inputs in float64, a call of our op, and the same computation composed of PyTorch's
functions.

A case's functions take the inputs as keywords, in any float dtype. `grads` names the inputs whose gradients are computed, and
`raw` gives the arguments of the op itself, for opcheck."""

import dataclasses
import typing

import torch
import torch.nn.functional as F

from tachyscope import ops


@dataclasses.dataclass
class Case:
    name: str
    inputs: dict  # name -> shape
    ours: typing.Callable
    theirs: typing.Callable
    grads: tuple = ()
    op: str = ""  # its name in torch.ops.tachyscope
    raw: typing.Callable = None  # inputs -> its arguments
    aliases: bool = False  # out may be x

    def draw(self, seed=0):
        generator = torch.Generator("cpu").manual_seed(seed)
        drawn = {name: torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
                 for name, shape in self.inputs.items()}
        return {name: t.to(torch.get_default_device()) for name, t in drawn.items()}


def restride(t, how):
    """Returns the same values in another memory layout."""
    if how == "wide rows":  # the rows have gaps between them
        wide = t.new_full((*t.shape[:-1], t.shape[-1] + 3), float("nan"))
        wide[..., : t.shape[-1]] = t
        return wide[..., : t.shape[-1]]
    if how == "every second":
        wide = t.new_full((*t.shape[:-1], 2 * t.shape[-1]), float("nan"))
        wide[..., ::2] = t
        return wide[..., ::2]
    if how == "transposed" and t.dim() > 1:  # neither rows nor values are contiguous
        return t.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "batch inside" and t.dim() > 2:  # the leading dims have no common stride
        return t.transpose(0, 1).contiguous().transpose(0, 1)
    return t.contiguous()


STRIDES = ["contiguous", "wide rows", "every second", "transposed", "batch inside"]


def rms_norm(name, x, weight, round_twice=False, grads=("x", "weight")):
    def ours(x, weight=None, out=None):
        return ops.rms_norm(x, weight, 1e-5, round_twice=round_twice, out=out)

    def theirs(x, weight=None):
        if not round_twice:
            return F.rms_norm(x, x.shape[-1:], weight, 1e-5)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        normed = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)
        return normed * weight

    inputs = {"x": x} | ({"weight": weight} if weight else {})
    return Case(name, inputs, ours, theirs, grads[: len(inputs)], "rms_norm",
                lambda x, weight=None: (x, weight, 1e-5, round_twice), aliases=True)


def layer_norm(name, x, weight=None, bias=None, scale=None):
    def ours(x, weight=None, bias=None, scale=None, shift=None, out=None):
        if scale is None:
            return ops.layer_norm(x, weight, bias, 1e-5, out=out)
        return ops.ada_layer_norm(x, scale, shift, weight, bias, 1e-5, out=out)

    def theirs(x, weight=None, bias=None, scale=None, shift=None):
        y = F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)
        return y if scale is None else y * (1 + scale) + shift

    return case(name, ours, theirs, "layer_norm",
                lambda x, weight=None, bias=None, scale=None, shift=None: (x, weight, bias, scale, shift, 1e-5),
                aliases=True, x=x, weight=weight, bias=bias, scale=scale, shift=scale)


def rms_modulate(name, x, scale, weight=None):
    def ours(x, scale, shift, weight=None, out=None):
        return ops.rms_modulate(x, scale, shift, weight, 1e-5, out=out)

    def theirs(x, scale, shift, weight=None):
        return F.rms_norm(x, x.shape[-1:], weight, 1e-5) * (1 + scale) + shift

    return case(name, ours, theirs, "rms_modulate", lambda x, scale, shift, weight=None: (x, scale, shift, weight, 1e-5),
                aliases=True, x=x, scale=scale, shift=scale, weight=weight)


def add_norm(name, x, norm, weight=None, bias=None, gate=None, scale=None, twice=False):
    def ours(x, u, weight=None, bias=None, gate=None, scale=None, shift=None):
        return ops.add_norm(x, u, weight, bias, norm=norm, gate=gate, scale=scale, shift=shift, eps=1e-5,
                            round_twice=twice)

    def theirs(x, u, weight=None, bias=None, gate=None, scale=None, shift=None):
        h = x + (u if gate is None else gate * u)
        if twice:
            wide = h.to(torch.promote_types(h.dtype, torch.float32))
            y = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(h.dtype) * weight
        elif norm == "layer":
            y = F.layer_norm(h, h.shape[-1:], weight, bias, 1e-5)
        else:
            y = F.rms_norm(h, h.shape[-1:], weight, 1e-5)
            y = y if bias is None else y + bias
        return (y if scale is None else y * (1 + scale) + shift), h

    def raw(x, u, weight=None, bias=None, gate=None, scale=None, shift=None):
        return x, u, gate, weight, bias, scale, shift, ["rms", "layer"].index(norm), 1e-5, twice

    return case(name, ours, theirs, "add_norm", raw, x=x, u=x, weight=weight, bias=bias, gate=gate, scale=scale,
                shift=scale)


def gated_residual(name, x, gate=None):
    return case(name, lambda x, u, gate=None, out=None: ops.gated_residual(x, u, gate, out=out),
                lambda x, u, gate=None: x + (u if gate is None else gate * u), "gated_residual",
                lambda x, u, gate=None: (x, u, gate), aliases=True, x=x, u=x, gate=gate)


def activation(name, ours, theirs, kind, x):
    return case(name, ours, lambda x: theirs(x), "activation", lambda x: (x, kind), aliases=True, x=x)


def glu(name, ours, act, kind, shape, round_twice=False):
    def theirs(gate, up):
        if round_twice or gate.dtype in (torch.float32, torch.float64):
            return act(gate) * up
        return (act(gate.float()) * up.float()).to(gate.dtype)

    return case(name, lambda gate, up, out=None: ours(gate, up, round_twice=round_twice, out=out), theirs, "glu",
                lambda gate, up: (gate, up, kind, round_twice), aliases=True, gate=shape, up=shape)


def case(name, ours, theirs, op, raw, grads=None, aliases=False, **shapes):
    """Makes a case; its inputs are the keywords that have a shape. All get gradients unless `grads` names some, or unless the case has more rows than
    fit into scratch at a time."""
    if "many rows" in name:
        grads = ()
    inputs = {key: shape for key, shape in shapes.items() if shape is not None}
    return Case(name, inputs, ours, theirs, tuple(inputs) if grads is None else grads, op, raw, aliases)


CASES = [
    rms_norm("rms_norm", (3, 5, 77), (77,)),
    rms_norm("rms_norm without weight", (2, 130), None),
    rms_norm("rms_norm of one channel", (4, 3, 1), (1,)),
    rms_norm("rms_norm of a vector", (33,), (33,)),
    rms_norm("rms_norm rounded twice", (2, 3, 4, 40), (40,), round_twice=True),
    rms_norm("rms_norm of many rows", (3, 700, 257), (257,), grads=()),
    layer_norm("layer_norm", (3, 5, 77), (77,), (77,)),
    layer_norm("layer_norm without parameters", (2, 130)),
    layer_norm("layer_norm without bias", (2, 2, 2, 9), (9,)),
    layer_norm("ada_layer_norm of samples", (3, 5, 24), scale=(3, 1, 24)),
    layer_norm("ada_layer_norm of tokens", (2, 5, 24), (24,), (24,), scale=(2, 5, 24)),
    layer_norm("ada_layer_norm of all", (2, 5, 24), scale=(24,)),
    layer_norm("ada_layer_norm of frames", (2, 3, 4, 24), scale=(2, 3, 1, 24)),
    layer_norm("ada_layer_norm of many rows", (3, 700, 257), (257,), scale=(3, 1, 257)),
    layer_norm("ada_layer_norm of many rows of tokens", (2, 1100, 257), scale=(2, 1100, 257)),
    rms_modulate("rms_modulate of samples", (3, 5, 24), (3, 1, 24), (24,)),
    rms_modulate("rms_modulate of tokens", (2, 5, 24), (2, 5, 24)),
    rms_modulate("rms_modulate of many rows", (3, 700, 257), (3, 1, 257), (257,)),
    add_norm("add_norm, rms", (3, 5, 40), "rms", (40,)),
    add_norm("add_norm, rms, rounded twice", (3, 5, 40), "rms", (40,), twice=True),
    add_norm("add_norm, layer", (2, 7, 33), "layer", (33,), (33,)),
    add_norm("add_norm, layer, gated and modulated", (2, 6, 32), "layer", gate=(2, 1, 32), scale=(2, 1, 32)),
    add_norm("add_norm, rms, gated and modulated", (2, 6, 32), "rms", (32,), (32,), gate=(2, 6, 32), scale=(2, 6, 32)),
    add_norm("add_norm of many rows", (3, 700, 257), "layer", gate=(3, 1, 257), scale=(3, 1, 257)),
    gated_residual("gated_residual of many rows", (700, 3, 257), (1, 3, 257)),
    gated_residual("gated_residual", (3, 5, 40), (3, 1, 40)),
    gated_residual("gated_residual without gate", (2, 33)),
    gated_residual("gated_residual of tokens", (2, 4, 33), (2, 4, 33)),
    activation("gelu", ops.gelu, F.gelu, 3, (3, 5, 77)),
    activation("gelu by tanh", lambda x, out=None: ops.gelu(x, "tanh", out=out),
               lambda x: F.gelu(x, approximate="tanh"), 2, (2, 130)),
    activation("silu", ops.silu, F.silu, 1, (33,)),
    activation("mish", ops.mish, F.mish, 4, (2, 3, 4, 5)),
    glu("geglu", ops.geglu, F.gelu, 3, (3, 5, 77)),
    glu("swiglu", ops.swiglu, F.silu, 1, (2, 130)),
    activation("gelu of many rows", ops.gelu, F.gelu, 3, (3, 700, 257)),
    glu("swiglu of many rows", ops.swiglu, F.silu, 1, (3, 700, 257)),
    glu("swiglu rounded twice", ops.swiglu, F.silu, 1, (2, 3, 40), round_twice=True),
]
