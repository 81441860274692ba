"""Tests the world of the talking photo and its judge: the judge accepts the renderer's own clips and rejects wrong ones. Needs numpy and torch."""
import importlib.util
import json
import os
import subprocess
import sys
import wave

import numpy as np
import pytest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "training", "talker")
sys.path.insert(0, FOLDER)
torch = pytest.importorskip("torch")
import faces as F  # noqa: E402
import heldout  # noqa: E402
import reading  # noqa: E402
import speech as S  # noqa: E402

spec = importlib.util.spec_from_file_location("talker_judge", os.path.join(FOLDER, "judge.py"))  # training/ has a judge of its own
judge = importlib.util.module_from_spec(spec)
spec.loader.exec_module(judge)

pytestmark = pytest.mark.cpu
SECONDS, FRAMES = 4, 100


def draw(item, mouth=None, pose=None):
    """Draws the item's clip, uint8 [FRAMES, 128, 128, 3], by default with its own mouth and pose."""
    mouth = S.mouth_track(S.Utterance.of(item["utterance"]), FRAMES) if mouth is None else mouth
    pose = F.pose_track(item["motion"], FRAMES) if pose is None else pose
    v = F.render(F.pack([F.Face.of(item["face"])]), torch.from_numpy(mouth)[None], torch.from_numpy(pose)[None], torch)
    return torch.round((v + 1) * 127.5).clamp(0, 255).byte()[0].permute(1, 2, 3, 0).numpy()


@pytest.fixture(scope="module", autouse=True)
def one_thread():  # the pictures are small: threads would mostly wait for each other
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def items():
    return heldout.heldout_set(24, SECONDS, seed=31)


@pytest.fixture(scope="module")
def clips(items):
    return [draw(i) for i in items]


def table(items, clips):
    others = [S.Utterance.of(i["utterance"]) for i in items]
    return judge.aggregate([judge.score(i, c, o) for i, c, o in zip(items, clips, others[1:] + others[:1])])


