"""Attention from 512 to 16,384 tokens: latency and peak memory of eager attention (scores in memory, as models write
it), of PyTorch's scaled_dot_product_attention, and of ours.

    python benchmark_attention.py
    python benchmark_attention.py --heads 40 --causal --dtype float16
    python benchmark_attention.py --tiny
"""

import torch
import torch.nn.functional as F

import common
from benchmark_rmsnorm import seconds
from tachyscope import ops


def eager(q, k, v, causal):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores.masked_fill_(torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1), float("-inf"))
    return (scores.float().softmax(-1).to(q.dtype) @ v).transpose(1, 2)


def torch_attention(q, k, v, causal):
    return F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=causal).transpose(1, 2)


def ours(q, k, v, causal):
    return ops.attention(q, k, v, causal=causal)


WAYS = {"eager": eager, "torch": torch_attention, "tachyscope": ours}


def peak_bytes(call, args):
    """Returns the most memory that a call takes in addition to its inputs, including its result; None on a CPU, where
    it is not counted."""
    if not str(args.device).startswith("cuda"):
        return None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated(args.device)
    torch.cuda.reset_peak_memory_stats(args.device)
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated(args.device) - before


def measure(tokens, args):
    shape = (args.batch_size, tokens, args.heads, args.head_dim)
    given = [torch.randn(shape, device=args.device).to(common.DTYPES[args.dtype]) for _ in range(3)]
    exact = torch_attention(*(t.float() for t in given), args.causal)
    record = {"tokens": tokens, "seconds": {}, "bytes": {}, "error": {}}
    for name, way in WAYS.items():
        try:
            record["error"][name] = common.difference(exact, way(*given, args.causal))
            record["bytes"][name] = peak_bytes(lambda: way(*given, args.causal), args)
            record["seconds"][name] = seconds(lambda: way(*given, args.causal), args)
        except torch.OutOfMemoryError:
            record["seconds"][name] = record["bytes"][name] = record["error"][name] = None
    return record


def main():
    parser = common.options(__doc__.split("\n\n")[0].replace("\n", " "), video=False)
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--batch-size", type=common.count, default=1)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup-iterations", type=int, default=3)
    args = common.parse(parser)
    if args.tiny:
        args.tokens, args.heads, args.head_dim, args.iterations, args.warmup_iterations = [16, 32], 2, 16, 3, 1
    print(f"attention, {args.dtype}, {common.device_name(args.device)}, torch {torch.__version__}; milliseconds, and MiB at most beside the inputs")
    print(f"{'tokens':>8}" + "".join(f"{name:>12}{'MiB':>9}" for name in WAYS) + f"{'x eager':>9}{'x torch':>9}{'error':>10}{'torch':>10}")
    records = []
    with torch.no_grad():
        for tokens in args.tokens:
            record = measure(tokens, args)
            times, sizes = record["seconds"], record["bytes"]
            cells = [(f"{times[n] * 1000:.3f}" if times[n] else "no memory", f"{sizes[n] / 2**20:.1f}" if sizes[n] else "-") for n in WAYS]
            ratios = [f"{times[n] / times['tachyscope']:.2f}x" if times[n] else "-" for n in ("eager", "torch")]
            print(f"{tokens:8}" + "".join(f"{t:>12}{m:>9}" for t, m in cells) + "".join(f"{r:>9}" for r in ratios)
                  + f"{record['error']['tachyscope']:10.1e}{record['error']['torch']:10.1e}", flush=True)
            records.append(record)
    common.write(args, records)


if __name__ == "__main__":
    main()
