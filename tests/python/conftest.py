"""Chooses where the tests make their tensors: on the CPU, or with TEST_DEVICE=cuda on a GPU (if the package was built with CUDA). Tests of the CPU or
NumPy are skipped on a GPU. --comfyui FOLDER runs the nodes' tests on that checkout of ComfyUI too, and
--wrapper FOLDER beside it those of WanVideoWrapper's blocks; --self-forcing FOLDER
those of causal blocks. TEST_TURN=1/2 runs the first half of the tests and 2/2 the second, each of which has cases of every kind.
TEST_FAILED=FILE gets the name and the last lines of each test as soon as it has failed, for runs that may be cut short."""

import contextlib
import hashlib
import os
import sys

import pytest
import tachyscope
import torch

DEVICE = os.environ.get("TEST_DEVICE", "cpu")
if DEVICE != "cpu":
    torch.set_default_device(DEVICE)
    # torch lets cuDNN round what it convolves in float32 to TF32, 5e-4 of a value, and that would hide every other difference.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.deterministic = True  # restored models must give the same bits


@contextlib.contextmanager
def no_default_device():
    """Most users call torch.compile without a default device. With one it cannot trace Tensor.unflatten in other libraries' code."""
    torch.set_default_device(None)
    try:
        yield
    finally:
        torch.set_default_device(None if DEVICE == "cpu" else DEVICE)


# Small calls whose gradients are recorded would be torch's, and all of these are small; test_small_calls.py is about them.
tachyscope.ops._small.MOST = 0
tachyscope.enable_torch()  # for tests that name torch.ops.tachyscope before any call


def of_this_turn(name, turn):
    """Returns whether the test `name` belongs to the turn "K/N". The same name is always in the same turn."""
    number, of = (int(n) for n in turn.split("/"))
    if not 1 <= number <= of:
        raise pytest.UsageError(f"TEST_TURN={turn}: expected K/N with K from 1 to N")
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % of == number - 1


def pytest_collection_modifyitems(config, items):
    turn = os.environ.get("TEST_TURN")
    if turn:
        later = [item for item in items if not of_this_turn(item.nodeid, turn)]
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if of_this_turn(item.nodeid, turn)]
    for item in items:
        if DEVICE != "cpu" and item.get_closest_marker("cpu"):
            item.add_marker(pytest.mark.skip(reason="of the CPU or NumPy"))


def pytest_runtest_logreport(report):
    path = os.environ.get("TEST_FAILED")
    if path and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:  # the workers' reports come here, too
        with open(path, "a") as file:
            file.write(f"{report.nodeid}\n{report.longreprtext[-600:]}\n\n")


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu: about the CPU, float64 or NumPy; skipped with TEST_DEVICE=cuda")
    folder = config.getoption("--comfyui")
    if folder:
        sys.path.insert(0, folder)
        from comfy.cli_args import args
        args.cpu = DEVICE == "cpu"


def pytest_addoption(parser):
    parser.addoption("--comfyui", metavar="FOLDER", help="a checkout of ComfyUI for test_comfyui.py")
    parser.addoption("--wrapper", metavar="FOLDER", help="a checkout of ComfyUI-WanVideoWrapper for test_wrapper_wan.py, beside --comfyui")
    parser.addoption("--self-forcing", metavar="FOLDER", help="a checkout of Self-Forcing for test_causal_wan.py")
