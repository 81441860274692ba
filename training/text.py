"""Prepares the text encoder: every row it gives for a caption shall tell the whole scene.

Linear heads on each row (thrown away afterwards) name the layout, both objects' colour, shape and motion, background and time. It
needs no clips and takes a minute of one device; `dit.py` then trains the encoder on together with the denoiser, which finds out
much sooner which colour belongs to which object.

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
    heads = torch.nn.Linear(dit.TEXT["d_model"], sum(dit.SIZES)).to(team.device)
    opt = torch.optim.AdamW([*te.parameters(), *heads.parameters()], lr=0.0, betas=(0.9, 0.98), weight_decay=0.01)
    while not os.path.exists(args.bank):
        time.sleep(1)
    bank = np.load(args.bank)
    all_ids, all_want = (torch.from_numpy(bank[k]).to(team.device) for k in ("ids", "answers"))
    step, right, began = 0, torch.zeros((), device=team.device), time.time()
    while clock.tick(step):
        i = torch.randint(len(all_ids), (args.batch,), device=team.device)
        ids = all_ids[i, torch.randint(dit.WORDINGS, (args.batch,), device=team.device)].long()
        mask = ids != 0
        target = torch.where(mask[..., None], all_want[i].long()[:, None], -100)
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            parts = heads(dit.encode_text(te, ids, mask)).split(dit.SIZES, 2)
        loss = sum(F.cross_entropy(p.float().flatten(0, 1), target[..., k].flatten()) for k, p in enumerate(parts)) / len(dit.SIZES)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(te.parameters(), 1.0)
        opt.param_groups[0]["lr"] = clock.lr(step, args.lr, warm=50)
        opt.step()
        step += 1
        right += sum((p.argmax(2) == target[..., k]).sum() for k, p in enumerate(parts)) / (mask.sum() * len(dit.SIZES))
        if step % 50 == 0:
            team.log(f"step {step} {100 * clock.fraction:.0f} % loss {float(loss.detach()):.4f} right {2 * float(right):.2f} % of answers, {time.time() - began:.0f} s")
            right.zero_()
    tmp = args.out.rstrip("/") + ".tmp"
    te.to("cpu", torch.bfloat16).save_pretrained(tmp)
    shutil.rmtree(args.out, ignore_errors=True)
    os.replace(tmp, args.out)


if __name__ == "__main__":
    main()
