"""Small calls, most of them with gradients recorded: torch's own functions compute them, with the results and gradients of ours."""

import pytest
import torch
import torch.nn.functional as F

from conftest import DEVICE
from tachyscope import _small, ops
from test_optimize import CountedCalls

C, GROUPS = 24, 4
CALLS = {  # ours, torch's, shapes
    "layer_norm": (lambda x, w, b: ops.layer_norm(x, w, b, 1e-6), lambda x, w, b: F.layer_norm(x, (C,), w, b, 1e-6), [(2, 5, C), (C,), (C,)]),
    "layer_norm, bare": (lambda x: ops.layer_norm(x), lambda x: F.layer_norm(x, (C,)), [(2, 5, C)]),
    "rms_norm": (lambda x, w: ops.rms_norm(x, w, 1e-6), lambda x, w: F.rms_norm(x, (C,), w, 1e-6), [(2, 5, C), (C,)]),
    "gelu": (ops.gelu, F.gelu, [(3, 7)]),
    "gelu, tanh": (lambda x: ops.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh"), [(3, 7)]),
    "silu": (ops.silu, F.silu, [(3, 7)]),
    "mish": (ops.mish, F.mish, [(3, 7)]),
    "group_norm": (lambda x, w, b: ops.group_norm(x, GROUPS, w, b), lambda x, w, b: F.group_norm(x, GROUPS, w, b), [(2, C, 3, 5), (C,), (C,)]),
    "group_norm_silu": (lambda x, w, b: ops.group_norm_silu(x, GROUPS, w, b), lambda x, w, b: F.silu(F.group_norm(x, GROUPS, w, b)), [(2, C, 3, 5), (C,), (C,)]),
    "group_norm_mish": (lambda x: ops.group_norm_mish(x, GROUPS), lambda x: F.mish(F.group_norm(x, GROUPS)), [(2, C, 7)]),
    "group_norm, gelu": (lambda x: ops.group_norm(x, GROUPS, activation="gelu_tanh"), lambda x: F.gelu(F.group_norm(x, GROUPS), approximate="tanh"), [(2, C, 7)]),
    "lora": (ops.lora, lambda x, a, b: F.linear(F.linear(x, a), b), [(2, 5, C), (4, C), (7, 4)]),
    "lora, scaled": (lambda x, a, b: ops.lora(x, a, b, 0.5), lambda x, a, b: F.linear(F.linear(x, a) * 0.5, b), [(5, C), (4, C), (7, 4)]),
}


@pytest.fixture(autouse=True)
def as_shipped(monkeypatch):
    monkeypatch.setattr(_small, "MOST", 1 << 23)


def leaves(shapes, dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def results(call, given):
    y = call(*given)
    return [y, *torch.autograd.grad((y.float() * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum(), given)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_are_torchs(name, dtype, monkeypatch):
    """The bits are torch's, our op is not called, and what it would give is as near as one more rounding."""
    if name == "rms_norm" and DEVICE == "cpu":
        pytest.skip("of a GPU, where torch has it as one kernel")
    ours, theirs, shapes = CALLS[name]
    given = leaves(shapes, dtype)
    with CountedCalls() as calls:
        got = results(ours, given)
    assert not calls.ops
    assert all(torch.equal(a, b) for a, b in zip(got, results(theirs, leaves(shapes, dtype)), strict=True))
    monkeypatch.setattr(_small, "MOST", 0)
    with CountedCalls() as calls:
        other = results(ours, leaves(shapes, dtype))
    assert calls.ops
    for a, b in zip(got, other, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        torch.testing.assert_close(a, b, **(dict(rtol=1e-4, atol=1e-5) if dtype == torch.float32 else dict(rtol=3e-2, atol=3e-2 * b.abs().max().item())))


def test_rms_norms_that_are_ours():
    """On a CPU all of them, and elsewhere those that torch rounds otherwise or warns of."""
    x, weight = leaves([(2, 5, C), (C,)])
    for given, options in (((x, weight.half()), {}), ((x.half(), weight), {}), ((x, weight), {"round_twice": True}), *[((x, weight), {})] * (DEVICE == "cpu")):
        with CountedCalls() as calls:
            ops.rms_norm(*given, **options)
        assert calls.ops == {"rms_norm": 1}


def test_activations_have_a_higher_limit(monkeypatch):
    x, weight, bias = leaves([(2, C, 3, 5), (C,), (C,)])
    for most, ours in ((x.numel() // _small.FACTOR, {"group_norm": 1}), (x.numel() // _small.FACTOR - 1, {"group_norm": 1, "activation": 1})):
        monkeypatch.setattr(_small, "MOST", most)
        with CountedCalls() as calls:
            ops.gelu(ops.group_norm(x, GROUPS, weight, bias))
        assert calls.ops == ours


def test_activations_without_gradients(monkeypatch):
    """A GPU gives few values to torch; on a CPU our call takes less time than torch's by the error function."""
    x = torch.randn(4, C)
    for most, ours in ((x.numel() * _small.FEW, DEVICE == "cpu"), (x.numel() * _small.FEW - 1, True)):
        monkeypatch.setattr(_small, "MOST", most)
        with CountedCalls() as calls:
            y = ops.gelu(x)
        assert bool(calls.ops) == ours
        torch.testing.assert_close(y, F.gelu(x), rtol=1e-4, atol=1e-5)


def test_adapters_that_are_ours():
    """They are stacked ones, chosen ones, those with a tensor as their scale, mixed dtypes, too many values, and all without gradients."""
    x, a, b = leaves([(2, 5, C), (4, C), (7, 4)])
    index = torch.zeros(2, 5, dtype=torch.int32)
    for given in ((x, a[None], b[None]), (x, a[None], b[None], 1.0, index), (x, a, b, torch.tensor(0.5)), (x, a.half(), b.half()),
                  (torch.randn(1, C).expand(_small.MOST // _small.SHARE // C + 1, C), a, b), tuple(t.detach() for t in (x, a, b))):
        with CountedCalls() as calls:
            ops.lora(*given)
        assert calls.ops == {"lora": 1}


@pytest.mark.parametrize("why", ["no gradients", "too many values", "strides", "other dtypes", "channels last", "out"])
def test_are_ours(why, monkeypatch):
    x, weight, bias = leaves([(2, C, 3, 5), (C,), (C,)])
    given, call = (x, weight, bias), ops.group_norm_silu
    if why == "too many values":
        monkeypatch.setattr(_small, "MOST", x.numel() - 1)
    if why == "strides":
        given = (x.transpose(2, 3), weight, bias)
    if why == "channels last":
        given = (x.contiguous(memory_format=torch.channels_last), weight, bias)
    if why == "other dtypes":  # torch refuses these
        given = (x, weight.half(), bias.half())
    if why == "out":
        given = [t.detach() for t in given]
    with torch.set_grad_enabled(why != "no gradients"), CountedCalls() as calls:
        if why == "out":
            assert call(given[0], GROUPS, *given[1:], out=given[0]) is given[0]
        else:
            call(given[0], GROUPS, *given[1:])
    assert calls.ops.total() == 1 and next(iter(calls.ops)).startswith("group_norm")


@pytest.mark.parametrize("call, text", [
    (lambda x, w: ops.layer_norm(x, w[1:]), r"layer_norm: expected weight \[24\], got \[23\]"),
    (lambda x, w: ops.group_norm(x, 5), "expected groups that divide"),
    (lambda x, w: ops.group_norm(x, 0), "expected groups that divide"),
    (lambda x, w: ops.lora(x, x.t(), x.t()), r"lora: expected a \[at least 1, rank, 24\]"),
    (lambda x, w: ops.layer_norm(x[0, 0]), "layer_norm: expected x with 1 to")])
def test_bad_input(call, text):
    """The errors are those of the ops."""
    with pytest.raises(ValueError, match=text):
        call(torch.randn(2, C, requires_grad=True), torch.randn(C))


def test_second_derivatives_and_transforms():
    """torch's own functions have what ours refuse."""
    x = torch.randn(3, C, dtype=torch.float32, requires_grad=True)
    gradient, = torch.autograd.grad(ops.gelu(x).sum(), x, create_graph=True)
    second, = torch.autograd.grad(gradient.square().sum(), x)
    exact = x.detach().double().requires_grad_()
    theirs, = torch.autograd.grad(F.gelu(exact).sum(), exact, create_graph=True)
    torch.testing.assert_close(second.double(), torch.autograd.grad(theirs.square().sum(), exact)[0], rtol=1e-4, atol=1e-5)
    grads = torch.func.vmap(torch.func.grad(lambda t: ops.layer_norm(t).square().sum()))(x.detach())
    assert grads.shape == x.shape
