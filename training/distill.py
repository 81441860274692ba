"""Distils the shipped denoiser into one that needs four steps and no guidance.

The teacher walks from noise to a clip in 24 guided Euler steps; the states after every sixth are kept. The student, which starts
as a copy, learns the straight line from each kept state to the next: one Euler step for six guided ones. Text encoder and
autoencoder stay as they are, so only the transformer is new. Its schedule is sigma = 3 t / (1 + 2 t) at t = 1, 3/4, 1/2, 1/4:

    torchrun --nproc_per_node 4 training/distill.py --model models/sprites --bank /tmp/sprites/bank.npz --out sprites-fast --minutes 3
    tachyscope generate PROMPT --model sprites-fast --sampler euler --grid original --steps 4 --shift 3 --guidance 1
"""
import argparse
import json
import os
import shutil
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch
import torch.nn.functional as F

import dit
import judge
import vae as video
import world
from common import Clock, Flat, Team
from evaluate import sheet
from tokenizer import EOS, MAX_TOKENS

SHIFT, STEPS, INNER = 3.0, 4, 6
SHAPE = (16, 9, world.SIZE // 8, world.SIZE // 8)


def sigmas(n):
    t = torch.linspace(1, 0, n + 1, dtype=torch.float64)
    return (SHIFT * t / (1 + (SHIFT - 1) * t)).tolist()


def guided(net, x, s, rows, bias, guidance):
    """Returns the teacher's guided velocity; rows and bias hold the captions' contexts, then the empty caption's."""
    v, w = net(torch.cat([x, x]), x.new_full((2 * len(x),), 1000 * s), rows, bias).chunk(2)
    return w + guidance * (v - w)


@torch.no_grad()
def walks(team, te, net, ids, n, batch, guidance):
    """Makes n walks of the teacher: kept states float16 [n, STEPS + 1, *SHAPE], and the token ids [n, MAX_TOKENS] to which they belong."""
    s, empty = sigmas(STEPS * INNER), torch.tensor([EOS] + [0] * (MAX_TOKENS - 1), device=team.device)
    kept = torch.empty(n, STEPS + 1, *SHAPE, dtype=torch.float16, device=team.device)
    said = torch.empty(n, MAX_TOKENS, dtype=torch.int16, device=team.device)
    for at in range(0, n, batch):
        i = torch.randint(len(ids), (batch,), device=team.device)
        said[at:at + batch] = ids[i, torch.randint(ids.shape[1], (batch,), device=team.device)]
        tokens = torch.cat([said[at:at + batch].long(), empty.expand(batch, -1)])
        x = torch.randn(batch, *SHAPE, device=team.device)
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            rows, bias = dit.context(te, tokens)
            for k in range(STEPS * INNER):
                if k % INNER == 0:
                    kept[at:at + batch, k // INNER] = x
                x = x + (s[k + 1] - s[k]) * guided(net, x, s[k], rows, bias, guidance)
        kept[at:at + batch, STEPS] = x
    return kept, said


def student_loss(net, x, y, ds, t, rows, bias):
    """Returns the squared error of the velocity that leads from states x to the next ones y, weighted so that every step's error in y counts."""
    v = dit.denoise(net, x, t, rows, bias)
    return ((v - (y - x) / ds).square().mean((1, 2, 3, 4)) * (0.3 + ds.flatten().abs())).mean()


@torch.no_grad()
def judged(team, te, net, model, out, items, batch=20):
    """Samples held-out captions in STEPS plain steps and judges them; item i starts from torch's CPU generator with seed i."""
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(os.path.join(model, "tokenizer", "tokenizer.json"))
    auto = video.build(os.path.join(model, "vae")).to(team.device)
    mean, std = (torch.tensor(json.load(open(os.path.join(model, "vae", "config.json")))[k], device=team.device).view(1, -1, 1, 1, 1)
                 for k in ("latents_mean", "latents_std"))
    s, mine, scores, jobs = sigmas(STEPS), list(range(team.rank, len(items), team.size)), [], []
    with ProcessPoolExecutor(max(1, min(12, (os.cpu_count() or 1) // team.size - 1)), get_context("spawn")) as pool:
        for at in range(0, len(mine), batch):
            part = mine[at:at + batch]
            ids = torch.zeros(len(part), MAX_TOKENS, dtype=torch.long)
            for row, i in zip(ids, part):
                t = tok.encode(items[i]["caption"]).ids
                row[:len(t)] = torch.tensor(t)
            rows, bias = dit.context(te, ids.to(team.device))
            x = torch.cat([torch.randn(1, *SHAPE, generator=torch.Generator().manual_seed(i)) for i in part]).to(team.device)
            for k in range(STEPS):
                x = x + (s[k + 1] - s[k]) * dit.denoise(net, x, x.new_full((len(x),), 1000 * s[k]), rows, bias)
            clips = torch.round((video.decode(auto, x * std + mean).clamp(-1, 1) + 1) * 127.5).byte().permute(0, 2, 3, 4, 1).cpu().numpy()
            if at == 0 and team.rank == 0:
                sheet(clips[:12], out.rstrip("/") + ".png")
            jobs += [(i, pool.submit(judge.look, c)) for i, c in zip(part, clips)]
        counts = torch.zeros(2 * len(judge.ATTRIBUTES), dtype=torch.float64, device=team.device)
        for i, job in jobs:
            score = judge.score(job.result(), items[i]["scene"])
            counts += torch.tensor([v for k in judge.ATTRIBUTES for v in score[k]], device=team.device)
    c = team.sum(counts).tolist()
    table = {k: round(100 * c[2 * j] / max(1, c[2 * j + 1]), 2) for j, k in enumerate(judge.ATTRIBUTES)}
    return table | {"all": round(100 * sum(c[::2]) / max(1, sum(c[1::2])), 2), "clips": len(items), "steps": STEPS, "guidance": 1.0}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", default="models/sprites", help="the teacher")
    a.add_argument("--bank", default="bank.npz", help="made by dit.py bank")
    a.add_argument("--out", default="sprites-fast")
    a.add_argument("--minutes", type=float, default=3, help="with the teacher's walks")
    a.add_argument("--max-steps", type=int, default=0)
    a.add_argument("--walks", type=int, default=16384, help="per process")
    a.add_argument("--walk-batch", type=int, default=128)
    a.add_argument("--guidance", type=float, default=3.0)
    a.add_argument("--batch", type=int, default=64)
    a.add_argument("--lr", type=float, default=5e-4)
    a.add_argument("--limit", type=int, default=240, help="held-out captions to judge")
    args = a.parse_args()
    team = Team()
    clock = Clock(team, args.minutes, args.max_steps)
    torch.manual_seed(300 + team.rank)
    te, net = (m.to(team.device) for m in dit.build(args.model))
    te.requires_grad_(False)
    ids = torch.from_numpy(np.load(args.bank)["ids"][team.rank::team.size].copy()).to(team.device)
    run = torch.compile(lambda *w: dit.denoise(net, *w), dynamic=False) if team.cuda else lambda *w: dit.denoise(net, *w)
    kept, said = walks(team, te, run, ids, args.walks // args.walk_batch * args.walk_batch, args.walk_batch, args.guidance)
    team.log(f"{len(kept) * team.size} walks at {clock.elapsed():.0f} s")
    torch._dynamo.reset()
    flat = Flat(team, [net], betas=(0.9, 0.99))
    loss_fn = torch.compile(student_loss, dynamic=False) if team.cuda else student_loss
    s = torch.tensor(sigmas(STEPS), dtype=torch.float32, device=team.device)
    step, total, mark = 0, torch.zeros((), device=team.device), time.time()
    while clock.tick(step):
        i, k = torch.randint(len(kept), (args.batch,), device=team.device), torch.randint(STEPS, (args.batch,), device=team.device)
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            with torch.no_grad():
                rows, bias = dit.context(te, said[i].long())
            loss = loss_fn(net, kept[i, k].float(), kept[i, k + 1].float(), (s[k + 1] - s[k]).view(-1, 1, 1, 1, 1), 1000 * s[k], rows, bias)
        loss.backward()
        flat.step(clock.lr(step, args.lr, warm=100, floor=0.01), decay=0.999)
        total += loss.detach()
        step += 1
        if step % 100 == 0:
            team.log(f"step {step} {100 * clock.fraction:.0f} % loss {float(total) / 100:.4f} {10 * (time.time() - mark):.1f} ms a step")
            total.zero_()
            mark = time.time()
    team.log(f"student: {step} steps of {args.batch * team.size}")
    student = flat.averaged([net])[0]
    if team.rank == 0:
        student.save_pretrained(os.path.join(args.out, "transformer"))
        for part in ("model_index.json", "scheduler", "text_encoder", "tokenizer", "vae"):
            path = os.path.join(args.model, part)
            (shutil.copytree if os.path.isdir(path) else shutil.copy)(path, os.path.join(args.out, part), **({"dirs_exist_ok": True} if os.path.isdir(path) else {}))
        defaults = json.load(open(os.path.join(args.model, "generation_config.json")))
        defaults |= {"num_inference_steps": STEPS, "guidance_scale": 1.0, "sampler": "euler", "grid": "original", "flow_shift": SHIFT}
        json.dump(defaults, open(os.path.join(args.out, "generation_config.json"), "w"), indent=2)
    with open(os.path.join(args.model, "heldout.json"), encoding="utf-8") as f:
        items = json.load(f)[:args.limit]
    te, net = dit.build(args.model)[0].to(team.device), student.float().to(team.device)
    table = judged(team, te, net, args.model, args.out, items)
    team.log(json.dumps(table))
    if team.rank == 0:
        json.dump(table, open(args.out.rstrip("/") + ".json", "w"))
    team.close()


if __name__ == "__main__":
    main()
