"""The ops beside what PyTorch makes of them: for each case random inputs in float64, our call and the composed one.

A case's functions take the inputs as keywords, in any float dtype. `grads` names the inputs that gradients are taken of, and
`raw` gives the arguments of the op itself, for opcheck."""

import dataclasses
import typing

import torch
import torch.nn.functional as F

import tachyscope
from tachyscope import ops


@dataclasses.dataclass
class Case:
    name: str
    inputs: dict  # name -> shape
    ours: typing.Callable
    theirs: typing.Callable
    grads: tuple = ()
    op: str = ""  # of torch.ops.tachyscope
    raw: typing.Callable = None  # inputs -> its arguments
    aliases: bool = False  # out may be x

    def draw(self, seed=0):
        generator = torch.Generator().manual_seed(seed)
        return {name: torch.randn(shape, generator=generator, dtype=torch.float64)
                for name, shape in self.inputs.items()}


def restride(t, how):
    """The same values in other places."""
    if how == "wide rows":  # rows that lie further apart
        wide = t.new_full((*t.shape[:-1], t.shape[-1] + 3), float("nan"))
        wide[..., : t.shape[-1]] = t
        return wide[..., : t.shape[-1]]
    if how == "every second":
        wide = t.new_full((*t.shape[:-1], 2 * t.shape[-1]), float("nan"))
        wide[..., ::2] = t
        return wide[..., ::2]
    if how == "transposed" and t.dim() > 1:  # neither rows nor values in order
        return t.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "batch inside" and t.dim() > 2:  # leading dims without a common stride
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


CASES = [
    rms_norm("rms_norm", (3, 5, 77), (77,)),
    rms_norm("rms_norm without weight", (2, 130), None),
    rms_norm("rms_norm of one channel", (4, 3, 1), (1,)),
    rms_norm("rms_norm of a vector", (33,), (33,)),
    rms_norm("rms_norm rounded twice", (2, 3, 4, 40), (40,), round_twice=True),
    rms_norm("rms_norm of many rows", (3, 700, 257), (257,), grads=()),
]
BY_NAME = {case.name: case for case in CASES}
assert tachyscope.threads() >= 1
