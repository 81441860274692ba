"""Makes golden files of the Wan VAE, from diffusers' AutoencoderKLWan in float64.

    python tests/golden/vae/make.py [case …]   (torch 2.11.0, diffusers 0.42.1, safetensors, numpy; about a minute)

Weights and inputs are not stored: both sides compute them from a hash (splitmix64) of a seed and an index, so that a
case is its config, its list of tensors and the reference's outputs:

    <case>.json          config; tensors [{name, shape, seed, bound, centre}]; inputs; the reference's float32 errors
    <case>.safetensors   decoded [C, T, H, W], mean and logvar [z, T', h, w], float32 (rounded from float64)
    names_wan21.json, names_wan22.json   all tensors of the published models with their shapes

value[i] = centre + bound * (2 u - 1), u = (top 24 bits of hash(seed, i)) / 2^24, float32 arithmetic.
Because the network is causal, the outputs for fewer frames are the first frames of the stored ones (asserted here).
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders import autoencoder_kl_wan
from safetensors.numpy import save_file

torch.set_num_threads(2)
HERE = pathlib.Path(__file__).parent

# The reference upsamples in float32 whatever its dtype, which would round float64.
autoencoder_kl_wan.WanUpsample.forward = torch.nn.Upsample.forward

CASES = {
    "wan21": dict(config=dict(base_dim=8, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2,
                              temperal_downsample=[False, True, True]),
                  latents=(5, 3, 5), video=(13, 24, 40), seed=1000),
    "shallow": dict(config=dict(base_dim=16, z_dim=4, dim_mult=[1, 2, 2], num_res_blocks=1,
                                temperal_downsample=[True, False], latents_mean=[0.5, -1.25, 0.0, 2.0],
                                latents_std=[1.5, 0.75, 2.0, 0.5]),
                    latents=(3, 2, 7), video=(9, 8, 28), seed=2000),
    "wide_decoder": dict(config=dict(base_dim=12, decoder_base_dim=20, z_dim=6, dim_mult=[2, 1, 3], num_res_blocks=2,
                                     temperal_downsample=[True, True], latents_mean=[0.1] * 6, latents_std=[2.0] * 6),
                         latents=(3, 3, 2), video=(9, 20, 12), seed=3000),
    "wan22": dict(config=dict(base_dim=8, decoder_base_dim=12, z_dim=6, dim_mult=[1, 2, 4, 4], num_res_blocks=2,
                              temperal_downsample=[False, True, True], is_residual=True, in_channels=12,
                              out_channels=12, patch_size=2, scale_factor_spatial=16, latents_mean=[-0.3] * 6,
                              latents_std=[0.6] * 6),
                  latents=(3, 2, 3), video=(9, 32, 48), seed=4000),
    # This case has shortcuts that change time and channels at once, which the published decoder lacks.
    "residual": dict(config=dict(base_dim=6, decoder_base_dim=10, z_dim=4, dim_mult=[1, 1, 2, 2], num_res_blocks=1,
                                 temperal_downsample=[True, False, True], is_residual=True, latents_mean=[0.2] * 4,
                                 latents_std=[1.5] * 4),
                     latents=(3, 3, 2), video=(9, 24, 16), seed=5000),
}


def hashed(seed, shape, bound, centre=0.0):
    n = math.prod(shape)
    with np.errstate(over="ignore"):
        z = np.uint64(seed) * np.uint64(1 << 32) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    u = (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0 / (1 << 24)) - np.float32(1)
    return (np.float32(centre) + np.float32(bound) * u).reshape(shape)


def describe(name, shape, seed):
    if name.endswith("gamma"):
        return dict(name=name, shape=shape, seed=seed, bound=0.3, centre=1.0)
    if name.endswith("bias"):
        return dict(name=name, shape=shape, seed=seed, bound=0.25, centre=0.0)
    fan_in = math.prod(shape[1:])
    gain = 1.0 if name == "decoder.conv_out.weight" else 1.5  # so that a few pixels reach the clamp
    return dict(name=name, shape=shape, seed=seed, bound=float(np.float32(gain * math.sqrt(1.0 / fan_in))), centre=0.0)


def error(y, reference):
    return float((y.double() - reference).abs().max() / reference.abs().max())


def names_of(**config):
    with torch.device("meta"):
        vae = AutoencoderKLWan(**config)
    return {k: list(v.shape) for k, v in vae.state_dict().items()}


def run(vae, video, latents):
    posterior = vae.encode(video).latent_dist
    return vae.decode(latents).sample[0], posterior.mean[0], posterior.logvar[0]


def make(name, case):
    vae = AutoencoderKLWan(**case["config"]).eval()
    tensors = [describe(k, list(v.shape), case["seed"] + i) for i, (k, v) in enumerate(vae.state_dict().items())]
    vae.load_state_dict({t["name"]: torch.from_numpy(hashed(t["seed"], t["shape"], t["bound"], t["centre"]))
                         for t in tensors})
    z, patch = case["config"]["z_dim"], case["config"].get("patch_size") or 1
    channels = case["config"].get("in_channels", 3) // patch**2
    inputs = [dict(name="video", shape=[channels, *case["video"]], seed=case["seed"] + 900, bound=1.0, centre=0.0),
              dict(name="latents", shape=[z, *case["latents"]], seed=case["seed"] + 901, bound=2.0, centre=0.0)]
    video, latents = (torch.from_numpy(hashed(t["seed"], t["shape"], t["bound"]))[None] for t in inputs)
    with torch.no_grad():
        single = run(vae, video, latents)
        vae.double()
        video, latents = video.double(), latents.double()
        double = run(vae, video, latents)
        for t in range(1, case["latents"][0]):
            part = vae.decode(latents[:, :, :t]).sample[0]
            assert error(part, double[0][:, : part.shape[1]]) < 1e-13
        for t in range(1, case["video"][0]):
            part = vae.encode(video[:, :, :t]).latent_dist.mean[0]
            assert error(part, double[1][:, : part.shape[1]]) < 1e-13
    labels = ("decoded", "mean", "logvar")
    errors = {k: error(s, d) for k, s, d in zip(labels, single, double)}
    clamped = float((double[0].abs() >= 1).double().mean())
    print(name, errors, f"clamped {clamped:.3f}", {k: (float(d.abs().max()), float(d.std())) for k, d in zip(labels, double)})
    save_file({k: d.float().numpy().copy() for k, d in zip(labels, double)}, HERE / f"{name}.safetensors")
    case_json = dict(config={k: v for k, v in vae.config.items() if not k.startswith("_")}, inputs=inputs,
                     reference_float32_errors=errors, tensors=tensors)
    (HERE / f"{name}.json").write_text(json.dumps(case_json, indent=None, separators=(",", ":")) + "\n")


for name in sys.argv[1:] or CASES:
    make(name, CASES[name])
(HERE / "names_wan21.json").write_text(json.dumps(names_of(), separators=(",", ":")) + "\n")
(HERE / "names_wan22.json").write_text(json.dumps(names_of(
    base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True, in_channels=12, out_channels=12, patch_size=2,
    scale_factor_spatial=16), separators=(",", ":")) + "\n")
