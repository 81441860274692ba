"""Tests tachyscope.World with a tiny Matrix-Game 2 of random weights, in the published layout, which responds to keys and mouse."""
import copy
import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import tachyscope
import torch
from PIL import Image

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
load_file = pytest.importorskip("safetensors.torch").load_file
save_file = pytest.importorskip("safetensors.torch").save_file
pytestmark = pytest.mark.cpu
WORLD = dict(kind="universal", fps=12, width=48, height=32, timesteps=[1000, 666, 333], shift=5, block=3, first_block=3, window=6)


def with_config(source, name, to):
    with open(os.path.join(GOLDEN, source, "config.json")) as config:
        save_file(load_file(os.path.join(GOLDEN, source, name)), to, metadata={"config": config.read()})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Makes the golden transformer with the number of channels that the golden VAE and CLIP need."""
    folder, gen = tmp_path_factory.mktemp("world"), torch.Generator(device="cpu").manual_seed(5)
    tensors = load_file(os.path.join(GOLDEN, "causal", "universal", "diffusion_pytorch_model.safetensors"))
    for name, t in tensors.items():
        dims = list(t.shape)
        if name == "patch_embedding.weight":
            dims[1] = 12
        elif name.startswith("img_emb.proj."):
            dims = [12 if d == 10 else d for d in dims]
        if dims != list(t.shape):
            scale = math.sqrt(math.prod(dims[1:])) if len(dims) > 1 else 3
            tensors[name] = torch.randn(dims, generator=gen, device="cpu") / scale
    save_file({"model." + n: t for n, t in tensors.items()}, folder / "diffusion_pytorch_model.safetensors")
    with open(os.path.join(GOLDEN, "causal", "universal", "config.json")) as config:
        (folder / "config.json").write_text(json.dumps({**json.load(config), "in_dim": 12}))
    (folder / "generation_config.json").write_text(json.dumps({"world": WORLD}))
    with_config("image_pipeline/i2v/vae", "diffusion_pytorch_model.safetensors", folder / "Wan2.1_VAE.safetensors")
    with_config("image_pipeline/flf2v_clip/image_encoder", "model.safetensors", folder / "models_clip_tiny.safetensors")
    return folder


@pytest.fixture(scope="module")
def world(model):
    with tachyscope.World(model, device="cpu", threads=2) as made:
        yield made


@pytest.fixture(scope="module")
def image():
    y, x = np.mgrid[:70, :90]
    return np.stack([2 * x, 3 * y, x + y], -1).astype(np.uint8)


ACTIONS = [(("W",), (0, 0.5)), ((), None), (("A",), (-1, 0)), (("S", "D"), None)]


def walk(world, actions):
    out = []
    for i, (keys, mouse) in enumerate(actions):
        world.act(keys, mouse, stamp=40 + i)
        block = world.next_block()
        assert (block.index, block.stamp, block.count) == (i, 40 + i, len(block.frames))
        assert block.first_frame == sum(len(f) for f in out)
        assert 0 < block.first_frame_seconds <= block.seconds
        out.append(block.frames)
    return np.concatenate(out)


def test_info(world):
    info = world.info
    assert (info.kind, info.keys, info.mouse) == ("universal", ("W", "S", "A", "D"), True)
    assert (info.width, info.height, info.fps) == (48, 32, 12)
    assert (info.first_block_frames, info.block_frames) == (9, 12)
    assert info.takes_image and not info.takes_prompt and info.peak_bytes > 0


def test_the_same_start_and_actions_give_the_same_frames(world, image, model):
    world.start(image, seed=7)
    first = walk(world, ACTIONS)
    assert first.shape == (9 + 3 * 12, 32, 48, 3) and first.dtype == np.uint8 and first.std() > 1
    world.reset()
    assert np.array_equal(walk(world, ACTIONS), first)
    with tachyscope.World(os.fspath(model), "cpu", threads=1) as other:
        other.start(np.asfortranarray(image), seed=7)
        assert np.array_equal(walk(other, ACTIONS), first)
    world.start(image, seed=8)
    assert not np.array_equal(walk(world, ACTIONS), first)
    world.start(image, seed=7)
    changed = walk(world, [ACTIONS[0], (("S",), (1, 1)), *ACTIONS[2:]])
    assert np.array_equal(changed[:9], first[:9]) and not np.array_equal(changed[9:], first[9:])


def test_frames_come_one_by_one(world, image):
    world.start(image, seed=7)
    whole = world.next_block().frames
    world.reset()
    seen = []
    block = world.next_block(lambda frame, index: seen.append((index, frame)))
    assert block.frames is None and block.count == 9
    assert [i for i, _ in seen] == list(range(9))
    assert np.array_equal(np.stack([f for _, f in seen]), whole)


def test_what_a_callback_raises_ends_the_block(world, image):
    world.start(image, seed=7)
    with pytest.raises(KeyError, match="mine"):
        world.next_block(lambda frame, index: {}["mine"])
    with pytest.raises(ValueError, match="ended"):
        world.next_block()
    world.reset()
    assert len(world.next_block().frames) == 9


def test_a_callback_may_not_begin_or_close(world, image):
    world.start(image, seed=7)
    whole = world.next_block().frames
    world.reset()
    seen = []

    def frame(array, index):
        for what in (world.reset, world.next_block, lambda: world.start(image), world.close):
            with pytest.raises(ValueError, match="a block is being made"):
                what()
        seen.append(array)

    assert world.next_block(frame).count == 9
    assert np.array_equal(np.stack(seen), whole)
    assert world.next_block().index == 1


def test_stop_from_another_thread(world, image):
    world.start(image, seed=7)
    asked = []

    def frame(_, index):
        if not asked:
            asked.append(threading.Thread(target=world.stop))
            asked[0].start()

    with pytest.raises(tachyscope.EngineError) as error:
        while True:
            world.next_block(frame)
    assert error.value.code == 130
    asked[0].join()
    world.reset()
    assert world.next_block().index == 0


@pytest.mark.parametrize("frame", ["", "lambda frame, index: None", "lambda frame, index: time.sleep(0.05)"])
def test_ctrl_c_ends_a_block(model, frame):
    code = f"""
        import os, signal, threading, time, numpy, tachyscope
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background commands ignore it
        with tachyscope.World({os.fspath(model)!r}, "cpu", threads=1) as world:
            world.start(numpy.zeros((32, 48, 3), numpy.uint8))
            for _ in range(3):
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    while True:
                        world.next_block({frame})
                except KeyboardInterrupt:
                    print("ended", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
                world.reset()
            print(world.next_block().index)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.stderr) == ("ended True\n" * 3 + "0\n", "")


