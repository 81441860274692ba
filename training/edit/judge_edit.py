"""Judges clips that follow something: where objects are, what they are, and whether what the mask leaves alone is left alone. It knows the world, not
the model, and needs numpy only.

    position    share of frames in which each object's centre lies within NEAR pixels of where the renderer draws it
    attributes  count, colour, shape and motion as ../judge.py reads them; with a reference picture they say whether it was recognised
    kept        how many dB what the mask leaves alone is further from the video that was given than the autoencoder's round trip is"""
import os
import sys

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import judge  # noqa: E402
import judging  # noqa: E402

NEAR = 3.0
NAMED = {"depth": "depth video", "inpaint": "inpainting", "drawn": "drawn mask", "reference": "reference", "placed": "reference at a drawn mask"}
POSITIONS = ("depth", "inpaint", "drawn", "placed")
MASKED = ("inpaint", "drawn", "placed")
LIMITS = {f"{t} position": (">=", 95, f"{NAMED[t]}: frames with each object within 3 pixels, %") for t in POSITIONS}
LIMITS |= {f"{t} attributes": (">=", 95, f"{NAMED[t]}: attributes right, %") for t in NAMED}
LIMITS |= {f"{t} kept": ("<=", 1.0, f"{NAMED[t]}: dB below the autoencoder's round trip where nothing is masked") for t in MASKED}


def centres(clip):
    """Returns for each frame of a clip, uint8 [F, H, W, 3], the centres of its coloured objects, [n, 2]."""
    return [np.array([r[:2] for r in frame], np.float64).reshape(-1, 2) for frame in judge.regions(clip)[2]]


def followed(seen, truth):
    """Returns for each frame whether every centre of `truth` has one of `seen` within NEAR pixels."""
    near = lambda a, b: len(a) > 0 and bool((np.sqrt(((a[:, None] - b[None]) ** 2).sum(2)).min(0) <= NEAR).all())
    return [near(a, b) for a, b in zip(seen, truth)]


def loss(clip, given, mask):
    """Returns the mean squared error of a clip to the video given, where the mask [F, H, W] is black."""
    d = (clip.astype(np.float32) - given.astype(np.float32)) ** 2
    return float(d[~mask].mean())


def decibels(error):
    return 10 * np.log10(255**2 / max(error, 1e-9))


def score(item, clip, media, trip=None):
    """Returns the measures of one clip of an item (heldout.py) with its media: {"position": (right, frames), "attributes": (right, asked), "kept": dB}.
    trip: the clip that should come out, uint8, through the autoencoder and back."""
    task, out = item["task"], {}
    read = judge.score(judge.look(clip), item["scene"])
    out["attributes"] = tuple(sum(v[k] for v in read.values()) for k in (0, 1))
    out["wrong"] = [k for k, (a, b) in read.items() if a != b]
    if task in POSITIONS:
        seen = centres(clip)
        out["position"] = (max(sum(followed(seen, centres(t))) for t in media["truths"]), len(seen))
    if task in MASKED and trip is not None:
        given = media["control"]
        out["kept"] = decibels(loss(trip, given, media["mask"])) - decibels(loss(clip, given, media["mask"]))
    return out


def table(tasks, scores):
    """Sums scores of items of `tasks`: the measures of LIMITS, and the number of clips of each task."""
    out = {}
    for task in dict.fromkeys(tasks):
        mine = [s for t, s in zip(tasks, scores) if t == task]
        out[f"{task} clips"] = len(mine)
        for k in ("position", "attributes"):
            if k in mine[0]:
                out[f"{task} {k}"] = judging.share([s[k] for s in mine])
        if "kept" in mine[0]:
            out[f"{task} kept"] = round(float(np.mean([s["kept"] for s in mine])), 2)
    return out
