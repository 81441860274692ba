"""Reads from a clip of a talking photo how far the mouth is open, what the person looks like, and how the head moves. It knows the world, not the
model.

The head's pose is followed from frame to frame by least squares against the first frame, mouth and eyes left out. In the head's own
coordinates each pixel around the mouth is a mixture of skin, lips and the mouth's inside; the sum of the inside's shares down the middle
is how far the mouth is open, their sum over all pixels is its area, which gives its width. Sums of shares do not change when a picture is blurred.
"""
import os
import sys
from dataclasses import dataclass

import numpy as np

import faces as F

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import judging

CLOSED = 0.12  # a mouth open less than this is closed
WINDOW = 33    # frames of a model's window


@dataclass
class Reading:
    """The judge's reading of a clip. Per frame: opening and width of the mouth (0..1; width NaN where closed), pose (right, down, degrees), eyelids
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
    return judging.load(path, (F.SIZE, F.SIZE))


def sample(frames, x, y):
    """Returns bilinear samples of frames [T, H, W, 3] at pixel coordinates x, y [T, n] (centres at halves): float32 [T, n, 3]."""
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
    """Returns where points (u, v) [n] of the head lie in the picture at poses [T, 3]: x, y [T, n]."""
    r = np.radians(pose[:, 2:3])
    c, s = np.cos(r), np.sin(r)
    w = v - F.PIVOT
    return F.CENTRE[0] + pose[:, :1] + c * u - s * w, F.CENTRE[1] + F.PIVOT + pose[:, 1:2] + s * u + c * w


def blur(frames):
    """Blurs twice with a 5 x 5 box; returns float32."""
    x = frames.astype(np.float32)
    for axis in (1, 1, 2, 2):
        p = np.moveaxis(np.pad(x, [(2, 2) if k == axis else (0, 0) for k in range(4)], mode="edge"), axis, 0)
        n = x.shape[axis]
        out = p[:n] + p[1:n + 1]
        for d in range(2, 5):
            out += p[d:n + d]
        x = np.moveaxis(out, 0, axis)
    x = np.ascontiguousarray(x) / 625
    return x


def grid(u0, u1, v0, v1, step=1.0):
    u, v = np.meshgrid(np.arange(u0, u1 + 1e-6, step), np.arange(v0, v1 + 1e-6, step))
    return u.ravel(), v.ravel()


# ---------------------------------------------------------------------------------------------------------------- reading
def follow(frames):
    """Returns poses [T, 3] (right, down, degrees) relative to the first frame, which is taken as neutral, by inverse compositional least squares."""
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
    jac = np.stack([gu, gv, gv * u[:, None] - gu * w[:, None]], -1).reshape(-1, 3)  # derivatives by a step right, a step down, and a turn in radians
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
    """Returns the names [T] of the colours of a table (and of extra ones per frame, {name: [T, 3]}) nearest to pixels [T, 3]."""
    names, ref = list(table), np.array(list(table.values()), np.float32)
    d = np.sqrt(((pixels[:, None] - ref[None]) ** 2).sum(2))
    for name, colour in (extra or {}).items():
        names.append(name)
        d = np.concatenate([d, np.sqrt(((pixels - colour) ** 2).sum(1))[:, None]], 1)
    return np.array(names)[d.argmin(1)]


def _mouth(frames, pose, skin, shape):
    """Returns opening and width [T] of the mouth, from the shares of skin, lips and inside in each pixel by least squares."""
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
    for _ in range(2):  # the mean over the middle columns is a little lower than the opening at the very middle
        half = np.maximum(tall / 2, 1e-3) / np.sqrt(1 - (np.arange(-3, 4)[None] / wide[:, None]) ** 2).mean(1)
        wide = np.clip(area / (np.pi * half), 5, 25)
    opening = np.clip(np.where(tall > 0, half, 0) / F.HALF_HEIGHT, 0, 1.2)
    width = (wide - F.HALF_WIDTH[0]) / F.HALF_WIDTH[1]
    return opening, np.where(opening >= CLOSED, np.clip(width, -0.3, 1.3), np.nan)


def _eyes(frames, pose, skin, distance):
    """Returns (eyelids [T], colour of the iris [T, 3])."""
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
    """Returns none, round or square [T], by comparing the dark line below the eyes with the one that each kind would draw."""
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


def _motion(pose, lids, chunk=50):
    """Returns still, nod, shake, tilt, blink or several if at least four in five chunks of the clip show it, otherwise mixed."""
    seen = []
    for k in range(0, max(len(pose) - chunk // 2, 1), chunk):
        half = (np.percentile(pose[k:k + chunk], 96, axis=0) - np.percentile(pose[k:k + chunk], 4, axis=0)) / 2
        shut = lids[k:k + chunk] > 0.5
        strength = {"shake": half[0] / F.SHAKE, "nod": half[1] / F.NOD, "tilt": half[2] / F.TILT, "blink": float(shut.any())}
        strong = [k for k, s in strength.items() if s > 0.45]
        seen.append("closed" if shut.mean() > 0.5 else "still" if not strong else strong[0] if len(strong) == 1 else "several")
    most = max(set(seen), key=seen.count)
    return most if seen.count(most) >= 0.8 * len(seen) else "mixed"


STATIC = [(slice(0, 92), slice(0, 13)), (slice(0, 92), slice(115, 128)), (slice(114, 128), slice(46, 82))]  # rows and columns where nothing moves
CALM = np.ones((F.SIZE, F.SIZE), bool)     # pixels that only the head changes
CALM[40:104, 34:94] = False


def read_clip(frames, face=None):
    """Reads a clip, uint8 [T, 128, 128, 3]. If a Face is given, its geometry is used for calibration, otherwise that of an average face."""
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
    names = {"skin": _nearest(skin, F.SKINS), "hair": _nearest(hair, F.HAIRS, {"bald": skin}),
             "eyes": np.where(lids < 0.25, _nearest(iris, F.EYES), ""),
             "shirt": _nearest(np.median(frames[:, STATIC[2][0], STATIC[2][1]], axis=(1, 2)), F.SHIRTS),
             "background": _nearest(np.median(np.concatenate([frames[:, r, c] for r, c in STATIC[:2]], 2), axis=(1, 2)), F.BACKGROUNDS),
             "glasses": _glasses(frames, pose, skin, shape["eye_distance"])}
    jumps = np.abs(np.diff(flat[:, CALM.ravel()], axis=0)).mean((1, 2))
    means = np.stack([frames[:, r, c].mean((1, 2), dtype=np.float64) for r, c in STATIC], 1)  # [T, regions, 3]
    drift = float(np.abs(means[:WINDOW].mean(0) - means[-WINDOW:].mean(0)).mean(1).max())
    return Reading(opening, width, pose, lids, names, _motion(pose, lids), jumps, drift)
