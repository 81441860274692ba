"""Residual blocks of Wan's video VAEs in e4m3, as the engine computes them (`vae_math` fp8): both convolutions read codes of
the norm before them, whose scale is a 448th of the largest value that this norm can give, sqrt(C) · max |gamma|. The
shortcut, the residual stream and everything outside of these blocks keep their dtype."""

import torch

from .. import _op as way
from .. import ops

_STEP, _TOP = 32, 448.0
_NEEDED = "float8_e4m3fn"


def wants_bfloat16(weight, device):
    """Says whether what is not in e4m3 should be computed in bfloat16 here, since a GPU has no such convolution beside float32. Raises where this
    device or dtype has none at all."""
    if device.type != "cuda" or (torch.is_grad_enabled() and weight.requires_grad):
        return False
    capability = torch.cuda.get_device_capability(device)
    if capability < (8, 9):
        raise NotImplementedError(f"WanVAE: use_fp8 needs a GPU of compute capability 8.9 or newer, and this one is {capability[0]}.{capability[1]}; "
                                  "use_amp computes in bfloat16")
    if weight.dtype not in (torch.float32, torch.bfloat16):
        raise ValueError(f"WanVAE: use_fp8 expects parameters in bfloat16 or float32 on a GPU, got {weight.dtype}")
    return weight.dtype == torch.float32


def _state(*parameters):
    return tuple((p.data_ptr(), p._version, p.device) for p in parameters)


def _scale(gamma):
    bound = gamma.numel() ** 0.5 * gamma.detach().float().abs().max().item() / _TOP
    return bound if 0 < bound < float("inf") else 1.0


def _kept(block):
    """Returns (scale of the first norm, codes and scales of the first weight, the same three of the second), as the parameters are now."""
    parameters = block.norm1.gamma, block.conv1.weight, block.norm2.gamma, block.conv2.weight
    kept = block.__dict__.get("_codes")
    if torch.compiler.is_compiling():
        return None if kept is None else kept[1]
    now = _state(*parameters)
    if kept is None or kept[0] != now:
        made = []
        for gamma, weight in (parameters[:2], parameters[2:]):
            scale = _scale(gamma)
            made += [scale, *ops.conv3d_codes_of(weight, scale, _NEEDED)]
        kept = block.__dict__["_codes"] = (now, made)
    return kept[1]


def _fits(block, x):
    channels = x.shape[1], block.conv1.weight.shape[0]
    if any(c % _STEP for c in channels) or x.device.type not in ("cpu", "cuda"):
        return False
    dtypes = (torch.bfloat16,) if x.is_cuda else (torch.bfloat16, torch.float16, torch.float32)
    return x.dtype in dtypes and not way.records(x, *block.parameters())


def block(block, x, shortcut, t):
    """Returns the block's result, or None where it computes in its own dtype: for other channels or dtypes, and where gradients are recorded."""
    if not _fits(block, x):
        return None
    kept = _kept(block)
    if kept is None:
        return None
    scale, codes, scales, hidden_scale, hidden_codes, hidden_scales = kept
    x = ops.channel_norm_codes(x, block.norm1.gamma.flatten(), scale)
    x = ops.scaled_conv3d(x, codes, scales, block.conv1.bias, frames=t, gamma=block.norm2.gamma.flatten(), next_scale=hidden_scale)
    return ops.scaled_conv3d(x, hidden_codes, hidden_scales, block.conv2.bias, frames=t, residual=shortcut)
