"""Tests of ComfyUI's nodes that run the engine, with stand-ins for ComfyUI and the model that ships. tests/workflows/run_in_comfyui.py runs
the example workflows in a real one."""

import http.server
import importlib
import importlib.util
import json
import os
import pathlib
import sys
import threading
import types

import numpy as np
import pytest
import torch

import tachyscope
from comfy_host import Host, Interrupted
from engine_cases import TALKER, TINY_IMAGE

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "python" / "comfyui"
pytestmark = pytest.mark.skipif(not (FOLDER / "engine_nodes.py").is_file(), reason="a package without its sources")
SHORT = {"prompt": "a red circle moves right", "negative_prompt": "", "width": 64, "height": 64, "frames": 5, "seed": 3, "steps": 2, "guidance": 1.0}


@pytest.fixture
def host(tmp_path, monkeypatch):
    made = Host(tmp_path)
    for name, module in made.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


@pytest.fixture
def pack(host, monkeypatch):
    """The package of nodes, without those of the kernels, which need other parts of ComfyUI."""
    package = types.ModuleType("tachy_nodes")
    package.__path__ = [str(FOLDER)]
    for name in [n for n in sys.modules if n.startswith("tachy_nodes")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tachy_nodes", package)
    return lambda name: importlib.import_module(f"tachy_nodes.{name}")


@pytest.fixture
def load(pack):
    def make(model=str(ROOT / "models" / "sprites"), loras="", **parts):
        return pack("engine_nodes").Load().run(model, loras, "cpu", "", True, **parts)[0]
    return make


@pytest.fixture(scope="module", autouse=True)
def engine_is_there():
    try:
        tachyscope.Engine(str(ROOT / "models" / "sprites"), device="cpu").close()
    except ImportError as error:
        pytest.skip(str(error))


def test_frames_are_the_engines(pack, load, host):
    frames, fps = pack("engine_nodes").TextToVideo().run(load(), **SHORT, settings="# a comment\nlevel = safe\n")
    with tachyscope.Engine(str(ROOT / "models" / "sprites"), device="cpu") as engine:
        want = engine.generate(SHORT["prompt"], **{k: v for k, v in SHORT.items() if k not in ("prompt", "negative_prompt")})
    assert frames.shape == (5, 64, 64, 3) and frames.dtype == torch.float32
    assert torch.equal((frames * 255).round().to(torch.uint8), torch.from_numpy(want.frames))
    assert fps == want.fps
    assert [bar for bar in host.bars if bar[2] is not None], "previews are shown"
    kind, picture, size = next(bar[2] for bar in host.bars if bar[2] is not None)
    assert kind == "JPEG" and picture.size[0] > 0 and size == 512
    assert all(0 <= value <= total for value, total, _ in host.bars)


def test_cancel_ends_the_run(pack, load, host, monkeypatch):
    engine = load()
    bar = sys.modules["comfy.utils"].ProgressBar
    update = bar.update_absolute

    def cancel(self, *args, **kwargs):
        host.cancelled = True
        update(self, *args, **kwargs)
    monkeypatch.setattr(bar, "update_absolute", cancel)
    with pytest.raises(Interrupted):
        pack("engine_nodes").TextToVideo().run(engine, **SHORT | {"steps": 50})
    assert not engine.held.busy
    monkeypatch.setattr(bar, "update_absolute", update)
    host.cancelled = False
    assert pack("engine_nodes").TextToVideo().run(engine, **SHORT)[0].shape[0] == 5, "the engine goes on to be of use"


def test_memory_is_given_back_when_somebody_needs_it(pack, load, host):
    engine = load()
    host.free = 1 << 34
    run = pack("engine_nodes").TextToVideo().run
    before = host.free
    first, _ = run(engine, **SHORT)
    assert 0 < engine.held.loaded_size() == before - host.free
    assert engine._engine is not None
    host.free_memory(before, torch.device("cpu"))
    assert engine._engine is None and host.free == before and engine.held.loaded_size() == 0
    again, _ = run(engine, **SHORT)
    assert torch.equal(first, again)
    engine.held.busy = True
    engine.held.detach()
    assert engine._engine is not None, "one that computes is left alone"


def drawn(seed, height=40, width=56):
    """A picture whose values ComfyUI's 255ths hold exactly."""
    whole = torch.randint(0, 256, (1, height, width, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8, device="cpu")
    return (whole.float() / 255 + 1e-6).clamp(max=1), whole[0].numpy()


@pytest.mark.parametrize("node, names", [("ImageToVideo", ("image",)), ("FirstLastToVideo", ("image", "last_image"))])
def test_pictures_go_to_the_engine(pack, load, node, names):
    pictures = {name: drawn(seed) for seed, name in enumerate(names)}
    run = getattr(pack("engine_nodes"), node)().run
    frames, fps = run(load(TINY_IMAGE), **SHORT, **{name: image for name, (image, _) in pictures.items()})
    with tachyscope.Engine(TINY_IMAGE, device="cpu") as engine:
        fields = {k: v for k, v in SHORT.items() if k not in ("prompt", "negative_prompt")}
        want = engine.generate(SHORT["prompt"], **fields, **{name: whole for name, (_, whole) in pictures.items()})
        other = engine.generate(SHORT["prompt"], **fields, **{name: 255 - whole for name, (_, whole) in pictures.items()})
    assert fps == want.fps and torch.equal((frames * 255).round().to(torch.uint8), torch.from_numpy(want.frames))
    assert not np.array_equal(want.frames, other.frames), "the pictures count"


def test_a_photo_talks(pack, load):
    import wave

    from PIL import Image
    with wave.open(f"{TALKER}/example/speech.wav") as file:
        rate, sound = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), np.int16)
        assert file.getnchannels() == 1 and file.getsampwidth() == 2
    waves = torch.from_numpy(sound.astype(np.float32) / 32768)
    photo = torch.from_numpy(np.asarray(Image.open(f"{TALKER}/example/photo.png").convert("RGB")).astype(np.float32) / 255 + 1e-6).clamp(max=1)
    small = SHORT | {"prompt": "a person talks", "width": 0, "height": 0, "steps": 1}
    engine = load(TALKER, infinitetalk=f"{TALKER}/infinitetalk.safetensors")
    frames, audio, fps = pack("engine_nodes").Talk().run(engine, **small, image=photo[None], audio={"waveform": waves[None, None], "sample_rate": rate})
    with tachyscope.Engine(TALKER, device="cpu", infinitetalk=f"{TALKER}/infinitetalk.safetensors") as plain:
        want = plain.generate("a person talks", image=f"{TALKER}/example/photo.png", audio=(waves.numpy(), rate), frames=5, seed=3, steps=1, guidance=1.0)
    assert fps == want.fps and torch.equal((frames * 255).round().to(torch.uint8), torch.from_numpy(want.frames))
    assert audio["sample_rate"] == rate and audio["waveform"].shape == (1, 1, round(5 / fps * rate))


