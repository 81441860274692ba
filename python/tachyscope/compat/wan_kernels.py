"""The names of the kernels of ComfyUI's Wan wrapper and of Hugging Face's kernel examples, with their signatures.

    from tachyscope.compat import wan_kernels
    q = wan_kernels.rope_apply_triton(q, grid_sizes, freqs)

Everything here calls `tachyscope.ops` or `tachyscope.optimize`, on the CPU as well as on a GPU. An option that cannot
be honoured is an error that names it, and an environment variable that has no effect here causes a warning. The
functions `validate_…` compare with plain PyTorch and return whether all agreed; `benchmark_…` return microseconds of
both. They make their tensors on torch's default device.
"""

from ..vae import create_wan2_1_vae, create_wan2_2_vae
from . import _switches
from ._block import FusedWanBlock, benchmark_fused_block, patch_model_with_fused_blocks, validate_fused_block
from ._check import validate_kernel
from ._fused import (FusedSwiGLUFunction, benchmark_fused_ops, fused_layernorm_modulation, fused_qkv_rope, fused_swiglu,
                     validate_fused_ops)
from ._hub import gelu_fast, inject_optimized_kernels, rmsnorm
from ._lora import (benchmark_lora_kernels, grouped_lora_forward_optimized, single_lora_forward_optimized,
                    validate_lora_kernels)
from ._pool import BufferType, CUDAGraphMemoryPool, create_pool_for_wan_model, test_memory_pool
from ._rope import (benchmark_rope_implementation, rope_apply, rope_apply_real, rope_apply_real_3d, rope_apply_triton,
                    validate_rope_implementation)
from ._settings import (OptimizationConfig, OptimizationLevel, get_active_optimizations, get_optimization_summary,
                        optimize_transformer, quick_setup_auto, quick_setup_for_a100, quick_setup_for_l4)

__all__ = [
    "BufferType", "CUDAGraphMemoryPool", "FusedSwiGLUFunction", "FusedWanBlock", "OptimizationConfig", "OptimizationLevel",
    "benchmark_fused_block", "benchmark_fused_ops", "benchmark_lora_kernels", "benchmark_rope_implementation",
    "create_pool_for_wan_model", "create_wan2_1_vae", "create_wan2_2_vae", "fused_layernorm_modulation", "fused_qkv_rope", "fused_swiglu", "gelu_fast",
    "get_active_optimizations", "get_optimization_summary", "grouped_lora_forward_optimized", "inject_optimized_kernels",
    "optimize_transformer", "patch_model_with_fused_blocks", "quick_setup_auto", "quick_setup_for_a100",
    "quick_setup_for_l4", "rmsnorm", "rope_apply", "rope_apply_real", "rope_apply_real_3d", "rope_apply_triton",
    "single_lora_forward_optimized", "test_memory_pool", "validate_fused_block", "validate_fused_ops", "validate_kernel",
    "validate_lora_kernels", "validate_rope_implementation",
]

_switches.warn()
