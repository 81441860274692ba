"""Makes model folders of Wan 2.1's true shapes (1.3B, 14B, their VACE models and FastWan's of them, with the whole umT5-xxl and the VAE of base 96), and of
Wan 2.2's A14B, with random weights in bf16, in seconds and with Python alone, for timings on a GPU machine that has neither diffusers nor a network.
A14B's experts are one file, which a program loads twice.

    bench/lab/serve_models.py FOLDER [--models 1.3B 14B 1.3B-VACE 14B-VACE 1.3B-VSA 14B-VSA A14B] [--layers N] [--text-layers N]

Values repeat with a long period: their size is that of trained weights, which is all that a timing needs. The text encoder and the VAE are made once.
"""

import argparse
import array
import json
import math
import multiprocessing
import os
import pathlib
import random
import shutil
import struct

SPRITES = pathlib.Path(__file__).resolve().parents[2] / "models" / "sprites"
DIT = {"1.3B": dict(dim=1536, heads=12, ffn=8960, layers=30), "14B": dict(dim=5120, heads=40, ffn=13824, layers=40)}
# The published VACE models have a control block beside every second block of 1.3B, and beside every fifth of 14B.
DIT.update({"1.3B-VACE": dict(DIT["1.3B"], every=2), "14B-VACE": dict(DIT["14B"], every=5), "A14B": DIT["14B"]})
# FastWan's: a gate on what each block's cubes of tokens take from one another's means.
DIT.update({f"{name}-VSA": dict(DIT[name], gates=True) for name in ("1.3B", "14B")})
PERIOD = 1_000_003  # values; odd, so that no two rows of a matrix are equal
SHARD = 4 << 30


def dit_shapes(dim, ffn, layers, every=None, gates=False, **_):
    shapes = {"patch_embedding.weight": [dim, 16, 1, 2, 2], "patch_embedding.bias": [dim], "proj_out.weight": [64, dim], "proj_out.bias": [64],
              "scale_shift_table": [1, 2, dim]}

    def linear(name, out, inputs):
        shapes.update({name + ".weight": [out, inputs], name + ".bias": [out]})

    for name, out, inputs in (("text_embedder.linear_1", dim, 4096), ("text_embedder.linear_2", dim, dim), ("time_embedder.linear_1", dim, 256),
                              ("time_embedder.linear_2", dim, dim), ("time_proj", 6 * dim, dim)):
        linear("condition_embedder." + name, out, inputs)
    def block(at):
        for attention in ("attn1", "attn2"):
            for product in ("to_q", "to_k", "to_v", "to_out.0"):
                linear(f"{at}.{attention}.{product}", dim, dim)
            for norm in ("norm_q", "norm_k"):
                shapes[f"{at}.{attention}.{norm}.weight"] = [dim]
        linear(at + ".ffn.net.0.proj", ffn, dim)
        linear(at + ".ffn.net.2", dim, ffn)
        shapes.update({at + ".norm2.weight": [dim], at + ".norm2.bias": [dim], at + ".scale_shift_table": [1, 6, dim]})

    for i in range(layers):
        block(f"blocks.{i}")
        if gates:
            linear(f"blocks.{i}.to_gate_compress", dim, dim)
    if every:
        shapes.update({"vace_patch_embedding.weight": [dim, 96, 1, 2, 2], "vace_patch_embedding.bias": [dim]})
        linear("vace_blocks.0.proj_in", dim, dim)
        for i in range(len(range(0, layers, every))):
            block(f"vace_blocks.{i}")
            linear(f"vace_blocks.{i}.proj_out", dim, dim)
    return shapes


def umt5_shapes(layers):
    shapes = {"shared.weight": [256384, 4096], "encoder.final_layer_norm.weight": [4096]}
    for i in range(layers):
        at = f"encoder.block.{i}.layer."
        for product in "qkvo":
            shapes[f"{at}0.SelfAttention.{product}.weight"] = [4096, 4096]
        shapes[at + "0.SelfAttention.relative_attention_bias.weight"] = [32, 64]
        shapes.update({at + "0.layer_norm.weight": [4096], at + "1.layer_norm.weight": [4096]})
        shapes.update({at + "1.DenseReluDense.wi_0.weight": [10240, 4096], at + "1.DenseReluDense.wi_1.weight": [10240, 4096],
                       at + "1.DenseReluDense.wo.weight": [4096, 10240]})
    return shapes


def vae_shapes():
    """Returns those of the small VAE that ships with six times as many channels, which is the published one."""
    with (SPRITES / "vae" / "diffusion_pytorch_model.safetensors").open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    fixed = {"decoder.conv_in": [1], "decoder.conv_out": [0], "encoder.conv_in": [1], "encoder.conv_out": [0], "post_quant_conv": [0, 1], "quant_conv": [0, 1]}
    shapes = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        keep = fixed.get(name.rsplit(".", 1)[0], [])
        shapes[name] = [n if i in keep or i > 1 or n == 1 else 6 * n for i, n in enumerate(tensor["shape"])]
        if name in ("decoder.conv_in.bias", "encoder.conv_in.bias"):
            shapes[name] = [6 * tensor["shape"][0]]
        if name in ("decoder.conv_out.bias", "encoder.conv_out.bias"):
            shapes[name] = tensor["shape"]
    return shapes


