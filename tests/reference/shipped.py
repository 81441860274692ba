"""The small models that ship in the original layout (models/world, models/talker) as PyTorch's modules: diffusers', transformers',
causal.py's and infinitetalk.py's, with the weights in those folders. Nothing of the engine is used."""

import json
import re

import causal
import infinitetalk
import layouts
import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from diffusers.loaders.single_file_utils import convert_wan_vae_to_diffusers
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import CLIPVisionConfig, CLIPVisionModel, PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel, Wav2Vec2Config, Wav2Vec2Model


def tensors_and_config(file):
    """Returns the tensors in float32, and the config in the file's header."""
    with safe_open(file, "pt") as f:
        header = f.metadata() or {}
    return {k: v.float() for k, v in load_file(file).items()}, json.loads(header.get("config", "{}"))


def filled(model, tensors):
    model.load_state_dict(tensors)
    return model.eval()


def vae(folder):
    tensors, config = tensors_and_config(folder / "Wan2.1_VAE.safetensors")
    return filled(AutoencoderKLWan.from_config(config), convert_wan_vae_to_diffusers(tensors))


def eyes(folder):
    tensors, config = tensors_and_config(folder / "models_clip_vision.safetensors")
    model = CLIPVisionModel(CLIPVisionConfig(**config))
    prefix = "" if "embeddings.class_embedding" in model.state_dict() else "vision_model."
    return filled(model, {prefix + k: v for k, v in tensors.items()} | {k: v for k, v in model.state_dict().items() if k.endswith("position_ids")})


def ears(folder):
    config = Wav2Vec2Config.from_pretrained(folder / "audio_encoder")
    config.dtype = None
    return filled(Wav2Vec2Model(config), {k: v.float() for k, v in load_file(folder / "audio_encoder" / "model.safetensors").items()})


def causal_transformer(folder):
    c = json.loads((folder / "config.json").read_text())
    a = c["action_config"]
    actions = dict(keyboard=a["keyboard_dim_in"], mouse=a.get("mouse_dim_in", 0), hidden=a["hidden_size"], keyboard_hidden=a["keyboard_hidden_dim"],
                   mouse_hidden=a["mouse_hidden_dim"], heads=a["heads_num"], theta=float(a["rope_theta"]))
    tensors, _ = tensors_and_config(folder / "diffusion_pytorch_model.safetensors")
    model = causal.CausalWan(dim=c["dim"], heads=c["num_heads"], layers=c["num_layers"], ffn=c["ffn_dim"], channels=c["in_dim"], out_channels=c["out_dim"],
                             text_dim=0, image_dim=tensors["img_emb.proj.1.weight"].shape[0], freq_dim=c["freq_dim"], eps=c["eps"], actions=actions,
                             action_blocks=a["blocks"])
    return filled(model, tensors), c["local_attn_size"]


def original_name(name):
    """Returns the original's name for a tensor of diffusers' transformer."""
    for pattern, replacement in layouts._DIT:
        name = re.sub(pattern, replacement, name)
    return name


def transformer(folder):
    c = json.loads((folder / "config.json").read_text())
    tensors, _ = tensors_and_config(folder / "diffusion_pytorch_model.safetensors")
    model = WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=c["num_heads"], attention_head_dim=c["dim"] // c["num_heads"], in_channels=c["in_dim"],
                                  out_channels=c["out_dim"], text_dim=c["text_dim"], freq_dim=c["freq_dim"], ffn_dim=c["ffn_dim"], num_layers=c["num_layers"],
                                  cross_attn_norm=True, eps=c["eps"], image_dim=tensors["img_emb.proj.1.weight"].shape[0], added_kv_proj_dim=c["dim"])
    return filled(model, {k: tensors[original_name(k)].view(v.shape) for k, v in model.state_dict().items()})


def talker(folder):
    """Loads InfiniteTalk's branch onto the transformer."""
    tensors, _ = tensors_and_config(folder / "infinitetalk.safetensors")
    width, hidden = tensors["audio_proj.norm.weight"].numel(), tensors["audio_proj.proj2.weight"].shape[0]
    layers, tokens = tensors["audio_proj.proj1.weight"].shape[1] // (5 * width), tensors["audio_proj.proj3.weight"].shape[0] // width
    made = infinitetalk.Talker(transformer(folder), layers=layers, width=width, hidden=hidden, tokens=tokens)
    own = {}
    for name in made.branch_state():
        m = re.match(r"blocks\.(\d+)\.(norm_x|audio_cross_attn)\.(.*)", name)
        own[{"norm_x": f"norms.{m[1]}.{m[3]}", "audio_cross_attn": f"attentions.{m[1]}.{m[3]}"}[m[2]] if m else name] = tensors.pop(name)
    assert not tensors, list(tensors)
    missing, unknown = made.load_state_dict(own, strict=False)
    assert not unknown and all(k.startswith("transformer.") for k in missing), (missing, unknown)
    return made.eval()


def text_encoder(folder):
    tensors, config = tensors_and_config(folder / "models_t5_umt5.safetensors")
    config.pop("dtype")
    model = UMT5EncoderModel(UMT5Config(**config))
    names = {k: layouts._rename(k, layouts._T5) for k in model.state_dict()}
    names["encoder.embed_tokens.weight"] = names["shared.weight"]
    return filled(model, {k: tensors[name] for k, name in names.items()}), PreTrainedTokenizerFast.from_pretrained(folder / "google" / "umt5-xxl")


def encode_prompt(model, tokenizer, text):
    """Returns [1, 512, width]: the rows of the prompt followed by zeros."""
    ids = tokenizer([text], padding="max_length", max_length=512, truncation=True, return_attention_mask=True, return_tensors="pt")
    rows = model(ids.input_ids, ids.attention_mask).last_hidden_state[:, : int(ids.attention_mask.sum())]
    return torch.cat([rows, torch.zeros(1, 512 - rows.shape[1], rows.shape[2], dtype=rows.dtype)], 1)
