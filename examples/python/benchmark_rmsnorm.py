"""RMSNorm by itself: Tachyscope's kernel compared with one made of torch's operations and with torch's own.

    python benchmark_rmsnorm.py                 # the shapes of video and language models
    python benchmark_rmsnorm.py --shape 4 4096 3072 --dtype float16
    python benchmark_rmsnorm.py --tiny

A GPU's times are those of calls from Python, repeated on the same tensors: for small tensors this is the host's time, and the tensors stay in the
second-level cache. bench/peers/python_ops.py measures the kernel's own time on cold tensors."""

import time

import torch
import torch.nn.functional as F

import common
from tachyscope import ops

SHAPES = [(1, 1024, 2048), (2, 1024, 2048), (4, 1024, 2048), (2, 4096, 3072), (4, 4096, 3072)]


def composed(x, weight, eps):
    """Computes RMSNorm as diffusers and transformers do."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def torch_norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def ours(x, weight, eps):
    return ops.rms_norm(x, weight, eps, round_twice=True)


def exact(x, weight, eps):
    x, weight = x.double(), weight.double()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def seconds(function, args):
    """Returns a call's time: on a GPU between two events around many calls, on a CPU the median of single ones."""
    for _ in range(args.warmup_iterations):
        function()
    if str(args.device).startswith("cuda"):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(args.iterations):
            function()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1000 / args.iterations
    times = []
    for _ in range(args.iterations):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def main():
    parser = common.options(__doc__.splitlines()[0], video=False)
    parser.add_argument("--shape", type=int, nargs="+", help="one shape instead of the usual ones")
    parser.add_argument("--eps", type=float, default=1e-6)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--warmup-iterations", type=int, default=10)
    args = common.parse(parser)
    shapes = [tuple(args.shape)] if args.shape else SHAPES
    if args.tiny:
        shapes, args.iterations, args.warmup_iterations = [(1, 16, 64), (2, 8, 96)], 5, 2

    dtype, records = common.DTYPES[args.dtype], []
    ways = {"composed": composed, "torch": torch_norm, "tachyscope": ours}
    print(f"RMSNorm, {args.dtype}, {common.device_name(args.device)}, torch {torch.__version__}; microseconds per call")
    print(f"{'shape':>18}" + "".join(f"{name:>12}" for name in ways) + f"{'ratio':>8}{'GB/s':>8}{'error':>10}{'composed':>10}")
    with torch.no_grad():
        for shape in shapes:
            x = torch.randn(shape, device=args.device).to(dtype)
            weight = torch.randn(shape[-1], device=args.device).to(dtype)
            times = {name: seconds(lambda: way(x, weight, args.eps), args) for name, way in ways.items()}
            wanted = exact(x, weight, args.eps)
            errors = {name: common.difference(wanted, way(x, weight, args.eps)) for name, way in ways.items()}
            ratio = times["composed"] / times["tachyscope"]
            rate = 2 * x.numel() * x.element_size() / times["tachyscope"] / 1e9
            print(f"{'x'.join(map(str, shape)):>18}" + "".join(f"{t * 1e6:12.1f}" for t in times.values())
                  + f"{ratio:7.2f}x{rate:8.1f}{errors['tachyscope']:10.1e}{errors['composed']:10.1e}")
            records.append({"shape": shape, "seconds": times, "error": errors, "ratio": ratio, "gigabytes_per_second": rate})
    mean = sum(record["ratio"] for record in records) / len(records)
    print(f"{mean:.2f}x composed on average")
    common.write(args, records, mean_ratio=mean)


if __name__ == "__main__":
    main()
