"""Inside of torch.autocast an optimized model's blocks, attention and norms compute, with the dtypes of its own code and as near to float32 as that is."""

import copy

import pytest
import torch
from torch import nn

import small_models
import tachyscope
from conftest import DEVICE
from test_optimize import CountedCalls

# Calls of ours in a forward pass that must come inside of the region, for models that compute in blocks of their own.
KNOWN = {"Wan": {"add_norm", "gated_residual", "attention"}, "LTX-Video": {"add_norm", "gated_residual", "attention"},
         "FLUX": {"add_norm", "gated_residual", "attention", "rope"}, "SD3": {"add_norm", "gated_residual", "attention"},
         "SDXL": {"add_norm", "attention"}, "PixArt": {"add_norm", "gated_residual", "attention"}, "DiT": {"gated_residual", "attention"},
         "VAE": {"group_norm", "attention"}}


def distance(one, other):
    return ((one.double() - other.double()).norm() / other.double().norm()).item()


def in_region(model, inputs, region):
    with torch.autocast(DEVICE, region):
        return small_models.run(model, inputs)


@pytest.mark.parametrize("level, weights, region", [("safe", torch.float32, torch.bfloat16), ("aggressive", torch.float32, torch.bfloat16),
                                                    ("aggressive", torch.float32, torch.float16), ("aggressive", torch.bfloat16, torch.bfloat16)], ids=str)
@pytest.mark.parametrize("name", KNOWN)
def test_models(name, level, weights, region):
    model, inputs = small_models.make(name)
    right = small_models.run(model, inputs)  # in float32
    if weights == torch.bfloat16:
        model.to(weights)
        inputs = {key: t.to(weights) if isinstance(t, torch.Tensor) and t.is_floating_point() and key != "timestep" else t for key, t in inputs.items()}
        right = small_models.run(copy.deepcopy(model).float(), {key: t.float() if isinstance(t, torch.Tensor) and t.dtype == weights else t
                                                                for key, t in inputs.items()})
    theirs = in_region(model, inputs, region)
    assert tachyscope.optimize(model, level, verbose=False).replaced
    with CountedCalls() as calls:
        ours = in_region(model, inputs, region)
    asked = KNOWN[name] if level == "aggressive" or name == "Wan" else KNOWN[name] - {"gated_residual"}  # 16-bit gates round twice at safe
    assert asked <= calls.ops.keys(), calls.ops
    assert ours.dtype == theirs.dtype
    assert 0 < distance(ours, right) <= 1.3 * distance(theirs, right) + 1e-4, (distance(ours, right), distance(theirs, right))
    tachyscope.restore(model)
    assert torch.equal(in_region(model, inputs, region), theirs)


@pytest.fixture
def without_cudnns_attention():
    """Attention's gradients are torch's on both sides. Those of cuDNN are NaN for some shapes on Hopper (pytorch's issue 196678), which says nothing of ours."""
    if DEVICE == "cpu":
        return (yield)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    yield
    torch.backends.cuda.enable_cudnn_sdp(before)


def broken(gradients):
    return [key for key, gradient in gradients.items() if not gradient.isfinite().all()]


def gradients(model, inputs, region=None):
    model.zero_grad()
    with torch.autocast(DEVICE, torch.bfloat16, enabled=region is not None):
        loss = model(**inputs).sample.float().square().mean()
    loss.backward()
    return {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}


MODELS = 8  # random models of each kind


@pytest.mark.parametrize("name", ["Wan", "LTX-Video", "FLUX", "SDXL"])
def test_gradients(name, without_cudnns_attention):
    """Gradients inside of the region are as near to those in float32 as the model's own, and have the parameters' dtypes.

    One model says little: up to half of the error is in a layer of the time's embedding, whose gradient follows from one row of 24 values, so how these
    few happen to be rounded decides. Of a hundred LTX models ours and torch's errors have a ratio from 0.64 to 1.39 and 1.01 on the whole. So the
    errors of several models count together."""
    squares = {"ours": 0, "torch's": 0}
    for seed in range(MODELS):
        model, inputs = small_models.make(name, seed=seed)
        model.train()
        right, theirs = gradients(model, inputs), gradients(model, inputs, torch.bfloat16)
        tachyscope.optimize(model, "aggressive", verbose=False)
        with CountedCalls() as calls:
            ours = gradients(model, inputs, torch.bfloat16)
        assert "add_norm" in calls.ops, calls.ops
        assert ours.keys() == theirs.keys()
        assert all(ours[key].dtype == right[key].dtype for key in right)
        assert not broken(right) and not broken(theirs), "torch's own gradients are not finite"
        assert not broken(ours), "our gradients are not finite"
        for whose, found in (("ours", ours), ("torch's", theirs)):
            squares[whose] += distance(*(torch.cat([g[key].flatten() for key in right]) for g in (found, right))) ** 2
    assert 0 < squares["ours"] <= 1.15 ** 2 * squares["torch's"], {whose: (square / MODELS) ** 0.5 for whose, square in squares.items()}


MODULES = {
    "RMSNorm": lambda: nn.RMSNorm(16, 1e-6), "LayerNorm": lambda: nn.LayerNorm(16), "LayerNorm without weights": lambda: nn.LayerNorm(16, elementwise_affine=False),
    "GroupNorm": lambda: nn.GroupNorm(4, 16), "GELU": nn.GELU, "SiLU": nn.SiLU, "GroupNorm and SiLU": lambda: nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU()),
    "diffusers' RMSNorm": lambda: of_diffusers("RMSNorm", 16, 1e-6), "diffusers' RMSNorm without a weight": lambda: of_diffusers("RMSNorm", 16, 1e-6, False),
    "FP32LayerNorm": lambda: of_diffusers("FP32LayerNorm", 16, 1e-6),
}


def of_diffusers(name, *options):
    from diffusers.models import normalization
    return getattr(normalization, name)(*options)


@pytest.mark.parametrize("region", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_modules(name, dtype, weights, region):
    """A module's result has the dtype and the values of its own code, or is the same error, for every mix of dtypes."""
    torch.manual_seed(0)
    module = MODULES[name]()
    for parameter in module.parameters():
        nn.init.normal_(parameter, 1, 0.3)
    module, x = module.to(weights), torch.randn((2, 16, 5) if "Group" in name else (2, 5, 16)).to(dtype)

    def result():
        with torch.autocast(DEVICE, region), torch.no_grad():
            try:
                return module(x)
            except RuntimeError as error:
                return str(error)

    theirs = result()
    tachyscope.optimize(module, "aggressive", verbose=False)
    with CountedCalls() as calls:
        ours = result()
    if isinstance(theirs, str):
        assert ours == theirs
        return
    assert ours.dtype == theirs.dtype
    torch.testing.assert_close(ours, theirs, rtol=1e-2 if theirs.dtype != torch.float32 else 1e-5, atol=1e-2 if theirs.dtype != torch.float32 else 1e-5)
    if dtype == weights:
        assert calls.ops, "it was not computed here"


def test_compiled():
    torch.compiler.reset()
    model, inputs = small_models.make("Wan")
    tachyscope.optimize(model, "aggressive", verbose=False)
    expected = in_region(model, inputs, torch.bfloat16)
    for block in model.blocks:
        block.compile(fullgraph=True, backend="aot_eager")
    assert distance(in_region(model, inputs, torch.bfloat16), expected) < 1e-2
