"""Tests every argument of Engine with values of a wrong type, range and size, by the tables of fields, so that a new field is tried too: each is an
ArgumentError that names the argument, and nothing is begun."""

import dataclasses
import struct
import zlib

import numpy as np
import pytest
import tachyscope
import torch
from engine_cases import TINY, tiny
from PIL import Image
from tachyscope import _fields

pytestmark = pytest.mark.cpu


class Broken:
    """Fails whatever is asked of it."""

    def fail(self, *_, **__):
        raise ZeroDivisionError("broken")

    __index__ = __float__ = __fspath__ = __array__ = __len__ = __iter__ = __bool__ = fail


HUGE = np.broadcast_to(np.uint8(7), (1 << 20, 1 << 20, 3))
STRUCTURED = np.zeros((4, 4, 3), [("r", np.uint8)])
OBJECTS = [object(), Broken(), b"x", {"a": 1}, 1j]
WRONG = {
    "int": [*OBJECTS, "two", 2.5, True, [1], np.ones(2), 1 << 64, -(1 << 64), 1 << 70, -1 << 40],
    "number": [*OBJECTS, "much", True, [1.0], np.ones(2), float("nan"), float("inf"), float("-inf"), 10**400, -1e300],
    "text": [*OBJECTS, 7, True, ["a"], "a\0b", "\ud800", "a" * (2 << 20)],
    "list": [*OBJECTS, 7, True, [7], [None], ["a"] * 5000, ["a\0b"], ["\ud800"], [["a"]], ["a" * (2 << 20)]],
    "bool": [*OBJECTS, 1, "true", None.__class__, [True], np.True_],
    "picture": [*OBJECTS, 7, True, [[1, 2], [3]], HUGE, HUGE[:4], HUGE[:, :4], STRUCTURED, np.zeros((4, 4, 3), "M8[s]"), np.zeros((4, 4, 3), "U1"),
                np.zeros((4, 4, 3), "S1"), np.zeros((4, 4, 3), ">u2"), np.zeros((4, 4, 3), bool), np.zeros((4, 4, 3), np.float16),
                np.zeros((4, 0, 3), np.uint8), np.zeros((2, 4, 4, 3), np.uint8), np.zeros((4, 4, 1), np.uint8), np.full((4, 4, 3), "x", object),
                torch.zeros(4, 4, 3), torch.zeros(4, 4, 3, dtype=torch.uint8, device="meta"), torch.zeros(4, 4, 3, dtype=torch.uint8).to_sparse(),
                torch.zeros(4, 4, 3, dtype=torch.complex64), Image.new("1", ((1 << 14) + 1, 1)), Image.new("L", (1, 1 << 15)), "a\0b"],
    "sound": [*OBJECTS, 7, (np.zeros(9, np.float32),), (np.zeros(9, np.float32), 16000, 1), (np.zeros(9, np.float32), None), (None, 16000),
              (np.zeros(9, np.float32), True), (np.zeros(9, np.int16), 16000), (np.zeros((65, 900), np.float32), 16000),
              (np.zeros(0, np.float32), 16000), (np.broadcast_to(np.float32(0), 1 << 33), 16000), (np.zeros(9, np.float32), 1),
              (np.full(9, np.inf, np.float32), 16000),
              (np.zeros(9, np.complex64), 16000), (torch.zeros(9, device="meta"), 16000), ("a", 16000), {"waveform": torch.zeros(1, 1, 9)}, "a\0b"],
    "tensor": [*OBJECTS, 7, True, np.zeros(4, int), np.zeros(4, np.complex64), np.zeros((1,) * 9, np.float32), np.zeros((4, 0), np.float32),
               np.broadcast_to(np.float32(0), (1 << 20, 1 << 20)), np.full((16, 2, 2, 4), np.nan, np.float32), torch.zeros(4, device="meta"),
               np.zeros(4, "U1"), "a\0b"],
    "video": [*OBJECTS, 7, True, ["a"], "a\0b", np.zeros((2, 4, 4, 3), np.uint8)],
}
# Shorter spellings, which have values of their own beside.
OWN = {"size": [(1 << 40, 16), (16, -16), (16, 0), (True, 16), ("a", 16), (16, 16.5), (16,), (16, 16, 3), 832, "832x480", {16, 32}, np.ones(2),
                Broken()],
       "audio": [*WRONG["sound"], [], ["a\0b"], [(np.zeros(9, np.float32), 16000)] * 3]}


