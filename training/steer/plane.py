"""The drawn world: a plane seen in perspective, with mountains and a sun or moon far away and posts on it; its camera, its keys and its scripts.

A camera is [x, y, yaw, tilt]; `tilt` is how many pixels the horizon lies below the middle. The world repeats every PERIOD units of the
plane and 2 pi of yaw, so that a picture shows where the camera stands; the same camera always shows the same picture. An action is held
during one pixel frame and visible in the next one: camera k + 1 is camera k moved by action k, without inertia.

Keys are W S A D, the mouse is [pitch, yaw], up and right positive, 0.1 while an arrow is held, as in Matrix-Game 2's universal model.
"""
import math

import numpy as np
import torch

WIDTH, HEIGHT, FPS, FOCAL = 160, 96, 12, 80.0
SPEED, TURN, TILT, TILT_MOST = 0.1, 0.35, 15.0, 16.0  # units per frame; radians and pixels per frame and unit of the mouse
HELD = 0.1
PERIOD, REACH = 8.0, 8.0                              # period of the plane; distance up to which posts are visible
KEYS = "WSAD"
LANDSCAPES = ("meadow", "desert", "snow", "canyon", "heath", "lagoon")
WORLDS = 2 * len(LANDSCAPES)                          # first by day, then by night

# sky above, sky at the horizon, far ridge, near ridge, ground, its patches, its path, posts of two kinds
_COLOURS = {
    "meadow": "4a90e0 cfe6f5 7f9bb5 5b8a5f 5fae4b 3f8f3c d8c48a c83c32 f0f0e6",
    "desert": "3f86d8 f5e3c0 b98a62 cf9f5f e6c479 cfa055 b07a46 2f7f6f 7a3b24",
    "snow": "7fb4e6 eef4fa 8fa3bf b9cbe0 f0f4fa cfdcec 9fb4cc d03a4a 3a4a6a",
    "canyon": "d88a5a f6d2a0 8a3f3a a8553a c8643c a84a30 e6a060 f0d050 4a2430",
    "heath": "8f8fd0 e6d0e0 6a5a8a 7a5f7a a878a8 7f5a8f d8c0b0 f0a030 2f5f5f",
    "lagoon": "20a0d0 c0f0f0 3f7f8f 2f9f7f 40c0b0 209f9f f0e6b0 f07050 f8f8f0",
}
_POSTS = ((2.0, 3.0, 1.25, 0.14), (6.0, 6.5, 0.8, 0.24))  # x, y in a period, height, half its width
# far and near ridge: height, and (waves around, height, phase) of each
_RIDGES = {
    "meadow": ((0.16, (3, 0.05, 0.4), (7, 0.03, 1.0)), (0.07, (5, 0.03, 2.0), (8, 0.015, 0.3))),
    "desert": ((0.12, (2, 0.06, 1.4), (5, 0.03, 0.2)), (0.05, (6, 0.02, 0.7), (9, 0.015, 2.2))),
    "snow": ((0.22, (4, 0.08, 0.9), (9, 0.04, 2.5)), (0.08, (7, 0.03, 1.1), (3, 0.02, 0.1))),
    "canyon": ((0.20, (5, 0.07, 2.1), (8, 0.03, 0.6)), (0.10, (3, 0.05, 1.9), (10, 0.02, 0.4))),
    "heath": ((0.10, (3, 0.04, 0.2), (6, 0.02, 1.7)), (0.05, (4, 0.02, 0.8), (7, 0.02, 2.9))),
    "lagoon": ((0.14, (2, 0.07, 2.7), (9, 0.02, 1.3)), (0.04, (5, 0.025, 0.5), (3, 0.01, 1.2))),
}


def _tables():
    palette = np.array([[[int(c[i:i + 2], 16) / 127.5 - 1 for i in (0, 2, 4)] for c in _COLOURS[n].split()] for n in LANDSCAPES], np.float32)
    night = np.array([0.42, 0.47, 0.62], np.float32)
    both = np.concatenate([palette, (palette + 1) * night - 1])
    lights = np.array([[1.0, 0.95, 0.65]] * 6 + [[0.75, 0.8, 0.85]] * 6, np.float32)
    ridges = np.array([[[r[0], *r[1], *r[2]] for r in _RIDGES[n]] for n in LANDSCAPES], np.float32)
    place = np.array([[0.8 + i, 0.34 + 0.02 * (i % 3)] for i in range(6)] + [[3.6 + i, 0.30 + 0.02 * (i % 3)] for i in range(6)], np.float32)
    return [torch.from_numpy(t) for t in (both, lights, np.concatenate([ridges, ridges]), place)]


TABLES = _tables()


