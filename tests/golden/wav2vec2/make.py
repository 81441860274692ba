"""Makes golden files of wav2vec2 at a video's rate.

    python tests/golden/wav2vec2/make.py        (torch 2.11.0, transformers 5.23.0, safetensors; seeds 40, 41)

    <case>/config.json, model.safetensors   a small random model as save_pretrained writes it. base: Wav2Vec2Model; large: the kind
                                            that norms each convolution and norms first in each layer, as Wav2Vec2ForCTC, whose names
                                            have a prefix; its weights in bf16
    <case>.safetensors                      input_values [n]; hidden_states_<frames> [frames, layers, width] in float64: states 1 to
                                            the last. metadata: the reference's own float32 error, the largest of all
"""

import pathlib
import random
import sys

import torch
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import random_models as rm  # noqa: E402
from precision import error  # noqa: E402
from wav2vec2 import both, random_sound  # noqa: E402

torch.set_num_threads(1)

# case: dtype of the file, samples, their level (for base so low that the group norm's eps matters), frames, config
CASES = {
    "base": (torch.float32, 9003, 0.004, [14, 1, 61], dict(hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3,
                                                            num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)),
    "large": (torch.bfloat16, 6400, 0.3, [10], dict(hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
                                                    conv_dim=[8, 16, 8, 16, 24, 16, 16], conv_bias=True, feat_extract_norm="layer", layer_norm_eps=1e-3,
                                                    do_stable_layer_norm=True, num_conv_pos_embeddings=7, num_conv_pos_embedding_groups=2)),
}


def make(name, seed):
    dtype, count, level, frames, config = CASES[name]
    rng = random.Random(seed)
    model = rm.audio_encoder(rng, head=name == "large", **config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype))
    folder = HERE / name
    model.save_pretrained(folder)
    if dtype != torch.float32:
        file = folder / "model.safetensors"
        save_file({k: v.to(dtype) for k, v in load_file(file).items()}, file)
    samples, out, worst = random_sound(rng, count, level), {}, 0
    for n in frames:
        r32, r64 = both(model.float(), samples, n)
        out[f"hidden_states_{n}"], worst = r64.float().contiguous(), max(worst, error(r32, r64))
    save_file({"input_values": samples, **out}, HERE / f"{name}.safetensors", {"reference_float32_error": repr(worst)})
    print(name, {k: list(v.shape) for k, v in out.items()}, f"{worst:.2e}", "differ", [float((v[0] - v[-1]).abs().max()) for v in out.values()])


for i, name in enumerate(CASES):
    make(name, 40 + i)
