"""A programmatic judge of talking photos: what the mouth does, who is there, how the head moves. It knows the world, not the model.

    python3 training/talker/judge.py --set heldout.json --videos DIR   # DIR/000.mp4 (ffmpeg), 000.npy, or folders 000/ of PNG frames (Pillow)
        [--limit N] [--json] [--no-limits] [--speech as-is|late|silent]      # late: speech 5 frames late; silent: no speech (heldout.py makes both)

The head's pose is followed from frame to frame by least squares against the first frame, mouth and eyes left out. In the head's own
coordinates each pixel around the mouth is a mixture of skin, lips and the mouth's inside; the sum of the inside's shares down the middle
is how far the mouth is open, their sum over all is its area, hence its width. Sums of shares do not change when a picture is blurred.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np

import faces as F
import speech as S

CLOSED = 0.12            # a mouth open less than this is closed
WINDOW, STEP = 33, 24    # a model's windows: seams lie before frames 33, 57, 81, ...
LATE = 5                 # frames, of the late speech
ATTRIBUTES = ["skin", "hair", "eyes", "shirt", "background", "glasses"]
# measure: (which way, limit, what it is)
LIMITS = {
    "correlation": (">=", 0.93, "mouth opening against truth, correlation, median"),
    "correlation_5": (">=", 0.85, "the same, 5th percentile"),
    "lag": (">=", 99, "lag of at most 1 frame, % of clips"),
    "pauses": (">=", 97, "pauses of 200 ms and more closed, % of frames"),
    "closures": (">=", 92, "m and p closed, %"),
    "vowels": (">=", 92, "vowel of 5, %"),
    "palette": (">=", 99, "palette attributes right, % of frames"),
    "drift": ("<=", 4, "drift from the first to the last window, 95th percentile, of 255"),
    "seam": ("<=", 2, "jump at seams over the median jump, median"),
    "motion": (">=", 95, "head motion as asked, %"),
    "shuffled": ("<=", 0.3, "correlation with another clip's speech, median"),
}
LIMITS_LATE = {"late": (">=", 99, f"lag of {LATE} frames, 1 more or less, % of clips")}
LIMITS_SILENT = {"silent": (">=", 97, "mouth closed, % of frames"), "palette": LIMITS["palette"], "motion": LIMITS["motion"]}


@dataclass
class Reading:
    """What the judge sees, per frame: opening and width of the mouth (0..1; width NaN where closed), pose (right, down, degrees), eyelids
    (0 open .. 1 closed), names of attributes ("" where they cannot be seen; hair "bald"); and over the clip: motion, jumps, drift."""
    opening: np.ndarray
    width: np.ndarray
    pose: np.ndarray
    lids: np.ndarray
    names: dict
    motion: str
    jumps: np.ndarray
    drift: float


# ---------------------------------------------------------------------------------------------------------------- pictures and coordinates
def load(path):
    """A clip from .npy, a folder of PNG frames, or a video file (through ffmpeg): uint8 [frames, height, width, 3]."""
    if path.endswith(".npy"):
        return np.load(path)
    if os.path.isdir(path):
        from PIL import Image
        return np.stack([np.asarray(Image.open(n).convert("RGB")) for n in sorted(glob.glob(os.path.join(path, "*.png")))])
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{F.SIZE}x{F.SIZE}", "-"],
                         check=True, capture_output=True)
    return np.frombuffer(raw.stdout, np.uint8).reshape(-1, F.SIZE, F.SIZE, 3)


def sample(frames, x, y):
    """Bilinear samples of frames [T, H, W, 3] at pixel coordinates x, y [T, n] (centres at halves): float32 [T, n, 3]."""
    t, h, w, _ = frames.shape
    x, y = np.clip(x - 0.5, 0, w - 1.001), np.clip(y - 0.5, 0, h - 1.001)
    i, j = y.astype(np.int64), x.astype(np.int64)
    a, b = (y - i)[..., None].astype(np.float32), (x - j)[..., None].astype(np.float32)
    flat = frames.reshape(t * h * w, 3)
    k = (np.arange(t)[:, None] * h + i) * w + j
    top = flat[k] + (flat[k + 1].astype(np.float32) - flat[k]) * b
    low = flat[k + w] + (flat[k + w + 1].astype(np.float32) - flat[k + w]) * b
    return top + (low - top) * a


def place(pose, u, v):
    """Where points (u, v) [n] of the head lie in the picture at poses [T, 3]: x, y [T, n]."""
    r = np.radians(pose[:, 2:3])
    c, s = np.cos(r), np.sin(r)
    w = v - F.PIVOT
    return F.CENTRE[0] + pose[:, :1] + c * u - s * w, F.CENTRE[1] + F.PIVOT + pose[:, 1:2] + s * u + c * w


def blur(frames):
    """A 5 x 5 box, twice: float32."""
    x = frames.astype(np.float32)
    for axis in (1, 2, 1, 2):
        p = np.pad(x, [(2, 2) if k == axis else (0, 0) for k in range(4)], mode="edge")
        n = x.shape[axis]
        x = sum(np.take(p, np.arange(d, d + n), axis) for d in range(5)) / 5
    return x


def grid(u0, u1, v0, v1, step=1.0):
    u, v = np.meshgrid(np.arange(u0, u1 + 1e-6, step), np.arange(v0, v1 + 1e-6, step))
    return u.ravel(), v.ravel()


# ---------------------------------------------------------------------------------------------------------------- reading
def follow(frames):
    """Poses [T, 3] (right, down, degrees) relative to the first frame, which is taken as neutral: inverse compositional least squares."""
    soft = blur(frames)
    u, v = grid(-40, 40, -54, 18, 2.0)
    au = np.abs(u)
    keep = ~((au < 24) & (v > 5)) & ~((np.abs(au - 13) < 9) & (np.abs(v - F.EYE_Y) < 7.5)) & (np.hypot(u / 42, (v + 8) / 48) < 1)
    u, v = u[keep], v[keep]
    at = lambda t, q, du=0.0, dv=0.0: sample(soft[t:t + 1], *place(q[None], u + du, v + dv))[0]
    zero = np.zeros(3)
    base = at(0, zero)
    gu, gv = (at(0, zero, 0.5) - at(0, zero, -0.5)), (at(0, zero, 0, 0.5) - at(0, zero, 0, -0.5))
    w = v - F.PIVOT
    jac = np.stack([gu, gv, gv * u[:, None] - gu * w[:, None]], -1).reshape(-1, 3)  # by a step right, down, and a turn in radians
    solve = np.linalg.inv(jac.T @ jac + np.eye(3)) @ jac.T
    out, q, speed = np.zeros((len(frames), 3)), zero, zero
    for t in range(1, len(frames)):
        q, before = q + 0.7 * speed, q
        for _ in range(8):
            d = solve @ (at(t, q) - base).ravel()
            a = np.radians(q[2] - np.degrees(d[2]))  # the pose composed with the inverse of the template's step
            c, s = np.cos(a), np.sin(a)
            q = np.array([q[0] - (c * d[0] - s * d[1]), q[1] - (s * d[0] + c * d[1]), np.degrees(a)])
            if np.abs(d).max() < 0.01:
                break
        q = np.clip(q, -30, 30)
        speed, out[t] = q - before, q
    return out


def _nearest(pixels, table, extra=None):
    """Names [T] of the colours of a table (and of extra ones per frame, {name: [T, 3]}) nearest to pixels [T, 3]."""
    names, ref = list(table), np.array(list(table.values()), np.float32)
    d = np.sqrt(((pixels[:, None] - ref[None]) ** 2).sum(2))
    for name, colour in (extra or {}).items():
        names.append(name)
        d = np.concatenate([d, np.sqrt(((pixels - colour) ** 2).sum(1))[:, None]], 1)
    return np.array(names)[d.argmin(1)]


def _mouth(frames, pose, skin, shape):
    """Opening and width [T] of the mouth: shares of skin, lips and inside in each pixel, by least squares."""
    u, v = grid(-24, 24, 7.5, 31.5)
    w, h = shape["head_width"], shape["head_height"]
    keep = (np.hypot(u / (w - 2), v / (h - 2)) < 1) & (np.hypot(u / (w - 4), (v - 8) / (h - 6)) < 1)
    u, v = u[keep], v[keep]
    p = sample(frames, *place(pose, u, v + shape["mouth_y"]))
    lips, inside = (np.array(c, np.float32) - skin for c in (F.LIPS, F.MOUTH))          # [T, 3]
    m = np.stack([lips, inside], 2)                                                     # [T, 3, 2]
    share = ((p - skin[:, None]) @ (np.linalg.pinv(m)).transpose(0, 2, 1))[..., 1]     # [T, n]
    share = np.clip(share, -0.3, 1.3)
    middle = np.abs(u) <= 3
    tall = share[:, middle].sum(1) / 7
    area = share.sum(1)
    half = np.maximum(tall / 2, 1e-3)
    wide = np.clip(area / (np.pi * half), 5, 25)
    for _ in range(2):  # the middle columns are a little lower than the very middle
        half = np.maximum(tall / 2, 1e-3) / np.sqrt(1 - (np.arange(-3, 4)[None] / wide[:, None]) ** 2).mean(1)
        wide = np.clip(area / (np.pi * half), 5, 25)
    opening = np.clip(np.where(tall > 0, half, 0) / F.HALF_HEIGHT, 0, 1.2)
    width = (wide - F.HALF_WIDTH[0]) / F.HALF_WIDTH[1]
    return opening, np.where(opening >= CLOSED, np.clip(width, -0.3, 1.3), np.nan)


def _eyes(frames, pose, skin, distance):
    """(eyelids [T], colour of the iris [T, 3])."""
    e, f = grid(-6, 6, -4, 4)
    keep = np.hypot(e / 6.4, f / 4.6) < 1
    e, f = e[keep], f[keep]
    u, v = np.concatenate([e - distance, e + distance]), np.concatenate([f, f]) + F.EYE_Y
    p = sample(frames, *place(pose, u, v))
    lid = 0.90 * skin[:, None] - p[:1]
    lids = ((p - p[:1]) * lid).sum((1, 2)) / np.maximum((lid ** 2).sum((1, 2)), 1)
    a = np.arange(16) * (np.pi / 8)
    a = np.concatenate([a, a])
    side = np.repeat([-distance, distance], 16)
    ring = [sample(frames, *place(pose, side + r * np.cos(a), F.EYE_Y + r * np.sin(a))) for r in (2.9, 3.3)]
    return np.clip(lids, 0, 1.2), np.median(np.concatenate(ring, 1), axis=1)


def _glasses(frames, pose, skin, distance):
    """none, round or square [T]: the dark line below the eyes beside what each would draw."""
    e, f = grid(-9, 9, 6.5, 12)
    p = sample(frames, *place(pose, np.concatenate([e - distance, e + distance]), np.concatenate([f, f]) + F.EYE_Y))
    line = np.array(F.FRAME, np.float32) - skin
    dark = ((p - skin[:, None]) @ line[:, :, None])[..., 0] / (line ** 2).sum(1)[:, None]
    errors = [(dark ** 2).mean(1)]
    for name in F.GLASSES[1:]:
        rx, ry, r, thick = F.GLASSES_SHAPES[name]
        a, b = np.abs(e) - rx + r, np.abs(f) - ry + r
        d = np.hypot(np.maximum(a, 0), np.maximum(b, 0)) + np.minimum(np.maximum(a, b), 0) - r
        mask = np.clip(0.5 - (np.abs(d) - thick), 0, 1)
        errors.append(((dark - np.concatenate([mask, mask])[None]) ** 2).mean(1))
    return np.array(F.GLASSES)[np.argmin(errors, 0)]


def _motion(pose, lids):
    """still, nod, shake, tilt, blink, or "several"."""
    half = (np.percentile(pose, 96, axis=0) - np.percentile(pose, 4, axis=0)) / 2
    strength = {"shake": half[0] / F.SHAKE, "nod": half[1] / F.NOD, "tilt": half[2] / F.TILT, "blink": float(lids[1:].max(initial=0))}
    strong = [k for k, s in strength.items() if s > 0.45]
    return "still" if not strong else strong[0] if len(strong) == 1 else "several"


STATIC = np.zeros((F.SIZE, F.SIZE), bool)  # pixels where nothing moves
STATIC[:92, :13] = STATIC[:92, -13:] = STATIC[114:, 44:84] = True
CALM = np.ones((F.SIZE, F.SIZE), bool)     # pixels that change with the head alone
CALM[40:104, 34:94] = False


def read_clip(frames, face=None):
    """Reads a clip, uint8 [T, 128, 128, 3]. A Face given calibrates by its geometry; otherwise by that of an average face."""
    mean = {"head_width": 28.0, "head_height": 34.5, "eye_distance": 13.0, "mouth_y": 0.0}
    shape = mean if face is None else {k: getattr(face, k) for k in mean}
    pose = follow(frames)
    patch = lambda *box: np.median(sample(frames, *place(pose, *map(np.concatenate, zip(*[grid(*b) for b in box])))), axis=1)
    skin = patch((-21, -17, 7.5, 12), (17, 21, 7.5, 12))
    top = 1.5 - shape["head_height"]
    hair = patch((-8, 8, top, top + 6))
    opening, width = _mouth(frames, pose, skin, shape)
    lids, iris = _eyes(frames, pose, skin, shape["eye_distance"])
    flat = frames.reshape(len(frames), -1, 3).astype(np.float32)
    region = lambda rows, cols: np.median(frames[:, rows, cols].reshape(len(frames), -1, 3), axis=1)
    names = {"skin": _nearest(skin, F.SKINS), "hair": _nearest(hair, F.HAIRS, {"bald": skin}),
             "eyes": np.where(lids < 0.25, _nearest(iris, F.EYES), ""),
             "shirt": _nearest(region(slice(115, 128), slice(46, 82)), F.SHIRTS),
             "background": _nearest(np.median(flat[:, STATIC.ravel() & (np.arange(F.SIZE ** 2) < 92 * F.SIZE)], axis=1), F.BACKGROUNDS),
             "glasses": _glasses(frames, pose, skin, shape["eye_distance"])}
    jumps = np.abs(np.diff(flat[:, CALM.ravel()], axis=0)).mean((1, 2))
    still = flat[:, STATIC.ravel()]
    drift = float(np.abs(still[:WINDOW].mean(0) - still[-WINDOW:].mean(0)).mean())
    return Reading(opening, width, pose, lids, names, _motion(pose, lids), jumps, drift)


# ---------------------------------------------------------------------------------------------------------------- scoring
def correlate(a, b):
    """Pearson's correlation; 0 where one of both does not change."""
    a, b = a - a.mean(), b - b.mean()
    n = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / n) if n > 1e-6 else 0.0


