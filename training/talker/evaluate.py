"""Makes talking photos of held-out people and speech with PyTorch, by the same loop as the engine, and judges them.

    python3 evaluate.py --model models/talker --limit 64 --seconds 5 --steps 8
    torchrun --nproc_per_node 2 evaluate.py …                 # shared between devices

The noise of item i comes from torch's CPU generator with seed i, drawn as in InfiniteTalk.
"""
import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import net  # first: it finds the folder above
import numpy as np
import torch

import faces
import heldout
import judge
import speech
import vae
import video
from common import Team
from train import folder, frozen


class Talker:
    """The frozen parts and the denoiser of a model, on a device."""

    def __init__(self, model, device, lora=None):
        from tokenizers import Tokenizer
        self.ears, self.eyes, self.reader, self.auto = frozen(model, device)
        self.net = net.load_denoiser(model).to(device).eval().requires_grad_(False)
        if lora:
            import distill
            distill.merge(self.net, lora)
        self.tokens = Tokenizer.from_file(os.path.join(model, "google", "umt5-xxl", "tokenizer.json"))
        with open(os.path.join(folder(model, "vae"), "config.json")) as f:
            config = json.load(f)
        self.mean, self.std = (torch.tensor(config[k], device=device).view(1, -1, 1, 1, 1) for k in ("latents_mean", "latents_std"))
        self.device = device

    def encode(self, x):
        return (vae.encode(self.auto, x)[0] - self.mean) / self.std

    def decode(self, z):
        return vae.decode(self.auto, z * self.std + self.mean).clamp(-1, 1)

    def read(self, captions):
        ids = [self.tokens.encode(c).ids for c in captions]
        table = torch.zeros(len(ids), max(map(len, ids)), dtype=torch.long)
        for row, i in zip(table, ids):
            row[:len(i)] = torch.tensor(i)
        return net.read(self.reader, table.to(self.device))

    @torch.no_grad()
    def __call__(self, photos, sounds, captions, frames, steps, shift, grid="multitalk", seeds=None, amp=False):
        """Makes frames uint8 [B, frames, H, W, 3] from photos [B, 3, H, W], sounds [B, n] and captions."""
        b, dev = len(photos), self.device
        windows = 1 if frames <= net.WINDOW else 1 + -(-(frames - net.WINDOW) // (net.WINDOW - net.MOTION))
        stride, size = net.WINDOW - net.MOTION, (16, net.FRAMES, net.LATENT, net.LATENT)
        spoken = sounds.shape[1] * net.FPS // net.RATE
        states = net.hear(self.ears, net.standard(sounds), spoken)
        behind = (windows - 1) * stride + net.WINDOW - spoken + 3
        if windows > 1 and behind > 0:
            states = torch.cat([states, states.flip(1)[:, :behind]], 1)
        rows = states.shape[1]
        text, bias = self.read(captions)
        picture, y = net.look(self.eyes, photos), self.encode(video.photo_clips(photos))
        motion, sigmas = y[:, :, :1], net.shifted(steps, shift, grid)  # the first latent frame contains only the photo
        draws = [torch.Generator().manual_seed(s) for s in (seeds or range(b))]
        out = []
        flat = states.flatten(0, 1)
        for k in range(windows):
            noise = torch.stack([torch.randn(*size, generator=g) for g in draws]).to(dev)
            first = torch.arange(b, device=dev) * rows
            said = net.speech_of(flat, net.rows_of(first + k * stride, first, first + rows - 1))
            with torch.autocast(dev.type, torch.bfloat16, enabled=amp):
                z = net.talk(self.net, y, motion, noise, sigmas, text, bias, picture, said)
                x = self.decode(z.float())
            if k:
                for g in draws:
                    for _ in range(steps + 1):
                        torch.randn(16, net.KEPT, net.LATENT, net.LATENT, generator=g)
            motion = self.encode(x[:, :, -net.MOTION:])
            out.append(x[:, :, net.MOTION if k else 0:].cpu())
        x = torch.cat(out, 2)[:, :, :frames]
        return ((x + 1) * 127.5).round().byte().permute(0, 2, 3, 4, 1).numpy()


def sheet(clips, path, every=6, most=16):
    """Writes a PNG with some frames of each clip in a row."""
    from PIL import Image
    Image.fromarray(np.concatenate([np.concatenate(list(c[::every][:most]), 1) for c in clips], 0)).save(path)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", default="models/talker")
    a.add_argument("--lora")
    a.add_argument("--limit", type=int, default=64)
    a.add_argument("--seconds", type=float, default=5)
    a.add_argument("--steps", type=int, default=8)
    a.add_argument("--shift", type=float, default=3.0)
    a.add_argument("--grid", default="multitalk", choices=["multitalk", "original"])
    a.add_argument("--batch", type=int, default=16)
    a.add_argument("--late", type=int, default=0, help="frames of silence before what is said")
    a.add_argument("--silent", action="store_true")
    a.add_argument("--sheet")
    a.add_argument("--out", help="a JSON file for the table")
    args = a.parse_args()
    team, began = Team(), time.time()
    with open(os.path.join(args.model, "heldout.json"), encoding="utf-8") as f:
        items = json.load(f)[:args.limit]
    samples = int(args.seconds * net.RATE)
    talker, mine, frames = Talker(args.model, team.device, args.lora), list(range(team.rank, len(items), team.size)), int(args.seconds * net.FPS)
    jobs, shown = [], []
    with ProcessPoolExecutor(max(1, min(12, (os.cpu_count() or 2) // team.size - 1)), get_context("spawn")) as pool:
        for at in range(0, len(mine), args.batch):
            part = [items[i] for i in mine[at:at + args.batch]]
            photos = faces.photo(faces.pack([faces.Face.of(item["face"]) for item in part]), torch)
            photos = (((photos + 1) * 127.5).round() / 127.5 - 1).to(team.device)
            sounds = torch.stack([torch.from_numpy(heldout.speech_of(item, args.late, args.silent)[:samples]) for item in part]).to(team.device)
            clips = talker(photos, sounds, [item["caption"] for item in part], frames, args.steps, args.shift, args.grid, mine[at:at + args.batch], team.cuda)
            shown += list(clips[:max(0, 12 - len(shown))])
            others = [speech.Utterance.of(items[(i + 1) % len(items)]["utterance"]) for i in mine[at:at + args.batch]]
            jobs += [pool.submit(judge.score, item, clip, other) for item, clip, other in zip(part, clips, others)]
        scores = [j.result() for j in jobs]
    if team.size > 1:
        gathered = [None] * team.size
        torch.distributed.all_gather_object(gathered, scores)
        scores = [s for part in gathered for s in part]
    if team.rank == 0:
        table = judge.aggregate(scores)
        table["missed"] = judge.misses(table, judge.LIMITS_LATE if args.late else judge.LIMITS_SILENT if args.silent else judge.LIMITS)
        print(json.dumps({"steps": args.steps, "shift": args.shift, "grid": args.grid, "clips": len(scores), "seconds": args.seconds, "took": round(time.time() - began), **table}), flush=True)
        if args.out:
            with open(args.out, "w") as f:
                json.dump(table, f, indent=1)
        if args.sheet:
            sheet(shown, args.sheet)
    team.close()


if __name__ == "__main__":
    main()
