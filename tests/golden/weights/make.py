"""Makes the golden weights files and name lists of tests/unit/weights.

Everything here comes from the reference libraries: torch 2.11.0, safetensors, diffusers 0.42.1, transformers 5.23.0
(seed 7). Values are not random where a formula is easier to check: element i of a tensor is (i - 5) / 4.

    python make.py            # writes beside itself

Name lists hold one "diffusers name<TAB>shape" per line, sorted; models are built on the meta device, at full size.
"""
import json
import zipfile
from collections import OrderedDict
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
torch.set_num_threads(1)
torch.manual_seed(7)


def ramp(dtype, *shape):
    count = 1
    for extent in shape:
        count *= extent
    return ((torch.arange(count, dtype=torch.float32) - 5) / 4).reshape(shape).to(dtype)


def all_dtypes():
    return {
        "f32": ramp(torch.float32, 2, 3),
        "f16": ramp(torch.float16, 7),
        "bf16": ramp(torch.bfloat16, 3, 1, 5),
        "f64": ramp(torch.float64, 3),
        "f8_e4m3": ramp(torch.float8_e4m3fn, 9),
        "f8_e5m2": ramp(torch.float8_e5m2, 9),
        "i64": torch.arange(-2, 3),
        "i32": torch.arange(-2, 3, dtype=torch.int32),
        "i16": torch.arange(-2, 3, dtype=torch.int16),
        "i8": torch.arange(-2, 3, dtype=torch.int8),
        "u8": torch.tensor([0, 255, 128], dtype=torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "rank6": ramp(torch.float32, 1, 2, 1, 3, 1, 2),
    }


def safetensors_files():
    save_file(all_dtypes(), HERE / "dtypes.safetensors", metadata={"format": "pt", "note": "x \u00e9"})
    first, second = {"a.weight": ramp(torch.float32, 2, 2)}, {"b.weight": ramp(torch.bfloat16, 4)}
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    folder = HERE / "sharded"
    folder.mkdir(exist_ok=True)
    save_file(first, folder / names[0])
    save_file(second, folder / names[1])
    index = {"metadata": {"total_size": 24}, "weight_map": {"a.weight": names[0], "b.weight": names[1]}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


class Marker:
    """Pickles as a call of os.system, which a loader must refuse to run."""

    def __reduce__(self):
        import os

        return (os.system, ("touch executed-by-pickle",))


def torch_files():
    tensors = OrderedDict(all_dtypes())
    base = ramp(torch.float32, 4, 3)
    tensors["row"] = base[2]  # a view with a storage offset
    tensors["tied"] = base
    tensors["transposed"] = base.t()
    tensors["parameter"] = torch.nn.Parameter(ramp(torch.float32, 3))
    torch.save(tensors, HERE / "dtypes.pth")
    torch.save(tensors, HERE / "protocol4.pth", pickle_protocol=4)
    linear = torch.nn.Linear(2, 2)
    with torch.no_grad():
        linear.weight.copy_(ramp(torch.float32, 2, 2))
        linear.bias.copy_(ramp(torch.float32, 2))
    torch.save({"state_dict": linear.state_dict(), "epoch": 3, "loss": 0.5, "big": 2**40, "list": [1, None, (True,)]},
               HERE / "wrapped.pth")
    torch.save({"generator": {"x": ramp(torch.float32, 2)}, "generator_ema": {"x": ramp(torch.float32, 3)}},
               HERE / "generator.pth")
    torch.save({"x": ramp(torch.float32, 2)}, HERE / "legacy.pth", _use_new_zipfile_serialization=False)
    torch.save({"x": ramp(torch.float32, 2), "y": Marker()}, HERE / "os_system.pth")
    torch.save({"x": ramp(torch.float32, 2)}, HERE / "tiny.pth")
    # Python's zipfile writes the same archive without zip64 records, and deflated.
    source = zipfile.ZipFile(HERE / "tiny.pth")
    for name, method in (("plain_zip.pth", zipfile.ZIP_STORED), ("deflated.pth", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(HERE / name, "w", method) as out:
            for item in source.namelist():
                out.writestr(zipfile.ZipInfo(item), source.read(item), compress_type=method)


def write_names(path, model):
    lines = [f"{name}\t{list(value.shape)}" for name, value in sorted(model.state_dict().items())]
    (HERE / path).write_text("\n".join(lines) + "\n")


def write_pairs(path, pairs, published):
    """Writes lines of "original name<TAB>published name"; the published names must be those of the whole reference model."""
    expected = {line.split("\t")[0] for line in (HERE / published).read_text().splitlines()}
    assert {b for _, b in pairs} == expected, sorted({b for _, b in pairs} ^ expected)[:9]
    (HERE / path).write_text("\n".join(f"{a}\t{b}" for a, b in sorted(pairs)) + "\n")


def converted(convert, names):
    """Pairs original with diffusers names by running a diffusers converter on numbered tensors."""
    checkpoint = {name: torch.full((1,), float(i)) for i, name in enumerate(names)}
    return [(names[int(value.item())], name) for name, value in convert(checkpoint).items()]


def dit_original_names(layers, image):
    linear = [f"{m}.{p}" for m in ("patch_embedding", "text_embedding.0", "text_embedding.2", "time_embedding.0",
                                   "time_embedding.2", "time_projection.1", "head.head") for p in ("weight", "bias")]
    names = linear + ["head.modulation"]
    if image:
        names += [f"img_emb.proj.{i}.{p}" for i in (0, 1, 3, 4) for p in ("weight", "bias")]
    for i in range(layers):
        block = [f"{a}.{m}.{p}" for a in ("self_attn", "cross_attn") for m in "qkvo" for p in ("weight", "bias")]
        block += [f"{a}.norm_{m}.weight" for a in ("self_attn", "cross_attn") for m in "qk"]
        block += [f"{m}.{p}" for m in ("norm3", "ffn.0", "ffn.2") for p in ("weight", "bias")] + ["modulation"]
        if image:
            block += [f"cross_attn.{m}.{p}" for m in ("k_img", "v_img") for p in ("weight", "bias")]
            block += ["cross_attn.norm_k_img.weight"]
        names += [f"blocks.{i}.{m}" for m in block]
    return names


def umt5_pairs(layers):
    pairs = [("token_embedding.weight", "shared.weight"), ("norm.weight", "encoder.final_layer_norm.weight")]
    for i in range(layers):
        attention, feed = f"encoder.block.{i}.layer.0", f"encoder.block.{i}.layer.1"
        inner = [("norm1", f"{attention}.layer_norm"), ("norm2", f"{feed}.layer_norm"),
                 ("pos_embedding.embedding", f"{attention}.SelfAttention.relative_attention_bias"),
                 ("ffn.gate.0", f"{feed}.DenseReluDense.wi_0"), ("ffn.fc1", f"{feed}.DenseReluDense.wi_1"),
                 ("ffn.fc2", f"{feed}.DenseReluDense.wo")]
        inner += [(f"attn.{m}", f"{attention}.SelfAttention.{m}") for m in "qkvo"]
        pairs += [(f"blocks.{i}.{a}.weight", f"{b}.weight") for a, b in inner]
    return pairs


def original_names():
    from diffusers.loaders.single_file_utils import (convert_wan_transformer_to_diffusers,
                                                     convert_wan_vae_to_diffusers)

    convert = convert_wan_transformer_to_diffusers
    write_pairs("dit_t2v_original.txt", converted(convert, dit_original_names(30, False)), "dit_t2v_1_3b.txt")
    image_pairs = converted(convert, dit_original_names(40, True))  # the converter does not know emb_pos
    image_pairs.append(("img_emb.emb_pos", "condition_embedder.image_embedder.pos_embed"))
    write_pairs("dit_i2v_original.txt", image_pairs, "dit_i2v_14b.txt")
    # vae21_original.txt, vae22_original.txt list the state dicts of the original Wan2.1 and Wan2.2 VAE classes. The converter for 2.1 must agree; for
    # 2.2 the published names are compared with the diffusers model.
    for stem, convert in (("vae21", convert_wan_vae_to_diffusers), ("vae22", None)):
        pairs = [tuple(line.split("\t")) for line in (HERE / f"{stem}_original.txt").read_text().splitlines()]
        if convert:
            assert sorted(converted(convert, [a for a, _ in pairs])) == sorted(pairs)
        write_pairs(f"{stem}_original.txt", pairs, f"{stem}.txt")
    pairs = umt5_pairs(24) + [("(tied)", "encoder.embed_tokens.weight")]
    write_pairs("umt5_original.txt", pairs, "umt5_xxl.txt")


def model_names():
    from diffusers import AutoencoderKLWan, WanTransformer3DModel
    from transformers import UMT5Config, UMT5EncoderModel

    with torch.device("meta"):
        write_names("dit_t2v_1_3b.txt", WanTransformer3DModel(
            num_attention_heads=12, ffn_dim=8960, num_layers=30))
        write_names("dit_i2v_14b.txt", WanTransformer3DModel(
            num_layers=40, in_channels=36, image_dim=1280, added_kv_proj_dim=5120, pos_embed_seq_len=514))
        write_names("vae21.txt", AutoencoderKLWan())
        write_names("vae22.txt", AutoencoderKLWan(
            base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True, in_channels=12, out_channels=12,
            patch_size=2, scale_factor_spatial=16, latents_mean=[0.0] * 48, latents_std=[1.0] * 48))
        config = UMT5Config(vocab_size=256384, d_model=4096, d_kv=64, d_ff=10240, num_layers=24, num_heads=64,
                            feed_forward_proj="gated-gelu")
        write_names("umt5_xxl.txt", UMT5EncoderModel(config))


def wan_shapes():
    """Writes wan_shapes.json: the tensors of the published transformers with their shapes. Of the blocks, which are alike, only the first is
    listed."""
    from diffusers import WanTransformer3DModel

    image = dict(in_channels=36, image_dim=1280, added_kv_proj_dim=5120)
    configs = {
        "2.1 T2V-1.3B": dict(num_attention_heads=12, ffn_dim=8960, num_layers=30),
        "2.1 T2V-14B": {},
        "2.1 I2V-14B": image,
        "2.1 FLF2V-14B": image | dict(pos_embed_seq_len=514),
        "2.2 TI2V-5B": dict(num_attention_heads=24, ffn_dim=14336, num_layers=30, in_channels=48, out_channels=48),
        "2.2 I2V-A14B": dict(in_channels=36),
        "no norm before cross-attention": dict(num_attention_heads=2, ffn_dim=64, num_layers=2, cross_attn_norm=False,
                                               text_dim=32, freq_dim=16, patch_size=(2, 1, 4)),
    }
    out = {}
    for name, config in configs.items():
        with torch.device("meta"):
            model = WanTransformer3DModel(**config)
        kept = {k: list(v.shape) for k, v in sorted(model.state_dict().items()) if not k.startswith("blocks.") or k.startswith("blocks.0.")}
        full = {k: v for k, v in model.config.items() if not k.startswith("_")}
        out[name] = {"config": full, "tensors": kept}
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in out.items())
    (HERE / "wan_shapes.json").write_text("{" + lines + "}\n")


if __name__ == "__main__":
    wan_shapes()
    safetensors_files()
    torch_files()
    model_names()
    original_names()
