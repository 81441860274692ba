"""Wan's video VAE on images of 512x512 (or clips): encoding and decoding in float32 by plain PyTorch, and with our
kernels in float32, in mixed precision, with channels last, and with residual blocks in e4m3 (on a GPU that can).

    python benchmark_vae.py
    python benchmark_vae.py --num-frames 17 --height 480 --width 832 --version 2.2
    python benchmark_vae.py --ways "ours, mixed" e4m3   # those whose names contain one of these, beside the first
    python benchmark_vae.py --tiny
"""

import torch

import common
import tachyscope
from benchmark_rmsnorm import seconds

WAYS = {  # kernels, mixed precision, channels last, residual blocks in e4m3
    "PyTorch, float32": (False, False, False, False),
    "ours, float32": (True, False, False, False),
    "ours, channels last": (True, False, True, False),
    "PyTorch, mixed, channels last": (False, True, True, False),
    "ours, mixed": (True, True, False, False),
    "ours, mixed, channels last": (True, True, True, False),
    "ours, mixed, e4m3": (True, True, True, True),
}


def main():
    parser = common.options(__doc__.split("\n\n")[0].replace("\n", " "), video=False)
    parser.add_argument("--version", choices=["2.1", "2.2"], default="2.1")
    parser.add_argument("--num-frames", type=int, default=1)
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch-size", type=common.count, default=1)
    parser.add_argument("--tf32", action="store_true", help="convolutions in float32 may round to TF32")
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--warmup-iterations", type=int, default=3)
    parser.add_argument("--ways", nargs="+", metavar="NAME", help="only the ways whose names contain one of these, and the first")
    args = common.parse(parser)
    e4m3 = args.device == "cpu" or torch.cuda.get_device_capability() >= (8, 9)
    ways = {name: way for i, (name, way) in enumerate(WAYS.items())
            if (i == 0 or not args.ways or any(word in name for word in args.ways)) and (e4m3 or not way[3])}
    create, more = (tachyscope.vae.create_wan2_1_vae, {"z_channels": 16}) if args.version == "2.1" else (tachyscope.vae.create_wan2_2_vae, {})
    if args.tiny:
        args.height = args.width = 32
        args.iterations, args.warmup_iterations, more = 2, 1, more | {"base": 4}
    torch.backends.cudnn.allow_tf32 = args.tf32
    torch.backends.cudnn.benchmark = True
    x = torch.rand(args.batch_size, 3, args.num_frames, args.height, args.width).to(args.device) * 2 - 1
    print(f"Wan {args.version} VAE, {args.num_frames}x{args.height}x{args.width}, {common.device_name(args.device)}, torch {torch.__version__}; "
          "milliseconds, and the distance from PyTorch's float32")
    records, exact = [], None
    with torch.no_grad():
        for name, (kernels, mixed, last, fp8) in ways.items():
            torch.manual_seed(args.seed)
            vae = create(use_channels_last=last, use_fp8=fp8, kernels=kernels, **more).to(args.device).eval()
            latents = vae.encode(x, mixed)[0]
            exact = exact or (latents, vae.decode(latents))
            apart = [common.difference(want, got) for want, got in zip(exact, (latents, vae.decode(exact[0], mixed)))]
            times = [seconds(lambda: vae.encode(x, mixed), args), seconds(lambda: vae.decode(exact[0], mixed), args)]
            records.append({"name": name, "seconds": {"encode": times[0], "decode": times[1]}, "apart": apart})
            base = records[0]["seconds"]
            print(f"{name:32} encode {times[0] * 1000:9.2f} {base['encode'] / times[0]:6.2f}x {apart[0]:8.1e}   "
                  f"decode {times[1] * 1000:9.2f} {base['decode'] / times[1]:6.2f}x {apart[1]:8.1e}", flush=True)
            del vae
    common.write(args, records)


if __name__ == "__main__":
    main()
