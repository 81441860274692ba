"""Shared by the denoisers of talker/ and steer/: modules and inputs that are the same in Wan 2.1 image-to-video and Matrix-Game 2, under the names
that both give them."""
import math

import torch
from torch import nn

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


class Rms(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight.float()


class Head(nn.Module):
    def __init__(self, d, out):
        super().__init__()
        self.head, self.modulation = nn.Linear(d, 4 * out), nn.Parameter(torch.randn(1, 2, d) / d**0.5)


class ImageEmbedding(nn.Module):
    def __init__(self, image, d):
        super().__init__()
        self.proj = nn.Sequential(nn.LayerNorm(image), nn.Linear(image, image), nn.GELU(), nn.Linear(image, d), nn.LayerNorm(d))


def waves(t, width):
    """Returns cosines and sines [..., width] of times t [...], for the time embedding."""
    freq = torch.exp(-math.log(10000) * torch.arange(width // 2, device=t.device, dtype=torch.float32) / (width // 2))
    a = t.float()[..., None] * freq
    return torch.cat([a.cos(), a.sin()], -1)


def condition(y):
    """Returns mask and picture channels [B, 20, T, H, W] from the latents y [B, 16, T, H, W] of a picture followed by grey frames."""
    mask = torch.zeros_like(y[:, :4])
    mask[:, :, 0] = 1
    return torch.cat([mask, y], 1)
