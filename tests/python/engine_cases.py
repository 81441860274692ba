"""Engines for the tests of tachyscope.Engine: a tiny model of random weights, and the program that they are compared with."""

import os
import shutil
import subprocess

import numpy as np
import tachyscope

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TINY = os.path.join(ROOT, "tests", "golden", "pipeline", "model")
TINY_IMAGE = os.path.join(ROOT, "tests", "golden", "image_pipeline", "i2v22")
SPRITES, TALKER = (os.path.join(ROOT, "models", name) for name in ("sprites", "talker"))

LONG = dict(frames=1601, steps=1000)  # more than a minute of the tiny model: a test ends it


def tiny(**options):
    return tachyscope.Engine(TINY, device="cpu", **{"threads": 2, **options})


def program():
    """Returns the program that was built beside the package."""
    at = os.environ.get("TEST_PROGRAM") or shutil.which("tachyscope")
    assert at, "TEST_PROGRAM should name the program `tachyscope`; tests/python/run does that"
    return at


def by_program(*arguments, folder):
    """Runs the program and returns the frames of its video, [frames, height, width, 3], which it writes as pictures."""
    from PIL import Image
    done = subprocess.run([program(), *map(os.fspath, arguments), "--device", "cpu", "-o", os.path.join(folder, "frame_%04d.png")],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = sorted(name for name in os.listdir(folder) if name.endswith(".png"))
    return np.stack([np.asarray(Image.open(os.path.join(folder, name)).convert("RGB")) for name in names])
