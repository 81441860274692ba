"""Runs diffusers' and transformers' models in float64.

Their code pins parts to float32 (FP32LayerNorm, `.float()` in the blocks, umT5's norm): with `float64()` these become
float64 too. The time sinusoid keeps its float32 arithmetic, because that is part of the model (its table of frequencies is in float32)."""

import contextlib

import torch
from diffusers.models import embeddings
from transformers.models.umt5 import modeling_umt5


def _t5_norm64(self, hidden_states):
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))


@contextlib.contextmanager
def float64():
    to_float = torch.Tensor.float
    sinusoid, t5_norm = embeddings.get_timestep_embedding, modeling_umt5.UMT5LayerNorm.forward

    def sinusoid32(*args, **kwargs):
        torch.Tensor.float = to_float
        try:
            return sinusoid(*args, **kwargs)
        finally:
            torch.Tensor.float = torch.Tensor.double

    torch.Tensor.float = torch.Tensor.double
    embeddings.get_timestep_embedding = sinusoid32
    modeling_umt5.UMT5LayerNorm.forward = _t5_norm64
    try:
        yield
    finally:
        torch.Tensor.float = to_float
        embeddings.get_timestep_embedding = sinusoid
        modeling_umt5.UMT5LayerNorm.forward = t5_norm


def error(y, reference):
    """max|y - R| / max|R|"""
    return ((y.double() - reference.double()).abs().max() / reference.double().abs().max()).item()
