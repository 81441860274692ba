"""Trains the denoiser of the talking-photo model on windows of rendered clips.

    torchrun --nproc_per_node 2 train.py --bank /tmp/talker/bank --model models/talker --work /tmp/talker --minutes 4 --until 0.35
    torchrun --nproc_per_node 2 train.py … --minutes 8 --since 0.35          # continues from the state in --work, or else from the weights

Encoders and autoencoder are frozen (encoders.py, video.py); their results on the bank are computed once. As in InfiniteTalk's loop, a window begins
with the photo (one given latent frame) or with the last frames of the window before (three). Given frames are noised and shifted in colour a little
in training, since at inference the model has made them itself."""
import argparse
import json
import math
import os
import time

import net  # first: it finds the folder above
import numpy as np
import torch
import torch.distributed as dist

import faces
import vae
import video
from bank import Bank
from common import Clock, Flat, Team

EOS = 1


def folder(model, part):
    return os.path.join(model, "parts", part)


def frozen(model, device):
    """Loads (ears, eyes, reader, autoencoder) from the folder `parts`."""
    from transformers import CLIPVisionModel, UMT5EncoderModel, Wav2Vec2Model
    made = [c.from_pretrained(folder(model, p), dtype=torch.float32) for c, p in
            ((Wav2Vec2Model, "audio_encoder"), (CLIPVisionModel, "image_encoder"), (UMT5EncoderModel, "text_encoder"))]
    return [m.to(device).eval().requires_grad_(False) for m in (*made, vae.build(folder(model, "vae")))]


@torch.no_grad()
def heard(team, ears, bank, batch=16):
    """Computes bfloat16 states [frames + 1, STATES, SPEECH] of all utterances' frames, one after the other; the last row is zero, for no speech."""
    out = torch.zeros(len(bank.mouth) + 1, net.STATES, net.SPEECH, dtype=torch.bfloat16, device=team.device)
    for samples, frames in bank.lengths.unique(dim=0).tolist():
        same = (bank.lengths[:, 1] == frames).logical_and(bank.lengths[:, 0] == samples).nonzero().flatten()
        for i in range(0, len(same), batch):
            u = same[i:i + batch]
            at = bank.begins[u, 0][:, None] + torch.arange(samples, device=team.device)
            rows = bank.begins[u, 1][:, None] + torch.arange(frames, device=team.device)
            out[rows] = net.hear(ears, net.standard(bank.sound[at].float() / 32768), frames).bfloat16()
    return out


@torch.no_grad()
def encoded(team, auto, eyes, bank, clips, people, batch):
    """Computes latents [clips, 16, FRAMES, h, w] and, for each person, the latents of the photo's condition and the eyes' tokens, all in bfloat16 and
    not yet normalised; and (sum, sum of squares, count) of the clips' latents per channel in float64."""
    dev, encode, render = team.device, vae.encode, faces.render
    if team.cuda:
        encode, render = torch.compile(vae.encode, dynamic=False), video.compiled_render()
    auto_cast = lambda: torch.autocast(dev.type, torch.bfloat16, enabled=team.cuda)
    shape = (16, net.FRAMES, net.LATENT, net.LATENT)
    z, y = (torch.empty(len(t), *shape, dtype=torch.bfloat16, device=dev) for t in (clips, people))
    seen, stats = torch.empty(len(people), 257, net.IMAGE, dtype=torch.bfloat16, device=dev), torch.zeros(3, 16, dtype=torch.float64, device=dev)
    for i in range(0, len(clips), batch):
        with auto_cast():
            z[i:i + batch] = encode(auto, video.clips_of(bank, clips[i:i + batch], render))[0]
        part = z[i:i + batch].double()
        stats += torch.stack([part.sum((0, 2, 3, 4)), part.square().sum((0, 2, 3, 4)), torch.full_like(stats[0], part[:, 0].numel())])
    for i in range(0, len(people), batch):
        photos = faces.photo(bank.faces[people[i:i + batch]], torch)
        with auto_cast():
            y[i:i + batch] = encode(auto, video.photo_clips(photos))[0]
            seen[i:i + batch] = net.look(eyes, photos)
    return z, y, seen, stats


def statistics(stats):
    """Returns (mean, deviation) [16], rounded as they are written."""
    mean = stats[0] / stats[2]
    std = (stats[1] / stats[2] - mean * mean).sqrt()
    return [torch.round(t * 1e5) / 1e5 for t in (mean, std)]


def normalise(z, mean, std):
    for i in range(0, len(z), 1024):
        z[i:i + 1024] = ((z[i:i + 1024].float() - mean) / std).bfloat16()


