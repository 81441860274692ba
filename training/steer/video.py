"""Trains the steered world's autoencoder further, starting from that of models/talker, and at the end its decoder alone. Used by pipeline.py; the
loss is that of ../vae.py, in which all values of a frame count alike."""
import copy
import time

import net  # first: it finds the folder above
import numpy as np
import torch

import autoencoder
import plane
import vae
from common import Clock, Flat

FRAMES = 33


def loss_of(model, x, late):
    return vae.loss_of(model, x, late, lambda x: torch.ones_like(x[:, :1]))


def loss_of_decoder(model, x, late):
    """The loss of the decoder alone. A frame that is like the one before or after it counts more: where a camera came to rest, the first resting
    frame was decoded as still moving, so that the picture crept."""
    with torch.no_grad():
        mean, logvar = vae.encode(model, x)
        z = mean + (torch.exp(0.5 * logvar.clamp(-30, 20)) + 0.02) * torch.randn_like(mean)
        same = ((x[:, :, 1:] - x[:, :, :-1]).abs().amax((1, 3, 4), keepdim=True) < 1e-3).to(x.dtype)
        none = torch.zeros_like(same[:, :, :1])
        resting = torch.maximum(torch.cat([none, same], 2), torch.cat([same, none], 2))
    d = vae.decode(model, z) - x
    w = 1 + 2 * resting + torch.cat([torch.full_like(none, 3.0), torch.zeros_like(same)], 2)
    rec = (w * (d.abs() + 4.0 * late * d * d)).mean()
    edge = (w * (d[..., 1:] - d[..., :-1]).abs()).mean() + (w * (d[..., 1:, :] - d[..., :-1, :]).abs()).mean()
    flow = ((1 + 2 * same) * (d[:, :, 1:] - d[:, :, :-1]).abs()).mean()
    return rec + 0.5 * edge + flow, (d.detach() ** 2).mean()


def scripts(n, blocks, seed, **kind):
    """Draws the actions of n random scripts (plane.sample_script): keyboard [n, 4 blocks - 3, 4] and mouse [n, 4 blocks - 3, 2]."""
    rng = np.random.default_rng(seed)
    both = [plane.expand(plane.sample_script(rng, blocks, **kind), blocks) for _ in range(n)]
    return tuple(torch.from_numpy(np.stack([b[i] for b in both])) for i in (0, 1))


def tracks(n, frames, seed, **kind):
    """Draws cameras [n, frames, 4] under random scripts."""
    keyboard, mouse = scripts(n, (frames + 6) // 4, seed, **kind)
    return plane.track(plane.cameras(n, torch.Generator().manual_seed(seed)), keyboard[:, :frames - 1], mouse[:, :frames - 1])


def grey_behind(pictures, frames):
    """Returns a picture followed by grey frames, which is encoded as the transformer's condition."""
    return torch.cat([pictures[:, :, None], pictures.new_zeros(*pictures.shape[:2], frames - 1, *pictures.shape[2:])], 2).contiguous()


@torch.no_grad()
def evaluate(model, device, n=24, frames=FRAMES):
    """Returns the PSNR of clips that training does not draw: (mean, mean of first frames, lowest)."""
    states, every, first, before = tracks(n, frames, 99).to(device), [], [], torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False  # every shape occurs only a few times
    for i in range(n):
        x = plane.quantised(plane.render(torch.tensor([i % plane.WORLDS], device=device), states[i:i + 1])).float() / 127.5 - 1
        e = (vae.decode(model, vae.encode(model, x)[0]).clamp(-1, 1) - x) ** 2
        every.append(vae.psnr(float(e.mean())))
        first.append(vae.psnr(float(e[:, :, 0].mean())))
    torch.backends.cudnn.benchmark = before
    return [round(float(v), 2) for v in (np.mean(every), np.mean(first), min(every))]


def train(team, start, out, seconds, batch=4, lr=1e-3, max_steps=0, since=0.0, until=1.0, kept=None, decoder=False):
    """Trains from `start`, which autoencoder.load reads, to the folder `out`; since … until is this call's part of the whole training. Whenever the
    weights are written, `kept` gets how far they are. With `decoder` only the decoder learns, so latents do not change and a denoiser trained on them
    stays valid."""
    clock = Clock(team, seconds / 60, max_steps)
    torch.manual_seed(1)
    model = autoencoder.load(start).to(team.device)
    if not decoder:
        model.config.pop("world_statistics", None)  # they belong to other weights
    torch.manual_seed(100 + int(1e4 * since))
    learning = model
    if decoder:
        model.encoder.requires_grad_(False), model.quant_conv.requires_grad_(False)
        learning = torch.nn.ModuleList([model.decoder, model.post_quant_conv])
    flat = Flat(team, [learning], weight_decay=1e-3)
    pool = tracks(2048, FRAMES, 1 + int(1e4 * since), **({"longest": 4, "idle": 0.35} if decoder else {})).to(team.device)
    compiled = lambda f: torch.compile(f, dynamic=False) if team.cuda else f
    loss_fn, render = compiled(loss_of_decoder if decoder else loss_of), compiled(plane.render)
    late, step, began, marks, saved = torch.zeros((), device=team.device), 0, time.time(), (0, time.time()), time.time()

    def keep(so_far):
        (averaged,) = flat.averaged([learning])
        if decoder:
            parts, averaged = averaged, copy.deepcopy(model)
            averaged.decoder, averaged.post_quant_conv = parts
        autoencoder.save(averaged, out)
        if kept:
            kept(so_far)
    while clock.tick(step):
        if step % 20 == 0:
            late.fill_(min(1.0, max(0.0, (since + clock.fraction * (until - since) - 0.3) / 0.2)))
            if time.time() - saved > 60:
                keep(since + clock.fraction * (until - since))
                saved = time.time()
        with torch.no_grad():
            states = pool[torch.randint(len(pool), (batch,), device=team.device)].clone()
            states[..., :2] += plane.PERIOD * torch.rand(batch, 1, 2, device=team.device)
            x = render(torch.randint(plane.WORLDS, (batch,), device=team.device), states)
            if step % 8 == 7:
                x[:1, :, 1:] = 0
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            loss, mse = loss_fn(model, x, late)
        loss.backward()
        peak = lr * (1 if since == 0 else 0.7)
        flat.step(clock.lr(step, peak, warm=200, floor=0.01 if until >= 1 else 0.5), decay=0.999)
        step += 1
        if step % 100 == 0 or step in (1, max_steps):
            psnr = vae.psnr(float(mse))  # waits for the device
            team.log(f"vae: step {step} {100 * clock.fraction:.0f} % loss {float(loss.detach()):.4f} psnr {psnr:.2f} dB "
                     f"{1000 * (time.time() - marks[1]) / (step - marks[0]):.1f} ms a step, {time.time() - began:.0f} s")
            marks = step, time.time()
    keep(until)
    result = evaluate(autoencoder.load(out).to(team.device), team.device, 24 if team.cuda else 2)
    team.log(f"{'decoder' if decoder else 'vae'}: {step} steps, {time.time() - began:.0f} s, PSNR {result[0]} dB, first frame {result[1]}, lowest clip {result[2]}")
    return {"stage": "decoder" if decoder else "vae", "since": since, "until": until, "steps": step, "batch": batch, "seconds": round(time.time() - began), "psnr": result}
