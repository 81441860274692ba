"""Samples captions of the held-out set through diffusers' WanPipeline in float32 and judges them.

    python3 evaluate.py --model models/sprites --set models/sprites/heldout.json --limit 240

With torchrun the captions are divided among the processes. Settings come from generation_config.json unless given. Clip i starts from
torch.Generator("cpu").manual_seed(i).
"""
import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch

import judge
import vae as video
import world
from common import Team


def load(model, device):
    from diffusers import WanPipeline
    pipe = WanPipeline.from_pretrained(model, torch_dtype=torch.float32).to(device)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def sample(pipe, captions, seeds, steps, guidance):
    """Returns uint8 clips [n, F, H, W, 3]."""
    out = pipe(prompt=captions, negative_prompt=[""] * len(captions) if guidance > 1 else None, height=world.SIZE, width=world.SIZE,
               num_frames=world.FRAMES, num_inference_steps=steps, guidance_scale=guidance, output_type="np",
               generator=[torch.Generator("cpu").manual_seed(s) for s in seeds]).frames
    return np.round(np.asarray(out) * 255).astype(np.uint8)


def sheet(clips, path, columns=6):
    """Draws a picture with one row per clip, `columns` frames each."""
    from PIL import Image
    pick = np.linspace(0, clips.shape[1] - 1, columns).round().astype(int)
    Image.fromarray(np.concatenate([np.concatenate(list(c[pick]), 1) for c in clips])).save(path)


def run(team, pipe, pool, items, steps, guidance, args, first):
    """Samples and judges items at one setting; returns the table and this process's misses."""
    mine, began = list(range(team.rank, len(items), team.size)), time.time()
    counts = torch.zeros(len(judge.ATTRIBUTES) * 2 + 2, dtype=torch.float64, device=team.device)
    misses, kept, waiting = [], None, []
    for k in range(0, len(mine), args.batch):
        part = mine[k:k + args.batch]
        clips = sample(pipe, [items[i]["caption"] for i in part], part, steps, guidance)
        kept = clips[:12] if kept is None else kept
        waiting += [(i, pool.submit(judge.look, c)) for i, c in zip(part, clips)]
        if args.out and first:
            os.makedirs(args.out, exist_ok=True)
            for i, c in zip(part, clips):
                np.save(os.path.join(args.out, f"{i:03d}.npy"), c)
    drawn = time.time() - began
    for i, job in waiting:
        s = judge.score(job.result(), items[i]["scene"])
        counts += torch.tensor([v for k in judge.ATTRIBUTES for v in s[k]] + [1, all(x == y for x, y in s.values())], device=team.device)
        if any(x != y for x, y in s.values()):
            misses.append({"index": i, "caption": items[i]["caption"], "seen": job.result()})
    c = team.sum(counts).tolist()
    table = {k: round(100 * c[2 * j] / max(1, c[2 * j + 1]), 2) for j, k in enumerate(judge.ATTRIBUTES)}
    table["all"] = round(100 * sum(c[0:-2:2]) / max(1, sum(c[1:-2:2])), 2)
    table |= {"clips": int(c[-2]), "perfect": round(100 * c[-1] / max(1, c[-2]), 2), "steps": steps, "guidance": guidance}
    if team.rank == 0 and first:
        if args.psnr:
            mean, start, low = video.evaluate(pipe.vae, team.device, args.psnr, chunked=True)
            table |= {"vae_psnr": round(mean, 2), "vae_psnr_first_frame": round(start, 2), "vae_psnr_lowest_clip": round(low, 2), "vae_clips": args.psnr}
        if args.out:
            sheet(kept, os.path.join(args.out, "sheet.png"))
    team.log(json.dumps(table), f"{drawn:.1f} s sampling")
    if team.rank == 0 and first:
        for m in misses[:40]:
            print(f"{m['index']:03d} {m['caption']} -> {m['seen']['count']}: " +
                  ", ".join(f"{o['colour']} {o['shape']} {o['motion']} ({o['fit']})" for o in m["seen"]["objects"]))
    return {"table": table, "misses of process 0": misses}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", default="models/sprites")
    a.add_argument("--set", default="models/sprites/heldout.json")
    a.add_argument("--limit", type=int, default=240)
    a.add_argument("--batch", type=int, default=20)
    a.add_argument("--steps", type=int)
    a.add_argument("--guidance", type=float)
    a.add_argument("--also", default="", help="further settings to judge, as steps:guidance,steps:guidance")
    a.add_argument("--also-limit", type=int, default=120, help="captions for the further settings")
    a.add_argument("--out", help="folder for clips as NNN.npy and the sheet")
    a.add_argument("--report", help="write the table and the misses here as JSON")
    a.add_argument("--psnr", type=int, default=0, help="also measure the autoencoder on this many held-out clips, through diffusers")
    args = a.parse_args()
    team = Team()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    defaults = json.load(open(os.path.join(args.model, "generation_config.json")))
    settings = [(args.steps or defaults["num_inference_steps"], defaults["guidance_scale"] if args.guidance is None else args.guidance)]
    settings += [(int(s), float(g)) for s, g in (w.split(":") for w in args.also.split(",") if w)]
    items = json.load(open(args.set, encoding="utf-8"))
    pipe, reports = load(args.model, team.device), []
    with ProcessPoolExecutor(max(1, min(12, (os.cpu_count() or 1) // team.size - 1)), get_context("spawn")) as pool:
        for k, (steps, guidance) in enumerate(settings):
            reports.append(run(team, pipe, pool, items[:args.limit if k == 0 else args.also_limit], steps, guidance, args, first=k == 0))
    if team.rank == 0 and args.report:
        json.dump(reports, open(args.report, "w", encoding="utf-8"), ensure_ascii=False, indent=1)
    team.close()


if __name__ == "__main__":
    main()
