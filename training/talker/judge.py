"""A programmatic judge of talking photos: it checks the mouth's movement, the person's looks and the head's motion. It knows the world, not the
model.

    python3 training/talker/judge.py --set heldout.json --videos DIR   # DIR/000.mp4 (ffmpeg), 000.npy, or folders 000/ of PNG frames (Pillow)
        [--limit N] [--json] [--no-limits] [--speech as-is|late|silent]      # late: speech 5 frames late; silent: no speech (heldout.py makes both)

`reading.py` says what a clip shows; here it is compared with what was asked for. Every third of the 200 held-out items, drawn by the renderer, scores
100 % of all shares and of all frames of all attributes, correlation 1.000 (shuffled 0.06, at most 0.27), drift 0, seam 0.75. The same clips blurred,
with half the colour resolution and noise, as from a small autoencoder of 31 dB, score 100 %, correlation 0.999 (5th percentile 0.998), drift 0.24,
seam 0.95. Encoded as H.264 with crf 23 (6 clips) they score 100 %, correlation 0.998. At 26 dB, pauses (95 %) are the first to miss their limit."""
import argparse
import json
import sys

import numpy as np

import faces as F
import speech as S
from reading import CLOSED, WINDOW, load, read_clip  # it finds the folder above
from judging import misses, path_of, share, show

STEP = 24  # a model's windows (of WINDOW frames) begin this many frames apart: seams lie before frames 33, 57, 81, ...
LATE = 5   # frames by which late speech is late
ATTRIBUTES = ["skin", "hair", "eyes", "shirt", "background", "glasses"]
# measure: (">=" or "<=", limit, what it is)
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


# ---------------------------------------------------------------------------------------------------------------- scoring
def correlate(a, b):
    """Returns Pearson's correlation; 0 if one of the two does not change."""
    a, b = a - a.mean(), b - b.mean()
    n = np.sqrt((a * a).sum() * (b * b).sum())
    return float((a * b).sum() / n) if n > 1e-6 else 0.0


def lag(seen, truth, reach=8):
    """Returns how many frames `seen` comes after `truth`: the shift that has the highest correlation."""
    def at(k):
        n = min(len(seen), len(truth))
        return correlate(seen[max(k, 0):n + min(k, 0)], truth[max(-k, 0):n - max(k, 0)])
    return max(range(-reach, reach + 1), key=at)


def _phones(reading, utterance, n):
    """Returns three pairs (right, all): the frames of long pauses, right if the mouth is closed; the sounds
    that close the lips, right if it closes; the vowels, right if each is recognised."""
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
    """Returns all measures of one clip of an item {face, motion, utterance}, as plain numbers; `other` is another utterance, for the shuffled
    control."""
    face, utterance = F.Face.of(item["face"]), S.Utterance.of(item["utterance"])
    r = read_clip(frames, face)
    n = min(len(frames), int(round(utterance.seconds * S.FPS)))
    truth, seen = S.mouth_track(utterance, n)[:, 0], r.opening[:n]
    pauses, closures, vowels = _phones(r, utterance, n)
    want = {"skin": face.skin, "hair": "bald" if face.style == "bald" else face.hair, "eyes": face.eyes, "shirt": face.shirt,
            "background": face.background, "glasses": face.glasses}
    palette = {k: [int((r.names[k] == want[k]).sum()), int((r.names[k] != "").sum())] for k in ATTRIBUTES}
    if palette["eyes"][1] < len(frames) / 2:  # eyes may close, but not stay closed
        palette["eyes"][1] = len(frames)
    seams = r.jumps[WINDOW - 1::STEP]  # jumps[k] leads to frame k + 1
    return {"frames": n, "correlation": correlate(seen, truth), "lag": lag(seen, truth), "pauses": pauses, "closures": closures, "vowels": vowels,
            "palette": palette, "drift": r.drift, "seam": float(seams.mean() / max(np.median(r.jumps), 0.25)) if len(seams) else None,
            "motion": r.motion, "motion_right": r.motion == item["motion"], "closed": [int((r.opening < CLOSED).sum()), len(r.opening)],
            "shuffled": None if other is None else correlate(r.opening[:min(n, int(other.seconds * S.FPS))], S.mouth_track(other, n)[:int(other.seconds * S.FPS), 0])}


def aggregate(scores):
    """Returns the table of a list of scores: {measure: value} under the names of LIMITS, and further details."""
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
        path = path_of(args.videos, i)
        if path is not None:
            scores.append({"index": i, **score(item, load(path), S.Utterance.of(items[(i + 1) % len(items)]["utterance"]) if len(items) > 1 else None)})
    if not scores:
        sys.exit(f"no clips in {args.videos}: expected 000.mp4, 000.npy or 000/*.png")
    limits = {"as-is": LIMITS, "late": LIMITS_LATE, "silent": LIMITS_SILENT}[args.speech]
    table = aggregate(scores)
    if args.json:
        missed = misses(table, limits)
        print(json.dumps({"table": table, "missed": missed, "scores": scores}, indent=1))
    else:
        print(f"{len(scores)} of {len(items)} clips")
        missed = show(table, limits, width=64)
    return 1 if missed and not args.no_limits else 0


if __name__ == "__main__":
    sys.exit(main())
