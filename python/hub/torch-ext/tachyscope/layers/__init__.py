"""Layers for `kernelize`: pure modules, whose forward computes with the weights of the module that it is put into.

Each replaces the module of the same name in the library that its help names, and rounds where that module rounds. If
the dtype of a module's weights differs from that of its input, the same products are made in torch."""

import torch
from torch import nn

from .. import ops


class LlamaRMSNorm(nn.Module):
    """transformers: LLaMA's norm, which T5, Mistral, Qwen and many others have under names of their own."""

    can_torch_compile = True
    weight: torch.Tensor
    variance_epsilon: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        if self.weight.dtype != hidden_states.dtype:
            return self.weight * ops.rms_norm(hidden_states, None, self.variance_epsilon)
        return ops.rms_norm(hidden_states, self.weight, self.variance_epsilon, round_twice=True)


class GemmaRMSNorm(nn.Module):
    """transformers: Gemma's norm, which multiplies by 1 + weight in float32."""

    can_torch_compile = True
    weight: torch.Tensor
    eps: float

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.rms_norm(x, 1.0 + self.weight.float(), self.eps)


class DiffusersRMSNorm(nn.Module):
    """diffusers: RMSNorm, with or without weight and bias."""

    can_torch_compile = True
    weight: torch.Tensor
    bias: torch.Tensor
    eps: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        if weight is None or weight.dtype == hidden_states.dtype:
            y = ops.rms_norm(hidden_states, weight, self.eps, round_twice=True)
        elif weight.dtype == torch.float32:
            y = ops.rms_norm(hidden_states.float(), weight, self.eps)
        else:
            y = ops.rms_norm(hidden_states.float(), None, self.eps).to(weight.dtype) * weight
        return y if weight is None or self.bias is None else y + self.bias


class RMSNorm(nn.Module):
    """torch: RMSNorm over the last dims, rounded once."""

    can_torch_compile = True
    weight: torch.Tensor
    eps: float
    normalized_shape: tuple

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        weight = None if self.weight is None else self.weight.flatten()
        return ops.rms_norm(x.flatten(-len(self.normalized_shape)), weight, eps).view(x.shape)


class LayerNorm(nn.Module):
    """torch: LayerNorm over the last dims, rounded once; diffusers' FP32LayerNorm computes the same."""

    can_torch_compile = True
    weight: torch.Tensor
    bias: torch.Tensor
    eps: float
    normalized_shape: tuple

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight, bias = (None if t is None else t.flatten() for t in (self.weight, self.bias))
        return ops.layer_norm(input.flatten(-len(self.normalized_shape)), weight, bias, self.eps).view(input.shape)


class Silu(nn.Module):
    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.silu(x)


class Mish(nn.Module):
    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.mish(x)


class Gelu(nn.Module):
    """GELU by the error function."""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.gelu(x)


class GeluTanh(nn.Module):
    """GELU by the usual approximation, rounded once. transformers' NewGELU and FastGELU use the same
    formula."""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.gelu(x, "tanh")


class SiluAndMul(nn.Module):
    """silu of the first half of the last dim · the second half; [..., 2 · C] to [..., C], rounded once."""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.swiglu(*x.chunk(2, dim=-1))


class MulAndSilu(nn.Module):
    """The first half · silu of the second."""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up, gate = x.chunk(2, dim=-1)
        return ops.swiglu(gate, up)


class GeluAndMul(nn.Module):
    """gelu of the first half · the second half."""

    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.geglu(*x.chunk(2, dim=-1))


class GeluTanhAndMul(nn.Module):
    can_torch_compile = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ops.geglu(*x.chunk(2, dim=-1), "tanh")


class SwiGLUMLP(nn.Module):
    """transformers: LLaMA's MLP with SiLU, which computes down_proj(silu(gate_proj(x)) · up_proj(x))."""

    can_torch_compile = True
    gate_proj: nn.Module
    up_proj: nn.Module
    down_proj: nn.Module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(ops.swiglu(self.gate_proj(x), self.up_proj(x), round_twice=True))


class GEGLU(nn.Module):
    """diffusers: GEGLU, one projection whose second half is the gate."""

    can_torch_compile = True
    proj: nn.Module

    def forward(self, hidden_states: torch.Tensor, *args, **kwargs) -> torch.Tensor:
        up, gate = self.proj(hidden_states).chunk(2, dim=-1)
        return ops.geglu(gate, up, round_twice=True)
