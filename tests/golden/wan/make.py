"""Makes golden files of the Wan transformer, from diffusers' WanTransformer3DModel in float64.

    python tests/golden/wan/make.py [CASE ...]        (torch 2.11.0, diffusers 0.42.1, transformers 5.23.0, safetensors)

    <case>/config.json, diffusion_pytorch_model.safetensors   a small random transformer as save_pretrained writes it
    <case>.safetensors    its inputs and sample, under diffusers' names (the text without the zero rows that fill it up
                          to 512); metadata: rows of text per batch item, the reference's own float32 error
    <case>_infinitetalk.safetensors   of a case with speech: the tensors of the audio branch, by tests/reference/infinitetalk.py
    sinusoid.safetensors  the time sinusoid: timesteps, diffusers (float32 arithmetic), original (float64 arithmetic)
"""

import pathlib
import random
import sys

import torch
from diffusers.models.embeddings import get_timestep_embedding
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import infinitetalk  # noqa: E402
import layouts  # noqa: E402
import random_models as rm  # noqa: E402
from precision import error, float64  # noqa: E402

torch.set_num_threads(1)

SMALL = dict(num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4, text_dim=16, ffn_dim=50, num_layers=2)

# case: variant, dtype of the file, latents [T, H, W], text rows of each batch item, timesteps, changes to the config
CASES = {
    "t2v": ("t2v", torch.float32, (3, 6, 10), (5, 1), [937.25, 3.0], {}),
    "t2v_bf16": ("t2v", torch.bfloat16, (5, 2, 14), (12, 7), [999.0, 0.0],
                 dict(num_attention_heads=1, attention_head_dim=32, ffn_dim=33, in_channels=6, out_channels=6)),
    "plain_cross": ("t2v", torch.float32, (1, 2, 2), (512,), [500.0],  # one token, no row of padding, no cross norm
                    dict(num_layers=1, cross_attn_norm=False, in_channels=5, out_channels=3, text_dim=4)),
    "i2v": ("i2v", torch.bfloat16, (2, 6, 4), (9, 3), [412.0, 88.0], dict(in_channels=12, added_kv_proj_dim=24)),
    "ti2v": ("ti2v", torch.float32, (3, 4, 6), (6, 2), [937.0, 421.0], {}),
    "flf2v": ("i2v", torch.float32, (2, 4, 6), (4, 8), [777.0, 5.0], dict(in_channels=12, added_kv_proj_dim=24, pos_embed_seq_len=14)),
    "talk": ("i2v", torch.bfloat16, (3, 4, 6), (5, 2), [640.0, 12.0], dict(in_channels=12, added_kv_proj_dim=24)),
}


def sample(model, inputs):
    out = model(**inputs)
    return out if torch.is_tensor(out) else out.sample


# For InfiniteTalk: the number of frames of the clip, and the window's first frame.
SPEECH = {"talk": (14, 3)}


def make(name, seed):
    variant, dtype, (frames, h, w), lengths, timesteps, changes = CASES[name]
    rng = random.Random(seed)
    model = base = rm.transformer(rng, variant, **{**SMALL, **changes})
    if name in SPEECH:
        model = infinitetalk.talker(rng, base, layers=2, width=8, hidden=10, tokens=3)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype))
    folder = HERE / name
    base.save_pretrained(folder)
    if dtype != torch.float32:
        file = folder / "diffusion_pytorch_model.safetensors"
        save_file({k: v.to(dtype) for k, v in load_file(file).items()}, file)
    if name in SPEECH:
        save_file({k: v.to(dtype) for k, v in model.branch_state().items()}, HERE / f"{name}_infinitetalk.safetensors")

    torch.manual_seed(seed)
    c, batch = base.config, len(lengths)
    inputs = {"hidden_states": torch.randn(batch, c.in_channels, frames, h, w),
              "encoder_hidden_states": torch.randn(batch, 512, c.text_dim), "timestep": torch.tensor(timesteps)}
    for b, n in enumerate(lengths):
        inputs["encoder_hidden_states"][b, n:] = 0
    if variant == "ti2v":  # the first frame is given: its tokens are at time 0
        plane = h // 2 * (w // 2)
        inputs["timestep"] = torch.tensor(timesteps)[:, None].repeat(1, frames * plane)
        inputs["timestep"][:, :plane] = 0
    if variant == "i2v":  # first-last-frame models take both images as batch items
        images, rows = (2 * batch, c.pos_embed_seq_len // 2) if c.pos_embed_seq_len else (batch, 9)
        inputs["encoder_hidden_states_image"] = torch.randn(images, rows, c.image_dim)
    if name in SPEECH:  # the second batch item has no speech
        frames_there, start = SPEECH[name]
        inputs["audio_embeds"] = torch.randn(batch, frames_there, 2, 8) * torch.tensor([1.0, 0.0]).view(2, 1, 1, 1)
        inputs["audio_start"] = torch.tensor([start])
    with torch.no_grad():
        r32 = sample(model, inputs)
        with float64():
            r64 = sample(model.double(), {k: v.double() if k not in ("timestep", "audio_start") else v for k, v in inputs.items()})
    assert r64.dtype == torch.float64
    e = error(r32, r64)
    inputs["encoder_hidden_states"] = inputs["encoder_hidden_states"][:, : max(lengths)].contiguous()
    save_file({**inputs, "sample": r64.float().contiguous()}, HERE / f"{name}.safetensors",
              {"reference_float32_error": repr(e), "text_rows": ",".join(map(str, lengths)), "total_rows": "512"})
    print(name, f"{e:.2e}", "max", f"{float(r64.abs().max()):.2f}")


for i, name in enumerate(CASES):
    if name in sys.argv[1:] or len(sys.argv) == 1:
        make(name, 40 + i)
times = torch.tensor([0.0, 1.0, 3.0, 499.5, 937.25, 998.0, 999.0, 1000.0])
save_file({"timesteps": times, "diffusers": get_timestep_embedding(times, 256, flip_sin_to_cos=True, downscale_freq_shift=0),
           "diffusers_40": get_timestep_embedding(times, 40, flip_sin_to_cos=True, downscale_freq_shift=0),
           "original": layouts.sinusoid64(times, 256).float()}, HERE / "sinusoid.safetensors")
