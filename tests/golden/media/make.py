#!/usr/bin/env python3
"""Makes the pictures of this folder: small files that Pillow wrote, and what Pillow reads or resizes them to.

    python3 make.py        (Pillow 13.0, NumPy 2.4; seed 7)

Each NAME.png|jpg|webp comes with NAME.rgb: Image.open(NAME), turned upright by ImageOps.exif_transpose, converted to
RGB, as raw bytes. resize_*.rgb are Image.resize(..., LANCZOS) of source.png; crop_*.rgb are diffusers'
(0.42.1) VideoProcessor.resize(..., resize_mode="crop") of it
(Pillow 13 resizes the columns first where the height loses more than twice the pixels that the width loses; older ones never do).
"""
import io
import os
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

HERE = os.path.dirname(os.path.abspath(__file__))


def scene(width, height):
    """Draws gradients, a disc with a hard edge and mild noise, so that every part of a decoder has something to do."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    out = np.stack([255 * x / width, 255 * y / height, 128 + 100 * np.sin(x / 5) * np.cos(y / 7)], -1)
    disc = (x - width * 0.6) ** 2 + (y - height * 0.4) ** 2 < (height * 0.25) ** 2
    out[disc] = [240, 200, 20]
    return np.clip(out + rng.normal(0, 2, out.shape), 0, 255).astype(np.uint8)


def reference(name):
    image = ImageOps.exif_transpose(Image.open(os.path.join(HERE, name))).convert("RGB")
    with open(os.path.join(HERE, os.path.splitext(name)[0] + ".rgb"), "wb") as f:
        f.write(np.asarray(image).tobytes())


def save(name, image, **options):
    image.save(os.path.join(HERE, name), **options)
    reference(name)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main():
    rgb = scene(48, 33)
    image = Image.fromarray(rgb)
    save("source.png", image)
    save("gray.png", image.convert("L"))
    save("palette.png", image.quantize(64))
    alpha = np.dstack([rgb, np.linspace(0, 255, rgb[..., 0].size).reshape(33, 48).astype(np.uint8)])
    save("alpha.png", Image.fromarray(alpha))
    save("bits1.png", image.convert("1"))
    save("photo444.jpg", image, quality=95, subsampling=0)
    save("photo420.jpg", image, quality=90, subsampling=2)
    save("photogray.jpg", image.convert("L"), quality=95)
    save("progressive.jpg", image, quality=92, progressive=True, subsampling=0)
    ink = np.dstack([255 - rgb, np.linspace(0, 90, rgb[..., 0].size).reshape(33, 48).astype(np.uint8)])
    save("cmyk.jpg", Image.fromarray(ink, "CMYK"), quality=95, subsampling=0)
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        save(f"turned{orientation}.jpg", image, quality=95, subsampling=0, exif=exif)
    save("lossless.webp", image, lossless=True)
    save("lossy.webp", image, quality=90)

    for width, height in [(24, 16), (17, 40), (96, 66), (100, 20), (7, 5), (40, 3)]:
        out = np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))
        with open(os.path.join(HERE, f"resize_{width}x{height}.rgb"), "wb") as f:
            f.write(out.tobytes())

    for width, height in [(24, 24), (100, 20), (7, 31), (48, 33)]:
        from diffusers.video_processor import VideoProcessor
        out = np.asarray(VideoProcessor(vae_scale_factor=8).resize(image, height, width, resize_mode="crop"))
        with open(os.path.join(HERE, f"crop_{width}x{height}.rgb"), "wb") as f:
            f.write(out.tobytes())

    # The pixel data of this PNG stops halfway although all chunks and checksums are right.
    header = struct.pack(">IIBBBBB", 48, 33, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + rgb[y].tobytes() for y in range(16))
    with open(os.path.join(HERE, "short_data.png"), "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    # This adds an iTXt comment as another program would write it.
    from PIL.PngImagePlugin import PngInfo
    info = PngInfo()
    info.add_itxt("Comment", "größer ✓", lang="de", tkey="Kommentar")
    image.save(os.path.join(HERE, "itxt.png"), pnginfo=info)


main()
