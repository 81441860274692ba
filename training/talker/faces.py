"""The faces of the talking-photo world: their looks, their motions, captions of these, and the renderer.

A clip is RGB of 128 x 128 at 25 frames a second. Coordinates are pixels, x right, y down. A `Face` is data; `pack` turns faces into one
float array and `render` draws them with any mouth and pose. The head with hair, eyes, mouth and glasses moves as one; shirt, neck and
background stay. Only the inside of the mouth has its colour, so that `judge.py` can measure how far it is open.
"""
import math
import sys
import zlib
from dataclasses import asdict, dataclass

import numpy as np

SIZE, FPS = 128, 25

SKINS = {"porcelain": (255, 232, 214), "peach": (252, 198, 158), "tan": (224, 158, 106), "bronze": (184, 118, 70), "brown": (138, 82, 50),
         "deep": (92, 56, 44)}
HAIRS = {"black": (28, 26, 36), "chestnut": (144, 48, 8), "ginger": (244, 112, 12), "blonde": (252, 222, 84), "grey": (176, 180, 192),
         "blue": (36, 84, 232), "pink": (250, 100, 196), "teal": (0, 164, 150)}
STYLES = ["bald", "short", "long", "bun", "curly"]
EYES = {"brown": (130, 66, 8), "blue": (16, 112, 250), "green": (20, 170, 60), "violet": (150, 50, 220)}
GLASSES = ["none", "round", "square"]
SHIRTS = {"red": (224, 36, 44), "orange": (250, 140, 20), "yellow": (250, 216, 40), "green": (30, 160, 70), "cyan": (0, 190, 204),
          "navy": (36, 56, 170), "purple": (140, 60, 210), "white": (246, 246, 246)}
BACKGROUNDS = {"sky": (116, 190, 252), "mint": (124, 228, 172), "lemon": (250, 238, 134), "coral": (255, 138, 120), "lilac": (192, 154, 250),
               "slate": (72, 88, 116), "fog": (224, 228, 234), "olive": (142, 150, 64)}
MOUTH, LIPS, FRAME, WHITE, PUPIL = (132, 0, 64), (216, 64, 92), (20, 20, 26), (252, 252, 252), (16, 14, 20)
MOTIONS = ["still", "nod", "shake", "tilt", "blink"]

CENTRE = (64.0, 61.0)   # centre of the head at rest
PIVOT = 30.0            # the head rolls about a point that is this far below its centre
MOUTH_Y, NOSE_Y, EYE_Y = 16.0, 3.5, -5.0   # distances below the centre of the head
HALF_WIDTH = (7.0, 11.0)                   # half width of the mouth's inside at width 0, and the increase up to width 1
HALF_HEIGHT = 9.0                          # half height of the mouth's inside at opening 1
LIP = 2.3                                  # how thick lips are
EYE = (7.2, 5.4)                           # half axes of the white of an eye
IRIS, PUPIL_RADIUS = 4.5, 1.9
GLASSES_SHAPES = {"round": (10.2, 10.2, 10.1, 1.15), "square": (10.8, 8.6, 2.0, 1.15)}  # half axes, radius of the corners, half thickness


@dataclass
class Face:
    skin: str
    hair: str
    style: str
    eyes: str
    glasses: str
    shirt: str
    background: str
    head_width: float    # half axes of the head
    head_height: float
    eye_distance: float  # distance of an eye from the middle
    mouth_y: float       # shift of the mouth, downwards
    smile: float         # how much the mouth's corners rise: y = -smile x^2
    shoulders: float     # half width

    def json(self):
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(self).items()}

    @staticmethod
    def of(d):
        return Face(**d)


def held_out(f):
    """Returns True for the combinations of attributes that no training clip contains: about one in eight."""
    return zlib.crc32(f"{f.skin} {f.hair} {f.shirt} {f.background}".encode()) % 8 == 3


def sample_face(rng, heldout=False):
    """Draws a random face; with `heldout` one that training never draws."""
    pick = lambda names: str(list(names)[int(rng.integers(len(names)))])
    while True:
        style = pick(STYLES)
        f = Face(pick(SKINS), pick(HAIRS), style, pick(EYES), pick(GLASSES) if rng.random() < 0.6 else "none", pick(SHIRTS), pick(BACKGROUNDS),
                 *(round(float(rng.uniform(a, b)), 3) for a, b in
                   ((27.5, 30.5), (34.0, 37.0), (12.2, 13.8), (-1.0, 1.2), (0.004, 0.011), (44.0, 54.0))))
        if held_out(f) == heldout:
            return f


