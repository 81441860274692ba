"""Tests the drawn plane that responds to keys and mouse, its judge, and the two ways in which its network runs. Needs numpy and torch."""
import importlib
import os
import sys
import types

import numpy as np
import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER, TALKER = os.path.join(ROOT, "training", "steer"), os.path.join(ROOT, "models", "talker")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cpu
OURS = ("plane", "heldout", "judge", "net", "pipeline")


@pytest.fixture(scope="module", autouse=True)
def modules():
    """Training's folders have files of the same names, so only the ones imported here are visible."""
    all_ = (*OURS, "autoencoder", "vae")
    before, threads = {n: sys.modules.pop(n, None) for n in all_}, torch.get_num_threads()
    sys.path.insert(0, FOLDER)
    torch.set_num_threads(1)  # the pictures are small: threads would mostly wait for each other
    made = {n: importlib.import_module(n) for n in OURS}
    yield made
    sys.path.remove(FOLDER)
    torch.set_num_threads(threads)
    for n in all_:
        sys.modules.pop(n, None)
        if before[n] is not None:
            sys.modules[n] = before[n]


@pytest.fixture(scope="module")
def item():
    return {"world": 3, "camera": [1.0, 2.5, 0.7, 0.0],
            "script": [[4, "W", [0.0, 0.0]], [3, "", [0.0, 0.1]], [3, "", [0.0, -0.1]], [4, "", [0.0, 0.0]], [3, "SA", [0.0, -0.1]], [3, "D", [0.1, 0.0]]]}


@pytest.fixture(scope="module")
def clip(modules, item):
    return modules["heldout"].clip_of(item, 20)


def test_judge_tells_all_actions(modules):
    assert modules["judge"].pairs_of_all() == 80


def test_judge_reads_the_renderer(modules, item, clip):
    judge = modules["judge"]
    s = judge.score(item, clip)
    table = judge.aggregate([s])
    assert s["first"][0] == s["first"][1] >= 5
    assert table["drift"] < 0.05 and table["back"] > 60
    assert judge.misses(table, judge.LIMITS_TRUTH) == []


