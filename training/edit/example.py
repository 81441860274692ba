"""Writes the inputs of `make demo-edit`, as small mp4s: a depth video, and a clip with a mask that follows what moves in it.

    python3 training/edit/example.py models/sprites-edit/example    (torch, numpy, Pillow, av 18.1.0)

They are items of the held-out set (heldout.py); the captions that go with them are printed."""
import os
import sys
from fractions import Fraction

import av
import numpy as np

import net  # noqa: F401  first: it finds the folder above
import heldout
import world

ITEMS = {"depth": 1, "inpaint": 1}  # the number of the item that serves as the example of a task


def write(path, frames):
    """Writes frames, uint8 [F, H, W, 3], as H.264. A mask needs no more than that its white and black stay apart."""
    with av.open(path, "w", options={"movflags": "faststart", "fflags": "+bitexact"}) as out:
        stream = out.add_stream("libx264", rate=Fraction(world.FPS), options={"crf": "20", "preset": "veryslow"})
        stream.width, stream.height, stream.pix_fmt = frames.shape[2], frames.shape[1], "yuv420p"
        for frame in frames:
            out.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), "rgb24")))
        out.mux(stream.encode(None))
    print(path, os.path.getsize(path), "bytes")


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for item in heldout.items(1 + max(ITEMS.values())):
        if ITEMS.get(item["task"]) != item["seed"]:
            continue
        media = heldout.media(item)
        print(f"{item['task']}: {item['caption']}")
        if item["task"] == "depth":
            write(os.path.join(folder, "depth.mp4"), media["control"])
        else:
            write(os.path.join(folder, "clip.mp4"), media["control"])
            write(os.path.join(folder, "mask.mp4"), np.repeat(media["mask"][..., None] * np.uint8(255), 3, -1))


if __name__ == "__main__":
    main()
