"""Tests what tachyscope.Engine refuses, by which error and argument; ends of runs, forks, Ctrl-C and memory; and that what is generated from the table
of fields is up to date."""

import copy
import ctypes
import gc
import importlib.machinery
import importlib.util
import inspect
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import tachyscope
import torch
from engine_cases import LONG, ROOT, SPRITES, TINY, tiny
from tachyscope import _engine

pytestmark = pytest.mark.cpu


@pytest.fixture(scope="module")
def engine():
    with tiny() as made:
        yield made


HUGE = np.broadcast_to(np.uint8(7), (1 << 20, 1 << 20, 3))
SILENCE = np.zeros(16000, np.float32)
# An argument, a value that does not fit, and whether its type is wrong.
WRONG = [
    ("steps", 0, False), ("steps", 1001, False), ("steps", -3, False), ("steps", 1 << 40, False), ("steps", 1 << 70, False), ("steps", 2.5, True),
    ("steps", "two", True), ("steps", True, True), ("seed", -1, False), ("seed", 1 << 64, False), ("seed", 1.0, True), ("seed", [], False),
    ("frames", 6, False), ("width", 17, False), ("size", (32, 17), False), ("size", 32, True), ("size", (32, 16, 3), True),
    ("guidance", float("nan"), False), ("guidance", 101, False), ("guidance", "strong", True), ("guidance", [5], True), ("fps", 0, False),
    ("fps", 10**400, False), ("preset", "quick", False), ("preset", 4, True), ("sampler", "eul", False), ("rng", b"cpu", True),
    ("negative_prompt", 7, True), ("negative_prompt", "a\0b", False), ("negative_prompt", "\ud800", False), ("negative_prompt", "a" * 2**21, False),
    ("loras", 3, True), ("loras", [3], True), ("loras", ["a"] * 5000, False), ("without", {"x"}, True), ("speaker_boxes", [(1, 2, "x", 4)], True),
    ("image", 7, False), ("image", object(), True), ("image", HUGE, False), ("image", np.zeros((4, 4), np.uint8), False),
    ("image", np.zeros((4, 4, 4), np.uint8), False), ("image", np.zeros((0, 4, 3), np.uint8), False), ("image", np.zeros((4, 4, 3), np.float32), False),
    ("image", np.zeros((4, 4, 3), np.int16), False), ("image", np.zeros((4, 4, 3), complex), True), ("image", np.full((4, 4, 3), None), True),
    ("image", torch.zeros(4, 4, 3, dtype=torch.bfloat16), False), ("image", b"png", True), ("image", [[1, 2], [3]], False),
    ("audio", (SILENCE, 0), False), ("audio", (SILENCE, 16000.5), True), ("audio", (SILENCE, 1 << 40), False), ("audio", SILENCE, True),
    ("audio", (SILENCE * np.nan, 16000), False), ("audio", (SILENCE[:0], 16000), False), ("audio", (SILENCE.astype(np.int16), 16000), False),
    ("audio", {"waveform": SILENCE}, True), ("audio", [], False), ("audio", (np.zeros((2, 2, 9), np.float32), 16000), False),
    ("init_latents", np.zeros((16, 2, 2, 5), np.float32), False), ("init_latents", np.zeros(64, int), False), ("init_latents", 1.0, False),
    ("init_latents", np.full((16, 2, 2, 4), np.nan, np.float32), False), ("image_embeds", "none.txt\0", False),
]


@pytest.mark.parametrize("name, value, typed", WRONG, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(WRONG)])
def test_an_argument_that_does_not_fit(engine, name, value, typed):
    with pytest.raises(tachyscope.ArgumentError) as caught:
        engine.generate("a red cat", **{name: value})
    error = caught.value
    assert isinstance(error, ValueError) and isinstance(error, tachyscope.EngineError) and error.code == 2
    assert isinstance(error, TypeError) == typed
    assert error.field in {"size": ("size", "height"), "audio": ("audio", "speech")}.get(name, (name,)), error


