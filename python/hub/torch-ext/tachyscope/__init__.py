"""Kernels of video transformers as a kernel of the Hugging Face hub: the functions of the package, and `layers` for kernelize."""

from . import layers
from ._core import set_threads, threads
from ._op import enable_torch
from .ops import *

enable_torch()

__all__ = [
    "ada_layer_norm",
    "add_norm",
    "attention",
    "channel_norm",
    "channel_norm_codes",
    "codes_of",
    "conv1d_group_norm",
    "conv3d_codes_of",
    "gated_residual",
    "geglu",
    "gelu",
    "group_norm",
    "group_norm_mish",
    "group_norm_silu",
    "grouped_lora",
    "layer_norm",
    "layernorm_modulate",
    "layers",
    "linear",
    "lora",
    "mish",
    "mlp",
    "qk_norm_rope",
    "qkv_rope",
    "reparameterize",
    "rms_modulate",
    "rms_norm",
    "rope",
    "rope_1d",
    "rope_3d",
    "scaled_conv3d",
    "scaled_linear",
    "set_threads",
    "silu",
    "swiglu",
    "threads",
]