def test_wrong_values_are_refused_and_change_nothing(world, image):
    world.start(image, seed=7)
    world.act({"W": 0.5}, (0, 1), stamp=3)
    for keys, mouse, text in [(("Q",), None, "no key 'Q'"), ((), (1, 2, 3), "mouse"), ({"W": 2}, None, "-1 to 1"), ((), (0, float("nan")), "-1 to 1")]:
        with pytest.raises(ValueError, match=text):
            world.act(keys, mouse, stamp=9)
    assert world.next_block().stamp == 3
    with pytest.raises(ValueError, match="height, width, 3"):
        world.start(image[..., :2])
    with pytest.raises(ValueError, match="uint8"):
        world.start(image / 255)
    with pytest.raises(ValueError, match="image"):
        world.start()
    with pytest.raises(ValueError, match="prompt"):
        world.start(image, prompt="a cat")
    assert world.next_block().index == 1, "what was refused left the session as it was"


def refused(call, name):
    with pytest.raises(tachyscope.ArgumentError) as caught:
        call()
    assert caught.value.field == name, caught.value


def test_each_argument(world, image, model):
    """Values of a wrong type or range are refused by name, and none is cut to what C holds."""
    for name, values in {"width": [1 << 40, "a", 1.5, -16], "height": [None], "steps": [(1 << 32) + 1, 0, "x", True], "window": [0, 2.5],
                         "shift": [0, "a", float("nan")], "threads": [-1, 1 << 33, None], "max_vram": ["8GiB", -1, 1 << 64],
                         "device": [None, 7, torch.device("cpu")]}.items():
        for value in values:
            refused(lambda: tachyscope.World(model, **{"device": "cpu", name: value}), name)
    for value in (None, 7, b"x", "a\0b"):
        refused(lambda: tachyscope.World(value, "cpu"), "model")
    world.start(image, seed=7)
    for name, values in {"seed": [-1, 1 << 64, "a", 1.5], "prompt": [None, 3], "image": ["a.png", b"x", 3, image[:0], torch.zeros(4, 4, 3)]}.items():
        for value in values:
            refused(lambda: world.start(**{"image": image, name: value}), name)
    for name, values in {"keys": [3, None, [["W"]], {"W": "x"}, {"W": 2}], "mouse": [3, "ab", (0, 5)], "stamp": [-1, 1.5, 1 << 64]}.items():
        for value in values:
            refused(lambda: world.act(**{name: value}), name)
    refused(lambda: world.next_block(3), "frame")
    assert world.next_block().index == 0


def test_pictures_of_any_kind(world, image):
    world.start(image, seed=7)
    want = world.next_block().frames
    for same in (Image.fromarray(image), Image.fromarray(image).convert("RGBA"), torch.from_numpy(image)):
        world.start(same, seed=7)
        assert np.array_equal(world.next_block().frames, want)


def test_no_copies_and_no_use_after_a_fork(world, image):
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a World cannot be copied or pickled"):
            make(world)
    world.start(image, seed=7)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for call in (lambda: world.start(image), world.act, world.next_block, world.reset, world.stop):
            try:
                call()
                said.append("nothing")
            except BaseException as error:
                said.append(type(error).__name__ + (" fork" if "fork" in str(error) else ""))
        world.close()
        os.write(write, ",".join(said).encode())
        os.kill(os.getpid(), signal.SIGKILL)  # no clean-up of the parent's tests
    os.waitpid(child, 0)
    assert os.read(read, 1000).decode() == ",".join(["RuntimeError fork"] * 5)
    os.close(read), os.close(write)
    assert world.next_block().index == 0


def test_what_cannot_be_opened(model, tmp_path):
    with pytest.raises(FileNotFoundError):
        tachyscope.World(tmp_path / "nothing", "cpu")
    with pytest.raises(ValueError, match="width"):
        tachyscope.World(model, "cpu", width=50)
    with pytest.raises(ValueError, match="steps"):
        tachyscope.World(model, "cpu", steps=0)
    folder = tmp_path / "broken"
    shutil.copytree(model, folder)
    with open(folder / "diffusion_pytorch_model.safetensors", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(tachyscope.EngineError):
        tachyscope.World(folder, "cpu")


def test_a_closed_world(model):
    world = tachyscope.World(model, "cpu")
    world.close()
    world.close()
    world.stop()
    with pytest.raises(ValueError, match="closed"):
        world.next_block()
