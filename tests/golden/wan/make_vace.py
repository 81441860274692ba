"""Makes golden files of VACE's control blocks, from diffusers' WanVACETransformer3DModel in float64.

    python tests/golden/wan/make_vace.py              (torch 2.11.0, diffusers 0.42.1, transformers 5.23.0, safetensors)

    <case>/config.json, diffusion_pytorch_model.safetensors   a small random transformer as save_pretrained writes it
    <case>.safetensors    its inputs and sample, as make.py's; beside them control_hidden_states, control_hidden_states_scale,
                          sample_without (scale 0: what the same inputs give without the control) and sample_ones (no scale given)
"""

import pathlib
import random
import sys

import torch
from diffusers import WanVACETransformer3DModel
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import random_models as rm  # noqa: E402
from precision import error, float64  # noqa: E402

torch.set_num_threads(1)

SMALL = dict(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4, text_dim=12, freq_dim=256,
             ffn_dim=30, cross_attn_norm=True, eps=1e-6)

# case: dtype of the file, latents [T, H, W], text rows of each batch item, timesteps, scales, changes to the config
CASES = {
    "vace": (torch.bfloat16, (3, 6, 10), (5, 1), [937.25, 3.0], [1.0, 0.625], dict(num_layers=3, vace_layers=[0, 2], vace_in_channels=7)),
    # one head, a hint after each block and before the head, an odd number of tokens
    "vace_every": (torch.float32, (3, 2, 6), (4,), [412.0], [0.5, -1.5],
                   dict(num_layers=2, vace_layers=[0, 1], vace_in_channels=5, num_attention_heads=1, attention_head_dim=12, ffn_dim=33)),
}


def make(name, seed):
    dtype, (frames, h, w), lengths, timesteps, scales, changes = CASES[name]
    rng = random.Random(seed)
    torch.manual_seed(rng.randrange(2**31))
    model = rm._randomise(WanVACETransformer3DModel(**{**SMALL, **changes}), rng)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype))
    folder = HERE / name
    model.save_pretrained(folder)
    if dtype != torch.float32:
        file = folder / "diffusion_pytorch_model.safetensors"
        save_file({k: v.to(dtype) for k, v in load_file(file).items()}, file)

    torch.manual_seed(seed)
    c, batch = model.config, len(lengths)
    inputs = {"hidden_states": torch.randn(batch, c.in_channels, frames, h, w),
              "encoder_hidden_states": torch.randn(batch, 512, c.text_dim), "timestep": torch.tensor(timesteps),
              "control_hidden_states": torch.randn(batch, c.vace_in_channels, frames, h, w)}
    for b, n in enumerate(lengths):
        inputs["encoder_hidden_states"][b, n:] = 0
    scale = torch.tensor(scales)
    wide = {k: v.double() if k != "timestep" else v for k, v in inputs.items()}
    with torch.no_grad():
        r32 = model(**inputs, control_hidden_states_scale=scale).sample
        with float64():
            model.double()
            r64, ones, without = (model(**wide, control_hidden_states_scale=s).sample for s in (scale.double(), None, 0 * scale.double()))
    assert r64.dtype == torch.float64
    e = error(r32, r64)
    inputs["encoder_hidden_states"] = inputs["encoder_hidden_states"][:, : max(lengths)].contiguous()
    samples = {"sample": r64, "sample_ones": ones, "sample_without": without}
    save_file({**inputs, "control_hidden_states_scale": scale, **{k: v.float().contiguous() for k, v in samples.items()}},
              HERE / f"{name}.safetensors",
              {"reference_float32_error": repr(e), "text_rows": ",".join(map(str, lengths)), "total_rows": "512"})
    print(name, f"{e:.2e}", "max", f"{float(r64.abs().max()):.2f}", "control moves", f"{error(without, r64):.2f}")


for i, name in enumerate(CASES):
    make(name, 60 + i)
