"""Small random models of the true architectures, as component folders in the diffusers layout."""

import json
import math
import random

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel, WanVACETransformer3DModel
from transformers import CLIPVisionConfig, CLIPVisionModel, CLIPVisionModelWithProjection, UMT5Config, UMT5EncoderModel, Wav2Vec2Config, Wav2Vec2ForCTC, Wav2Vec2Model


def _randomise(model, rng):
    """Sets norm weights near 1 and biases and tables to non-zero values, so that a wrong index shows."""
    gen = torch.Generator().manual_seed(rng.randrange(2**31))
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=gen)
            if p.ndim == 1 and name.endswith("weight") or name.endswith("gamma"):
                p.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                p.copy_(0.1 * noise)
            elif name.endswith(("scale_shift_table", "pos_embed")):
                p.copy_(0.3 * noise)
    return model.eval()


def transformer(rng, variant="t2v", **overrides):
    """variant: t2v, i2v (CLIP branch), ti2v (per-token timesteps; same architecture as t2v), vace (control blocks)"""
    torch.manual_seed(rng.randrange(2**31))
    channels = rng.choice([4, 16])
    config = dict(patch_size=(1, 2, 2), num_attention_heads=rng.choice([1, 2, 3]), attention_head_dim=rng.choice([12, 32, 128]),
                  in_channels=channels, out_channels=channels, text_dim=rng.choice([16, 40]), freq_dim=256,
                  ffn_dim=rng.choice([48, 130]), num_layers=rng.choice([1, 3]), cross_attn_norm=True, eps=1e-6)
    if variant == "i2v":
        config.update(in_channels=2 * channels + 4, image_dim=24)
        config["added_kv_proj_dim"] = config["num_attention_heads"] * config["attention_head_dim"]
    if variant == "vace":
        config.update(num_layers=rng.choice([2, 4]), vace_in_channels=2 * channels + 64)
        config["vace_layers"] = rng.choice([[0], list(range(0, config["num_layers"], 2)), list(range(config["num_layers"]))])
    config.update(overrides)
    return _randomise((WanVACETransformer3DModel if variant == "vace" else WanTransformer3DModel)(**config), rng)


def text_encoder(rng, **overrides):
    torch.manual_seed(rng.randrange(2**31))
    config = dict(vocab_size=rng.choice([97, 256]), d_model=rng.choice([32, 40]), d_kv=rng.choice([8, 16]), d_ff=rng.choice([48, 70]),
                  num_layers=rng.choice([1, 3]), num_heads=rng.choice([2, 5]), feed_forward_proj="gated-gelu", dropout_rate=0.0)
    config.update(overrides)
    return _randomise(UMT5EncoderModel(UMT5Config(**config)), rng)


def image_encoder(rng, projection=False, **overrides):
    """Makes CLIP's vision model, of the class in diffusers' pipelines or of the one whose tensor names have a prefix."""
    torch.manual_seed(rng.randrange(2**31))
    config = dict(hidden_act="gelu", image_size=28, patch_size=14)
    config.update(overrides)
    model = (CLIPVisionModelWithProjection if projection else CLIPVisionModel)(CLIPVisionConfig(**config))
    return _randomise(model, rng)


def audio_encoder(rng, head=False, **overrides):
    """Makes wav2vec2, by itself or with a CTC head, which adds a prefix to tensor names. The weights are so large that every part has a visible
    effect."""
    torch.manual_seed(rng.randrange(2**31))
    config = dict(vocab_size=11, conv_dim=[16] * 7)
    config.update(overrides)
    model = _randomise((Wav2Vec2ForCTC if head else Wav2Vec2Model)(Wav2Vec2Config(**config)), rng)
    gen = torch.Generator().manual_seed(rng.randrange(2**31))
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=gen)
            if name.endswith("original0"):  # weight norm's gains, one for each tap
                p.copy_(math.sqrt(model.config.hidden_size / p.numel()) * (1 + 0.3 * noise))
            elif p.ndim >= 2:
                p.copy_(noise * math.sqrt((2 if "conv_layers" in name else 1) / p[0].numel()))
    return model.eval()


def vae(rng, **overrides):
    torch.manual_seed(rng.randrange(2**31))
    z = overrides.get("z_dim", rng.choice([4, 16]))
    config = dict(base_dim=rng.choice([8, 12, 16]), z_dim=z, dim_mult=[1, 2, 4, 4], num_res_blocks=rng.choice([1, 2]), attn_scales=[],
                  temperal_downsample=[False, True, True], dropout=0.0,
                  latents_mean=[round(rng.uniform(-1, 1), 4) for _ in range(z)],
                  latents_std=[round(rng.uniform(0.5, 3), 4) for _ in range(z)])
    config.update(overrides)
    return _randomise(AutoencoderKLWan(**config), rng)


def tiny_tokenizer(folder, vocab_size=64):
    """Writes a unigram tokenizer.json of letters and a few words, which is enough to tokenise any English prompt."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["▁", -3.0]]
    words = ["▁a", "▁red", "▁the", "▁cat", "ing", "▁moves", "ar"]
    pieces += [[w, -4.0 - 0.1 * i] for i, w in enumerate(words)]
    pieces += [[chr(c), -6.0 - 0.01 * i] for i, c in enumerate(range(ord("a"), ord("z") + 1))]
    pieces += [[chr(0x4E00 + i), -9.0 - 0.01 * i] for i in range(vocab_size - len(pieces))]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [
            {"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for i, t in enumerate(["<pad>", "</s>", "<unk>"])],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                           "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                           "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": pieces, "byte_fallback": False},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>",
         "model_max_length": 512}))


def fresh_rng(seed):
    return random.Random(seed)
