"""A programmatic judge that reads colour, shape, count and motion of the objects in a decoded clip. It knows the world, not the model.

    python3 judge.py --set heldout.json --videos DIR     # DIR/000.npy (or .mp4, or a folder 000/ of PNG frames), one per caption
    python3 judge.py VIDEO                               # says what it sees

A clip is uint8 [frames, height, width, 3]. Objects are the strongly coloured regions: backgrounds are pale by day and dark by
night, never saturated. Each object is followed through the clip; its colour is the nearest of the palette in brightness-free
RGB, its shape the best overlap with rotated silhouettes, its motion is read from centre, size and outline over time.
"""
import argparse
import itertools
import json
import math
import sys

import numpy as np

from judging import load, path_of, share
from shapes import SHAPES, layers

CHROMA = 78        # max - min of RGB from which a pixel belongs to an object
MIN_AREA = 40      # pixels of a 128 x 128 frame
GRID = 40          # silhouettes are compared on GRID x GRID
ROUND = ("circle", "ring")
COLOURS = {"red": (228, 34, 40), "orange": (250, 138, 16), "yellow": (252, 220, 40), "green": (34, 170, 66),
           "cyan": (20, 196, 206), "blue": (36, 92, 232), "purple": (138, 54, 204), "pink": (252, 110, 182)}
ATTRIBUTES = ["count", "colour", "shape", "motion"]


def components(mask):
    """Returns the connected regions (8 neighbours) of each frame of mask [F, H, W]: int labels, 0 outside."""
    f, h, w = mask.shape
    lab = np.where(mask, np.arange(1, h * w + 1).reshape(1, h, w), 0)
    while True:  # the largest label spreads along rows, columns and diagonals
        old = lab
        p = np.pad(lab, ((0, 0), (1, 1), (1, 1)))
        lab = np.max([p[:, a:a + h, b:b + w] for a in range(3) for b in range(3)], axis=0)
        lab = np.where(mask, lab, 0)
        # jump: each region takes the label that the pixel with its label's number has now
        flat = np.concatenate([np.zeros((f, 1), lab.dtype), lab.reshape(f, -1)], 1)
        lab = np.take_along_axis(flat, lab.reshape(f, -1), 1).reshape(f, h, w)
        lab = np.maximum(lab, np.where(mask, old, 0))
        if np.array_equal(lab, old):
            return lab


def canonical(mask):
    """Returns a mask [H, W] moved to its centre, scaled to unit area and sampled on GRID x GRID, as bools."""
    ys, xs = np.nonzero(mask)
    s = math.sqrt(len(xs)) * 2.0 / GRID
    g = (np.arange(GRID) + 0.5 - GRID / 2) * s
    iy, ix = np.round(ys.mean() + g).astype(int), np.round(xs.mean() + g).astype(int)
    ok = ((iy >= 0) & (iy < mask.shape[0]))[:, None] & ((ix >= 0) & (ix < mask.shape[1]))[None]
    return mask[np.clip(iy, 0, mask.shape[0] - 1)][:, np.clip(ix, 0, mask.shape[1] - 1)] & ok


def _bank():
    """Returns the silhouettes of all shapes: (bool [n, GRID * GRID], shape index [n])."""
    g = (np.arange(160) + 0.5) / 80 - 1
    y, x = g[:, None] * 1.25, g[None] * 1.25
    rows, names = [], []
    for k, name in enumerate(SHAPES):
        seen = [0.0] if name in ROUND else np.arange(0, 360, 9)
        for deg, flip, wag in itertools.product(seen, (1, -1) if name in ("fish", "bird") else (1,), (-1, 0, 1) if name == "fish" else (0,)):
            a = math.radians(deg)
            u, v = (x * math.cos(a) + y * math.sin(a)) * flip, y * math.cos(a) - x * math.sin(a)
            d, _, white, black = layers(np, k, u, v, np.full_like(u, wag))
            solid = d < 0
            for hole in (white, black):  # eyes and beaks have no colour; enclosed ones are filled in again by `fill`
                if hole is not None:
                    solid &= hole > 0
            rows.append(canonical(fill(solid)).ravel())
            names.append(k)
    return np.array(rows), np.array(names)


