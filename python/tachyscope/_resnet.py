"""GroupNorm with the activation after it in diffusers' residual blocks for images, in its Conv1dBlock, and at the ends
of AutoencoderKL's encoder and decoder.

Convolutions and linear layers are called as modules, and so are norms if a hook loads their parameters. The results are
laid out like the inputs (channels last or not)."""

import sys

import torch
from diffusers.models import resnet
from torch import nn

from ._norm_act import activation_name, joins, norm_act
from ._rules import IN_FLOAT32, Rule, _plain, takes


def _norm_silu(norm, act, x, twice):
    return norm_act(norm, act, x) if joins(norm, act, x, twice) else act(norm(x))


def _residual_check(block):
    if block.upsample is not None or block.downsample is not None:
        return "it changes the size of the image"
    if block.time_embedding_norm == "scale_shift":
        return "the time embedding modulates the output of its norm"
    if type(block.nonlinearity) is not nn.SiLU:
        return f"its activation is {type(block.nonlinearity).__name__}"
    return None


def _residual(block, twice, input_tensor, temb, *args, **kwargs):
    if args or kwargs or not takes(input_tensor):
        return _plain(block, input_tensor, temb, *args, **kwargs)
    h = block.conv1(_norm_silu(block.norm1, block.nonlinearity, input_tensor, twice))
    if block.time_emb_proj is not None:
        temb = temb if block.skip_time_act else block.nonlinearity(temb)
        temb = block.time_emb_proj(temb)[:, :, None, None]
    if temb is not None and block.time_embedding_norm == "default":
        h = h + temb
    h = block.conv2(block.dropout(_norm_silu(block.norm2, block.nonlinearity, h, twice)))
    if block.conv_shortcut is not None:
        # A training step of DistributedDataParallel needs contiguous operands; the block itself makes sure of that, too.
        input_tensor = block.conv_shortcut(input_tensor.contiguous() if block.training else input_tensor)
    h = input_tensor + h
    return h if block.output_scale_factor == 1 else h / block.output_scale_factor


def _half_check(half):
    fits = type(half.conv_norm_out) is nn.GroupNorm and type(half.conv_act) is nn.SiLU
    return None if fits else "it does not end in GroupNorm and SiLU"


def _checkpoints(half):
    return torch.is_grad_enabled() and half.gradient_checkpointing


def _tail(half, x, twice):
    return half.conv_out(_norm_silu(half.conv_norm_out, half.conv_act, x, twice))


def _encoder(half, twice, sample):
    if not takes(sample) or _checkpoints(half):
        return _plain(half, sample)
    x = half.conv_in(sample)
    for block in half.down_blocks:
        x = block(x)
    return _tail(half, half.mid_block(x), twice)


def _decoder(half, twice, sample, latent_embeds=None):
    if not takes(sample) or _checkpoints(half) or latent_embeds is not None:
        return _plain(half, sample, latent_embeds)
    x = half.mid_block(half.conv_in(sample), latent_embeds)
    for block in half.up_blocks:
        x = block(x, latent_embeds)
    return _tail(half, x, twice)


def _conv1d_check(block):
    act = block.mish
    return None if activation_name(act) is not None else f"its activation is {type(act).__name__}"


def _conv1d(block, twice, inputs):
    if not takes(inputs):
        return _plain(block, inputs)
    h = block.conv1d(inputs)
    if joins(block.group_norm, block.mish, h, twice):
        return norm_act(block.group_norm, block.mish, h)
    return block.mish(resnet.rearrange_dims(block.group_norm(resnet.rearrange_dims(h))))


def rules():
    op = "group_norm_silu"
    found = {resnet.ResnetBlock2D: Rule(op, _residual, _residual_check, safe=IN_FLOAT32),
             resnet.Conv1dBlock: Rule("group_norm_mish", _conv1d, _conv1d_check, safe=IN_FLOAT32)}
    vae = sys.modules.get("diffusers.models.autoencoders.vae")
    if vae is not None:
        found |= {vae.Encoder: Rule(op, _encoder, _half_check, safe=IN_FLOAT32),
                  vae.Decoder: Rule(op, _decoder, _half_check, safe=IN_FLOAT32)}
    return found
