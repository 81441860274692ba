"""Tests docs/python-engine.ipynb: it is clean, and its cells run one after another. No Jupyter is needed for that: the cells are plain Python."""

import ast
import json
import os

import numpy as np
import pytest
import tachyscope
from engine_cases import ROOT

pytestmark = pytest.mark.cpu
with open(os.path.join(ROOT, "docs", "python-engine.ipynb"), encoding="utf-8") as file:
    TEXT = file.read()
NOTEBOOK = json.loads(TEXT)
CELLS = [(cell["cell_type"], "".join(cell["source"])) for cell in NOTEBOOK["cells"]]


def test_it_is_clean():
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert TEXT == json.dumps(NOTEBOOK, indent=1, ensure_ascii=False) + "\n", "as Jupyter writes it"
    ids = [cell["id"] for cell in NOTEBOOK["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in NOTEBOOK["cells"]:
        code = cell["cell_type"] == "code"
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | ({"execution_count", "outputs"} if code else set())
        assert cell["metadata"] == {} and all(isinstance(line, str) for line in cell["source"])
        assert not code or cell["outputs"] == [] and cell["execution_count"] is None, "outputs are left out"


def shown(source, names):
    """Runs a cell and returns the value of its last line, if that is an expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


def test_its_cells_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TACHY_MODEL_DIR", os.path.join(ROOT, "models"))
    names = {"__name__": "__main__"}
    values = [shown(source, names) for kind, source in CELLS if kind == "code"]
    assert names["video"].frames.shape == (9, 128, 128, 3) and os.path.getsize("circle.mp4") > 1000
    assert len(names["videos"]) == 4 and len(names["frames"]) == 5 and np.array_equal(np.stack(names["frames"]), names["video"].frames[:5])
    assert [value.size for value in values if hasattr(value, "getbbox")] == [(640, 128), (640, 512), (names["steps"][0].shape[1], 2 * names["steps"][0].shape[0])]
    assert not np.array_equal(names["again"].frames, names["videos"][0].frames)
    assert "cancelled: True" in (said := capsys.readouterr().out) and "steps - `steps`" in said
    with pytest.raises(ValueError, match="closed"):
        names["engine"].plan("x")
    assert isinstance(names["engine"], tachyscope.Engine)
