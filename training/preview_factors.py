#!/usr/bin/env python3
"""Fits the linear map by which previews are coloured: from a latent pixel to the mean colour of the pixels that it becomes. Prints the list
`preview_factors` of generation_config.json: z + 1 rows of red, green and blue, the last of them the offset, for colours from -1 to 1.

    for i in 1 2 3 4; do
      build/tachyscope generate "$(sed -n ${i}p prompts.txt)" -m MODEL --seed $i --save-latents $i.safetensors -o $i/
    done
    training/preview_factors.py 1 2 3 4            # of each run NAME.safetensors and NAME/frame_*.png

It needs numpy, pillow and safetensors."""

import json
import pathlib
import sys

import numpy
from PIL import Image
from safetensors.numpy import load_file

STRIDE = 4  # frames of a latent frame; the first one has a single frame


def colours(folder, latent_frames, height):
    """Returns [latent_frames, height, width, 3]: the means of the frames' pixels, from -1 to 1."""
    frames = [numpy.asarray(Image.open(name).convert("RGB"), numpy.float32) / 127.5 - 1 for name in sorted(folder.glob("frame_*.png"))]
    assert len(frames) == STRIDE * (latent_frames - 1) + 1, f"{folder}: {len(frames)} frames do not belong to {latent_frames} latent frames"
    of_each = [frames[:1], *(frames[STRIDE * t - 3 : STRIDE * t + 1] for t in range(1, latent_frames))]
    means = numpy.stack([numpy.mean(some, 0) for some in of_each])
    side = means.shape[1] // height
    return means.reshape(latent_frames, height, side, -1, side, 3).mean((2, 4))


def samples(name):
    """Returns the latent pixels [n, z] of a run, and their colours [n, 3]."""
    (latents,) = load_file(f"{name}.safetensors").values()
    latents = latents.reshape(latents.shape[-4:])
    pixels = colours(pathlib.Path(name), latents.shape[1], latents.shape[2])
    return latents.transpose(1, 2, 3, 0).reshape(-1, latents.shape[0]), pixels.reshape(-1, 3)


def main():
    runs = [samples(name) for name in sys.argv[1:]]
    if not runs:
        sys.exit(__doc__)
    latents, pixels = (numpy.concatenate(part) for part in zip(*runs))
    latents = numpy.c_[latents, numpy.ones(len(latents), numpy.float32)]
    factors = numpy.linalg.lstsq(latents, pixels, rcond=None)[0]
    left = numpy.sqrt(((latents @ factors - pixels) ** 2).mean(0))
    print(f"left over (root mean square of red, green, blue): {left.round(3)} of {pixels.std(0).round(3)}", file=sys.stderr)
    print(json.dumps([round(float(value), 4) for value in factors.ravel()]))


if __name__ == "__main__":
    main()
