"""What the control blocks follow, drawn for packed scenes (world.pack) on any device: depth videos, masks, the video that a mask changes, and
reference pictures. Everything a clip needs beside its scene is two short rows of numbers, which `draw_rows` draws."""
import os
import sys

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import world  # noqa: E402
from shapes import SHAPES  # noqa: E402
from world import BG, FRAMES, OBJ, SIZE  # noqa: E402

DISC, BOX, PATH, AROUND, FRAME, PLACE = range(6)  # what a mask is: it follows an object (two forms), covers an object's path, a border, frames, a place
GRAY, GONE, OTHER, SAME = range(4)                # what the video shows where the mask changes it
MASK = 8   # numbers of a mask: kind, object (2: both), size in radii, four limits, what is shown
VIEW = 4   # numbers of a reference picture: x, y, radius, flipped


def times(device):
    return torch.linspace(0, 1, FRAMES, device=device).view(1, FRAMES, 1, 1)


def grid(device):
    g = (torch.arange(SIZE, device=device, dtype=torch.float32) + 0.5) * (2 / SIZE) - 1
    return g.view(1, 1, 1, SIZE), g.view(1, 1, SIZE, 1)


def draw(p):
    """Returns clips and their depth videos, [B, 3, FRAMES, SIZE, SIZE] in -1..1. In a depth video near is white: the ground comes nearer towards the
    bottom, whatever the background shows, and objects are bulges before it, without colours and without what is drawn on them."""
    t, (_, y) = times(p.device), grid(p.device)
    img = world.background(torch, p).unsqueeze(2)
    far = (0.12 + 0.14 * (y + 1)).unsqueeze(1)
    for i in range(2):
        inside, colour, square = world.sprite(torch, p, i, t)
        img = img + (colour - img) * inside
        far = far + (0.72 + 0.22 * torch.clip(1 - square, 0, 1).unsqueeze(1) - far) * inside
    return img * 2 - 1, (far * 2 - 1).expand(-1, 3, -1, -1, -1)


def covered(p, m):
    """Returns where masks m [B, MASK] over scenes p are white: bool [B, 1, FRAMES, SIZE, SIZE]."""
    t, (x, y) = times(p.device), grid(p.device)
    c = lambda k: m[:, k].view(-1, 1, 1, 1)
    follows = torch.zeros(len(p), FRAMES, SIZE, SIZE, dtype=torch.bool, device=p.device)
    for i in range(2):
        cx, cy, r = world.track(torch, p, i, t)
        r = r * c(2)
        dx, dy = torch.abs(x - cx), torch.abs(y - cy)
        whole = lambda a, b: ((a - r).amin(1, keepdim=True) < b) & (b < (a + r).amax(1, keepdim=True))
        one = torch.where(c(0) == DISC, dx * dx + dy * dy < r * r, torch.where(c(0) == BOX, torch.maximum(dx, dy) < r, whole(cx, x) & whole(cy, y)))
        present = p[:, BG + OBJ * i].view(-1, 1, 1, 1) > 0
        follows |= one & present & ((c(1) == i) | (c(1) == 2))
    place = (x > c(3)) & (x < c(4)) & (y > c(5)) & (y < c(6))
    frames = ((t >= c(3)) & (t <= c(4))).expand(-1, -1, SIZE, SIZE)
    out = torch.where(c(0) == AROUND, ~place, torch.where(c(0) == PLACE, place, torch.where(c(0) == FRAME, frames, follows)))
    return out.unsqueeze(1)


def split(clip, shown, mask):
    """Returns the kept and the changed part of a video that is `clip` outside the mask and `shown` inside, as VACE wants them: 0 elsewhere."""
    return clip * ~mask, shown * mask


def folded(mask, latent_frames):
    """Returns VACE's 64 mask channels [B, 64, latent_frames, SIZE / 8, SIZE / 8] of masks [B, 1, FRAMES, SIZE, SIZE]."""
    b, _, f, h, w = mask.shape
    m = mask.view(b, f, h // 8, 8, w // 8, 8).permute(0, 3, 5, 1, 2, 4).flatten(1, 2)
    nearest = ((torch.arange(latent_frames) + 0.5) * (f / latent_frames)).long().clamp(max=f - 1).to(mask.device)
    return m[:, :, nearest]


def picture(p, view):
    """Returns reference pictures [B, 3, 1, SIZE, SIZE] in -1..1: the first object of scenes p on white, by day, where view [B, VIEW] says."""
    q = p.clone()
    o = q[:, BG:BG + OBJ]
    q[:, 1] = 0
    o[:, 5] = o[:, 6] = view[:, 0]
    o[:, 7] = o[:, 8] = view[:, 1]
    o[:, 10] = o[:, 11] = view[:, 2]
    o[:, 9] = o[:, 12] = o[:, 13] = 0
    o[:, 14] = view[:, 3]
    inside, colour, _ = world.sprite(torch, q, 0, torch.zeros(1, 1, 1, 1, device=p.device))
    return (1 + (colour - 1) * inside) * 2 - 1


def numbers_of(colour, shape):
    return [SHAPES.index(shape), *(c / 255 for c in world.COLOURS[colour])]


def other(p, which, shown, rng):
    """Returns the scene row p as the video that is changed shows it: the masked objects gone, or with another colour and shape."""
    q = p.copy()
    for i in range(2):
        o = q[BG + OBJ * i:BG + OBJ * (i + 1)]
        if which not in (i, 2) or o[0] == 0:
            continue
        if shown == GONE:
            o[0] = 0
        elif shown == OTHER:
            while True:
                new = np.float32(numbers_of(str(rng.choice(list(world.COLOURS))), str(rng.choice(SHAPES))))
                if new[0] != o[1] and not np.allclose(new[1:], o[2:5]):
                    break
            o[1:5] = new
    return q


def draw_rows(p, rng):
    """Draws what goes with the scene row p in training: (mask [MASK], the changed video's scene row, view [VIEW])."""
    m = np.zeros(MASK, np.float32)
    two = p[BG + OBJ] > 0
    m[0] = rng.choice([DISC, BOX, PATH, AROUND, FRAME, PLACE], p=[0.4, 0.2, 0.15, 0.08, 0.1, 0.07])
    m[1] = rng.choice([0, 1, 2], p=[0.4, 0.4, 0.2]) if two else 0
    m[2] = rng.uniform(1.22, 1.5)
    m[7] = GRAY
    if m[0] in (DISC, BOX, PATH):
        m[7] = rng.choice([GRAY, GONE, OTHER, SAME], p=[0.25, 0.4, 0.3, 0.05])
    elif m[0] == AROUND:
        m[3:7] = -1.1, 1.1, -1.1, 1.1
        for k in rng.choice(4, rng.integers(1, 5), replace=False):
            m[3 + k] = (-1, 1)[k % 2] * rng.uniform(0.45, 0.9)
    elif m[0] == FRAME:
        cut = rng.uniform(0.03, 0.6)
        m[3:5] = [(cut, 2), (-1, 1 - cut), (0.016, 0.984)][rng.integers(3)]  # goes on, comes before, or lies between a first and a last frame
    else:
        x, y, w, h = rng.uniform(-1, 0.5, 2).tolist() + rng.uniform(0.3, 1.2, 2).tolist()
        m[3:7] = x, x + w, y, y + h
    view = np.array([rng.uniform(-0.15, 0.15), rng.uniform(-0.15, 0.15), rng.uniform(0.5, 0.78), rng.random() < 0.5], np.float32)
    return m, other(p, int(m[1]), int(m[7]), rng), view
