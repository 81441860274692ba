"""Prepares the three encoders whose results the denoiser is trained on; they are frozen afterwards. Together they need one minute on one device.

    ears    (wav2vec2) name the phone and tell the mouth's opening and width of every frame
    eyes    (CLIP)     name what a photo shows: skin, hair, style, eyes, shirt, glasses, background
    reader  (umT5)     names the motion that a caption asks for

    python3 encoders.py --bank /tmp/talker/bank --model models/talker --minutes 1.2

Linear heads on their outputs learn with them and are thrown away.
"""
import argparse
import json
import math
import os
import time

import torch
import torch.nn.functional as F

import net
import faces
from bank import Bank

CROPS = (75, 100, 175, 250)  # lengths of sounds in frames: norms and attention of the ears see the whole sound


class Trainer:
    """AdamW on a module and its head, with a learning rate that follows the clock."""

    def __init__(self, modules, lr, minutes, max_steps):
        self.params = [p for m in modules for p in m.parameters()]
        self.opt = torch.optim.AdamW(self.params, lr=lr, betas=(0.9, 0.98), weight_decay=0.01)
        self.peak, self.begin, self.seconds, self.max_steps, self.steps = lr, time.time(), 60 * minutes, max_steps, 0

    def going(self):
        f = (time.time() - self.begin) / self.seconds
        if self.max_steps:
            f = max(f, self.steps / self.max_steps)
        self.opt.param_groups[0]["lr"] = self.peak * min(1, (self.steps + 1) / 100) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1, f))))
        return f < 1

    def step(self, loss):
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.opt.step()
        self.steps += 1


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def crops(bank, batch, frames):
    """Draws sounds [batch, 640·frames] of zero mean and unit variance, with their mouths [batch, frames, 2] and phones [batch, frames]."""
    dev = bank.sound.device
    fits = (bank.lengths[:, 1] >= frames).nonzero().flatten()
    u = fits[torch.randint(len(fits), (batch,), device=dev)]
    a = (torch.rand(batch, device=dev) * (bank.lengths[u, 1] - frames + 1)).long()
    at = (bank.begins[u, 0] + 640 * a)[:, None] + torch.arange(640 * frames, device=dev)
    rows = (bank.begins[u, 1] + a)[:, None] + torch.arange(frames, device=dev)
    return net.standard(bank.sound[at].float() / 32768), bank.mouth[rows], bank.phones[rows].long()


def train_ears(bank, args, device):
    ears = net.build_ears().to(device)
    kinds = len(bank.info["phones"])
    head = torch.nn.Linear(net.SPEECH, kinds + 2).to(device)
    mid = torch.nn.Linear(net.SPEECH, kinds + 2).to(device)
    t = Trainer([ears, head, mid], 2e-3, 0.55 * args.minutes, args.max_steps)
    while t.going():
        frames = CROPS[t.steps % len(CROPS)]
        x, mouth, phones = crops(bank, max(1, args.batch * 100 // frames), frames)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            states = net.hear(ears, x, frames)
        loss = 0
        for layer, state, weight in ((head, states[:, :, -1], 1.0), (mid, states[:, :, 1], 0.3)):
            y = layer(state.float())
            loss = loss + weight * (0.3 * F.cross_entropy(y[..., :kinds].flatten(0, 1), phones.flatten()) + 10 * F.smooth_l1_loss(y[..., kinds:], mouth, beta=0.1))
        t.step(loss)
        if t.steps % 100 == 0 or t.steps == 1:
            with torch.no_grad():
                y = head(states[:, :, -1].float())
                right = (y[..., :kinds].argmax(-1) == phones).float().mean()
                c = torch.corrcoef(torch.stack([y[..., kinds].flatten(), mouth[..., 0].flatten()]))[0, 1]
            say(f"ears: step {t.steps} loss {float(loss):.4f} phones {100 * float(right):.1f} % mouth's correlation {float(c):.4f}")
    return ears


def train_eyes(bank, args, device):
    eyes = net.build_eyes().to(device)
    sizes = [len(v) for v in bank.info["class_names"].values()]
    head = torch.nn.Linear(net.IMAGE, sum(sizes)).to(device)
    t = Trainer([eyes, head], 1e-3, 0.35 * args.minutes, args.max_steps)
    while t.going():
        i = torch.randint(len(bank.faces), (args.batch,), device=device)
        with torch.no_grad():
            photos = faces.photo(bank.faces[i], torch)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            h = net.look(eyes, photos)
        h = F.layer_norm(h.float(), h.shape[-1:])
        parts = head(h.mean(1)).split(sizes, 1)
        want = bank.kinds[i]
        loss = sum(F.cross_entropy(p, want[:, k]) for k, p in enumerate(parts)) / len(sizes)
        t.step(loss)
        if t.steps % 100 == 0 or t.steps == 1:
            right = [100 * float((p.argmax(1) == want[:, k]).float().mean()) for k, p in enumerate(parts)]
            say(f"eyes: step {t.steps} loss {float(loss):.4f} right {' '.join(f'{r:.0f}' for r in right)} %")
    return eyes


def train_reader(bank, args, device):
    with open(os.path.join(args.model, "google", "umt5-xxl", "tokenizer.json")) as f:
        vocab = len(json.load(f)["model"]["vocab"])
    reader = net.build_reader(vocab).to(device)
    head = torch.nn.Linear(net.TEXT, len(bank.captions)).to(device)
    t = Trainer([reader, head], 2e-3, 0.1 * args.minutes, args.max_steps)
    while t.going():
        m = torch.randint(len(bank.captions), (args.batch,), device=device)
        ids = bank.captions[m, torch.randint(bank.captions.shape[1], (args.batch,), device=device)]
        rows, _ = net.read(reader, ids)
        mask = ids != 0
        y = head(rows[:, :-1])
        loss = F.cross_entropy(y[mask], m[:, None].expand_as(ids)[mask])
        t.step(loss)
        if t.steps % 100 == 0 or t.steps == 1:
            say(f"reader: step {t.steps} loss {float(loss):.4f} right {100 * float((y[mask].argmax(-1) == m[:, None].expand_as(ids)[mask]).float().mean()):.1f} %")
    return reader


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bank", default="/tmp/talker/bank")
    a.add_argument("--model", default="models/talker")
    a.add_argument("--minutes", type=float, default=1.2)
    a.add_argument("--max-steps", type=int, default=0)
    a.add_argument("--batch", type=int, default=64)
    a.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = a.parse_args()
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(11)
    bank = Bank(args.bank, device)
    for name, train in (("text_encoder", train_reader), ("audio_encoder", train_ears), ("image_encoder", train_eyes)):
        made = train(bank, args, device).to("cpu", torch.bfloat16)
        made.save_pretrained(os.path.join(args.model, "parts", name))
        say(f"{name}: {sum(p.numel() for p in made.parameters()) / 1e6:.2f} M parameters")
    open(os.path.join(args.model, "parts", "encoders.done"), "w").close()


if __name__ == "__main__":
    main()
