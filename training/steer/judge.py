"""A programmatic judge of steered clips: it reads which keys and arrows were held, what drifts, and whether the view is the same after looking away
and back.

    python3 training/steer/judge.py --set models/world/heldout.json --videos DIR    # DIR/000.npy, 000.mp4 (ffmpeg) or 000/*.png, ...
    python3 training/steer/judge.py --set models/world/heldout.json --truth         # the renderer's own clips

A frame is warped as each of 81 actions (nine directions of keys by nine of the mouse) would change it in
eight frames: by a homography of the plane below the horizon and one of what is infinitely far above it. The
action is the one whose warp has the least mean error against the frame that comes eight later. The judge
knows how a camera moves, but neither the model nor the landscape. It looks for the horizon near its correct place."""
import argparse
import functools
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

import heldout
import plane

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from judging import load, misses, path_of, share, show

AHEAD, SKIP = 8, 2            # frames between a pair; every second row and column counts
ACTIONS = [((a, b, c, d), (p, y)) for a, b, c, d in ((0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1), (1, 0, 1, 0),
                                                     (1, 0, 0, 1), (0, 1, 1, 0), (0, 1, 0, 1)) for p in (-1, 0, 1) for y in (-1, 0, 1)]
NEAR, LATE = (0, 120), (600, 720)  # frames of seconds 0 to 10 and 50 to 60
LIMITS = {
    "first": (">=", 95, "commanded action in seconds 0 to 10, %"),
    "late": (">=", 90, "commanded action in seconds 50 to 60, %"),
    "drift": ("<=", 2, "drift while nothing is held, 95th percentile, pixels a second"),
    "colour": ("<=", 10, "colour in the last ten seconds, off by % of the truth's spread, median"),
    "sharpness": ("<=", 10, "sharpness in the last ten seconds, off by % of the truth's spread, median"),
    "back": (">=", 22, "looking away and back within the window, median, dB"),
}
LIMITS_TRUTH = LIMITS | {"first": (">=", 99, LIMITS["first"][2]), "late": (">=", 99, LIMITS["late"][2])}


@functools.lru_cache(maxsize=128)
def warps(tilt):
    """Returns where each pixel of an action's frame comes from in the frame before, for grid_sample
    [81, h, w, 2], and which pixels count [81, h, w]."""
    keys, mouse = (torch.tensor([a[i] for a in ACTIONS], dtype=torch.float32) for i in (0, 1))
    camera = torch.zeros(len(ACTIONS), 4)
    camera[:, 3] = tilt
    for _ in range(AHEAD):
        moved = plane.move(camera, keys, plane.HELD * mouse)
        moved[:, 3] = camera[:, 3] + plane.TILT * plane.HELD * mouse[:, 0]
        camera = moved
    x, y, yaw, tilted = (v[:, None, None] for v in camera.unbind(-1))
    cols = torch.arange(0, plane.WIDTH, SKIP).float().view(1, 1, -1)
    below = torch.arange(0, plane.HEIGHT, SKIP).float().view(1, -1, 1) - (plane.HEIGHT - 1) / 2 - tilted
    u = (cols - (plane.WIDTH - 1) / 2) / plane.FOCAL
    z = torch.where(below > 0.5, plane.FOCAL / below.clamp(min=0.5), torch.tensor(1.0))
    far = (below <= 0.5).float()                     # infinitely far away: this part only turns
    right, front = u * z * yaw.cos() + z * yaw.sin() + x * (1 - far), z * yaw.cos() - u * z * yaw.sin() + y * (1 - far)
    ok = front > 0.05
    front = front.clamp(min=0.05)
    to_col = (plane.WIDTH - 1) / 2 + plane.FOCAL * right / front
    to_row = (plane.HEIGHT - 1) / 2 + tilt + torch.where(far > 0, below / front, plane.FOCAL / front)
    ok = ok & (to_col >= 0) & (to_col <= plane.WIDTH - 1) & (to_row >= 0) & (to_row <= plane.HEIGHT - 1) & (below.abs() > 1.5)
    return torch.stack([2 * to_col / (plane.WIDTH - 1) - 1, 2 * to_row / (plane.HEIGHT - 1) - 1], -1), ok.float()


def action_between(a, b, tilt, around=(0, -2, 2, -4, 4)):
    """Returns the index in ACTIONS of the action that turns frame a into frame b [3, H, W]; a's horizon should be `tilt` pixels below the middle."""
    least = torch.full((len(ACTIONS),), 1e9)
    want = b[None, :, ::SKIP, ::SKIP]
    for more in around:
        grid, ok = warps(round(tilt) + more)
        seen = F.grid_sample(a[None].expand(len(grid), -1, -1, -1), grid, align_corners=True, padding_mode="border")
        off = (seen - want).abs().mean(1)
        error = (off / (off + 0.04) * ok).sum((1, 2)) / ok.sum((1, 2)).clamp(min=1)  # posts, which are not on the plane, count only a little
        least = torch.minimum(least, torch.where(ok.sum((1, 2)) > 200, error, torch.tensor(1e9)))
    return int(least.argmin())


def shift_between(a, b, reach=6):
    """Returns by how many pixels b is shifted against a, to fractions of a pixel. Both are grey [H, W]."""
    h, w = a.shape
    inner = a[reach:h - reach, reach:w - reach]
    cost = torch.stack([torch.stack([(b[reach + i:h - reach + i, reach + j:w - reach + j] - inner).square().mean() for j in range(-reach, reach + 1)])
                        for i in range(-reach, reach + 1)])
    i, j = divmod(int(cost.argmin()), 2 * reach + 1)

    def between(line, k):
        if k in (0, 2 * reach):
            return float(k)
        l, m, r = (float(line[k + d]) for d in (-1, 0, 1))
        return k + 0.5 * (l - r) / max(l - 2 * m + r, 1e-9)
    return float(np.hypot(between(cost[:, j], i) - reach, between(cost[i], j) - reach))