def test_prompts_and_outputs_that_do_not_fit(engine):
    for prompt in (None, 7, b"cat", ["a", 7], [], "a\0b", "a" * 2**21):
        with pytest.raises(tachyscope.ArgumentError) as caught:
            engine.generate(prompt)
        assert caught.value.field == "prompt"
    for output in ("mp4", ["numpy"], np.array(["numpy", "torch"]), None):
        with pytest.raises(tachyscope.ArgumentError, match="numpy, torch, pil or latents"):
            engine.generate("x", output=output)
    with pytest.raises(TypeError, match="did you mean steps"):
        engine.generate("x", step=2)
    with pytest.raises(tachyscope.ArgumentError, match="`width`: it is given twice"):
        engine.generate("x", size=(32, 16), width=32)
    with pytest.raises(tachyscope.ArgumentError, match="`frames`: it is given twice"):
        engine.plan("x", frames=5, num_frames=5)
    for call in (engine.plan, engine.stream):
        with pytest.raises(tachyscope.ArgumentError, match="one prompt"):
            call(["a", "b"])
    with pytest.raises(tachyscope.ArgumentError, match="`preview`"):
        engine.stream("x", preview=1)


def test_models_and_options_that_do_not_fit(tmp_path):
    with pytest.raises(FileNotFoundError, match="no-such-model") as caught:
        tachyscope.Engine(tmp_path / "no-such-model", device="cpu")
    assert isinstance(caught.value, tachyscope.NotFound) and caught.value.code == 3
    for name, value in dict(device="tpu", threads=-1, max_vram="much", weights="light", graphs=1, idle_seconds=1.5, workers=0).items():
        with pytest.raises(tachyscope.ArgumentError) as caught:
            tachyscope.Engine(TINY, **{"device": "cpu", name: value})
        assert caught.value.field == name
    with pytest.raises(TypeError, match="did you mean threads"):
        tachyscope.Engine(TINY, thread=2)
    with pytest.raises(tachyscope.NotFound) as caught, tiny(loras=["gone.safetensors:0.8"]) as engine:
        engine.plan("x")
    assert "gone.safetensors" in str(caught.value)


def test_memory_that_is_not_there():
    with tachyscope.Engine(SPRITES, device="cpu") as engine:
        wanted = dict(size=(8192, 8192), frames=33, steps=1)
        if engine.plan(**wanted).bytes < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
            pytest.skip("this machine has the memory")
        with pytest.raises(MemoryError) as caught:
            engine.generate("x", **wanted)
    assert isinstance(caught.value, tachyscope.OutOfMemory) and caught.value.code == 7


def test_a_result_that_cannot_be_saved(engine, tmp_path):
    video = engine.generate("a red cat")
    for path, error in ((tmp_path / "no/such/a.mp4", tachyscope.EngineError), (tmp_path / "a.txt", tachyscope.EngineError), (7, TypeError)):
        with pytest.raises(error):
            video.save(path)
    for crf in (-1, 64, 2.5, "best"):
        with pytest.raises(tachyscope.ArgumentError, match="`crf`"):
            video.save(tmp_path / "a.mp4", crf=crf)
    with pytest.raises(tachyscope.ArgumentError, match="speed"):
        video.save(tmp_path / "a.mp4", speed="warp")
    assert not list(tmp_path.iterdir())


def test_cancel_and_close_from_another_thread():
    engine = tiny()
    for end in (engine.cancel, engine.close):
        timer = threading.Timer(0.3, end)
        timer.start()
        with pytest.raises(tachyscope.Cancelled) as caught:
            engine.generate("a red cat", **LONG)
        assert caught.value.code == 130
        timer.join()
    for call in (lambda: engine.generate("x"), lambda: engine.plan("x"), lambda: engine.submit("x"), lambda: engine.stream("x"), engine.cancel):
        with pytest.raises(ValueError, match="closed"):
            call()
    engine.close()


