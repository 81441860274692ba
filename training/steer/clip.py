"""Makes an animated WebP for a README from a walk, and draws the keys that were held.

    build/tachyscope world --model models/world --image start.png --actions script.json -o frames/
    python3 training/steer/clip.py frames/ script.json docs/clips/world.webp [--scale 2] [--quality 70]

Frames are PNG files in the order of their names; the script is one that `tachyscope world --actions` reads.
"""
import argparse
import json
import pathlib

from PIL import Image, ImageDraw

CAP, GAP = 18, 3
# for each key or (tilt, turn): column and row of its cap
KEYS = {"W": (1, 0), "A": (0, 1), "S": (1, 1), "D": (2, 1)}
ARROWS = {(1, 0): (5, 0, "^"), (0, -1): (4, 1, "<"), (-1, 0): (5, 1, "v"), (0, 1): (6, 1, ">")}


def held_of(script):
    """Returns for each frame the names of the held keys and the signs of (tilt, turn)."""
    out = []
    for part in script["actions"]:
        pitch, yaw = part.get("mouse") or (0, 0)
        sign = lambda v: (v > 0) - (v < 0)
        out += [(set(part.get("keys") or ()), {(sign(pitch), 0), (0, sign(yaw))})] * part.get("frames", 1)
    return out


def caps(picture, keys, arrows):
    """Draws the caps of all keys into the lower left corner; held keys are bright."""
    draw = ImageDraw.Draw(picture, "RGBA")
    left, top = 6, picture.height - 2 * (CAP + GAP) - 4
    for name, column, row, held in [*((k, *at, k in keys) for k, at in KEYS.items()), *((sign, c, r, way in arrows) for way, (c, r, sign) in ARROWS.items())]:
        x, y = left + column * (CAP + GAP), top + row * (CAP + GAP)
        draw.rounded_rectangle((x, y, x + CAP, y + CAP), 4, fill=(255, 255, 255, 230) if held else (0, 0, 0, 70), outline=(255, 255, 255, 140))
        draw.text((x + CAP / 2, y + CAP / 2), name, fill=(20, 20, 20, 255) if held else (255, 255, 255, 160), anchor="mm")
    return picture


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("frames", type=pathlib.Path)
    a.add_argument("script", type=pathlib.Path)
    a.add_argument("out")
    a.add_argument("--scale", type=int, default=2)
    a.add_argument("--quality", type=int, default=70)
    args = a.parse_args()
    script = json.loads(args.script.read_text(encoding="utf-8"))
    files, held = sorted(args.frames.glob("*.png")), held_of(script)
    if not files:
        raise SystemExit(f"{args.frames}: no PNG files")
    pictures = []
    for i, file in enumerate(files):
        picture = Image.open(file).convert("RGB")
        picture = picture.resize((args.scale * picture.width, args.scale * picture.height), Image.LANCZOS)
        pictures.append(caps(picture, *held[min(i, len(held) - 1)]))
    pictures[0].save(args.out, save_all=True, append_images=pictures[1:], duration=round(1000 / script.get("fps", 12)), loop=0, quality=args.quality, method=6)


if __name__ == "__main__":
    main()
