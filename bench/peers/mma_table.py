#!/usr/bin/env python3
"""Makes the table of the kernels for GPUs other than Hopper in one run on a Hopper: each op chosen as TACHY_CUDA_CAPABILITY says, peers of the same
instructions beside them (FA2 as torch's flash backend; cuBLASLt's int8, which is wgmma inside; diffusers' forward and decode).

    python3 bench/peers/mma_table.py --op-runner build/tests/unit/ops/op_runner --ours build/bench/peers/ours_gpu
        [--parts ops,peers,decode,dit-1.3b,dit-14b] [--layers 8] [--json FILE]

--layers: blocks of dit-14b, whose forward is in proportion to them. Own kernels alone are timed, since ours_gpu is told where cuBLASLt lies and
not where cuDNN does. SageAttention has to be installed to be compared, and is left out otherwise."""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import gpu

# (row, asked and aim, capability, filter of op_runner)
LONG, FEW = "attention:1x32760x32760x", "attention:1x4680x"
OPS = [
    ("int8 linear", "800, 950", 80, "scaled_gemm:32760x13824x5120-i8:sm80"),
    ("int8 linear, its like", "800, 950", 80, "scaled_gemm:32760x5120x:sm80"),
    ("e4m3 linear (an H100 widens it to f16)", "650, 750", 89, "scaled_gemm:32760x13824x5120-f8:sm80"),
    ("1,560 rows in int8", "4x of 62-340 us", 80, "scaled_gemm:1560x:sm80"),
    ("attention in bf16", "430, 480", 80, LONG + "12x128-fused:flash_long"),
    ("attention in bf16, 40 heads", "430, 480", 80, LONG + "40x128-fused:flash_long"),
    ("attention in 8 bits", "540, 650", 80, LONG + "12x128-fused-8bits:flash8_sm80"),
    ("attention in 8 bits, 40 heads", "540, 650", 80, LONG + "40x128-powers-8bits:flash8_sm80"),
    ("4,680 queries", "1.15x the best peer", 80, FEW + "32760x12x128:flash"),
    ("4,680 queries, two ranges and a device length", "", 80, FEW + "28080x12x128:flash8"),
    ("the same in 16 bits", "", 80, FEW + "28080x12x128:ranges"),
    ("heads of 64 channels", "1.15x the best peer", 80, LONG + "24x64:flash"),
    ("512 keys", "1.15x the best peer", 80, "attention:1x32760x512x40x128:flash"),
    ("lists of 30 % of the blocks", "85 % of dense", 80, LONG + "12x128-powers-listed30:blocks"),
    ("lists in 8 bits", "85 % of dense", 80, LONG + "12x128-powers-8bits-listed30:blocks8_sm80"),
    ("causal_conv3d in bf16", "380, 430", 80, "causal_conv3d:4x480x832x96to96:sm80"),
    ("causal_conv3d in bf16", "400, 470", 80, "causal_conv3d:4x240x416x192to192:sm80"),
    ("causal_conv3d in bf16", "430, 490", 80, "causal_conv3d:4x120x208x384to384:sm80"),
    ("causal_conv3d in int8", "1.4x of bf16", 80, "scaled_conv3d:i8-4x:sm80"),
]
LINE = re.compile(r"^ok +perf +(\S+) +([\d.]+) us .*?([\d.]+) TFLOP/s")


def run_ops(args, out):
    for row, asked, capability, which in OPS:
        done = subprocess.run([args.op_runner, "--perf", "--device", "cuda", "--dtype", "bf16", "--kinds", "video,real", "--op", which], capture_output=True,
                              text=True, env={**os.environ, "TACHY_CUDA_CAPABILITY": str(capability)})
        found = [m.groups() for m in map(LINE.match, done.stdout.splitlines()) if m]
        # Implementations of which nobody asks: another GPU's sums, and plain ones.
        found = [f for f in found if not re.search(r"_half|plain|simple|_any|cut\d", f[0])]
        if not found:
            print(f"| {row} | {asked} | nothing was timed: {(done.stderr or done.stdout).strip()[-200:]} | | |", flush=True)
        for name, us, rate in found:
            out.append({"row": row, "case": name, "us": float(us), "tflops": float(rate)})
            print(f"| {row} | {asked} | {name} | {float(us):.1f} us | {float(rate):.0f} |", flush=True)


def median_ms(work, repeats=5):
    work()
    return gpu.timed(work, repeats)[0]


def run_peers(out):
    def note(name, flops, work):
        try:
            rate = flops / median_ms(work) / 1e9
        except Exception as error:  # a peer that this machine lacks is no failure of the table
            print(f"| peer | | {name}: {str(error)[:80]} | | |", flush=True)
            return
        out.append({"row": "peer", "case": name, "tflops": rate})
        print(f"| peer | | {name} | | {rate:.0f} |", flush=True)

    sage = importlib.util.find_spec("sageattention") and importlib.import_module("sageattention")
    for heads, lq, lk, d in [(12, 32760, 32760, 128), (40, 32760, 32760, 128), (12, 4680, 32760, 128), (24, 32760, 32760, 64), (40, 32760, 512, 128)]:
        q, k, v = (torch.randn(1, heads, rows, d, device="cuda", dtype=torch.bfloat16) for rows in (lq, lk, lk))
        flops, name = 4 * heads * lq * lk * d, f"{heads} x {lq} x {lk} x {d}"
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            note(f"FA2, {name}", flops, lambda: F.scaled_dot_product_attention(q, k, v))
        if sage:
            note(f"SageAttention sm80, {name}", flops,
                 lambda: sage.sageattn_qk_int8_pv_fp16_cuda(q, k, v, tensor_layout="HND", smooth_k=True, pv_accum_dtype="fp32"))
    for m, n, k in [(32760, 13824, 5120), (32760, 5120, 5120), (32760, 5120, 13824), (1560, 1536, 1536), (1560, 8960, 1536), (1560, 1536, 8960)]:
        a, b = torch.randint(-127, 127, (m, k), device="cuda", dtype=torch.int8), torch.randint(-127, 127, (n, k), device="cuda", dtype=torch.int8).t()
        note(f"cuBLASLt int8, {m} x {n} x {k}", 2 * m * n * k, lambda: torch._int_mm(a, b))


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
        print(f"| decode 81x480x832, {dtype} | {asked} ms | | {ms:.1f} ms | diffusers eager {eager:.0f} ms |", flush=True)


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
    asked = {"dit-1.3b": ("0.74, 0.70", "0.62, 0.52"), "dit-14b": ("0.80, 0.76", "0.68, 0.58")}[what]
    for mode, wanted in (("low", asked[0]), ("i8-int8", asked[1]), ("int8", ""), ("i8", "")):
        ms = run_ours(args, "dit", folder / what, "bf16", *gpu.SIZES["480p"], 77, 637, folder / "x.bin", folder / "text.bin", folder / "out.bin", 3, mode)
        out.append({"row": f"{what} {mode}", "ms": ms, "diffusers_ms": eager})
        print(f"| {what}, {mode} | {wanted}x | | {ms:.1f} ms | {ms / eager:.3f}x of eager with FA2, {eager:.1f} ms |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op-runner", required=True)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--parts", default="ops,peers,decode,dit-1.3b,dit-14b")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    out = []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n| row | asked, aim | case | time | TFLOP/s, or beside the peer |", flush=True)
    for part in args.parts.split(","):
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
    if args.json:
        args.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
