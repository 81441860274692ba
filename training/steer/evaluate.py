"""Plays held-out scripts with PyTorch, as the engine does, and judges them.

    python3 training/steer/evaluate.py --state FOLDER --eyes models/talker/models_clip_vision.safetensors --limit 16 [--seconds 60] [--sheet FILE.png]

The folder is the one that pipeline.py keeps. The noise of all scripts comes from seed 0.
"""
import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import net  # first: it finds the folder above
import numpy as np
import torch

import autoencoder
import heldout
import judge
import plane
import vae
import video
from bank import statistics_of
from common import Team


def one_thread():
    torch.set_num_threads(1)


@torch.no_grad()
def play(team, folder, eyes_file, items, blocks, sigmas=None):
    """Plays items and returns their clips, each uint8 [frames, H, W, 3]."""
    dev = team.device
    torch.backends.cudnn.benchmark = False  # every shape occurs only a few times
    auto, eyes = autoencoder.load(os.path.join(folder, "vae")).to(dev).eval(), net.Eyes(eyes_file, dev)
    model = net.load_denoiser(folder).to(dev).eval()
    mean, std = (t.to(dev).view(1, -1, 1, 1, 1) for t in statistics_of(os.path.join(folder, "vae")))
    autocast = lambda: torch.autocast(dev.type, torch.bfloat16, enabled=team.cuda)
    pictures = torch.stack([torch.from_numpy(heldout.picture(i)) for i in items]).permute(0, 3, 1, 2).to(dev).float() / 127.5 - 1
    y, rows = [], []
    for p in pictures.split(2):
        with autocast():
            y.append(vae.encode(auto, video.grey_behind(p, 4 * net.FRAMES - 3))[0].float())
            rows.append(eyes.look(p).float())
    channels = net.condition((torch.cat(y) - mean) / std)
    held = [plane.expand(i["script"], blocks) for i in items]
    keyboard, mouse = (torch.from_numpy(np.stack([h[k] for h in held])).to(dev) for k in (0, 1))
    g = torch.Generator(dev).manual_seed(0)
    z = net.rollout(model, channels, torch.cat(rows), *net.windows(keyboard, mouse, blocks), blocks, autocast, generator=g, sigmas=sigmas)
    out = []
    for one in z.split(1):
        with autocast():
            x = vae.decode(auto, one * std + mean)
        out.append(plane.quantised(x)[0].permute(1, 2, 3, 0).cpu().numpy())
    return out


EVERY = 60  # frames between two pictures of a sheet


def truth_of(item, blocks):
    return heldout.clip_of(item, blocks, slice(None, None, EVERY))


def sheet(clips, truths, path):
    """Draws rows of pictures: the clip that was made, and below it the correct one."""
    from PIL import Image
    rows = [row for clip, truth in zip(clips, truths) for row in (clip[::EVERY], truth)]
    Image.fromarray(np.concatenate([np.concatenate(list(r[:13]), 1) for r in rows], 0)).save(path)


def run(team, folder, eyes_file, limit, seconds, sheet_file=None, set_file=None, sigmas=None):
    began, blocks = time.time(), 1 + int(seconds * plane.FPS) // 4
    items = heldout.heldout_set()[:limit]
    clips = play(team, folder, eyes_file, items, blocks, sigmas)
    played = time.time() - began
    with ProcessPoolExecutor(max(1, min(14, (os.cpu_count() or 2) - 1)), get_context("spawn"), one_thread) as pool:
        scores = list(pool.map(judge.score, items, clips))
        if sheet_file:
            sheet(clips, list(pool.map(truth_of, items[:8], [blocks] * 8)), sheet_file)
    table = judge.aggregate(scores)
    table["missed"] = judge.misses(table, judge.LIMITS)
    team.log(json.dumps({"seconds": seconds, "sigmas": sigmas or net.levels(), "played_s": round(played, 1), "took_s": round(time.time() - began, 1), **table}))
    return table


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--state", required=True)
    a.add_argument("--eyes", default="models/world/models_clip_vision.safetensors")
    a.add_argument("--limit", type=int, default=16)
    a.add_argument("--seconds", type=float, default=60)
    a.add_argument("--sheet")
    args = a.parse_args()
    run(Team(), args.state, args.eyes, args.limit, args.seconds, args.sheet)


if __name__ == "__main__":
    main()