def lag(seen, truth, reach=8):
    """By how many frames what is seen comes after the truth: the shift of the highest correlation."""
    def at(k):
        n = min(len(seen), len(truth))
        return correlate(seen[max(k, 0):n + min(k, 0)], truth[max(-k, 0):n - max(k, 0)])
    return max(range(-reach, reach + 1), key=at)


def _phones(reading, utterance, n):
    """(closed frames of long pauses, of), (closed m and p, of), (vowels right, of)."""
    at = (np.arange(n) + 0.5) / S.FPS
    pauses, closures, vowels = [0, 0], [0, 0], [0, 0]
    for name, a, b in utterance.spans:
        b = min(b, n / S.FPS)
        here = np.flatnonzero((at >= a) & (at < b))
        if len(here) == 0:
            continue
        if name == "pause" and b - a >= 0.2:
            inner = (at >= a + 2 / S.FPS) & (at < b - 2 / S.FPS)
            pauses = [pauses[0] + int((reading.opening[:n][inner] < CLOSED).sum()), pauses[1] + int(inner.sum())]
        elif name in S.LIPS:
            low = reading.opening[max(here[0] - 1, 0):min(here[-1] + 2, n)].min()
            closures = [closures[0] + int(low < CLOSED), closures[1] + 1]
        elif name in S.VOWELS and b - a >= 0.1:
            k = here[np.abs(at[here] - (a + b) / 2).argmin()]
            seen = np.array([reading.opening[k], np.nan_to_num(reading.width[k], nan=0.5)])
            vowels = [vowels[0] + int(S.VOWELS[((S.VOWEL_SHAPES - seen) ** 2).sum(1).argmin()] == name), vowels[1] + 1]
    return pauses, closures, vowels


