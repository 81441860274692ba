"""Trains the steered world's denoiser. Used by pipeline.py.

    flow    each latent frame has a noise level of its own and sees earlier ones clean, or noised a little: the levels of inference come
            most often, for with the picture, the past and the actions known there is one right answer
    self    earlier frames are those of the model's own rollout, and so is what the second step begins with; the answer is the renderer's
"""
import math
import time

import net  # first: it finds the folder above
import torch

from common import Clock, Flat
from muon import FlatMuon


class Ways:
    """Autocast and compiled blocks."""

    def __init__(self, team, model):
        self.team, self.model = team, model
        self.autocast = lambda: torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda)
        if team.cuda:
            for block in model.blocks:
                block.whole = torch.compile(block.whole, dynamic=False)

    def velocity(self, *args):
        with self.autocast():
            return self.model.whole(*args)


def noise_levels(shape, device):
    """Half of them where inference has them, the others anywhere."""
    rand = lambda: torch.rand(shape, device=device)
    s, kind = torch.sigmoid(torch.randn(shape, device=device)), rand()
    levels = net.levels()
    for i, level in enumerate(levels):
        s = torch.where((kind > 0.7 * i / len(levels)) & (kind <= 0.7 * (i + 1) / len(levels)), level, s)
    return s.clamp(min=0.02)


def spoilt(x0, most=0.25):
    """Frames to remember, noised a little: each clip by a share of its own, frames differently."""
    b, t = x0.shape[0], x0.shape[2]
    share = torch.rand(b, 1, 1, 1, 1, device=x0.device) * torch.rand(b, 1, t, 1, 1, device=x0.device) * most
    return x0 + share * torch.randn_like(x0) + 0.05 * torch.rand(b, 1, 1, 1, 1, device=x0.device) * torch.randn(b, x0.shape[1], 1, 1, 1, device=x0.device)


def flow_batch(bank, b):
    x0, channels, rows, *held = bank.draw(b)
    s = noise_levels((b, x0.shape[2]), x0.device)
    w, noise = s[:, None, :, None, None], torch.randn_like(x0)
    return (spoilt(x0), (1 - w) * x0 + w * noise, 1000 * s, channels, rows, *held), noise - x0, x0


class Own:
    """Batches whose past is the model's own. A rollout costs as much as eight steps: each of its clips serves `again` times, with other
    noise."""

    def __init__(self, ways, bank, many, b, truth=0.2, again=2):
        self.ways, self.bank, self.many, self.b, self.truth, self.again, self.left = ways, bank, many, b, truth, again, []

    def refill(self):
        x0, channels, rows, *held = self.bank.draw(self.many)
        self.ways.model.eval()
        made, early = net.rollout(self.ways.model, channels, rows, *held, x0.shape[2], self.ways.autocast, firsts=True)
        self.error = float((made - x0).square().mean((0, 1, 3, 4))[-8:].mean())
        self.left = self.again * list(zip(*(a.split(self.b) for a in (x0, made, early, channels, rows, *held))))

    def batch(self):
        if not self.left:
            self.refill()
        x0, made, early, channels, rows, *held = self.left.pop()
        b, t = len(x0), x0.shape[2]
        levels = torch.tensor(net.levels(), device=x0.device)
        i = torch.randint(len(levels), (b, t), device=x0.device)
        s = levels[i]
        w = s[:, None, :, None, None]
        true = (torch.rand(b, device=x0.device) < self.truth).view(-1, 1, 1, 1, 1)
        x = (1 - w) * torch.where(true, x0, early) + w * torch.randn_like(x0)
        return (torch.where(true, spoilt(x0), spoilt(made, 0.05)), x, 1000 * s, channels, rows, *held), (x - x0) / w, x0


def load(flat, folder):
    """Whether there were weights to go on from."""
    at = 0
    for part in net.parts(folder):
        flat.flat[at:at + len(part)] = part.to(flat.flat.device)
        at += len(part)
    assert at in (0, len(flat.flat)), f"{folder}: {at} of {len(flat.flat)} weights"
    flat.ema.copy_(flat.flat)
    return at > 0


def parameters(team, model, optimizer):
    """All weights as one vector; with "muon" the blocks' matrices move by it."""
    betas = (0.9, 0.98)
    if optimizer == "adamw":
        return Flat(team, [model], betas=betas)
    return FlatMuon(team, [model], [p for p in model.blocks.parameters() if p.ndim == 2 and min(p.shape) >= 64], betas=betas)


def train(team, stage, bank, folder, seconds, since, until, batch=32, lr=1e-3, max_steps=0, roll=8, optimizer="adamw", kept=None):
    """One stage's part since … until of its 0 … 1, in so many seconds; the next starts from the averaged weights. `kept` is told, whenever
    these are written, how far they are."""
    torch.manual_seed(3)
    model = net.Denoiser().to(team.device)
    flat = parameters(team, model, optimizer)
    known = load(flat, folder)
    team.log(f"{stage}: {len(flat.flat) / 1e6:.2f} M parameters, {'from the state' if known else 'fresh'}, {seconds:.0f} s")
    torch.manual_seed(200 + int(1e4 * since))
    ways = Ways(team, model)
    own = Own(ways, bank, (roll if team.cuda else 1) * batch, batch) if stage == "self" else None
    clock = Clock(team, seconds / 60, max_steps)
    step, mark, total, count, began, saved = 0, time.time(), torch.zeros((), device=team.device), 0, time.time(), time.time()

    def keep(so_far):
        net.save_parts(flat.ema, folder)
        if kept:
            kept(so_far)

    while clock.tick(step):
        f = since + clock.fraction * (until - since)
        if time.time() - saved > 60:
            keep(f)
            saved = time.time()
        try:
            args, want, _ = own.batch() if own else flow_batch(bank, batch)
            e = ways.velocity(*args) - want
            loss = e.square().mean()
            loss.backward()
        except torch.OutOfMemoryError:
            if batch <= 4:
                raise
            batch //= 2
            if own:
                own.b, own.left = batch, []
            flat.grad.zero_()
            torch.cuda.empty_cache()
            team.log(f"{stage}: out of memory, batches of {batch}")
            continue
        warm = min(1.0, (step + 1) / (100 if known else 300))
        peak = lr * (1 if stage == "flow" else 0.4)
        flat.step(peak * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * max(0.0, (f - 0.2) / 0.8)))), decay=0.998 if stage == "flow" else 0.997)
        total += loss.detach()
        step, count = step + 1, count + 1
        if step % 100 == 0 or step == max_steps or step == 1:
            average = float(total) / count  # waits for the device
            more = f", own past: mean squared error of the last 8 frames {own.error:.4f}" if own else ""
            team.log(f"{stage}: step {step} {100 * clock.fraction:.0f} % loss {average:.4f} {1000 * (time.time() - mark) / count:.0f} ms a step{more}")
            total.zero_()
            mark, count = time.time(), 0
    keep(until)
    team.log(f"{stage}: {step} steps of {batch} clips, {time.time() - began:.0f} s")
    return {"stage": stage, "since": since, "until": until, "steps": step, "batch": batch, "seconds": round(time.time() - began), "clips": len(bank.z)}