def test_ctrl_c_ends_a_run():
    code = f"""
        import os, signal, threading, time, tachyscope
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands ignore it
        with tachyscope.Engine({TINY!r}, device="cpu", threads=1) as engine:
            timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            try:
                engine.generate("a red cat", **{LONG!r})
            except KeyboardInterrupt:
                timer.join()
                print("ended", threading.active_count())
            print(engine.generate("a red cat").frames.shape)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert done.stdout.split("\n")[:2] == ["ended 1", "(5, 16, 32, 3)"], done.stderr


def test_no_copies(engine):
    """A copy would free the model a second time."""
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="an Engine cannot be copied or pickled: open one in each process"):
            make(engine)


@pytest.mark.parametrize("kind", ["Engine", "World"])
def test_arguments_that_python_refuses(kind):
    """What was never opened is closed in silence."""
    code = f"import tachyscope\ntry: tachyscope.{kind}(1, 2, 3)\nexcept TypeError as error: print('positional' in str(error))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_stream_that_two_threads_take(engine):
    stream, took = engine.stream("a red cat"), []
    threads = [threading.Thread(target=lambda: took.append(list(stream)), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "the end is for both"
    assert sorted(e.index for part in took for e in part if isinstance(e, tachyscope.Frame)) == list(range(5))


def test_use_after_a_fork(engine):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for call in (lambda: engine.generate("x"), engine.cancel, lambda: engine.submit("x"), lambda: engine.stream("x")):
            try:
                call()
                said.append("nothing")
            except BaseException as error:
                said.append(type(error).__name__ + (" fork" if "fork" in str(error) else ""))
        os.write(write, ",".join(said).encode())
        os.kill(os.getpid(), signal.SIGKILL)  # no clean-up of the parent's tests
    os.waitpid(child, 0)
    assert os.read(read, 1000).decode() == ",".join(["RuntimeError fork"] * 4)
    os.close(read), os.close(write)


def test_a_build_without_the_engine(monkeypatch, tmp_path):
    monkeypatch.setattr(_engine, "LIBRARY", os.fspath(tmp_path / "none.so"))
    _engine.library.cache_clear()
    from tachyscope import _engine_c
    _engine_c.library.cache_clear()
    try:
        with pytest.raises(ImportError, match="TACHY_PYTHON_ENGINE"):
            tachyscope.Engine(TINY)
    finally:
        _engine.library.cache_clear(), _engine_c.library.cache_clear()


def resident():
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_many_runs_keep_no_memory():
    """TEST_RUNS=2000 makes as many, by hand."""
    runs = int(os.environ.get("TEST_RUNS", 48))
    with tiny(threads=1) as engine:
        def some(count):
            for i in range(count):
                kind = i % 4
                if kind == 0:
                    engine.generate("a red cat", seed=i, steps=1)
                elif kind == 1:
                    next(engine.stream("a red cat", steps=1, preview=True))
                elif kind == 2:
                    engine.submit("a red cat", steps=1, output="latents").result()
                else:
                    with pytest.raises(ValueError):
                        engine.generate("a red cat", steps=0)
            gc.collect()
            return resident(), threading.active_count()
        warm = some(max(24, runs // 10))
        after = some(runs)
        # One run of this model holds 200 KiB of frames, latents and prompts.
        assert after[0] - warm[0] < 4 << 20 and after[1] == warm[1]


def test_generated_files_are_up_to_date():
    path = os.path.join(ROOT, "tools", "make_python_fields")
    loader = importlib.machinery.SourceFileLoader("make_python_fields", path)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(tool)
    sys.dont_write_bytecode = before
    for file, text in tool.files(_engine.LIBRARY).items():
        assert pathlib.Path(file).read_text() == text, f"{file}: run tools/make_python_fields"


def test_signatures_and_help_have_all_fields():
    tables = {"generate": "request", "plan": "request", "submit": "request", "stream": "request", "__init__": "engine"}
    import json
    from tachyscope import _engine_c
    lib = _engine_c.library()
    lib.tachyscope_fields.restype = ctypes.c_char_p
    all_ = json.loads(lib.tachyscope_fields())
    for name, table in tables.items():
        function = getattr(tachyscope.Engine, name)
        parameters = inspect.signature(function).parameters
        for field in all_[table] + (all_["inputs"] if table == "request" else []):
            assert field["name"] in parameters, (name, field["name"])
            assert field["name"] == "prompt" or field["name"] + ": " in function.__doc__
    assert "size" in inspect.signature(tachyscope.Engine.generate).parameters
