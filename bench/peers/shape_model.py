"""Makes a model folder of the true shapes of Wan 2.1, or of Wan 2.2's TI2V-5B, without values, for `--plan` and `--plan --gpu`: the files are sparse and take kilobytes on the disk.

    bench/peers/shape_model.py FOLDER [--shape 1.3B|14B|14B-talk|5B] [--gguf Q4_0|Q5_0|Q8_0]
    tachyscope generate "a cat" --model FOLDER --size 1280x720 --plan --gpu h200

--gguf also writes the transformer as FOLDER/transformer.gguf, whose matrices have that type:

    tachyscope generate "a cat" --model FOLDER/transformer.gguf --text-encoder FOLDER --vae FOLDER --size 832x480 --max-vram 8GiB --plan --gpu 4090

14B-talk is the image-to-video model with CLIP's vision model, InfiniteTalk's file and a wav2vec2 beside it:

    tachyscope talk --photo me.jpg --audio speech.wav --model FOLDER --infinitetalk FOLDER/infinitetalk.safetensors --plan --gpu a100
"""

import argparse
import json
import math
import pathlib
import shutil
import struct
import sys

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from transformers import CLIPVisionConfig, CLIPVisionModel, UMT5Config, UMT5EncoderModel, Wav2Vec2Config, Wav2Vec2Model

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "reference"))
import true_shape  # noqa: E402
from whole import WAN22_VAE  # noqa: E402

SHIPPED = HERE.parents[1] / "models" / "sprites"
BIG = dict(num_attention_heads=40, ffn_dim=13824, num_layers=40)
SHAPES = {
    "1.3B": dict(num_layers=30),
    "14B": BIG,
    "14B-talk": dict(**BIG, in_channels=36, image_dim=1280, added_kv_proj_dim=5120),
    "5B": dict(num_attention_heads=24, ffn_dim=14336, num_layers=30, in_channels=48, out_channels=48),
}
SIZES = {"BF16": 2, "F32": 4}
GGUF = {"Q4_0": (2, 18), "Q5_0": (6, 22), "Q8_0": (8, 34)}  # a type's number, and the bytes of 32 values
GGUF_F32, GGUF_ALIGNMENT = 0, 32


def write_sparse(path, shapes, dtype):
    """Writes a safetensors file with these names and shapes; all values are zeros, which take no room on the disk."""
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape) * SIZES[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + offset)


def write_sparse_gguf(path, shapes, kind):
    """Writes a GGUF file whose matrices are of this type and whose other tensors are F32; all values are zeros."""
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    head, offset = struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), 1) + text("general.architecture") + struct.pack("<I", 8) + text("wan"), 0
    for name, shape in shapes.items():
        number, bytes_of_32 = GGUF[kind] if len(shape) == 2 and shape[1] % 32 == 0 else (GGUF_F32, 128)
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), number, offset)
        offset += -(-(math.prod(shape) * bytes_of_32 // 32) // GGUF_ALIGNMENT) * GGUF_ALIGNMENT
    head += bytes(-len(head) % GGUF_ALIGNMENT)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + offset)


def add(folder, part, model, dtype, file="diffusion_pytorch_model.safetensors"):
    write_sparse(folder / part / file, {name: tuple(t.shape) for name, t in model.state_dict().items()}, dtype)
    config = dict(model.config) if part in ("transformer", "vae") else model.config.to_dict()
    config["_class_name"] = type(model).__name__
    (folder / part / "config.json").write_text(json.dumps(config, default=str))


def infinitetalk(layers=40, dim=5120, width=768, states=12, hidden=512, tokens=32):
    shapes = {}

    def linear(name, out, inputs):
        shapes[name + ".weight"], shapes[name + ".bias"] = (out, inputs), (out,)

    def norm(name, size):
        shapes[name + ".weight"], shapes[name + ".bias"] = (size,), (size,)

    linear("audio_proj.proj1", hidden, 5 * states * width)
    linear("audio_proj.proj1_vf", hidden, 8 * states * width)
    linear("audio_proj.proj2", hidden, hidden)
    linear("audio_proj.proj3", tokens * width, hidden)
    norm("audio_proj.norm", width)
    for i in range(layers):
        norm(f"blocks.{i}.norm_x", dim)
        linear(f"blocks.{i}.audio_cross_attn.q_linear", dim, dim)
        linear(f"blocks.{i}.audio_cross_attn.kv_linear", 2 * dim, width)
        linear(f"blocks.{i}.audio_cross_attn.proj", dim, dim)
    return shapes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shape", choices=SHAPES, default="1.3B")
    parser.add_argument("--gguf", choices=GGUF)
    args = parser.parse_args()
    folder, talks = args.folder, args.shape.endswith("talk")
    folder.mkdir(parents=True)
    with torch.device("meta"):
        transformer = WanTransformer3DModel(**{**true_shape.DIT, **SHAPES[args.shape]})
        add(folder, "transformer", transformer, "BF16")
        add(folder, "vae", AutoencoderKLWan(**(WAN22_VAE if args.shape == "5B" else {})), "F32")
        umt5 = UMT5EncoderModel(UMT5Config(**{**true_shape.UMT5, "num_layers": 24}))
        add(folder, "text_encoder", umt5, "BF16", "model.safetensors")
        if talks:
            vision = CLIPVisionConfig(hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=16, patch_size=14,
                                      hidden_act="gelu")
            add(folder, "image_encoder", CLIPVisionModel(vision), "BF16", "model.safetensors")
            add(folder, "audio_encoder", Wav2Vec2Model(Wav2Vec2Config()), "F32", "model.safetensors")
    if args.gguf:
        write_sparse_gguf(folder / "transformer.gguf", {name: tuple(t.shape) for name, t in transformer.state_dict().items()}, args.gguf)
    if talks:
        write_sparse(folder / "infinitetalk.safetensors", infinitetalk(), "BF16")
    index = json.loads((SHIPPED / "model_index.json").read_text())
    index["expand_timesteps"] = args.shape == "5B"
    if talks:
        index.update(_class_name="WanImageToVideoPipeline", image_encoder=["transformers", "CLIPVisionModel"],
                     image_processor=["transformers", "CLIPImageProcessor"])
    (folder / "model_index.json").write_text(json.dumps(index))
    for part in ("scheduler", "tokenizer"):
        shutil.copytree(SHIPPED / part, folder / part)


if __name__ == "__main__":
    main()
