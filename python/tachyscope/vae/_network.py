"""Encoder and decoder of Wan's video VAEs: 2.1 (`residual` False) and 2.2, whose blocks have shortcuts.

`dims` are the channels of the blocks; `time` says which of the resamplings halve or double the frames."""

import torch
from torch import nn

from .. import ops
from ._layers import CausalConv, ChannelNorm, Down, Middle, Residual, Up, averaged_down, repeated_up


class DownBlock(nn.Module):
    """A block of VAE 2.2's encoder; with `time` None it has no resampling."""

    def __init__(self, cin, cout, blocks, time, kernels):
        super().__init__()
        self.resnets = nn.ModuleList([Residual(cin if i == 0 else cout, cout, kernels) for i in range(blocks)])
        self.downsampler = None if time is None else Down(cout, time)
        self.channels = cout

    def forward(self, x, t):
        way_around, frames = x, t
        for resnet in self.resnets:
            x = resnet(x, t)
        if self.downsampler is None:
            return x + way_around, t
        x, t = self.downsampler(x, t)
        return x + averaged_down(way_around, frames, self.channels, self.downsampler.time_conv is not None), t


class UpBlock(nn.Module):
    """A block of either decoder; with `time` None it has no resampling. In 2.1 it halves the channels as it enlarges."""

    def __init__(self, cin, cout, blocks, time, residual, kernels):
        super().__init__()
        self.resnets = nn.ModuleList([Residual(cin if i == 0 else cout, cout, kernels) for i in range(blocks + 1)])
        self.channels, self.residual = cout, residual
        up = None if time is None else Up(cout, cout if residual else cout // 2, time)
        if residual:
            self.upsampler = up
        else:
            self.upsamplers = None if up is None else nn.ModuleList([up])

    def forward(self, x, t):
        way_around, frames = x, t
        for resnet in self.resnets:
            x = resnet(x, t)
        up = self.upsampler if self.residual else self.upsamplers and self.upsamplers[0]
        if up is None:
            return x, t
        x, t = up(x, t)
        return (x + repeated_up(way_around, frames, self.channels, up.time_conv is not None), t) if self.residual else (x, t)


class Encoder(nn.Module):
    def __init__(self, channels, dims, z, blocks, time, residual, kernels):
        super().__init__()
        self.conv_in = CausalConv(channels, dims[0], 3, 3)
        self.down_blocks = nn.ModuleList()
        for i, (cin, cout) in enumerate(zip(dims, dims[1:])):
            last = i == len(dims) - 2
            if residual:
                self.down_blocks.append(DownBlock(cin, cout, blocks, None if last else time[i], kernels))
                continue
            for j in range(blocks):
                self.down_blocks.append(Residual(cin if j == 0 else cout, cout, kernels))
            if not last:
                self.down_blocks.append(Down(cout, time[i]))
        self.mid_block = Middle(dims[-1], kernels)
        self.norm_out, self.conv_out = ChannelNorm(dims[-1], kernels, 3), CausalConv(dims[-1], 2 * z, 3, 3)

    def forward(self, x, t):
        """Maps frames [B · T, C, H, W] to [B · T', 2 z, h, w], and returns T'."""
        x = self.conv_in(x, t)
        for block in self.down_blocks:
            if isinstance(block, Residual):
                x = block(x, t)
            else:
                x, t = block(x, t)
        return self.conv_out(self.norm_out(self.mid_block(x, t), silu=True), t), t

    @staticmethod
    def reparameterize(mean, logvar, noise=None):
        """A draw from the posterior: mean + exp(clamp(logvar, −30, 20) / 2) · noise; noise is drawn if none is given."""
        return ops.reparameterize(mean, logvar, torch.randn_like(mean) if noise is None else noise)


class Decoder(nn.Module):
    def __init__(self, channels, dims, z, blocks, time, residual, kernels):
        super().__init__()
        self.conv_in, self.mid_block = CausalConv(z, dims[0], 3, 3), Middle(dims[0], kernels)
        self.up_blocks = nn.ModuleList()
        for i, (cin, cout) in enumerate(zip(dims, dims[1:])):
            half = cin // 2 if i > 0 and not residual else cin
            up = None if i == len(dims) - 2 else time[i]
            self.up_blocks.append(UpBlock(half, cout, blocks, up, residual, kernels))
        self.norm_out, self.conv_out = ChannelNorm(dims[-1], kernels, 3), CausalConv(dims[-1], channels, 3, 3)

    def forward(self, x, t):
        """Maps [B · T, z, h, w] to frames [B · T', C, H, W], and returns T'."""
        x = self.mid_block(self.conv_in(x, t), t)
        for block in self.up_blocks:
            x, t = block(x, t)
        return self.conv_out(self.norm_out(x, silu=True), t), t