def test_encode_and_decode(pack, load, monkeypatch, tmp_path):
    program = pathlib.Path(os.environ.get("TEST_PROGRAM", ""))
    if not program.is_file():
        pytest.skip("no program")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    nodes, engine = pack("engine_nodes"), load()
    frames, _ = nodes.TextToVideo().run(engine, **SHORT | {"steps": 12, "guidance": 5.0})  # as clean as those it was trained on
    (latent,) = nodes.Encode().run(engine, frames)
    assert latent["samples"].ndim == 5 and latent["samples"].shape[0] == 1 and latent["samples"].shape[2] == 2
    (back,) = nodes.Decode().run(engine, latent)
    assert back.shape == frames.shape
    assert (back - frames).abs().mean() < 0.05
    with pytest.raises(ValueError, match="one video"):
        nodes.Decode().run(engine, {"samples": torch.zeros(2, 16, 1, 8, 8)})


def test_bad_values_are_named(pack, load):
    nodes, values = pack("engine_nodes"), pack("values")
    with pytest.raises(tachyscope.ArgumentError, match="frames"):
        nodes.TextToVideo().run(load(), **SHORT | {"frames": 6})
    with pytest.raises(tachyscope.NotFound):
        nodes.TextToVideo().run(load("no/such/model"), **SHORT)
    for text in ("steps", "= 5", "a b = 1", "steps ="):
        with pytest.raises(ValueError, match="settings: expected lines such as"):
            values.settings(text)
    assert values.settings("a = 1\nb=2.5\nc = x y\nd = true") == {"a": 1, "b": 2.5, "c": "x y", "d": True}
    for image in (torch.zeros(0, 8, 8, 3), torch.zeros(8, 8, 3), torch.zeros(1, 8, 8, 1), "x"):
        with pytest.raises(ValueError, match="image: expected an IMAGE"):
            values.picture(image, "image")
    assert values.picture(torch.tensor([0.0, 0.5, 1.5]).reshape(1, 1, 1, 3), "image").tolist() == [[[0, 127, 255]]]


