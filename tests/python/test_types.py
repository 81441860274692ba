"""Tests the types of tachyscope.Engine by mypy: those of the package, and those that a program's mistakes are found by."""

import os
import subprocess
import sys
import textwrap

import pytest
import tachyscope

pytestmark = [pytest.mark.cpu, pytest.mark.skipif("TEST_MYPY" not in os.environ, reason="tests/python/run has no mypy for a Python that is given")]
PACKAGE = os.path.dirname(tachyscope.__file__)
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


def mypy(*arguments):
    """Returns the lines with errors, as (file, line)."""
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", "--follow-imports=silent", "--ignore-missing-imports",
                           *arguments], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.environ["TEST_MYPY"],
                                                                             "MYPYPATH": os.path.dirname(PACKAGE)})
    assert done.returncode in (0, 1), done.stderr
    return [(os.path.basename(line.split(":")[0]), int(line.split(":")[1]), line) for line in done.stdout.splitlines() if ": error: " in line]


def test_the_package_and_a_program(tmp_path):
    lines = textwrap.dedent(PROGRAM).splitlines()
    (tmp_path / "program.py").write_text("\n".join(lines))
    found = mypy(*(os.path.join(PACKAGE, name + ".py") for name in MODULES), tmp_path / "program.py")
    assert {line for file, line, _ in found if file == "program.py"} == {i + 1 for i, text in enumerate(lines) if "# wrong" in text}, found
    assert not [text for file, _, text in found if file != "program.py"]
