"""The procedural world: scenes, captions in English and Chinese, and the renderer.

A clip is `FRAMES` RGB frames of `SIZE` x `SIZE` at `FPS`. Screen units run from -1 to 1 on both axes, x to the right and y down; time runs from 0
(first frame) to 1 (last). A scene is data (`Scene`); `pack` turns scenes into one float array and `render` draws a batch of them."""
import json
import math
import os
import sys
import zlib
from dataclasses import asdict, dataclass, field

import numpy as np

from shapes import FAR, SHAPES, layers

SIZE, FRAMES, FPS = 128, int(os.environ.get("SPRITES_FRAMES", 33)), 16  # fewer frames only for quick tests

COLOURS = {
    "red": (228, 34, 40), "orange": (250, 138, 16), "yellow": (252, 220, 40), "green": (34, 170, 66),
    "cyan": (20, 196, 206), "blue": (36, 92, 232), "purple": (138, 54, 204), "pink": (252, 110, 182),
}
MOTIONS = ["left", "right", "up", "down", "spin", "grow", "shrink", "bounce"]
BACKGROUNDS = ["sky", "hills", "sea", "grid", "city", "desert", "mountains"]
TIMES = ["day", "night"]
ROUND = ("circle", "ring")  # turning is invisible on these


@dataclass
class Object:
    colour: str
    shape: str
    motion: str


@dataclass
class Scene:
    """A scene. `layout` is single; twin (two equal objects, one motion); pair (left and right, different objects); or pass (two rows, opposite
    directions)."""
    layout: str
    objects: list
    background: str
    time: str
    seed: int = 0
    said: dict = field(default_factory=lambda: {"background": True, "time": True})

    def json(self):
        return asdict(self)

    @staticmethod
    def of(d):
        return Scene(**{**d, "objects": [Object(**o) for o in d["objects"]]})


def held_out(o):
    """Returns True for the (colour, shape, motion) combinations that no training clip contains: about one in eight."""
    return zlib.crc32(f"{o.colour} {o.shape} {o.motion}".encode()) % 8 == 3


def _object(rng, motions):
    while True:
        o = Object(str(rng.choice(list(COLOURS))), str(rng.choice(SHAPES)), str(rng.choice(motions)))
        if not (o.motion == "spin" and o.shape in ROUND):
            return o


def sample_scene(rng, split="train", mix=(0.46, 0.14, 0.26, 0.14)):
    """Draws a random scene. `split`: train (no object is held out) or heldout (at least one is); `mix`: shares of the layouts."""
    while True:
        layout = str(rng.choice(["single", "twin", "pair", "pass"], p=mix))
        if layout in ("single", "twin"):
            objects = [_object(rng, MOTIONS)] * (2 if layout == "twin" else 1)
        else:
            if layout == "pair":
                objects = [_object(rng, MOTIONS[2:]) for _ in range(2)]
            else:
                objects = [_object(rng, [m]) for m in rng.permutation(["left", "right"])]
            if objects[0].colour == objects[1].colour:
                continue
        if any(map(held_out, objects)) != (split == "heldout"):
            continue
        said = {"background": bool(rng.random() < 0.85), "time": bool(rng.random() < 0.8)}
        time = str(rng.choice(TIMES, p=[0.55, 0.45])) if said["time"] else "day"
        return Scene(layout, objects, str(rng.choice(BACKGROUNDS)), time, int(rng.integers(1 << 31)), said)


