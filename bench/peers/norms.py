"""Times memory-bound forward ops on one GPU in one run: PyTorch's, quack's if it is installed, and ours.

    python3 bench/peers/norms.py OP_RUNNER [--compile] [--json FILE]

RMSNorm (F.rms_norm, composed of PyTorch's operations, quack), layer norm with modulation and group norm with silu (composed;
with --compile through torch.compile too), bf16. The times are the device's in a CUDA graph of a hundred calls. Inputs are cold: the calls take turns
with sets of tensors that are four times as large as the second-level cache. Ours is `op_runner --perf`, which does the same. OP_RUNNER is
build/tests/unit/ops/op_runner."""
import argparse
import json
import pathlib
import re
import statistics
import subprocess

import torch
import torch.nn.functional as F

ROWS = [(1024, 2048), (2048, 2048), (4096, 2048), (8192, 3072), (16384, 3072), (32760, 1536), (32760, 5120), (75600, 5120)]
# quack 0.6.5's time over F.rms_norm's, measured together on an H200: 4.0/5.0 µs, 5.7/6.9, 9.5/11.4, 28.5/33.2, 54.0/61.8, 51.4/62.0, 163/202, 409/456
QUACK_RATIO = [0.800, 0.826, 0.833, 0.858, 0.874, 0.829, 0.807, 0.897]


def graph_us(make, work):
    """Returns the microseconds of one call of work(*make()), from a graph of a hundred."""
    first = make()
    size = sum(t.numel() * t.element_size() for t in first) * 3 // 2
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    sets = [first] + [make() for _ in range(max(1, min(63, 4 * cache // size)))]
    for tensors in sets[:3]:
        for _ in range(3):
            work(*tensors)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for tensors in sets:
        work(*tensors)
    end.record()
    torch.cuda.synchronize()
    turns = max(1, int(min(100 / len(sets), 10 / begin.elapsed_time(end))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(turns):
            for tensors in sets:
                work(*tensors)  # the results' memory returns to the graph's pool at once, as in a model
    times = []
    for i in range(22):
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / turns / len(sets))
    return statistics.median(times[2:])


def ours(op_runner, op):
    out = subprocess.run([op_runner, "--device", "cuda", "--dtype", "bf16", "--perf", "--kinds", "real,video", "--op", f"{op}:"], capture_output=True, text=True, timeout=120)
    times = {}
    for case, us in re.findall(rf"perf +{op}:(\S+?):\w+ +([\d.]+) us", out.stdout):
        times.setdefault(case, float(us))  # only the first time that the table has for a case
    if not times:
        raise SystemExit(f"{op_runner} --perf --op {op}: no times: {out.stderr[-300:]}")
    return times


def tensor(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def composed_rms(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def modulated(x, scale, shift):
    return (F.layer_norm(x.float(), x.shape[-1:], eps=1e-6) * (1 + scale) + shift).to(x.dtype)


def group_silu(x, w, b):
    return F.silu(F.group_norm(x, 32, w, b))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("op_runner", type=pathlib.Path)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    try:
        from quack import rmsnorm as quack_rmsnorm
    except ImportError:
        quack_rmsnorm = None
    torch.manual_seed(0)
    figures = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "us": {}}
    print(f"{figures['gpu']}, torch {torch.__version__}, bf16, microseconds")

    def show(name, us, bytes_moved):
        figures["us"][name] = us
        peers = ", ".join(f"{key} {value:.2f}" + (f" ({value / us['ours']:.2f}x)" if key != "ours" else f" ({bytes_moved / value * 1e-6:.2f} TB/s)") for key, value in us.items())
        print(f"{name}: {peers}", flush=True)

    with torch.no_grad():
        mine = ours(args.op_runner, "rmsnorm")
        for (rows, c), ratio in zip(ROWS, QUACK_RATIO):
            def make():
                return tensor(rows, c), tensor(c)
            us = {"ours": mine[f"{rows}x{c}"], "F.rms_norm": graph_us(make, lambda x, w: F.rms_norm(x, (c,), w, 1e-6))}
            if quack_rmsnorm:
                us["quack"] = graph_us(make, lambda x, w: quack_rmsnorm(x, w, eps=1e-6))
            else:
                us["quack by its ratio"] = ratio * us["F.rms_norm"]
            us["composed"] = graph_us(make, composed_rms)
            show(f"rmsnorm {rows}x{c}", us, 4 * rows * c)
        mine = ours(args.op_runner, "layernorm_modulate")
        for rows, c in [(32760, 1536), (32760, 5120), (75600, 5120)]:
            def make():
                return tensor(rows, c), tensor(c, dtype=torch.float32), tensor(c, dtype=torch.float32)
            us = {"ours": mine[f"{rows}x{c}-rows1"], "composed": graph_us(make, modulated)}
            if args.compile:
                us["compiled"] = graph_us(make, torch.compile(modulated))
            show(f"layer norm + modulation {rows}x{c}", us, 4 * rows * c)

        def make():
            return tensor(2, 256, 256, 256).to(memory_format=torch.channels_last), tensor(256), tensor(256)
        us = {"ours": ours(args.op_runner, "group_norm")["2x65536x256-groups32-act1-affine"], "composed": graph_us(make, group_silu)}
        if args.compile:
            us["compiled"] = graph_us(make, torch.compile(group_silu))
        show("group norm + silu, channels last 2x256x256x256 (x and y counted once)", us, 4 * 2 * 256**3)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
