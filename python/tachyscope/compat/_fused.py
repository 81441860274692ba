"""Operations that a single kernel computes."""

import torch
import torch.nn.functional as F

from .. import ops
from .._op import enable_torch
from ._check import agree, compare_times

_SILU = 1  # the op's number for SiLU


def fused_layernorm_modulation(x, weight, scale, shift):
    """(1 + scale) · LayerNorm(x) · weight + shift, with Wan's eps of 1e-6, by `ops.ada_layer_norm`.

    x [..., C]; weight [C] or None; scale and shift of one shape that broadcasts to x's, such as [batch, 1, C]."""
    return ops.ada_layer_norm(x, scale, shift, weight)


def fused_swiglu(gate, up):
    """silu(gate) · up of two tensors, with gradients for both."""
    return ops.swiglu(gate, up)


class FusedSwiGLUFunction(torch.autograd.Function):
    """`fused_swiglu` as an autograd function: FusedSwiGLUFunction.apply(gate, up)."""

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return ops.swiglu(gate, up)

    @staticmethod
    def backward(ctx, dy):
        enable_torch()
        return torch.ops.tachyscope.glu_backward(dy, *ctx.saved_tensors, _SILU)


def fused_qkv_rope(qkv, cos, sin, num_heads):
    """Splits a joined projection and rotates q and k. qkv [batch, tokens, 3 · heads · head_dim]; cos and sin [tokens,
    head_dim / 2], for neighbouring pairs. Returns q, k and v, each [batch, tokens, heads, head_dim]; v is a view of
    qkv."""
    return ops.qkv_rope(qkv, cos, sin, num_heads)


def _layernorm_modulation(x, weight, scale, shift):
    y = F.layer_norm(x.float(), x.shape[-1:], None if weight is None else weight.float(), eps=1e-6)
    return (y * (1 + scale.float()) + shift.float()).to(x.dtype)


def _swiglu(gate, up):
    return (F.silu(gate.float()) * up.float()).to(gate.dtype)


def _qkv_rope(qkv, cos, sin, num_heads):
    q, k, v = torch.unflatten(qkv, 2, (3, num_heads, -1)).unbind(2)
    turned = []
    for t in (q, k):
        a, b = t.float()[..., ::2], t.float()[..., 1::2]
        c, s = cos[:, None], sin[:, None]
        turned.append(torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2).to(qkv.dtype))
    return (*turned, v)


def _cases(batch, tokens, heads, dim, dtype=torch.float32):
    """{name: (plain, ours, inputs)}."""
    x, gate, qkv = (torch.randn(batch, tokens, n * heads * dim).to(dtype) for n in (1, 1, 3))
    weight = torch.randn(heads * dim)
    scale, shift = torch.randn(2, batch, 1, heads * dim).to(dtype)
    angles = torch.rand(tokens, dim // 2) * 6
    return {
        "layernorm_modulation": (_layernorm_modulation, fused_layernorm_modulation, (x, weight.to(dtype), scale, shift)),
        "swiglu": (_swiglu, fused_swiglu, (gate, x)),
        "qkv_rope": (_qkv_rope, fused_qkv_rope, (qkv, angles.cos(), angles.sin(), heads)),
    }


def validate_fused_ops():
    """Says whether the three fused operations agree with plain PyTorch, in float32 and bfloat16."""
    shapes = [(2, 9, 3, 20), (1, 33, 2, 64), (2, 9, 3, 20, torch.bfloat16)]
    return agree(case for shape in shapes for case in _cases(*shape).values())


def benchmark_fused_ops():
    """Returns the microseconds that plain PyTorch and the kernels take, for 256 tokens of 8 heads of 64."""
    return compare_times(_cases(1, 256, 8, 64))
