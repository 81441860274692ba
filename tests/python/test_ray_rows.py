"""Tests what tachyscope.ray does with a row of a table and with a body of its service; Ray is not needed for that. tests/ray has a cluster."""

import base64
import io
import json
import os
import pickle

import numpy as np
import pytest
import tachyscope
from engine_cases import TINY, TINY_IMAGE
from PIL import Image
from tachyscope.ray import _actor, _files, _prompts, _rows, _serve

pytestmark = pytest.mark.cpu
CAT = {"prompt": "a red cat", "name": "cat"}


def maker(folder, model=TINY, **options):
    fields = options.pop("fields", {"steps": 1})
    return _rows.Maker(_rows.Work(model, {"device": "cpu", "threads": 1}, fields, _files.Files(folder, options.pop("filesystem", None)), **options))


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_rows_become_files_once(tmp_path):
    make, out = maker(tmp_path / "out", carry=("id",)), tmp_path / "out"
    told = make({**CAT, "id": 8, "seed": 3.0, "fps": float("nan"), "negative_prompt": None})
    assert told["made"] and told["id"] == 8 and told["seed"] == 3 and told["path"] == str(out / "cat.mp4") and told["seconds"] > 0
    with tachyscope.Engine(TINY, device="cpu") as engine:
        want = engine.generate("a red cat", steps=1, seed=3)
    want.save(tmp_path / "want.mp4")
    assert (out / "cat.mp4").read_bytes() == (tmp_path / "want.mp4").read_bytes()
    settings = json.loads((out / "cat.json").read_text())
    assert {key: value for key, value in settings.items() if key != "request_sha256"} == want.settings
    before = times(out)
    again = make({**CAT, "id": 9, "seed": 3})
    assert not again["made"] and again["id"] == 9 and times(out) == before
    with pytest.raises(tachyscope.ArgumentError, match="of another request") as caught:
        make({**CAT, "id": 8, "seed": 4})
    assert caught.value.field == "name" and times(out) == before
    # A video without settings was interrupted, and so were settings without a video.
    for lost in ("cat.json", "cat.mp4"):
        (out / lost).unlink()
        (out / ".cat.mp4.0123.part").write_bytes(b"of one that was killed")
        assert make({**CAT, "id": 8, "seed": 3})["made"]
        assert sorted(times(out)) == ["cat.json", "cat.mp4"] and (out / "cat.mp4").read_bytes() == (tmp_path / "want.mp4").read_bytes()


def test_names_by_content(tmp_path):
    pixels = np.full((16, 16, 3), 9, np.uint8)
    for file, value in (("a.png", 9), ("same.png", 9), ("other.png", 10)):
        Image.fromarray(pixels - 9 + value).save(tmp_path / file)
    make = maker(tmp_path / "out", TINY_IMAGE, fields={"steps": 1, "size": (32, 32), "frames": 5})

    def name(image, prompt="a cat"):
        told = make({"prompt": prompt, "image": image})
        assert len(told["name"]) == 16
        return told["name"]
    names = [name(str(tmp_path / "a.png")), name(str(tmp_path / "other.png")), name(pixels), name(pixels + 1), name(pixels, "a dog")]
    assert len(set(names)) == 5 and name(pixels) == names[2] and name(str(tmp_path / "same.png")) == names[0]
    assert name(f"file://{tmp_path}/a.png" if _has_pyarrow() else str(tmp_path / "a.png")) == names[0]


def _has_pyarrow():
    try:
        import pyarrow.fs  # noqa: F401
    except ImportError:
        return False
    return True


def test_an_object_store(tmp_path):
    fs = pytest.importorskip("pyarrow.fs", reason="pyarrow is not installed; tests/ray/run has it")
    fs.LocalFileSystem().create_dir(str(tmp_path / "bucket"))
    make = maker("videos/of tests", filesystem=fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem()))
    assert make(CAT)["made"] and not make(CAT)["made"]
    assert sorted(times(tmp_path / "bucket/videos/of tests")) == ["cat.json", "cat.mp4"]


