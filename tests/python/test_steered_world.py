"""The drawn plane that answers to keys and mouse, its judge, and the two ways its network runs. Needs numpy and torch."""
import importlib
import os
import sys

import numpy as np
import pytest

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "training", "steer")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cpu
OURS = ("plane", "heldout", "judge", "net")


@pytest.fixture(scope="module", autouse=True)
def modules():
    """Training's folders have files of the same names: ours are seen here alone."""
    before, threads = {n: sys.modules.pop(n, None) for n in OURS}, torch.get_num_threads()
    sys.path.insert(0, FOLDER)
    torch.set_num_threads(1)  # the pictures are small: threads would mostly wait for each other
    made = {n: importlib.import_module(n) for n in OURS}
    yield made
    sys.path.remove(FOLDER)
    torch.set_num_threads(threads)
    for n in OURS:
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