# ---------------------------------------------------------------------------------------------------------------- captions
EN_NOUN = {
    "circle": ["circle/circles", "ball/balls", "disc/discs"], "square": ["square/squares", "box/boxes"],
    "triangle": ["triangle/triangles"], "star": ["star/stars"], "heart": ["heart/hearts"],
    "ring": ["ring/rings", "doughnut/doughnuts"], "fish": ["fish/fish", "little fish/little fish"],
    "bird": ["bird/birds", "little bird/little birds"], "cat": ["cat/cats", "kitten/kittens", "cat face/cat faces"],
}
EN_COLOUR = {c: [c] for c in COLOURS} | {"cyan": ["cyan", "turquoise"], "purple": ["purple", "violet"]}
# third person / plural / gerund
EN_VERB = {
    "left": ["moves to the left/move to the left/moving to the left", "moves left/move left/moving left",
             "glides left/glide left/gliding left", "travels from right to left/travel from right to left/travelling from right to left",
             "drifts to the left/drift to the left/drifting to the left"],
    "right": ["moves to the right/move to the right/moving to the right", "moves right/move right/moving right",
              "glides right/glide right/gliding right", "travels from left to right/travel from left to right/travelling from left to right",
              "drifts to the right/drift to the right/drifting to the right"],
    "up": ["moves up/move up/moving up", "rises/rise/rising", "floats upwards/float upwards/floating upwards", "goes up/go up/going up"],
    "down": ["moves down/move down/moving down", "sinks/sink/sinking", "falls slowly/fall slowly/falling slowly", "goes down/go down/going down"],
    "spin": ["spins/spin/spinning", "turns around/turn around/turning around", "rotates/rotate/rotating", "spins in place/spin in place/spinning in place"],
    "grow": ["grows/grow/growing", "gets bigger/get bigger/getting bigger", "grows larger/grow larger/growing larger", "becomes bigger/become bigger/becoming bigger"],
    "shrink": ["shrinks/shrink/shrinking", "gets smaller/get smaller/getting smaller", "becomes smaller/become smaller/becoming smaller"],
    "bounce": ["bounces/bounce/bouncing", "bounces up and down/bounce up and down/bouncing up and down", "jumps up and down/jump up and down/jumping up and down",
               "hops/hop/hopping"],
}
EN_OWN = {  # verbs of the creatures
    ("fish", "left"): "swims to the left/swim to the left/swimming to the left", ("fish", "right"): "swims to the right/swim to the right/swimming to the right",
    ("fish", "up"): "swims up/swim up/swimming up", ("fish", "down"): "swims down/swim down/swimming down",
    ("bird", "left"): "flies to the left/fly to the left/flying to the left", ("bird", "right"): "flies to the right/fly to the right/flying to the right",
    ("bird", "up"): "flies up/fly up/flying up", ("bird", "down"): "flies down/fly down/flying down",
}
EN_PLACE = {
    "sky": ["in the open sky", "against a plain sky", "in the sky"], "hills": ["over green hills", "above the hills", "over rolling hills"],
    "sea": ["over the sea", "above the ocean", "by the sea"], "grid": ["in front of a grid", "on a grid", "against a pale grid"],
    "city": ["over the city", "above a city skyline", "in the city"], "desert": ["in the desert", "over the desert", "over sand dunes"],
    "mountains": ["in front of snowy mountains", "over the mountains", "above snowy mountains"],
}
EN_TIME = {"day": ["by day", "during the day", "in daylight", "on a bright day"], "night": ["at night", "under the stars", "by night", "on a starry night"]}

ZH_NOUN = {
    "circle": ["个|圆球", "个|圆形", "个|球"], "square": ["个|方块", "个|正方形"], "triangle": ["个|三角形"], "star": ["颗|星星", "个|五角星"],
    "heart": ["颗|爱心", "颗|心"], "ring": ["个|圆环", "个|圆圈"], "fish": ["条|鱼", "条|小鱼"], "bird": ["只|鸟", "只|小鸟"], "cat": ["只|猫", "只|小猫"],
}
ZH_COLOUR = {"red": "红", "orange": "橙", "yellow": "黄", "green": "绿", "cyan": "青", "blue": "蓝", "purple": "紫", "pink": "粉"}
ZH_VERB = {
    "left": ["向左移动", "向左走", "从右向左移动", "往左移动"], "right": ["向右移动", "向右走", "从左向右移动", "往右移动"],
    "up": ["向上移动", "上升", "往上飘", "慢慢升起"], "down": ["向下移动", "下降", "往下落", "慢慢落下"],
    "spin": ["旋转", "转圈", "原地旋转", "转动"], "grow": ["变大", "越来越大", "慢慢变大"], "shrink": ["变小", "越来越小", "慢慢缩小"],
    "bounce": ["弹跳", "上下跳动", "跳来跳去", "蹦蹦跳跳"],
}
ZH_OWN = {("fish", "left"): "向左游", ("fish", "right"): "向右游", ("fish", "up"): "向上游", ("fish", "down"): "向下游",
          ("bird", "left"): "向左飞", ("bird", "right"): "向右飞", ("bird", "up"): "向上飞", ("bird", "down"): "向下飞"}