def score(item, frames, other=None):
    """All measures of one clip of an item {face, motion, utterance}, as plain numbers; `other`: another utterance, for the shuffled control."""
    face, utterance = F.Face.of(item["face"]), S.Utterance.of(item["utterance"])
    r = read_clip(frames, face)
    n = min(len(frames), int(round(utterance.seconds * S.FPS)))
    truth, seen = S.mouth_track(utterance, n)[:, 0], r.opening[:n]
    pauses, closures, vowels = _phones(r, utterance, n)
    want = {"skin": face.skin, "hair": "bald" if face.style == "bald" else face.hair, "eyes": face.eyes, "shirt": face.shirt,
            "background": face.background, "glasses": face.glasses}
    palette = {k: [int((r.names[k] == want[k]).sum()), int((r.names[k] != "").sum())] for k in ATTRIBUTES}
    seams = r.jumps[WINDOW - 1::STEP]  # jumps[k] leads to frame k + 1
    return {"frames": n, "correlation": correlate(seen, truth), "lag": lag(seen, truth), "pauses": pauses, "closures": closures, "vowels": vowels,
            "palette": palette, "drift": r.drift, "seam": float(seams.mean() / max(np.median(r.jumps), 0.25)) if len(seams) else None,
            "motion": r.motion, "motion_right": r.motion == item["motion"], "closed": [int((r.opening < CLOSED).sum()), len(r.opening)],
            "shuffled": None if other is None else correlate(r.opening[:min(n, int(other.seconds * S.FPS))], S.mouth_track(other, n)[:int(other.seconds * S.FPS), 0])}


