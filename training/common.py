"""Shared by the training scripts: processes, flat parameters with EMA, learning rates that follow the clock."""
import copy
import math
import os
import time

if "LOCAL_RANK" in os.environ:  # each process sees its own device as the first: compiled code is then the same for all
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]
import torch
import torch._inductor.config
import torch.distributed as dist


class Team:
    """The processes of one training run (torchrun's environment; one process without it)."""

    def __init__(self):
        self.rank, self.size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        self.cuda = torch.cuda.is_available()
        if self.cuda:
            torch._inductor.config.force_layout_optimization = True  # channels last, however few there are
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
            torch.backends.cudnn.benchmark = True
        self.device = torch.device("cuda" if self.cuda else "cpu")
        if self.size > 1:
            dist.init_process_group("nccl" if self.cuda else "gloo", device_id=torch.device("cuda", 0) if self.cuda else None)

    def log(self, *words):
        if self.rank == 0:
            print(time.strftime("%H:%M:%S"), *words, flush=True)

    def sum(self, x):
        if self.size > 1:
            dist.all_reduce(x)
        return x

    def agree(self, value):
        """Returns rank 0's float to all ranks."""
        t = torch.tensor([value], dtype=torch.float64, device=self.device)
        if self.size > 1:
            dist.broadcast(t, 0)
        return float(t)

    def close(self):
        if self.size > 1:
            dist.barrier()
            dist.destroy_process_group()


class Flat:
    """All parameters of some modules as views of one float32 vector, with one gradient vector, one EMA vector and fused AdamW.

    Gradients of all processes are averaged with a single all-reduce.
    """

    def __init__(self, team, modules, betas=(0.9, 0.99), weight_decay=0.01):
        self.team = team
        self.params = [p for m in modules for p in m.parameters()]
        n = sum(p.numel() for p in self.params)
        self.flat = torch.empty(n, device=team.device)
        self.grad = torch.zeros(n, device=team.device)
        at = 0
        for p in self.params:
            view = slice(at, at + p.numel())
            self.flat[view] = p.data.reshape(-1)
            p.data = self.flat[view].view(p.shape)
            p.grad = self.grad[view].view(p.shape)
            at += p.numel()
        if team.size > 1:
            dist.broadcast(self.flat, 0)
        self.ema = self.flat.clone()
        self.whole = torch.nn.Parameter(self.flat)
        self.whole.grad = self.grad
        self.betas = betas
        self.opt = torch.optim.AdamW([self.whole], lr=0.0, betas=betas, eps=1e-8, weight_decay=weight_decay, fused=True)
        self.steps = 0

    def step(self, lr, surprise=1.5, decay=0.999):
        """One update from the accumulated gradients, which are cleared; never waits for the device.

        If a gradient's root mean square, in units of Adam's running one, exceeds `surprise`, the gradient is scaled down to that, so that one odd
        batch moves neither the weights nor the moments much."""
        self.team.sum(self.grad)
        self.grad.mul_(1.0 / self.team.size).nan_to_num_(0, 0, 0)
        state = self.opt.state.get(self.whole)
        if state:
            ratio = self.grad.square() / (state["exp_avg_sq"] / (1 - self.betas[1] ** self.steps) + 1e-16)
            rms = ratio.clamp_(max=100).mean().sqrt()  # clamped, so that a weight's very first gradients do not count as a surprise
            self.grad.mul_(torch.clamp(surprise / (rms + 1e-6), max=1.0))
        self.opt.param_groups[0]["lr"] = lr
        self.opt.step()
        self.grad.zero_()
        self.steps += 1
        self.ema.lerp_(self.flat, 1 - min(decay, (1 + self.steps) / (10 + self.steps)))

    def averaged(self, modules, dtype=torch.bfloat16):
        """Returns copies of the modules on the CPU, in `dtype`, with the averaged weights."""
        copies = [copy.deepcopy(m) for m in modules]
        at = 0
        for p in (p for m in copies for p in m.parameters()):
            p.data = self.ema[at:at + p.numel()].view(p.shape).clone()
            at += p.numel()
        return [m.to("cpu", dtype).eval() for m in copies]


class Clock:
    """A budget in minutes, counted from the process's start; `fraction` is shared by all processes and refreshed every few steps."""

    def __init__(self, team, minutes, max_steps=0, every=20):
        self.team, self.minutes, self.max_steps, self.every = team, minutes, max_steps, 1 if max_steps else every
        self.start, self.fraction, self.first = time.time(), 0.0, None

    def tick(self, step):
        """Returns True while there is time. It must be called once in each step."""
        if step % self.every == 0:
            now = (time.time() - self.start) / (60 * self.minutes)
            if self.max_steps:
                now = max(now, step / self.max_steps)
            now = self.team.agree(now)
            if self.first is None:
                self.first = min(now, 0.5)
            self.fraction = min(1.0, (now - self.first) / max(1e-9, 1 - self.first)) if now < 1 else 1.0
        return self.fraction < 1.0

    def elapsed(self):
        return time.time() - self.start

    def lr(self, step, peak, warm=200, floor=0.01):
        """Returns the learning rate: it warms up by steps, is flat for a fifth of the time, then falls by a cosine to `floor` of the peak."""
        f = max(0.0, (self.fraction - 0.2) / 0.8)
        return peak * min(1.0, (step + 1) / warm) * (floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * f)))
