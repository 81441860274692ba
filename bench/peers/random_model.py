"""Makes a model folder of Wan2.1's shape (1.3B or 14B) with random weights (bfloat16 transformer, base 96 VAE), for timing and for repeatability
tests. The umT5 is only a placeholder, since nothing in bench/peers runs it. The weights are made on a GPU if there is one.

    bench/peers/random_model.py FOLDER [--shape 14B] [--layers 30] [--two-files]

A14B and A14B-I2V have two experts (Wan2.2), transformer/ and transformer_2/. Each is loaded separately in any case; on
disk the second is a link to the first, which saves 28 GB, unless --two-files asks for other weights.
"""

import argparse
import json
import pathlib
import sys

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from transformers import UMT5Config, UMT5EncoderModel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference"))
import true_shape  # noqa: E402

BIG = dict(num_attention_heads=40, ffn_dim=13824, num_layers=40)
SHAPES = {"1.3B": dict(num_layers=30), "14B": BIG, "A14B": BIG, "A14B-I2V": {**BIG, "in_channels": 36}}


def make_transformer(config):
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        dit = true_shape.randomise(WanTransformer3DModel(**config))
    torch.set_default_dtype(torch.float32)
    return dit


def add_second_expert(folder, config, pictured, two_files):
    second = folder / "transformer_2"
    if two_files:
        make_transformer(config).save_pretrained(second)
    else:
        second.symlink_to("transformer")
    file = folder / "model_index.json"
    index = json.loads(file.read_text())
    index.update(transformer_2=index["transformer"], boundary_ratio=0.9 if pictured else 0.875)
    if pictured:
        index.update(_class_name="WanImageToVideoPipeline", image_encoder=[None, None], image_processor=[None, None])
    file.write_text(json.dumps(index))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shape", choices=SHAPES, default="1.3B")
    parser.add_argument("--layers", type=int, help="default: the shape's")
    parser.add_argument("--two-files", action="store_true", help="of two experts, weights of their own for the second")
    args = parser.parse_args()
    config = {**true_shape.DIT, **SHAPES[args.shape]}
    if args.layers:
        config["num_layers"] = args.layers
    torch.manual_seed(0)
    dit = make_transformer(config)
    t5 = UMT5EncoderModel(UMT5Config(**{**true_shape.UMT5, "vocab_size": 512, "num_layers": 1, "num_heads": 2, "d_ff": 64}))
    true_shape.save_diffusers(args.folder, dit, true_shape.randomise(t5), true_shape.randomise(AutoencoderKLWan()))
    if args.shape.startswith("A14B"):
        del dit
        add_second_expert(args.folder, config, args.shape.endswith("I2V"), args.two_files)


if __name__ == "__main__":
    main()
