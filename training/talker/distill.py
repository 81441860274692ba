"""Distils the talking-photo model's denoiser into four steps, as a LoRA.

    torchrun --nproc_per_node 2 distill.py --bank /tmp/talker/bank --model models/talker --minutes 2.5
    tachyscope talk … --lora models/talker/four_steps_lora.safetensors --steps 4

The teacher walks from noise to a window in small Euler steps, a few for each step of InfiniteTalk's grid of four (whose last step is almost zero);
the student, which has the same weights plus low-rank changes, learns the straight line from each kept state to the next."""
import argparse
import os
import time

import net  # first: it finds the folder above
import torch
from torch import nn

from common import Clock, Flat, Team
from train import Windows

TARGETS = ("self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "cross_attn.q", "cross_attn.o", "ffn.0", "ffn.2")
RANK, STEPS, SHIFT, INNER = 16, 4, 3.0, 8


class Adapted(nn.Module):
    """A linear layer with a low-rank change, which is zero at first."""

    def __init__(self, linear, rank):
        super().__init__()
        self.linear = linear
        self.down, self.up = nn.Linear(linear.in_features, rank, bias=False), nn.Linear(rank, linear.out_features, bias=False)
        nn.init.normal_(self.down.weight, std=linear.in_features**-0.5)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


def adapt(model, rank=RANK):
    """Puts an Adapted in the place of each target; returns {name: Adapted}."""
    made = {}
    for i, block in enumerate(model.blocks):
        for name in TARGETS:
            parent = block.get_submodule(name.rsplit(".", 1)[0])
            leaf = name.rsplit(".", 1)[1]
            one = Adapted(getattr(parent, leaf), rank).to(next(model.parameters()).device)
            setattr(parent, leaf, one)
            made[f"blocks.{i}.{name}"] = one
    return made


def save(adapted, path):
    """Saves with ComfyUI's and kohya's names; without alpha the scale is 1."""
    from safetensors.torch import save_file
    save_file({f"diffusion_model.{k}.lora_{part}.weight": getattr(a, part).weight.detach().to("cpu", torch.bfloat16).contiguous()
               for k, a in adapted.items() for part in ("down", "up")}, path)


@torch.no_grad()
def merge(model, path):
    from safetensors.torch import load_file
    tensors = {k: v.float() for k, v in load_file(path).items()}
    for name in {k.removeprefix("diffusion_model.").rsplit(".", 2)[0] for k in tensors}:
        down, up = (tensors[f"diffusion_model.{name}.lora_{part}.weight"] for part in ("down", "up"))
        weight = model.get_submodule(name).weight
        weight += (up @ down).to(weight.device)


@torch.no_grad()
def walks(windows, model, n, batch, sigmas):
    """Returns kept states float16 [n, STEPS + 1, 16, T, h, w] of the teacher, and the rest of draw()'s results for each."""
    kept, rest = [], []
    for _ in range(0, n, batch):
        x0, given, noise, _, held, *others = windows.draw(batch)
        t = torch.arange(x0.shape[2], device=x0.device)
        mask = (t[None] < held[:, None])[:, None, :, None, None]
        x, c, states = torch.where(mask, given, noise), net.condition(others[0]), []
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            for a, b in zip(sigmas[:-1], sigmas[1:]):
                states.append(x.half())
                inner = INNER if b > 0 else 1
                for j in range(inner):
                    s, s_next = a + (b - a) * j / inner, a + (b - a) * (j + 1) / inner
                    v = model(torch.cat([x, c], 1), x.new_full((batch,), 1000 * s), *others[1:])
                    x = torch.where(mask, given, x + (s_next - s) * v)
        kept.append(torch.stack([*states, x.half()], 1))
        rest.append([mask, *(o.bfloat16() if o.is_floating_point() else o for o in others)])
    return torch.cat(kept), [torch.cat(part) for part in zip(*rest)]


def student_loss(model, x, y, ds, t, mask, photo, *others):
    v = model(torch.cat([x, net.condition(photo)], 1), t, *others)
    e = (v - (y - x) / ds).square() * ~mask
    return (e.mean((1, 2, 3, 4)) * (0.3 + ds.flatten().abs())).mean()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--bank", default="/tmp/talker/bank")
    a.add_argument("--model", default="models/talker")
    a.add_argument("--work", default="/tmp/talker")
    a.add_argument("--out", default="four_steps_lora.safetensors", help="in the model's folder")
    a.add_argument("--minutes", type=float, default=2.5)
    a.add_argument("--max-steps", type=int, default=0)
    a.add_argument("--walks", type=int, default=8192, help="per process")
    a.add_argument("--walk-batch", type=int, default=128)
    a.add_argument("--batch", type=int, default=96)
    a.add_argument("--encode-batch", type=int, default=32)
    a.add_argument("--lr", type=float, default=1e-3)
    args = a.parse_args()
    team = Team()
    clock = Clock(team, args.minutes, args.max_steps)
    torch.manual_seed(400 + team.rank)
    model = net.load_denoiser(args.model).to(team.device).requires_grad_(False)
    windows = Windows(team, args)
    sigmas = net.shifted(STEPS, SHIFT)
    run = torch.compile(lambda *w: model(*w), dynamic=False) if team.cuda else model
    kept, rest = walks(windows, run, args.walks, args.walk_batch, sigmas)
    team.log(f"{len(kept) * team.size} walks at {clock.elapsed():.0f} s")
    torch._dynamo.reset()
    torch.manual_seed(5)
    adapted = adapt(model)
    torch.manual_seed(500 + team.rank)
    pairs = nn.ModuleList(nn.ModuleList([a.down, a.up]) for a in adapted.values())
    flat = Flat(team, [pairs], betas=(0.9, 0.99), weight_decay=0.0)
    loss_fn = torch.compile(student_loss, dynamic=False) if team.cuda else student_loss
    s, step, total, mark = torch.tensor(sigmas, dtype=torch.float32, device=team.device), 0, torch.zeros((), device=team.device), time.time()
    while clock.tick(step):
        i = torch.randint(len(kept), (args.batch,), device=team.device)
        k = torch.randint(STEPS - 1, (args.batch,), device=team.device)
        mask, *others = (r[i] for r in rest)
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            loss = loss_fn(model, kept[i, k].float(), kept[i, k + 1].float(), (s[k + 1] - s[k]).view(-1, 1, 1, 1, 1), 1000 * s[k], mask,
                           *(o.float() if o.is_floating_point() else o for o in others))
        loss.backward()
        flat.step(clock.lr(step, args.lr, warm=100, floor=0.01), decay=0.998)
        total += loss.detach()
        step += 1
        if step % 100 == 0 or step == args.max_steps:
            team.log(f"lora: step {step} {100 * clock.fraction:.0f} % loss {float(total) / 100:.4f} {10 * (time.time() - mark):.1f} ms a step")
            total.zero_()
            mark = time.time()
    if team.rank == 0:
        flat.flat.copy_(flat.ema)
        save(adapted, os.path.join(args.model, args.out))
    team.log(f"lora: {step} steps of {args.batch * team.size} states")
    team.close()


if __name__ == "__main__":
    main()
