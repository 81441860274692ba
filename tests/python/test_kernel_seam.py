"""Tests what tools/kernel_seam writes for a library of kernels: a function that only another architecture has is no demand on the program."""

import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess

import pytest

SEAM = pathlib.Path(__file__).resolve().parents[2] / "tools" / "kernel_seam"
pytestmark = [pytest.mark.cpu, pytest.mark.skipif(not SEAM.is_file(), reason="a package without its sources")]


def seam():
    loader = importlib.machinery.SourceFileLoader("kernel_seam", str(SEAM))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("kernel_seam", loader))
    loader.exec_module(module)
    return module


def test_absent_functions_are_not_asked_for(tmp_path):
    text = seam().assembly({"offered"}, set(), {"asked"}, "stamp", "side", {"of_another_gpu"})
    assert '"asked"' in text and '"of_another_gpu"' not in text, "the names that the program has to offer"
    assert "\nof_another_gpu:\n" in text, "calls of it are linked, as it is never called"
    if shutil.which("as") and shutil.which("nm"):
        (tmp_path / "seam.s").write_text(text)
        subprocess.run(["as", "-o", tmp_path / "seam.o", tmp_path / "seam.s"], check=True)
        defined = subprocess.run(["nm", "--defined-only", tmp_path / "seam.o"], check=True, text=True, stdout=subprocess.PIPE).stdout
        assert {"asked", "of_another_gpu"} <= {line.split()[-1] for line in defined.splitlines()}
