"""Prepares the text encoder: every row of an object's clause should encode the object and its place.

Linear heads on each row (thrown away afterwards) name colour, shape, motion and place of the object whose clause the row's token
belongs to, and (with less weight) the whole scene: layout, both objects, background and time. It needs no clips and takes a minute of one device.
`dit.py` then continues to train the encoder together with the denoiser, which so learns much sooner which colour belongs to which object.

    python3 text.py --bank bank.npz --out text_encoder --minutes 1
"""
import argparse
import os
import shutil
import time

import numpy as np
import torch
import torch.nn.functional as F

import dit
from common import Clock, Team


PLACES = 6  # places of an object: alone, one of twins, left, right, upper (it moves right), lower


def own_targets(owner, want):
    """Returns colour, shape, motion and place [B, L, 4] of the object that each token's clause is about (owner [B, L] is 1 or 2, or 0 for none, which
    gives -100)."""
    second = (owner == 2)[..., None]
    own = torch.where(second, want[:, None, 4:7], want[:, None, 1:4])
    layout = want[:, None, :1]
    place = torch.where(layout < dit.PAIR, layout, 2 * (layout - 1) + second)
    return torch.where((owner > 0)[..., None], torch.cat([own, place.expand(*owner.shape, 1)], 2), -100)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bank", default="bank.npz")
    a.add_argument("--out", default="models/sprites/text_encoder")
    a.add_argument("--resume", help="exported model to start from")
    a.add_argument("--minutes", type=float, default=1)
    a.add_argument("--batch", type=int, default=512)
    a.add_argument("--lr", type=float, default=2e-3)
    args = a.parse_args()
    team = Team()
    clock = Clock(team, args.minutes, every=5)
    torch.manual_seed(3)
    te, _ = dit.build(args.resume)
    te = te.to(team.device)
    sizes = [*dit.OWN, PLACES, *dit.SIZES]
    heads = torch.nn.Linear(dit.TEXT["d_model"], sum(sizes)).to(team.device)
    opt = torch.optim.AdamW([*te.parameters(), *heads.parameters()], lr=0.0, betas=(0.9, 0.98), weight_decay=0.01)
    while not os.path.exists(args.bank):
        time.sleep(1)
    bank = np.load(args.bank)
    all_ids, all_owner, all_want = (torch.from_numpy(bank[k]).to(team.device) for k in ("ids", "owner", "answers"))
    step, right, began = 0, torch.zeros(2, device=team.device), time.time()
    while clock.tick(step):
        i, j = torch.randint(len(all_ids), (args.batch,), device=team.device), torch.randint(dit.WORDINGS, (args.batch,), device=team.device)
        ids, want = all_ids[i, j].long(), all_want[i].long()
        mask = ids != 0
        target = torch.cat([own_targets(all_owner[i, j].long(), want), torch.where(mask[..., None], want[:, None], -100)], 2)
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            parts = heads(dit.encode_text(te, ids, mask)).split(sizes, 2)
        losses = [F.cross_entropy(p.float().flatten(0, 1), target[..., k].flatten()) for k, p in enumerate(parts)]
        loss = sum(losses[:4]) / 4 + 0.3 * sum(losses[4:]) / len(losses[4:])
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(te.parameters(), 1.0)
        opt.param_groups[0]["lr"] = clock.lr(step, args.lr, warm=50)
        opt.step()
        step += 1
        hit = torch.stack([(p.argmax(2) == target[..., k]).sum() / (target[..., k] >= 0).sum() for k, p in enumerate(parts)])
        right += torch.stack([hit[:4].mean(), hit[4:].mean()])
        if step % 50 == 0:
            own, scene = (2 * right).tolist()
            team.log(f"step {step} {100 * clock.fraction:.0f} % loss {float(loss.detach()):.4f} own object {own:.2f} %, scene {scene:.2f} % right, {time.time() - began:.0f} s")
            right.zero_()
    tmp = args.out.rstrip("/") + ".tmp"
    te.to("cpu", torch.bfloat16).save_pretrained(tmp)
    shutil.rmtree(args.out, ignore_errors=True)
    os.replace(tmp, args.out)


if __name__ == "__main__":
    main()
