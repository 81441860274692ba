#!/usr/bin/env python3
"""Runs flash_stays_sm80.cuh on the CPU (warps_on_cpu.h), and then again with faults that it has to find. Needs g++ and the headers of CUDA.

    python3 bench/lab/keys512_on_cpu.py [--cuda /usr/local/cuda] [--faults]"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNEL = "src/ops/attention/flash_stays_sm80.cuh"
HEADERS = [KERNEL] + [f"src/ops/attention/{name}_sm80.cuh" for name in ("flash_long", "flash8_rows", "flash8", "flash_stages", "flash")] + [
    f"src/device/{name}.cuh" for name in ("mma_sm80", "shared_memory", "tile_sm80")]
IMITATED = ["shared_address", "load_tiles", "load_tiles_transposed", "copy_async", "commit_copies", "wait_copies", "add_bf16", "power_of_two", "pack_weights",
            "part", "load_chunk", "ask_cache"]
FAULTS = [
    ("no barrier", r"^      __syncthreads\(\);", ""),
    ("no wait", r"^      device::wait_copies<0>\(\);", ""),
    ("always the same stage", r"^      copies\.to \+= turn;", ""),
    ("a stage too far", r"copies\.begin\(following\(\)\.offset\(op\.ks\), row_bytes\);", "copies.from += C::kKeys * row_bytes;"),
    ("exchanged chunks", r"o\[m\]\[half \* 8 \+ n\]", "o[m][(1 - half) * 8 + n]"),
    ("a tile's old queries", r"work\.load\(rows, op, next\.in\(op\.q, op\.qs\), next\.row", "work.load(rows, op, place.in(op.q, op.qs), place.row"),
    ("patches without meetings", r"^      __syncwarp\(\);", ""),
    ("keys that count twice", r" < absent\)", " < 0)"),
    ("a last stage that is the one before it", r"min\(C::kKeys, op\.lk - \(stage \+ 1\) \* C::kKeys\)", "0"),
]


def headers(folder, fault=None):
    """Writes the headers without the definitions that warps_on_cpu.h has."""
    for name in HEADERS:
        text = (ROOT / name).read_text(encoding="utf-8")
        for function in IMITATED:
            text = re.sub(r"((?:inline__|__forceinline__|__device__|inline)\s+(?:inline\s+)?(?:void|float|uint32_t|uint4)\s+)" + function + r"\(",
                          r"\1" + function + "_of_a_gpu(", text)
        text = text.replace("extern __shared__ __align__(1024) char shared[];", "char* shared = shared_memory;")
        if fault and name == KERNEL:
            text, count = re.subn(fault[1], fault[2], text, flags=re.M)
            if count == 0:
                sys.exit(f"the kernel has no place for the fault: {fault[0]}")
        to = folder / name.removeprefix("src/")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, encoding="utf-8")


def run(args, fault=None):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        headers(folder, fault)
        program = folder / "on_cpu"
        subprocess.run(["g++", "-std=c++20", "-O2", "-w", f"-I{folder}", f"-I{ROOT}", f"-I{ROOT / 'src'}", f"-I{args.cuda}/include",
                        str(ROOT / "bench/lab/keys512_on_cpu.cpp"), "-o", str(program)], check=True)
        return subprocess.run([str(program), *(["fault"] if fault else [])], check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda", default="/usr/local/cuda")
    parser.add_argument("--faults", action="store_true")
    args = parser.parse_args()
    if run(args) != 0:
        sys.exit(1)
    missed = [fault[0] for fault in FAULTS if args.faults and run(args, fault) == 0]
    for fault in missed:
        print(f"not found: {fault}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
