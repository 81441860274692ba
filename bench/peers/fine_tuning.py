#!/usr/bin/env python3
"""Times a fine-tuning step of LTX-Video 2B with gradient checkpointing and adapters of rank 64, by torch's functions and by ours, and compares the losses.

    PYTHONPATH=BUILD/python bench/peers/fine_tuning.py [--layers N] [--steps N] [--autocast] [--kernels] [--tiny] [--device cpu] [--json FILE]

The model is diffusers' class with random weights in bfloat16, which stay as they are; adapters in the queries, keys, values and results of all attention
are trained by AdamW, as trainers of LTX do by default. The variants alternate, step by step, from the same adapters on the same noise:

torch            the model's own code, each adapter as two linear layers beside its own
torch, nudged    the same, where each value of the input is one unit of its last place off: what one rounding does to the losses
ours             after tachyscope.optimize at level aggressive
ours, ops.lora   the same, with each adapter by ops.lora

A row has ms of a step (the median after the first two), times as fast as torch, the memory of a step beyond the model, the last loss, and the largest
distance of a loss from torch's. The command fails if ours are more than twice as far away as the nudged ones. --autocast keeps the adapters in float32
and computes inside of torch.autocast in bfloat16."""
import argparse
import copy
import gc
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

import tachyscope
from python_models import ltx, print_kernels
from tachyscope import ops

RANK, TARGETS = 64, ("to_q", "to_k", "to_v", "to_out.0")
VARIANTS = ["torch", "torch, nudged", "ours", "ours, ops.lora"]


class Adapted(nn.Module):
    """A linear layer that is not trained, with an adapter beside it."""

    def __init__(self, layer, rank, dtype, generator, by_op):
        super().__init__()
        self.layer, self.by_op, self.scale = layer, by_op, 1.0
        draw = torch.randn(rank, layer.in_features, generator=generator) / layer.in_features ** 0.5
        self.a = nn.Parameter(draw.to(layer.weight.device, dtype))
        # Trainers begin with zeros. A small matrix shows in the first loss whether adapters count.
        draw = torch.randn(layer.out_features, rank, generator=generator) * 0.02 / rank ** 0.5
        self.b = nn.Parameter(draw.to(layer.weight.device, dtype))

    def forward(self, x):
        if self.by_op:
            return self.layer(x) + ops.lora(x, self.a, self.b, self.scale)
        return self.layer(x) + F.linear(F.linear(x, self.a), self.b) * self.scale


def with_adapters(model, rank, dtype, by_op):
    """Puts an adapter beside each of the targets, the same in each copy of a model."""
    generator = torch.Generator("cpu").manual_seed(1)
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and name.endswith(TARGETS):
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, Adapted(module, rank, dtype, generator, by_op))
    return model


class Run:
    """One variant: its model, its optimizer, and what its steps gave."""

    def __init__(self, name, base, options):
        self.name, self.options = name, options
        dtype = torch.float32 if options.autocast or options.dtype == torch.float32 else torch.bfloat16
        # The base is shared: its weights are not trained.
        memo = {id(p): p for p in base.parameters()} | {id(b): b for b in base.buffers()}
        self.model = with_adapters(copy.deepcopy(base, memo), RANK if not options.tiny else 4, dtype, "ops.lora" in name).train()
        self.model.enable_gradient_checkpointing()
        if "ours" in name:
            report = tachyscope.optimize(self.model, "aggressive", verbose=False)
            print(f"{name}: {len(report.replaced)} modules replaced, {len(report.left)} left", flush=True)
        self.adapters = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.adapters, lr=1e-4)
        self.ms, self.losses, self.memory = [], [], 0

    def step(self, given, noise):
        x, device = given["hidden_states"], self.options.device
        if "nudged" in self.name:
            eps = torch.finfo(torch.bfloat16 if self.options.autocast else x.dtype).eps
            x = x * (1 + eps * torch.where(noise > 0, 1, -1)).to(x.dtype)
        mixed = 0.7 * x + 0.3 * noise
        begin = self.clock()
        with torch.autocast(device, torch.bfloat16, enabled=self.options.autocast):
            result = self.model(**given | {"hidden_states": mixed}, return_dict=False)[0]
            loss = F.mse_loss(result.float(), (noise - given["hidden_states"]).float())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.ms.append(self.clock() - begin)
        self.losses.append(loss.item())

    def measured(self, given, noise):
        if self.options.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        self.step(given, noise)
        if self.options.device == "cuda":
            self.memory = max(self.memory, torch.cuda.max_memory_allocated() - before)

    def clock(self):
        if self.options.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--layers", type=int, help="of the model; all 28 if it is not given")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--kernels", action="store_true", help="print the kernels of one more step of each variant (on a GPU)")
    parser.add_argument("--tiny", action="store_true", help="a model of a few parameters, to try the script")
    parser.add_argument("--json", help="write the figures to this file as well")
    options = parser.parse_args()
    if options.steps < 4 or "torch" not in options.variants:
        parser.error("expected at least 4 steps, and torch among the variants")
    options.dtype = torch.float32 if options.tiny and options.device == "cpu" else torch.bfloat16
    torch.manual_seed(0)
    torch.set_default_dtype(options.dtype)
    with torch.device(options.device):
        base, inputs = ltx(options.tiny, options.layers)
        given = inputs(options.dtype)
    torch.set_default_dtype(torch.float32)
    runs = [Run(name, base, options) for name in options.variants]
    assert all(p.data_ptr() == q.data_ptr() for p, q in zip(base.parameters(), [p for p in runs[0].model.parameters() if not p.requires_grad]))
    generator = torch.Generator("cpu").manual_seed(2)
    for _ in range(options.steps):
        noise = torch.randn(given["hidden_states"].shape, generator=generator).to(options.device, options.dtype)
        for run in runs:
            run.measured(given, noise)
            gc.collect(0)
    theirs, records = runs[0], []
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    count = sum(p.numel() for p in theirs.adapters)
    print(f"{machine}, torch {torch.__version__}, {len(theirs.model.transformer_blocks)} blocks, {count / 1e6:.1f} million parameters in {len(theirs.adapters) // 2} "
          f"adapters, {list(given['hidden_states'].shape)} {options.dtype}{', autocast' if options.autocast else ''}")
    for run in runs:
        ms = sorted(run.ms[2:])[len(run.ms[2:]) // 2]
        apart = max(abs(a - b) for a, b in zip(run.losses, theirs.losses))
        records.append({"variant": run.name, "ms": ms, "ratio": None, "losses": run.losses, "apart": apart, "bytes": run.memory})
        records[-1]["ratio"] = records[0]["ms"] / ms
        print(f"{run.name:16}{ms:10.2f} ms{records[-1]['ratio']:8.3f}x{run.memory / 2**30:8.2f} GiB   loss {run.losses[0]:.5f} to {run.losses[-1]:.5f}, apart {apart:.1e}", flush=True)
    if options.kernels and options.device == "cuda":
        for run in runs:
            print_kernels(run.name, lambda run=run: run.step(given, noise), 30)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine, "torch": torch.__version__, "runs": records}, file, indent=1)
    apart = {record["variant"]: record["apart"] for record in records}
    allowed = 2 * apart.get("torch, nudged", float("inf")) + 4 * torch.finfo(torch.float32).eps * max(theirs.losses)  # a loss is a float32
    far = [name for name in apart if "ours" in name and not apart[name] <= allowed]
    if far:
        raise SystemExit(f"the losses of {', '.join(far)} are farther from torch's than twice what one rounding of the input does")


if __name__ == "__main__":
    main()
