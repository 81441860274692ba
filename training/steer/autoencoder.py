"""Wan 2.1's video autoencoder as parameters under diffusers' names. ../vae.py runs it, so the training machine does not need diffusers.

    load(path)          from a folder, or from a file with the original's names and the config in its header; float32
    save(model, folder)  bfloat16
"""
import importlib.util
import json
import os

import net  # first: it finds the folder above
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
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


def original_name(name):
    """Returns the name that a tensor has in the original repository's file."""
    spec = importlib.util.spec_from_file_location("talker_export", os.path.join(net.HERE, "..", "talker", "export.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.vae_name(name)


def load(path):
    if os.path.isdir(path):
        with open(os.path.join(path, CONFIG)) as f:
            made, name = Autoencoder(json.load(f)), lambda k: k
        tensors = load_file(os.path.join(path, WEIGHTS))
    else:
        with safe_open(path, "pt") as f:
            config = json.loads(f.metadata()["config"])
        made, name, tensors = Autoencoder({k: v for k, v in config.items() if k != "_name_or_path"}), original_name, load_file(path)
    made.load_state_dict({k: tensors.pop(name(k)).float() for k in made.state_dict()})
    assert not tensors, f"{path}: {sorted(tensors)[:3]} …"
    return made


def save(model, folder):
    os.makedirs(folder, exist_ok=True)
    tensors = {k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in model.state_dict().items()}
    path = os.path.join(folder, WEIGHTS)
    save_file(tensors, path + ".part", {"format": "pt"})
    os.replace(path + ".part", path)
    path = os.path.join(folder, CONFIG)
    with open(path + ".part", "w") as f:
        json.dump(model.config, f, indent=2)
    os.replace(path + ".part", path)