def loss_of(model, x0, given, noise, s, kept, y, text, bias, picture, first, others):
    """Returns the mean squared error of the velocity after the `kept` [B] given frames, with more weight where latents move."""
    w, t = s.view(-1, 1, 1, 1, 1), torch.arange(x0.shape[2], device=x0.device)
    held = (t[None] < kept[:, None]).float()[:, None, :, None, None]
    x = (1 - held) * ((1 - w) * x0 + w * noise) + held * given
    e = model(torch.cat([x, net.condition(y)], 1), 1000 * s, text, bias, picture, first, others) - (noise - x0)
    weight = (1 - held) * (1 + 4 * (x0.std(2, keepdim=True).mean(1, keepdim=True) / 0.5).clamp(max=1))
    return (weight * e * e).sum() / (weight.sum() * x0.shape[1])


class State:
    """The state that goes from call to call on one machine: averaged and last weights and Adam's moments in one file."""

    def __init__(self, path):
        self.path = path

    def save(self, flat):
        moments = flat.opt.state[flat.whole]
        torch.save({"flat": flat.flat, "ema": flat.ema, "steps": flat.steps, "moments": moments}, self.path + ".tmp")
        os.replace(self.path + ".tmp", self.path)

    def load(self, flat):
        if not os.path.exists(self.path):
            return False
        s = torch.load(self.path, map_location=flat.flat.device, weights_only=True)
        flat.flat.copy_(s["flat"]), flat.ema.copy_(s["ema"])
        flat.steps = s["steps"]
        flat.opt.state[flat.whole] = s["moments"]
        return True


