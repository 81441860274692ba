"""The functions in C in front of eager calls (python/bind/front.cpp): they take plain calls, and leave to torch's dispatcher what only it
knows how to treat, so that modes which watch or change calls still see the ops."""

import contextlib

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import tachyscope
from conftest import DEVICE, no_default_device
from head_cases import CASES
from tachyscope import ops

tachyscope.enable_torch()
OP = ops._rms_norm


@pytest.fixture(autouse=True)
def nobody_watches():
    """Removes the default device, which would count as a mode that watches calls."""
    with no_default_device():
        yield


@pytest.fixture
def left(monkeypatch):
    """Returns a list that grows by each call that the function in C leaves to the dispatcher."""
    calls = []

    def slow(*args):
        calls.append(args)
        return OP.any_eager(*args)

    from tachyscope import _gradients
    inside = tachyscope._core._torch_front(OP.name, slow, None)
    monkeypatch.setattr(OP, "eager", tachyscope._core._torch_front(OP.name, slow, _gradients.recorder(OP, inside)))
    return calls


def draw(dtype=torch.float32):
    return torch.randn(4, 64, device=DEVICE).to(dtype), torch.randn(64, device=DEVICE).to(dtype)


class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_op_gives_the_same(case, dtype):
    """Values and gradients have the bits that calls through torch's dispatcher give."""
    def both(mode):
        given = {name: t.to(DEVICE, dtype).requires_grad_(name in case.grads) for name, t in case.draw().items()}
        with torch.no_grad(), mode:
            plain = case.ours(**given)
        with mode:
            recorded = case.ours(**given)
        plain, recorded = ([t] if isinstance(t, torch.Tensor) else list(t) for t in (plain, recorded))
        wanted = [given[name] for name in case.grads]
        gradients = torch.autograd.grad(recorded[0].float().square().sum(), wanted, allow_unused=True) if wanted else []
        return plain + recorded + [t for t in gradients if t is not None]

    mine, theirs = both(contextlib.nullcontext()), both(Mode())
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs):
        assert (a.shape, a.stride(), a.dtype, a.requires_grad) == (b.shape, b.stride(), b.dtype, b.requires_grad)
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def composed(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


PLAIN = {
    "float32": lambda x, w: (x, w),
    "bfloat16": lambda x, w: (x.bfloat16(), w.bfloat16()),
    "other dtype of the weight": lambda x, w: (x.bfloat16(), w),
    "without a weight": lambda x, w: (x, None),
    "a parameter": lambda x, w: (x, torch.nn.Parameter(w)),
    "odd strides": lambda x, w: (x.t().contiguous().t(), w),
    "a row for all": lambda x, w: (x[:1].expand(4, 64), w),
    "one row": lambda x, w: (x[:1], w),
    "no rows": lambda x, w: (x[:0], w),
    "recorded": lambda x, w: (x.requires_grad_(), w.requires_grad_()),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_calls_are_taken(name, left):
    x, weight = PLAIN[name](*draw())
    result = ops.rms_norm(x, weight)
    expected = OP.any_eager(x, weight, 1e-6, False)
    assert not left
    assert (result.shape, result.stride(), result.dtype, result.device) == (expected.shape, expected.stride(), expected.dtype, expected.device)
    assert type(result) is torch.Tensor and result.requires_grad == expected.requires_grad
    torch.testing.assert_close(result, expected, rtol=0, atol=0)


@pytest.mark.parametrize("grad", [False, True], ids=["", "recorded"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_is_taken(dtype, grad, monkeypatch):
    """Inside of autocast the arguments are cast, and then the function in C takes the call; a mode that watches still sees the op."""
    from tachyscope import _gradients
    calls, op = [], ops._op["lora"]
    inside = tachyscope._core._torch_front(op.name, op.private, None)
    slow = lambda *args: (calls.append(args), op.dispatched(*args))[1]  # noqa: E731
    monkeypatch.setattr(op, "of_cast", tachyscope._core._torch_front(op.name, slow, _gradients.recorder(op, inside), True))
    x, a, b = (torch.randn(shape, device=DEVICE).to(dtype).requires_grad_(grad) for shape in ((6, 24), (4, 24), (40, 4)))
    with torch.autocast(DEVICE, torch.bfloat16):
        y = ops.lora(x, a, b, 0.5)
        assert not calls
        with Mode():
            watched = ops.lora(x, a, b, 0.5)
    assert len(calls) == 1 and y.dtype == torch.bfloat16 and torch.equal(y, watched) and y.requires_grad == grad
    if grad:
        mine, theirs = (torch.autograd.grad(t.float().square().sum(), (x, a, b)) for t in (y, watched))
        assert all(torch.equal(one, other) and one.dtype == dtype for one, other in zip(mine, theirs))


@pytest.mark.parametrize("name", ["negated", "negated and contiguous", "nothing but zeros", "functional", "a subclass", "an int for eps"])
def test_tensors_that_are_left(name, left):
    x, weight = draw()
    eps = 1e-6
    if name == "negated":
        x = torch.complex(x, x).conj().imag
        assert x.is_neg()
    elif name == "negated and contiguous":
        x = torch._neg_view(x)
    elif name == "nothing but zeros":
        x = torch._efficientzerotensor((4, 64), device=DEVICE)
    elif name == "functional":
        x = torch._to_functional_tensor(x)
    elif name == "a subclass":
        x = x.as_subclass(type("Mine", (torch.Tensor,), {}))
    elif name == "an int for eps":
        eps = True
    result = ops.rms_norm(x, weight, eps)
    assert len(left) == 1
    if name == "functional":
        torch._sync(result)
        x, result = torch._from_functional_tensor(x), torch._from_functional_tensor(result)
    torch.testing.assert_close(result.as_subclass(torch.Tensor), composed(x.clone().as_subclass(torch.Tensor), weight, float(eps)))


def test_without_torch_no_tensor_without_memory():
    with pytest.raises(ValueError, match="rms_norm: expected x with values in memory, got none"):
        tachyscope._core.rms_norm(torch._efficientzerotensor((4, 64)), None, 1e-6, False)


def test_dead_wrappers(left):
    """Calls with tensors that escaped a transform of functorch."""
    kept, (x, weight) = [], draw()
    torch.func.grad(lambda a: (kept.append(a), a.sum())[1])(x)
    torch.testing.assert_close(ops.rms_norm(kept[0], weight), ops.rms_norm(x, weight))
    recorded = weight.clone().requires_grad_()
    torch.testing.assert_close(ops.rms_norm(kept[0], recorded), ops.rms_norm(x, weight))


def test_modes_see_ops(left):
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x, weight = draw()
    with Watch():
        ops.rms_norm(x, weight)
    assert len(left) == 1 and any("rms_norm" in name for name in seen)


def test_profiles_show_ops(left):
    x, weight = draw()
    with torch.profiler.profile() as profile:
        ops.rms_norm(x, weight)
    assert len(left) == 1 and any("rms_norm" in event.key for event in profile.key_averages())
    ops.rms_norm(x, weight)
    assert len(left) == 1


@pytest.mark.filterwarnings("ignore")
def test_traces_hold_ops():
    x, weight = draw()
    traced = torch.jit.trace(lambda x: ops.rms_norm(x, weight), x)
    assert "rms_norm" in str(traced.graph)
    torch.testing.assert_close(traced(2 * x + 1), ops.rms_norm(2 * x + 1, weight))


def test_inference_mode(left):
    x, weight = draw()
    with torch.inference_mode():
        assert ops.rms_norm(x, weight).is_inference()
    assert not left


def test_transforms():
    """functorch can differentiate through the ops."""
    x, weight = draw()
    mine, theirs = (torch.func.grad(lambda x, call=call: call(x, weight).square().sum())(x) for call in (ops.rms_norm, composed))
    torch.testing.assert_close(mine, theirs)


def test_saved_tensors_and_hooks(left):
    """The tensors kept for the backward pass are saved by torch: hooks see them, and changing one in place is an error."""
    x, weight = (t.requires_grad_() for t in draw())
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(t.shape), t)[1], lambda t: t):
        result = ops.rms_norm(x, weight)
    assert sorted(map(tuple, packed)) == [(4, 64), (64,)]
    result.sum().backward()
    middle = x * 1
    result = ops.rms_norm(middle, weight)
    middle.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    assert not left


def test_gradients_of_gradients_are_refused():
    x, weight = (t.requires_grad_() for t in draw())
    gradient, = torch.autograd.grad(ops.rms_norm(x, weight).square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="has no gradient of its own"):
        gradient.sum().backward()


def test_errors_are_the_same(left):
    x, weight = draw()
    for args in ((x, weight[:3], 1e-6, False), (x.to(torch.int32), weight, 1e-6, False), (x, weight.double(), 1e-6, False)):
        with pytest.raises(ValueError) as mine:
            OP.eager(*args)
        with pytest.raises(ValueError) as theirs:
            OP.any_eager(*args)
        assert str(mine.value) == str(theirs.value) != ""
    for args in ((x,), (x, weight, "much", False)):
        with pytest.raises((TypeError, RuntimeError)) as mine:
            OP.eager(*args)
        with pytest.raises(type(mine.value)) as theirs:
            OP.any_eager(*args)
        assert str(mine.value) == str(theirs.value) != ""


def test_threads():
    """A call releases the interpreter's lock while it computes, and calls from several threads do not disturb each other."""
    import concurrent.futures

    x, weight = torch.randn(2048, 256, device=DEVICE), torch.randn(256, device=DEVICE)
    expected = ops.rms_norm(x, weight)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: ops.rms_norm(x, weight), range(64)))
    assert all(torch.equal(result, expected) for result in results)
