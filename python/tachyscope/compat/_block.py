"""A transformer block made of our kernels, and whole blocks of diffusers' Wan models."""

import warnings

import torch
import torch.nn.functional as F
from torch import nn

from .. import ops
from . import _switches
from ._check import agree, compare_times


class FusedWanBlock(nn.Module):
    """Norm and modulation, joined QKV, rotary positions, attention, output, gated residual, SwiGLU feed-forward, gated
    residual. There is no attention over a text: diffusers' Wan block is a different one
    (`patch_model_with_fused_blocks`).

    Linear layers have biases, norms have no weights (eps 1e-6). Tokens are at the positions 0, 1, … of one axis with
    theta 10000, and pairs are neighbours. If WAN_FORCE_SDPA=1 when it is made, attention is torch's."""

    def __init__(self, hidden_dim, num_heads, ffn_dim):
        super().__init__()
        if num_heads < 1 or hidden_dim % num_heads or hidden_dim // num_heads % 2:
            raise ValueError(f"FusedWanBlock: expected hidden_dim of num_heads even heads, got {hidden_dim} and {num_heads}")
        self.num_heads, self.torch_attention = num_heads, _switches.env_switch("WAN_FORCE_SDPA") is True
        self.qkv = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.out = nn.Linear(hidden_dim, hidden_dim)
        self.gate_proj, self.up_proj = nn.Linear(hidden_dim, ffn_dim), nn.Linear(hidden_dim, ffn_dim)
        self.down_proj = nn.Linear(ffn_dim, hidden_dim)

    def forward(self, x, shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp):
        """x is [batch, tokens, hidden_dim]; the six others have one shape, [batch, hidden_dim] or one that broadcasts
        to x's."""
        rows = (shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp)
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = map(_each_sample, rows)
        normed = ops.ada_layer_norm(x, scale_msa, shift_msa)
        q, k, v = torch.unflatten(self.qkv(normed), 2, (3, self.num_heads, -1)).unbind(2)
        attend = _torch_attention if self.torch_attention else ops.attention
        attended = self.out(attend(ops.rope_1d(q), ops.rope_1d(k), v).flatten(2))
        normed, x = ops.add_norm(x, attended, norm="layer", gate=gate_msa, scale=scale_mlp, shift=shift_mlp)
        hidden = ops.swiglu(self.gate_proj(normed), self.up_proj(normed))
        return ops.gated_residual(x, self.down_proj(hidden), gate_mlp)


def _torch_attention(q, k, v):
    return F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)


def _each_sample(t):
    return t.unsqueeze(1) if t.dim() == 2 else t


def patch_model_with_fused_blocks(model):
    """Gives the Wan blocks of diffusers, ComfyUI and WanVideoWrapper the forward of `tachyscope.optimize` at level safe,
    and returns how many. Where that is 0, a warning says why. Blocks keep their class and weights; modules that were
    replaced before stay as they are, and `tachyscope.restore(model)` undoes it."""
    _switches.warn()
    if _switches.env_switch("WAN_ENABLE_FUSED_BLOCK") is False:
        return _none("WAN_ENABLE_FUSED_BLOCK is off")
    from .. import enable_torch

    enable_torch()
    from .. import _optimize

    report = _optimize.run(model, "safe", lambda op: op == "a whole block", anew=False)
    if not report.replaced:
        return _none(_why_no_block(report))
    return len(report.replaced)


def _none(why):
    warnings.warn(f"patch_model_with_fused_blocks replaced no block: {why}", RuntimeWarning, stacklevel=3)
    return 0


def _why_no_block(report):
    """Returns what the report says of blocks, each class and reason once."""
    ours = "something else has replaced its forward"
    blocks = dict.fromkeys(f"{kind}: {'replaced before, or ' + why if why == ours else why}" for _, kind, why in report.left if "Block" in kind)
    if blocks:
        return "; ".join(blocks)
    return "the model has no block of a class that is known here (the Wan blocks of diffusers, ComfyUI and WanVideoWrapper)"


def _plain(block, x, shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp):
    """Computes the same as the block with torch alone."""
    def turned(t):
        half = t.shape[3] // 2
        angles = torch.outer(torch.arange(t.shape[1]).double(), 10000.0 ** (-torch.arange(half).double() / half))
        cos, sin = angles.cos().to(t.dtype)[:, None], angles.sin().to(t.dtype)[:, None]
        a, b = t[..., ::2], t[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)

    normed = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale_msa) + shift_msa
    q, k, v = torch.unflatten(block.qkv(normed), 2, (3, block.num_heads, -1)).unbind(2)
    q, k, v = (t.transpose(1, 2) for t in (turned(q), turned(k), v))
    x = x + gate_msa * block.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
    normed = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale_mlp) + shift_mlp
    return x + gate_mlp * block.down_proj(F.silu(block.gate_proj(normed)) * block.up_proj(normed))


def _case(batch, tokens, hidden_dim, num_heads, ffn_dim):
    block = FusedWanBlock(hidden_dim, num_heads, ffn_dim)
    x, *rows = torch.randn(batch, tokens, hidden_dim), *torch.randn(6, batch, 1, hidden_dim)
    return lambda *inputs: _plain(block, *inputs), block, (x, *rows)


def validate_fused_block():
    """Says whether the block agrees with plain PyTorch in float32."""
    return agree([_case(2, 9, 48, 4, 80), _case(1, 33, 128, 2, 200)])


def benchmark_fused_block():
    """Returns microseconds of plain PyTorch and of the block, for 128 tokens of 256."""
    return compare_times({"block": _case(1, 128, 256, 4, 512)})
