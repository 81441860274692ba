"""Uses a kernel of Hugging Face's `kernels` (0.17) if there is a build of it for this machine, and otherwise PyTorch's
own function: has_kernel asks, get_kernel loads.

    pip install kernels==0.17.2
    python get_kernel_example.py                       # a kernel laid out from the package that is installed, for the CPU
    python get_kernel_example.py --local FOLDER        # one that tools/make_hub_kernel has laid out, or a checkout of one
    python get_kernel_example.py --hub --repo OWNER/NAME --trust   # one of the hub

The project has no kernel on the hub. With LOCAL_KERNELS=OWNER/NAME=FOLDER in the environment, `kernels` uses a folder
in place of that name, as --local does here; so a program that calls get_kernel can be tried before anything is
published.

has_kernel returns False if the repository has no build for this Python's torch, system, backend and GPU. It raises
ValueError if the version is missing, the publisher is not trusted, or the hub is offline and the kernel is not in its
cache.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch

import common

MAKE_HUB_KERNEL = pathlib.Path(__file__).resolve().parents[2] / "tools/make_hub_kernel"


def plain_rms_norm(x, weight, eps):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def find(args):
    """Returns (rms_norm, whose it is): the kernel's if there is one for this machine, otherwise PyTorch's."""
    from kernels import get_kernel, has_kernel

    which = dict(version=args.version, backend=args.backend, trust_remote_code=args.trust)
    try:
        found = has_kernel(args.repo, **which)
    except ValueError as error:
        raise SystemExit(f"{args.repo}: {error}") from None
    if not found:
        print(f"{args.repo} has no build for this machine (backend {args.backend or 'of torch'}): PyTorch computes")
        return plain_rms_norm, "PyTorch"
    kernel = get_kernel(args.repo, **which)
    print(f"{args.repo} loaded as {kernel.__name__} from {pathlib.Path(kernel.__file__).parent.name}")
    return kernel.rms_norm, "the kernel"


@torch.no_grad()
def measure(name, function, given, args, records):
    times = []
    for _ in range(args.repeats + 2):
        start = time.perf_counter()
        y = function(*given, 1e-6)
        common.synchronize(args.device)
        times.append(time.perf_counter() - start)
    best = min(times[2:])
    print(f"{name}: {best * 1e6:.1f} us for {'x'.join(map(str, given[0].shape))}, {1 / best:.0f} it/s")
    records.append({"name": name, "seconds": best, "iterations_per_second": 1 / best})
    return y


def arguments():
    parser = common.options(__doc__.split("\n\n")[0].replace("\n", " "), video=False)
    parser.set_defaults(device="cpu")
    parser.add_argument("--repo", default="tachyscope/tachyscope", help="the kernel's name, on the hub or for the folder")
    parser.add_argument("--version", type=int, default=0, help="of the kernel; get_kernel takes none without")
    parser.add_argument("--backend", help="cpu, or the one that torch was built for (default: cpu with --device cpu)")
    parser.add_argument("--trust", action="store_true", help="also a publisher whom the hub does not call trusted; its code runs here")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--local", type=pathlib.Path, metavar="FOLDER", help="a kernel in a folder, which holds build/VARIANT")
    where.add_argument("--hub", action="store_true", help="asks the hub")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--repeats", type=int, default=20)
    args = common.parse(parser)
    if args.local is not None and not args.local.is_dir():
        parser.error(f"--local: expected a folder, got {args.local}")
    if args.tiny:
        args.tokens, args.hidden, args.repeats = 16, 64, 2
    if args.backend is None and args.device == "cpu":
        args.backend = "cpu"
    return args


def main():
    args = arguments()
    with tempfile.TemporaryDirectory() as name:
        if not args.hub:
            if args.local is None:
                subprocess.run([sys.executable, MAKE_HUB_KERNEL, name], check=True)
            os.environ["LOCAL_KERNELS"] = f"{args.repo}={args.local or name}"
        function, whose = find(args)
    dtype = common.DTYPES[args.dtype]
    given = torch.randn(args.tokens, args.hidden).to(args.device, dtype), torch.randn(args.hidden).to(args.device, dtype)
    records = []
    plain = measure("PyTorch", plain_rms_norm, given, args, records)
    result = measure(whose, function, given, args, records)
    difference = common.difference(plain, result)
    print(f"{records[0]['seconds'] / records[1]['seconds']:.3f}x PyTorch's pace; the results differ by {difference:.2e}")
    common.write(args, records, found=whose != "PyTorch", difference=difference)


if __name__ == "__main__":
    main()
