"""The held-out set: scripts of one minute, each with the place where it begins.

    python3 training/steer/heldout.py models/world/heldout.json               # writes the set: 64 scripts
    python3 training/steer/heldout.py SET --media DIR [--limit N]             # DIR/000.png and DIR/000.json: first picture and script, ...

Seconds 0 to 10 and 50 to 60 hold all directions of keys and mouse, idling, and turns there and back that fit into the model's window.
Tilts never reach their limit while they are held, so that every action is visible.
"""
import argparse
import json
import math
import os

import numpy as np
import torch

import plane

BLOCKS = 181  # one minute: 721 frames
NAME = "[blocks, keys, [pitch, yaw]]"


def _held(rng, tilt):
    """Returns (part, tilt after it): three to five blocks of one direction of keys and mouse, one of 80."""
    n = int(rng.integers(3, 6))
    keys = ("", "W", "S", "A", "D", "WA", "WD", "SA", "SD")[rng.integers(9)]
    pitch, yaw = (plane.HELD * int(rng.integers(-1, 2)) for _ in range(2))
    step = plane.TILT * pitch * 4 * n
    if abs(tilt + step) > plane.TILT_MOST - 1:
        pitch = 0.0
    if pitch:
        n = min(n, 3)
        step = plane.TILT * pitch * 4 * n
        if abs(tilt + step) > plane.TILT_MOST - 1:
            pitch, step = -pitch, -step
            if abs(tilt + step) > plane.TILT_MOST - 1:
                pitch, step = 0.0, 0.0
    else:
        step = 0.0
    if not keys and not pitch and not yaw:
        yaw = plane.HELD
    return (n, keys, [pitch, yaw]), tilt + step


def sample(rng):
    """Returns {world, camera, script}."""
    world = int(rng.integers(plane.WORLDS))
    camera = [round(float(v), 4) for v in (rng.uniform(0, plane.PERIOD), rng.uniform(0, plane.PERIOD), rng.uniform(0, 2 * math.pi), 0)]
    script, at, tilt = [], 0, 0.0
    while at < BLOCKS:
        kind = rng.random()
        if kind < 0.12:
            parts = [(int(rng.integers(3, 6)), "", [0.0, 0.0])]
        elif kind < 0.26:
            n, m = int(rng.integers(2, 6)), [0.0, plane.HELD * float(rng.choice([-1, 1]))]
            parts = [(n, "", m), (n, "", [-v for v in m])]
        else:
            part, tilt = _held(rng, tilt)
            parts = [part]
        script += parts
        at += sum(p[0] for p in parts)
    return {"world": world, "camera": camera, "script": script}


def heldout_set(n=64, seed=4099):
    rng = np.random.default_rng(seed)
    return [sample(rng) | {"world": i % plane.WORLDS} for i in range(n)]


def truth(item, blocks=BLOCKS):
    """Returns (cameras [frames, 4], keyboard [frames, 4], mouse [frames, 2]) of an item's frames."""
    keyboard, mouse = (torch.from_numpy(a) for a in plane.expand(item["script"], blocks))
    states = plane.track(torch.tensor([item["camera"]]), keyboard[None, :-1], mouse[None, :-1])[0]
    return states, keyboard, mouse


def picture(item):
    """Returns an item's first picture, uint8 [HEIGHT, WIDTH, 3]."""
    return plane.quantised(plane.draw(torch.tensor([item["world"]]), torch.tensor([item["camera"]])))[0].permute(1, 2, 0).numpy()


def clip_of(item, blocks=BLOCKS, frames=slice(None), chunk=90):
    """Returns the correct clip (or some of its frames), uint8 [frames, HEIGHT, WIDTH, 3]."""
    states = truth(item, blocks)[0][frames]
    world = torch.tensor([item["world"]])
    return torch.cat([plane.quantised(plane.draw(world.expand(len(s)), s)) for s in states.split(chunk)]).permute(0, 2, 3, 1).numpy()


def actions_json(item, blocks=BLOCKS):
    """Returns the script in the form that `tachyscope world --actions` reads."""
    out, at = [], 0
    for n, keys, mouse in item["script"]:
        n = min(n, blocks - at)
        if n <= 0:
            break
        out.append({"frames": 4 * n - (3 if at == 0 else 0), "keys": list(keys), "mouse": mouse})
        at += n
    return {"fps": plane.FPS, "actions": out}


def write_media(item, folder, name, blocks=BLOCKS):
    """Writes folder/name.png and folder/name.json; returns both paths."""
    from PIL import Image
    os.makedirs(folder, exist_ok=True)
    paths = os.path.join(folder, name + ".png"), os.path.join(folder, name + ".json")
    Image.fromarray(picture(item)).save(paths[0])
    with open(paths[1], "w") as f:
        json.dump(actions_json(item, blocks), f)
    return paths


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("set")
    a.add_argument("--media", help="folder for pictures and scripts of the set's items; without it the set itself is written")
    a.add_argument("--limit", type=int)
    args = a.parse_args()
    if args.media:
        with open(args.set) as f:
            items = json.load(f)[:args.limit]
        for i, item in enumerate(items):
            write_media(item, args.media, f"{i:03d}")
        return
    with open(args.set, "w") as f:
        f.write("[" + ",\n".join(json.dumps(i, separators=(",", ":")) for i in heldout_set()) + "]\n")


if __name__ == "__main__":
    main()
