"""Times PyTorch's backward passes at the shapes of op_runner's *_backward cases, to be read beside

    op_runner --device cuda --dtype bf16 --perf --kinds video,real --op rmsnorm_backward:

Times are medians of CUDA events; the memory-bound passes rotate their inputs so that these are cold.

    python3 bench/peers/backward.py [attention] [norms]"""
import math
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE, DTYPE = "cuda", torch.bfloat16


def median_ms(work, count=7):
    work(0)
    torch.cuda.synchronize()
    times = []
    for i in range(count):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work(i)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[count // 2]


def attention():
    for heads, length, dim, causal in [(12, 16384, 128, False), (12, 32760, 128, False), (12, 16384, 128, True), (24, 16384, 64, False)]:
        q, k, v = (torch.randn(1, heads, length, dim, device=DEVICE, dtype=DTYPE, requires_grad=True) for _ in range(3))
        upstream = torch.randn_like(q)
        flops = 10.0 * heads * length * length * dim * (0.5 if causal else 1)
        for name, backend, fixed in [("flash", SDPBackend.FLASH_ATTENTION, False), ("flash, deterministic", SDPBackend.FLASH_ATTENTION, True),
                                     ("cuDNN", SDPBackend.CUDNN_ATTENTION, False)]:
            torch.use_deterministic_algorithms(fixed)
            try:
                with sdpa_kernel(backend):
                    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=1 / math.sqrt(dim))
                ms = median_ms(lambda _: torch.autograd.grad(out, (q, k, v), upstream, retain_graph=True), 5)
                print(f"attention backward {heads} x {length}, d {dim}{', causal' if causal else ''}: {name} {ms:.3f} ms, {flops / ms * 1e-9:.0f} TFLOP/s", flush=True)
            except RuntimeError as error:
                print(f"attention backward: {name} failed: {str(error).splitlines()[0]}")
            torch.use_deterministic_algorithms(False)


def memory_bound(name, make, bytes_moved, sets=6):
    """make(i) returns the output and the inputs whose gradients are needed; `bytes_moved` is the least that one backward pass must move."""
    runs = []
    for i in range(sets):
        out, inputs = make(i)
        runs.append((out, inputs, torch.randn_like(out)))
    ms = median_ms(lambda i: torch.autograd.grad(runs[i % sets][0], runs[i % sets][1], runs[i % sets][2], retain_graph=True), 3 * sets)
    print(f"{name}: {ms * 1e3:.1f} us, {bytes_moved / ms * 1e-9:.2f} TB/s", flush=True)


def norms():
    def leaf(*shape, dtype=DTYPE):
        return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=True)

    for rows, c in [(32760, 1536), (32760, 5120)]:
        def rms(_):
            x, w = leaf(rows, c), leaf(c)
            return F.rms_norm(x, (c,), w, 1e-6), (x, w)

        def layer(_):
            x, w, b = leaf(rows, c), leaf(c), leaf(c)
            return F.layer_norm(x, (c,), w, b, 1e-6), (x, w, b)

        def modulated(_):
            x, scale, shift = leaf(rows, c), leaf(c, dtype=torch.float32), leaf(c, dtype=torch.float32)
            return (F.layer_norm(x.float(), (c,), eps=1e-6) * (1 + scale) + shift).to(DTYPE), (x, scale, shift)

        memory_bound(f"rms_norm backward {rows} x {c}", rms, 6 * rows * c)
        memory_bound(f"layer_norm backward {rows} x {c}", layer, 6 * rows * c)
        memory_bound(f"layer_norm and modulation, composed, backward {rows} x {c}", modulated, 6 * rows * c, 3)

    def group(_):
        x, w, b = leaf(2, 256, 256, 256), leaf(256), leaf(256)
        x = x.detach().to(memory_format=torch.channels_last).requires_grad_()
        return F.silu(F.group_norm(x, 32, w, b)), (x, w, b)

    def gelu(_):
        x = leaf(32760, 8960)
        return F.gelu(x, approximate="tanh"), (x,)

    def swiglu(_):
        a, b = leaf(32760, 8960), leaf(32760, 8960)
        return F.silu(a) * b, (a, b)

    memory_bound("group_norm and silu backward, channels last 2 x 256 x 256 x 256", group, 6 * 2 * 256**3)
    memory_bound("gelu (tanh) backward 32760 x 8960", gelu, 6 * 32760 * 8960, 3)
    memory_bound("swiglu backward 32760 x 8960", swiglu, 10 * 32760 * 8960, 3)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    what = sys.argv[1:] or ["attention", "norms"]
    if "attention" in what:
        attention()
    if "norms" in what:
        norms()
