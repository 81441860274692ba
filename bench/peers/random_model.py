"""A model folder of Wan2.1-1.3B's shape with random weights (bfloat16 transformer, base 96 VAE), for timing only: the umT5
is a token one, since no work of bench/peers runs it.

    bench/peers/random_model.py FOLDER [--layers 30]
"""

import argparse
import pathlib
import sys

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from transformers import UMT5Config, UMT5EncoderModel

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "reference"))
import true_shape  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=30)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    dit = WanTransformer3DModel(**true_shape.DIT, num_layers=args.layers)
    torch.set_default_dtype(torch.float32)
    t5 = UMT5EncoderModel(UMT5Config(**{**true_shape.UMT5, "vocab_size": 512, "num_layers": 1, "num_heads": 2, "d_ff": 64}))
    true_shape.save_diffusers(args.folder, true_shape.randomise(dit), true_shape.randomise(t5), true_shape.randomise(AutoencoderKLWan()))


if __name__ == "__main__":
    main()
