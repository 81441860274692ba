"""The convolution in 8 bits of Wan's VAE: its codes and results compared with PyTorch's in float64, the inputs that it refuses, and the VAE modules in
e4m3 compared with themselves in their own dtype, on the model that ships."""

import json
import pathlib

import pytest
import torch
import torch.nn.functional as F

import tachyscope
from conftest import DEVICE
from tachyscope import ops
from tachyscope.vae import _codes

E4M3 = DEVICE == "cpu" or torch.cuda.get_device_capability() >= (8, 9)
KINDS = ["int8"] * (DEVICE == "cpu" or torch.cuda.get_device_capability() >= (8, 0)) + ["float8_e4m3fn"] * E4M3
TOPS = {"int8": 127.0, "float8_e4m3fn": 448.0}
MODEL = pathlib.Path(__file__).parents[2] / "models/sprites"
needs_e4m3 = pytest.mark.skipif(not E4M3, reason="this GPU has no products in e4m3")


def apart(one, other):
    return ((one.double() - other.double()).norm() / other.double().norm()).item()


def frames_of(*shape, dtype=torch.float32):
    """Random frames [frames, C, H, W] with channels last."""
    return torch.randn(shape).to(dtype).contiguous(memory_format=torch.channels_last)


def rounded(x, kind):
    return x.round() if kind == "int8" else x.to(torch.float8_e4m3fn).to(x.dtype)


def normed(x, gamma, silu=True):
    y = F.normalize(x.double(), dim=1) * x.shape[1] ** 0.5 * gamma.double()[:, None, None]
    return F.silu(y) if silu else y


def convolved(codes, weight, clips):
    """A causal convolution of frames [clips · frames, C, H, W], in float64."""
    x = codes.double().unflatten(0, (clips, -1)).transpose(1, 2)
    y = F.conv3d(F.pad(x, (1, 1, 1, 1, 2, 0)), weight.double())
    return y.transpose(1, 2).flatten(0, 1)


def made(kind, ci, co, frames, clips=2, size=(5, 9)):
    """Returns (x, its codes, its scale, weight, codes and scales of the weight, what the codes of the weight stand for)."""
    x, gamma = frames_of(clips * frames, ci, *size), torch.rand(ci) + 0.5
    weight = torch.randn(co, ci, 3, 3, 3) / (27 * ci) ** 0.5
    scale = ci ** 0.5 * gamma.max().item() / TOPS[kind]
    codes = ops.channel_norm_codes(x, gamma, scale, dtype=kind)
    weight_codes, scales = ops.conv3d_codes_of(weight, scale, kind)
    stands_for = weight_codes[:, :, :ci].double().transpose(1, 2).unflatten(2, (3, 3, 3)) * scales.double()[:, None, None, None, None]
    return x, gamma, codes, scale, weight, weight_codes, scales, stands_for


@pytest.mark.parametrize("silu", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_codes_of_a_norm(kind, dtype, silu):
    x, gamma = frames_of(3, 40, 5, 7, dtype=dtype), torch.rand(40) + 0.5
    scale = 40 ** 0.5 * gamma.max().item() / TOPS[kind]
    codes = ops.channel_norm_codes(x, gamma, scale, silu=silu, dtype=kind)
    assert codes.dtype == getattr(torch, kind) and codes.is_contiguous(memory_format=torch.channels_last)
    exact = normed(x, gamma, silu) / scale
    # A value near the middle of two codes may become either of them.
    step = torch.ones_like(exact) if kind == "int8" else exact.abs().clamp_min(2.0 ** -6).log2().floor().exp2() / 8
    assert ((codes.double() - exact).abs() <= (0.5 + 1e-3) * step).all()
    other = ops.channel_norm_codes(x.contiguous(), gamma, scale, silu=silu, dtype=kind)  # channels first
    assert torch.equal(other.view(torch.int8), codes.view(torch.int8))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ci, co, frames", [(32, 64, 1), (64, 32, 4), (96, 96, 3), (48, 40, 2)] + [(20, 24, 5)] * (DEVICE == "cpu"))
def test_sums(kind, ci, co, frames):
    """The residual's dtype is the result's, clips do not see each other, and only sums in float32 and one rounding are between this and float64."""
    if kind == "int8" and DEVICE != "cpu" and ci % 32:
        pytest.skip("a GPU's int8 takes channels in multiples of 32")
    dtype = torch.bfloat16 if DEVICE != "cpu" else torch.float32
    _, _, x, _, _, codes, scales, weight = made(kind, ci, co, frames)
    bias, residual = torch.randn(co), frames_of(2 * frames, co, 5, 9, dtype=dtype)
    exact = convolved(x, weight, 2) + bias.double()[:, None, None]
    y = ops.scaled_conv3d(x, codes, scales, bias, frames=frames, residual=residual)
    assert y.dtype == dtype and y.is_contiguous(memory_format=torch.channels_last)
    # Hopper's products of e4m3 add with about 14 bits, and a GPU's results are bfloat16.
    assert apart(y, exact + residual.double()) < (1e-6 if DEVICE == "cpu" else 8e-3)
    y = ops.scaled_conv3d(x, codes, scales, frames=frames)
    assert y.dtype == torch.bfloat16 and apart(y, exact - bias.double()[:, None, None]) < 8e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [96, 224])  # the norm of more than 192 channels is a pass of its own on a GPU
