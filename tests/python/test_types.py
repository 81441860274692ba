"""Tests the types of tachyscope.Engine and tachyscope.ops by mypy: those of the package, and those that a program's mistakes are found by."""

import ast
import inspect
import os
import subprocess
import sys
import textwrap

import pytest
import tachyscope
from tachyscope import ops

pytestmark = pytest.mark.cpu
with_mypy = pytest.mark.skipif("TEST_MYPY" not in os.environ, reason="tests/python/run has no mypy for a Python that is given")
PACKAGE = os.path.dirname(tachyscope.__file__)
STUB = os.path.join(PACKAGE, "ops.pyi")
MODULES = ["_async_engine", "_engine_c", "_generate", "_inputs", "_pipeline", "_requests", "_result", "_run", "_stream", "_world",
           "ray/_actor", "ray/_files", "ray/_prompts", "ray/_rows", "ray/_serve"]
PROGRAM = """
    from typing import assert_type
    import tachyscope

    with tachyscope.Engine("m", device="cpu", threads=2, max_vram="8GiB", loras=["a"]) as engine:
        assert_type(engine.plan(frames=81, size=(832, 480)), tachyscope.Plan)
        assert_type(engine.generate("x", image="a.png", rng="cuda", num_frames=5), tachyscope.Result)  # wrong: an unknown name
        assert_type(engine.generate("x", image="a.png", rng="cuda", seed=7), tachyscope.Result)
        assert_type(engine.generate(["x"]), list[tachyscope.Result])
        assert_type(engine.generate("x", seed=[1, 2]), list[tachyscope.Result])
        assert_type(engine.submit("x"), tachyscope.Job)
        engine.generate("x", steps="three")  # wrong
        engine.generate("x", stepz=3)  # wrong
        engine.generate("x", rng="tpu")  # wrong
        engine.plan("x", size=832)  # wrong
        tachyscope.Engine("m", threads="two")  # wrong
    with tachyscope.World("m", device="cpu", steps=3) as world:
        assert_type(world.info.keys, tuple[str, ...])
        world.act({"W"}, mouse=(0, 0.1))
        world.act({"W": 0.5}, stamp="now")  # wrong
        world.next_block(lambda frame, index: print(index))
        assert_type(world.next_block().count, int)
        tachyscope.World("m", window="wide")  # wrong
    assert_type(tachyscope.__version__, str)
    assert_type(tachyscope.restore(tachyscope.optimize(None)), int)
    tachyscope.set_threads("two")  # wrong
"""
PROGRAM_OF_OPS = """
    from typing import Any, assert_type
    import numpy as np
    import tachyscope
    import torch
    from numpy.typing import NDArray
    from tachyscope import ops

    Array = np.ndarray[Any, Any]
    t, p, none = torch.ones(2, 8), torch.nn.Parameter(torch.ones(8)), None
    a, half = np.ones((2, 8), np.float32), np.ones(8, np.float16)
    assert_type(ops.rms_norm(t, p, 1e-5, round_twice=True), torch.Tensor)
    assert_type(ops.rms_norm(p), torch.Tensor)
    assert_type(ops.rms_norm(a, half, out=np.empty_like(a)), Array)
    assert_type(tachyscope.ops.layer_norm(t, none, out=t), torch.Tensor)
    assert_type(ops.ada_layer_norm(a, a, a), Array)
    assert_type(ops.add_norm(t, t, p, norm="layer", gate=t), tuple[torch.Tensor, torch.Tensor])
    assert_type(ops.add_norm(a, a), tuple[Array, Array])
    assert_type(ops.gelu(a, "tanh"), Array)
    assert_type(ops.swiglu(*t.chunk(2, -1)), torch.Tensor)
    assert_type(ops.rope_3d(t, (3, 2, 2), halves=True), torch.Tensor)
    assert_type(ops.rope_3d(a, [3, 2, 2]), Array)
    assert_type(ops.qk_norm_rope(t, t, p, None, t, t, 2), tuple[torch.Tensor, torch.Tensor])
    assert_type(ops.qkv_rope(a, a, a, heads=2), tuple[Array, Array, Array])
    assert_type(ops.mlp(a, a, None, a, half, "tanh"), Array)
    assert_type(ops.codes_of(p, "float8_e4m3fn"), tuple[torch.Tensor, torch.Tensor])
    assert_type(ops.attention(t, t, t, causal=True, window=(2, None), scale=1), torch.Tensor)
    assert_type(ops.lora(t, p, p, t[0], t.int()), torch.Tensor)
    assert_type(ops.lora(a, a, a, np.float32(0.5), np.ones(2, np.int64)), Array)
    assert_type(ops.scaled_conv3d(t, t, t, frames=3), torch.Tensor)

    class Layer(torch.nn.Module):
        def __init__(self, conv: torch.nn.Conv1d, linear: torch.nn.Linear) -> None:
            super().__init__()
            self.conv, self.linear = conv, linear

        def forward(self, x: torch.Tensor, gate: torch.Tensor | None = None) -> torch.Tensor:
            x = ops.linear(x, self.linear.weight, self.linear.bias, activation="silu", gate=gate, residual=x)
            return ops.conv1d_group_norm(x, self.conv.weight, self.conv.bias, 2, stride=self.conv.stride, padding="same")

    def either(x: torch.Tensor | NDArray[np.float32], unknown: Any) -> None:
        assert_type(ops.silu(x), torch.Tensor | Array)
        assert_type(ops.silu(t, out=unknown), torch.Tensor)

    ops.rms_norm(t, a)  # wrong: one of torch and one of NumPy
    ops.rms_norm(a, out=t)  # wrong
    ops.rms_norm("x")  # wrong
    ops.rms_norm(None)  # wrong
    ops.rms_norm(t, p, 1e-5, True)  # wrong: it is taken by name only
    ops.rms_norm(t, epsilon=1e-5)  # wrong
    ops.gelu(t, "erf")  # wrong
    ops.linear(t, p, activation="relu")  # wrong
    ops.linear(t)  # wrong
    ops.add_norm(t, t, norm="batch")  # wrong
    ops.add_norm(t, t, out=t)  # wrong
    ops.rope_3d(t, (3, 2))  # wrong
    ops.group_norm(t, "8")  # wrong
    ops.attention(t, t, t, window=(1, 2, 3))  # wrong
    ops.lora(t, t, t, [0.5])  # wrong
    ops.codes_of(a)  # wrong: it is for torch alone
    ops.codes_of(t, "int4")  # wrong
    ops.scaled_conv3d(t, t, t)  # wrong
    y: Array = ops.silu(t)  # wrong
    y, h = ops.silu(a), ops.mush(a)  # wrong
"""
PROGRAM_WITH_NEITHER = """
    from typing import Any
    from tachyscope import ops

    def forward(x: Any) -> Any:
        y, h = ops.add_norm(x, x, gate=x)
        ops.gelu(y, "erf")  # wrong
        return ops.lora(ops.attention(y, y, y), x, x, 0.5)
"""