def like_a_small_vae(clip, rng):
    """Degrades a clip as a small VAE does: blurred, with colour at half the resolution, coarse constant noise and fine noise that changes by frame;
    about 31 dB."""
    x = clip.astype(np.float32)
    for axis in (1, 2):
        p = np.pad(x, [(1, 1) if k == axis else (0, 0) for k in range(4)], mode="edge")
        n = x.shape[axis]
        x = sum(w * np.take(p, np.arange(d, d + n), axis) for d, w in enumerate((0.25, 0.5, 0.25)))
    grey = x.mean(3, keepdims=True)
    colour = (x - grey).reshape(len(x), 64, 2, 64, 2, 3).mean((2, 4)).repeat(2, 1).repeat(2, 2)
    coarse = rng.standard_normal((len(x) // 4 + 1, 32, 32, 3), dtype=np.float32).repeat(4, 0)[:len(x)].repeat(4, 1).repeat(4, 2)
    x = grey + colour + 2 * coarse + 2 * rng.standard_normal(x.shape, dtype=np.float32)
    return np.clip(np.round(x), 0, 255).astype(np.uint8)


def test_judge_reads_the_renderer(items, clips):
    t = table(items, clips)
    assert judge.misses(t, judge.LIMITS) == []
    assert t["correlation"] > 0.999 and t["correlation_5"] > 0.995 and t["drift"] < 0.1
    assert all(t[k] >= 99 for k in ("lag", "pauses", "closures", "vowels", "palette", "palette_always", "motion"))
    assert all(t[f"palette_{k}"] >= 99 for k in judge.ATTRIBUTES)
    assert abs(t["shuffled"]) <= 0.3


def test_judge_reads_what_a_small_vae_leaves(items, clips):
    rng = np.random.default_rng(5)
    bad = [like_a_small_vae(c, rng) for c in clips[:10]]
    error = np.mean([np.mean((a.astype(np.float32) - b) ** 2) for a, b in zip(clips, bad)])
    assert 29 < 10 * np.log10(255 ** 2 / error) < 32.5
    t = table(items[:10], bad)
    assert judge.misses(t, judge.LIMITS) == []
    assert t["correlation_5"] > 0.98 and all(t[k] >= 98 for k in ("lag", "pauses", "closures", "vowels", "palette", "motion"))


def test_judge_needs_no_geometry(items, clips):
    for item, clip in zip(items[:8], clips):
        r, face = reading.read_clip(clip[:30]), F.Face.of(item["face"])
        truth = S.mouth_track(S.Utterance.of(item["utterance"]), 30)[:, 0]
        assert np.abs(r.opening - truth).max() < 0.15
        assert set(r.names["skin"]) == {face.skin} and set(r.names["glasses"]) == {face.glasses} and set(r.names["eyes"]) <= {face.eyes, ""}


def test_late_speech_reads_late(items):
    for item in items[:4]:
        mouth = S.mouth_track(S.Utterance.of(item["utterance"]), FRAMES)
        s = judge.score(item, draw(item, np.concatenate([np.tile(np.float32([[0, 0.5]]), (5, 1)), mouth[:-5]])))
        assert abs(s["lag"] - 5) <= 1
        assert judge.misses(judge.aggregate([s]), judge.LIMITS_LATE) == [] and "lag" in judge.misses(judge.aggregate([s]), judge.LIMITS)


def test_silence_reads_closed(items):
    quiet = [draw(i, np.tile(np.float32([[0, 0.5]]), (FRAMES, 1))) for i in items[:5]]
    t = table(items[:5], quiet)
    assert t["silent"] >= 99 and judge.misses(t, judge.LIMITS_SILENT) == []
    assert {"correlation", "vowels"} <= set(judge.misses(t, judge.LIMITS))  # a frozen mouth does not speak


@pytest.mark.parametrize("wrong, missed", [("faces", "palette"), ("motion", "motion"), ("mouth", "pauses"), ("mouth", "closures"), ("flat", "vowels"), ("eyes", "palette"),
                                           ("seams", "seam"), ("drift", "drift"), ("half", "motion")])
def test_judge_misses_wrong_clips(items, clips, wrong, missed):
    chosen = items[:5]
    assert [i["motion"] for i in chosen] == F.MOTIONS
    mouths = [S.mouth_track(S.Utterance.of(i["utterance"]), FRAMES) for i in chosen]
    poses = [F.pose_track(i["motion"], FRAMES) for i in chosen]
    if wrong == "faces":
        bad = clips[1:6]
    elif wrong == "motion":     # nobody moves
        bad = [draw(i, pose=np.zeros((FRAMES, 4), np.float32)) for i in chosen]
    elif wrong == "half":       # the head stops halfway
        bad = [draw(i, pose=p * (np.arange(FRAMES) < 50)[:, None].astype(np.float32)) for i, p in zip(chosen, poses)]
    elif wrong == "mouth":      # the mouth never closes
        bad = [draw(i, np.maximum(m, np.float32([0.22, 0]))) for i, m in zip(chosen, mouths)]
    elif wrong == "flat":       # all vowels are equally wide
        bad = [draw(i, np.stack([m[:, 0] * 0 + 0.5, m[:, 1] * 0 + 0.5], 1)) for i, m in zip(chosen, mouths)]
    elif wrong == "eyes":       # the eyes stay closed
        bad = [draw(i, pose=np.concatenate([p[:, :3], np.ones_like(p[:, 3:])], 1)) for i, p in zip(chosen, poses)]
    elif wrong == "seams":      # each window is a little brighter or darker than the one before
        window = (np.maximum(np.arange(FRAMES) - 9, 0) // 24) % 2
        bad = [np.clip(c.astype(np.int16) - 4 * window[:, None, None, None], 0, 255).astype(np.uint8) for c in clips[:5]]
    else:
        bad = [np.clip(c + np.linspace(0, -12, FRAMES)[:, None, None, None], 0, 255).astype(np.uint8) for c in clips[:5]]
    assert missed in judge.misses(table(chosen, bad), judge.LIMITS)


def test_splits_are_disjoint():
    rng = np.random.default_rng(12)
    assert not any(F.held_out(F.sample_face(rng)) for _ in range(300))
    made = heldout.heldout_set(100)
    assert all(F.held_out(F.Face.of(i["face"])) for i in made)
    assert made == json.loads(json.dumps(made)) and made == heldout.heldout_set(100)


def test_utterances():
    rng = np.random.default_rng(3)
    for _ in range(100):
        u = S.sample_utterance(rng, 6)
        assert S.Utterance.of(json.loads(json.dumps(u.json()))) == u and u.seconds == 6 and u.spans[0][0] == "pause" and 0.12 <= u.ends[0] / 1000 <= 0.3
        mouth, at = S.mouth_track(u, 150), (np.arange(150) + 0.5) / S.FPS
        named = S.labels(u, 150)
        for name, a, b in u.spans:
            here = (at >= a) & (at < b)
            assert b > a and (named[here] == S.PHONES.index(name)).all()
            if name in S.LIPS and b < 6:
                assert mouth[here, 0].min() == 0
            if name != "pause" and b < 6:
                assert 60 <= round(1000 * (b - a)) <= 220


def test_speech_follows_its_phones():
    rng = np.random.default_rng(4)
    for _ in range(3):
        u, voice = S.sample_utterance(rng, 4), S.sample_voice(rng)
        x = S.synthesise(u, voice, np.random.default_rng(1))
        assert x.dtype == np.float32 and len(x) == 64000 and np.isfinite(x).all() and np.abs(x).max() < 1
        assert np.array_equal(x, S.synthesise(u, voice, np.random.default_rng(1)))
        power = lambda name: np.mean(np.concatenate([x[int((a + 0.03) * S.RATE):int((b - 0.03) * S.RATE)] for n, a, b in u.spans if n in name and b - a > 0.08] or [np.ones(1)]) ** 2)
        assert power(["pause"]) < 0.05 * power(S.VOWELS)


def test_windows_of_a_longer_video():
    for motion in F.MOTIONS:
        whole = F.pose_track(motion, 200)
        assert not whole[0].any() and np.array_equal(whole[77:110], F.pose_track(motion, 33, 77))
    rng = np.random.default_rng(6)
    for motion in F.MOTIONS:
        assert len({F.caption(motion, rng, "en") for _ in range(100)}) >= 8 and len({F.caption(motion, rng, "zh") for _ in range(50)}) >= 4


def test_media(items, tmp_path):
    photo, wav = heldout.make_media(items[0], tmp_path, "000")
    with wave.open(wav) as w:
        assert (w.getframerate(), w.getnchannels(), w.getsampwidth(), w.getnframes()) == (16000, 1, 2, 16000 * SECONDS)
    image = pytest.importorskip("PIL.Image").open(photo)
    first = draw(items[0], np.float32([[0, 0.5]] * FRAMES))[0]
    assert image.size == (128, 128) and np.array_equal(np.asarray(image), first)
    late, soon = heldout.speech_of(items[0], late=5), heldout.speech_of(items[0])
    assert not late[:3200].any() and np.array_equal(late[3200:], soon[:-3200])


def test_folders_of_frames(clips, tmp_path):
    pytest.importorskip("PIL")
    for k in range(12):
        heldout.write_png(tmp_path / f"{k + 1:04d}.png", clips[1][k])
    assert np.array_equal(reading.load(str(tmp_path)), clips[1][:12])


def test_command_line(items, clips, tmp_path):
    made = tmp_path / "set.json"
    made.write_text(json.dumps(items[:2]))
    run = lambda *more: subprocess.run([sys.executable, os.path.join(FOLDER, "judge.py"), "--set", made, "--videos", tmp_path, *more], capture_output=True, text=True)
    assert "expected 000.mp4" in run().stderr
    for i in range(2):
        np.save(tmp_path / f"{i:03d}.npy", clips[i])
    good = run("--json")
    assert good.returncode == 0 and json.loads(good.stdout)["table"]["clips"] == 2
    np.save(tmp_path / "001.npy", np.repeat(clips[1][:1], FRAMES, 0))
    bad = run()
    assert bad.returncode == 1 and "MISSED" in bad.stdout and run("--no-limits").returncode == 0
