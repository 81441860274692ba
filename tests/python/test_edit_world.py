"""Tests the judge of training/edit on the renderer's own clips, on clips that are wrong, and the control's latents' inputs. Needs numpy and torch."""
import importlib
import os
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
TRAINING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "training")
OURS = ("judging", "controls", "heldout", "judge_edit")
OTHERS = ("net", "judge", "world", "shapes", "captions", "vae")

pytestmark = pytest.mark.cpu


@pytest.fixture(scope="module", autouse=True)
def modules():
    """Training's folders have files of the same names, so only the ones imported here are visible."""
    names, folders = (*OURS, *OTHERS), [os.path.join(TRAINING, "edit"), TRAINING]
    before, threads = {n: sys.modules.pop(n, None) for n in names}, torch.get_num_threads()
    sys.path[:0] = folders
    torch.set_num_threads(1)  # the pictures are small: threads would mostly wait for each other
    globals().update({n: importlib.import_module(n) for n in OURS})
    yield
    for folder in folders:
        sys.path.remove(folder)
    torch.set_num_threads(threads)
    for n in names:
        sys.modules.pop(n, None)
        if before[n] is not None:
            sys.modules[n] = before[n]


@pytest.fixture(scope="module")
def items(modules):
    return [(i, heldout.media(i)) for i in heldout.items(1)]


def test_judge_accepts_the_renderer(items):
    scores = [judge_edit.score(i, m["truths"][0], m, m["truths"][0]) for i, m in items]
    table = judge_edit.table([i["task"] for i, _ in items], scores)
    assert set(judge_edit.LIMITS) <= set(table)
    assert not judging.misses(table, judge_edit.LIMITS), table
    assert all(table[f"{t} position"] == 100 for t in judge_edit.POSITIONS)


def test_judge_sees_what_is_wrong(items):
    moved = [judge_edit.score(i, np.roll(m["truths"][0], 8, 2), m) for i, m in items if i["task"] == "depth"]
    assert max(s["position"][0] for s in moved) < 0.5 * moved[0]["position"][1]
    for item, m in (x for x in items if x[0]["task"] == "inpaint"):
        left = judge_edit.score(item, m["control"], m, m["truths"][0])  # the object that was there
        assert left["attributes"][0] < left["attributes"][1]
        noisy = (m["truths"][0].astype(np.int16) + np.random.default_rng(1).integers(-20, 21, m["truths"][0].shape)).clip(0, 255).astype(np.uint8)
        trip = (m["truths"][0].astype(np.int16) + np.random.default_rng(2).integers(-5, 6, m["truths"][0].shape)).clip(0, 255).astype(np.uint8)
        assert 10 < judge_edit.score(item, noisy, m, trip)["kept"] < 14
    for item, m in (x for x in items if x[0]["task"] == "drawn"):
        nothing = judge_edit.score(item, m["control"], m)
        assert nothing["position"][0] == 0


def test_masks_lie_where_the_objects_do(items):
    for item, m in items:
        if "mask" in m:
            changed = (m["truths"][0] != m["control"]).any(3)
            assert changed.any() and not (changed & ~m["mask"]).any(), item["caption"]


def test_mask_channels_are_those_of_the_pipeline():
    mask = torch.from_numpy(np.random.default_rng(3).random((1, 1, 33, 128, 128)) < 0.5)
    m = mask[0, 0].float().view(33, 16, 8, 16, 8).permute(2, 4, 0, 1, 3).flatten(0, 1)
    want = torch.nn.functional.interpolate(m.unsqueeze(0), size=(9, 16, 16), mode="nearest-exact")
    assert torch.equal(controls.folded(mask, 9).float(), want)
