#!/usr/bin/env python3
"""Makes folders of models that generate videos block by block, of true shape with random weights, for timing only. PyTorch is not needed.

    bench/peers/world_model.py FOLDER --shape universal|self-forcing|small|tiny [--seed N]

    universal     Matrix-Game 2's universal model and Wan 2.1's VAE (3.5 GB), without CLIP, whose rows are then given
    self-forcing  Self-Forcing 1.3B, the VAE, a umT5 of one layer (3.3 GB)
    small         the sizes of the world that ships (training/steer/net.py), with the VAE of models/sprites
    tiny          that with less of everything, for tests of scripts

No weight is zero, not even those that the original initialises with zeros (head, proj_mouse, proj_keyboard): with a last layer of zeros every output
would be the same. Values are bfloat16; a matrix has the spread that keeps its outputs as large as its inputs. Files are written under temporary names
first."""
import argparse
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPRITES = ROOT / "models" / "sprites"
BLOCK = 1 << 22  # number of random values from which all tensors are cut

ACTIONS = dict(keyboard=4, mouse=2, hidden=128, keyboard_hidden=1024, mouse_hidden=1024, heads=16, blocks=range(15))
SHAPES = {
    "universal": dict(dim=1536, heads=12, layers=30, ffn=8960, freq=256, image=1280, text=0, window=6, actions=ACTIONS, vae=96),
    "self-forcing": dict(dim=1536, heads=12, layers=30, ffn=8960, freq=256, image=0, text=4096, window=21, actions=None, vae=96),
    "small": dict(dim=256, heads=2, layers=6, ffn=704, freq=256, image=128, text=0, window=12, vae=16,
                  actions=dict(keyboard=4, mouse=2, hidden=32, keyboard_hidden=192, mouse_hidden=192, heads=3, blocks=range(3)),
                  world=dict(kind="universal", width=160, height=96, fps=12, mouse_step=0.1, timesteps=[1000, 500], shift=1, block=1, first_block=1, window=12)),
    "tiny": dict(dim=64, heads=1, layers=2, ffn=96, freq=32, image=32, text=0, window=4, vae=16,
                 actions=dict(keyboard=4, mouse=2, hidden=16, keyboard_hidden=64, mouse_hidden=64, heads=1, blocks=range(1)),
                 world=dict(kind="universal", width=64, height=48, fps=12, mouse_step=0.1, timesteps=[1000, 500], shift=1, block=2, first_block=2, window=4)),
}


def bf16(value):
    """Returns the two bytes of each bfloat16, little end first."""
    return struct.pack("<I", struct.unpack("<I", struct.pack("<f", value))[0] + 0x8000)[2:]


class Values:
    """Random values of any spread, cut from one block."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.rng, self.codes, self.made = rng, rng.randbytes(BLOCK), {}
        bell = statistics.NormalDist()
        self.bell = [bell.inv_cdf((i + 0.5) / 256) for i in range(256)]

    def block(self, mean, spread):
        key = (mean, spread)
        if key not in self.made:
            pairs = [bf16(mean + spread * v) for v in self.bell]
            out = bytearray(2 * BLOCK)
            for i in range(2):
                out[i::2] = self.codes.translate(bytes(p[i] for p in pairs))
            self.made[key] = memoryview(bytes(out))
        return self.made[key]

    def write(self, file, count, mean, spread):
        block, at = self.block(mean, spread), self.rng.randrange(BLOCK)
        while count > 0:
            n = min(count, BLOCK - at)
            file.write(block[2 * at: 2 * (at + n)])
            count, at = count - n, 0


def kind_of(name, shape):
    """Returns the mean and the spread of a tensor's values."""
    if name.endswith("modulation"):
        return 0.0, 0.3
    if "gamma" in name or "norm" in name and name.endswith("weight") or len(shape) == 1 and name.endswith("weight"):
        return 1.0, 0.125
    if len(shape) == 1:
        return 0.0, 0.0625
    return 0.0, math.prod(shape[1:]) ** -0.5


def write_safetensors(path, shapes, values, metadata=None):
    header, offset = {"__metadata__": metadata} if metadata else {}, 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            values.write(file, math.prod(shape), *kind_of(name, shape))
    os.replace(part, path)


