"""The held-out set: what shall be followed with the held-out captions of models/sprites. An item is a dict of plain values; `media` draws it."""
import json
import os

import numpy as np
import torch

import net  # first: it finds the folder above
import captions
import controls
import world
from world import BG, OBJ

# depth: a depth video. inpaint: an object becomes another one. drawn: an object appears where a mask moves over a clip without it.
# reference: a picture says what moves. placed: the picture's object appears where a mask moves.
TASKS = ("depth", "inpaint", "drawn", "reference", "placed")
ALONE = ("reference", "placed")  # tasks of scenes with one object, whose captions do not name it


def items(limit):
    """Returns up to `limit` items of each task."""
    with open(os.path.join(net.MODEL, "heldout.json"), encoding="utf-8") as f:
        all_ = json.load(f)
    out = []
    for number, task in enumerate(TASKS):
        fit = [i for i in all_ if task not in ALONE or i["scene"]["layout"] == "single"][:limit]
        for k, item in enumerate(fit):
            rng = np.random.default_rng([number, k])
            scene = world.Scene.of(item["scene"])
            p = world.pack([scene])[0]
            mask, shown = np.zeros(controls.MASK, np.float32), controls.OTHER if task == "inpaint" else controls.GONE
            mask[:3] = rng.choice([controls.DISC, controls.BOX]), rng.integers(2) if p[BG + OBJ] > 0 else 0, 1.3
            mask[7] = shown
            source = controls.other(p, int(mask[1]), shown, rng)
            view = [rng.uniform(-0.1, 0.1), rng.uniform(-0.1, 0.1), 0.65, float(rng.random() < 0.5)]
            out.append({"task": task, "seed": k, "caption": captions.unnamed(scene, rng, item["lang"]) if task in ALONE else item["caption"],
                        "scene": item["scene"], "packed": p.tolist(), "other": source.tolist(), "mask": mask.tolist(), "view": view})
    return out


def bytes_of(x):
    """Turns clips [B, 3, F, H, W] in -1..1 into uint8 [B, F, H, W, 3]."""
    return torch.round((x + 1) * 127.5).clamp(0, 255).byte().permute(0, 2, 3, 4, 1).numpy()


@torch.no_grad()
def media(item):
    """Draws an item: {"truths": clips as they should be, "control": the video to follow, "mask": bool [F, H, W], "picture": [H, W, 3]}, of which the
    task has some. A mask does not say which way a fish or bird looks, so there are two truths."""
    row = lambda k: torch.tensor([item[k]], dtype=torch.float32)
    p, task = row("packed"), item["task"]
    clip, depth = controls.draw(p)
    out = {"truths": [bytes_of(clip)[0]]}
    if task == "depth":
        return out | {"control": bytes_of(depth)[0]}
    turned = p.clone()
    turned[:, BG + 14] = 1 - turned[:, BG + 14]
    turned[:, BG + OBJ + 14] = 1 - turned[:, BG + OBJ + 14]
    out["truths"].append(bytes_of(controls.draw(turned)[0])[0])
    if task in ALONE:
        out["picture"] = bytes_of(controls.picture(p, row("view")))[0, 0]
    if task != "reference":
        out |= {"control": bytes_of(controls.draw(row("other"))[0])[0], "mask": controls.covered(p, row("mask"))[0, 0].numpy()}
    return out
