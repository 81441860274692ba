"""Compares each op with the same computation in PyTorch's operations: whether they agree in float32 (rtol = atol = 1e-5),
and the times of both passes.

    python benchmark_ops.py                          # all ops at sizes of video models
    python benchmark_ops.py --op attention lora --dtype float16
    python benchmark_ops.py --tiny
"""

import torch
import torch.nn.functional as F

import common
from benchmark_rmsnorm import seconds
from tachyscope import ops


def rotated(x, cos, sin):
    a, b = x.float()[..., ::2], x.float()[..., 1::2]
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)


def rms(x, weight, eps=1e-6):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def layer(x, weight=None, bias=None):
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-6)


def scores(q, k, v, **options):
    return F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), **options).transpose(1, 2)


def adapters(x, a, b, scales):
    return sum(scale * (x @ one.T @ other.T) for scale, one, other in zip(scales, a, b))


def cases(tokens, heads, dim, hidden):
    """Returns {name: (ours, plain, shapes of the inputs, number of constants among the last of them)}. The plain version is written as in models or,
    if its name says torch, is one of PyTorch's own functions."""
    c, row, angles = heads * dim, (1, tokens, heads * dim), (tokens, dim // 2)
    split = (1, tokens, heads, dim)
    return {
        "rms_norm": (ops.rms_norm, rms, [row, (c,)], 0),
        "rms_norm, torch": (ops.rms_norm, lambda x, w: F.rms_norm(x, (c,), w, 1e-6), [row, (c,)], 0),
        "layer_norm, torch": (lambda x, w, b: ops.layer_norm(x, w, b, 1e-6), layer, [row, (c,), (c,)], 0),
        "ada_layer_norm": (ops.ada_layer_norm, lambda x, scale, shift: layer(x) * (1 + scale) + shift,
                           [row, (1, 1, c), (1, 1, c)], 0),
        "rms_modulate": (ops.rms_modulate, lambda x, scale, shift, w: rms(x, w) * (1 + scale) + shift,
                         [row, (1, 1, c), (1, 1, c), (c,)], 0),
        "add_norm": (lambda x, u, w: ops.add_norm(x, u, w)[0], lambda x, u, w: rms(x + u, w), [row, row, (c,)], 0),
        "gated_residual": (ops.gated_residual, lambda x, u, gate: x + gate * u, [row, row, (1, 1, c)], 0),
        "gelu, torch": (ops.gelu, F.gelu, [(1, tokens, hidden)], 0),
        "geglu": (ops.geglu, lambda gate, up: F.gelu(gate) * up, [(1, tokens, hidden)] * 2, 0),
        "swiglu": (ops.swiglu, lambda gate, up: F.silu(gate) * up, [(1, tokens, hidden)] * 2, 0),
        "rope": (ops.rope, rotated, [split, angles, angles], 2),
        "qk_norm_rope": (lambda q, k, v, w, cos, sin: ops.qk_norm_rope(q, k, v, w, cos, sin, heads)[0],
                         lambda q, k, v, w, cos, sin: rotated(rms(q, v).view(split), cos, sin) + 0 * rotated(rms(k, w).view(split), cos, sin),
                         [row, row, (c,), (c,), angles, angles], 2),
        "mlp": (ops.mlp, lambda x, a, b, d, e: F.linear(F.gelu(F.linear(x, a, b)), d, e),
                [row, (hidden, c), (hidden,), (c, hidden), (c,)], 0),
        "group_norm_silu": (lambda x, w, b: ops.group_norm_silu(x, 32, w, b), lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)),
                            [(1, 320, 64, max(1, tokens // 64))] + [(320,)] * 2, 0),
        "conv1d_group_norm": (lambda x, a, d, w, b: ops.conv1d_group_norm(x, a, d, 8, w, b, padding=2),
                              lambda x, a, d, w, b: F.mish(F.group_norm(F.conv1d(x, a, d, padding=2), 8, w, b)),
                              [(1, 256, tokens), (256, 256, 5)] + [(256,)] * 3, 0),
        "attention, torch": (ops.attention, scores, [split] * 3, 0),
        "attention, causal, torch": (lambda q, k, v: ops.attention(q, k, v, causal=True),
                                     lambda q, k, v: scores(q, k, v, is_causal=True), [split] * 3, 0),
        "lora of one": (lambda x, a, b: ops.lora(x, a, b), lambda x, a, b: x @ a.T @ b.T, [row, (64, c), (c, 64)], 0),
        "lora of four": (ops.grouped_lora, adapters, [row, (4, 64, c), (4, c, 64), (4,)], 0),
        "reparameterize": (ops.reparameterize, lambda mean, logvar, noise: mean + torch.exp(logvar.clamp(-30, 20) / 2) * noise,
                           [row] * 3, 1),
    }


def draw(case, dtype, args):
    generator = torch.Generator("cpu").manual_seed(args.seed)
    weights = [len(shape) > 1 and shape[0] != 1 for shape in case[2]]  # matrices, alone or several; activations have a batch of 1
    made = [torch.randn(shape, generator=generator) * (shape[-1] ** -0.5 if weight else 1) for shape, weight in zip(case[2], weights)]
    return [t.to(args.device, dtype) for t in made]


def agree(case, args):
    """Says whether both give the same in float32, and returns the largest difference."""
    given = draw(case, torch.float32, args)
    with torch.no_grad():
        ours, plain = case[0](*given), case[1](*given)
    return torch.allclose(ours, plain, rtol=1e-5, atol=1e-5), (ours - plain).abs().max().item()


def measure(case, args):
    """Returns seconds of (ours, plain), for the forward pass and for both passes together."""
    given, times = draw(case, common.DTYPES[args.dtype], args), {}
    recorded = [t.detach().requires_grad_(i < len(given) - case[3]) for i, t in enumerate(given)]
    wanted = [t for t in recorded if t.requires_grad]
    gradient = torch.ones_like(case[1](*given))
    for name, call in (("ours", case[0]), ("plain", case[1])):
        with torch.no_grad():
            times[name] = seconds(lambda: call(*given), args)
        times[name + ", both passes"] = seconds(
            lambda: torch.autograd.grad(call(*recorded), wanted, gradient, allow_unused=True), args)
    return times


def main():
    parser = common.options(__doc__.split("\n\n")[0].replace("\n", " "), video=False)
    parser.add_argument("--op", nargs="+", metavar="NAME", help="only ops whose names begin with NAME")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--hidden", type=int, default=8960)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--warmup-iterations", type=int, default=5)
    args = common.parse(parser)
    if args.tiny:
        args.tokens, args.heads, args.head_dim, args.hidden = 64, 2, 16, 48
        args.iterations, args.warmup_iterations = 3, 1
    chosen = {name: case for name, case in cases(args.tokens, args.heads, args.head_dim, args.hidden).items()
              if not args.op or name.startswith(tuple(args.op))}
    if not chosen:
        parser.error(f"--op: no op begins with {' or '.join(args.op)}")
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{args.dtype}, {common.device_name(args.device)}, torch {torch.__version__}; microseconds per call")
    print(f"{'':26}{'plain':>10}{'ours':>10}{'ratio':>8}{'both':>10}{'ours':>10}{'ratio':>8}  float32")
    records = []
    for name, case in chosen.items():
        same, apart = agree(case, args)
        times = measure(case, args)
        forward, both = times["plain"] / times["ours"], times["plain, both passes"] / times["ours, both passes"]
        print(f"{name:26}{times['plain'] * 1e6:10.1f}{times['ours'] * 1e6:10.1f}{forward:7.2f}x{times['plain, both passes'] * 1e6:10.1f}"
              f"{times['ours, both passes'] * 1e6:10.1f}{both:7.2f}x  {'agrees' if same else 'DIFFERS'} ({apart:.1e})", flush=True)
        records.append({"name": name, "seconds": times, "ratio": forward, "ratio_both_passes": both, "agrees": same, "apart": apart})
    common.write(args, records)
    if not all(record["agrees"] for record in records):
        raise SystemExit("not all agree in float32")


if __name__ == "__main__":
    main()