def test_the_next_norms_codes(kind, channels):
    _, _, x, _, _, codes, scales, weight = made(kind, 64, channels, 3)
    bias, gamma = torch.randn(channels), torch.rand(channels) + 0.5
    next_scale = channels ** 0.5 * gamma.max().item() / TOPS[kind]
    y = ops.scaled_conv3d(x, codes, scales, bias, frames=3, gamma=gamma, next_scale=next_scale)
    assert y.dtype == getattr(torch, kind)
    exact = normed(convolved(x, weight, 2) + bias.double()[:, None, None], gamma)
    assert apart(y.double() * next_scale, exact) < (0.04 if kind == "float8_e4m3fn" else 0.1)
    differs = (y.double() - rounded(exact / next_scale, kind)).abs() > 0
    assert differs.float().mean() < (1e-3 if DEVICE == "cpu" else 0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_a_clip(kind):
    """A frame's bits do not depend on how many frames follow it, as in a clip that is longer than one call takes."""
    _, _, x, _, _, codes, scales, _ = made(kind, 64, 64, 6, clips=1)
    whole = ops.scaled_conv3d(x, codes, scales, frames=6)
    part = ops.scaled_conv3d(x[:4], codes, scales, frames=4)
    assert torch.equal(whole[:4], part)


def test_compiled():
    kind = KINDS[-1]
    x, gamma, _, scale, _, codes, scales, _ = made(kind, 32, 32, 2)

    def call(x):
        y = ops.channel_norm_codes(x, gamma, scale, dtype=kind)
        y = ops.scaled_conv3d(y, codes, scales, frames=2, gamma=gamma, next_scale=scale)
        return ops.scaled_conv3d(y, codes, scales, frames=2)

    with torch.no_grad():
        y = torch.compile(call, fullgraph=True, backend="aot_eager")(x)
        assert torch.equal(y, call(x))


def test_without_values():
    """The fake functions and the ops describe the same results."""
    kind = KINDS[-1]
    x, gamma, c, scale, _, codes, scales, _ = made(kind, 32, 64, 2)
    for gamma_after in (None, torch.ones(64)):
        args = (c.view(torch.int8), codes.view(torch.int8), scales, None, None, gamma_after, 2, 1.0, True, kind != "int8")
        torch.library.opcheck(torch.ops.tachyscope.scaled_conv3d.default, args, test_utils=("test_schema", "test_faketensor"))
    torch.library.opcheck(torch.ops.tachyscope.channel_norm_codes.default, (x, gamma, scale, True, kind != "int8"),
                          test_utils=("test_schema", "test_faketensor"))


@pytest.mark.parametrize("call, text", [
    (lambda x, w, s, r: ops.scaled_conv3d(x.contiguous(), w, s, frames=2), r"expected x \[4, 32, 5, 9\] with its channels last"),
    (lambda x, w, s, r: ops.scaled_conv3d(x, w, s, frames=3), "scaled_conv3d: expected frames that divide 4, got 3"),
    (lambda x, w, s, r: ops.scaled_conv3d(x, w, s, frames=0), "expected frames that divide 4, got 0"),
    (lambda x, w, s, r: ops.scaled_conv3d(x, w[:, :9], s, frames=2), r"expected codes i8 \[out, 27, 32\] contiguous beside 32 channels"),
    (lambda x, w, s, r: ops.scaled_conv3d(x, w, s[1:], frames=2), r"expected scales \[64\], got \[63\]"),
    (lambda x, w, s, r: ops.scaled_conv3d(x, w, s, s[1:], frames=2), r"expected bias \[64\], got \[63\]"),
    (lambda x, w, s, r: ops.scaled_conv3d(x, w, s, frames=2, residual=r[1:]), r"expected residual \[4, 64, 5, 9\], got \[3, 64, 5, 9\]"),
    (lambda x, w, s, r: ops.scaled_conv3d(x, w, s, frames=2, gamma=s, next_scale=0), "expected a next_scale above 0, got 0"),
    (lambda x, w, s, r: ops.scaled_conv3d(x.float(), w, s, frames=2), "of codes i8, got .* f32"),
    (lambda x, w, s, r: ops.scaled_conv3d(x, w.view(torch.float8_e4m3fn), s, frames=2), "codes of one kind, got x in int8 and codes in e4m3"),
    (lambda x, w, s, r: ops.scaled_conv3d(x, w, s.clone().requires_grad_(), frames=2), "expected no tensor that requires grad"),
    (lambda x, w, s, r: ops.channel_norm_codes(r, s, 0.0), "channel_norm_codes: expected a scale above 0, got 0"),
    (lambda x, w, s, r: ops.channel_norm_codes(r, s, 1.0, dtype="int4"), "expected dtype to be one of 'int8', 'float8_e4m3fn', got 'int4'"),
    (lambda x, w, s, r: ops.channel_norm_codes(r[0], s, 1.0), r"expected x \[frames, channels, height, width\]"),
    (lambda x, w, s, r: ops.conv3d_codes_of(r, 1.0), r"conv3d_codes_of: expected weight \[out, in, 3, 3, 3\] of floats"),
    (lambda x, w, s, r: ops.conv3d_codes_of(torch.ones(1, 1, 3, 3, 3), 0.0), "expected an x_scale above 0, got 0.0")])
def test_bad_input(call, text):
    x = frames_of(4, 32, 5, 9).round().to(torch.int8)
    with pytest.raises(ValueError, match=text):
        call(x, torch.ones(64, 27, 32, dtype=torch.int8), torch.ones(64), frames_of(4, 64, 5, 9))


@pytest.mark.cpu
def test_arrays_of_numpy_are_refused():
    import numpy
    with pytest.raises(TypeError, match="expected x to be a tensor of torch, got ndarray"):
        ops.channel_norm_codes(numpy.zeros((1, 4, 2, 2), "float32"), numpy.zeros(4, "float32"), 1.0)


def shipped(dtype, use_fp8, last=True):
    """The VAE of the model that ships; its blocks from 32 channels on take codes."""
    from safetensors.torch import load_file

    config = json.loads((MODEL / "vae/config.json").read_text())
    vae = tachyscope.vae.create_wan2_1_vae(config["z_dim"], last, use_fp8, base=config["base_dim"])
    vae.load_state_dict(load_file(MODEL / "vae/diffusion_pytorch_model.safetensors"))
    mean, deviation = (torch.tensor(config[key]).view(-1, 1, 1, 1) for key in ("latents_mean", "latents_std"))
    return vae.to(DEVICE, dtype).eval(), mean, deviation


def decibels(one, other):
    """The PSNR of frames in [-1, 1]."""
    return (10 * torch.log10(4 / (one.double().clamp(-1, 1) - other.double().clamp(-1, 1)).square().mean())).item()


@needs_e4m3
def test_frames_of_the_shipped_model():
    """In float32 the bound is that of the engine's own test of the same frames, 48 dB; rounding to bfloat16 alone leaves 59 dB."""
    from safetensors.torch import load_file

    latents = load_file(MODEL / "golden/generation.safetensors")["latents"].to(DEVICE)
    wide, mean, deviation = shipped(torch.float32, False)
    latents = (latents.reshape(1, *latents.shape[-4:]) * deviation + mean)[:, :, :2]
    with torch.no_grad():
        right, own = wide.decode(latents), shipped(torch.bfloat16, False)[0].decode(latents)
        vae = shipped(torch.bfloat16, True)[0]
        got = vae.decode(latents)
        print(f"{decibels(own, right):.1f} dB in bfloat16, {decibels(got, right):.1f} in e4m3, {decibels(got, own):.1f} between them")
        assert 47 <= decibels(got, right) <= 80 and 47 <= decibels(got, own) <= 80
        assert torch.equal(vae.enable_fp8(False).decode(latents), own), "the switch"
        # Float32 parameters, channels first: on a GPU the rest is then computed in bfloat16, on a CPU in float32.
        got = shipped(torch.float32, True, last=False)[0].decode(latents)
        print(f"{decibels(got, right):.1f} in e4m3 with parameters in float32")
        assert (48 if DEVICE == "cpu" else 47) <= decibels(got, right) <= 80


@needs_e4m3
def test_latents_of_the_shipped_model():
    """The engine's bound: latents off by at most 3 % of their norm."""
    from safetensors.torch import load_file

    file = load_file(MODEL / "golden/vae-encode.safetensors")
    video = file["video"].to(DEVICE)
    dtype = torch.float32 if DEVICE == "cpu" else torch.bfloat16
    with torch.no_grad():
        got, own = (shipped(dtype, fp8)[0].encode(video)[0] for fp8 in (True, False))
        right = file["mean"].to(DEVICE).view_as(got)
    assert apart(own, right) < (1e-4 if DEVICE == "cpu" else 0.03)
    assert 1e-4 < apart(got, own) < 0.03 and apart(got, right) < 0.04


@needs_e4m3
@pytest.mark.parametrize("create", [tachyscope.vae.create_wan2_1_vae, tachyscope.vae.create_wan2_2_vae])
def test_ways_of_use(create, monkeypatch):
    """Codes follow the weights, gradients are those of the usual blocks, an image is one frame, and compiled code has the codes of a call before."""
    small = dict(z_channels=4, base=32) | ({"decoder_base": 32} if create is tachyscope.vae.create_wan2_2_vae else {})
    torch.manual_seed(0)
    vae = create(use_fp8=True, **small).to(DEVICE, torch.bfloat16)
    plain = create(**small).to(DEVICE, torch.bfloat16)
    plain.load_state_dict(vae.state_dict())
    clip = torch.rand(2, 3, 5, 32, 32) * 2 - 1
    calls = []
    conv = ops.scaled_conv3d
    monkeypatch.setattr(ops, "scaled_conv3d", lambda *args, **options: calls.append(1) or conv(*args, **options))
    with torch.no_grad():
        got, own = vae.encode(clip)[0], plain.encode(clip)[0]
        assert calls and 1e-4 < apart(got, own) < 0.15
        if create is tachyscope.vae.create_wan2_1_vae:
            assert apart(torch.compile(vae.encode, backend="eager", fullgraph=True)(clip)[0], got) < 0.02
        image = vae.encode(clip[:, :, 0])[0]
        assert image.shape == plain.encode(clip[:, :, 0])[0].shape and torch.equal(image, vae.encode(clip[:, :, :1])[0][:, :, 0])
        for parameter in vae.parameters():
            parameter.mul_(1.5)
        after = vae.encode(clip)[0]
        assert apart(after, got) > 0.1
        plain.load_state_dict(vae.state_dict())
        assert apart(after, plain.encode(clip)[0]) < 0.15
    calls.clear()
    assert torch.equal(vae.encode(clip)[0], plain.encode(clip)[0]) and not calls, "with gradients"


def test_what_a_device_cannot_do(monkeypatch):
    """GPUs before 8.9 and float16 beside a GPU's codes are refused by name; nothing is asked where gradients are recorded."""
    weight = torch.zeros(1, device="cpu")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    with pytest.raises(NotImplementedError, match="use_fp8 needs a GPU of compute capability 8.9 or newer, and this one is 8.0; use_amp"):
        _codes.wants_bfloat16(weight, torch.device("cuda"))
    assert not _codes.wants_bfloat16(weight.requires_grad_(), torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    with torch.no_grad():
        assert _codes.wants_bfloat16(weight, torch.device("cuda")) and not _codes.wants_bfloat16(weight.bfloat16(), torch.device("cuda"))
        with pytest.raises(ValueError, match="use_fp8 expects parameters in bfloat16 or float32 on a GPU, got torch.float16"):
            _codes.wants_bfloat16(weight.half(), torch.device("cuda"))
    assert not _codes.wants_bfloat16(weight, torch.device("cpu"))
