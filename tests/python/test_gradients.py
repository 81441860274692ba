"""Gradients: against numerical ones in float64 (the definitions), against autograd of the composed call in float32 and bfloat16. An op without
gradients says so."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from head_cases import BY_NAME, CASES
from op_cases import restride
from tachyscope import _gradients

WITH_GRADIENTS = [case for case in CASES if case.grads]
EVERY = pytest.mark.parametrize("case", WITH_GRADIENTS, ids=lambda case: case.name)


@pytest.fixture(params=["as usual", "the ops"])
def way_back(request, monkeypatch):
    """Chooses the backward pass. On the CPU the usual one is made of torch's operations; the definitions are our own ops."""
    if request.param == "the ops":
        monkeypatch.setattr(_gradients, "_pass", lambda name, dy, x=None: getattr(torch.ops.tachyscope, name))


def leaves(case, dtype):
    return {name: t.to(dtype).requires_grad_(name in case.grads) for name, t in case.draw().items()}


def public_call(case, given):
    """Calls the op as torch.compile does."""
    return getattr(torch.ops.tachyscope, case.op)(*case.raw(**given))


@pytest.mark.cpu
@EVERY
@pytest.mark.parametrize("way", ["function", "public op"])
def test_gradcheck(case, way):
    names = list(case.inputs)

    def call(*tensors):
        given = dict(zip(names, tensors))
        return case.ours(**given) if way == "function" else public_call(case, given)

    given = leaves(case, torch.float64)
    assert torch.autograd.gradcheck(call, tuple(given.values()), eps=1e-6, atol=1e-5, rtol=1e-4, fast_mode=True)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_dtypes(case, dtype, way_back):
    """Our error against the gradients in float64 is at most twice that of torch in this dtype."""
    def run(call, given):
        results = call(**given)
        results = results if isinstance(results, tuple) else (results,)
        generator = torch.Generator("cpu").manual_seed(7)
        weights = [torch.randn(r.shape, generator=generator, dtype=torch.float64, device="cpu").to(r) for r in results]
        loss = sum((r * w).sum() for r, w in zip(results, weights))
        loss.backward()
        return {name: given[name].grad for name in case.grads}

    mine = run(case.ours, leaves(case, dtype))
    theirs = run(case.theirs, leaves(case, dtype))
    low = {name: t.detach().double().requires_grad_(name in case.grads) for name, t in leaves(case, dtype).items()}
    exact = run(case.theirs, low)
    for name in case.grads:
        assert mine[name].dtype == dtype
        error = (mine[name].double() - exact[name]).abs().max().item()
        allowed = 2 * (theirs[name].double() - exact[name]).abs().max().item()
        allowed += 4 * torch.finfo(dtype).eps * exact[name].abs().max().item()
        assert error <= allowed, f"{name}: error {error:.3g}, allowed {allowed:.3g}"


@EVERY
def test_strided_gradients(case, way_back):
    given = leaves(case, torch.float32)
    plain = case.ours(**given)
    plain = plain[0] if isinstance(plain, tuple) else plain
    wanted = [given[name] for name in case.grads]
    incoming = torch.randn_like(plain)
    expected = torch.autograd.grad(plain, wanted, incoming)
    strided = {name: restride(t.detach(), "transposed").requires_grad_(name in case.grads) for name, t in given.items()}
    result = case.ours(**strided)
    result = result[0] if isinstance(result, tuple) else result
    got = torch.autograd.grad(result, [strided[name] for name in case.grads], restride(incoming, "transposed"))
    # A GPU's library sums matrices that lie otherwise in another order.
    bound = dict(rtol=1.3e-6, atol=4e-5) if plain.is_cuda else {}
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b, **bound)


@EVERY
def test_without_gradients_of_parameters(case, way_back):
    """Beside inputs that are not trained, the first one's gradient is the same, and the backward op makes no other."""
    def gradient(others):
        given = {name: t.float().requires_grad_(name == case.grads[0] or (others and name in case.grads)) for name, t in case.draw().items()}
        result = case.ours(**given)
        result = result[0] if isinstance(result, tuple) else result
        with Backward() as seen:
            result.backward(torch.linspace(-1, 1, result.numel()).view(result.shape))
        assert all((t.grad is None) == (not t.requires_grad) for t in given.values())
        return given[case.grads[0]].grad, seen.flags

    (trained, flags), (frozen, none) = gradient(True), gradient(False)
    torch.testing.assert_close(frozen, trained)
    assert len(flags) == len(none) and not any(none)
    parameters = {"weight", "bias", "gamma", "q_weight", "gate", "scale"} & set(case.grads)
    assert any(flags) == bool(flags and parameters) or case.op == "add_norm"


class Backward(TorchDispatchMode):
    """Notes the last argument of each backward op of ours that has one: whether gradients of parameters are wanted, which are else without values."""

    def __enter__(self):
        self.flags = []
        return super().__enter__()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        arguments = function._schema.arguments
        if function.namespace == "tachyscope" and arguments[-1].name == "parameters":
            self.flags.append(args[-1])
            assert args[-1] or all(t.numel() == 0 for t in results[2 if "qk" in str(function) else 1:])
        return results


def test_only_one_input_requires_grad():
    case = BY_NAME["rms_norm"]
    given = {name: t.float() for name, t in case.draw().items()}
    given["weight"].requires_grad_()
    case.ours(**given).sum().backward()
    assert given["weight"].grad is not None and given["x"].grad is None


def test_second_derivative_is_refused(way_back):
    case = BY_NAME["rms_norm"]
    given = leaves(case, torch.float32)
    (first,) = torch.autograd.grad(case.ours(**given).sum(), given["x"], create_graph=True)
    with pytest.raises(NotImplementedError, match="rms_norm_backward: this op has no gradient"):
        first.sum().backward()


def test_out_refuses_gradients():
    case = BY_NAME["rms_norm"]
    given = leaves(case, torch.float32)
    out = torch.empty_like(given["x"], requires_grad=False)
    with pytest.raises(ValueError, match="expected no tensor that requires grad when out is given"):
        case.ours(**given, out=out)
    with torch.no_grad():
        case.ours(**given, out=out)


@pytest.mark.parametrize("op", ["group_norm", "channel_norm"])
def test_no_samples(op):
    from tachyscope import ops

    x = torch.zeros(0, 8, 3, 5, requires_grad=True)
    weight = torch.ones(8, requires_grad=True)
    y = ops.group_norm(x, 2, weight) if op == "group_norm" else ops.channel_norm(x, weight)
    y.sum().backward()
    assert x.grad.shape == x.shape and (weight.grad == 0).all()