# ---------------------------------------------------------------------------------------------------------------- motion and captions
PERIODS = {"nod": 24, "shake": 20, "tilt": 32, "blink": 25}  # frames
NOD, SHAKE, TILT = 5.0, 5.0, 10.0                             # pixels, pixels, degrees
BLINK = {8: 0.5, 9: 1.0, 10: 1.0, 11: 1.0, 12: 0.5}           # eyelids at these frames of a period


def pose_track(motion, frames, start=0):
    """Returns (shift right, shift down, roll clockwise in degrees, eyelids closed 0..1) at frames start ... as float32 [frames, 4]; frame 0 is
    neutral."""
    t = np.arange(start, start + frames)
    out = np.zeros((frames, 4), np.float32)
    if motion == "still":
        return out
    phase = 2 * math.pi * t / PERIODS[motion]
    if motion == "nod":
        out[:, 1] = NOD * np.sin(phase)
    elif motion == "shake":
        out[:, 0] = SHAKE * np.sin(phase)
    elif motion == "tilt":
        out[:, 2] = TILT * np.sin(phase)
    else:
        table = np.zeros(PERIODS["blink"], np.float32)
        for k, v in BLINK.items():
            table[k] = v
        out[:, 3] = table[t % PERIODS["blink"]]
    return out


EN = {
    "still": ["keeps still", "holds still", "does not move", "stays still", "keeps the head still", "holds the head still", "sits calmly", "looks straight ahead"],
    "nod": ["nods", "nods the head", "is nodding", "keeps nodding", "nods in agreement", "moves the head up and down", "nods again and again", "nods slowly"],
    "shake": ["shakes the head", "is shaking the head", "moves the head from side to side", "moves the head left and right", "keeps shaking the head",
              "turns the head left and right", "sways the head from side to side", "shakes the head again and again"],
    "tilt": ["tilts the head", "is tilting the head", "leans the head to one side and the other", "keeps tilting the head", "rolls the head", "tips the head sideways",
             "tilts the head to both sides", "cocks the head"],
    "blink": ["blinks", "blinks the eyes", "is blinking", "keeps blinking", "blinks now and then", "closes the eyes for a moment", "blinks again and again",
              "shuts the eyes briefly"],
}
EN_WHO = ["a person", "someone", "the person", "a speaker", "the speaker"]
EN_TALK = ["talks", "speaks", "is talking", "is speaking"]
EN_HEAD = {"still": ["the head keeps still", "the head does not move", "without moving the head"], "nod": ["the head nods", "nodding", "the head goes up and down"],
           "shake": ["the head shakes", "shaking the head", "the head moves from side to side"], "tilt": ["the head tilts", "tilting the head", "the head leans to both sides"],
           "blink": ["the eyes blink", "blinking", "the eyes close now and then"]}
ZH = {"still": ["头部保持不动", "一动不动", "静静地看着前方"], "nod": ["点头", "不停地点头", "上下点头"], "shake": ["摇头", "左右摇头", "不停地摇头"],
      "tilt": ["歪头", "左右歪头", "把头歪来歪去"], "blink": ["眨眼", "眨眼睛", "不时地眨眼"]}
ZH_WHO = ["一个人", "这个人", "有人", "一位说话的人"]


def caption(motion, rng, lang=None):
    """Draws one of many wordings of the motion, in English (two of three) or Chinese."""
    pick = lambda words: words[int(rng.integers(len(words)))]
    lang = lang or pick(["en", "en", "zh"])
    if lang == "zh":
        who, what = pick(ZH_WHO), pick(ZH[motion])
        text = pick([f"{who}在说话,{what}", f"{who}一边说话一边{what}", f"人像,{who}在讲话,{what}", f"{who}{what}"])
        return text + pick(["", "。"])
    who, talk, what, head = pick(EN_WHO), pick(EN_TALK), pick(EN[motion]), pick(EN_HEAD[motion])
    text = pick([f"{who} {talk} and {what}", f"{who} {what} while speaking", f"{who} {talk}, {head}", f"a portrait of someone speaking, {head}",
                 f"a portrait, {who} {what}", f"{who} {what}", f"a talking face, {head}", f"{who} looks into the camera, {talk} and {what}"])
    return text[:1].upper() * (k := int(rng.random() < 0.4)) + text[k:] + pick(["", "."])


