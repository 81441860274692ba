"""Trains control blocks beside the frozen transformer of models/sprites, within a budget of minutes, and judges them.

    python3 training/edit/bank.py out/edit-bank.npz                                   # on a CPU, a minute
    python3 training/edit/train.py --bank out/edit-bank.npz --out DIR --minutes 8      # one device
    python3 training/edit/train.py --judge --out DIR --minutes 3                       # the scores alone, once more
    python3 training/edit/train.py --export models/sprites-edit --out DIR              # the folder that ships

DIR gets transformer/ (the control blocks alone), log.json and sheet.png. The blocks are saved once a minute: a call that is killed loses a minute.
--resume goes on with saved ones. It needs torch, safetensors, numpy and Pillow, neither diffusers nor transformers."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

import net  # first: it finds the folder above
import numpy as np
import torch
import torch.nn.functional as F

import bank
import dit
import measure
import world
from common import Clock, Flat, Team
from tokenizer import EOS, MAX_TOKENS

START = time.time()


def loss_of(model, x0, noise, s, control, rows, bias, weight):
    """Mean squared error of the velocity for clean latents x0 at noise levels s [B]; weight [B, 1, T, h, w] says how much each place counts."""
    w = s.view(-1, 1, 1, 1, 1)
    v = net.denoise(model, (1 - w) * x0 + w * noise, 1000 * s, rows, bias, control)
    return (weight * (v - (noise - x0)).square()).mean()


class Batches:
    """Draws training batches from encoded scenes. Every other one has a reference picture in front."""

    def __init__(self, team, made, single, rows, bias, empty, size, low):
        self.device, self.made, self.size, self.low = team.device, made, size, low
        n = len(made["clip"])
        self.alone = torch.nonzero(torch.from_numpy(single[:n])).flatten().to(team.device)
        self.rows, self.bias, self.empty = rows, bias, empty
        self.n, self.nothing = n, made["nothing"].float()

    def draw(self, pictured):
        made, b, dev = self.made, self.size, self.device
        chance = lambda: torch.rand(b, device=dev)
        i = self.alone[torch.randint(len(self.alone), (b,), device=dev)] if pictured else torch.randint(self.n, (b,), device=dev)
        u, five = chance(), (b, 1, 1, 1, 1)
        depth, mask = (u < (0.15 if pictured else 0.3)).view(five), (u > (0.5 if pictured else 0.35)).view(five)  # the rest has nothing to follow
        x0, nothing = made["clip"][i].float(), self.nothing
        kept = torch.where(mask, made["kept"][i].float(), nothing)
        changed = torch.where(mask, made["changed"][i].float(), torch.where(depth, made["depth"][i].float(), nothing))
        white = torch.where(mask, made["mask"][i], torch.ones((), dtype=torch.bool, device=dev)).float()
        control, weight = torch.cat([kept, changed, white], 1), 1 + 3 * made["where"][i].float()
        which = torch.randint(bank.FULL, (b,), device=dev)
        if pictured:
            front = made["picture"][i].float()
            control = torch.cat([F.pad(front, (0, 0, 0, 0, 0, 0, 0, control.shape[1] - front.shape[1])), control], 2)
            x0, weight = torch.cat([front, x0], 2), torch.cat([torch.full_like(weight[:, :, :1], 0.25), weight], 2)
            which = torch.where(chance() < 0.75, bank.FULL + torch.randint(bank.UNNAMED, (b,), device=dev), which)
        rows, bias = self.rows[i, which].float(), self.bias[i, which]
        silent = chance() < 0.1
        rows, bias = torch.where(silent.view(-1, 1, 1), self.empty[0], rows), torch.where(silent.view(-1, 1), self.empty[1], bias)
        level = torch.where(chance() < 0.2, chance(), torch.sigmoid(torch.randn(b, device=dev)))
        level = 3 * level / (1 + 2 * level)
        # The last steps decide how well a clip keeps what the mask leaves alone; few of these levels are that low.
        level = torch.where(chance() < self.low, 0.04 + 0.41 * chance(), level)
        values = x0, torch.randn_like(x0), level, control, rows, bias, weight
        return tuple(v.contiguous() for v in values)


def compiler(team, log):
    """Returns torch.compile on a GPU; a function that cannot be compiled runs as it is."""
    def compiled(fn):
        if not team.cuda:
            return fn
        fast, state = torch.compile(fn, dynamic=False), {"plain": False}

        def call(*args):
            if state["plain"]:
                return fn(*args)
            try:
                return fast(*args)
            except Exception as e:  # noqa: BLE001
                if isinstance(e, torch.cuda.OutOfMemoryError):
                    raise
                log(f"{fn.__name__} runs without compilation: {str(e)[:300]}")
                state["plain"] = True
                return fn(*args)
        return call
    return compiled


def shapes(size, device, frames):
    side = world.SIZE // 8
    z = torch.randn(size, 16, frames, side, side, device=device)
    d = dit.TEXT["d_model"]
    return (z, z.clone(), torch.rand(size, device=device), torch.randn(size, net.CHANNELS, frames, side, side, device=device),
            torch.randn(size, dit.ROWS, d, device=device), torch.zeros(size, dit.ROWS, device=device), torch.rand(size, 1, frames, side, side, device=device))


def make_model(team, args):
    model = net.Edit(branch=args.resume).to(team.device)
    return model, Flat(team, model.branch(), betas=(0.9, 0.99))


def warm(args):
    """Compiles the loss for one length, so that the cache is filled while clips are encoded."""
    team = Team()
    model, _ = make_model(team, args)
    with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
        loss = compiler(team, team.log)(loss_of)(model, *shapes(args.batch, team.device, args.warm))
    loss.backward()
    team.log(f"warm: {args.warm} latent frames, {time.time() - START:.0f} s")


def train(args):
    team = Team()
    os.makedirs(args.out, exist_ok=True)
    transformer, frames = os.path.join(args.out, "transformer"), (world.FRAMES + 3) // 4
    helpers = []
    if team.cuda and not args.no_warm:
        helpers = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--warm", str(f), "--batch", str(args.batch), "--work", args.work])
                   for f in (frames, frames + 1)]
    torch.manual_seed(4)
    stored = np.load(args.bank)
    stored = {k: stored[k] for k in stored.files}
    entry = {}
    compiled = compiler(team, team.log)
    if args.latents and os.path.exists(args.latents):
        made = torch.load(args.latents, map_location=team.device, weights_only=True)
    else:
        made = bank.latents(team, stored, args.bank_seconds, args.encode_batch, compiled)
        if args.latents:
            torch.save(made, args.latents)
    torch._dynamo.reset()
    if team.cuda:
        torch.cuda.empty_cache()
    text = net.Text(os.path.join(net.MODEL, "text_encoder")).to(team.device)
    n, wordings = len(made["clip"]), stored["ids"].shape[1]
    rows, bias = bank.contexts(team, text, stored["ids"][:n].reshape(-1, MAX_TOKENS))
    rows, bias = rows.view(n, wordings, *rows.shape[1:]), bias.view(n, wordings, -1)
    with torch.no_grad():
        empty = dit.context(text, torch.tensor([[EOS] + [0] * (MAX_TOKENS - 1)], device=team.device))
    batches = Batches(team, made, stored["single"], rows, bias, empty, args.batch, args.low)
    for h in helpers:
        try:
            h.wait(max(1, 0.45 * 60 * args.minutes - (time.time() - START)))
        except subprocess.TimeoutExpired:
            team.log("compiling takes long; going on without the cache")
            h.kill()
    model, flat = make_model(team, args)
    team.log(f"control blocks: {flat.flat.numel() / 1e6:.2f} M parameters; {n} scenes, {len(batches.alone)} with one object, at {time.time() - START:.0f} s")
    loss_fn = compiled(loss_of)
    clock = Clock(team, max(0.1, args.minutes - (time.time() - START + args.judge_seconds) / 60), args.max_steps)
    step, mark, saved, began, total = 0, time.time(), time.time(), time.time(), torch.zeros(2, device=team.device)

    def save():
        net.save(model, flat.averaged(model.branch()), transformer)
        with open(os.path.join(args.out, "log.json"), "w") as f:
            json.dump({"steps": step, "batch": args.batch, "scenes": n, "train_seconds": round(time.time() - began), **entry}, f, indent=1)
    while clock.tick(step):
        kind = step % 2
        batch = batches.draw(bool(kind))
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            loss = loss_fn(model, *batch)
        loss.backward()
        flat.step(clock.lr(step, args.lr, warm=200, floor=0.01), decay=args.ema)
        total[kind] += loss.detach()
        step += 1
        if step % args.report == 0:
            parts = (total / (args.report / 2)).tolist()
            line = (f"step {step} {100 * clock.fraction:.0f} % loss {parts[0]:.4f}, with a picture {parts[1]:.4f}, "
                    f"{1000 * (time.time() - mark) / args.report:.1f} ms a step")
            team.log(line)
            entry.setdefault("losses", []).append([step, round(parts[0], 5), round(parts[1], 5)])
            total.zero_()
            mark = time.time()
        if time.time() - saved > args.save_every:
            save()
            saved = time.time()
    save()
    team.log(f"trained: {step} steps of {args.batch}, {time.time() - began:.0f} s")
    trained = net.Edit(branch=os.path.join(transformer, net.SHARDS[1])).to(team.device)
    del made, batches, rows, bias
    if args.judge_limit:
        entry["table"] = measure.judged(team, trained, text, stored, args, START)
        save()
    team.log(f"end: {time.time() - START:.0f} s")


def export(args):
    """Writes the folder that ships: the transformer with the plain model's weights as a link, and links for the other parts."""
    target = args.export
    os.makedirs(os.path.join(target, "transformer"), exist_ok=True)
    for part in ("scheduler", "text_encoder", "tokenizer", "vae", "heldout.json"):
        link = os.path.join(target, part)
        if not os.path.lexists(link):
            os.symlink(os.path.join("..", "sprites", part), link)
    for name in (net.CONFIG, net.INDEX, net.SHARDS[1]):
        shutil.copyfile(os.path.join(args.out, "transformer", name), os.path.join(target, "transformer", name))
    link = os.path.join(target, "transformer", net.SHARDS[0])
    if not os.path.lexists(link):
        os.symlink(os.path.join("..", "..", "sprites", "transformer", net.WEIGHTS), link)
    for name in ("model_index.json", "generation_config.json"):
        with open(os.path.join(net.MODEL, name)) as f:
            values = json.load(f)
        if name == "model_index.json":
            values |= {"_class_name": "WanVACEPipeline", "transformer": ["diffusers", "WanVACETransformer3DModel"]}
            values.pop("expand_timesteps", None)
        else:
            values = {k: v for k, v in values.items() if k not in ("teacache_coefficients", "magcache_ratios")}  # measured without control
        net.write(os.path.join(target, name), json.dumps(values, indent=2))


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bank", default="out/edit-bank.npz", help="made by bank.py")
    a.add_argument("--out", default="out/edit")
    a.add_argument("--work", default="/tmp/edit", help="a folder for what is compiled")
    a.add_argument("--resume", help="a file of control blocks to go on with")
    a.add_argument("--minutes", type=float, default=8, help="of the whole call")
    a.add_argument("--max-steps", type=int, default=0, help="to try it out")
    a.add_argument("--batch", type=int, default=64)
    a.add_argument("--encode-batch", type=int, default=32)
    a.add_argument("--bank-seconds", type=float, default=90, help="behind what compiling takes")
    a.add_argument("--latents", help="a file for the encoded scenes, which a later call then reads")
    a.add_argument("--low", type=float, default=0.35, help="share of a batch with little noise")
    a.add_argument("--lr", type=float, default=7e-4)
    a.add_argument("--ema", type=float, default=0.999)
    a.add_argument("--report", type=int, default=100, help="steps between lines of the log")
    a.add_argument("--save-every", type=float, default=60, help="seconds")
    a.add_argument("--judge-limit", type=int, default=40, help="held-out items of each task; 0: none")
    a.add_argument("--judge-seconds", type=float, default=60, help="kept back for the judgement")
    a.add_argument("--judge-steps", type=int, default=20)
    a.add_argument("--judge", action="store_true", help="judge the blocks that OUT has, and nothing else")
    a.add_argument("--warm", type=int, help="compile the loss for this many latent frames, and nothing else")
    a.add_argument("--no-warm", action="store_true", help="compile when training begins")
    a.add_argument("--export", help="write the model's folder, and nothing else")
    args = a.parse_args()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(args.work, "inductor"))
    os.environ.setdefault("TORCHINDUCTOR_FX_GRAPH_CACHE", "1")
    (warm if args.warm else export if args.export else measure.judge_saved if args.judge else train)(args)


if __name__ == "__main__":
    main()