def aggregate(scores):
    """The table of a list of scores: {measure: value}, as LIMITS names them, and parts of it."""
    share = lambda pairs: round(100 * sum(a for a, _ in pairs) / max(1, sum(b for _, b in pairs)), 2)
    of = lambda k: [s[k] for s in scores if s[k] is not None]
    per = lambda values: round(100 * float(np.mean(values)), 2)
    out = {"clips": len(scores), "correlation": round(float(np.median(of("correlation"))), 4),
           "correlation_5": round(float(np.percentile(of("correlation"), 5)), 4),
           "lag": per([abs(k) <= 1 for k in of("lag")]), "late": per([abs(k - LATE) <= 1 for k in of("lag")]),
           "pauses": share(of("pauses")), "closures": share(of("closures")), "vowels": share(of("vowels")),
           "palette": share([p for s in scores for p in s["palette"].values()]),
           "palette_always": per([a == b for s in scores for a, b in s["palette"].values()]),
           "drift": round(float(np.percentile(of("drift"), 95)), 3), "motion": per(of("motion_right")), "silent": share(of("closed"))}
    out |= {f"palette_{k}": share([s["palette"][k] for s in scores]) for k in ATTRIBUTES}
    if of("seam"):
        out["seam"] = round(float(np.median(of("seam"))), 3)
    if of("shuffled"):
        out["shuffled"] = round(float(np.median(of("shuffled"))), 4)
    return out


