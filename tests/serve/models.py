"""Models for tests that no other folder has complete."""

import pathlib
import shutil

from server import ROOT


def vace_model(folder):
    """Returns a tiny VACE model with random weights: the transformer of tests/golden/vace/one with the other parts of tests/golden/pipeline."""
    model = pathlib.Path(folder)
    shutil.copytree(ROOT / "tests/golden/pipeline/model", model)
    shutil.rmtree(model / "transformer")
    (model / "generation_config.json").unlink(missing_ok=True)
    shutil.copytree(ROOT / "tests/golden/vace/one", model, dirs_exist_ok=True)
    return model
