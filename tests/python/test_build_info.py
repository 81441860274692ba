"""The package tells how it was built, and says where that does not fit the machine."""

import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
import tachyscope
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_build_info():
    info = tachyscope.build_info()
    assert info.keys() == {"version", "commit", "cuda", "architectures"}
    assert tachyscope.__version__ == info["version"]
    assert f'version = "{info["version"]}"' in (ROOT / "pyproject.toml").read_text()
    assert info["commit"] is None or re.fullmatch("[0-9a-f]{40}", info["commit"])
    assert (info["cuda"] is None) == (info["architectures"] == [])
    if torch.get_default_device().type == "cuda":
        assert info["cuda"] and info["architectures"]


def test_the_commit_is_that_of_the_build():
    git = subprocess.run(["git", "-C", ROOT, "log", "--format=%H", "-n", "300"], capture_output=True, text=True)
    if git.returncode or tachyscope.build_info()["commit"] is None:
        pytest.skip("sources without git")
    assert tachyscope.build_info()["commit"] in git.stdout.split()


@pytest.mark.cpu
@pytest.mark.parametrize("first, gpus, cuda, apart, lines", [("torch", 1, "", False, 1), ("tachyscope", 1, "", False, 1), ("tachyscope", 0, "", False, 0),
                                                             ("torch", 1, "13.0", False, 0), ("torch", 1, "", True, 1), ("torch", 0, "", True, 0)])
def test_a_gpu_and_no_kernels_for_it(first, gpus, cuda, apart, lines):
    """One line, at import if torch was imported before, otherwise when torch comes; another build or machine says nothing."""
    imports = "import torch; seen(torch); import tachyscope" if first == "torch" else "import tachyscope; import torch; seen(torch)"
    code = f"""
        import sys, types
        build = types.ModuleType("tachyscope._build")
        build.VERSION, build.COMMIT, build.CUDA, build.ARCHITECTURES = "0.2.0", "", {cuda!r}, []
        build.APART = {apart}
        sys.modules["tachyscope._build"] = build
        def seen(torch):
            torch.cuda.device_count = lambda: {gpus}
        {imports}
        tachyscope.enable_torch()
        tachyscope.ops.silu(torch.ones(3))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has no GPU kernels here, and torch sees a GPU") == lines, done.stderr
    assert done.stderr.count("pip install tachyscope-cuda13==0.2.0") == (lines if apart else 0)


@pytest.mark.cpu
@pytest.mark.parametrize("nvcc, asked, loud", [(True, "AUTO", True), (False, "AUTO", False), (True, "OFF", False)])
def test_a_build_without_kernels_beside_nvcc_is_loud(tmp_path, nvcc, asked, loud):
    cmake = shutil.which("cmake")
    if cmake is None or shutil.which("nvcc") or list(pathlib.Path("/dev").glob("nvidia[0-9]*")) or pathlib.Path("/usr/local/cuda").exists():
        pytest.skip("needs cmake, and a machine without nvcc and GPUs")
    if nvcc:
        (tmp_path / "nvcc").write_text("#!/bin/sh\n")
        (tmp_path / "nvcc").chmod(0o755)
    done = subprocess.run([cmake, f"-DTACHY_CUDA={asked}", f"-DPROJECT_BINARY_DIR={tmp_path}", "-P", ROOT / "cmake" / "cuda.cmake"],
                          capture_output=True, text=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert ("NO GPU KERNELS ARE BUILT" in done.stderr) == loud
