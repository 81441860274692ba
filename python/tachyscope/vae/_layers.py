"""Layers of Wan's video VAEs over whole clips.

Activations are [B · T, C, H, W], the frames of a clip one after the other; `t` is the number of frames. A convolution
in time reads the frames before its own. Over a whole clip it is therefore a two-dimensional convolution over frames
that are stacked on the channels: this gives the same numbers as the engine's and diffusers' processing in chunks of
four frames, with larger products. In a clip of one frame (an image) the other taps see zeros and are left out.

Parameters have the names and shapes that diffusers' AutoencoderKLWan gives them."""

import torch
import torch.nn.functional as F
from torch import nn

from .. import ops
from . import _codes


class Kernels:
    """Says whether the norms are ours, and whether residual blocks compute in e4m3; all layers of a model share this."""

    on, fp8 = True, False


class CausalConv(nn.Module):
    """A convolution in time and space that sees no later frame. weight [out, in, kt, k, k]."""

    def __init__(self, cin, cout, kt, k, stride=1):
        super().__init__()
        reference = nn.Conv3d(cin, cout, (kt, k, k))  # only for its initial values
        self.weight, self.bias = reference.weight, reference.bias
        self.stride = stride

    def forward(self, x, t):
        """Maps [B · T, in, H, W] to [B · T, out, H, W]."""
        taps = self.weight.shape[2]
        if taps == 1 or t == 1:
            return self._product(x, self.weight[:, :, -1])
        return self._product(stacked(x, t, taps)[0], self.weight.transpose(1, 2).flatten(1, 2))

    def strided(self, x, t):
        """Returns every second one of the frames that have all their predecessors, and their number."""
        x, t = stacked(x, t, self.weight.shape[2], stride=self.stride, pad=False)
        return self._product(x, self.weight.transpose(1, 2).flatten(1, 2)), t

    def _product(self, x, weight):
        return F.conv2d(x, weight, self.bias, padding=weight.shape[-1] // 2)


def by_clips(x, t):
    """Returns [B · T, C, H, W] as [B, T, H, W, C], without a copy if the channels are last."""
    return torch.unflatten(x.permute(0, 2, 3, 1), 0, (-1, t))


def by_frames(clips, like):
    """Converts back, laid out like `like`."""
    x = clips.flatten(0, 1).permute(0, 3, 1, 2)
    return x if like.is_contiguous(memory_format=torch.channels_last) else x.contiguous()


def stacked(x, t, taps, stride=1, pad=True):
    """Stacks each frame after its taps − 1 predecessors on the channels (zeros before the first), and returns how many
    there are."""
    clips = by_clips(x, t)
    if pad:
        clips = F.pad(clips, (0, 0, 0, 0, 0, 0, taps - 1, 0))
    frames = (clips.shape[1] - taps) // stride + 1
    clips = torch.cat([clips[:, j:j + stride * (frames - 1) + 1:stride] for j in range(taps)], -1)
    return by_frames(clips, x), frames


class ChannelNorm(nn.Module):
    """The norm of each position over its channels, in float32; gamma [C, 1, 1(, 1)]."""

    def __init__(self, channels, kernels, dims):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels, *[1] * dims))
        self.kernels = kernels

    def forward(self, x, silu=False):
        if self.kernels.on:
            return ops.channel_norm(x, self.gamma.flatten(), silu=silu)
        y = F.normalize(x.float(), dim=1) * (x.shape[1] ** 0.5 * self.gamma.float().view(-1, 1, 1))
        return (F.silu(y) if silu else y).to(x.dtype)


class Residual(nn.Module):
    def __init__(self, cin, cout, kernels):
        super().__init__()
        self.norm1, self.conv1 = ChannelNorm(cin, kernels, 3), CausalConv(cin, cout, 3, 3)
        self.norm2, self.conv2 = ChannelNorm(cout, kernels, 3), CausalConv(cout, cout, 3, 3)
        self.conv_shortcut = CausalConv(cin, cout, 1, 1) if cin != cout else None

    def forward(self, x, t):
        h = x if self.conv_shortcut is None else self.conv_shortcut(x, t)
        if self.norm1.kernels.fp8:
            y = _codes.block(self, x, h, t)
            if y is not None:
                return y
        x = self.conv1(self.norm1(x, silu=True), t)
        return self.conv2(self.norm2(x, silu=True), t) + h