def spread_of(name, shape):
    """Returns the mean and the deviation of a tensor's values: as in tests/reference/true_shape.py."""
    if len(shape) == 1 and name.endswith("weight") or name.endswith("gamma"):
        return 1.0, 0.1
    if len(shape) == 1 or "scale_shift_table" in name:
        return 0.0, 0.1
    # Frames get grain of 4 or 5 of 255, for otherwise they are noise, which takes an encoder longer than any film.
    return 0.0, math.prod(shape[1:]) ** -0.5 * (0.06 if name == "decoder.conv_out.weight" else 1)


def to_bf16(values):
    raw = array.array("f", values).tobytes()
    out = bytearray(len(raw) // 2)
    out[0::2], out[1::2] = raw[2::4], raw[3::4]
    return bytes(out)


def write_shard(path, shapes):
    rng = random.Random(str(path.name))
    normal = array.array("f", (rng.gauss(0, 1) for _ in range(PERIOD // 8)))
    header, offset = {}, 0
    for name, shape in shapes.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + 2 * math.prod(shape)]}
        offset += 2 * math.prod(shape)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    blocks = {}
    with path.open("wb", buffering=0) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            mean, deviation = spread_of(name, shape)
            if (mean, deviation) not in blocks:
                blocks[mean, deviation] = to_bf16([mean + deviation * x for x in normal]) * 16
            block, left = blocks[mean, deviation], 2 * math.prod(shape)
            at = 2 * rng.randrange(1000)
            while left:
                left -= file.write(block[at:at + left] if at or left < len(block) else block)
                at = 0


def write_part(folder, shapes, stem, config):
    """Returns the shards' work, and writes everything that is small at once."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    shards, size = [{}], 0
    for name, shape in shapes.items():
        if size > SHARD:
            shards.append({})
            size = 0
        shards[-1][name] = shape
        size += 2 * math.prod(shape)
    if len(shards) == 1:
        return [(folder / (stem + ".safetensors"), shards[0])]
    names = [f"{stem}-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    index = {name: file for file, shard in zip(names, shards) for name in shard}
    total = 2 * sum(math.prod(shape) for shape in shapes.values())
    (folder / (stem + ".safetensors.index.json")).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": index}))
    return [(folder / name, shard) for name, shard in zip(names, shards)]


def config_of(part, **changes):
    return {**json.loads((SPRITES / part / "config.json").read_text()), **changes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", choices=DIT, default=["1.3B", "14B"])
    parser.add_argument("--layers", type=int, help="of the transformers; default: all")
    parser.add_argument("--text-layers", type=int, default=24)
    args = parser.parse_args()
    shared, work = args.folder / "shared", []
    work += write_part(shared / "text_encoder", umt5_shapes(args.text_layers), "model", config_of(
        "text_encoder", d_model=4096, d_ff=10240, num_heads=64, num_layers=args.text_layers, num_decoder_layers=args.text_layers, vocab_size=256384))
    work += write_part(shared / "vae", vae_shapes(), "diffusion_pytorch_model", config_of("vae", base_dim=96))
    for model in args.models:
        folder, shape = args.folder / model, dict(DIT[model])
        shape["layers"] = args.layers or shape["layers"]
        vace = dict(_class_name="WanVACETransformer3DModel", vace_in_channels=96, vace_layers=list(range(0, shape["layers"], shape["every"]))) if "every" in shape else {}
        work += write_part(folder / "transformer", dit_shapes(**shape), "diffusion_pytorch_model", config_of(
            "transformer", num_attention_heads=shape["heads"], ffn_dim=shape["ffn"], num_layers=shape["layers"], text_dim=4096, **vace))
        for part in ("text_encoder", "vae"):
            (folder / part).symlink_to(shared.resolve() / part)
        for part in ("scheduler", "tokenizer"):
            shutil.copytree(SPRITES / part, folder / part)
        index = (SPRITES / "model_index.json").read_text()
        if vace:
            index = index.replace("WanPipeline", "WanVACEPipeline").replace("WanTransformer3D", "WanVACETransformer3D")
        elif model == "A14B":
            (folder / "transformer_2").symlink_to("transformer")
            whole = json.loads(index)
            index = json.dumps({**whole, "transformer_2": whole["transformer"], "boundary_ratio": 0.875})
        (folder / "model_index.json").write_text(index)
    work.sort(key=lambda task: -sum(math.prod(shape) for shape in task[1].values()))
    with multiprocessing.Pool(min(len(work), os.cpu_count())) as pool:
        pool.starmap(write_shard, work, chunksize=1)


if __name__ == "__main__":
    main()
