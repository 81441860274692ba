"""`optimize` on diffusers' modules of adaptive norms, one by one, and norms that blocks may not compute themselves."""

import pytest
import torch
from torch import nn

import small_models
import tachyscope
from test_optimize import CountedCalls

X, EMB = (2, 5, 24), (2, 24)


def module_of(name, *args, **options):
    from diffusers.models import normalization

    torch.manual_seed(0)
    module = getattr(normalization, name)(*args, **options).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.3)
    return module


# Each module comes with the shapes of its arguments; a name in front of a shape makes it a keyword argument.
MODULES = {
    "AdaLayerNormZero": (lambda: module_of("AdaLayerNormZero", 24), (X, ("emb", EMB))),
    "AdaLayerNormZero, wide norm": (lambda: module_of("AdaLayerNormZero", 24, norm_type="fp32_layer_norm"), (X, ("emb", EMB))),
    "AdaLayerNormZeroSingle": (lambda: module_of("AdaLayerNormZeroSingle", 24), (X, ("emb", EMB))),
    "SD35AdaLayerNormZeroX": (lambda: module_of("SD35AdaLayerNormZeroX", 24), (X, ("emb", EMB))),
    "AdaLayerNormContinuous": (lambda: module_of("AdaLayerNormContinuous", 24, 24), (X, EMB)),
    "AdaLayerNorm of one time": (lambda: module_of("AdaLayerNorm", 24, output_dim=48), (X, ("temb", (24,)))),
    "AdaLayerNorm of samples": (lambda: module_of("AdaLayerNorm", 24, output_dim=48, norm_elementwise_affine=True, chunk_dim=1),
                                (X, ("temb", EMB))),
    "CogVideoXLayerNormZero": (lambda: module_of("CogVideoXLayerNormZero", 24, 24), (X, (2, 3, 24), EMB)),
}


def drawn(shapes, dtype):
    args = [torch.randn(shape).to(dtype) for shape in shapes if not isinstance(shape[0], str)]
    return args, {shape[0]: torch.randn(shape[1]).to(dtype) for shape in shapes if isinstance(shape[0], str)}


def together(results):
    return torch.cat([t.flatten() for t in (results if isinstance(results, tuple) else (results,))])


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("level", ["safe", "aggressive"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_modules(name, level, dtype):
    make, shapes = MODULES[name]
    module = make().to(dtype)
    args, named = drawn(shapes, dtype)
    with torch.no_grad():
        expected = together(module(*args, **named))
        report = tachyscope.optimize(module, level, verbose=False)
        with CountedCalls() as calls:
            result = together(module(*args, **named))
    assert ("", type(module).__name__, "ada_layer_norm" + (" where it is float32" if level == "safe" else "")) in report.replaced
    assert calls.ops["layer_norm"] >= 1 and result.dtype == dtype
    if dtype == torch.float32:
        assert (result - expected).abs().max() <= 2e-6 * expected.abs().max()
        return
    assert (result.float() - expected.float()).abs().max() <= 2e-2 * expected.float().abs().max()
    if result.device.type == "cpu":  # at level safe hardly any value differs
        other = (result != expected).float().mean()
        assert other < 0.01 if level == "safe" else other > 0.01


def test_modules_that_are_left():
    module = module_of("AdaLayerNormContinuous", 24, 24, norm_type="rms_norm")
    report = tachyscope.optimize(module, verbose=False)
    assert ("", "AdaLayerNormContinuous", "its norm is RMSNorm") in report.left
    assert report.counts() == {"RMSNorm": 1, "SiLU": 1}


@pytest.mark.parametrize("name, norm", [("SDXL", "norm2"), ("FLUX", "norm2"), ("LTX-Video", "norm2"), ("PixArt", "norm1")])
@pytest.mark.parametrize("how", ["a hook", "a forward"])
def test_what_the_user_put_on_a_norm_counts(name, norm, how):
    """A hook on a norm inside a block, or a norm's changed forward, runs as in the model that was not optimized."""
    model, inputs = small_models.make(name)
    kind = {"SDXL": "BasicTransformerBlock", "PixArt": "BasicTransformerBlock", "FLUX": "FluxTransformerBlock",
            "LTX-Video": "LTXVideoTransformerBlock"}[name]
    module = getattr(next(m for m in model.modules() if type(m).__name__ == kind), norm)
    if how == "a hook":
        module.register_forward_hook(lambda m, args, result: result * 3)
    else:
        plain = module.forward
        module.forward = lambda x: plain(x) * 3
    expected = small_models.run(model, inputs)
    tachyscope.optimize(model, verbose=False)
    assert (small_models.run(model, inputs) - expected).abs().max() <= small_models.near(model, 3e-6) * expected.abs().max()


@pytest.mark.parametrize("level", ["safe", "aggressive"])
def test_flux_keeps_within_float16(level):
    """Sums beyond the range of float16 are clipped, as in FLUX's blocks."""
    model, _ = small_models.make("FLUX", torch.float16)
    tachyscope.optimize(model, level, verbose=False)
    x, text, temb = torch.randn(1, 6, 32).half(), torch.full((1, 5, 32), 65504.0).half(), torch.randn(1, 32).half()
    for block in (model.transformer_blocks[0], model.single_transformer_blocks[0]):
        with torch.no_grad():
            (block.ff_context.net[2] if block is model.transformer_blocks[0] else block.proj_out).bias.fill_(1e4)
            assert block(x, text, temb)[0].abs().max() == 65504
