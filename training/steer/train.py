"""Trains the steered world's denoiser. Used by pipeline.py.

    flow each latent frame has its own noise level and sees earlier frames, slightly noised
    self    some of these earlier frames are the model's own
"""
import math
import time

import net  # first: it finds the folder above
import torch

from common import Clock, Flat
from muon import FlatMuon


class Ways:
    """Runs the network with autocast and compiled blocks."""

    def __init__(self, team, model):
        self.team, self.model = team, model
        self.autocast = lambda: torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda)
        if team.cuda:
            for block in model.blocks:
                block.whole = torch.compile(block.whole, dynamic=False)

    def velocity(self, *args):
        with self.autocast():
            return self.model.whole(*args)


def noise_levels(shape, device, shift=2.0):
    """Draws noise levels: half of them lie anywhere, half in the middle. All are then moved towards noise, since at high noise the model decides
    where things are."""
    s = torch.where(torch.rand(shape, device=device) < 0.5, torch.rand(shape, device=device), torch.sigmoid(torch.randn(shape, device=device)))
    return (shift * s / (1 + (shift - 1) * s)).clamp(min=0.02)


def spoilt(x0, most=0.3):
    """Returns the frames to remember, slightly noised: each clip has its own noise share, and frames differ within it."""
    b, t = x0.shape[0], x0.shape[2]
    share = torch.rand(b, 1, 1, 1, 1, device=x0.device) * torch.rand(b, 1, t, 1, 1, device=x0.device) * most
    return x0 + share * torch.randn_like(x0) + 0.05 * torch.rand(b, 1, 1, 1, 1, device=x0.device) * torch.randn(b, x0.shape[1], 1, 1, 1, device=x0.device)


def noised(x0):
    """Returns (noisy latents, their noise levels [B, T], the velocity)."""
    s, noise = noise_levels((x0.shape[0], x0.shape[2]), x0.device), torch.randn_like(x0)
    w = s[:, None, :, None, None]
    return (1 - w) * x0 + w * noise, s, noise - x0


def flow_batch(ways, bank, b):
    x0, *given = bank.draw(b)
    x, s, v = noised(x0)
    return (spoilt(x0), x, 1000 * s, *given), v


def own_batch(ways, bank, b):
    """Does the same, except that some of the frames to remember, a different share in each clip, are the model's own predictions. These are made from
    true frames, so they err, but the renderer's next frame still follows from them. With frames of whole rollouts instead, the model learned an
    average of all places where the camera could be."""
    x0, *given = bank.draw(b)
    x, s, _ = noised(x0)
    made = (x - s[:, None, :, None, None] * ways.velocity(spoilt(x0), x, 1000 * s, *given)).detach()  # with gradients: compiled once
    own = torch.rand(b, 1, x0.shape[2], 1, 1, device=x0.device) < torch.rand(b, 1, 1, 1, 1, device=x0.device)
    x, s, v = noised(x0)
    return (spoilt(torch.where(own, made, x0)), x, 1000 * s, *given), v


def load(flat, folder):
    """Loads weights to continue from, and returns whether there were any."""
    at = 0
    for part in net.parts(folder):
        flat.flat[at:at + len(part)] = part.to(flat.flat.device)
        at += len(part)
    assert at in (0, len(flat.flat)), f"{folder}: {at} of {len(flat.flat)} weights"
    flat.ema.copy_(flat.flat)
    return at > 0


def parameters(team, model, optimizer):
    """Returns all weights as one vector; with "muon" the blocks' matrices are updated by Muon."""
    betas = (0.9, 0.98)
    if optimizer == "adamw":
        return Flat(team, [model], betas=betas)
    return FlatMuon(team, [model], [p for p in model.blocks.parameters() if p.ndim == 2 and min(p.shape) >= 64], betas=betas)


def train(team, stage, bank, folder, seconds, since, until, batch=32, lr=1e-3, max_steps=0, optimizer="adamw", kept=None):
    """Trains a stage from `since` to `until`, of 0 … 1, in the given seconds; the next stage starts from the averaged weights. Whenever these are
    written, `kept` gets how far they are."""
    torch.manual_seed(3)
    model = net.Denoiser().to(team.device)
    flat = parameters(team, model, optimizer)
    known = load(flat, folder)
    team.log(f"{stage}: {len(flat.flat) / 1e6:.2f} M parameters, {'from the state' if known else 'fresh'}, {seconds:.0f} s")
    torch.manual_seed(200 + int(1e4 * since))
    ways = Ways(team, model)
    draw = own_batch if stage == "self" else flow_batch
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
            args, want = draw(ways, bank, batch)
            loss = (ways.velocity(*args) - want).square().mean()
            loss.backward()
        except torch.OutOfMemoryError:
            if batch <= 4:
                raise
            batch //= 2
            flat.grad.zero_()
            torch.cuda.empty_cache()
            team.log(f"{stage}: out of memory, batches of {batch}")
            continue
        warm = min(1.0, (step + 1) / (100 if known else 300))
        peak = lr * (1 if stage == "flow" else 0.6)
        flat.step(peak * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * max(0.0, (f - 0.2) / 0.8)))), decay=0.998 if stage == "flow" else 0.997)
        total += loss.detach()
        step, count = step + 1, count + 1
        if step % 100 == 0 or step == max_steps or step == 1:
            average = float(total) / count  # waits for the device
            team.log(f"{stage}: step {step} {100 * clock.fraction:.0f} % loss {average:.4f} {1000 * (time.time() - mark) / count:.0f} ms a step")
            total.zero_()
            mark, count = time.time(), 0
    keep(until)
    team.log(f"{stage}: {step} steps of {batch} clips, {time.time() - began:.0f} s")
    return {"stage": stage, "since": since, "until": until, "steps": step, "batch": batch, "seconds": round(time.time() - began), "clips": len(bank.z)}
