#!/usr/bin/env python3
"""Measures the device time and the host time of the Python package's calls beside torch's and, if they can be imported, quack's, Liger's and
comfy-kitchen's.

    PYTHONPATH=BUILD/python bench/peers/python_ops.py [--device cpu] [--host-only] [--no-host] [--tiny] [--quack [FOLDER ...]] [--json FILE]

BUILD is a build folder with TACHY_PYTHON (and CUDA). The device time on a GPU is that of a CUDA graph of
calls on cold inputs, as norms.py measures it, so the calls are captured as well; the table has the median of
three. On the CPU it has the median of --rounds calls by the clock. The calls that are compared alternate.

The host time is the best of 20 series (--series) of calls of tiny tensors whose kernels take less than the call, with
output allocated. Here, too, the calls alternate. They are measured without gradients, with gradients
recorded, and forward and backward. "composed" is RMSNorm as PyTorch users write it out.

comfy-kitchen's norms and rotary positions have a table of their own, at the sizes of Wan 2.1 1.3B. It is
left out on a GPU where its compiled kernels do not load; on a CPU its functions are torch's operations.

--quack makes it an error if quack cannot be imported or run; otherwise it would only be left out. The FOLDERs
hold quack and what it needs. On a CPU our backward passes are torch's operations; --own-backward takes those
of a GPU instead, with the definitions as their kernels, to measure their host time.
"""
import argparse
import functools
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

import tachyscope
from norms import graph_us
from tachyscope import ops

PEERS = ("quack", "Liger", "comfy-kitchen")
SHAPES = [(1, 1024, 2048), (2, 1024, 2048), (4, 1024, 2048), (2, 4096, 3072), (4, 4096, 3072)]
TINY = [(1, 32, 64), (2, 33, 96)]


def composed(x, weight, eps=1e-6):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def rms_norms():
    """Returns {name: function of x and weight}; peers that are not installed are left out."""
    calls = {
        "ours": lambda x, weight: ops.rms_norm(x, weight, 1e-6),
        "F.rms_norm": lambda x, weight: F.rms_norm(x, x.shape[-1:], weight, 1e-6),
        "composed": composed,
    }
    try:
        from quack import rmsnorm
        calls["quack"] = lambda x, weight: rmsnorm(x, weight, eps=1e-6)
    except ImportError:
        pass
    try:
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction
        calls["Liger"] = lambda x, weight: LigerRMSNormFunction.apply(x, weight, 1e-6)
    except ImportError:
        pass
    return calls


def usable(calls, tensors, wanted=()):
    """Returns the calls that accept these tensors, each run once, so that first-use work is done. A peer may not support a shape or this GPU,
    which is an error for those that are `wanted`."""
    found = {}
    for name, call in calls.items():
        try:
            call(*tensors)
            found[name] = call
        except Exception as error:
            if name not in PEERS or name in wanted:
                raise
            print(f"{name} is left out for {list(tensors[0].shape)}: {type(error).__name__} {str(error).splitlines()[:1]}", flush=True)
    return found


def clock_us(call, tensors):
    begin = time.perf_counter()
    call(*tensors)
    return (time.perf_counter() - begin) * 1e6


def device_microseconds(shape, device, rounds, wanted):
    def make():
        return [torch.randn(n, device=device).bfloat16() for n in (shape, shape[-1:])]

    return in_turn(usable(rms_norms(), make(), wanted), make, device, rounds)


def in_turn(calls, make, device, rounds):
    """Returns {name: the median of its device µs}."""
    tensors = make()
    times = {name: [] for name in calls}
    for _ in range(3 if device == "cuda" else rounds):
        for name, call in calls.items():
            times[name].append(graph_us(make, call) if device == "cuda" else clock_us(call, tensors))
    return {name: statistics.median(t) for name, t in times.items()}


def comfy_kitchen(device):
    """Returns comfy-kitchen, or None with a line that says why it is left out."""
    try:
        import comfy_kitchen as kitchen
    except ImportError as error:
        print(f"comfy-kitchen is left out: {error}")
        return None
    kernels = kitchen.list_backends()["cuda"]
    if device == "cuda" and not kernels["available"]:
        print(f"comfy-kitchen is left out, its kernels do not load: {kernels['unavailable_reason']}")
        return None
    return kitchen


def kitchen_rows(kitchen, device, rounds, tiny):
    """Returns [(what, {name: µs})] of what ComfyUI's Wan does by comfy-kitchen: heads [1, tokens, heads, head dim] with a norm of each, and positions."""
    tokens, heads, size = (64, 2, 32) if tiny else (32760, 12, 128)
    angles = torch.outer(torch.arange(tokens, device=device), 10000.0 ** -torch.linspace(0, 1, size // 2, device=device))
    cos, sin = angles.cos(), angles.sin()
    turns = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)[None, :, None].contiguous()
    per_head = [t.repeat_interleave(heads, 0) for t in (cos, sin)]

    def make(*shapes):
        return lambda: [torch.randn(shape, device=device).bfloat16() for shape in shapes]

    def ours_rms_rope(q, k, q_weight, k_weight):
        return ops.qk_norm_rope(q.flatten(1, 2), k.flatten(1, 2), q_weight, k_weight, *per_head, 1, 1e-6)

    rows, channels = (1, tokens, heads * size), heads * size
    kinds = [
        ("rope", make((1, tokens, heads, size)), lambda x: ops.rope(x, cos, sin), lambda x: kitchen.apply_rope1(x, turns)),
        ("rms_rope of q and k", make(*[(1, tokens, heads, size)] * 2, (size,), (size,)), ours_rms_rope,
         lambda q, k, *weights: kitchen.rms_rope(q, k, turns, *weights, 1e-6)),
        ("adaln", make(rows, (1, 1, channels), (1, 1, channels)), ops.ada_layer_norm, kitchen.adaln),
        ("rms_adaln", make(rows, (1, 1, channels), (1, 1, channels)), ops.rms_modulate, kitchen.rms_adaln)]
    with kitchen.use_backend("cuda" if device == "cuda" else "eager"):
        return [(what, in_turn(usable({"ours": ours, "comfy-kitchen": theirs}, tensors()), tensors, device, rounds)) for what, tensors, ours, theirs in kinds]


def host_microseconds(calls, series=20, count=500):
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(series):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.perf_counter() - begin) / count * 1e6)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
    return best