def mypy(*arguments):
    """Returns the lines with errors, as (file, line)."""
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", "--follow-imports=silent", "--ignore-missing-imports",
                           *arguments], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.environ["TEST_MYPY"],
                                                                             "MYPYPATH": os.path.dirname(PACKAGE)})
    assert done.returncode in (0, 1), done.stderr
    return [(os.path.basename(line.split(":")[0]), int(line.split(":")[1]), line) for line in done.stdout.splitlines() if ": error: " in line]


def expect(program, folder, *arguments):
    """Checks that mypy finds the lines of a program that are marked as wrong and no others, and nothing in the package's files among the arguments."""
    lines = textwrap.dedent(program).splitlines()
    (folder / "program.py").write_text("\n".join(lines))
    found = mypy(*arguments, folder / "program.py")
    assert {line for file, line, _ in found if file == "program.py"} == {i + 1 for i, text in enumerate(lines) if "# wrong" in text}, found
    assert not [text for file, _, text in found if file != "program.py"]


@with_mypy
def test_the_package_and_a_program(tmp_path):
    expect(PROGRAM, tmp_path, *(os.path.join(PACKAGE, name + ".py") for name in MODULES))


@with_mypy
def test_a_program_that_calls_ops(tmp_path):
    expect(PROGRAM_OF_OPS, tmp_path, STUB)


@with_mypy
def test_without_torch_and_numpy(tmp_path):
    expect(PROGRAM_WITH_NEITHER, tmp_path, "--no-site-packages", STUB)


def functions_of_the_stub():
    """Returns the definitions of each function in ops.pyi."""
    with open(STUB, encoding="utf-8") as file:
        nodes = [node for node in ast.parse(file.read()).body if isinstance(node, ast.FunctionDef)]
    return {name: [node for node in nodes if node.name == name] for name in [node.name for node in nodes]}


def signature(node):
    """Returns the names, kinds and defaults of a definition's parameters, as inspect prints them."""
    for part in ast.walk(node):
        if isinstance(part, ast.arg):
            part.annotation = None
    node.decorator_list, node.returns = [], None
    names = {}
    exec(compile(ast.Module([node], []), STUB, "exec"), names)
    return str(inspect.signature(names[node.name]))


def test_the_stub_has_the_signatures_of_ops():
    public = {name: value for name, value in vars(ops).items() if inspect.isfunction(value) and value.__module__ == ops.__name__ and name[0] != "_"}
    found = {name: {signature(node) for node in nodes} for name, nodes in functions_of_the_stub().items()}
    assert found == {name: {str(inspect.signature(value))} for name, value in public.items()}


def test_the_overloads_of_the_stub():
    """What takes tensors of both kinds has two overloads, which differ in the kind alone."""
    for name, nodes in functions_of_the_stub().items():
        texts = [ast.unparse(node) for node in nodes]
        assert not any("_Array" in text for text in texts) if len(texts) == 1 else texts[1:] == [texts[0].replace("_Array", "Tensor")], name