def test_names_of_models(pack, host):
    places = pack("places")
    for file in ("diffusion_models/wan.safetensors", "loras/a.safetensors", "tachyscope/mine/config.json"):
        (host.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (host.folder / file).write_text("x")
    assert places.model("") is None
    assert places.model("wan.safetensors") == str(host.folder / "diffusion_models/wan.safetensors")
    assert places.model("mine") == str(host.folder / "tachyscope/mine")
    assert places.model("talker") == str(ROOT / "models" / "talker")
    assert places.model("some/where") == "some/where"
    assert places.lora("a.safetensors:0.8@high") == str(host.folder / "loras/a.safetensors") + ":0.8@high"
    assert places.lora("b.safetensors") == "b.safetensors"


def test_scripts_of_a_world(pack):
    script = pack("world_node").script
    assert script("W D 2\n# rest\n-\nA", ("W", "A", "D")) == [["W", "D"], ["W", "D"], [], ["A"]]
    for text in ("", "X", "W 0", "W 99999"):
        with pytest.raises(ValueError, match="actions: "):
            script(text, ("W",))


class Server(http.server.BaseHTTPRequestHandler):
    """/v1/videos as far as the node asks for it."""
    seen, polls, status = [], 0, "completed"

    def log_message(self, *_):
        pass

    def _answer(self, body, code=200):
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    def do_POST(self):
        Server.seen.append(("POST", self.path, self.headers.get("Authorization"), self.rfile.read(int(self.headers["Content-Length"]))))
        if b"bad" in Server.seen[-1][3]:
            return self._answer({"error": {"message": "`prompt`: bad"}}, 400)
        self._answer({"id": "video_1", "status": "queued", "progress": 0})

    def do_GET(self):
        Server.seen.append(("GET", self.path, None, b""))
        if self.path.endswith("/content"):
            return self._answer(pathlib.Path(self.server.video).read_bytes())
        Server.polls += 1
        self._answer({"id": "video_1", "status": "in_progress" if Server.polls < 2 else Server.status, "progress": 50, "error": {"message": "it broke"}})

    def do_DELETE(self):
        Server.seen.append(("DELETE", self.path, None, b""))
        self._answer({})


def test_a_server_makes_it(pack, host, tmp_path, monkeypatch):
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "v.mp4"), "w") as file:
        stream = file.add_stream("mpeg4", rate=16)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(5):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((48, 64, 3), 128, np.uint8), format="rgb24")))
        file.mux(stream.encode())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.video = tmp_path / "v.mp4"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Server.seen, Server.polls = [], 0
    key = tmp_path / "key"
    key.write_text("tk-1\n")
    nodes = pack("engine_nodes")
    (engine,) = nodes.Server().run(f"http://127.0.0.1:{server.server_port}/", "sprites", str(key))
    frames, fps = nodes.ImageToVideo().run(engine, **SHORT, image=torch.zeros(1, 8, 8, 3))
    assert frames.shape == (5, 48, 64, 3) and fps == 16
    method, path, authorization, body = Server.seen[0]
    assert (method, path, authorization) == ("POST", "/v1/videos", "Bearer tk-1")
    assert b'name="model"\r\n\r\nsprites' in body and b'name="input_reference"; filename="image.png"\r\n\r\n\x89PNG' in body
    Server.polls, Server.status = 0, "failed"
    with pytest.raises(RuntimeError, match="it broke"):
        nodes.TextToVideo().run(engine, **SHORT)
    with pytest.raises(RuntimeError, match="`prompt`: bad"):
        nodes.TextToVideo().run(engine, **SHORT | {"prompt": "bad"})
    host.cancelled = True
    with pytest.raises(Interrupted):
        nodes.TextToVideo().run(engine, **SHORT)
    assert Server.seen[-1][:2] == ("DELETE", "/v1/videos/video_1")
    with pytest.raises(ValueError, match="address"):
        nodes.Server().run("file:///etc", "")
    server.shutdown()


def test_examples_use_what_the_nodes_have(pack):
    """The inputs of the example workflows are those of the nodes, in both formats, and the page's order of widgets is theirs."""
    nodes = {f"Tachyscope{c.__name__}": c for c in vars(pack("engine_nodes")).values() if isinstance(c, type) and hasattr(c, "INPUT_TYPES")}
    nodes["TachyscopeWorld"] = pack("world_node").World
    seen = set()
    for path in sorted((ROOT / "examples" / "comfyui").glob("*.api.json")):
        api, page = json.loads(path.read_text()), json.loads(path.with_name(path.name.replace(".api.json", ".json")).read_text())
        assert {str(n["id"]): n["type"] for n in page["nodes"]} == {id: n["class_type"] for id, n in api.items()}
        for id, node in api.items():
            if node["class_type"] not in nodes:
                continue
            seen.add(node["class_type"])
            inputs = nodes[node["class_type"]].INPUT_TYPES()
            known = inputs["required"] | inputs.get("optional", {})
            assert set(inputs["required"]) <= set(node["inputs"]) <= set(known), path
            order = []
            for name, kind in known.items():
                if isinstance(kind[0], list) or kind[0] in ("STRING", "INT", "FLOAT", "BOOLEAN"):
                    order += [name, None] if len(kind) > 1 and kind[1].get("control_after_generate") else [name]
            stored = next(n for n in page["nodes"] if str(n["id"]) == id)["widgets_values"]
            assert len(stored) == len(order), (path, order)
            assert all(stored[i] == node["inputs"][name] for i, name in enumerate(order) if name in node["inputs"]), path
    assert len(seen) >= 6
