#!/usr/bin/env python3
"""Makes the table of the kernels for GPUs other than Hopper in one run on a Hopper: each op chosen as TACHY_CUDA_CAPABILITY says, peers of the same
instructions beside them (FA2 as torch's flash backend; cuBLASLt's int8, which is wgmma inside; diffusers' forward and decode).

    python3 bench/peers/mma_table.py --op-runner build/tests/unit/ops/op_runner --ours build/bench/peers/ours_gpu
        [--parts ops,decode,dit-1.3b,dit-14b,peers] [--layers 8] [--modes low,i8-int8] [--json FILE]

--layers: blocks of dit-14b, whose forward is in proportion to them. --modes: ours_gpu's words for what a forward pass computes with. Own kernels alone
are timed, since ours_gpu is told where cuBLASLt lies and not where cuDNN does. SageAttention has to be installed to be compared, and is left out
otherwise. Lines are printed as they come, and the table at the end, even where SIGTERM ends the run: then it also names the parts that did not end."""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpu

# (row, asked and aim, capability, filter of op_runner: the implementation as it is named, or a prefix of its name)
LONG, FEW = "attention:1x32760x32760x", "attention:1x4680x"
OPS = [
    ("int8 linear", "800, 950", 80, "scaled_gemm:32760x13824x5120-i8:sm80$"),
    ("int8 linear, its like", "800, 950", 80, "scaled_gemm:32760x5120x5120-i8:sm80$"),
    ("int8 linear, its like", "800, 950", 80, "scaled_gemm:32760x5120x13824-i8:sm80$"),
    ("1,560 rows in int8", "4x of 64.3 us", 80, "scaled_gemm:1560x1536x1536-i8:sm80$"),
    ("1,560 rows in int8", "4x of 326 us", 80, "scaled_gemm:1560x8960x1536-i8:sm80$"),
    ("1,560 rows in int8", "4x of 288 us", 80, "scaled_gemm:1560x1536x8960-i8:sm80$"),
    ("attention in bf16", "430, 480", 80, LONG + "12x128-fused$:flash_stays_sm80$"),
    ("attention in bf16, 40 heads", "430, 480", 80, LONG + "40x128-fused:flash_stays_sm80$"),
    ("the same on cards with 99 KiB", "", 80, LONG + "12x128-fused$:flash_long_sm80$"),
    ("attention in 8 bits", "540, 650", 80, LONG + "12x128-fused-8bits:flash8_sm80$"),
    ("attention in 8 bits, 40 heads", "540, 650", 80, LONG + "40x128-powers-8bits:flash8_sm80$"),
    ("4,680 queries", "1.15x the best peer", 80, FEW + "32760x12x128-powers$:flash_long_sm80$"),
    ("4,680 queries in 8 bits", "1.15x the best peer", 80, FEW + "32760x12x128-powers-8bits:flash8_sm80$"),
    ("heads of 64 channels", "1.15x the best peer", 80, LONG + "24x64-powers$:flash_long_sm80$"),
    ("heads of 64 channels in 8 bits", "1.15x the best peer", 80, LONG + "24x64-powers-8bits:flash8_sm80$"),
    ("512 keys", "1.15x the best peer", 80, "attention:1x32760x512x40x128$:flash_stays_sm80$"),
    ("512 keys, 12 heads", "1.15x the best peer", 80, "attention:1x32760x512x12x128$:flash_stays_sm80$"),
    ("512 keys on cards with 99 KiB", "", 80, "attention:1x32760x512x40x128$:flash_sm80$"),
    ("lists of 30 % of the blocks", "85 % of dense", 80, LONG + "12x128-powers-listed30:blocks_sm80$"),
    ("lists in 8 bits", "85 % of dense", 80, LONG + "12x128-powers-8bits-listed30:blocks8_sm80$"),
    ("two ranges and a device length, in 8 bits", "", 80, FEW + "28080x12x128-powers-of26520+4680-8bits:flash8_sm80$"),
    ("the same in 16 bits", "", 80, FEW + "28080x12x128-powers-of26520+4680$:ranges_sm80$"),
    ("the same with a mask of blocks, in 8 bits", "", 80, FEW + "28080x12x128-powers-of26520+4680causal0by1560-8bits:flash8_sm80$"),
    ("the same in 16 bits", "", 80, FEW + "28080x12x128-powers-of26520+4680causal0by1560$:ranges_sm80$"),
    ("causal, in 8 bits", "", 80, LONG + "12x128-causal0-8bits:flash8_sm80$"),
    ("causal, in 16 bits", "", 80, LONG + "12x128-causal0$:flash_sm80$"),
    ("key biases, in 8 bits", "", 80, LONG + "12x128-keybias-8bits:flash8_sm80$"),
    ("key biases, in 16 bits", "", 80, LONG + "12x128-keybias$:flash_sm80$"),
    ("causal_conv3d in bf16", "380, 430", 80, "causal_conv3d:4x480x832x96to96:sm80"),
    ("causal_conv3d in bf16", "400, 470", 80, "causal_conv3d:4x240x416x192to192:sm80"),
    ("causal_conv3d in bf16", "430, 490", 80, "causal_conv3d:4x120x208x384to384:sm80"),
    ("causal_conv3d in int8", "1.4x of bf16", 80, "scaled_conv3d:i8-4x:sm80"),
    ("e4m3 linear (a Hopper widens it to f16)", "650, 750", 89, "scaled_gemm:32760x13824x5120-f8:sm80$"),
    ("attention with v in e4m3 (the same)", "", 89, LONG + "12x128-fused-8bits:flash8_sm89$"),
]
TABLE = ["| row | asked, aim | case | time | TFLOP/s, or beside the peer |", "| --- | --- | --- | --- | --- |"]
LINE = re.compile(r"^(\w+) +perf +(\S+) +(.*)")
RATE = re.compile(r"([\d.]+) us .*?([\d.]+) TFLOP/s")