ZH_PLACE = {"sky": ["天空中", "空旷的天空中"], "hills": ["绿色的山丘上", "山丘上空", "小山上"], "sea": ["大海上", "海面上", "海边"], "grid": ["网格前", "格子背景前"],
            "city": ["城市上空", "城市里"], "desert": ["沙漠里", "沙漠上空", "沙丘上"], "mountains": ["雪山前", "雪山上空"]}
ZH_TIME = {"day": ["白天", "晴朗的白天", "大白天"], "night": ["夜晚", "夜里", "星空下"]}


def clean(text):
    """Changes the characters of captions like the pipeline's prompt cleaning."""
    return text.replace("，", ",")


def _pick(rng, seq):
    return seq[int(rng.integers(len(seq)))]


def _article(word):
    return "an" if word[0] in "aeiou" else "a"


def caption(scene, rng, lang=None, clauses=False):
    """Draws one of many wordings of the scene, in English or Chinese, cleaned. With `clauses` it also returns where each object is mentioned: (text,
    [(start, end) of objects[0]'s clause, ...]), in characters."""
    lang = lang or _pick(rng, ["en", "en", "zh"])
    text = clean(_english(scene, rng) if lang == "en" else _chinese(scene, rng))
    plain, spans, open_ = [], [(0, 0)] * len(scene.objects), {}
    for c in text:
        if c in OPEN:
            open_[OPEN.index(c)] = len(plain)
        elif c in CLOSE:
            k = CLOSE.index(c)
            spans[k] = (open_[k], len(plain))
        else:
            plain.append(c)
    return ("".join(plain), spans) if clauses else "".join(plain)


OPEN, CLOSE = "\ue000\ue001", "\ue010\ue011"  # private characters around the clauses of both objects while a caption is put together


def _clause(k, text):
    return OPEN[k] + text + CLOSE[k]


def _english(s, rng):
    def verb(o, form):
        own = EN_OWN.get((o.shape, o.motion))
        v = own if own and rng.random() < 0.5 else _pick(rng, EN_VERB[o.motion])
        return v.split("/")[form]

    def noun(o):
        c = _pick(rng, EN_COLOUR[o.colour])
        return f"{_article(c)} {c} {_pick(rng, EN_NOUN[o.shape]).split('/')[0]}"

    gerund = rng.random() < 0.25
    a = s.objects[0]
    if s.layout == "single":
        text = _clause(0, f"{noun(a)} {verb(a, 2 if gerund else 0)}")
    elif s.layout == "twin":
        text = _clause(0, f"two {_pick(rng, EN_COLOUR[a.colour])} {_pick(rng, EN_NOUN[a.shape]).split('/')[1]} {verb(a, 2 if gerund else 1)}")
    elif s.layout == "pair":
        i = int(rng.integers(2))
        sides = [" on the left", " on the right"]
        parts = [_clause(k, f"{noun(s.objects[k])} {verb(s.objects[k], 2 if gerund else 0)}{sides[k]}") for k in (i, 1 - i)]
        text = _pick(rng, [" and ", " while ", ", "]).join(parts) if not gerund else " and ".join(parts)
    else:
        i = int(rng.integers(2))
        text = " and ".join(_clause(k, f"{noun(s.objects[k])} {verb(s.objects[k], 2 if gerund else 0)}") for k in (i, 1 - i)) + _pick(rng, ["", ", passing each other"])
    place = " " + _pick(rng, EN_PLACE[s.background]) if s.said["background"] else ""
    time = _pick(rng, EN_TIME[s.time]) if s.said["time"] else ""
    lead = rng.random()
    if time and rng.random() < 0.25:
        text = f"{time}, {text}{place}"
    else:
        text = f"{text}{place}" + (f" {time}" if time else "")
    if lead < 0.06:
        text = "a video of " + text
    elif lead < 0.5:
        first = next(i for i, c in enumerate(text) if c not in OPEN)
        text = text[:first] + text[first].upper() + text[first + 1:]
    return text + _pick(rng, ["", "."])


