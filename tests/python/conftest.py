"""Where the tests make their tensors: on the CPU, or with TEST_DEVICE=cuda on a GPU (of a package built with CUDA). Tests that
are about the CPU or NumPy are skipped there. --comfyui FOLDER runs the nodes' tests on that checkout of ComfyUI too."""

import os
import sys

import pytest
import tachyscope
import torch

DEVICE = os.environ.get("TEST_DEVICE", "cpu")
if DEVICE != "cpu":
    torch.set_default_device(DEVICE)


tachyscope.enable_torch()  # for tests that name torch.ops.tachyscope before any call


def pytest_collection_modifyitems(items):
    for item in items:
        if DEVICE != "cpu" and item.get_closest_marker("cpu"):
            item.add_marker(pytest.mark.skip(reason="of the CPU or NumPy"))


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu: about the CPU, float64 or NumPy; skipped with TEST_DEVICE=cuda")
    folder = config.getoption("--comfyui")
    if folder:
        sys.path.insert(0, folder)
        from comfy.cli_args import args
        args.cpu = DEVICE == "cpu"


def pytest_addoption(parser):
    parser.addoption("--comfyui", metavar="FOLDER", help="a checkout of ComfyUI for test_comfyui.py")