# ------------------------------------------------------------------------------------------- the camera
def move(camera, keyboard, mouse):
    """Returns cameras [..., 4] one frame later, under keyboard [..., 4] and mouse [..., 2]."""
    x, y, yaw, tilt = camera.unbind(-1)
    ahead, aside = SPEED * (keyboard[..., 0] - keyboard[..., 1]), SPEED * (keyboard[..., 3] - keyboard[..., 2])
    s, c = yaw.sin(), yaw.cos()
    return torch.stack([x + ahead * s + aside * c, y + ahead * c - aside * s, yaw + TURN * mouse[..., 1],
                        (tilt + TILT * mouse[..., 0]).clamp(-TILT_MOST, TILT_MOST)], -1)


def track(camera, keyboard, mouse):
    """Returns cameras [B, N + 1, 4] from the first one [B, 4] under actions [B, N, ...]."""
    out = [camera]
    for k in range(keyboard.shape[1]):
        out.append(move(out[-1], keyboard[:, k], mouse[:, k]))
    return torch.stack(out, 1)


def cameras(n, generator=None):
    """Draws n cameras at which to begin, [n, 4]."""
    r = torch.rand(n, 4, generator=generator)
    return torch.stack([PERIOD * r[:, 0], PERIOD * r[:, 1], 2 * math.pi * r[:, 2], (r[:, 3] - 0.5) * TILT_MOST], -1)


# ------------------------------------------------------------------------------------------- the picture
def _mix(a, b, alpha):
    return a + (b - a) * alpha


def _step(x):
    return x.clamp(0, 1)


def draw(worlds, camera):
    """Draws pictures [N, 3, HEIGHT, WIDTH] in -1..1 of worlds [N] (landscape, 6 more by night) seen by cameras [N, 4]."""
    dev = camera.device
    palette, lights, ridges, place = (t.to(dev)[worlds] for t in TABLES)
    colour = lambda i: palette[:, i, :, None, None]
    x, y, yaw, tilt = (v[:, None, None] for v in camera.unbind(-1))
    cols = torch.arange(WIDTH, device=dev, dtype=torch.float32).view(1, 1, -1)
    rows = torch.arange(HEIGHT, device=dev, dtype=torch.float32).view(1, -1, 1)
    u, horizon = (cols - (WIDTH - 1) / 2) / FOCAL, (HEIGHT - 1) / 2 + tilt
    below, slant = rows - horizon, (1 + u * u).sqrt()

    # sky, light, ridges
    azimuth, rise = yaw + torch.atan(u), -below / FOCAL / slant
    image = _mix(colour(1), colour(0), _step(rise / 0.6)[:, None])
    turn = azimuth - place[:, 0, None, None]
    turn = turn - 2 * math.pi * torch.round(turn / (2 * math.pi))
    away = (turn.square() + (rise - place[:, 1, None, None]).square()).sqrt()
    image = _mix(image, lights[:, :, None, None], _step((0.07 - away) * FOCAL + 0.5)[:, None])
    for i in range(2):
        r = ridges[:, i, :, None, None]
        top = r[:, 0] + r[:, 2] * torch.sin(r[:, 1] * azimuth + r[:, 3]) + r[:, 5] * torch.sin(r[:, 4] * azimuth + r[:, 6])
        shade = _mix(colour(2 + i), colour(1), (0.5 * _step(1 - rise / top.clamp(min=0.02)) * (1 - i))[:, None])
        image = _mix(image, shade, _step((top - rise) * FOCAL * slant + 0.5)[:, None])

    # the plane: soft patches and a path, which both fade where they would be finer than pixels
    z = FOCAL / below.clamp(min=0.25)
    s, c = yaw.sin(), yaw.cos()
    gx, gy = x + z * s + u * z * c, y + z * c - u * z * s
    fade = torch.exp(-(z * z / FOCAL / 1.0).square())
    patch = torch.tanh(2.5 * torch.sin(math.pi / 2 * gx) * torch.sin(math.pi / 2 * gy)) * fade
    path = torch.sigmoid(12 * (torch.cos(2 * math.pi / PERIOD * (gx - 4)) - 0.86)) * fade
    ground = _mix(colour(4), colour(5), (0.5 + 0.5 * patch)[:, None])
    ground = _mix(ground, colour(6), path[:, None])
    ground = _mix(ground, colour(1), (0.6 * (1 - torch.exp(-z / 40)))[:, None])
    image = _mix(image, ground, _step(below + 0.5)[:, None])

    # posts, from the farthest to the nearest
    cell = torch.stack([torch.floor(camera[:, 0] / PERIOD), torch.floor(camera[:, 1] / PERIOD)], -1) * PERIOD
    grid = PERIOD * torch.stack(torch.meshgrid(torch.arange(-1, 2, device=dev), torch.arange(-1, 2, device=dev), indexing="ij"), -1).view(-1, 2)
    kinds = torch.tensor(_POSTS, device=dev)
    at = (cell[:, None, None] + grid[None, :, None] + kinds[None, None, :, :2] - camera[:, None, None, :2]).flatten(1, 2)  # [N, 18, 2]
    sy, cy = camera[:, 2:3].sin(), camera[:, 2:3].cos()
    depth, side = at[..., 0] * sy + at[..., 1] * cy, at[..., 0] * cy - at[..., 1] * sy
    seen = _step((REACH - at.norm(dim=-1)) / 2) * _step((depth - 0.5) / 0.4)
    order = depth.argsort(1, descending=True)
    depth, side, seen = (t.gather(1, order) for t in (depth, side, seen))
    kind = order % 2
    tall, half = kinds[kind, 2], kinds[kind, 3]
    paint = torch.where((kind == 0)[..., None], palette[:, None, 7], palette[:, None, 8])
    scale = FOCAL / depth.clamp(min=0.5)
    for i in range(depth.shape[1]):
        k = scale[:, i, None, None]
        across = _step(half[:, i, None, None] * k + 0.5 - (cols - (WIDTH - 1) / 2 - side[:, i, None, None] * k).abs())
        down = _step(k - below + 0.5) * _step(below - k * (1 - tall[:, i, None, None]) + 0.5)
        image = _mix(image, paint[:, i, :, None, None], (across * down * seen[:, i, None, None])[:, None])
    return image


