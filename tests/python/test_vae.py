"""Tests the VAE modules: their results compared with diffusers' AutoencoderKLWan with the same weights, their gradients, and the inputs that they
refuse."""

import numpy as np
import pytest
import torch

import tachyscope
from conftest import no_default_device
from tachyscope import vae as package

SMALL = {
    "2.1": (dict(z_channels=4, base=8), dict(base_dim=8, z_dim=4)),
    "2.2": (dict(z_channels=6, base=8, decoder_base=16),
            dict(base_dim=8, decoder_base_dim=16, z_dim=6, is_residual=True, in_channels=12, out_channels=12, patch_size=2,
                 scale_factor_spatial=16)),
}
CREATE = {"2.1": package.create_wan2_1_vae, "2.2": package.create_wan2_2_vae}


def pair(version, dtype=torch.float32, **options):
    """Returns (ours, diffusers') with the same random weights."""
    from diffusers import AutoencoderKLWan

    torch.manual_seed(0)
    ours, theirs = (settings for settings in SMALL[version])
    theirs = AutoencoderKLWan(**theirs).eval()
    for name, parameter in theirs.named_parameters():  # norms begin with ones, which would hide a forgotten weight
        if name.endswith("gamma"):
            torch.nn.init.normal_(parameter, 1, 0.3)
    vae = CREATE[version](**ours, **options)
    vae.load_state_dict(theirs.state_dict())
    return vae.to(dtype).eval(), theirs.to(dtype)


def theirs_encode(theirs, x):
    latents = theirs.encode(x).latent_dist
    return latents.mean, latents.logvar