def host_rows(device, series=20):
    """Returns [(what, {name: µs})] for small norms and for one adapter beside few rows."""
    def made(*shapes):
        return [torch.randn(shape, device=device) for shape in shapes]

    layer_norms = {"ours": lambda x, weight, bias: ops.layer_norm(x, weight, bias),
                   "torch": lambda x, weight, bias: F.layer_norm(x, (64,), weight, bias)}
    products = {"ours": lambda x, a, b: ops.lora(x, a, b), "torch": lambda x, a, b: x @ a.T @ b.T,
                "ours, scaled": lambda x, a, b: ops.lora(x, a, b, 0.5)}
    images = {"ours": lambda x, weight, bias: ops.group_norm_silu(x, 8, weight, bias),
              "torch": lambda x, weight, bias: F.silu(F.group_norm(x, 8, weight, bias))}
    rows = []
    for title, calls, tensors in (("RMSNorm", rms_norms(), made((4, 64), (64,))), ("LayerNorm", layer_norms, made((4, 64), (64,), (64,))),
                                  ("GELU", {"ours": lambda x: ops.gelu(x), "torch": lambda x: F.gelu(x)}, made((4, 64))),
                                  ("GroupNorm, SiLU", images, made((1, 32, 4, 4), (32,), (32,))),
                                  ("one adapter", products, made((4, 64), (8, 64), (64, 8)))):
        recorded = [t.clone().requires_grad_() for t in tensors]
        gradient = torch.ones_like(calls["ours"](*tensors))

        def both(call, *tensors):
            return torch.autograd.grad(call(*tensors), tensors, gradient)

        passes = {name: functools.partial(both, call) for name, call in calls.items()}
        for what, each, given in (("no grad", calls, tensors), ("recorded", calls, recorded), ("and backward", passes, recorded)):
            each = usable(each, given)
            rows.append((f"{title}, {what}", host_microseconds({name: functools.partial(call, *given) for name, call in each.items()}, series)))
    return rows


def table(title, rows):
    names = list(dict.fromkeys(name for _, times in rows for name in times))
    print(f"\n{title}\n" + f"{'':26}" + "".join(f"{name:>14}" for name in names))
    for label, times in rows:
        print(f"{label:26}" + "".join(f"{times[name]:14.1f}" if name in times else f"{'-':>14}" for name in names))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=21, help="calls on the CPU")
    parser.add_argument("--json", help="write the figures to this file as well")
    parser.add_argument("--quack", nargs="*", metavar="FOLDER", help="quack must be among the peers; folders to import it from")
    parser.add_argument("--host-only", action="store_true", help="no device times")
    parser.add_argument("--no-host", action="store_true", help="no host times")
    parser.add_argument("--series", type=int, default=20, help="series of calls, for the host times")
    parser.add_argument("--own-backward", action="store_true", help="on a CPU: the backward passes that a GPU takes")
    parser.add_argument("--tiny", action="store_true", help="small tensors, to try the script")
    options = parser.parse_args()
    sys.path[:0] = options.quack or []
    wanted = () if options.quack is None else ("quack",)
    if wanted:
        import quack  # noqa: F401
    if options.own_backward:
        tachyscope.enable_torch()
        from tachyscope import _gradients
        _gradients._pass = lambda name, dy, x=None: _gradients.direct[name]
    if options.device == "cpu" and options.host_only:
        torch.set_num_threads(1)
        tachyscope.set_threads(1)
    machine = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {tachyscope.threads()} threads"
    print(f"{machine}, torch {torch.__version__}, bf16, µs")

    rows, beside = [], []
    if not options.host_only:
        kitchen = comfy_kitchen(options.device)
        with torch.no_grad():
            shapes = TINY if options.tiny else SHAPES
            rows = [(str(list(shape)), device_microseconds(shape, options.device, options.rounds, wanted)) for shape in shapes]
            beside = kitchen_rows(kitchen, options.device, options.rounds, options.tiny) if kitchen else []
        table("RMSNorm, device time", rows)
        gain = sum(times["composed"] / times["ours"] for _, times in rows) / len(rows)
        print(f"composed / ours on average: {gain:.2f}")
        if beside:
            table("comfy-kitchen, device time", beside)
    host = [] if options.no_host else host_rows(options.device, 2 if options.tiny else options.series)
    if host:
        table("a call of tiny tensors, host time", host)
        theirs = {what: times.get("torch", times.get("F.rms_norm")) / times["ours"] for what, times in host}
        print("times as fast as torch: " + ", ".join(f"{what} {ratio:.2f}" for what, ratio in theirs.items()))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine, "device_us": rows, "kitchen_us": beside, "host_us": host}, file, indent=1)


if __name__ == "__main__":
    main()