def transformer(s):
    """Returns names and shapes as published."""
    dim, ffn, out, a = s["dim"], s["ffn"], {}, s["actions"]

    def linear(name, rows, columns, bias=True):
        out[name + ".weight"] = (rows, columns)
        if bias:
            out[name + ".bias"] = (rows,)

    def norm(name, size, bias=True):
        out[name + ".weight"] = (size,)
        if bias:
            out[name + ".bias"] = (size,)

    out["patch_embedding.weight"], out["patch_embedding.bias"] = (dim, 36 if a else 16, 1, 2, 2), (dim,)
    linear("time_embedding.0", dim, s["freq"])
    linear("time_embedding.2", dim, dim)
    linear("time_projection.1", 6 * dim, dim)
    if s["text"]:
        linear("text_embedding.0", dim, s["text"])
        linear("text_embedding.2", dim, dim)
    else:
        norm("img_emb.proj.0", s["image"])
        linear("img_emb.proj.1", s["image"], s["image"])
        linear("img_emb.proj.3", dim, s["image"])
        norm("img_emb.proj.4", dim)
    for i in range(s["layers"]):
        b = f"blocks.{i}."
        out[b + "modulation"] = (1, 6, dim)
        for part in ("self_attn", "cross_attn"):
            for name in "qkvo":
                linear(f"{b}{part}.{name}", dim, dim)
            norm(f"{b}{part}.norm_q", dim, False)
            norm(f"{b}{part}.norm_k", dim, False)
        norm(b + "norm3", dim)
        linear(b + "ffn.0", ffn, dim)
        linear(b + "ffn.2", dim, ffn)
        if a and i in a["blocks"]:
            m, keys, mouse = b + "action_model.", a["keyboard_hidden"], a["mouse_hidden"]
            linear(m + "keyboard_embed.0", a["hidden"], a["keyboard"])
            linear(m + "keyboard_embed.2", a["hidden"], a["hidden"])
            linear(m + "keyboard_attn_kv", 2 * keys, 12 * a["hidden"], False)
            linear(m + "mouse_attn_q", keys, dim, False)
            linear(m + "proj_keyboard", dim, keys, False)
            linear(m + "mouse_mlp.0", mouse, dim + 12 * a["mouse"])
            linear(m + "mouse_mlp.2", mouse, mouse)
            norm(m + "mouse_mlp.3", mouse)
            linear(m + "t_qkv", 3 * mouse, mouse, False)
            linear(m + "proj_mouse", dim, mouse, False)
            for name, width in (("key", keys), ("img", mouse)):
                norm(f"{m}{name}_attn_q_norm", width // a["heads"], False)
                norm(f"{m}{name}_attn_k_norm", width // a["heads"], False)
    linear("head.head", 64, dim)
    out["head.modulation"] = (1, 2, dim)
    return out


def config(s):
    a, dim = s["actions"], s["dim"]
    out = {"_class_name": "CausalWanModel", "model_type": "i2v" if a else "t2v", "dim": dim, "ffn_dim": s["ffn"], "freq_dim": s["freq"], "in_dim": 36 if a else 16,
           "out_dim": 16, "num_heads": s["heads"], "num_layers": s["layers"], "local_attn_size": s["window"], "sink_size": 0, "eps": 1e-6, "text_len": 512,
           "cross_attn_norm": True}
    if s["text"]:
        out["text_dim"] = s["text"]
    if a:
        out["action_config"] = {
            "blocks": list(a["blocks"]), "enable_keyboard": True, "enable_mouse": True, "heads_num": a["heads"], "hidden_size": a["hidden"],
            "img_hidden_size": dim, "keyboard_dim_in": a["keyboard"], "keyboard_hidden_dim": a["keyboard_hidden"], "mouse_dim_in": a["mouse"],
            "mouse_hidden_dim": a["mouse_hidden"], "mouse_qk_dim_list": [8, 28, 28], "patch_size": [1, 2, 2], "qk_norm": True, "qkv_bias": False,
            "rope_dim_list": [8, 28, 28], "rope_theta": 256, "vae_time_compression_ratio": 4, "windows_size": 3}
    return out


def read_header(path):
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(size)), 8 + size


def vae(base):
    """Returns (config, names and shapes) of the VAE of models/sprites, with its width of 16 replaced by `base` (Wan 2.1's is 96)."""
    made = json.loads((SPRITES / "vae" / "config.json").read_text())
    header, _ = read_header(SPRITES / "vae" / "diffusion_pytorch_model.safetensors")
    header.pop("__metadata__", None)
    of_latents = ("quant_conv", "post_quant_conv")

    def scaled(name, shape):
        fixed = [i for i, d in enumerate(shape) if i > 1 or d in (1, 3)]
        if name.startswith(of_latents):
            fixed = range(len(shape))
        elif name == "decoder.conv_in.weight":
            fixed = [*fixed, 1]
        elif name.startswith("encoder.conv_out"):
            fixed = [*fixed, 0]
        return [d if i in fixed else d * base // made["base_dim"] for i, d in enumerate(shape)]
    shapes = {name: scaled(name, entry["shape"]) for name, entry in header.items()}
    return made | {"base_dim": base}, shapes


def write_vae(path, s, values):
    """Writes one file with its config in the header. With the shipped width it gets the shipped VAE's values, so that nothing grows without bound."""
    made, shapes = vae(s["vae"])
    if s["vae"] != 16:
        return write_safetensors(path, shapes, values, {"config": json.dumps(made)})
    source = SPRITES / "vae" / "diffusion_pytorch_model.safetensors"
    header, data = read_header(source)
    header["__metadata__"] = {"config": json.dumps(made)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = path.with_name(path.name + ".part")
    part.write_bytes(len(text).to_bytes(8, "little") + text + source.read_bytes()[data:])
    os.replace(part, path)


def write_text_encoder(folder, width, values):
    """Writes a umT5 of one layer of the given width, with the vocabulary of models/sprites."""
    made = json.loads((SPRITES / "text_encoder" / "config.json").read_text())
    made |= {"d_model": width, "d_ff": 64, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2, "d_kv": 64}
    header, _ = read_header(SPRITES / "text_encoder" / "model.safetensors")
    sizes = {"SelfAttention.o.weight": (width, 128), "SelfAttention.relative_attention_bias.weight": (32, 2), "DenseReluDense.wo.weight": (width, 64)}
    shapes = {}
    for name, entry in header.items():
        if name == "__metadata__" or "block." in name and "block.0." not in name:
            continue
        end = ".".join(name.split(".")[-3:])
        if name.endswith("norm.weight"):
            shapes[name] = (width,)
        elif "DenseReluDense.wi" in name:
            shapes[name] = (64, width)
        elif end in sizes:
            shapes[name] = sizes[end]
        elif "SelfAttention" in name:
            shapes[name] = (128, width)
        else:
            shapes[name] = (entry["shape"][0], width)  # size of the vocabulary
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(made, indent=1))
    write_safetensors(folder / "model.safetensors", shapes, values)


def make(folder, shape, seed=0):
    s, values = SHAPES[shape], Values(seed)
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if s["text"]:  # diffusers' layout
        for name in ("transformer", "vae"):
            (part / name).mkdir()
        (part / "transformer" / "config.json").write_text(json.dumps(config(s), indent=1))
        write_safetensors(part / "transformer" / "diffusion_pytorch_model.safetensors", transformer(s), values)
        made, shapes = vae(s["vae"])
        (part / "vae" / "config.json").write_text(json.dumps(made, indent=1))
        write_safetensors(part / "vae" / "diffusion_pytorch_model.safetensors", shapes, values)
        write_text_encoder(part / "text_encoder", s["text"], values)
        for name in ("tokenizer", "scheduler"):
            shutil.copytree(SPRITES / name, part / name)
        shutil.copyfile(SPRITES / "model_index.json", part / "model_index.json")
    else:  # the original's layout
        (part / "config.json").write_text(json.dumps(config(s), indent=1))
        write_safetensors(part / "diffusion_pytorch_model.safetensors", transformer(s), values)
        write_vae(part / "Wan2.1_VAE.safetensors", s, values)
    if "world" in s:
        (part / "generation_config.json").write_text(json.dumps({"world": s["world"]}, indent=1))
    os.replace(part, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.folder.exists():
        parser.error(f"{args.folder}: there is something already")
    make(args.folder, args.shape, args.seed)


if __name__ == "__main__":
    main()