def note(*cells):
    TABLE.append("| " + " | ".join(cells) + " |")


def fits(which, name):
    """Whether a name op:case:implementation is one that a filter takes."""
    parts = zip(which.split(":"), name.split(":"))
    return all(n == w[:-1] if w.endswith("$") else n.startswith(w) for w, n in parts)


def note_ops(line, capability, out):
    """Notes a line of op_runner in the row that asked for it."""
    row, asked = next((o[0], o[1]) for o in OPS if o[2] == capability and fits(o[3], line[2]))
    rate = RATE.search(line[3])
    if not rate:
        return note(row, asked, line[2], f"{line[1]}: {line[3][:120]}", "")
    us, tflops = float(rate[1]), float(rate[2])
    out.append({"row": row, "case": line[2], "us": us, "tflops": tflops})
    note(row, asked, line[2], f"{us:.1f} us", f"{tflops:.0f}")


def run_ops(args, out):
    """Times the ops of each capability in one process."""
    timed = set()
    for capability in sorted({row[2] for row in OPS}):
        filters = [row[3] for row in OPS if row[2] == capability]
        with subprocess.Popen([args.op_runner, "--perf", "--device", "cuda", "--dtype", "bf16", "--op", ",".join(filters)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env={**os.environ, "TACHY_CUDA_CAPABILITY": str(capability)}) as process:
            for line in process.stdout:
                if found := LINE.match(line):
                    timed.add((capability, found[2]))
                    print(" ", " ".join(line.split()), flush=True)
                    note_ops(found, capability, out)
                elif "op_runner:" in line:
                    print(line.strip(), flush=True)
            process.wait()
    for row, asked, capability, which in OPS:
        if not any(c == capability and fits(which, name) for c, name in timed):
            note(row, asked, f"{which} was not timed", "", "")


def median_ms(work, repeats=5):
    work()
    return gpu.timed(work, repeats)[0]


def run_peers(out):
    def peer(name, flops, work):
        try:
            rate = flops / median_ms(work) / 1e9
        except Exception as error:  # a peer that this machine lacks is no failure of the table
            return note("peer", "", f"{name}: {str(error)[:80]}", "", "")
        out.append({"row": "peer", "case": name, "tflops": rate})
        note("peer", "", name, "", f"{rate:.0f}")

    sage = importlib.util.find_spec("sageattention") and importlib.import_module("sageattention")
    shapes = [(12, 32760, 32760, 128), (40, 32760, 32760, 128), (12, 4680, 32760, 128), (24, 32760, 32760, 64)]
    for heads, lq, lk, d in shapes + [(40, 32760, 512, 128), (12, 32760, 512, 128)]:
        q, k, v = (torch.randn(1, heads, rows, d, device="cuda", dtype=torch.bfloat16) for rows in (lq, lk, lk))
        flops, name = 4 * heads * lq * lk * d, f"{heads} x {lq} x {lk} x {d}"
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            peer(f"FA2, {name}", flops, lambda: F.scaled_dot_product_attention(q, k, v))
        if sage:
            peer(f"SageAttention sm80, {name}", flops,
                 lambda: sage.sageattn_qk_int8_pv_fp16_cuda(q, k, v, tensor_layout="HND", smooth_k=True, pv_accum_dtype="fp32"))
    for m, n, k in [(32760, 13824, 5120), (32760, 5120, 5120), (32760, 5120, 13824), (1560, 1536, 1536), (1560, 8960, 1536), (1560, 1536, 8960)]:
        a, b = torch.randint(-127, 127, (m, k), device="cuda", dtype=torch.int8), torch.randint(-127, 127, (n, k), device="cuda", dtype=torch.int8).t()
        peer(f"cuBLASLt int8, {m} x {n} x {k}", 2 * m * n * k, lambda: torch._int_mm(a, b))


def cublas_alone():
    """Returns ours_gpu's environment: as 8.0, with cuBLASLt and without cuDNN."""
    folders = [folder for base in map(pathlib.Path, sys.path + ["/usr/local/cuda/lib64"]) for folder in (base, *base.glob("nvidia/*/lib"))]
    found = next((str(f) for f in folders if list(f.glob("libcublasLt.so.1*")) and not list(f.glob("libcudnn.so*"))), "")
    return {**os.environ, "TACHY_CUDA_CAPABILITY": "80", "TACHY_CUDA_LIBRARIES": found}


def run_ours(args, *words):
    done = subprocess.run([args.ours, *map(str, words)], capture_output=True, text=True, env=cublas_alone())
    print(f"  {' '.join(map(str, words[:3]))} … {words[-1]}:", done.stdout.strip().replace("\n", "\n    "), done.stderr.strip()[-600:], flush=True)
    times = re.findall(r"graph of \d+ nodes ([\d.]+) ms|median ([\d.]+) ms", done.stdout)
    return min((float(a or b) for a, b in times), default=float("nan"))


def run_decode(args, folder, out):
    from diffusers import AutoencoderKLWan
    torch.manual_seed(2)
    model = AutoencoderKLWan().to("cuda", torch.bfloat16).requires_grad_(False)
    model.save_pretrained(folder / "vae")
    t, h, w = gpu.SIZES["480p"]
    x = torch.randn(1, 16, t, h, w, device="cuda").bfloat16()
    (folder / "z.bin").write_bytes(x[0].float().cpu().numpy().tobytes())
    torch.backends.cudnn.benchmark = True
    with torch.no_grad():
        eager = median_ms(lambda: model.decode(x, return_dict=False)[0], 2)
    del model, x
    torch.cuda.empty_cache()
    for dtype, asked in (("bf16", "700, 600"), ("int8", "530, 430")):
        ms = run_ours(args, "decode", folder / "vae", dtype, t, h, w, folder / "z.bin", folder / "frames.bin", 4, 1)
        out.append({"row": f"decode {dtype}", "ms": ms, "diffusers_ms": eager})
        note(f"decode 81x480x832, {dtype}", f"{asked} ms", "", f"{ms:.1f} ms", f"diffusers eager {eager:.0f} ms")


def run_dit(args, folder, what, out):
    from diffusers import WanTransformer3DModel
    args.what, args.size = what, "480p"
    layers, args.layers = args.layers, args.layers if what == "dit-14b" else 0
    torch.manual_seed(1)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = WanTransformer3DModel(**gpu.dit_options(args)).requires_grad_(False)
        torch.set_default_dtype(torch.float32)
    args.layers = layers
    model.save_pretrained(folder / what, max_shard_size="100GB")
    x, when, text = gpu.dit_inputs(args, folder)
    model.set_attention_backend("_native_flash")
    with torch.no_grad():
        eager = median_ms(lambda: model(x.bfloat16(), when, text.bfloat16(), return_dict=False)[0])
    del model
    torch.cuda.empty_cache()
    asked = {"dit-1.3b": {"low": "0.74, 0.70", "i8-int8": "0.62, 0.52"}, "dit-14b": {"low": "0.80, 0.76", "i8-int8": "0.68, 0.58"}}[what]
    for mode in args.modes.split(","):
        ms = run_ours(args, "dit", folder / what, "bf16", *gpu.SIZES["480p"], 77, 637, folder / "x.bin", folder / "text.bin", folder / "out.bin", 3, mode)
        out.append({"row": f"{what} {mode}", "ms": ms, "diffusers_ms": eager})
        note(f"{what}, {mode}", asked.get(mode, ""), "", f"{ms:.1f} ms", f"{ms / eager:.3f}x of eager with FA2, {eager:.1f} ms")


def run_part(args, part, out):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if part == "ops":
            run_ops(args, out)
        elif part == "peers":
            run_peers(out)
        elif part == "decode":
            run_decode(args, folder, out)
        else:
            run_dit(args, folder, part, out)
    torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op-runner", required=True)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--parts", default="ops,decode,dit-1.3b,dit-14b,peers")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--modes", default="low,i8-int8")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("SIGTERM"))
    out, start, parts = [], time.time(), args.parts.split(",")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    try:
        while parts:
            run_part(args, part := parts[0], out)
            parts.pop(0)
            print(f"{part} ended after {time.time() - start:.0f} s", flush=True)
    finally:
        for part in parts:
            note(part, "", "did not end in time", "", "")
        print("\n".join(TABLE), flush=True)
        if args.json:
            args.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
