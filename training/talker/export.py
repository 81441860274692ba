"""Converts between the parts that training writes (folders of diffusers and transformers) and the model's own files, which have the layout and the
names of the original Wan repository:

    python3 export.py --model models/talker          # parts/ → Wan2.1_VAE.safetensors, models_t5_umt5.safetensors, …
    python3 export.py --model models/talker --back   # and back, to train on or to evaluate with PyTorch

Configs that the original repository writes into its code are in the headers of these files, as `config`.
"""
import argparse
import json
import os
import re
import shutil

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

TEXT = {"layer.0.layer_norm": "norm1", "layer.0.SelfAttention.relative_attention_bias": "pos_embedding.embedding", "layer.0.SelfAttention": "attn",
        "layer.1.layer_norm": "norm2", "layer.1.DenseReluDense.wi_0": "ffn.gate.0", "layer.1.DenseReluDense.wi_1": "ffn.fc1",
        "layer.1.DenseReluDense.wo": "ffn.fc2"}
RESIDUAL = {"norm1": "residual.0", "conv1": "residual.2", "norm2": "residual.3", "conv2": "residual.6", "conv_shortcut": "shortcut"}


def text_name(name):
    """Returns the original's name for transformers' name of a umT5 tensor."""
    top = {"shared.weight": "token_embedding.weight", "encoder.final_layer_norm.weight": "norm.weight"}
    if name in top:
        return top[name]
    block, rest = re.fullmatch(r"encoder\.block\.(\d+)\.(.+)", name).groups()
    for a, b in TEXT.items():
        if rest.startswith(a + "."):
            return f"blocks.{block}.{b}{rest[len(a):]}"
    raise KeyError(name)


def vae_name(name):
    """Returns the original's name for diffusers' name of a tensor of Wan 2.1's VAE."""
    if name.startswith(("quant_conv.", "post_quant_conv.")):
        return name.replace("post_quant_conv", "conv2").replace("quant_conv", "conv1")
    coder, rest = name.split(".", 1)
    for a, b in (("conv_in.", "conv1."), ("norm_out.", "head.0."), ("conv_out.", "head.2."), ("mid_block.attentions.0.", "middle.1.")):
        if rest.startswith(a):
            return f"{coder}.{b}{rest[len(a):]}"
    residual = lambda tail: next(b + tail[len(a):] for a, b in RESIDUAL.items() if tail.startswith(a + "."))
    if m := re.fullmatch(r"mid_block\.resnets\.(\d)\.(.+)", rest):
        return f"{coder}.middle.{2 * int(m[1])}.{residual(m[2])}"
    if m := re.fullmatch(r"down_blocks\.(\d+)\.((?:resample|time_conv)\..+)", rest):
        return f"encoder.downsamples.{m[1]}.{m[2]}"
    if m := re.fullmatch(r"down_blocks\.(\d+)\.(.+)", rest):
        return f"encoder.downsamples.{m[1]}.{residual(m[2])}"
    if m := re.fullmatch(r"up_blocks\.(\d+)\.resnets\.(\d+)\.(.+)", rest):
        return f"decoder.upsamples.{4 * int(m[1]) + int(m[2])}.{residual(m[3])}"
    if m := re.fullmatch(r"up_blocks\.(\d+)\.upsamplers\.0\.(.+)", rest):
        return f"decoder.upsamples.{4 * int(m[1]) + 3}.{m[2]}"
    raise KeyError(name)


PARTS = [("text_encoder", "models_t5_umt5.safetensors", "model.safetensors", text_name),
         ("vae", "Wan2.1_VAE.safetensors", "diffusion_pytorch_model.safetensors", vae_name),
         ("image_encoder", "models_clip_vision.safetensors", "model.safetensors", None)]


DEFAULTS = {"height": 128, "width": 128, "num_inference_steps": 8, "guidance_scale": 1.0, "audio_guidance_scale": 1.0, "flow_shift": 3.0, "window_frames": 33, "color_correction": 0.0,
            "negative_prompt": "", "infinitetalk": "infinitetalk.safetensors"}


def there(model):
    for part, file, weights, rename in PARTS:
        source = os.path.join(model, "parts", part)
        tensors = load_file(os.path.join(source, weights))
        tensors.pop("encoder.embed_tokens.weight", None)  # the same tensor as shared.weight
        with open(os.path.join(source, "config.json")) as f:
            config = json.load(f)
        renamed = {(rename(k) if rename else k): v.to(torch.bfloat16).contiguous() for k, v in tensors.items()}
        assert len(renamed) == len(tensors)
        save_file(renamed, os.path.join(model, file), {"format": "pt", "config": json.dumps(config, separators=(",", ":"))})
    ears = os.path.join(model, "audio_encoder")
    shutil.rmtree(ears, ignore_errors=True)
    shutil.copytree(os.path.join(model, "parts", "audio_encoder"), ears)
    with open(os.path.join(ears, "preprocessor_config.json"), "w") as f:
        json.dump({"do_normalize": True, "feature_extractor_type": "Wav2Vec2FeatureExtractor", "feature_size": 1, "padding_side": "right",
                   "padding_value": 0.0, "return_attention_mask": False, "sampling_rate": 16000}, f, indent=2)
        f.write("\n")
    with open(os.path.join(model, "generation_config.json"), "w") as f:
        json.dump(DEFAULTS, f, indent=2)
        f.write("\n")
    for folder, _, files in os.walk(model):
        for file in files:
            os.chmod(os.path.join(folder, file), 0o644)


def back(model):
    """Converts back; the names come from fresh modules of the same configs."""
    import vae
    from transformers import CLIPVisionConfig, CLIPVisionModel, UMT5Config, UMT5EncoderModel
    from diffusers import AutoencoderKLWan
    for part, file, _, rename in PARTS:
        path = os.path.join(model, file)
        with safe_open(path, "pt") as f:
            config = json.loads(f.metadata()["config"])
        made = (UMT5EncoderModel(UMT5Config.from_dict(config)) if part == "text_encoder" else AutoencoderKLWan.from_config(config) if part == "vae"
                else CLIPVisionModel(CLIPVisionConfig.from_dict(config)))
        tensors = load_file(path)
        state = made.state_dict()
        wanted = {k: tensors[rename(k) if rename else k] for k in state if k != "encoder.embed_tokens.weight"}
        missing = made.load_state_dict(wanted, strict=False)
        assert not missing.unexpected_keys and set(missing.missing_keys) <= {"encoder.embed_tokens.weight"}, missing
        made.to(torch.bfloat16).save_pretrained(os.path.join(model, "parts", part))
    ears = os.path.join(model, "parts", "audio_encoder")
    shutil.rmtree(ears, ignore_errors=True)
    shutil.copytree(os.path.join(model, "audio_encoder"), ears)


if __name__ == "__main__":
    import net  # finds the folder above
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--model", default="models/talker")
    a.add_argument("--back", action="store_true")
    args = a.parse_args()
    (back if args.back else there)(args.model)
