"""Tests of the ops inside torch: its own checks of custom ops, torch.compile without graph breaks, fake tensors."""

import subprocess
import sys

import pytest
import torch
import torch._inductor.config
from torch._subclasses.fake_tensor import FakeTensorMode

from head_cases import BY_NAME, CASES

SMALL = [case for case in CASES if "many rows" not in case.name]
EVERY = pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)


@EVERY
def test_opcheck(case):
    given = {name: t.float().requires_grad_(name in case.grads) for name, t in case.draw().items()}
    torch.library.opcheck(getattr(torch.ops.tachyscope, case.op).default, case.raw(**given))


@EVERY
def test_opcheck_private(case):
    given = {name: t.float() for name, t in case.draw().items()}
    arguments, checks = case.raw(**given), ("test_schema", "test_faketensor")
    torch.library.opcheck(getattr(torch.ops.tachyscope, "_" + case.op).default, arguments, test_utils=checks)
    result = case.ours(**given)
    if not isinstance(result, tuple) and case.op != "attention_lse":
        into = getattr(torch.ops.tachyscope, f"_{case.op}_out").default
        torch.library.opcheck(into, (*arguments, torch.empty_like(result)), test_utils=checks)


@EVERY
def test_compile(case):
    torch.compiler.reset()
    given = {name: t.float() for name, t in case.draw().items()}
    compiled = torch.compile(lambda **inputs: case.ours(**inputs), fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(**given), case.ours(**given), rtol=0, atol=0)


@pytest.mark.parametrize("case", [case for case in CASES if case.grads], ids=lambda case: case.name)
def test_compile_with_gradients(case):
    torch.compiler.reset()

    def gradients(call):
        given = {name: t.float().requires_grad_(name in case.grads) for name, t in case.draw().items()}
        result = call(**given)
        result = result[0] if isinstance(result, tuple) else result
        result.square().sum().backward()
        return [given[name].grad for name in case.grads]

    compiled = torch.compile(lambda **inputs: case.ours(**inputs), fullgraph=True, backend="aot_eager")
    for mine, eager in zip(gradients(compiled), gradients(case.ours)):
        torch.testing.assert_close(mine, eager)


# Inductor's cache of an earlier run does not tell vectors of AVX-512 from those of ATEN_CPU_CAPABILITY=avx2, which are half as long.
@torch._inductor.config.patch(force_disable_caches=True)
def test_compile_by_inductor():
    """The op stands between operations of torch, a product and an activation, which inductor compiles."""
    torch.compiler.reset()
    case = BY_NAME["rms_norm"]
    x, weight = (t.float() for t in case.draw().values())
    matrix = torch.randn(x.shape[-1], x.shape[-1])

    def block(x):
        return torch.relu(case.ours(x @ matrix, weight)) + x

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(block, fullgraph=True)(x), block(x))


FIRST_CALL = """
def compiled(**options):
    return torch.compile(lambda x: tachyscope.ops.rms_norm(x, None), backend="eager", **options)
"""


def alone(program):
    """Runs it in a process of its own, where nothing was called yet, and returns what it says."""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stderr


def test_compile_before_any_call():
    alone("import torch, tachyscope" + FIRST_CALL + "compiled(fullgraph=True)(torch.ones(2, 8))")


def test_a_torch_that_is_too_old():
    """The package can be imported beside it, and the first call says why it cannot compute."""
    alone("""
import sys, types, torch
torch_ways = sys.modules["tachyscope._torch"] = types.ModuleType("tachyscope._torch")
def register(ops):
    raise ImportError("too old")
torch_ways.register = register
import tachyscope
try:
    tachyscope.ops.silu(torch.ones(3))
except ImportError as error:
    assert "too old" in str(error)
else:
    raise AssertionError("no error")
""")


def test_compile_before_any_call_where_torch_came_later():
    """Without fullgraph it works without a word, and with it the error says what to call."""
    said = alone("import tachyscope, torch" + FIRST_CALL + """
assert torch.allclose(compiled()(torch.ones(2, 8)), torch.ones(2, 8), atol=1e-4)
""")
    assert "recompile" not in said and "tachyscope" not in said
    alone("import tachyscope, torch" + FIRST_CALL + """
try:
    compiled(fullgraph=True)(torch.ones(2, 8))
except torch._dynamo.exc.Unsupported as error:
    assert "call tachyscope.enable_torch() before torch.compile" in str(error)
else:
    raise AssertionError("no error")
tachyscope.enable_torch()
torch.compiler.reset()
compiled(fullgraph=True)(torch.ones(2, 8))
""")


@EVERY
def test_fake_tensors(case):
    """The shapes, strides and dtypes of fake results agree with the real ones."""
    real = {name: t.bfloat16() for name, t in case.draw().items()}
    expected = case.ours(**real)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():  # an index is a real tensor of the case
        fake = case.ours(**{name: mode.from_tensor(t) for name, t in real.items()})
    pairs = zip(fake, expected) if isinstance(expected, tuple) else [(fake, expected)]
    for a, b in pairs:
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
