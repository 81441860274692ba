"""Tests the judge on the renderer's own clips, the split and the captions. Needs numpy and torch."""
import os
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "training"))
torch = pytest.importorskip("torch")
import judge  # noqa: E402
import world  # noqa: E402

pytestmark = pytest.mark.cpu


def clips(scenes):
    v = world.render(torch.from_numpy(world.pack(scenes)), torch)
    return torch.round((v + 1) * 127.5).clamp(0, 255).byte().permute(0, 2, 3, 4, 1).numpy()


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_judge_reads_the_renderer(split):
    rng = np.random.default_rng(11)
    scenes = [world.sample_scene(rng, split) for _ in range(8)]
    table = judge.table([judge.score(judge.look(c), s) for c, s in zip(clips(scenes), scenes)])
    assert table["all"] >= 99


def test_splits_are_disjoint():
    rng = np.random.default_rng(12)
    assert not any(world.held_out(o) for _ in range(300) for o in world.sample_scene(rng).objects)
    items = world.heldout_set(240)
    assert all(any(world.held_out(world.Object(**o)) for o in i["scene"]["objects"]) for i in items)
    assert len({i["caption"] for i in items}) == 240


def test_palette_is_shared():
    assert judge.COLOURS == world.COLOURS


def test_empty_clip_has_no_objects():
    assert judge.look(np.full((33, 128, 128, 3), 200, np.uint8))["count"] == 0