def parts(item):
    """Returns (first frame, frames, keys, mouse) of each part of the script, in pixel frames of its actions."""
    at = 0
    for n, keys, mouse in item["script"]:
        begin, end = max(0, 4 * at - 3), 4 * (at + n) - 3
        yield begin, end - begin, keys, mouse
        at += n


def index_of(keys, mouse):
    held = tuple(int(k in keys) for k in plane.KEYS)
    return ACTIONS.index((held, tuple(int(round(m / plane.HELD)) for m in mouse)))


def look(frames):
    """Returns the mean (colour [3], sharpness) of frames [N, 3, H, W] in 0..1."""
    return torch.stack([*frames.mean((0, 2, 3)), (frames[..., 1:] - frames[..., :-1]).abs().mean() + (frames[..., 1:, :] - frames[..., :-1, :]).abs().mean()])


def score(item, clip):
    """Returns the measures of one clip, uint8 [frames, H, W, 3], as plain numbers."""
    x = torch.from_numpy(np.ascontiguousarray(clip)).permute(0, 3, 1, 2).float() / 255
    states, _, _ = heldout.truth(item)
    grey, right, drift, back, before = x.mean(1), {"first": [], "late": []}, [], [], None
    for begin, n, keys, mouse in parts(item):
        end = min(begin + n, len(x) - 1)
        for name, (a, b) in (("first", NEAR), ("late", LATE)):
            for k in range(begin, end - AHEAD + 1, AHEAD):
                if a <= k and k + AHEAD <= b:
                    right[name].append(action_between(x[k], x[k + AHEAD], float(states[k, 3])) == index_of(keys, mouse))
        if not keys and not any(mouse) and end - begin >= 12:
            drift.append(shift_between(grey[begin], grey[begin + 12]))
        if before and not keys and not before[2] and before[3][1] and mouse[1] == -before[3][1] and mouse[0] == before[3][0] == 0 and n == before[1]:
            if begin + n < len(x):
                error = float((x[before[0]] - x[begin + n]).square().mean())
                back.append(float(-10 * np.log10(max(error, 1e-9))))
        before = (begin, n, keys, mouse)
    out = {"first": [sum(right["first"]), len(right["first"])], "late": [sum(right["late"]), len(right["late"])], "drift": drift, "back": back}
    if len(x) >= LATE[1]:
        truth = torch.from_numpy(heldout.clip_of(item, frames=slice(*LATE, 4))).permute(0, 3, 1, 2).float() / 255
        out |= {"look": look(x[LATE[0]:LATE[1]:4]).tolist(), "look_truth": look(truth).tolist()}
    return out


def aggregate(scores):
    every = lambda k: [v for s in scores for v in s[k]]
    out = {"clips": len(scores), "pairs": sum(s["first"][1] + s["late"][1] for s in scores), "first": share([s["first"] for s in scores])}
    if any(s["late"][1] for s in scores):
        out["late"] = share([s["late"] for s in scores])
    if every("drift"):
        out["drift"] = round(float(np.percentile(every("drift"), 95)), 3)
    if every("back"):
        out["back"] = round(float(np.median(every("back"))), 2)
    looks = [s for s in scores if "look" in s]
    if len(looks) > 1:
        made, truth = (np.array([s[k] for s in looks]) for k in ("look", "look_truth"))
        spread = np.percentile(truth, 95, 0) - np.percentile(truth, 5, 0)
        off = 100 * np.abs(made - truth) / np.maximum(spread, 1e-6)
        out |= {"colour": round(float(np.median(off[:, :3].max(1))), 2), "sharpness": round(float(np.median(off[:, 3])), 2)}
    return out


def pairs_of_all(seed=5):
    """Returns how many of the 80 actions other than resting the judge recognises, each on one rendered pair."""
    rng, right = np.random.default_rng(seed), 0
    still = ACTIONS.index(((0, 0, 0, 0), (0, 0)))
    for i, (keys, mouse) in enumerate(ACTIONS):
        if i == still:
            continue
        camera = torch.tensor([[rng.uniform(0, 8), rng.uniform(0, 8), rng.uniform(0, 6.28), 0]], dtype=torch.float32)
        keyboard, held = torch.tensor([[keys] * AHEAD]).float(), plane.HELD * torch.tensor([[mouse] * AHEAD]).float()
        states = plane.track(camera, keyboard, held)[0, [0, AHEAD]]
        x = plane.quantised(plane.draw(torch.tensor([i % plane.WORLDS] * 2), states)).float() / 255
        right += action_between(x[0], x[1], 0.0) == i
    return right


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--set", required=True)
    a.add_argument("--videos", help="folder of clips 000, 001, ...")
    a.add_argument("--truth", action="store_true", help="judge the renderer's own clips")
    a.add_argument("--limit", type=int)
    args = a.parse_args()
    with open(args.set) as f:
        items = json.load(f)[:args.limit]
    scores = []
    for i, item in enumerate(items):
        if args.truth:
            scores.append(score(item, heldout.clip_of(item)))
            continue
        path = path_of(args.videos or ".", i)
        if path:
            scores.append(score(item, load(path, (plane.WIDTH, plane.HEIGHT))))
    if not scores:
        sys.exit(f"no clips in {args.videos}: expected 000.npy, 000.mp4 or 000/*.png")
    table = aggregate(scores)
    print(f"{len(scores)} of {len(items)} clips, {table['pairs']} pairs")
    return 1 if show(table, LIMITS_TRUTH if args.truth else LIMITS) else 0


if __name__ == "__main__":
    sys.exit(main())
