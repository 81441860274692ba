"""Continues training the shipped model's autoencoder, on talking faces.

    torchrun --nproc_per_node 2 video.py --bank /tmp/talker/bank --from models/sprites/vae --model models/talker --minutes 4

The loss is that of ../vae.py, with higher weights on moving parts (mouth, eyes, the head's outline) instead of coloured objects.
"""
import argparse
import json
import os
import time

import net  # first: it finds the folder above
import numpy as np
import torch

import faces
import vae
from bank import Bank
from common import Clock, Flat, Team


def moving(x):
    return 1 + 2 * ((x - x.mean(2, keepdim=True)).abs().amax(1, keepdim=True) > 0.08).to(x.dtype)


def loss_of(model, x, late):
    return vae.loss_of(model, x, late, moving)


def clips_of(bank, clips, render=faces.render):
    """Renders clips [B, 4] as [B, 3, WINDOW, H, W]."""
    return render(bank.faces[clips[:, 0]], *bank.tracks(clips), torch)


def compiled_render():
    return torch.compile(lambda packed, mouth, pose, _: faces.render(packed, mouth, pose, torch), dynamic=False)


def photo_clips(photos):
    """Returns a photo followed by grey frames, which is encoded as the transformer's condition."""
    return torch.cat([photos[:, :, None], photos.new_zeros(*photos.shape[:2], net.WINDOW - 1, *photos.shape[2:])], 2)


@torch.no_grad()
def evaluate(model, bank, n=64, batch=8):
    """Returns the PSNR of the last clips: (mean, mean of first frames, lowest)."""
    all_, first = [], []
    for i in range(len(bank.clips) - n, len(bank.clips), batch):
        x = clips_of(bank, bank.clips[i:i + batch])
        e = (vae.decode(model, vae.encode(model, x)[0]).clamp(-1, 1) - x) ** 2
        all_ += [vae.psnr(float(v)) for v in e.mean((1, 2, 3, 4))]
        first += [vae.psnr(float(v)) for v in e[:, :, 0].mean((1, 2, 3))]
    return float(np.mean(all_)), float(np.mean(first)), min(all_)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bank", default="/tmp/talker/bank")
    a.add_argument("--from", dest="start", default="models/sprites/vae")
    a.add_argument("--model", default="models/talker")
    a.add_argument("--minutes", type=float, default=4)
    a.add_argument("--max-steps", type=int, default=0)
    a.add_argument("--batch", type=int, default=8, help="clips per process")
    a.add_argument("--lr", type=float, default=7e-4)
    a.add_argument("--eval", type=int, default=64, help="clips to measure")
    args = a.parse_args()
    team = Team()
    clock = Clock(team, args.minutes, args.max_steps)
    torch.manual_seed(1)
    model = vae.build(args.start).to(team.device)
    torch.manual_seed(100 + team.rank)
    flat = Flat(team, [model], weight_decay=1e-3)
    bank = Bank(args.bank, team.device)
    loss_fn, render = loss_of, faces.render
    if team.cuda:
        loss_fn, render = torch.compile(loss_of, dynamic=False), compiled_render()
    late, step, began, mark = torch.zeros((), device=team.device), 0, time.time(), time.time()
    if team.rank == 0:
        team.log(f"before: {evaluate(model, bank, args.eval // 4)}")
    while clock.tick(step):
        if step % 20 == 0:
            late.fill_(min(1.0, max(0.0, (clock.fraction - 0.3) / 0.2)))
        i = torch.randint(len(bank.clips) - 64, (args.batch,), device=team.device)
        with torch.no_grad():
            clips = bank.clips[i].clone()
            clips[:, 0] = torch.randint(len(bank.faces), (args.batch,), device=team.device)
            x = clips_of(bank, clips, render)
            if step % 8 == 7:  # single photos are encoded, too
                x[: args.batch // 4, :, 1:] = 0
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            loss, mse = loss_fn(model, x, late)
        loss.backward()
        flat.step(clock.lr(step, args.lr, warm=200), decay=0.999)
        if step % 100 == 0:
            team.log(f"vae: step {step} {100 * clock.fraction:.0f} % loss {float(loss.detach()):.4f} psnr {vae.psnr(float(mse)):.2f} dB "
                     f"{10 * (time.time() - mark):.1f} ms a step, {time.time() - began:.0f} s")
            mark = time.time()
        step += 1
    if team.rank == 0:
        out = os.path.join(args.model, "parts", "vae")
        flat.averaged([model])[0].save_pretrained(out)
        mean, first, low = evaluate(vae.build(out).to(team.device), bank, args.eval)
        team.log(f"vae: {step} steps, {time.time() - began:.0f} s, PSNR {mean:.2f} dB, first frame {first:.2f}, lowest clip {low:.2f}")
        with open(os.path.join(args.model, "parts", "vae.log.json"), "w") as f:
            json.dump({"steps": step, "seconds": time.time() - began, "clips": step * args.batch * team.size, "psnr": mean, "psnr_first": first, "psnr_lowest": low}, f)
    team.close()


if __name__ == "__main__":
    main()
