#!/usr/bin/env python3
"""Writes context windows and their masks, as ComfyUI-WanVideoWrapper makes them, to windows.safetensors beside this file.

    python3 tests/golden/windows/make.py --repo PATH      # a checkout of kijai/ComfyUI-WanVideoWrapper

Only context_windows/context.py of PATH is run (523b358 when this was made; numpy and torch 2.11.0). Clips
have 22 to 120 latent frames: every length for the first of SHAPES, every seventh for the others.

KIND.FRAMES.OVERLAP.STRIDES   [n, 4 + frames] u8, with one window in each row: the clip's frames (as clip - 22),
                              the step, whether it is the step's last window, and 0; then its indices
mask.KIND.TYPE                [n, 3 + 2 * frames] f32: clip, overlap and strides; the window; its mask
permutation.SEED.M            torch.randperm(n) of the seed, after a draw of m normal values
"""
import argparse
import importlib.util
import pathlib
import sys
import types

import torch
from safetensors.torch import save_file

KINDS = {"static": "static_standard", "uniform": "uniform_standard", "looped": "uniform_looped"}
SHAPES = [(21, 4, 1), (21, 4, 2), (21, 7, 1), (17, 8, 2), (13, 0, 1), (20, 5, 1)]  # frames, overlap, strides


def load(repo):
    package = types.ModuleType("wrapper")
    package.__path__ = [str(repo)]
    utils = types.ModuleType("wrapper.utils")
    utils.log = None
    sys.modules.update({"wrapper": package, "wrapper.utils": utils})
    spec = importlib.util.spec_from_file_location("wrapper.context_windows.context", repo / "context_windows/context.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repo", type=pathlib.Path, required=True)
    context = load(parser.parse_args().repo)
    out = {}
    for kind, name in KINDS.items():
        schedule = context.get_context_scheduler(name)
        masks = {"linear": [], "pyramid": []}
        for frames, overlap, strides in SHAPES:
            rows = []
            for clip in range(22, 121, 1 if (frames, overlap, strides) == SHAPES[0] else 7):
                for step in range(1 if kind == "static" else 3 if clip % 5 else 9):
                    windows = [list(map(int, w)) for w in schedule(step, 9, clip, frames, strides, overlap)]
                    # The repository's code would fail on these, or divide by zero.
                    if any(max(w) >= clip for w in windows) or len(set().union(*windows)) < clip:
                        continue
                    for w in windows:
                        rows.append([clip - 22, step, int(w is windows[-1]), 0, *w])
                        if frames == 21 and clip in (22, 25, 41, 61, 120) and step in (0, 3):
                            for mask in masks:
                                values = context.create_window_mask(torch.zeros(1, frames, 1, 1), w, clip, overlap, kind == "looped", mask)
                                masks[mask].append([clip, overlap, strides, *w, *values.flatten().tolist()])
            out[f"{kind}.{frames}.{overlap}.{strides}"] = torch.tensor(rows, dtype=torch.uint8)
        for mask, rows in masks.items():
            out[f"mask.{kind}.{mask}"] = torch.tensor(rows, dtype=torch.float32).unique(dim=0)
    for seed, m in [(0, 0), (7, 5), (123, 48), (2**40 + 3, 100)]:
        generator = torch.Generator("cpu").manual_seed(seed)
        torch.randn(m, generator=generator)
        out[f"permutation.{seed}.{m}"] = torch.cat([torch.randperm(n, generator=generator) for n in (1, 2, 17, 100)]).to(torch.uint8)
    save_file(out, pathlib.Path(__file__).with_name("windows.safetensors"))


if __name__ == "__main__":
    main()