@pytest.fixture(scope="module")
def engine():
    with tiny() as made:
        yield made


def named(call, names):
    with pytest.raises(tachyscope.ArgumentError) as caught:
        call()
    assert caught.value.code == 2 and caught.value.field in names, caught.value
    return caught.value



@pytest.mark.parametrize("name, kind", [(name, kind) for name, kind, _, _ in _fields.REQUEST])
def test_each_field_of_a_request(engine, name, kind):
    for value in WRONG[kind]:
        if name == "seed" and isinstance(value, list):
            continue  # several seeds
        error = named(lambda: engine.plan("x", **{name: value}), {name})
        if value is OBJECTS[0]:
            assert isinstance(error, TypeError) and "object" in str(error)


@pytest.mark.parametrize("name", [name for name, kind, _, _ in _fields.REQUEST if kind == "video"])
def test_a_video_that_is_not_there(engine, name):
    with pytest.raises(tachyscope.NotFound) as caught:
        engine.plan("x", **{name: "gone.mp4"})
    assert caught.value.field == name and "gone.mp4" in str(caught.value)


@pytest.mark.parametrize("name, kind", [(name, kind) for name, kind, _, _ in _fields.ENGINE])
def test_each_option_of_an_engine(name, kind):
    for value in WRONG[kind]:
        named(lambda: tachyscope.Engine(TINY, **{"device": "cpu", name: value}).close(), {name})


@pytest.mark.parametrize("name", OWN)
def test_the_names_of_python(engine, name):
    for value in OWN[name]:
        named(lambda: engine.plan("x", **{name: value}), {"size": ("size", "width", "height"), "audio": ("audio", "speech")}[name])


def test_lists_that_are_too_long(engine):
    for call in (lambda: engine.generate("x", seed=range(1 << 70)), lambda: engine.generate("x", seed=[0] * (1 << 17))):
        named(call, {"seed"})
    named(lambda: engine.generate(["x"] * (1 << 17)), {"prompt"})
    for model in (7, Broken(), "a\0b", "a" * (2 << 20)):
        named(lambda: tachyscope.Engine(model), {"model"})
    for workers in (0, 65, True, 1.0, "1", None):
        named(lambda: tachyscope.Engine(TINY, workers=workers), {"workers"})


def huge_png():
    """Returns a whole picture of 60,000 x 60,000 pixels, which is 10 GB in memory, in 2 MB."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = zlib.compressobj(1)
    lines = b"".join(rows.compress(bytes(7501) * 100) for _ in range(600)) + rows.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 1, 0, 0, 0, 0)) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


def test_files_that_are_no_pictures(engine, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.png").write_bytes(b"no picture")
    (tmp_path / "huge.png").write_bytes(huge_png())
    Image.new("RGB", (64, 64)).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:60])
    for name in ("text.png", "huge.png", "half.png", "folder", "none.png"):
        with pytest.raises(tachyscope.EngineError) as caught:
            engine.plan("x", image=tmp_path / name)
        assert caught.value.field == "image" and caught.value.code in (2, 3, 4, 5), name
    with Image.open(tmp_path / "whole.png") as lazy:
        (tmp_path / "whole.png").write_bytes(b"")
        lazy.fp.close()
        named(lambda: engine.plan("x", image=lazy), {"image"})


def test_frames_that_are_saved(engine, tmp_path):
    video = engine.generate("a red cat", seed=3, steps=1)
    video.save(tmp_path / "want.mp4")
    for same in (np.asfortranarray(video.frames), video.frames[::-1][::-1], np.repeat(video.frames, 2, axis=2)[:, :, ::2],
                 torch.from_numpy(video.frames)):
        dataclasses.replace(video, pixels=same).save(tmp_path / "same.mp4")
        assert (tmp_path / "same.mp4").read_bytes() == (tmp_path / "want.mp4").read_bytes()
    for wrong in (video.frames[0], video.frames.astype(np.float32), video.frames[..., :2], video.frames[:0], HUGE[None], "x", object(), Broken()):
        named(lambda: dataclasses.replace(video, pixels=wrong).save(tmp_path / "no.mp4"), {"pixels"})
    for audio in ((np.zeros(9, np.int16), 16000), (np.zeros(9, np.float32), 0), (np.full(9, np.nan, np.float32), 16000), (None, 16000)):
        named(lambda: dataclasses.replace(video, audio=tachyscope.Audio(*audio)).save(tmp_path / "no.mp4"), {"audio", "sound"})
    assert not (tmp_path / "no.mp4").exists()
