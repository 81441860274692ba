"""Wan 2.1's video autoencoder as parameters under diffusers' names. vae.py runs it, so that a training machine does not need diffusers."""
import json
import os

import torch
from safetensors.torch import load_file
from torch import nn

CONFIG, WEIGHTS = "config.json", "diffusion_pytorch_model.safetensors"


class Norm(nn.Module):
    def __init__(self, width, ones):
        super().__init__()
        self.scale, self.gamma = width**0.5, nn.Parameter(torch.ones(width, *[1] * ones))


class Residual(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.norm1, self.conv1 = Norm(a, 3), nn.Conv3d(a, b, 3)
        self.norm2, self.conv2 = Norm(b, 3), nn.Conv3d(b, b, 3)
        self.conv_shortcut = nn.Conv3d(a, b, 1) if a != b else nn.Identity()


class Mixing(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.to_qkv, self.proj = Norm(width, 2), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)


class Middle(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attentions = nn.ModuleList([Mixing(width)])
        self.resnets = nn.ModuleList([Residual(width, width), Residual(width, width)])


class Resample(nn.Module):
    def __init__(self, width, mode):
        super().__init__()
        self.mode, up = mode, mode.startswith("up")
        self.resample = nn.Sequential(nn.Identity(), nn.Conv2d(width, width // 2 if up else width, 3))
        if mode.endswith("3d"):
            self.time_conv = nn.Conv3d(width, 2 * width if up else width, (3, 1, 1))


class Up(nn.Module):
    def __init__(self, a, b, blocks, mode):
        super().__init__()
        self.resnets = nn.ModuleList(Residual(a if i == 0 else b, b) for i in range(blocks + 1))
        self.upsamplers = nn.ModuleList([Resample(b, mode)]) if mode else None


class Coder(nn.Module):
    """The encoder or the decoder, whose blocks are `down_blocks` or `up_blocks`."""

    def __init__(self, a, first, middle, last, b, blocks):
        super().__init__()
        self.conv_in, self.mid_block = nn.Conv3d(a, first, 3), Middle(middle)
        self.norm_out, self.conv_out = Norm(last, 3), nn.Conv3d(last, b, 3)
        for name, list_ in blocks.items():
            setattr(self, name, nn.ModuleList(list_))


class Autoencoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert not (config["attn_scales"] or config.get("is_residual") or config.get("patch_size") or config.get("decoder_base_dim"))
        self.config, base, mult, z, n = config, config["base_dim"], config["dim_mult"], config["z_dim"], config["num_res_blocks"]
        in_time, colours = config["temperal_downsample"], config.get("in_channels", 3)
        down, width = [], base
        for i, m in enumerate(mult):
            down += [Residual(width if k == 0 else base * m, base * m) for k in range(n)]
            width = base * m
            if i + 1 < len(mult):
                down.append(Resample(width, "downsample3d" if in_time[i] else "downsample2d"))
        self.encoder = Coder(colours, base, width, width, 2 * z, {"down_blocks": down})
        up, before = [], base * mult[-1]
        for i, m in enumerate(reversed(mult)):
            mode = None if i + 1 == len(mult) else "upsample3d" if in_time[-1 - i] else "upsample2d"
            up.append(Up(before if i == 0 else before // 2, base * m, n, mode))
            before = base * m
        self.decoder = Coder(z, base * mult[-1], base * mult[-1], before, colours, {"up_blocks": up})
        self.quant_conv, self.post_quant_conv = nn.Conv3d(2 * z, 2 * z, 1), nn.Conv3d(z, z, 1)


def load(folder):
    """Returns the autoencoder of a diffusers folder in float32."""
    with open(os.path.join(folder, CONFIG)) as f:
        made = Autoencoder(json.load(f))
    made.load_state_dict({k: v.float() for k, v in load_file(os.path.join(folder, WEIGHTS)).items()})
    return made