@pytest.mark.parametrize("row, field", [
    ({"prompt": None}, "prompt"), ({"prompt": 7}, "prompt"), ({}, "prompt"), ({**CAT, "step": 1}, "step"), ({**CAT, "steps": 0}, "steps"),
    ({**CAT, "steps": 1.5}, "steps"), ({**CAT, "name": "a/b"}, "name"), ({**CAT, "name": ".a"}, "name"), ({**CAT, "name": ""}, "name"),
    ({**CAT, "name": 7}, "name"), ({**CAT, "name": "a\nb"}, "name"), ({**CAT, "name": "a" * 201}, "name"), ({**CAT, "image": "none.png"}, "image")])
def test_rows_that_do_not_fit(tmp_path, row, field):
    with pytest.raises(tachyscope.EngineError) as caught:
        maker(tmp_path)(row)
    assert caught.value.field == field
    told = maker(tmp_path, keep_errors=True)(row)
    assert told["error"] == str(caught.value) and told["field"] == field and not told["made"] and not list(tmp_path.iterdir())


def test_work_that_does_not_fit(tmp_path):
    for wrong, field in ((dict(format="avi"), "format"), (dict(carry=(7,)), "carry")):
        with pytest.raises(tachyscope.ArgumentError) as caught:
            maker(tmp_path, **wrong)
        assert caught.value.field == field
    for value in (-1, 1.5, float("nan"), "one", True):
        with pytest.raises(tachyscope.ArgumentError, match="num_cpus"):
            _actor.share("num_cpus", value, 0)
    for value in (0, -1, True, 1.5, "2", (2, 1), (1, 2, 3), (0, 2), (1, "2")):
        with pytest.raises(tachyscope.ArgumentError, match="actors"):
            _prompts._pool(value)
    assert [_prompts._pool(value) for value in (None, 2, (1, 4))] == [(1, None), (2, 2), (1, 4)]
    with pytest.raises(tachyscope.ArgumentError, match="max_vram"):
        _actor.check_share(0.5, {})
    assert _actor.engine_options({}, 2.0, 0) == {"device": "cpu", "threads": 2} and _actor.engine_options({}, 0.5, 1)["threads"] == 1
    assert _actor.engine_options({"threads": 7}, 1, 2) == {"device": "cuda", "threads": 7, "gpus": "all"}


def test_errors_travel():
    for error in (tachyscope.ArgumentError(2, "`steps`: no"), tachyscope.NotFound(3, "gone"), tachyscope.OutOfMemory(7, "much"),
                  tachyscope.Cancelled(130, "cancelled"), tachyscope.EngineError(9, "device")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and (again.code, again.field, str(again)) == (error.code, error.field, str(error))


def test_bodies(tmp_path):
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (1, 2, 3)).save(file, "PNG")
    url = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    prompt, format_, fields = _serve.fields_of(json.dumps({"prompt": "a cat", "image": url, "steps": 3, "format": "gif", "size": [32, 16]}).encode(),
                                               os.fspath(tmp_path))
    assert (prompt, format_, fields["steps"], fields["size"]) == ("a cat", "gif", 3, [32, 16])
    with open(fields["image"], "rb") as copy:
        assert copy.read() == file.getvalue() and os.path.dirname(fields["image"]) == os.fspath(tmp_path)
    for body, field in ((b"\xff", "body"), (b"[]", "body"), (b"[" * 100000, "body"), ({}, "prompt"), ({"prompt": 7}, "prompt"), ({"name": "x"}, "prompt"),
                        ({"image": "/etc/passwd"}, "image"), ({"image": "file:///etc/passwd"}, "image"), ({"image": 7}, "image"),
                        ({"speech": "data:image/png;base64,????"}, "speech"), ({"image": "data:text/html;base64,AAAA"}, "image"),
                        ({"loras": ["a"]}, "loras"), ({"init_latents": "a"}, "init_latents"), ({"audio": url}, "audio"), ({"steps": [1]}, "steps"),
                        ({"steps": {}}, "steps"), ({"stepz": 1}, "stepz"), ({"format": "../mp4"}, "format"), ({"format": ["mp4"]}, "format")):
        if isinstance(body, dict):
            body = json.dumps(({"prompt": "x"} if field != "prompt" else {}) | body).encode()
        with pytest.raises(tachyscope.ArgumentError) as caught:
            _serve.fields_of(body, os.fspath(tmp_path))
        assert caught.value.field == field, body
