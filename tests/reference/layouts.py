"""Tests the original Wan layout: the same random weights under the original names must give what diffusers gives with the
original's float64 time sinusoid. Names are mapped here by rules of our own, not read from the engine."""

import json
import math
import pathlib
import re

import torch
from diffusers.models import embeddings
from safetensors.torch import save_file

import random_models as rm
from precision import float64

_DIT = [
    (r"^condition_embedder\.image_embedder\.norm1\.", "img_emb.proj.0."),
    (r"^condition_embedder\.image_embedder\.ff\.net\.0\.proj\.", "img_emb.proj.1."),
    (r"^condition_embedder\.image_embedder\.ff\.net\.2\.", "img_emb.proj.3."),
    (r"^condition_embedder\.image_embedder\.norm2\.", "img_emb.proj.4."),
    (r"^condition_embedder\.image_embedder\.pos_embed$", "img_emb.emb_pos"),
    (r"\.attn2\.add_([kv])_proj\.", r".cross_attn.\1_img."),
    (r"\.attn2\.norm_added_k\.", ".cross_attn.norm_k_img."),
    (r"^condition_embedder\.text_embedder\.linear_1\.", "text_embedding.0."),
    (r"^condition_embedder\.text_embedder\.linear_2\.", "text_embedding.2."),
    (r"^condition_embedder\.time_embedder\.linear_1\.", "time_embedding.0."),
    (r"^condition_embedder\.time_embedder\.linear_2\.", "time_embedding.2."),
    (r"^condition_embedder\.time_proj\.", "time_projection.1."),
    (r"^scale_shift_table$", "head.modulation"),
    (r"^proj_out\.", "head.head."),
    (r"\.attn1\.to_([qkv])\.", r".self_attn.\1."),
    (r"\.attn1\.to_out\.0\.", ".self_attn.o."),
    (r"\.attn2\.to_([qkv])\.", r".cross_attn.\1."),
    (r"\.attn2\.to_out\.0\.", ".cross_attn.o."),
    (r"\.attn1\.norm_([qk])\.", r".self_attn.norm_\1."),
    (r"\.attn2\.norm_([qk])\.", r".cross_attn.norm_\1."),
    (r"\.norm2\.", ".norm3."),
    (r"\.ffn\.net\.0\.proj\.", ".ffn.0."),
    (r"\.ffn\.net\.2\.", ".ffn.2."),
    (r"\.scale_shift_table$", ".modulation"),
]
_T5 = [
    (r"^shared\.", "token_embedding."),
    (r"^encoder\.block\.(\d+)\.layer\.0\.layer_norm\.", r"blocks.\1.norm1."),
    (r"^encoder\.block\.(\d+)\.layer\.1\.layer_norm\.", r"blocks.\1.norm2."),
    (r"^encoder\.block\.(\d+)\.layer\.0\.SelfAttention\.([qkvo])\.", r"blocks.\1.attn.\2."),
    (r"^encoder\.block\.(\d+)\.layer\.0\.SelfAttention\.relative_attention_bias\.", r"blocks.\1.pos_embedding.embedding."),
    (r"^encoder\.block\.(\d+)\.layer\.1\.DenseReluDense\.wi_0\.", r"blocks.\1.ffn.gate.0."),
    (r"^encoder\.block\.(\d+)\.layer\.1\.DenseReluDense\.wi_1\.", r"blocks.\1.ffn.fc1."),
    (r"^encoder\.block\.(\d+)\.layer\.1\.DenseReluDense\.wo\.", r"blocks.\1.ffn.fc2."),
    (r"^encoder\.final_layer_norm\.", "norm."),
]
_VAE = [
    (r"^quant_conv\.", "conv1."), (r"^post_quant_conv\.", "conv2."),
    (r"^(encoder|decoder)\.conv_in\.", r"\1.conv1."),
    (r"^(encoder|decoder)\.conv_out\.", r"\1.head.2."), (r"^(encoder|decoder)\.norm_out\.", r"\1.head.0."),
    (r"\.mid_block\.resnets\.0\.", ".middle.0."), (r"\.mid_block\.resnets\.1\.", ".middle.2."),
    (r"\.mid_block\.attentions\.0\.", ".middle.1."),
    (r"^encoder\.down_blocks\.", "encoder.downsamples."),
    (r"\.norm1\.gamma$", ".residual.0.gamma"), (r"\.conv1\.(weight|bias)$", r".residual.2.\1"),
    (r"\.norm2\.gamma$", ".residual.3.gamma"), (r"\.conv2\.(weight|bias)$", r".residual.6.\1"),
    (r"\.conv_shortcut\.", ".shortcut."),
]


