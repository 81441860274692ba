#!/usr/bin/env python3
"""Makes upright.txt: small pictures that are stored turned, transparent or in other ways that need care, and what Pillow reads from them.

    python3 make_upright.py        (Pillow 13.0, NumPy 2.4; seed 11)

Each line has a name, the file's bytes, width, height and the pixels of ImageOps.exif_transpose(Image.open(file)).convert("RGB"), where bytes are hex
digits. Where Pillow gives up because of a damaged EXIF, the pixels are those of the file as it is stored, and the name ends in "!"."""
import io
import os
import struct
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin

HERE = os.path.dirname(os.path.abspath(__file__))
PIXELS = np.random.default_rng(11).integers(0, 256, (3, 5, 3), dtype=np.uint8)
LINES = []


def add(name, file):
    stored = Image.open(io.BytesIO(file))
    try:
        upright = ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")
    except (SyntaxError, ValueError, TypeError, struct.error):
        name, upright = name + "!", stored.convert("RGB")
    LINES.append(f"{name} {file.hex()} {upright.width} {upright.height} {np.asarray(upright).tobytes().hex()}\n")


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def tiff(value=6, order="<", kind=3, count=1, before=(), magic=42, value_bytes=None, entries=None):
    """An EXIF block with one directory; `before` holds whole entries that come before the orientation."""
    own = [struct.pack(order + "HHL", 0x0112, kind, count) + (value_bytes or struct.pack(order + "HH", value, 0))]
    directory = list(before) + (own if entries is None else entries)
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HL", magic, 8)
    return head + struct.pack(order + "H", len(directory)) + b"".join(directory) + bytes(4) + struct.pack(order + "LL", 6, 1)


def entry(tag, kind, count, value, order="<"):
    return struct.pack(order + "HHLL", tag, kind, count, value)


def xmp(value, form="attribute"):
    body = {"attribute": f'<rdf:Description tiff:Orientation="{value}"/>', "element": f"<tiff:Orientation>{value}</tiff:Orientation>",
            "quotes": f"<rdf:Description tiff:Orientation='{value}'/>"}[form]
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF>{body}</rdf:RDF></x:xmpmeta>'.encode()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks, behind=False):
    """A PNG with extra chunks before or after the pixels."""
    whole = saved(Image.fromarray(PIXELS), "png")
    at = whole.index(b"IEND" if behind else b"IDAT") - 4
    return whole[:at] + b"".join(chunks) + whole[at:]


def itxt(key, text, packed=False):
    return chunk(b"iTXt", key + (b"\0\1\0" if packed else b"\0\0\0") + b"\0\0" + (zlib.compress(text) if packed else text))


def raw_profile(exif, width=72):
    digits = exif.hex()
    return f"\nexif\n{len(exif):8}\n".encode() + b"".join(digits[i:i + width].encode() + b"\n" for i in range(0, len(digits), width))