def _chinese(s, rng):
    def verb(o):
        own = ZH_OWN.get((o.shape, o.motion))
        return own if own and rng.random() < 0.5 else _pick(rng, ZH_VERB[o.motion])

    def noun(o, n="一"):
        measure, word = _pick(rng, ZH_NOUN[o.shape]).split("|")
        return n + measure + ZH_COLOUR[o.colour] + _pick(rng, ["色的", "色", "色的"]) + word

    a = s.objects[0]
    if s.layout == "single":
        text = _clause(0, noun(a) + _pick(rng, ["", "正在", "在"] if not s.said["background"] else ["", "正在"]) + verb(a))
    elif s.layout == "twin":
        text = _clause(0, noun(a, "两") + _pick(rng, ["", "一起"]) + verb(a))
    elif s.layout == "pair":
        i = int(rng.integers(2))
        text = "，".join(_clause(k, _pick(rng, [["左边", "左侧"], ["右边", "右侧"]][k]) + noun(s.objects[k]) + verb(s.objects[k])) for k in (i, 1 - i))
    else:
        i = int(rng.integers(2))
        text = "，".join(_clause(k, noun(s.objects[k]) + verb(s.objects[k])) for k in (i, 1 - i)) + _pick(rng, ["", "，擦肩而过"])
    place = _pick(rng, ZH_PLACE[s.background]) if s.said["background"] else ""
    time = _pick(rng, ZH_TIME[s.time]) if s.said["time"] else ""
    if place and time:
        head = _pick(rng, [f"{time}，{place}，", f"{time}的{place}，", f"{time}，在{place}，"])
    else:
        head = f"{time}{place}，" if time or place else ""
    return head + text + _pick(rng, ["", "。"])


# ---------------------------------------------------------------------------------------------------------------- geometry
OBJ = 18  # numbers per object: on, shape, r, g, b, x0, x1, y0, y1, bounce, r0, r1, a0, turn, flip, wag frequency, wag phase, front
BG = 10   # background, night, five random numbers in 0..1, three spare