# ---------------------------------------------------------------------------------------------------------------- geometry
# Columns of a packed face: colours first (0..1), then numbers.
COLOURS = ["skin", "hair", "eyes", "shirt", "background"]
NUMBERS = ["head_width", "head_height", "eye_distance", "mouth_y", "smile", "shoulders", "cap", "low", "back_x", "back_y", "back_rx", "back_ry", "wave",
           "brow", "frame", "frame_rx", "frame_ry", "frame_round"]
WIDTH = 3 * len(COLOURS) + len(NUMBERS)
NONE = -50.0  # the size of a part that the face lacks


def _numbers(f):
    """Returns the NUMBERS of one face. A hair style is a cap of some thickness down to `low`, and an ellipse behind the head, perhaps with a wavy
    outline."""
    n = dict(cap=3.0, low=4.0, back_x=0.0, back_y=0.0, back_rx=1.0, back_ry=1.0, wave=0.0, brow=1.5)
    w, h = f.head_width, f.head_height
    if f.style == "bald":
        n.update(cap=NONE)
    elif f.style == "long":
        n.update(low=21.0, back_y=10.0, back_rx=w + 8, back_ry=h + 11)
    elif f.style == "bun":
        n.update(back_y=-h - 7, back_rx=11.5, back_ry=10.0, low=2.0)
    elif f.style == "curly":
        n.update(back_y=-11.0, back_rx=w + 6.5, back_ry=h - 6.5, wave=2.4, low=3.0)
    rx, ry, round_, thick = GLASSES_SHAPES.get(f.glasses, (10.0, 10.0, 9.9, NONE))
    n.update(frame=thick, frame_rx=rx, frame_ry=ry, frame_round=round_)
    n.update(head_width=w, head_height=h, eye_distance=f.eye_distance, mouth_y=f.mouth_y, smile=f.smile, shoulders=f.shoulders)
    return [n[k] for k in NUMBERS]


def pack(faces):
    """Turns faces into the renderer's numbers: a torch tensor, float32 [n, WIDTH]."""
    import torch
    tables = [SKINS, HAIRS, EYES, SHIRTS, BACKGROUNDS]
    rows = []
    for f in faces:
        names = [f.skin, f.hair, f.eyes, f.shirt, f.background]
        rows.append([c / 255 for t, k in zip(tables, names) for c in t[k]] + _numbers(f))
    return torch.tensor(rows, dtype=torch.float32)


def _ellipse(torch, x, y, rx, ry):
    """Returns the distance to an ellipse about 0, correct to first order at its outline; negative inside."""
    u, v = x / rx, y / ry
    return (u * u + v * v - 1) / (2 * torch.sqrt((u / rx) ** 2 + (v / ry) ** 2) + 1e-6)


def _box(torch, x, y, rx, ry, r):
    """Returns the distance to a box about 0 with corners of radius r; x and y are not negative."""
    a, b = x - rx + r, y - ry + r
    return torch.sqrt(torch.clip(a, 0) ** 2 + torch.clip(b, 0) ** 2 + 1e-9) + torch.clip(torch.maximum(a, b), max=0) - r


