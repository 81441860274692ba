"""Writes golden values of match_colors, computed by scikit-image on small frames, to colors.json beside this file.

Made with Python 3.11, numpy 2.4.6, scikit-image 0.26.0 (scipy 1.17.1), torch 2.11.0, seed 20261125:
    python tests/golden/ops/make_colors.py
Frames and picture are float32 in about [-1, 1]; rgb2lab, lab2rgb and the statistics run in float64. "lab" is the picture's mean and
deviation of each channel. The cases are usual pictures, strong colours of which many are clipped, nearly grey pictures, frames and pictures of one
colour, and one pixel."""

import json
import pathlib

import numpy as np
import torch
from skimage import color

import lab


def expected(frames, picture, strength):
    unit = lambda x: np.clip((x.astype(np.float64) + 1) / 2, 0, 1)
    wanted, out = color.rgb2lab(unit(picture)), []
    for frame in unit(frames):
        own, corrected = color.rgb2lab(frame), color.rgb2lab(frame)
        for k in range(3):
            if np.ptp(own[..., k]) == 0:  # numpy's mean of equal values may differ from the value by rounding
                corrected[..., k] = wanted[..., k].mean()
            else:
                corrected[..., k] = (own[..., k] - own[..., k].mean()) * (wanted[..., k].std() / own[..., k].std()) + wanted[..., k].mean()
        out.append((1 - strength) * frame + strength * np.clip(color.lab2rgb(corrected), 0, 1))
    return np.array(out) * 2 - 1, [wanted.mean((0, 1)), wanted.std((0, 1))]


def main():
    rng = np.random.default_rng(20261125)
    normal = lambda shape, scale, around: rng.normal(around, scale, shape).astype(np.float32)
    grey = lambda shape, scale: np.repeat(normal((*shape[:-1], 1), scale, 0), 3, -1)
    flat = np.tile(np.float32([0.3, -0.2, 0.7]), (1, 4, 5, 1))
    draws = [("usual", normal((3, 6, 9, 3), 0.4, 0.1), normal((6, 9, 3), 0.4, -0.1), 1.0),
             ("blended", normal((2, 5, 7, 3), 0.4, 0.3), normal((5, 7, 3), 0.5, -0.3), 0.35),
             ("clipped", normal((2, 5, 7, 3), 0.1, 0.0), normal((5, 7, 3), 3.0, 0.0), 1.0),
             ("dark", normal((2, 5, 7, 3), 0.02, -0.97), normal((5, 7, 3), 0.4, 0.0), 1.0),
             ("dark picture", normal((2, 5, 7, 3), 0.4, 0.0), normal((5, 7, 3), 0.02, -0.97), 1.0),
             ("low contrast", normal((1, 8, 8, 3), 0.002, 0.2), normal((8, 8, 3), 0.5, 0.0), 1.0),
             ("grey", grey((2, 5, 7, 3), 0.4), normal((5, 7, 3), 0.3, 0.0), 1.0),
             ("grey picture", normal((2, 5, 7, 3), 0.4, 0.0), grey((5, 7, 3), 0.4), 1.0),
             ("flat", flat, normal((4, 5, 3), 0.4, 0.0), 1.0),
             ("flat picture", normal((2, 4, 5, 3), 0.4, 0.0), flat[0], 1.0),
             ("one pixel", normal((2, 1, 1, 3), 0.4, 0.0), normal((1, 1, 3), 0.4, 0.0), 1.0),
             ("black to white", np.full((1, 3, 3, 3), -1, np.float32), np.full((3, 3, 3), 1, np.float32), 1.0)]
    cases, number = [], lambda a: [float(f"{v:.9g}") for v in np.ravel(a)]
    for name, frames, picture, strength in draws:
        y, statistics = expected(frames, picture, strength)
        restated = lab.match_colors(torch.from_numpy(frames).double(), torch.from_numpy(picture).double(), strength).numpy()
        error = np.abs(restated - y).max()
        print(name, error)
        assert error < 1e-7, name
        cases.append({"name": name, "strength": strength, "frames": {"shape": list(frames.shape), "data": number(frames)},
                      "picture": {"shape": list(picture.shape), "data": number(picture)},
                      "lab": [[float(v) for v in s] for s in statistics], "expected": number(y)})
    path = pathlib.Path(__file__).with_name("colors.json")
    path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