def pack(scenes):
    """Turns scenes into the renderer's numbers, float32 [N, BG + 2 * OBJ]; all randomness comes from each scene's seed."""
    out = np.zeros((len(scenes), BG + 2 * OBJ), np.float32)
    for row, s in zip(out, scenes):
        rng = np.random.default_rng(s.seed)
        u = lambda lo, hi: float(rng.uniform(lo, hi))
        row[0], row[1] = BACKGROUNDS.index(s.background), TIMES.index(s.time)
        row[2:7] = rng.random(5)
        row[BG + OBJ + 10:BG + OBJ + 12] = 1  # an absent second object still needs a size
        two = len(s.objects) == 2
        k = 0.76 if two else 1.0
        rows = s.layout == "pass" or (s.layout == "twin" and s.objects[0].motion in ("left", "right"))
        swap = rng.random() < 0.5
        if s.layout == "pass":  # a rule of this world: the object that moves right is the upper one (the caption need not say so)
            swap = s.objects[0].motion == "left"
        shared = None
        for i, o in enumerate(s.objects):
            p = np.zeros(OBJ, np.float32)
            r = u(0.31, 0.40) * k
            if not two:
                x, y = u(-0.32, 0.32), u(-0.3, 0.3)
            elif rows:
                x, y = u(-0.06, 0.06), (-0.42 if (i == 0) != swap else 0.42) + u(-0.06, 0.06)
            else:
                x, y = (-0.47 if i == 0 else 0.47) + u(-0.05, 0.05), u(-0.25, 0.25)
            x0 = x1 = x
            y0 = y1 = y
            r0 = r1 = r
            bounce = turn = 0.0
            flip = float(rng.random() < 0.5)
            tilt = u(-0.12, 0.12)
            if o.motion in ("left", "right"):
                d = 1.0 if o.motion == "right" else -1.0
                x0, x1 = -d * u(0.46, 0.58), d * u(0.46, 0.58)
                flip = float(o.motion == "left")
            elif o.motion in ("up", "down"):
                d = 1.0 if o.motion == "down" else -1.0
                y0, y1 = -d * u(0.45, 0.56), d * u(0.45, 0.56)
            elif o.motion == "spin":
                turn, r0, r1 = 2 * math.pi, r * 1.12, r * 1.12
            elif o.motion in ("grow", "shrink"):
                a, b = u(0.19, 0.23) * k, u(0.44, 0.50) * k
                r0, r1 = (a, b) if o.motion == "grow" else (b, a)
            elif o.motion == "bounce":
                y0 = y1 = u(0.34, 0.46)
                bounce, r0, r1 = u(0.5, 0.6), r * 0.9, r * 0.9
            if o.shape in ROUND or o.shape in ("fish", "bird", "cat"):
                tilt = 0.0
            p[:5] = 1, SHAPES.index(o.shape), *(c / 255 for c in COLOURS[o.colour])
            p[5:17] = x0, x1, y0, y1, bounce, r0, r1, tilt, turn, flip, u(2.6, 3.4), u(0, 1)
            if s.layout == "twin":  # twins share everything except their position across the direction of motion
                if shared is None:
                    shared = p
                else:
                    keep = p[[5, 6, 7, 8]].copy()
                    p[:] = shared
                    if rows:
                        p[7:9] = keep[2:]
                    else:
                        p[5:7] = keep[:2]
            row[BG + OBJ * i:BG + OBJ * (i + 1)] = p
    return out


def _constants():
    rng = np.random.default_rng(7)
    stars = rng.random((4, 4, 8, 8)).astype(np.float32)    # pattern, (presence, x, y, light), 16-pixel cells
    towers = rng.random((4, 20)).astype(np.float32)        # pattern, tower
    return stars, towers


STARS, TOWERS = _constants()


