"""Each op against PyTorch's: values in three dtypes and odd strides, output tensors that the caller provides, thread counts."""

import concurrent.futures

import pytest
import torch

import tachyscope
from head_cases import CASES
from op_cases import STRIDES, restride
from tachyscope import ops

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
EVERY = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
# add_norm and qk_norm_rope have two results, and our backward pass records gradients.
WITH_OUT = [case for case in CASES if case.op not in ("add_norm", "attention_lse", "qk_norm_rope")]


def tuple_of(result):
    return result if isinstance(result, tuple) else (result,)


def expect_close(case, ours, theirs, exact):
    """Allows twice the error of torch's own result in this dtype, plus two units in the last place of the largest value."""
    for mine, yours, right in zip(tuple_of(ours), tuple_of(theirs), tuple_of(exact), strict=True):
        assert mine.dtype == yours.dtype and mine.shape == yours.shape
        unit = torch.finfo(mine.dtype).eps * right.abs().max().item()
        error = (mine.double() - right).abs().max().item()
        allowed = 2 * (yours.double() - right).abs().max().item() + 2 * unit
        assert error <= allowed, f"{case.name}: error {error:.3g}, allowed {allowed:.3g}"


@EVERY
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("how", STRIDES)
def test_values(case, dtype, how):
    given = {name: t.to(dtype) for name, t in case.draw().items()}
    exact = case.theirs(**{name: t.double() for name, t in given.items()})
    strided = {name: restride(t, how) for name, t in given.items()}
    before = {name: t.clone() for name, t in strided.items()}
    expect_close(case, case.ours(**strided), case.theirs(**given), exact)
    for name, t in strided.items():
        assert torch.equal(t, before[name]), f"{name} was changed"


@EVERY
def test_parameters_of_another_dtype(case):
    """With values in bfloat16 and parameters in float32, the parameters are not rounded."""
    given = {name: t.to(torch.bfloat16) if t.dim() > 1 or name == "x" else t.float() for name, t in case.draw().items()}
    if all(t.dtype == torch.bfloat16 for t in given.values()) or "rounded twice" in case.name:
        pytest.skip("no parameter, or one whose dtype decides the rounding")
    exact = case.theirs(**{name: t.double() for name, t in given.items()})
    for mine, right in zip(tuple_of(case.ours(**given)), tuple_of(exact), strict=True):
        assert mine.dtype == torch.bfloat16
        assert (mine.double() - right).abs().max() <= 2 ** -7 * right.abs().max()


@pytest.mark.parametrize("case", WITH_OUT, ids=lambda case: case.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("how", STRIDES)
def test_out(case, dtype, how):
    given = {name: t.to(dtype) for name, t in case.draw().items()}
    fresh = case.ours(**given)
    out = restride(torch.full_like(fresh, float("nan")), how)
    assert case.ours(**given, out=out) is out
    if out.is_cuda and how == "wide rows":  # packs of values do not fit there, so other kernels of ours may run
        expect_close(case, out, case.theirs(**given), case.theirs(**{name: t.double() for name, t in given.items()}))
    else:
        assert torch.equal(out, fresh)
    if case.aliases:
        assert torch.equal(case.ours(**given, out=given[next(iter(given))]), fresh)


@pytest.mark.cpu
@EVERY
def test_threads(case):
    """Any number of threads gives the same bits."""
    given = {name: t.bfloat16() for name, t in case.draw().items()}
    try:
        results = []
        for threads in (1, 3):
            tachyscope.set_threads(threads)
            assert tachyscope.threads() == threads
            results.append(tuple_of(case.ours(**given)))
        for one, three in zip(*results):
            assert torch.equal(one, three)
    finally:
        tachyscope.set_threads(0)


@EVERY
def test_nothing(case):
    """Empty tensors give empty results or an error that says what is missing, never a crash."""
    given = {name: t.float() for name, t in case.draw().items()}
    dims = next(iter(given.values())).dim()
    if dims == 1:
        pytest.skip("a vector")
    given = {name: t[:0] if t.dim() == dims and not (case.op == "lora" and name != "x") else t for name, t in given.items()}
    for result in tuple_of(case.ours(**given)):
        assert result.numel() == 0


def test_calls_from_several_threads():
    """Several Python threads call at once, as in a server, and get the same bits as one alone."""
    given = [{name: t.bfloat16() for name, t in case.draw().items()} for case in CASES]
    alone = [tuple_of(case.ours(**inputs)) for case, inputs in zip(CASES, given)]

    def all_of_them(_):
        with torch.device(torch.get_default_device()), torch.no_grad():
            return [tuple_of(case.ours(**inputs)) for case, inputs in zip(CASES, given)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for results in pool.map(all_of_them, range(8)):
            assert all(torch.equal(a, b) for r, s in zip(results, alone) for a, b in zip(r, s))


@pytest.mark.cpu
def test_nothing_is_left_behind():
    """Neither a successful nor a failed call leaks memory."""
    x, weight = torch.randn(4, 64), torch.randn(64)

    def calls(count):
        for _ in range(count):
            tachyscope.ops.rms_norm(x, weight)
            tachyscope.ops.add_norm(x, x, weight)
            tachyscope.ops.rms_norm(x.numpy())
            with pytest.raises(ValueError):
                tachyscope.ops.rms_norm(x, weight[:3])

    def kib():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4

    calls(500)
    before = kib()
    calls(3000)
    assert kib() - before < 1024


def test_nan_stays():
    x = torch.randn(3, 40)
    x[1, 7] = float("nan")
    y = tachyscope.ops.rms_norm(x)
    assert y[1].isnan().all() and not y[0].isnan().any() and not y[2].isnan().any()


@pytest.mark.parametrize("scale", [1, 0.5, torch.tensor(0.5), torch.tensor([0.5]), torch.tensor([0.5, -1.0, 2.0]), None], ids=str)
def test_stacked_adapters(scale):
    """`lora` gives the sum of stacked adapters, each with its scale."""
    x, a, b = torch.randn(2, 5, 24), torch.randn(3, 4, 24), torch.randn(3, 40, 4)
    each = [1.0] * 3 if scale is None else scale.expand(3) if isinstance(scale, torch.Tensor) else [scale] * 3
    want = sum(s * ops.lora(x, a[i], b[i]) for i, s in enumerate(each))
    torch.testing.assert_close(ops.lora(x, a, b, scale), want, rtol=1e-4, atol=1e-4)
    index = torch.tensor([[0, 2, -1, 1, 1], [1, -1, 0, 2, 2]])
    rows = torch.stack([s * ops.lora(x, a[i], b[i]) for i, s in enumerate(each)] + [torch.zeros(2, 5, 40)])
    picked = rows.gather(0, (index % 4)[None, ..., None].expand(1, 2, 5, 40))[0]
    torch.testing.assert_close(ops.lora(x, a, b, scale, index), picked, rtol=1e-4, atol=1e-4)
    if x.is_cpu:
        scale = scale.numpy() if isinstance(scale, torch.Tensor) else scale
        got = ops.lora(x.numpy(), a.numpy(), b.numpy(), scale, index.numpy())
        torch.testing.assert_close(torch.from_numpy(got), picked, rtol=1e-4, atol=1e-4)