def webp(flags, *chunks):
    """A WebP that has VP8X with these flags, then chunks in the order given; None stands for the picture."""
    still = saved(Image.fromarray(PIXELS), "webp", lossless=True)[12:]
    riff = lambda kind, data: kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
    size = lambda n: struct.pack("<I", n - 1)[:3]
    body = riff(b"VP8X", bytes([flags, 0, 0, 0]) + size(5) + size(3))
    body += b"".join(still if c is None else riff(*c) for c in chunks)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def orientations():
    prefix = b"Exif\0\0"
    for value in range(1, 9):
        add(f"png-{value}", png(chunk(b"eXIf", tiff(value))))
        add(f"webp-{value}", webp(8, None, (b"EXIF", tiff(value, ">"))))
        exif = Image.Exif()
        exif[0x0112] = value
        for kind in ("png", "webp"):
            add(f"pillow-{kind}-{value}", saved(Image.fromarray(PIXELS), kind, exif=exif, **({"lossless": True} if kind == "webp" else {})))
    add("png-behind", png(chunk(b"eXIf", tiff(8)), behind=True))
    add("png-prefix", png(chunk(b"eXIf", prefix + tiff(6))))
    add("png-two", png(chunk(b"eXIf", tiff(6)), chunk(b"eXIf", tiff(3))))
    profile = raw_profile(tiff(6, ">"))
    for name, packed in (("zTXt", b"\0\0" + zlib.compress(profile)), ("tEXt", b"\0" + profile)):
        add(f"png-profile-{name}", png(chunk(name.encode(), b"Raw profile type exif" + packed)))
        add(f"png-profile-{name}-behind", png(chunk(name.encode(), b"Raw profile type exif" + packed), behind=True))
    add("png-profile-iTXt", png(itxt(b"Raw profile type exif", profile)))
    add("png-profile-prefix", png(chunk(b"tEXt", b"Raw profile type exif\0" + raw_profile(prefix + tiff(5)))))
    add("png-profile-odd-lines", png(chunk(b"tEXt", b"Raw profile type exif\0" + raw_profile(tiff(5), 7))))
    add("png-profile-and-exif", png(chunk(b"tEXt", b"Raw profile type exif\0" + profile), chunk(b"eXIf", tiff(3))))
    add("png-profile-damaged", png(chunk(b"tEXt", b"Raw profile type exif\0\nexif\n 3\n4g4g\n")))
    for name, packed in (("plain", False), ("packed", True)):
        add(f"png-xmp-{name}", png(itxt(b"XML:com.adobe.xmp", xmp(7), packed)))
    add("png-xmp-behind", png(itxt(b"XML:com.adobe.xmp", xmp(6, "element")), behind=True))
    add("png-xmp-and-exif", png(itxt(b"XML:com.adobe.xmp", xmp(6)), chunk(b"eXIf", tiff(3))))
    add("png-xmp-and-exif-without", png(itxt(b"XML:com.adobe.xmp", xmp(6)), chunk(b"eXIf", tiff(entries=[entry(0x128, 3, 1, 2)]))))
    add("png-xmp-and-bad-exif", png(itxt(b"XML:com.adobe.xmp", xmp(6)), chunk(b"eXIf", tiff(9))))
    add("webp-prefix", webp(8, None, (b"EXIF", prefix + tiff(6))))
    add("webp-prefix-twice", webp(8, None, (b"EXIF", prefix * 2 + tiff(6))))
    add("webp-before", webp(8, (b"EXIF", tiff(6)), None))
    add("webp-two", webp(8, None, (b"EXIF", tiff(6)), (b"EXIF", tiff(3))))
    add("webp-without-flag", webp(0, None, (b"EXIF", tiff(6))))
    add("webp-xmp", webp(4, None, (b"XMP ", xmp(6))))
    add("webp-xmp-and-exif", webp(12, None, (b"XMP ", xmp(6)), (b"EXIF", tiff(8))))


def odd_exif():
    rational = struct.pack("<L", 26)  # the offset after one entry and the end of the directory
    cases = {
        "zero": tiff(0), "nine": tiff(9), "large": tiff(65535), "big-endian": tiff(6, ">"),
        "long": tiff(kind=4, value_bytes=struct.pack("<L", 6)), "long-big": tiff(order=">", kind=4, value_bytes=struct.pack(">L", 6)),
        "byte": tiff(kind=1, value_bytes=b"\6\0\0\0"), "text": tiff(kind=2, count=2, value_bytes=b"6\0\0\0"),
        "signed-byte": tiff(kind=6, value_bytes=b"\6\0\0\0"), "undefined": tiff(kind=7, value_bytes=b"\6\0\0\0"),
        "signed-short": tiff(kind=8), "signed-long": tiff(kind=9, value_bytes=struct.pack("<l", 6)),
        "float": tiff(kind=11, value_bytes=struct.pack("<f", 6)), "float-between": tiff(kind=11, value_bytes=struct.pack("<f", 6.5)),
        "rational": tiff(kind=5, value_bytes=rational), "signed-rational": tiff(kind=10, value_bytes=rational), "ifd": tiff(kind=13),
        "two": tiff(count=2, value_bytes=struct.pack("<HH", 6, 3)), "three": tiff(count=3, value_bytes=struct.pack("<L", 26)),
        "none": tiff(count=0), "unknown-type": tiff(kind=99), "far": tiff(count=9, value_bytes=struct.pack("<L", 9999)),
        "twice": tiff(6, before=[tiff(3)[10:22]]), "behind-others": tiff(6, before=[entry(0x10f, 2, 3, 0x4241), entry(0x110, 99, 1, 0)]),
        "behind-far": tiff(6, before=[entry(0x10f, 2, 12, 9999)]), "behind-huge": tiff(6, before=[entry(0x10f, 2, 10**9, 8)]),
        "magic-swapped": tiff(6, magic=42 << 8), "magic-43": tiff(6, magic=43), "magic-41": tiff(6, magic=41),
        "short": tiff(6)[:7], "cut": tiff(6)[:20], "empty": b"", "offset": b"II*\0" + struct.pack("<L", 9999) + tiff(6)[8:],
        "more-entries": tiff(6)[:8] + b"\xff\0" + tiff(6)[10:], "text-only": b"hello, world",
    }
    for name, exif in cases.items():
        add(f"exif-{name}", png(chunk(b"eXIf", exif)))
    for form in ("attribute", "element", "quotes"):
        add(f"xmp-{form}", png(itxt(b"XML:com.adobe.xmp", xmp(8, form))))
    for value in ("0", "9", "12", "x", ""):
        add(f"xmp-value-{value or 'none'}", png(itxt(b"XML:com.adobe.xmp", xmp(value) + xmp(3))))