def background(torch, p):
    """Draws the backgrounds, [B, 3, SIZE, SIZE] in 0..1, of packed scenes p [B, ...]. They do not change during a clip."""
    dev = p.device
    g = (torch.arange(SIZE, device=dev, dtype=torch.float32) + 0.5) * (2 / SIZE) - 1
    y, x = g.view(1, SIZE, 1), g.view(1, 1, SIZE)
    col = lambda i: p[:, i].view(-1, 1, 1)
    kind, night = col(0), col(1)
    u0, u1, u2, u3, u4 = (col(i) for i in range(2, 7))
    aa = SIZE / 2

    def rgb(day, dark):
        c = torch.tensor([day, dark], device=dev, dtype=torch.float32) / 255
        return (c[0].view(1, 3, 1, 1) + (c[1] - c[0]).view(1, 3, 1, 1) * night.unsqueeze(1))

    def over(img, d, colour):  # paint where the distance d (screen units) is negative
        m = torch.clip(0.5 - d * aa, 0, 1).unsqueeze(1)
        return img + (colour - img) * m

    top, low = rgb((184, 212, 236), (12, 16, 40)), rgb((232, 240, 246), (32, 40, 74))
    img = top + (low - top) * ((y + 1) / 2).unsqueeze(1).expand(-1, -1, -1, SIZE)

    # sky: stars at night, a pale sun or moon
    pat = torch.clip((u0 * 4).long().flatten(), 0, 3)
    s = torch.tensor(STARS, device=dev)[pat].repeat_interleave(16, 2).repeat_interleave(16, 3)
    cell = torch.arange(SIZE, device=dev) % 16
    dx, dy = cell.view(1, 1, -1) - (3 + 9 * s[:, 1]), cell.view(1, -1, 1) - (3 + 9 * s[:, 2])
    dot = torch.clip(1.7 - torch.sqrt(dx * dx + dy * dy + 1e-6), 0, 1) * (s[:, 0] < 0.34) * (0.45 + 0.55 * s[:, 3]) * night
    img = img + (rgb((255, 255, 255), (235, 238, 250)) - img) * dot.unsqueeze(1)
    disc = torch.sqrt((x - (u1 * 1.3 - 0.65)) ** 2 + (y + 0.66) ** 2) - 0.15
    img = over(img, disc, rgb((252, 250, 236), (222, 224, 232)))
    sky = img

    # hills, two layers
    h1 = 0.30 + 0.12 * torch.sin(x * 3.1 + u2 * 6.28)
    h2 = 0.58 + 0.10 * torch.sin(x * 2.3 + u3 * 6.28)
    hills = over(over(sky, h1 - y, rgb((198, 220, 200), (24, 38, 50))), h2 - y, rgb((178, 206, 182), (20, 32, 42)))
    # sea, with three calm waves
    sea = over(sky, 0.22 - y + 0 * x, rgb((172, 202, 222), (22, 36, 66)))
    for k, a in enumerate((0.42, 0.64, 0.86)):
        w = torch.abs(y - a - 0.03 * torch.sin(x * 6.0 + u2 * 6.28 + 2 * k)) - 0.022
        sea = over(sea, w, rgb((204, 222, 234), (36, 52, 84)))
    # grid
    lines = torch.minimum(torch.abs(torch.remainder((x + 1) * 4 + u2, 1) - 0.5), torch.abs(torch.remainder((y + 1) * 4 + u3, 1) - 0.5)) / 4 - 0.012
    paper = rgb((240, 240, 236), (26, 28, 40)).expand(-1, -1, SIZE, SIZE)
    grid = over(paper, lines, rgb((208, 212, 216), (48, 52, 68)))
    # city: towers of 16 pixels
    pos = (x + 1) * 4 + u2
    n = torch.clip(pos.long(), 0, 19) + 8 * torch.clip((u3 * 2).long(), 0, 1)
    t = torch.tensor(TOWERS, device=dev)[torch.clip((u4 * 4).long(), 0, 3).expand_as(n), torch.clip(n, 0, 19)]
    edge = (torch.abs(torch.remainder(pos, 1) - 0.5) - 0.44) / 4
    city = over(sky, torch.maximum(edge, 0.15 + 0.5 * t - y), rgb((196, 202, 214), (34, 38, 58)))
    city = over(city, 0.84 - y + 0 * x, rgb((180, 186, 196), (26, 28, 44)))
    # desert dunes
    d1 = 0.36 + 0.10 * torch.sin(x * 2.2 + u2 * 6.28)
    d2 = 0.64 + 0.10 * torch.sin(x * 1.7 + u3 * 6.28)
    desert = over(over(sky, d1 - y, rgb((236, 224, 202), (48, 42, 52))), d2 - y, rgb((226, 210, 184), (40, 34, 44)))
    # mountains with snow caps over a white plain
    xs = torch.remainder(x * 0.9 + u2 * 2, 1.2) - 0.6
    ridge = 0.9 * torch.abs(xs) - 0.20 + 0.10 * u3
    mount = over(sky, ridge - y, rgb((190, 196, 210), (40, 46, 66)))
    mount = over(mount, torch.maximum(ridge - y, y - ridge * 0.55 - 0.02), rgb((246, 248, 250), (130, 138, 158)))
    mount = over(mount, 0.56 - y + 0 * x, rgb((240, 244, 248), (62, 68, 88)))

    img = sky
    for i, b in enumerate((sky, hills, sea, grid, city, desert, mount)):
        img = torch.where((kind == i).unsqueeze(1), b, img)
    return img