def render(worlds, states):
    """Draws clips [B, 3, T, HEIGHT, WIDTH] of worlds [B] and cameras [B, T, 4]."""
    b, t = states.shape[:2]
    return draw(worlds.repeat_interleave(t), states.flatten(0, 1)).unflatten(0, (b, t)).transpose(1, 2)


def quantised(x):
    """Converts pictures in -1..1 to uint8."""
    return torch.round((x.clamp(-1, 1) + 1) * 127.5).byte()


# ------------------------------------------------------------------------------------------- scripts
# A script is a list of (blocks, keys, [pitch, yaw]): the keys and the mouse are held for that many blocks of a latent frame (the very first one is
# one pixel frame, the others four).
def expand(script, blocks):
    """Returns (keyboard [4 blocks - 3, 4], mouse [4 blocks - 3, 2]) of pixel frames; nothing is held after the script's end."""
    keyboard, mouse = np.zeros((blocks, 4), np.float32), np.zeros((blocks, 2), np.float32)
    at = 0
    for n, keys, m in script:
        for k in keys:
            keyboard[at:at + n, KEYS.index(k)] = 1
        mouse[at:at + n] = m
        at += n
    return keyboard.repeat(4, 0)[3:], mouse.repeat(4, 0)[3:]


def direction(rng):
    """Draws one of eight keyboard directions."""
    return ("W", "S", "A", "D", "WA", "WD", "SA", "SD")[rng.integers(8)]


def arrows(rng):
    """Draws a mouse direction: most often a turn, with or without a tilt."""
    yaw = (-HELD, HELD, 0.0)[rng.choice(3, p=[0.42, 0.42, 0.16])]
    pitch = (0.0, -HELD, HELD)[rng.choice(3, p=[0.6, 0.2, 0.2])] if yaw else (-HELD, HELD)[rng.integers(2)]
    return [pitch, yaw]


def sample_script(rng, blocks, longest=8, idle=0.18):
    """Draws a random script for training: actions held for at most `longest` blocks, a share of idling, turns there and back, all directions."""
    out, at = [], 0
    while at < blocks:
        n, kind = int(rng.integers(1, longest + 1)), rng.random()
        # A share `idle` of draws becomes less than 0.18, at which nothing is held; the others keep their proportions.
        kind = 0.18 * kind / idle if kind < idle else 0.18 + 0.82 * (kind - idle) / (1 - idle)
        if kind < 0.18:
            parts = [(n, "", [0.0, 0.0])]
        elif kind < 0.44:
            parts = [(n, direction(rng), [0.0, 0.0])]
        elif kind < 0.64:
            parts = [(n, "", arrows(rng))]
        elif kind < 0.75:
            m = [0.0, float(rng.choice([-HELD, HELD]))]
            parts = [(n, "", m), (n, "", [-v for v in m])]
        elif kind < 0.81:
            parts = [(n, "", (rng.uniform(-HELD, HELD, 2)).round(3).tolist())]
        else:
            parts = [(n, direction(rng), arrows(rng))]
        out += parts
        at += sum(p[0] for p in parts)
    return out