class Windows:
    """Makes batches of this process's clips."""

    def __init__(self, team, args):
        self.bank, self.device, kept = Bank(args.bank, team.device), team.device, os.path.join(args.work, f"windows-{team.rank}-of-{team.size}.pt")
        begin = time.time()
        if os.path.exists(kept):
            self.__dict__.update(torch.load(kept, map_location=team.device))
        else:
            self.encode(team, args, begin)
            torch.save({k: v for k, v in self.__dict__.items() if k not in ("bank", "device")}, kept + ".tmp")
            os.replace(kept + ".tmp", kept)
        self.person, self.rows = (self.clips[:, 0] - team.rank) // team.size, self._rows()
        team.log(f"{len(self.z) * team.size} windows, {time.time() - begin:.0f} s, deviations {[round(float(v), 2) for v in self.statistics[1]]}")

    def encode(self, team, args, begin):
        bank = self.bank
        ears, eyes, reader, auto = frozen(args.model, team.device)
        self.states = heard(team, ears, bank)
        team.log(f"{len(self.states)} frames heard, {time.time() - begin:.0f} s")
        people = torch.arange(team.rank, len(bank.faces), team.size, device=team.device)
        people = people[:len(people) // args.encode_batch * args.encode_batch]
        clips = bank.clips[(bank.clips[:, 0] % team.size == team.rank) & (bank.clips[:, 0] <= people[-1])]
        self.clips = clips[:len(clips) // args.encode_batch * args.encode_batch]
        self.z, self.y, self.seen, stats = encoded(team, auto, eyes, bank, self.clips, people, args.encode_batch)
        self.statistics = statistics(team.sum(stats))
        mean, std = (t.float().view(1, -1, 1, 1, 1) for t in self.statistics)
        normalise(self.z, mean, std), normalise(self.y, mean, std)
        ids = bank.captions.flatten(0, 1)
        empty = torch.zeros_like(ids[:1])
        empty[:, 0] = EOS
        with torch.no_grad():
            self.text, self.bias = net.read(reader, torch.cat([ids, empty]))  # the last row has no caption

    def _rows(self):
        c = self.clips
        first = self.bank.begins[c[:, 1], 1]
        return net.rows_of(first + c[:, 2], first, first + self.bank.lengths[c[:, 1], 1] - 1)

    def draw(self, b):
        """Draws the arguments of loss_of that follow the model."""
        dev, rand = self.device, lambda *n: torch.rand(*n, device=self.device)
        i = torch.randint(len(self.z), (b,), device=dev)
        x0, y, picture = self.z[i].float(), self.y[self.person[i]].float(), self.seen[self.person[i]].float()
        c = self.clips[i]
        kept = torch.where(c[:, 2] == 0, 1, net.KEPT)
        spoil = (rand(b) < 0.7).float() * rand(b) * 0.15
        shift = (rand(b) < 0.5).float() * 0.1
        given = x0 + spoil.view(-1, 1, 1, 1, 1) * torch.randn_like(x0) + shift.view(-1, 1, 1, 1, 1) * torch.randn(b, 16, 1, 1, 1, device=dev)
        given = torch.where((c[:, 2] == 0).view(-1, 1, 1, 1, 1), x0, given)
        wordings = self.bank.captions.shape[1]
        said = torch.where(rand(b) < 0.08, len(self.text) - 1, c[:, 3] * wordings + torch.randint(wordings, (b,), device=dev))
        deaf, none = rand(b) < 0.08, len(self.states) - 1
        first, others = (torch.where(deaf.view(-1, *[1] * (r.dim() - 1)), none, r[i]) for r in self.rows)
        first, others = net.speech_of(self.states, (first, others))
        u = torch.where(rand(b) < 0.15, rand(b), torch.sigmoid(torch.randn(b, device=dev)))
        return x0, given, torch.randn_like(x0), 3 * u / (1 + 2 * u), kept, y, self.text[said], self.bias[said], picture, first.float(), others.float()


def warm(args):
    """Compiles the loss as training does, so that the compiler's cache is filled while something else runs."""
    team = Team()
    model, b, dev = net.Denoiser().to(team.device), args.batch, team.device
    length = Bank(args.bank, dev).captions.shape[2] + 1
    z = lambda: torch.randn(b, 16, net.FRAMES, net.LATENT, net.LATENT, device=dev)
    rows = lambda *shape: torch.randn(*shape, device=dev)
    width = net.STATES * net.SPEECH
    batch = (z(), z(), z(), torch.rand(b, device=dev), torch.ones(b, dtype=torch.long, device=dev), z(), rows(b, length, net.TEXT), rows(b, length),
             rows(b, 257, net.IMAGE), rows(b, 5 * width), rows(b, net.FRAMES - 1, 8 * width))
    with torch.autocast(dev.type, torch.bfloat16, enabled=team.cuda):
        loss = (torch.compile(loss_of, dynamic=False) if team.cuda else loss_of)(model, *batch)
    loss.backward()
    team.log("warm")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bank", default="/tmp/talker/bank")
    a.add_argument("--model", default="models/talker")
    a.add_argument("--work", default="/tmp/talker")
    a.add_argument("--minutes", type=float, default=7)
    a.add_argument("--max-steps", type=int, default=0)
    a.add_argument("--since", type=float, default=0.0, help="of the whole training's 0 … 1, where this call begins")
    a.add_argument("--until", type=float, default=1.0)
    a.add_argument("--batch", type=int, default=128, help="windows per process")
    a.add_argument("--encode-batch", type=int, default=32)
    a.add_argument("--lr", type=float, default=1e-3)
    a.add_argument("--ema", type=float, default=0.9995)
    a.add_argument("--warm", action="store_true", help="compile the loss and stop")
    args = a.parse_args()
    if args.warm:
        return warm(args)
    team = Team()
    clock = Clock(team, args.minutes, args.max_steps)
    torch.manual_seed(2)
    fresh = args.since == 0 or not os.path.exists(os.path.join(args.model, "diffusion_pytorch_model.safetensors"))
    model = (net.Denoiser() if fresh else net.load_denoiser(args.model)).to(team.device)
    flat, state = Flat(team, [model], betas=(0.9, 0.99)), State(os.path.join(args.work, "state.pt"))
    went_on = args.since > 0 and state.load(flat)
    team.log(f"denoiser {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, {'from the state' if went_on else 'fresh' if fresh else 'from weights'}")
    torch.manual_seed(200 + team.rank + int(1e4 * args.since))
    windows = Windows(team, args)
    if team.rank == 0:
        path = os.path.join(folder(args.model, "vae"), "config.json")
        with open(path) as f:
            config = json.load(f)
        config["latents_mean"], config["latents_std"] = ([round(float(v), 5) for v in t] for t in windows.statistics)
        with open(path, "w") as f:
            json.dump(config, f, indent=2)
    loss_fn = torch.compile(loss_of, dynamic=False) if team.cuda else loss_of

    def lr(step):
        f = args.since + clock.fraction * (args.until - args.since)
        warm = min(1.0, (step + 1) / (400 if fresh else 100))
        return args.lr * warm * (0.005 + 0.995 * 0.5 * (1 + math.cos(math.pi * max(0.0, (f - 0.2) / 0.8))))

    step, mark, total, began = 0, time.time(), torch.zeros((), device=team.device), time.time()
    while clock.tick(step):
        args_of_loss = windows.draw(args.batch)
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            loss = loss_fn(model, *args_of_loss)
        loss.backward()
        flat.step(lr(step), decay=args.ema)
        total += loss.detach()
        step += 1
        if step % 200 == 0 or step == args.max_steps:
            team.log(f"denoiser: step {step} {100 * clock.fraction:.0f} % loss {float(total) / 200:.4f} {5 * (time.time() - mark):.1f} ms a step")
            total.zero_()
            mark = time.time()
    if team.rank == 0:
        net.save_denoiser(flat.averaged([model])[0], args.model)
        state.save(flat)
        with open(os.path.join(args.model, "parts", "denoiser.log.jsonl"), "a") as f:
            f.write(json.dumps({"since": args.since, "until": args.until, "steps": step, "seconds": time.time() - began,
                                "windows": step * args.batch * team.size, "encoded": len(windows.z) * team.size}) + "\n")
    team.log(f"denoiser: {step} steps of {args.batch * team.size} windows, {time.time() - began:.0f} s, {clock.elapsed():.0f} s in all")
    team.close()


if __name__ == "__main__":
    main()