def sprite(torch, p, i, t):
    """Returns object i of packed scenes at the times t [1, F, 1, 1]: where it covers the picture [B, 1, F, SIZE, SIZE], its colours [B, 3, F, SIZE,
    SIZE], and the square of the distance from its centre in object units [B, F, SIZE, SIZE]."""
    dev = p.device
    night = p[:, 1].view(-1, 1, 1, 1, 1)
    g = (torch.arange(SIZE, device=dev, dtype=torch.float32) + 0.5) * (2 / SIZE) - 1
    y, x = g.view(1, 1, SIZE, 1), g.view(1, 1, 1, SIZE)
    aa = SIZE / 2
    o = p[:, BG + OBJ * i:BG + OBJ * (i + 1)]
    c = lambda k: o[:, k].view(-1, 1, 1, 1)
    cx, cy, r = track(torch, p, i, t)
    ang = c(12) + c(13) * t
    wag = torch.sin(2 * math.pi * (c(15) * t + c(16)))
    dx, dy = (x - cx) / r, (y - cy) / r
    co, si = torch.cos(ang), torch.sin(ang)
    u = (dx * co + dy * si) * (1 - 2 * c(14))
    v = dy * co - dx * si
    body = torch.full_like(u, FAR)
    parts = [body, body, body]
    for k in range(len(SHAPES)):
        d = layers(torch, k, u, v, wag)
        here = c(1) == k
        body = torch.where(here, d[0], body)
        parts = [a if b is None else torch.where(here, b, a) for a, b in zip(parts, d[1:])]
    m = lambda d: (torch.clip(0.5 - d * r * aa, 0, 1) * c(0)).unsqueeze(1)
    lit = (dx + dy) / 2
    base = o[:, 2:5].view(-1, 3, 1, 1, 1) * (1 - 0.06 * night)
    base = base + (1 - base) * (0.20 * torch.clip(-lit, 0, 1)).unsqueeze(1)
    base = base * (1 - 0.16 * torch.clip(lit, 0, 1)).unsqueeze(1)
    colour = base * (1 - 0.20 * m(parts[0]))
    colour = colour + (0.97 - colour) * m(parts[1])
    colour = colour + (0.10 - colour) * m(parts[2])
    return m(body), colour, dx * dx + dy * dy


def track(torch, p, i, t):
    """Returns centre x, centre y and radius, [B, F, 1, 1] each, of object i of packed scenes at the times t [1, F, 1, 1]."""
    c = lambda k: p[:, BG + OBJ * i + k].view(-1, 1, 1, 1)
    return (c(5) + (c(6) - c(5)) * t, c(7) + (c(8) - c(7)) * t - c(9) * torch.abs(torch.sin(2 * math.pi * t)), c(10) + (c(11) - c(10)) * t)


def render(p, torch=None):
    """Draws packed scenes p [B, BG + 2 * OBJ] (a torch tensor, any device): float32 [B, 3, FRAMES, SIZE, SIZE] in -1..1."""
    torch = torch or sys.modules["torch"]
    img = background(torch, p).unsqueeze(2)                                             # B 3 1 H W
    t = torch.linspace(0, 1, FRAMES, device=p.device).view(1, FRAMES, 1, 1)
    for i in range(2):
        inside, colour, _ = sprite(torch, p, i, t)
        img = img + (colour - img) * inside
    return img * 2 - 1


# ---------------------------------------------------------------------------------------------------------------- splits
def heldout_set(n, seed=2026):
    """Draws n held-out scenes with one caption each, at most one per set of attributes. Returns a list of dicts (caption, lang, scene)."""
    rng, out, seen = np.random.default_rng(seed), [], set()
    while len(out) < n:
        s = sample_scene(rng, "heldout")
        key = (s.layout, json.dumps([asdict(o) for o in s.objects]))
        if key in seen:
            continue
        seen.add(key)
        lang = "zh" if len(out) % 3 == 2 else "en"
        out.append({"caption": caption(s, rng, lang), "lang": lang, "scene": s.json()})
    return out


if __name__ == "__main__":  # python3 world.py heldout.json: writes the held-out set
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        json.dump(heldout_set(240), f, ensure_ascii=False, indent=0)
        f.write("\n")
