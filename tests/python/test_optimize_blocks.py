"""Tests whole blocks and attention of diffusers' model families: their variants and their rounding."""

import pytest
import torch
from torch import nn

import small_models
import tachyscope
from conftest import no_default_device
from tachyscope import _optimize
from test_optimize import CountedCalls


def ltx(**options):
    from diffusers import LTXVideoTransformer3DModel
    sizes = dict(in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=10, cross_attention_dim=20,
                 num_layers=2, caption_channels=16)  # 20 channels: the first pair of positions is padding
    mask = torch.tensor([[1.0, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
    return LTXVideoTransformer3DModel(**sizes | options), dict(
        hidden_states=torch.randn(2, 12, 4), encoder_hidden_states=torch.randn(2, 5, 16), timestep=torch.tensor([3, 500]),
        encoder_attention_mask=mask, num_frames=3, height=2, width=2)


def ltx_tokens():
    model, inputs = ltx()
    return model, inputs | dict(timestep=torch.randint(0, 1000, (2, 12)), video_coords=torch.rand(2, 3, 12) * 20)


def flux(**options):
    from diffusers import FluxTransformer2DModel
    sizes = dict(in_channels=4, num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
                 joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8))
    return FluxTransformer2DModel(**sizes | options), dict(
        hidden_states=torch.randn(2, 6, 4), encoder_hidden_states=torch.randn(2, 5, 32), pooled_projections=torch.randn(2, 32),
        timestep=torch.tensor([0.5, 0.1]), img_ids=torch.arange(18.0).reshape(6, 3), txt_ids=torch.ones(5, 3),
        guidance=torch.tensor([3.5, 1.0]) if options else None)


def flux_fused():
    model, inputs = flux()
    model.fuse_qkv_projections()
    return model, inputs


def sd3(**options):
    from diffusers import SD3Transformer2DModel
    sizes = dict(sample_size=8, patch_size=2, in_channels=4, num_layers=3, attention_head_dim=8, num_attention_heads=4,
                 caption_projection_dim=32, joint_attention_dim=32, pooled_projection_dim=64, out_channels=4,
                 pos_embed_max_size=8)
    return SD3Transformer2DModel(**sizes | options), dict(
        hidden_states=torch.randn(2, 4, 8, 8), encoder_hidden_states=torch.randn(2, 5, 32), pooled_projections=torch.randn(2, 64),
        timestep=torch.tensor([3, 500]))


def sd3_chunks():
    model, inputs = sd3(qk_norm="rms_norm")
    model.enable_forward_chunking(chunk_size=1, dim=0)
    return model, inputs


def masked(name):
    def make():
        model, inputs = small_models.MODELS[name]()
        mask = torch.tensor([[1, 1, 0, 1, 0]])
        return model, inputs | dict(encoder_attention_mask=mask.bool() if name == "SDXL" else mask)

    return make


def channels_last():
    model, inputs = small_models.sdxl()
    sample = torch.randn(2, 4, 16, 16).to(memory_format=torch.channels_last)
    return model.to(memory_format=torch.channels_last), inputs | dict(
        sample=sample, encoder_hidden_states=torch.randn(2, 5, 64),
        added_cond_kwargs={"text_embeds": torch.randn(2, 32), "time_ids": torch.randn(2, 6)})


# Each model comes with how often attention and gated residual adds run in one pass in float32.
VARIANTS = {
    "LTX: a batch, a mask, padded positions": (ltx, 4, 4),
    "LTX: norms with weights": (lambda: ltx(norm_elementwise_affine=True), 4, 4),
    "LTX: times and positions of tokens": (ltx_tokens, 4, 4),
    "FLUX: a batch": (flux, 4, 6),
    "FLUX: guidance": (lambda: flux(guidance_embeds=True), 4, 6),
    "FLUX: fused projections": (flux_fused, 4, 6),
    "SD3: no norms of queries": (sd3, 3, 5),
    "SD3.5: two attentions": (lambda: sd3(qk_norm="rms_norm", dual_attention_layers=(0, 1)), 5, 7),
    "SD3: feed-forward in chunks": (sd3_chunks, 3, 0),
    "SDXL: a mask": (masked("SDXL"), 16, 8),
    "SDXL: channels last": (channels_last, 16, 8),
    "PixArt: a mask": (masked("PixArt"), 2, 2),
}


def made(make, dtype=torch.float32):
    torch.manual_seed(0)
    model, inputs = make()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.3)

    def cast(value):
        if isinstance(value, dict):
            return {key: cast(t) for key, t in value.items()}
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return model.eval().to(dtype), cast(inputs)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants(variant):
    make, attentions, gates = VARIANTS[variant]
    model, inputs = made(make)
    before, right = small_models.run(model, inputs), small_models.exact(model, inputs)
    tachyscope.optimize(model, verbose=False)
    with CountedCalls() as calls:
        after = small_models.run(model, inputs)
    assert (calls.ops["attention"], calls.ops["gated_residual"]) == (attentions, gates)
    assert small_models.as_near(model, after, before, right, 3e-6)
    tachyscope.restore(model)
    assert torch.equal(small_models.run(model, inputs), before)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("level", ["safe", "aggressive"])
def test_variants_bfloat16(variant, level):
    model, inputs = made(VARIANTS[variant][0], torch.bfloat16)
    before = small_models.run(model, inputs)
    tachyscope.optimize(model, level, verbose=False)
    after = small_models.run(model, inputs)
    assert after.dtype == before.dtype
    difference = (after.float() - before.float()).square().mean().sqrt()
    assert difference <= 2e-2 * before.float().square().mean().sqrt()


@pytest.mark.parametrize("name", ["LTX-Video", "LTX: norms with weights", "FLUX", "SD3", "PixArt", "DiT", "VAE"])
def test_safe_rounds_where_the_modules_round(name):
    """Apart from attention, hardly any bfloat16 value differs at level safe, while most differ at higher levels."""
    model, inputs = made(VARIANTS[name][0], torch.bfloat16) if name in VARIANTS else small_models.make(name, torch.bfloat16)
    if next(model.parameters()).device.type != "cpu":
        pytest.skip("torch's own kernels of a GPU have other last bits")
    expected, others = small_models.run(model, inputs), {}
    for level in ("safe", "aggressive"):
        _optimize.run(model, level, lambda op: "attention" not in op)
        others[level] = (small_models.run(model, inputs) != expected).float().mean().item()
    assert others["safe"] <= 0.15 and others["aggressive"] >= 0.35, others


def wan_variant(**options):
    from diffusers import WanTransformer3DModel

    torch.manual_seed(0)
    sizes = dict(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4, text_dim=16,
                 freq_dim=16, ffn_dim=32, num_layers=2)
    return WanTransformer3DModel(**sizes | options).eval()


@pytest.mark.parametrize("variant", ["no norm before the text", "an image", "timesteps of tokens", "fused projections"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_wan_variants(variant, dtype):
    image = variant == "an image"
    model = wan_variant(cross_attn_norm=variant != "no norm before the text", **(
        {"image_dim": 20, "added_kv_proj_dim": 24} if image else {})).to(dtype)
    inputs = dict(hidden_states=torch.randn(2, 4, 2, 6, 6), timestep=torch.tensor([3, 500]),
                  encoder_hidden_states=torch.randn(2, 512 if image else 5, 16))
    if image:
        inputs["encoder_hidden_states_image"] = torch.randn(2, 7, 20)
    if variant == "timesteps of tokens":
        inputs["timestep"] = torch.randint(0, 1000, (2, 18))
    if variant == "fused projections":
        model.fuse_qkv_projections()
    inputs = {k: t.to(dtype) if t.is_floating_point() else t for k, t in inputs.items()}
    before = small_models.run(model, inputs)
    report = tachyscope.optimize(model, verbose=False)
    assert report.counts()["WanTransformerBlock"] == 2 and report.counts()["WanAttention"] == 4
    after = small_models.run(model, inputs)
    error = (after.float() - before.float()).abs().max()
    assert error <= (2e-6 if dtype == torch.float32 else 3e-2) * before.abs().max()
    assert not torch.equal(after, before)
    tachyscope.restore(model)
    assert torch.equal(small_models.run(model, inputs), before)


@pytest.mark.parametrize("layers", [(0,), (0, 1)])
@pytest.mark.parametrize("level", ["safe", "aggressive"])
def test_two_attentions_compile(level, layers):
    torch.compiler.reset()
    model, inputs = made(lambda: sd3(qk_norm="rms_norm", dual_attention_layers=layers))
    before = small_models.run(model, inputs)
    tachyscope.optimize(model, level, verbose=False)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with no_default_device():
        torch.testing.assert_close(small_models.run(compiled, inputs), before, rtol=1e-5, atol=1e-5)


@pytest.mark.cpu
@pytest.mark.parametrize("name", [*small_models.MODELS, "SD3.5"])
def test_float64_goes_the_models_own_way(name):
    if name == "SD3.5":
        model, inputs = made(lambda: sd3(qk_norm="rms_norm", dual_attention_layers=(0, 1)), torch.float64)
    else:
        model, inputs = small_models.make(name, torch.float64)
    before = small_models.run(model, inputs)
    tachyscope.optimize(model, "aggressive", verbose=False)
    after = small_models.run(model, inputs)
    # Wan's own blocks call some norms without parameters on values that they have made float32.
    assert (after - before).abs().max() <= 1e-6 * before.abs().max() if name == "Wan" else torch.equal(after, before)


@pytest.mark.cpu
@pytest.mark.parametrize("dtypes", [(torch.float64, torch.float32), (torch.float32, torch.float64)], ids=str)
@pytest.mark.parametrize("name", ["FP32LayerNorm", "RMSNorm", "AdaLayerNormContinuous"])
def test_norms_of_one_dtype_on_values_of_another(name, dtypes):
    """One of the two is float64: our kernels take no such pair, and the module converts or refuses it as before."""
    from diffusers.models import normalization

    def outcome(module, *given):
        try:
            return module(*given)
        except RuntimeError as error:
            return str(error)

    of_module, of_values = dtypes
    module = {"FP32LayerNorm": lambda: normalization.FP32LayerNorm(8), "RMSNorm": lambda: normalization.RMSNorm(8, 1e-6),
              "AdaLayerNormContinuous": lambda: normalization.AdaLayerNormContinuous(8, 8)}[name]().to(of_module)
    given = [torch.randn(2, 3, 8, dtype=of_values)]
    if name == "AdaLayerNormContinuous":
        given.append(torch.randn(2, 8, dtype=of_module))
    before = outcome(module, *given)
    tachyscope.optimize(module, verbose=False)
    after = outcome(module, *given)
    assert after == before if isinstance(before, str) else torch.equal(after, before)
