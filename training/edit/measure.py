"""Makes the held-out items in PyTorch (Euler, sampled like the shipped model: 20 steps, shift 3, guidance 3) and judges them."""
import json
import os
import time

import numpy as np
import torch

import net  # first: it finds the folder above
import controls
import dit
import heldout
import judge_edit
from common import Team
from tokenizer import EOS, MAX_TOKENS

STEPS, SHIFT, GUIDANCE, COLUMNS = 20, 3.0, 3.0, 6


def condition(encoder, items, medias):
    """Returns control latents [B, 96, T, h, w] of items of one task, as WanVACEPipeline makes them."""
    device = encoder.team.device
    stacked = lambda k: torch.from_numpy(np.stack([m[k] for m in medias])).to(device)
    video = lambda x: x.permute(0, 4, 1, 2, 3).float() / 127.5 - 1
    shape = medias[0]["truths"][0].shape
    mask = torch.ones(len(items), 1, *shape[:3], dtype=torch.bool, device=device)
    clip = torch.zeros(len(items), 3, *shape[:3], device=device)
    if "control" in medias[0]:
        clip = video(stacked("control"))
    if "mask" in medias[0]:
        mask = stacked("mask").unsqueeze(1)
    kept, changed = (encoder.encode(x, plain=True) for x in controls.split(clip, clip, mask))
    out = torch.cat([kept, changed, controls.folded(mask, kept.shape[2]).float()], 1)
    if "picture" in medias[0]:
        front = encoder.still(video(stacked("picture").unsqueeze(1)))
        out = torch.cat([torch.nn.functional.pad(front, (0, 0, 0, 0, 0, 0, 0, net.CHANNELS - front.shape[1])), out], 2)
    return out


@torch.no_grad()
def sample(team, model, encoder, rows, bias, empty, control, seeds, steps, extra):
    """Returns uint8 clips. rows, bias: contexts of the captions; empty: (rows, bias) of the empty caption; extra: latent frames in front to take off."""
    n = len(seeds)
    x = torch.cat([torch.randn(1, 16, *control.shape[2:], generator=torch.Generator().manual_seed(s)) for s in seeds]).to(team.device)
    rows, bias = (torch.cat([a, b.expand(n, *b.shape[1:])]) for a, b in zip((rows, bias), empty))
    twice = torch.cat([control, control])
    t = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    s = (SHIFT * t / (1 + (SHIFT - 1) * t)).tolist()
    for k in range(steps):
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            v, w = net.denoise(model, torch.cat([x, x]), x.new_full((2 * n,), 1000 * s[k]), rows, bias, twice).chunk(2)
        x = x + (s[k + 1] - s[k]) * (w + GUIDANCE * (v - w))
    return torch.cat([encoder.decode(z) for z in x[:, :, extra:].split(8)]).cpu().numpy()


def strip(clip, mask=None):
    """Returns frames of a clip side by side, with the mask drawn in gray."""
    pick = np.linspace(0, len(clip) - 1, COLUMNS).round().astype(int)
    if mask is not None:
        clip = np.where(mask[..., None], np.uint8(128) + (clip // 4), clip)
    return np.concatenate(list(clip[pick]), 1)


def run(team, model, encoder, text, items, ids, limit, folder, batch=10, steps=STEPS, seconds=60):
    """Makes and judges up to `limit` items of each task, a batch of each task in turn, as many as the seconds allow (a batch that has begun is ended),
    and writes sheet.png. Returns the table with the misses. Everything happens in this process: one that has a GPU open starts no others safely."""
    from PIL import Image

    import bank
    model.eval()
    device, began = team.device, time.time()
    empty = dit.context(text, torch.tensor([[EOS] + [0] * (MAX_TOKENS - 1)], device=device))
    judged, scores, picture = [], [], []
    for at in range(0, limit, batch):
        for task in heldout.TASKS:
            part = [i for i, item in enumerate(items) if item["task"] == task][:limit][at:at + batch]
            if not part or time.time() - began > seconds:
                continue
            some = [items[i] for i in part]
            medias = [heldout.media(item) for item in some]
            rows, bias = bank.contexts(team, text, ids[part])
            control = condition(encoder, some, medias)
            extra = int("picture" in medias[0])
            clips = sample(team, model, encoder, rows.float(), bias, empty, control, [i["seed"] for i in some], steps, extra)
            trips = [None] * len(part)
            if task in judge_edit.MASKED:
                truth = torch.from_numpy(np.stack([m["truths"][0] for m in medias])).to(device).permute(0, 4, 1, 2, 3).float() / 127.5 - 1
                trips = torch.cat([encoder.decode(encoder.encode(x, plain=True)) for x in truth.split(8)]).cpu().numpy()
            judged += some
            scores += [judge_edit.score(*values) for values in zip(some, clips, medias, trips)]
            if at == 0:
                for m, c in list(zip(medias, clips))[:3]:
                    left = m.get("picture", np.full_like(c[0], 255))
                    above = strip(m["control"], m.get("mask")) if "control" in m else np.full((c.shape[1], COLUMNS * c.shape[2], 3), 255, np.uint8)
                    picture.append(np.concatenate([np.concatenate([left, above], 1), np.concatenate([np.full_like(c[0], 255), strip(c)], 1)], 0))
    if folder:
        Image.fromarray(np.concatenate(picture)).save(os.path.join(folder, "sheet.png"))
    table = judge_edit.table([i["task"] for i in judged], scores)
    table["misses"] = [f"{i['task']} {i['seed']}: {i['caption']} {s['wrong']} {s.get('position', '')} {round(s.get('kept', 0), 2)}"
                       for i, s in zip(judged, scores) if s["wrong"] or (s.get("position", (1, 1))[0] < 0.95 * s.get("position", (1, 1))[1])]
    team.log(json.dumps({k: v for k, v in table.items() if k != "misses"}))
    return table


def judged(team, model, text, stored, args, start):
    """Judges the bank's held-out items until what train.py was given (args.minutes) is over, counted from `start`."""
    import bank
    left = max(5, 60 * args.minutes - (time.time() - start))
    return run(team, model, bank.Encoder(team), text, json.loads(str(stored["held"])), stored["held_ids"], args.judge_limit, args.out,
               steps=args.judge_steps, seconds=left)


def judge_saved(args):
    """Judges blocks that are saved, and writes table.json beside them."""
    team, stored, start = Team(), np.load(args.bank), time.time()
    model = net.Edit(branch=os.path.join(args.out, "transformer", net.SHARDS[1])).to(team.device)
    table = judged(team, model, net.Text(os.path.join(net.MODEL, "text_encoder")).to(team.device), stored, args, start)
    net.write(os.path.join(args.out, "table.json"), json.dumps(table, indent=1))
