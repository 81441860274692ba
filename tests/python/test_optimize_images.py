"""Tests `optimize` on the parts of image models: GroupNorm with SiLU in residual blocks and VAEs, and the layout of their results."""

import copy

import pytest
import torch
from torch import nn

import small_models
import tachyscope

LAYOUTS = {
    "contiguous": torch.randn(2, 8, 3, 5), "channels last": torch.randn(2, 8, 3, 5).to(memory_format=torch.channels_last),
    "a clip": torch.randn(2, 8, 2, 3, 5).to(memory_format=torch.channels_last_3d), "tokens": torch.randn(2, 5, 8).transpose(1, 2),
    "frames before channels": torch.randn(2, 4, 8, 3, 5).transpose(1, 2), "every second": torch.randn(2, 16, 3, 5)[:, ::2],
    "one value": torch.randn(2, 8, 1, 1).expand(2, 8, 3, 5), "rows": torch.randn(2, 8)}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm_lies_as_torchs(layout, affine):
    norm, x = nn.GroupNorm(4, 8, affine=affine), LAYOUTS[layout].to(torch.get_default_device())
    if affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    expected = norm(x)
    assert tachyscope.optimize(norm, verbose=False).counts() == {"GroupNorm": 1}
    result = norm(x)
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    if x.device.type == "cpu":  # on a GPU torch chooses the layout by its own rules
        assert result.stride() == expected.stride()


@pytest.mark.parametrize("activation", [nn.SiLU(), nn.GELU(), nn.Mish()], ids=lambda module: type(module).__name__)
@pytest.mark.parametrize("layout", ["contiguous", "channels last", "rows"])
def test_activations_lie_as_torchs(activation, layout):
    module, x = copy.deepcopy(activation), LAYOUTS[layout].to(torch.get_default_device())
    expected = module(x)
    assert len(tachyscope.optimize(module, verbose=False).replaced) == 1
    result = module(x)
    torch.testing.assert_close(result, expected)
    assert result.stride() == expected.stride()


def residual_block(**options):
    from diffusers.models.resnet import ResnetBlock2D

    torch.manual_seed(0)
    block = ResnetBlock2D(in_channels=8, out_channels=16, temb_channels=12, groups=4, **options).eval()
    for parameter in block.parameters():
        nn.init.normal_(parameter, mean=0.2, std=0.3)
    return block


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["contiguous", "channels last"])
@pytest.mark.parametrize("level", ["safe", "aggressive"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_residual_block(layout, level, dtype):
    """In 16 bits at level safe nearly every value has the block's own bits; higher levels leave out one
    rounding."""
    block = residual_block().to(dtype, memory_format=layout)
    x, temb = torch.randn(2, 8, 6, 6, dtype=dtype).to(memory_format=layout), torch.randn(2, 12, dtype=dtype)
    with torch.no_grad():
        expected = block(x, temb)
        tachyscope.optimize(block, level, verbose=False)
        result = block(x, temb)
    on_cpu = x.device.type == "cpu"  # on a GPU torch's layouts and last bits differ
    assert result.dtype == dtype and (result.stride() == expected.stride() or not on_cpu)
    other = (result != expected).float().mean()
    if dtype == torch.float32:
        assert (result - expected).abs().max() <= 2e-6 * expected.abs().max()
    else:
        assert not on_cpu or ((other < 0.05) if level == "safe" else (other > 0.05))
        assert (result - expected).abs().max() <= 2e-2 * expected.abs().max()


@pytest.mark.parametrize("options, why", [
    (dict(up=True), "it changes the size of the image"), (dict(down=True), "it changes the size of the image"),
    (dict(time_embedding_norm="scale_shift"), "the time embedding modulates the output of its norm"),
    (dict(non_linearity="gelu"), "its activation is GELU")])
def test_residual_blocks_that_are_left(options, why):
    block = residual_block(**options)
    x, temb = torch.randn(2, 8, 6, 6), torch.randn(2, 12)
    expected = block(x, temb)
    report = tachyscope.optimize(block, verbose=False)
    assert ("", "ResnetBlock2D", why) in report.left
    torch.testing.assert_close(block(x, temb), expected, rtol=1e-5, atol=1e-5)


def test_a_hook_on_the_norm_is_called():
    block = residual_block()
    x, temb, seen = torch.randn(2, 8, 6, 6), torch.randn(2, 12), []
    block.norm2.register_forward_hook(lambda module, args, result: seen.append(result))
    tachyscope.optimize(block, verbose=False)
    block(x, temb)
    assert len(seen) == 1 and seen[0].min() < -0.5, "SiLU gives nothing below -0.28, so this is the norm's own result"


def ltx_vae():
    from diffusers import AutoencoderKLLTXVideo

    once = (1, 1, 1, 1, 1)
    return AutoencoderKLLTXVideo(
        latent_channels=8, block_out_channels=(8,) * 4, decoder_block_out_channels=(8,) * 4, layers_per_block=once,
        decoder_layers_per_block=once, spatio_temporal_scaling=(True, True, False, False), patch_size=1,
        decoder_spatio_temporal_scaling=(True, True, False, False), decoder_inject_noise=(False,) * 5, upsample_factor=(1,) * 4)


def wan_vae():
    from diffusers import AutoencoderKLWan

    return AutoencoderKLWan(base_dim=3, z_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True])


@pytest.mark.parametrize("make, counts", [(ltx_vae, {"SiLU": 12, "RMSNorm": 22}), (wan_vae, {"SiLU": 18})],
                         ids=["LTX-Video", "Wan"])
def test_vaes_of_video(make, counts):
    torch.manual_seed(0)
    model, inputs = make().eval(), dict(sample=torch.randn(1, 3, 9, 16, 16))
    before = small_models.run(model, inputs)
    assert tachyscope.optimize(model, verbose=False).counts() == counts
    after = small_models.run(model, inputs)
    assert after.stride() == before.stride() and (after - before).abs().max() <= small_models.near(model, 5e-6) * before.abs().max()
    tachyscope.restore(model)
    assert torch.equal(small_models.run(model, inputs), before)


def test_vae_by_parts():
    """Tests encoder and decoder alone, with checkpointing and with arguments that only the plain forward knows."""
    model, inputs = small_models.make("VAE")
    x = inputs["sample"]
    plain = copy.deepcopy(model)
    tachyscope.optimize(model, "aggressive", verbose=False)
    latents = model.encode(x).latent_dist.mean
    torch.testing.assert_close(latents, plain.encode(x).latent_dist.mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(model.decode(latents).sample, plain.decode(latents).sample, rtol=1e-5, atol=1e-5)
    gradients = []
    for vae in (model, plain):
        vae.train().enable_gradient_checkpointing()
        vae(x).sample.square().mean().backward()
        gradients.append({name: p.grad for name, p in vae.named_parameters()})
    for name, expected in gradients[1].items():
        torch.testing.assert_close(gradients[0][name], expected, rtol=1e-3, atol=1e-6, msg=lambda text: f"{name}: {text}")