class Attention(nn.Module):
    """Attention over the positions of each frame, with one head."""

    def __init__(self, channels, kernels):
        super().__init__()
        self.norm = ChannelNorm(channels, kernels, 2)
        self.to_qkv, self.proj = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = self.to_qkv(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1).chunk(3, -1)
        y = F.scaled_dot_product_attention(q, k, v).squeeze(1).transpose(1, 2).reshape(n, c, h, w)
        return x + self.proj(y)


class Middle(nn.Module):
    def __init__(self, channels, kernels):
        super().__init__()
        self.attentions = nn.ModuleList([Attention(channels, kernels)])
        self.resnets = nn.ModuleList([Residual(channels, channels, kernels) for _ in range(2)])

    def forward(self, x, t):
        return self.resnets[1](self.attentions[0](self.resnets[0](x, t)), t)


class Down(nn.Module):
    """Halves the height and width; with `time` also the frames except the first."""

    def __init__(self, channels, time):
        super().__init__()
        self.resample = nn.Sequential(nn.Identity(), nn.Conv2d(channels, channels, 3, stride=2))
        self.time_conv = CausalConv(channels, channels, 3, 1, stride=2) if time else None

    def forward(self, x, t):
        x = self.resample[1](F.pad(x, (0, 1, 0, 1)))
        if self.time_conv is None or t == 1:
            return x, t
        y, later = self.time_conv.strided(x, t)
        return by_frames(torch.cat([by_clips(x, t)[:, :1], by_clips(y, later)], 1), x), later + 1


class Up(nn.Module):
    """Doubles the height and width; with `time` also the frames except the first."""

    def __init__(self, cin, cout, time):
        super().__init__()
        self.resample = nn.Sequential(nn.Identity(), nn.Conv2d(cin, cout, 3, padding=1))
        self.time_conv = CausalConv(cin, 2 * cin, 3, 1) if time else None

    def forward(self, x, t):
        if self.time_conv is not None and t > 1:
            clips = by_clips(x, t)
            later = self.time_conv(by_frames(clips[:, 1:], x), t - 1)
            later = torch.unflatten(by_clips(later, t - 1), -1, (2, -1)).permute(0, 1, 4, 2, 3, 5).flatten(1, 2)
            x, t = by_frames(torch.cat([clips[:, :1], later.to(x.dtype)], 1), x), 2 * t - 1
        return self.resample[1](F.interpolate(x, scale_factor=2, mode="nearest-exact")), t


def averaged_down(x, t, cout, time):
    """The shortcut around a block of VAE 2.2's encoder: means over 2 x 2 positions and, with `time`, over pairs of
    frames (a zero frame comes before an odd number), side by side on the channels; x itself if its size does not
    change."""
    n, cin, h, w = x.shape
    ft = 2 if time else 1
    x = torch.unflatten(x, 0, (-1, t))
    front = -t % ft
    if front:
        x = F.pad(x, (0, 0, 0, 0, 0, 0, front, 0))
    x = x.reshape(-1, (t + front) // ft, ft, cin, h // 2, 2, w // 2, 2).permute(0, 1, 3, 2, 5, 7, 4, 6)
    x = x.reshape(*x.shape[:2], cout, cin * ft * 4 // cout, h // 2, w // 2).mean(3)
    return x.flatten(0, 1)


def repeated_up(x, t, cout, time):
    """The shortcut around a block of VAE 2.2's decoder: channels are repeated and laid out over 2 x 2 positions and,
    with `time`, over two frames; the first frame of each clip has only one."""
    n, cin, h, w = x.shape
    ft = 2 if time else 1
    x = x.repeat_interleave(cout * ft * 4 // cin, dim=1).view(-1, t, cout, ft, 2, 2, h, w)
    x = x.permute(0, 1, 3, 2, 6, 4, 7, 5).reshape(-1, t * ft, cout, 2 * h, 2 * w)
    return x[:, ft - 1:].flatten(0, 1)