def test_judge_sees_wrong_ones(modules, item, clip):
    judge = modules["judge"]
    other = modules["heldout"].clip_of({**item, "script": [[n, {"W": "S", "S": "W"}.get(k[:1], "W"), [m[0], -m[1] or 0.1]] for n, k, m in item["script"]]}, 20)
    s = judge.score(item, other)
    assert s["first"][0] == 0
    drifting = clip.copy()
    begin = next(b for b, n, keys, mouse in judge.parts(item) if not keys and not any(mouse))
    for k in range(1, 17):
        drifting[begin + k] = np.roll(clip[begin], k // 3, 1)
    assert judge.aggregate([judge.score(item, drifting)])["drift"] > 3
    assert set(judge.misses({"first": 94.9, "late": 89.9, "drift": 2.1, "colour": 11, "sharpness": 11, "back": 21.9}, judge.LIMITS)) == set(judge.LIMITS)


def test_turning_back_shows_the_same(modules, item, clip):
    begin = [b for b, *_ in modules["judge"].parts(item)]
    assert (clip[begin[1]] == clip[begin[3]]).all() and (clip[begin[1]] != clip[begin[2]]).any()


def test_actions_are_seen_a_frame_later(modules, item):
    states, keyboard, _ = modules["heldout"].truth(item, 20)
    moved = (states[1:, :2] - states[:-1, :2]).norm(dim=1) > 0
    assert (moved == (keyboard[:-1].sum(1) > 0)).all()


def test_scripts_of_the_engine_have_the_same_frames(modules):
    heldout, plane = modules["heldout"], modules["plane"]
    for i in heldout.heldout_set(8):
        written = heldout.actions_json(i)["actions"]
        assert sum(a["frames"] for a in written) == 4 * heldout.BLOCKS - 3
        keyboard, mouse = plane.expand(i["script"], heldout.BLOCKS)
        at = 0
        for a in written:
            assert [plane.KEYS[k] for k in range(4) if keyboard[at, k]] == [k for k in plane.KEYS if k in a["keys"]] and (mouse[at] == np.float32(a["mouse"])).all()
            at += a["frames"]
        tilt = heldout.truth(i)[0][:, 3].abs().max()
        assert tilt < plane.TILT_MOST


def test_network_is_the_definition(modules):
    assert modules["net"].check(8) < 1e-4


def test_frames_of_a_clip_are_those_of_the_whole(modules, item, clip):
    assert (modules["heldout"].clip_of(item, 20, slice(12, 60, 4)) == clip[12:60:4]).all()


def test_weights_are_kept_in_files_that_can_be_carried(modules, tmp_path):
    pytest.importorskip("safetensors")
    net, pipeline = modules["net"], modules["pipeline"]
    torch.manual_seed(1)
    model = net.Denoiser()
    net.save_parts(torch.cat([p.data.flatten() for p in model.parameters()]), tmp_path)
    files = sorted(os.listdir(tmp_path))
    assert files == [n for n in pipeline.CARRIED if n.startswith("denoiser")]
    assert all(os.path.getsize(tmp_path / f) < 2**24 for f in files)
    again = net.load_denoiser(tmp_path)
    assert all((b == a.data.bfloat16().float()).all() for a, b in zip(model.parameters(), again.parameters()))


def test_autoencoder_without_diffusers(modules, tmp_path):
    pytest.importorskip("safetensors")
    autoencoder = importlib.import_module("autoencoder")
    model = autoencoder.load(os.path.join(TALKER, "Wan2.1_VAE.safetensors"))  # all of the file's tensors, and no other
    autoencoder.save(model, tmp_path)
    again = autoencoder.load(tmp_path)
    assert again.config == model.config and all((again.state_dict()[k] == v).all() for k, v in model.state_dict().items())
    diffusers = pytest.importorskip("diffusers")
    theirs = diffusers.AutoencoderKLWan.from_pretrained(tmp_path, torch_dtype=torch.float32)
    x = torch.rand(1, 3, 9, 32, 48) * 2 - 1
    vae = importlib.import_module("vae")
    with torch.no_grad():
        want = theirs.encode(x).latent_dist.mean
        assert (vae.encode(model, x)[0] - want).abs().max() < 1e-4 * want.abs().max()
        want = theirs.decode(want).sample
        assert (vae.decode(model, vae.encode(model, x)[0]).clamp(-1, 1) - want).abs().max() < 1e-4


def test_eyes_are_those_of_transformers(modules):
    transformers, safetensors = pytest.importorskip("transformers"), pytest.importorskip("safetensors.torch")
    net, path = modules["net"], os.path.join(TALKER, "models_clip_vision.safetensors")
    eyes = net.Eyes(path, "cpu")
    theirs = transformers.CLIPVisionModel(transformers.CLIPVisionConfig.from_dict(eyes.config))
    tensors = {k: v.float() for k, v in safetensors.load_file(path).items()}
    prefix = "" if "post_layernorm.weight" in theirs.state_dict() else "vision_model."
    theirs.load_state_dict({prefix + k: v for k, v in tensors.items()})
    x = torch.rand(2, 3, 96, 160) * 2 - 1
    big = torch.nn.functional.interpolate(x, size=(224, 224), mode="bicubic", align_corners=False) * 0.5 + 0.5
    with torch.no_grad():
        want = theirs(pixel_values=(big - eyes.mean) / eyes.std, output_hidden_states=True).hidden_states[-2]
    assert (eyes.look(x) - want).abs().max() < 1e-4 * want.abs().max()


def test_a_kill_leaves_whole_files(modules, tmp_path, monkeypatch):
    pipeline, old, new = modules["pipeline"], b"old" * 50, b"new" * 50

    def write(text):
        for name in pipeline.CARRIED:
            (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "work" / name).write_bytes(text)
    write(old)
    pipeline.carry(tmp_path / "work", tmp_path / "out")
    write(new)
    copied = []

    def killed(a, b):
        copied.append(b)
        data = a.read_bytes() if hasattr(a, "read_bytes") else open(a, "rb").read()
        with open(b, "wb") as f:
            f.write(data[:100] if len(copied) == 3 else data)
        if len(copied) == 3:
            raise KeyboardInterrupt
    monkeypatch.setattr(pipeline.shutil, "copyfile", killed)
    with pytest.raises(KeyboardInterrupt):
        pipeline.carry(tmp_path / "work", tmp_path / "out")
    found = [(tmp_path / "out" / n).read_bytes() for n in pipeline.CARRIED]
    assert found == [new, new, old, old, old]
    assert pipeline.CARRIED[-1] == "progress.json"


def test_a_call_shares_its_time(modules):
    share = modules["pipeline"].Pipeline.share
    of = lambda since, left: share(types.SimpleNamespace(progress={"flow": since}, left=lambda: left), "flow", 400, 45)
    assert of(0.0, 245) == (200, 0.0, 0.5)
    assert of(0.5, 545) == (200.0, 0.5, 1.0)
    assert of(0.0, 415) == (370, 0.0, 1.0)  # the rest of the time would be spent on compiling
    assert of(0.5, 20)[2] == 0.5
