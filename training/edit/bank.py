"""Scenes with all that is followed, and the tokens of their captions: made on a CPU (it needs the tokenizers package), 6 MB for 14,000 scenes.

    python3 training/edit/bank.py out/edit-bank.npz --scenes 14000

`latents` then draws and encodes them on the training device."""
import argparse
import json
import multiprocessing
import os
import time

import numpy as np
import torch

import net  # first: it finds the folder above
import captions
import controls
import dit
import heldout
import vae as video
import world
from tokenizer import MAX_TOKENS

FULL, UNNAMED = 8, 4  # wordings of a scene


def tokens_of(tok, texts):
    out = np.zeros((len(texts), MAX_TOKENS), np.int16)
    for row, text in zip(out, texts):
        ids = tok.encode(text).ids
        row[:len(ids)] = ids
    return out


def part(job):
    seed, n = job
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(os.path.join(net.MODEL, "tokenizer", "tokenizer.json"))
    rng = np.random.default_rng(seed)
    scenes = [world.sample_scene(rng, mix=(0.4, 0.05, 0.3, 0.25)) for _ in range(n)]
    packed = world.pack(scenes)
    rows = [controls.draw_rows(p, rng) for p in packed]
    texts = [[world.caption(s, rng) for _ in range(FULL)] + [captions.unnamed(s, rng) for _ in range(UNNAMED)] for s in scenes]
    ids = tokens_of(tok, [t for list_ in texts for t in list_]).reshape(n, FULL + UNNAMED, MAX_TOKENS)
    return (packed, *(np.stack(list_) for list_ in zip(*rows)), ids, np.array([s.layout == "single" for s in scenes]))


def make(path, scenes, held):
    """Writes `scenes` training scenes, and `held` items of each task of the held-out set."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer
    jobs = [(7000 + i, min(500, scenes - 500 * i)) for i in range(-(-scenes // 500))]
    with multiprocessing.get_context("spawn").Pool(min(len(jobs), os.cpu_count() or 2)) as pool:
        parts = pool.map(part, jobs, chunksize=1)
    out = {k: np.concatenate([p[j] for p in parts]) for j, k in enumerate(("packed", "mask", "other", "view", "ids", "single"))}
    items = heldout.items(held)
    tok = Tokenizer.from_file(os.path.join(net.MODEL, "tokenizer", "tokenizer.json"))
    out |= {"held": np.array(json.dumps(items)), "held_ids": tokens_of(tok, [i["caption"] for i in items])}
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    np.savez_compressed(path + ".part.npz", **out)
    os.replace(path + ".part.npz", path)


class Encoder:
    """The autoencoder of models/sprites: clips to normalised latents and back."""

    def __init__(self, team, compiled=None):
        import coders
        self.team, self.net = team, coders.load(os.path.join(net.MODEL, "vae")).to(team.device).requires_grad_(False)
        c = self.net.config
        self.mean, self.std = (torch.tensor(c[k], device=team.device).view(1, -1, 1, 1, 1) for k in ("latents_mean", "latents_std"))
        self.run = compiled(video.encode) if compiled else video.encode

    @torch.no_grad()
    def encode(self, x, plain=False):
        x = x.contiguous()  # other strides would be compiled anew
        with torch.autocast(self.team.device.type, torch.bfloat16, enabled=self.team.cuda):
            z = (video.encode if plain else self.run)(self.net, x)[0]
        return ((z.float() - self.mean) / self.std).contiguous()

    def still(self, x):
        """Encodes pictures [B, 3, 1, H, W] to [B, 16, 1, h, w]: a clip's first latent frame knows its first frame only."""
        return self.encode(x.expand(-1, -1, 5, -1, -1), plain=True)[:, :, :1]

    @torch.no_grad()
    def decode(self, z):
        """Returns uint8 clips [B, F, H, W, 3] of normalised latents."""
        x = video.decode(self.net, z.float() * self.std + self.mean).clamp(-1, 1)
        return torch.round((x + 1) * 127.5).byte().permute(0, 2, 3, 4, 1)


def follow(encoder, draw, p, m, q, view):
    """Returns latents of one batch: (clips, depth videos, kept parts, changed parts, masks bool [B, 64, T, h, w], pictures, where objects are)."""
    clip, depth = draw(p)
    shown = draw(q)[0] * (m[:, 7] != controls.GRAY).view(-1, 1, 1, 1, 1)
    white = controls.covered(p, m)
    kept, changed = controls.split(clip, shown, white)
    x = encoder.encode(clip)
    coloured = (clip.amax(1, keepdim=True) - clip.amin(1, keepdim=True) > 0.5).float()
    pool = torch.nn.functional.max_pool3d
    where = torch.cat([pool(coloured[:, :, :1], (1, 8, 8)), pool(coloured[:, :, 1:], (4, 8, 8))], 2) > 0
    return (x, encoder.encode(depth), encoder.encode(kept), encoder.encode(changed), controls.folded(white, x.shape[2]),
            encoder.still(controls.picture(p, view)), where)


@torch.no_grad()
def latents(team, bank, seconds, batch, compiled):
    """Encodes the bank's scenes until they or the seconds are over (compiling does not count). Returns a dict of tensors on the device."""
    rows = [torch.from_numpy(bank[k]) for k in ("packed", "mask", "other", "view")]
    encoder, draw, out, began = Encoder(team, compiled), compiled(controls.draw), [], time.time()
    batch = min(batch, len(rows[0]))
    for at in range(0, len(rows[0]) - batch + 1, batch):
        values = follow(encoder, draw, *(r[at:at + batch].to(team.device) for r in rows))
        out.append([v if v.dtype == torch.bool else v.bfloat16() for v in values])
        if at == 0:
            if team.cuda:
                torch.cuda.synchronize()
            team.log(f"compiled the autoencoder in {time.time() - began:.0f} s")
            began = time.time()
        if at % (16 * batch) == 0 and team.cuda:
            torch.cuda.synchronize()
        if time.time() - began > seconds:
            break
    made = {k: torch.cat([o[j] for o in out]) for j, k in enumerate(("clip", "depth", "kept", "changed", "mask", "picture", "where"))}
    made["nothing"] = encoder.encode(torch.zeros(batch, 3, world.FRAMES, world.SIZE, world.SIZE, device=team.device))[:1].bfloat16()
    team.log(f"encoded {len(made['clip'])} scenes in {time.time() - began:.0f} s")
    return made


@torch.no_grad()
def contexts(team, text, ids, batch=2048):
    """Returns the context rows, bfloat16 [n, ROWS, d], and score biases [n, ROWS] of token ids [n, MAX_TOKENS]."""
    ids = torch.from_numpy(np.ascontiguousarray(ids)).to(team.device)
    parts = [dit.context(text, ids[i:i + batch].long()) for i in range(0, len(ids), batch)]
    return torch.cat([r.bfloat16() for r, _ in parts]), torch.cat([b for _, b in parts])


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("path")
    a.add_argument("--scenes", type=int, default=14000)
    a.add_argument("--held", type=int, default=60, help="held-out items of each task")
    args = a.parse_args()
    make(args.path, args.scenes, args.held)


if __name__ == "__main__":
    main()
