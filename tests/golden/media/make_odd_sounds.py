#!/usr/bin/env python3
"""Makes odd_sounds.txt: short sounds in the containers and codings that recorders and other programs leave, and what they hold.

    python3 make_odd_sounds.py     (soundfile 0.14.0 with libsndfile 1.2, NumPy 2.4; seed 13)

Each line has a name, the file's bytes, its rate, its channels and the mean of its channels as float32, with the bytes as hex digits. Containers
and codings that libsndfile writes are read back by it (long.flac, long.mp3 and long.ogg are for tests that cut them); the other files are a wav file
of 16 bits put together byte by byte, whose samples are known. (The serial number in long.ogg differs each time.)"""
import io
import os
import struct

import numpy as np
import soundfile

HERE = os.path.dirname(os.path.abspath(__file__))
RATE, COUNT = 8000, 61
rng = np.random.default_rng(13)
SOUND = (np.sin(np.arange(COUNT)[:, None] * np.array([0.11, 0.07])) * 0.6 + rng.normal(size=(COUNT, 2)) * 0.02).astype(np.float32)
LINES = []


def add(name, file, samples, channels):
    samples = np.asarray(samples, np.float32)
    LINES.append(f"{name} {file.hex()} {RATE} {channels} {samples.astype('<f4').tobytes().hex()}\n")


def by_soundfile(name, form, coding, channels=2, endian=None):
    out = io.BytesIO()
    soundfile.write(out, SOUND[:, :channels], RATE, format=form, subtype=coding, endian=endian)
    file = out.getvalue()
    values = soundfile.read(io.BytesIO(file), dtype="float32", always_2d=True)[0]
    total = values[:, 0]
    for channel in range(1, channels):
        total = total + values[:, channel]
    add(name, file, total / np.float32(channels), channels)
    return file


PCM = np.round(SOUND[:, 0] * 32767).astype("<i2")
DATA = PCM.tobytes()
RIGHT = PCM / np.float32(32768)
FMT = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)


def chunk(name, data, told=None, pad=True):
    return name + struct.pack("<I", len(data) if told is None else told) + data + bytes(len(data) % 2 if pad else 0)


def wav(*chunks, told=None):
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if told is None else told) + body


def main():
    codings = {"RF64": ("PCM_16", "FLOAT"), "W64": ("PCM_16", "FLOAT"), "AU": ("PCM_16", "ULAW", "FLOAT"), "AIFF": ("PCM_16", "PCM_24", "FLOAT"),
               "CAF": ("PCM_16",), "WAVEX": ("PCM_16", "PCM_24", "FLOAT"), "WAV": ("PCM_16", "PCM_24", "FLOAT", "DOUBLE", "ULAW", "ALAW")}
    for form, these in codings.items():
        for coding in these:
            by_soundfile(f"{form}-{coding}".lower(), form, coding, 1 if coding == "PCM_24" else 2)
    by_soundfile("wav-pcm_32", "WAV", "PCM_32")
    by_soundfile("wav-pcm_u8", "WAV", "PCM_U8")
    by_soundfile("aiff-pcm_s8", "AIFF", "PCM_S8")
    by_soundfile("aiff-little-pcm_16", "AIFF", "PCM_16", endian="LITTLE")
    rf64 = io.BytesIO()
    soundfile.write(rf64, SOUND[:, :1], RATE, format="RF64", subtype="PCM_16")
    as_read = soundfile.read(io.BytesIO(rf64.getvalue()), dtype="float32")[0]
    add("bw64", b"BW64" + rf64.getvalue()[4:], as_read, 1)
    large = rf64.getvalue()
    for name, told in (("zero", 0), ("ones", 2**64 - 1), ("largest", 2**63 - 1)):
        head = large.index(b"ds64") + 8
        add(f"rf64-{name}", large[:head] + struct.pack("<QQQ", told, told, told) + large[head + 24:], as_read, 1)
    wave64 = io.BytesIO()
    soundfile.write(wave64, SOUND[:, :1], RATE, format="W64", subtype="PCM_16")
    large = wave64.getvalue()
    for name, told in (("zero", 0), ("header", 24), ("ones", 2**64 - 1), ("largest", 2**63 - 1)):
        head = large.index(b"data\xf3\xac") + 16
        add(f"w64-{name}", large[:head] + struct.pack("<Q", told) + large[head + 8:], as_read, 1)
    for told in (0x7FFFF000, 0x7FFFFFFF, 2_000_000_000, 0xFFFFFFFF, 0xFFFFFFFF - 36, 0x80000000, 0xFFFFFF00, 0x7FFFFFDB, 0x7FFF0000, 0):
        add(f"placeholder-{told:08x}", wav(chunk(b"fmt ", FMT), chunk(b"data", DATA, told), told=(told + 36) & 0xFFFFFFFF), RIGHT, 1)
    odd = chunk(b"LIST", b"INFOISFT\5\0\0\0Odd 1")
    add("list-before-fmt", wav(odd, chunk(b"fmt ", FMT), chunk(b"data", DATA)), RIGHT, 1)
    add("list-between", wav(chunk(b"fmt ", FMT), odd, chunk(b"data", DATA)), RIGHT, 1)
    add("list-behind", wav(chunk(b"fmt ", FMT), chunk(b"data", DATA), odd), RIGHT, 1)
    bare = chunk(b"LIST", b"INFOISFT\5\0\0\0Odd 1", pad=False)
    add("list-without-padding", wav(bare, chunk(b"fmt ", FMT), bare, chunk(b"data", DATA)), RIGHT, 1)
    add("two-data", wav(chunk(b"fmt ", FMT), chunk(b"data", DATA[:50]), odd, chunk(b"data", DATA[50:])), RIGHT, 1)
    add("empty-and-data", wav(chunk(b"fmt ", FMT), chunk(b"data", b""), chunk(b"data", DATA)), RIGHT, 1)
    add("format-behind", wav(chunk(b"data", DATA), chunk(b"fmt ", FMT)), RIGHT, 1)
    add("junk", wav(chunk(b"JUNK", bytes(28)), chunk(b"bext", bytes(602)), chunk(b"fmt ", FMT), chunk(b"data", DATA)), RIGHT, 1)
    add("placeholder-behind-list", wav(odd, chunk(b"fmt ", FMT), chunk(b"data", DATA, 0x7FFFF000), told=0x7FFFF024), RIGHT, 1)
    add("riff-zero", wav(chunk(b"fmt ", FMT), chunk(b"data", DATA), told=0), RIGHT, 1)
    add("fmt-of-18", wav(chunk(b"fmt ", FMT + bytes(2)), chunk(b"data", DATA)), RIGHT, 1)
    # These sounds are long enough to be cut, and simple enough that the files are small: eight frames of flac, and more of the others.
    t = np.arange(30000)
    tone = (np.round(np.sin(t * 0.09) * 20) * np.where(t // 3000 % 2, 256, 512)).astype(np.int16)
    for name, form, coding in (("long.flac", "FLAC", "PCM_16"), ("long.mp3", "MP3", "MPEG_LAYER_III"), ("long.ogg", "OGG", "VORBIS")):
        soundfile.write(os.path.join(HERE, name), tone, RATE, format=form, subtype=coding)
    with open(os.path.join(HERE, "odd_sounds.txt"), "w", encoding="ascii") as out:
        out.writelines(LINES)


main()