def render(p, mouth, pose, torch=None):
    """Draws packed faces p [B, WIDTH] with mouth [B, T, 2] and pose [B, T, 4] (tensors on one device): [B, 3, T, 128, 128] in -1..1."""
    torch = torch or sys.modules["torch"]
    colours = {k: p[:, 3 * i:3 * i + 3].reshape(-1, 3, 1, 1, 1) for i, k in enumerate(COLOURS)}
    c = {k: p[:, 3 * len(COLOURS) + i].view(-1, 1, 1, 1) for i, k in enumerate(NUMBERS)}
    constant = lambda rgb: torch.tensor(rgb, dtype=torch.float32, device=p.device).view(1, 3, 1, 1, 1) / 255
    g = torch.arange(SIZE, dtype=torch.float32, device=p.device) + 0.5
    y, x = g.view(1, 1, SIZE, 1), g.view(1, 1, 1, SIZE)
    cover = lambda d: torch.clip(0.5 - d, 0, 1)  # how much of a pixel lies inside, from the distance of its centre

    def over(img, m, colour):
        return img + (colour - img) * m.unsqueeze(1)

    # coordinates of the head: u right, v down from its centre
    dx, dy, roll, lids = (pose[:, :, i].unsqueeze(-1).unsqueeze(-1) for i in range(4))
    co, si = torch.cos(roll * (math.pi / 180)), torch.sin(roll * (math.pi / 180))
    px, py = x - (CENTRE[0] + dx), y - (CENTRE[1] + PIVOT + dy)
    u, v = px * co + py * si, py * co - px * si + PIVOT
    au = torch.abs(u)
    w, h = c["head_width"], c["head_height"]
    skin, hair = colours["skin"], colours["hair"]
    shade = skin * 0.86

    # behind the head: hair; then neck and shirt, which do not move
    bx, by = u - c["back_x"], v - c["back_y"]
    wavy = c["wave"] * torch.cos(11 * torch.atan2(bx, by))
    back = _ellipse(torch, bx, by, c["back_rx"], c["back_ry"]) - wavy
    img = over(colours["background"], cover(torch.maximum(back, v - 43)), hair)
    neck = torch.maximum(torch.abs(x - CENTRE[0]) - 11, 80 - y)
    img = over(img, cover(neck), shade)
    shirt = _ellipse(torch, x - CENTRE[0], y - 146, c["shoulders"], 42.0)
    collar = _ellipse(torch, x - CENTRE[0], y - 101, 13.0, 9.0)
    img = over(img, cover(torch.maximum(shirt, -collar)), colours["shirt"])

    # the head
    head = _ellipse(torch, u, v, w, h)
    img = over(img, cover(_ellipse(torch, au - w, v - 1, 5.0, 6.5)), shade)
    img = over(img, cover(head), skin)
    img = over(img, cover(_ellipse(torch, u, v - NOSE_Y, 3.2, 2.4)), skin * 0.78)

    # eyes: white, iris, pupil; the lid comes down
    ex, ey = au - c["eye_distance"], v - EYE_Y
    eye = _ellipse(torch, ex, ey, *EYE)
    lid = (2 * lids - 1) * (EYE[1] + 0.6) - ey        # negative below the lid's edge
    ring = torch.sqrt(ex * ex + ey * ey + 1e-6)
    m = cover(eye)
    iris = over(over(constant(WHITE), cover(ring - IRIS), colours["eyes"]), cover(ring - PUPIL_RADIUS), constant(PUPIL))
    img = over(img, m, skin * 0.90)
    img = over(img, m * cover(lid), iris)
    lash = torch.maximum(torch.abs(eye + 0.9) - 0.8, 0.5 - ey)                # appears as the eye closes
    img = over(img, m * cover(lash) * lids, constant(PUPIL))

    # the mouth: lips, then its inside, whose coverage is exact along y even for tiny openings
    opening, wide = mouth[:, :, :1].unsqueeze(-1), mouth[:, :, 1:].unsqueeze(-1)
    mw, mh = HALF_WIDTH[0] + HALF_WIDTH[1] * wide, HALF_HEIGHT * opening
    my = v - (MOUTH_Y + c["mouth_y"]) - 2.5 * opening + c["smile"] * u * u
    img = over(img, cover(_ellipse(torch, u, my, mw + LIP, mh + LIP)), constant(LIPS))
    reach = mh * torch.sqrt(torch.clip(1 - (u / mw) ** 2, 0))
    inside = torch.clip(torch.minimum(my + 0.5, reach) - torch.maximum(my - 0.5, -reach), 0, 1)
    img = over(img, inside * cover(au - mw), constant(MOUTH))

    # hair in front: the head's rim without the face, down to `low`; brows; glasses
    face = _ellipse(torch, u, v - 8, w - 2.5, h - 5)
    cap = torch.maximum(torch.maximum(head - c["cap"], -face), v - c["low"])
    img = over(img, cover(cap), hair)
    img = over(img, cover(_box(torch, torch.abs(au - c["eye_distance"]), torch.abs(v - EYE_Y + 10.5 + 0.012 * ex * ex), 6.5, c["brow"], 1.4)), hair * 0.8)
    frame = torch.abs(_box(torch, torch.abs(ex), torch.abs(ey), c["frame_rx"], c["frame_ry"], c["frame_round"])) - c["frame"]
    arms = torch.maximum(torch.maximum(torch.abs(ey + 2) - c["frame"], c["frame_rx"] - torch.abs(ex)), au - w)  # a bridge and two arms
    img = over(img, cover(torch.minimum(frame, arms)), constant(FRAME))
    return img * 2 - 1


def photo(p, torch=None):
    """Draws the neutral photos of packed faces: [B, 3, 128, 128] in -1..1."""
    torch = torch or sys.modules["torch"]
    mouth = torch.tensor([0.0, 0.5], device=p.device).expand(len(p), 1, 2)
    return render(p, mouth, torch.zeros(len(p), 1, 4, device=p.device), torch)[:, :, 0]