def fill(mask):
    """Fills small holes (eyes) of a mask [H, W], but leaves the hole of a ring."""
    p = np.pad(~mask, 1, constant_values=True)[None]
    lab = components(p)[0]
    area = mask.sum()
    ids, n = np.unique(lab[lab > 0], return_counts=True)
    small = ids[(n < 0.09 * area) & (ids != lab[0, 0])]
    return mask | np.isin(lab, small)[1:-1, 1:-1]


_cache = {}


def shape_of(masks):
    """Returns the shape that overlaps best with several masks [H, W] of one object: (name, mean overlap 0..1)."""
    if not _cache:
        _cache["rows"], _cache["names"] = _bank()
        _cache["area"] = _cache["rows"].sum(1)
    rows, names = _cache["rows"].astype(np.float32), _cache["names"]
    total = np.zeros(len(SHAPES))
    for m in masks:
        c = canonical(m).ravel().astype(np.float32)
        inter = rows @ c
        iou = inter / (_cache["area"] + c.sum() - inter)
        total += [iou[names == k].max() for k in range(len(SHAPES))]
    return SHAPES[int(total.argmax())], float(total.max() / len(masks))


def colour_of(pixels):
    """Returns the palette colour nearest to most of the pixels [n, 3] (0..255), in RGB over its maximum."""
    p = pixels / pixels.max(1, keepdims=True)
    ref = np.array([np.array(c) / max(c) for c in COLOURS.values()])
    votes = np.bincount(((p[:, None] - ref[None]) ** 2).sum(2).argmin(1), minlength=len(ref))
    return list(COLOURS)[int(votes.argmax())]


def motion_of(track):
    """Returns left, right, up, down, bounce, grow, shrink, spin or still, from (x, y, area, mask) per frame; the frame is 128 wide."""
    x, y, area = (np.array([t[k] for t in track], float) for k in range(3))
    r = np.sqrt(area / math.pi)
    ends = lambda s: s[-3:].mean() - s[:3].mean()
    dx, dy, size = ends(x), ends(y), np.log(r[-3:].mean() / r[:3].mean())
    swing = y.max() - y.min()
    turns = int((np.diff(np.sign(np.diff(np.convolve(y, np.ones(3) / 3, "valid")))) != 0).sum())
    if swing > 16 and abs(dy) < 0.45 * swing and abs(dx) < 20:
        return "bounce"
    if max(abs(dx), abs(dy)) > 22:
        return ("right" if dx > 0 else "left") if abs(dx) > abs(dy) else ("down" if dy > 0 else "up")
    if abs(size) > 0.30:
        return "grow" if size > 0 else "shrink"
    masks = [canonical(t[3]).ravel() for t in track[::2]]
    overlap = [(masks[0] & m).sum() / max(1, (masks[0] | m).sum()) for m in masks]
    return "spin" if min(overlap) < 0.80 and swing < 16 and turns < 40 else "still"


