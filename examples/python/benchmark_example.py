"""The speed of a diffusers video model as it is, with Tachyscope's kernels, compiled, and with both together.

    python benchmark_example.py                             # the model as it is and with kernels
    python benchmark_example.py --use-optimized-kernels --compile
    python benchmark_example.py --no-optimized-kernels      # only the model as it is
    python benchmark_example.py --batch-size 4              # four videos at once
    python benchmark_example.py --tiny                      # a small random model, in seconds on a CPU
"""

import torch

import common
import tachyscope


def arguments():
    parser = common.options(__doc__.splitlines()[0])
    parser.add_argument("--model", default="Lightricks/LTX-Video", help="a folder or a name on the hub")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--use-optimized-kernels", dest="kernels", action="store_true", default=None, help="with kernels alone")
    which.add_argument("--no-optimized-kernels", dest="kernels", action="store_false", help="without kernels alone")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the transformer, with kernels or without")
    parser.add_argument("--compile-backend", default="inductor")
    parser.add_argument("--family", choices=["ltx", "wan"], default="ltx", help="which small model --tiny makes")
    return common.parse(parser)


def peak_memory(device):
    """Returns the most GiB of GPU memory that torch's allocator held since the last call; None on a CPU."""
    if not str(device).startswith("cuda"):
        return None
    peak = torch.cuda.max_memory_allocated(device) / 2**30
    torch.cuda.reset_peak_memory_stats(device)
    return peak


def run(kernels, pipe, prompt, args, records):
    """Makes one measurement. The transformer is compiled after the kernels are put in, since a compiled one would keep its old code."""
    transformer, replaced = pipe.transformer, 0
    name = " and ".join(["with kernels"] * kernels + ["compiled"] * args.compile) or "plain"
    if kernels:
        replaced = len(tachyscope.optimize(transformer, args.level).replaced)
    else:
        tachyscope.restore(transformer)
    if args.compile:
        torch.compiler.reset()
        transformer.compile(backend=args.compile_backend)
    peak_memory(args.device)
    latents = common.measure(name, pipe, prompt, args, records)
    records[-1] |= {"videos": len(latents), "kernels": kernels, "compile": args.compile, "replaced": replaced, "peak_gib": peak_memory(args.device)}
    if records[-1]["peak_gib"]:
        print(f"  peak memory {records[-1]['peak_gib']:.2f} GiB")
    return latents


def main():
    args = arguments()
    pipe, prompt = common.load(args, common.tiny_wan if args.family == "wan" else common.tiny_ltx)
    print(f"{type(pipe).__name__} on {common.device_name(args.device)}, {args.dtype}: {args.num_frames} frames of "
          f"{args.width}x{args.height}, batch {args.batch_size}, {args.steps} steps, {args.warmup_iterations} warm-ups")
    records = []
    ways = [False, True] if args.kernels is None else [args.kernels]
    results = [run(kernels, pipe, prompt, args, records) for kernels in ways]

    more = {}
    if len(results) == 2:
        more["ratio"] = records[0]["seconds_per_step"] / records[1]["seconds_per_step"]
        more["difference"] = common.difference(*results)
        print(f"{more['ratio']:.3f}x as fast with kernels; the latents differ by {more['difference']:.2e}")
    common.write(args, records, **more)


if __name__ == "__main__":
    main()
