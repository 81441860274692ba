#!/usr/bin/env python3
"""Runs kernels of mma.sync on the CPU (warps_on_cpu.h) beside their definitions, and then again with faults that this has to find. Needs g++ and the
headers of CUDA.

    python3 bench/lab/kernels_on_cpu.py [keys512] [patch_stem] [--cuda /usr/local/cuda] [--faults]

keys512 is attention over at most 512 keys (ops/attention/flash_stays_sm80.cuh), patch_stem the convolution that reads patches of pixels
(device/conv_patch_stem.cuh). Without a name both run."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Functions that warps_on_cpu.h, or the kernel's program, has in place of the headers'.
IMITATED = ["shared_address", "load_tiles", "load_tiles_transposed", "copy_async", "copy_async8", "commit_copies", "wait_copies", "multiply8", "add_bf16",
            "power_of_two", "pack_weights", "part", "load_chunk", "ask_cache"]


class Kernel(typing.NamedTuple):
    program: str
    headers: list  # the first is the kernel's own
    faults: list  # what it is, where in the kernel (a regular expression), and what stands there instead


KERNELS = {
    "keys512": Kernel(
        "keys512_on_cpu.cpp",
        [f"src/ops/attention/{name}_sm80.cuh" for name in ("flash_stays", "flash_long", "flash8_rows", "flash8", "flash_stages", "flash")]
        + [f"src/device/{name}.cuh" for name in ("mma_sm80", "shared_memory", "tile_sm80")],
        [
            ("no barrier", r"^      __syncthreads\(\);", ""),
            ("no wait", r"^      device::wait_copies<0>\(\);", ""),
            ("always the same stage", r"^      copies\.to \+= turn;", ""),
            ("a stage too far", r"copies\.begin\(following\(\)\.offset\(op\.ks\), row_bytes\);", "copies.from += C::kKeys * row_bytes;"),
            ("exchanged chunks", r"o\[m\]\[half \* 8 \+ n\]", "o[m][(1 - half) * 8 + n]"),
            ("a tile's old queries", r"work\.load\(rows, op, next\.in\(op\.q, op\.qs\), next\.row", "work.load(rows, op, place.in(op.q, op.qs), place.row"),
            ("patches without meetings", r"^      __syncwarp\(\);", ""),
            ("keys that count twice", r" < absent\)", " < 0)"),
            ("a last stage that is the one before it", r"min\(C::kKeys, op\.lk - \(stage \+ 1\) \* C::kKeys\)", "0"),
        ]),
    "patch_stem": Kernel(
        "patch_stem_on_cpu.cpp",
        [f"src/device/{name}" for name in ("conv_patch_stem.cuh", "conv_stem.cuh", "conv_sm80.cuh", "conv_pack.cuh", "conv_shape.h", "mma_sm80.cuh",
                                           "shared_memory.cuh")],
        [
            ("no wait", r"^      wait_copies<0>\(\);", ""),
            ("no barrier between frames", r"^      __syncthreads\(\);", ""),
            ("no barrier between tiles", r"^    __syncthreads\(\);", ""),
            ("a ring of three frames", r"\(frame & 3\)", "((frame + 3) % 3)"),
            ("exchanged neighbours", r"e % 2 \* kPatchStemCi", "(1 - e % 2) * kPatchStemCi"),
            ("one half of a step twice", r"high \* 8 \+ quad", "quad"),
            ("lanes that exchange nothing", r"__shfl_xor_sync\(~0u, odd \? v\[0\] : v\[1\], 1\)", "v[0]"),
            ("frames of the wrong age", r"tap < 3 \? frames\[0\]", "tap < 3 ? frames[1]"),
        ]),
}


def write_headers(folder, kernel, fault=None):
    """Writes the headers without the definitions that are imitated."""
    for name in kernel.headers:
        text = (ROOT / name).read_text(encoding="utf-8")
        for function in IMITATED:
            text = re.sub(r"((?:inline__|__forceinline__|__device__|inline)\s+(?:inline\s+)?(?:void|float|uint32_t|uint4)\s+)" + function + r"\(",
                          r"\1" + function + "_of_a_gpu(", text)
        text = re.sub(r"template <>\ninline __device__ void mma<__nv_bfloat16>\(.*?\n}\n", "", text, flags=re.S)
        text = re.sub(r"extern __shared__ __align__\(\d+\) char shared\[\];", "char* shared = shared_memory;", text)
        if fault and name == kernel.headers[0]:
            text, count = re.subn(fault[1], fault[2], text, flags=re.M)
            if count == 0:
                sys.exit(f"the kernel has no place for the fault: {fault[0]}")
        to = folder / name.removeprefix("src/")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")


def run(args, kernel, fault=None):
    """Returns the exit status of the kernel's program: 0 if its results are right."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_headers(folder, kernel, fault)
        program = folder / "on_cpu"
        subprocess.run(["g++", "-std=c++20", "-O2", "-w", f"-I{folder}", f"-I{ROOT}", f"-I{ROOT / 'src'}", f"-I{args.cuda}/include",
                        str(ROOT / "bench/lab" / kernel.program), "-o", str(program)], check=True)
        return subprocess.run([str(program), *(["fault"] if fault else [])], check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", help="keys512, patch_stem")
    parser.add_argument("--cuda", default="/usr/local/cuda")
    parser.add_argument("--faults", action="store_true")
    args = parser.parse_args()
    if unknown := sorted(set(args.kernels) - set(KERNELS)):
        parser.error(f"unknown kernel: {', '.join(unknown)}")
    failed = False
    for name in args.kernels or KERNELS:
        kernel = KERNELS[name]
        if run(args, kernel) != 0:
            print(f"{name}: wrong")
            failed = True
            continue
        for fault in kernel.faults if args.faults else []:
            if run(args, kernel, fault) == 0:
                print(f"{name}: not found: {fault[0]}")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
