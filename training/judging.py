"""Shared by the judges: clips as files, and tables of measures compared with limits. It needs numpy only (and ffmpeg for video files, Pillow for
PNG frames)."""
import os
import shutil
import subprocess
import sys

import numpy as np


def path_of(folder, index):
    """Returns the path of clip `index` of a folder: 000.npy, 000.mp4 or the folder 000 of PNG frames; None if there is none."""
    return next((p for p in (os.path.join(folder, f"{index:03d}{e}") for e in (".npy", ".mp4", "")) if os.path.exists(p)), None)


def load(path, size=None):
    """A clip from .npy, a folder of PNG frames, or a video file (through ffmpeg): uint8 [frames, height, width, 3]. size: (width, height) to which a
    video file is scaled; None keeps its own."""
    if path.endswith(".npy"):
        return np.load(path)
    if os.path.isdir(path):
        from PIL import Image
        return np.stack([np.asarray(Image.open(os.path.join(path, f)).convert("RGB")) for f in sorted(os.listdir(path)) if f.endswith(".png")])
    if shutil.which("ffmpeg") is None:
        sys.exit(f"{path}: ffmpeg is needed to read a video, and is not there; give folders of PNG frames instead")
    if size is None:
        probe = ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "stream=width,height", "-of", "csv=p=0", path]
        size = tuple(map(int, subprocess.run(probe, check=True, capture_output=True, text=True).stdout.strip().split(",")[:2]))
    w, h = size
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{w}x{h}", "-"], check=True, capture_output=True)
    return np.frombuffer(raw.stdout, np.uint8).reshape(-1, h, w, 3)


def share(pairs):
    """Returns the percentage that is right of all pairs (right, all) together."""
    return round(100 * sum(a for a, _ in pairs) / max(1, sum(b for _, b in pairs)), 2)


def misses(table, limits):
    """Returns the measures of a table that miss their limits {measure: (">=" or "<=", limit, what it is)}. A measure that the table lacks misses
    nothing."""
    return [k for k, (way, limit, _) in limits.items() if k in table and not (table[k] >= limit if way == ">=" else table[k] <= limit)]


def show(table, limits, prefix="", width=74):
    """Prints a line for each measure, and returns the misses."""
    missed = misses(table, limits)
    for k, (way, limit, text) in limits.items():
        print(f"{prefix}{text:<{width}} {table.get(k, '-'):>8}   {way} {limit}{'   MISSED' if k in missed else ''}")
    return missed