def _rename(name, rules):
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


def _vae_name(name, blocks_per_level):
    m = re.match(r"^decoder\.up_blocks\.(\d+)\.(resnets\.(\d+)|upsamplers\.0)\.(.*)$", name)
    if m:
        index = int(m[1]) * (blocks_per_level + 1) + (int(m[3]) if m[3] is not None else blocks_per_level)
        name = f"decoder.upsamples.{index}.{m[4]}"
    # The top-level convolutions share names with those inside residual blocks: rename them by prefix first.
    for pattern, replacement in _VAE[:2]:
        if re.match(pattern, name):
            return re.sub(pattern, replacement, name)
    if re.match(r"^(encoder|decoder)\.conv_in\.", name):
        return re.sub(r"\.conv_in\.", ".conv1.", name)
    return _rename(name, _VAE[3:])


def save_original_transformer(folder, dit, model_type="t2v"):
    folder.mkdir(parents=True, exist_ok=True)
    c = dit.config
    (folder / "config.json").write_text(json.dumps(dict(
        _class_name="WanModel", model_type=model_type, dim=c.num_attention_heads * c.attention_head_dim, ffn_dim=c.ffn_dim,
        freq_dim=c.freq_dim, in_dim=c.in_channels, out_dim=c.out_channels, num_heads=c.num_attention_heads, patch_size=c.patch_size,
        num_layers=c.num_layers, text_len=512, eps=c.eps, text_dim=c.text_dim, cross_attn_norm=c.cross_attn_norm)))
    save_file({_rename(k, _DIT): v.contiguous() for k, v in dit.state_dict().items()}, folder / "diffusion_pytorch_model.safetensors")


def save_original(folder, dit, t5, vae, tokenizer=True):
    folder = pathlib.Path(folder)
    save_original_transformer(folder, dit)
    torch.save({_rename(k, _T5): v for k, v in t5.state_dict().items() if not k.startswith("encoder.embed_tokens")},
               folder / "models_t5_umt5-xxl-enc-bf16.pth")
    per_level = vae.config.num_res_blocks + 1
    torch.save({_vae_name(k, per_level): v for k, v in vae.state_dict().items()}, folder / "Wan2.1_VAE.pth")
    if tokenizer:
        rm.tiny_tokenizer(folder / "google" / "umt5-xxl")


def sinusoid64(timesteps, dim, *args, **kwargs):
    half = dim // 2
    angle = torch.outer(timesteps.to(torch.float64), torch.pow(10000, -torch.arange(half, dtype=torch.float64) / half))
    return torch.cat([torch.cos(angle), torch.sin(angle)], dim=1)


def compare(ctx):
    dit = rm.transformer(ctx.rng, attention_head_dim=128, num_attention_heads=2, in_channels=16, out_channels=16, text_dim=32)
    t5 = rm.text_encoder(ctx.rng, d_model=32)
    vae = rm.vae(ctx.rng, base_dim=12, z_dim=16, latents_mean=[0.0] * 16, latents_std=[1.0] * 16, num_res_blocks=2)
    folder = ctx.folder / "original"
    save_original(folder, dit, t5, vae)

    inputs = {"hidden_states": torch.randn(1, 16, 2, 6, 4), "timestep": torch.tensor([ctx.rng.uniform(0, 1000)]),
              "encoder_hidden_states": torch.randn(1, 512, 32)}
    inputs["encoder_hidden_states"][:, 9:] = 0
    y = ctx.stage("transformer", folder, inputs)["sample"]
    original = embeddings.get_timestep_embedding
    embeddings.get_timestep_embedding = sinusoid64
    try:
        with torch.no_grad():
            r32 = dit(**inputs).sample
            with float64():
                wide = {k: v.double() for k, v in inputs.items()}
                r64 = dit.double()(**wide).sample
    finally:
        embeddings.get_timestep_embedding = original
    ctx.check("original layout: transformer, float64 sinusoid", y, r64, r32, 5e-6)

    ids = torch.randint(3, 90, (1, 21))
    y = ctx.stage("text-encoder", folder, {"input_ids": ids})["last_hidden_state"]
    latents = torch.randn(1, 16, 2, 3, 2)
    decoded = ctx.stage("vae-decode", folder, {"latents": latents})["decoded"]
    with torch.no_grad():
        t32, d32 = t5(ids).last_hidden_state, vae.decode(latents).sample
        with float64():
            t64, d64 = t5.double()(ids).last_hidden_state, vae.double().decode(latents.double()).sample
    ctx.check("original layout: text encoder from .pth", y, t64, t32, 5e-6)
    ctx.check("original layout: VAE decode from .pth", decoded, d64, d32, 1e-5)
