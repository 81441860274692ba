"""Measures PyTorch's own rates on this CPU at the shapes of bench/notes/cpu.md: linear layers and attention, float32 and bf16, two threads, medians.

    .venv-reference/bin/python bench/lab/torch_rates.py
"""

import statistics
import time

import torch


def rate(work, call):
    for _ in range(3):
        call()
    seconds = []
    for _ in range(9):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return work / statistics.median(seconds) * 1e-9


torch.set_num_threads(2)
torch.set_grad_enabled(False)
for dtype in (torch.float32, torch.bfloat16):
    for m, n, k in ((1280, 1536, 1536), (1280, 8960, 1536), (1280, 1536, 8960)):
        x, w, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype), torch.randn(n).to(dtype)
        print(f"{dtype} linear {m} x {n} x {k}: {rate(2 * m * n * k, lambda: torch.nn.functional.linear(x, w, b)):.0f} GFLOP/s")
    q = torch.randn(1, 12, 1280, 128).to(dtype)
    work = 4 * 12 * 1280 * 1280 * 128
    print(f"{dtype} attention, 12 heads, 1280 keys of 128: {rate(work, lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)):.0f} GFLOP/s")