@pytest.mark.parametrize("version", SMALL)
@pytest.mark.parametrize("frames", [1, 5, 9])
@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
@pytest.mark.parametrize("kernels", [False, True], ids=["torch", "ours"])
def test_is_the_reference(version, frames, last, kernels):
    vae, theirs = pair(version, use_channels_last=last, kernels=kernels)
    x = torch.rand(2, 3, frames, 32, 48) * 2 - 1
    with torch.no_grad():
        got, want = vae.encode(x), theirs_encode(theirs, x)
        torch.testing.assert_close(got[0], want[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(got[1].clamp(-30, 20), want[1], rtol=1e-4, atol=1e-5)
        z = want[0] * 3
        decoded = vae.decode(z)
        assert decoded.shape == x.shape
        torch.testing.assert_close(decoded.clamp(-1, 1), theirs.decode(z).sample, rtol=1e-4, atol=1e-5)


@pytest.mark.cpu
@pytest.mark.parametrize("version", SMALL)
def test_in_float64(version):
    vae, theirs = pair(version, torch.float64)
    x = torch.rand(1, 3, 9, 32, 32, dtype=torch.float64) * 2 - 1
    with torch.no_grad():
        torch.testing.assert_close(vae.encode(x)[0], theirs_encode(theirs, x)[0], rtol=1e-9, atol=1e-10)
        # The reference upsamples in float32.
        torch.testing.assert_close(vae.decode(vae.encode(x)[0]).clamp(-1, 1), theirs.decode(vae.encode(x)[0]).sample,
                                   rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("version", SMALL)
def test_channels_stay_last(version):
    """No norm gets a tensor whose channels it would have to move."""
    vae, _ = pair(version)
    turned = []
    for name, module in vae.named_modules():
        if type(module).__name__ == "ChannelNorm":
            module.register_forward_pre_hook(lambda module, inputs, name=name: turned.append(
                (name, inputs[0].is_contiguous(memory_format=torch.channels_last))))
    with torch.no_grad():
        vae(torch.rand(2, 3, 5, 32, 32))
    assert turned and all(last for _, last in turned), [name for name, last in turned if not last]


def test_images():
    vae, _ = pair("2.1")
    x = torch.rand(2, 3, 32, 32) * 2 - 1
    mean, logvar = vae.encode(x)
    assert mean.shape == logvar.shape == (2, 4, 4, 4)
    torch.testing.assert_close(mean, vae.encode(x[:, :, None])[0][:, :, 0])
    assert vae.decode(mean).shape == x.shape


def step(vae, x, noise, use_amp=False):
    vae.zero_grad()
    reconstruction, kl = vae(x, return_loss=True, use_amp=use_amp, noise=noise)
    ((reconstruction - x).abs().mean() + 1e-2 * kl).backward()
    return {name: p.grad.clone() for name, p in vae.named_parameters()}


@pytest.mark.parametrize("version", SMALL)
@pytest.mark.parametrize("use_amp", [False, True], ids=["float32", "mixed"])
def test_gradients(version, use_amp):
    """The gradients of all parameters are the same with our norms as with torch's."""
    vae, _ = pair(version)
    vae.train()
    x = torch.rand(1, 3, 5, 32, 32) * 2 - 1
    noise = torch.randn(vae.encode(x)[0].shape)
    ours = step(vae, x, noise, use_amp)
    vae.kernels = False
    theirs = step(vae, x, noise, use_amp)
    for name, want in theirs.items():
        assert ours[name].dtype == want.dtype and want.abs().max() > 0, name
        size = want.norm()
        assert (ours[name] - want).norm() <= (0.1 if use_amp else 1e-3) * size, name


def test_loss_is_the_definition():
    vae, _ = pair("2.1")
    x = torch.rand(1, 3, 5, 16, 16) * 2 - 1
    noise = torch.randn(1, 4, 2, 2, 2)
    with torch.no_grad():
        mean, logvar = vae.encode(x)
        reconstruction, kl = vae(x, return_loss=True, noise=noise)
        torch.testing.assert_close(reconstruction, vae.decode(mean + torch.exp(0.5 * logvar) * noise))
        torch.testing.assert_close(kl, (-0.5 * (1 + logvar - mean ** 2 - logvar.exp())).mean())
        assert torch.equal(vae(x, noise=noise), reconstruction)
        assert not torch.equal(vae(x), vae(x)), "noise is drawn"


def test_mixed_precision_is_near():
    vae, _ = pair("2.1")
    x = torch.rand(1, 3, 5, 32, 32) * 2 - 1
    with torch.no_grad():
        wide, mixed = vae.encode(x)[0], vae.encode(x, use_amp=True)[0]
    assert mixed.dtype == torch.float32 and not torch.equal(wide, mixed)
    assert (mixed - wide).abs().max() <= 0.05 * wide.abs().max()


@pytest.mark.parametrize("device", ["no default device", "a default device"])
def test_compiled(device):
    torch.compiler.reset()
    vae, _ = pair("2.1")
    x = torch.rand(1, 3, 5, 16, 16) * 2 - 1
    with torch.no_grad():
        with torch.device(torch.get_default_device()) if device == "a default device" else no_default_device():
            got = torch.compile(vae.encode, fullgraph=True, backend="aot_eager")(x)[0]
        torch.testing.assert_close(got, vae.encode(x)[0])


@pytest.mark.parametrize("shape", [(1, 3, 4, 32, 32), (1, 3, 5, 32, 36), (1, 4, 5, 32, 32), (3, 32, 32), (1, 3, 0, 32, 32)])
def test_what_is_no_clip(shape):
    vae, _ = pair("2.1")
    with pytest.raises(ValueError, match="WanVAE: expected"):
        vae.encode(torch.zeros(shape))


def test_meta():
    vae = package.create_wan2_1_vae(base=8).to("meta")
    with torch.device("meta"):
        assert vae(torch.empty(1, 3, 5, 32, 32)).shape == (1, 3, 5, 32, 32)


def test_refusals():
    vae, _ = pair("2.1")
    with pytest.raises(ValueError, match="expected z"):
        vae.decode(torch.zeros(1, 5, 2, 4, 4))
    with pytest.raises(ValueError, match="expected z"):
        vae.decode(torch.zeros(1, 4, 0, 4, 4))
    with pytest.raises(ValueError, match="4 multipliers"):
        package.WanVAE(4, 8, multipliers=(1, 1, 1))
    for name, sizes in (("z_channels", (0,)), ("base", (4, "8")), ("decoder_base", (4, 8, 2.5))):
        with pytest.raises(ValueError, match=f"WanVAE: expected {name} to be an integer above 0, got"):
            package.WanVAE(*sizes)
    with pytest.raises(TypeError, match="WanVAE: expected x of floats from -1 to 1, got torch.uint8"):
        vae.encode(torch.zeros(1, 3, 5, 32, 32, dtype=torch.uint8))
    with pytest.raises(ValueError, match="expected x .*, got ndarray"):
        vae.encode(np.zeros((1, 3, 5, 32, 32), np.float32))


def test_the_shipped_vae():
    """The default shapes are those of Wan 2.1 and 2.2 (counted on the meta device), and the names can be imported from where users expect them."""
    from tachyscope.compat import wan_kernels

    with torch.device("meta"):
        counts = [sum(p.numel() for p in create().parameters())
                  for create in (lambda: wan_kernels.create_wan2_1_vae(z_channels=16), wan_kernels.create_wan2_2_vae)]
    assert counts == [126_892_531, 704_688_668]
    assert tachyscope.vae is package