def misses(table, limits):
    """The measures of a table that miss their limits; a measure that the table lacks is not missed."""
    return [k for k, (way, limit, _) in limits.items() if k in table and not (table[k] >= limit if way == ">=" else table[k] <= limit)]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--set", required=True, help="JSON list of items")
    a.add_argument("--videos", required=True, help="folder of clips 000, 001, ...: .mp4, .npy, or folders of PNG frames")
    a.add_argument("--limit", type=int, help="at most so many clips")
    a.add_argument("--speech", choices=["as-is", "late", "silent"], default="as-is", help="what the clips were made from")
    a.add_argument("--json", action="store_true", help="print JSON, with each clip's score")
    a.add_argument("--no-limits", action="store_true", help="exit with 0 whatever the figures")
    args = a.parse_args()
    items = json.load(open(args.set, encoding="utf-8"))[:args.limit]
    scores = []
    for i, item in enumerate(items):
        path = next((p for p in (os.path.join(args.videos, f"{i:03d}{e}") for e in (".npy", ".mp4", "")) if os.path.exists(p)), None)
        if path is not None:
            scores.append({"index": i, **score(item, load(path), S.Utterance.of(items[(i + 1) % len(items)]["utterance"]) if len(items) > 1 else None)})
    if not scores:
        sys.exit(f"no clips in {args.videos}: expected 000.mp4, 000.npy or 000/*.png")
    limits = {"as-is": LIMITS, "late": LIMITS_LATE, "silent": LIMITS_SILENT}[args.speech]
    table = aggregate(scores)
    missed = misses(table, limits)
    if args.json:
        print(json.dumps({"table": table, "missed": missed, "scores": scores}, indent=1))
    else:
        print(f"{len(scores)} of {len(items)} clips")
        for k, (way, limit, text) in limits.items():
            print(f"{text:<64} {table.get(k, '-'):>8}   {way} {limit}{'   MISSED' if k in missed else ''}")
    return 1 if missed and not args.no_limits else 0


if __name__ == "__main__":
    sys.exit(main())
