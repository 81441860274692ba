"""Wan's video VAEs as torch modules, for training and for pipelines that need latents.

    vae = tachyscope.vae.create_wan2_1_vae(z_channels=16).to("cuda")
    vae.load_state_dict(AutoencoderKLWan.from_pretrained(…).state_dict())      # names and shapes are diffusers'
    mean, logvar = vae.encode(clip)                                            # [B, 3, 1 + 4k, H, W] or [B, 3, H, W]
    clip = vae.decode(vae.encoder.reparameterize(mean, logvar))
    clip, kl = vae(clip, return_loss=True, use_amp=True)

They process whole clips, which trains faster than processing in chunks but takes memory in proportion to the length; to
decode long videos use the engine's own VAE, which streams. Latents are the network's: Wan's pipelines subtract a mean
for each channel and divide."""

import contextlib

import torch
import torch.nn.functional as F
from torch import nn

from . import _codes
from ._layers import CausalConv, Kernels
from ._network import Decoder, Encoder

__all__ = ["WanVAE", "create_wan2_1_vae", "create_wan2_2_vae"]
_TIME = (False, True, True)  # which of the encoder's resamplings halve the frames


class WanVAE(nn.Module):
    """The network of either VAE. With `kernels` False, norms are computed by torch alone, for comparison.

    Clips are in −1..1 and have 1 + 4k frames with sides divisible by 8 (16 if `patch` is 2). Convolutions and attention
    run in the parameters' dtype, or with `use_amp` in bfloat16 by torch.autocast; norms, the posterior and the loss run
    in float32. `enable_fp8` is for encoding and decoding without gradients."""

    def __init__(self, z_channels, base=96, decoder_base=None, multipliers=(1, 2, 4, 4), blocks=2, *, patch=1, residual=False,
                 kernels=True):
        super().__init__()
        for name, value in (("z_channels", z_channels), ("base", base), ("decoder_base", base if decoder_base is None else decoder_base)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"WanVAE: expected {name} to be an integer above 0, got {value!r}")
        if len(multipliers) != len(_TIME) + 1:
            raise ValueError(f"WanVAE: expected {len(_TIME) + 1} multipliers, one for each block, got {len(multipliers)}")
        self.z_channels, self.patch, self.memory_format = z_channels, patch, torch.contiguous_format
        self._kernels = Kernels()
        self._kernels.on = kernels
        channels = 3 * patch * patch
        dims = [base * m for m in (1, *multipliers)]
        up = [(decoder_base or base) * m for m in (multipliers[-1], *reversed(multipliers))]
        self.encoder = Encoder(channels, dims, z_channels, blocks, _TIME, residual, self._kernels)
        self.quant_conv = CausalConv(2 * z_channels, 2 * z_channels, 1, 1)
        self.post_quant_conv = CausalConv(z_channels, z_channels, 1, 1)
        self.decoder = Decoder(channels, up, z_channels, blocks, _TIME[::-1], residual, self._kernels)

    @property
    def kernels(self):
        return self._kernels.on

    @kernels.setter
    def kernels(self, on):
        self._kernels.on = bool(on)

    def to_channels_last(self):
        """Puts the channels of activations and 2-D weights last; our norms and Tensor Cores read them in that form."""
        self.memory_format = torch.channels_last
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                module.to(memory_format=torch.channels_last)
        return self

    def enable_fp8(self, on=True):
        """Lets the 3x3x3 convolutions of residual blocks with multiples of 32 channels compute in e4m3 where no gradients are recorded: on a GPU
        from compute capability 8.9 on, beside bfloat16, and (slowly) on a CPU. The scale of a convolution's input is the bound of the norm before
        it, so nothing has to be measured. Codes of the weights are kept beside them. Code of torch.compile has them if there was a call before."""
        self._kernels.fp8 = bool(on)
        return self

    def encode(self, x, use_amp=False):
        """Encodes a clip to the posterior's (mean, logvar) in float32 (or float64), [B, z, 1 + k, H / 8, W / 8]; for
        images without the frames."""
        self._expect(x, "x", 3)
        image, x = x.dim() == 4, self._clip(x)
        with self._amp(x, use_amp):
            h, t = self._frames(self._patched(x)), x.shape[2]
            h, t = self.encoder(h, t)
            h = self.quant_conv(h, t)
        h = self._clips(h, t, image)
        return h.chunk(2, 1)

    def decode(self, z, use_amp=False):
        """Decodes latents to a clip in float32 (or float64), not clamped: [B, 3, 1 + 4k, 8h, 8w], for images [B, 3, 8h,
        8w]."""
        self._expect(z, "z", self.z_channels)
        image, z = z.dim() == 4, z if z.dim() == 5 else z.unsqueeze(2)
        with self._amp(z, use_amp):
            h, t = self._frames(z), z.shape[2]
            h = self.post_quant_conv(h, t)
            h, t = self.decoder(h, t)
        return self._clips(self._unpatched(h), t, image)

    def forward(self, x, return_loss=False, use_amp=False, noise=None):
        """Returns the clip's reconstruction from a draw of its posterior; with `return_loss` also the posterior's KL
        divergence from a unit normal, as a mean over its values. `noise` is as in `encoder.reparameterize`."""
        mean, logvar = self.encode(x, use_amp)
        reconstruction = self.decode(self.encoder.reparameterize(mean, logvar, noise), use_amp)
        if not return_loss:
            return reconstruction
        logvar = logvar.clamp(-30, 20)
        return reconstruction, 0.5 * (mean.square() + logvar.exp() - 1 - logvar).mean()

    def _amp(self, x, use_amp):
        if self._kernels.fp8:
            use_amp = use_amp or _codes.wants_bfloat16(self.quant_conv.weight, x.device)
        return torch.autocast(x.device.type, torch.bfloat16) if use_amp else contextlib.nullcontext()

    def _expect(self, x, name, channels):
        if not isinstance(x, torch.Tensor) or x.dim() not in (4, 5) or x.shape[1] != channels or not x.numel():
            got = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
            raise ValueError(f"WanVAE: expected {name} [batch, {channels}, frames, height, width] or without frames, got {got}")
        if not x.is_floating_point():
            raise TypeError(f"WanVAE: expected {name} of floats{' from -1 to 1' if name == 'x' else ''}, got {x.dtype}")

    def _clip(self, x):
        x = x if x.dim() == 5 else x.unsqueeze(2)
        _, _, frames, height, width = x.shape
        unit = 8 * self.patch
        if frames % 4 != 1 or height % unit or width % unit:
            raise ValueError(f"WanVAE: expected 1 + 4k frames whose sides {unit} divides, got {frames} of {height} x {width}")
        return x

    def _frames(self, x):
        return x.to(self.quant_conv.weight.dtype).transpose(1, 2).flatten(0, 1).contiguous(memory_format=self.memory_format)

    def _clips(self, h, t, image):
        h = torch.unflatten(h, 0, (-1, t)).transpose(1, 2)
        h = h if h.dtype == torch.float64 else h.float()
        return h.squeeze(2) if image else h

    def _patched(self, x):
        """Puts squares of patch x patch pixels on the channels, columns before rows."""
        if self.patch == 1:
            return x
        b, c, t, h, w = x.shape
        p = self.patch
        return x.reshape(b, c, t, h // p, p, w // p, p).permute(0, 1, 6, 4, 2, 3, 5).reshape(b, c * p * p, t, h // p, w // p)

    def _unpatched(self, h):
        return h if self.patch == 1 else F.pixel_shuffle(torch.unflatten(h, 1, (3, self.patch, -1)).transpose(2, 3).flatten(1, 3), self.patch)


def create_wan2_1_vae(z_channels=4, use_channels_last=True, use_fp8=False, *, base=96, kernels=True):
    """The VAE of Wan 2.1 (and of Wan 2.2's 14B models, whose latents have 16 channels), with random weights."""
    return _created(WanVAE(z_channels, base, kernels=kernels), use_channels_last, use_fp8)


def create_wan2_2_vae(z_channels=48, use_channels_last=True, use_fp8=False, *, base=160, decoder_base=256, kernels=True):
    """The VAE of Wan 2.2's 5B model, with random weights."""
    vae = WanVAE(z_channels, base, decoder_base, patch=2, residual=True, kernels=kernels)
    return _created(vae, use_channels_last, use_fp8)


def _created(vae, use_channels_last, use_fp8):
    vae.enable_fp8(use_fp8)
    return vae.to_channels_last() if use_channels_last else vae
