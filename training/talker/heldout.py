"""Makes the held-out set of talking photos, and photos and speech for it.

    python3 training/talker/heldout.py models/talker/heldout.json            # writes the set: 200 items of 10 s
    python3 training/talker/heldout.py SET --media DIR [--limit N] [--late] [--silent]    # DIR/000.png and DIR/000.wav, ... (and prints captions)
"""
import argparse
import json
import os
import struct
import sys
import zlib

import numpy as np

import faces as F
import speech as S


def heldout_set(n=200, seconds=10, seed=2027):
    """Draws n items {face, motion, utterance, voice, seed, caption, lang}, with faces that training never draws and all motions equally often."""
    rng, out = np.random.default_rng(seed), []
    for i in range(n):
        motion, lang = F.MOTIONS[i % len(F.MOTIONS)], "zh" if i % 3 == 2 else "en"
        out.append({"face": F.sample_face(rng, heldout=True).json(), "motion": motion, "utterance": S.sample_utterance(rng, seconds).json(),
                    "voice": S.sample_voice(rng).json(), "seed": int(rng.integers(1 << 31)), "caption": F.caption(motion, rng, lang), "lang": lang})
    return out


def speech_of(item, late=0, silent=False):
    """Returns the speech of an item, float32, with `late` frames of silence before it (the length stays), or `silent`."""
    utterance = S.Utterance.of(item["utterance"])
    if silent:
        utterance = S.Utterance([0], utterance.ends[-1:])
    x = S.synthesise(utterance, S.Voice.of(item["voice"]), np.random.default_rng(item["seed"]))
    return np.concatenate([np.zeros(late * S.RATE // S.FPS, np.float32), x])[:len(x)]


def render_item(item, torch, frames=None, batch=25):
    """Returns the correct clip: uint8 [frames, 128, 128, 3]."""
    utterance = S.Utterance.of(item["utterance"])
    frames = frames or int(round(utterance.seconds * S.FPS))
    p = F.pack([F.Face.of(item["face"])])
    mouth, pose = (torch.from_numpy(x)[None] for x in (S.mouth_track(utterance, frames), F.pose_track(item["motion"], frames)))
    parts = [F.render(p, mouth[:, k:k + batch], pose[:, k:k + batch], torch) for k in range(0, frames, batch)]
    return torch.round((torch.cat(parts, 2) + 1) * 127.5).clamp(0, 255).byte()[0].permute(1, 2, 3, 0).numpy()


def write_png(path, image):
    """Writes an image, uint8 [height, width, 3], as a PNG."""
    h, w, _ = image.shape
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = np.concatenate([np.zeros((h, 1), np.uint8), image.reshape(h, -1)], 1).tobytes()  # each row begins with its filter, 0 for none
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def write_wav(path, x):
    """Writes x, float32 in -1..1 at 16 kHz, as 16 bits."""
    data = np.clip(np.round(x * 32767), -32768, 32767).astype("<i2").tobytes()
    with open(path, "wb") as f:
        f.write(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, S.RATE, 2 * S.RATE, 2, 16)
                + b"data" + struct.pack("<I", len(data)) + data)


def make_media(item, folder, name="item", late=0, silent=False):
    """Writes folder/name.png, the neutral photo, and folder/name.wav, the speech; returns both paths."""
    import torch
    os.makedirs(folder, exist_ok=True)
    photo = torch.round((F.photo(F.pack([F.Face.of(item["face"])]), torch)[0] + 1) * 127.5).clamp(0, 255).byte().permute(1, 2, 0).numpy()
    paths = os.path.join(folder, name + ".png"), os.path.join(folder, name + ".wav")
    write_png(paths[0], photo)
    write_wav(paths[1], speech_of(item, late, silent))
    return paths


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("set")
    a.add_argument("--media", help="folder for photos and speech of the set's items; without it the set itself is written")
    a.add_argument("--limit", type=int)
    a.add_argument("--late", action="store_true", help="speech comes 5 frames late")
    a.add_argument("--silent", action="store_true", help="nothing is said")
    args = a.parse_args()
    if args.media:
        for i, item in enumerate(json.load(open(args.set, encoding="utf-8"))[:args.limit]):
            make_media(item, args.media, f"{i:03d}", 5 * args.late, args.silent)
            print(f"{i:03d} {item['caption']}")
        return
    with open(args.set, "w", encoding="utf-8") as f:
        f.write("[" + ",\n".join(json.dumps(i, ensure_ascii=False, separators=(",", ":")) for i in heldout_set()) + "]\n")


if __name__ == "__main__":
    sys.exit(main())