def regions(clip):
    """Returns (the clip at the judge's size as int16, its chroma, and for each frame its coloured regions, the largest first: (x, y, pixels, mask))."""
    step = max(1, clip.shape[1] // 128)
    clip = clip[:, ::step, ::step].astype(np.int16)
    chroma = clip.max(3) - clip.min(3)
    lab = components(chroma >= CHROMA)
    frames = []
    for f in range(len(clip)):
        ids, n = np.unique(lab[f][lab[f] > 0], return_counts=True)
        found = []
        for i in ids[n >= MIN_AREA]:
            m = lab[f] == i
            ys, xs = np.nonzero(m)
            found.append((xs.mean(), ys.mean(), len(xs), m))
        frames.append(sorted(found, key=lambda t: -t[2]))
    return clip, chroma, frames


def look(clip):
    """Returns what the judge sees in a clip, uint8 [F, H, W, 3]: {"count", "time", "objects": [{colour, shape, motion, x, y, fit}]}."""
    clip, chroma, frames = regions(clip)
    counts = np.array([len(r) for r in frames])
    count = int(np.bincount(counts).argmax())
    # follow each object from a frame with the usual number of objects to the nearest centre of similar colour
    tracks = []
    start = next((f for f in range(len(frames)) if counts[f] == count), 0)
    tint = lambda f, t: np.median(clip[f][t[3]], axis=0) / 255
    for first in frames[start][:count]:
        path, last, hue = [], first, tint(start, first)
        for f in range(start, len(frames)):
            best = min(frames[f], default=None,
                       key=lambda t: math.hypot(t[0] - last[0], t[1] - last[1]) / 20 + 3 * np.abs(tint(f, t) - hue).sum())
            if best is not None:
                path.append((f, best))
                last = best
        tracks.append(path)
    objects = []
    for path in tracks:
        track = [t for _, t in path]
        pick = path[::4]
        pixels = np.concatenate([clip[f][t[3]] for f, t in pick])
        shape, fit = shape_of([fill(t[3]) for _, t in pick])
        objects.append({"colour": colour_of(pixels), "shape": shape, "motion": motion_of([(*t[:3], fill(t[3])) for t in track]),
                        "x": float(np.mean([t[0] for t in track])), "y": float(np.mean([t[1] for t in track])), "fit": round(fit, 3)})
    dark = clip[chroma < CHROMA].mean() < 110
    return {"count": count, "time": "night" if dark else "day", "objects": objects}


def score(seen, scene):
    """Returns {attribute: (right, asked)} for what was seen of a scene (dict or Scene), under the best pairing of objects."""
    want = scene["objects"] if isinstance(scene, dict) else [vars(o) for o in scene.objects]
    asked = {k: len(want) for k in ATTRIBUTES[1:]} | {"count": 1}
    best = None
    for perm in itertools.permutations(list(range(len(seen["objects"]))) + [None] * len(want), len(want)):
        got = {k: sum(i is not None and seen["objects"][i][k] == w[k] for i, w in zip(perm, want)) for k in ATTRIBUTES[1:]}
        if best is None or sum(got.values()) > sum(best.values()):
            best = got
    best["count"] = int(seen["count"] == len(want))
    return {k: (best[k], asked[k]) for k in ATTRIBUTES}


def table(scores):
    """Sums a list of scores: {attribute or "all": per cent, "clips": n, "perfect": per cent of clips with everything right}."""
    out = {"clips": len(scores)}
    for k in ATTRIBUTES:
        out[k] = share([s[k] for s in scores])
    out["all"] = share([s[k] for s in scores for k in ATTRIBUTES])
    out["perfect"] = round(100 * sum(all(a == b for a, b in s.values()) for s in scores) / max(1, len(scores)), 2)
    return out


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("video", nargs="?")
    a.add_argument("--set", help="JSON list of {caption, scene}")
    a.add_argument("--videos", help="folder of clips named 000, 001, ... as .npy, .mp4 or folders of PNG frames")
    a.add_argument("--json", help="write the result here")
    args = a.parse_args()
    if args.video:
        print(json.dumps(look(load(args.video)), indent=1))
        return
    items, scores, misses = json.load(open(args.set, encoding="utf-8")), [], []
    for i, item in enumerate(items):
        path = path_of(args.videos, i)
        if path is None:
            continue
        seen = look(load(path))
        scores.append(score(seen, item["scene"]))
        if any(a != b for a, b in scores[-1].values()):
            misses.append({"index": i, "caption": item["caption"], "seen": seen})
    result = table(scores)
    print(json.dumps(result))
    for m in misses:
        print(f"{m['index']:03d} {m['caption']} -> {m['seen']['count']}: " +
              ", ".join(f"{o['colour']} {o['shape']} {o['motion']} ({o['fit']})" for o in m["seen"]["objects"]))
    if args.json:
        json.dump({"table": result, "misses": misses}, open(args.json, "w", encoding="utf-8"), ensure_ascii=False, indent=1)


if __name__ == "__main__":
    sys.exit(main())
