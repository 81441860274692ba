"""Makes golden files of CLIP's vision model and of its input pictures.

    python tests/golden/clip_vision/make.py        (torch 2.11.0, transformers 5.23.0, safetensors, Pillow 13.0, NumPy 2.4; seeds 30, 31)

    <case>/config.json, model.safetensors   a small random CLIPVisionModel as save_pretrained writes it (projected:
                                            CLIPVisionModelWithProjection, whose names have a prefix; weights in bf16)
    <case>.safetensors                      pixel_values, image_embeds = hidden_states[-2] in float64; metadata: the
                                            reference's own float32 error
    pictures/                               raw bytes: <w>x<h>.rgb, a picture; <w>x<h>.processor.f32 and .original.f32:
                                            what CLIPImageProcessorPil (size 28, crop 28) and the original repository's
                                            arithmetic (torch on a CPU with AVX2 or AVX-512) make of it, [3, 28, 28]
"""

import pathlib
import random
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import random_models as rm  # noqa: E402
from clip_pictures import original_pixels, processor, random_picture  # noqa: E402
from precision import error, float64  # noqa: E402

torch.set_num_threads(1)

# case: dtype of the file, pictures of the batch, config
CASES = {
    "plain": (torch.float32, 2, dict(hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3, image_size=28, patch_size=7)),
    "projected": (torch.bfloat16, 1, dict(hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2, image_size=42, patch_size=14,
                                          hidden_act="gelu_pytorch_tanh", projection_dim=16, layer_norm_eps=1e-3)),
}
SIZES = [(53, 37), (28, 28), (31, 90), (7, 5), (200, 64), (28, 56)]


def make(name, seed):
    dtype, batch, config = CASES[name]
    model = rm.image_encoder(random.Random(seed), projection=name == "projected", **config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype))
    folder = HERE / name
    model.save_pretrained(folder)
    if dtype != torch.float32:
        file = folder / "model.safetensors"
        save_file({k: v.to(dtype) for k, v in load_file(file).items()}, file)
    torch.manual_seed(seed)
    pixels = torch.randn(batch, 3, config["image_size"], config["image_size"])
    with torch.no_grad():
        r32 = model(pixels, output_hidden_states=True).hidden_states[-2]
        with float64():
            r64 = model.double()(pixels.double(), output_hidden_states=True).hidden_states[-2]
    assert r64.dtype == torch.float64
    e = error(r32, r64)
    save_file({"pixel_values": pixels, "image_embeds": r64.float().contiguous()}, HERE / f"{name}.safetensors", {"reference_float32_error": repr(e)})
    print(name, list(r64.shape), f"{e:.2e}")


for i, name in enumerate(CASES):
    make(name, 30 + i)
rng, folder = np.random.default_rng(30), HERE / "pictures"
folder.mkdir(exist_ok=True)
for width, height in SIZES:
    image, label = random_picture(rng, width, height), f"{width}x{height}"
    made = {"processor.f32": processor(28)(images=image, return_tensors="pt")["pixel_values"][0], "original.f32": original_pixels(image, 28)}
    (folder / f"{label}.rgb").write_bytes(image.tobytes())
    for ending, pixels in made.items():
        (folder / f"{label}.{ending}").write_bytes(pixels.contiguous().numpy().tobytes())