def colours():
    """Transparency is dropped without blending with a background; values of 16 bits lose the lower 8."""
    ramp = np.arange(15, dtype=np.uint8).reshape(3, 5) * 17
    rgba = np.dstack([PIXELS, ramp])
    add("rgba-png", saved(Image.fromarray(rgba), "png"))
    add("rgba-webp", saved(Image.fromarray(rgba), "webp", lossless=True, exact=True))
    add("grey-alpha-png", saved(Image.fromarray(np.dstack([PIXELS[..., 0], ramp])), "png"))
    palette = Image.fromarray(PIXELS).quantize(7)
    add("palette-transparent-png", saved(palette, "png", transparency=2))
    add("palette-alpha-png", saved(palette, "png", transparency=bytes([0, 40, 80, 120, 160, 200, 255])))
    add("grey-key-png", saved(Image.fromarray(ramp), "png", transparency=17))
    add("rgb-key-png", saved(Image.fromarray(PIXELS), "png", transparency=tuple(int(v) for v in PIXELS[1, 1])))
    header = struct.pack(">IIBBBBB", 5, 3, 16, 2, 0, 0, 0)
    wide = np.random.default_rng(12).integers(0, 65536, (3, 15)).astype(">u2")
    rows = zlib.compress(b"".join(b"\0" + row.tobytes() for row in wide))
    add("rgb16-png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def animations():
    frames = [Image.fromarray(np.random.default_rng(i).integers(0, 256, (3, 5, 3), dtype=np.uint8)) for i in (1, 2, 3)]
    more = {"save_all": True, "append_images": frames[1:], "duration": 100}
    add("animated-webp", saved(frames[0], "webp", lossless=True, **more))
    add("animated-png", saved(frames[0], "png", **more))
    add("animated-png-default", saved(frames[0], "png", default_image=True, **more))
    add("animated-gif", saved(frames[0].quantize(16), "gif", save_all=True, append_images=[f.quantize(16) for f in frames[1:]], duration=100))
    add("still-gif", saved(frames[0].quantize(16), "gif"))
    add("transparent-gif", saved(frames[0].quantize(16), "gif", transparency=3))
    add("interlaced-gif", saved(Image.fromarray(np.random.default_rng(5).integers(0, 256, (11, 7, 3), dtype=np.uint8)).quantize(32), "gif", interlace=1))
    alpha = [Image.fromarray(np.dstack([np.asarray(f), np.full((3, 5), 90 * i, np.uint8)])) for i, f in enumerate(frames)]
    add("animated-alpha-webp", saved(alpha[0], "webp", lossless=True, exact=True, save_all=True, append_images=alpha[1:]))
    exif = Image.Exif()
    exif[0x0112] = 6
    add("animated-turned-webp", saved(frames[0], "webp", lossless=True, exif=exif.tobytes(), **more))
    # The first frame is smaller than the canvas.
    still = saved(Image.fromarray(PIXELS), "webp", lossless=True)[12:]
    u24 = lambda n: struct.pack("<I", n)[:3]
    anmf = u24(1) + u24(2) + u24(4) + u24(2) + u24(100) + b"\0" + still
    riff = lambda kind, data: kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)
    body = riff(b"VP8X", b"\x12\0\0\0" + u24(8) + u24(7)) + riff(b"ANIM", bytes([9, 8, 7, 255, 0, 0])) + riff(b"ANMF", anmf) * 2
    add("animated-part-webp", b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body)
    gif = saved(Image.fromarray(PIXELS).quantize(4), "gif")
    for name, flag in (("part-gif", b""), ("part-transparent-gif", b"\x21\xf9\4\1\0\0\2\0")):
        at = gif.index(b"\x2c\0\0\0\0")
        add(name, gif[:6] + struct.pack("<HH", 9, 8) + gif[10:at] + flag + b"\x2c" + struct.pack("<HH", 2, 4) + gif[at + 5:])


warnings.simplefilter("ignore")
orientations()
odd_exif()
colours()
animations()
with open(os.path.join(HERE, "upright.txt"), "w", encoding="ascii") as out:
    out.writelines(LINES)
