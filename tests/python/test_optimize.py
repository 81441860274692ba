"""`optimize` and `restore` on small random models: which modules are replaced, the error this causes, and how they are restored."""

import collections
import copy
import types

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import small_models
import tachyscope

# How many modules of each class are replaced, and the classes of those that are left. For models whose blocks take over modules inside them, the
# entry also says how often each op runs in one pass in float32.
EXPECTED = {
    "Wan": ({"WanTransformerBlock": 2, "WanAttention": 4, "SiLU": 2, "GELU": 3, "FP32LayerNorm": 3,
             "RMSNorm": 8}, set()),
    "LTX-Video": ({"LTXVideoTransformerBlock": 2, "LTXAttention": 4, "SiLU": 2, "GELU": 3, "RMSNorm": 8, "LayerNorm": 1},
                  {"AdaLayerNormSingle"},
                  {"rms_norm": 4, "rms_modulate": 2, "layer_norm": 1, "add_norm": 2, "gated_residual": 4, "qk_norm_rope": 2, "attention": 4,
                   "activation": 5}),
    "FLUX": ({"FluxTransformerBlock": 1, "FluxSingleTransformerBlock": 1, "FluxAttention": 2, "AdaLayerNormZero": 2,
              "AdaLayerNormZeroSingle": 1, "AdaLayerNormContinuous": 1, "SiLU": 6, "RMSNorm": 6, "GELU": 3}, set(),
             {"rms_norm": 6, "layer_norm": 4, "add_norm": 2, "gated_residual": 3, "rope": 4, "attention": 2, "activation": 9}),
    "SD3": ({"JointTransformerBlock": 2, "Attention": 2, "AdaLayerNormZero": 3, "AdaLayerNormContinuous": 2, "SiLU": 7,
             "RMSNorm": 8, "GELU": 3}, set(),
            {"rms_norm": 8, "layer_norm": 5, "add_norm": 3, "gated_residual": 3, "attention": 2, "activation": 10}),
    "SDXL": ({"BasicTransformerBlock": 8, "Attention": 16, "SiLU": 11, "LayerNorm": 24, "GEGLU": 8, "GroupNorm": 21,
              "ResnetBlock2D": 8},
             {"CrossAttnDownBlock2D", "CrossAttnUpBlock2D", "DownBlock2D", "UNetMidBlock2DCrossAttn", "UpBlock2D"},
             {"layer_norm": 8, "add_norm": 16, "gated_residual": 8, "attention": 16, "glu": 8, "group_norm": 21,
              "activation": 11}),
    "PixArt": ({"BasicTransformerBlock": 1, "Attention": 2, "LayerNorm": 1, "GELU": 2, "SiLU": 2}, {"AdaLayerNormSingle"},
               {"layer_norm": 2, "add_norm": 1, "gated_residual": 2, "attention": 2, "activation": 4}),
    "DiT": ({"BasicTransformerBlock": 1, "Attention": 1, "AdaLayerNormZero": 1, "SiLU": 2, "LayerNorm": 1, "GELU": 1}, set(),
            {"layer_norm": 2, "add_norm": 1, "gated_residual": 1, "attention": 1, "activation": 4}),
    "VAE": ({"GroupNorm": 24, "SiLU": 12, "ResnetBlock2D": 10, "Encoder": 1, "Decoder": 1, "Attention": 2},
            {"DownEncoderBlock2D", "UNetMidBlock2D", "UpDecoderBlock2D"},
            {"group_norm": 24, "attention": 2}),
    "LLaMA": ({"LlamaDecoderLayer": 2, "LlamaAttention": 2, "LlamaMLP": 2, "LlamaRMSNorm": 5}, set()),
    "Mistral": ({"MistralDecoderLayer": 2, "MistralAttention": 2, "MistralMLP": 2, "MistralRMSNorm": 5}, set()),
    "Qwen2": ({"Qwen2DecoderLayer": 2, "Qwen2Attention": 2, "Qwen2MLP": 2, "Qwen2RMSNorm": 5}, set()),
    "Qwen3": ({"Qwen3DecoderLayer": 2, "Qwen3Attention": 2, "Qwen3MLP": 2, "Qwen3RMSNorm": 9}, set()),
    "Falcon": ({"FalconAttention": 2, "LayerNorm": 3, "GELUActivation": 2}, {"FalconDecoderLayer", "FalconMLP"}),
    "Gemma": ({"GemmaDecoderLayer": 2, "GemmaAttention": 2, "GemmaMLP": 2, "GemmaRMSNorm": 5}, set()),
    "Gemma2": ({"Gemma2DecoderLayer": 2, "Gemma2Attention": 2, "Gemma2MLP": 2, "Gemma2RMSNorm": 9}, set()),
    "Gemma3": ({"Gemma3DecoderLayer": 2, "Gemma3Attention": 2, "Gemma3MLP": 2, "Gemma3RMSNorm": 13}, set()),
}


class CountedCalls(TorchDispatchMode):
    """Counts how often each of our ops runs."""

    def __init__(self):
        super().__init__()
        self.ops = collections.Counter()

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        if func.namespace == "tachyscope":
            self.ops[func._schema.name.split("::")[1].lstrip("_")] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", small_models.MODELS)
def test_float32(name):
    model, inputs = small_models.make(name)
    before, right = small_models.run(model, inputs), small_models.exact(model, inputs)
    state = {k: t.clone() for k, t in model.state_dict().items()}
    report = tachyscope.optimize(model, verbose=False)
    counts, left, *ops = EXPECTED[name]
    assert report.counts() == counts
    assert {kind for _, kind, _ in report.left} == left
    with CountedCalls() as calls:
        after = small_models.run(model, inputs)
    if ops:
        assert calls.ops == ops[0]
    else:
        assert calls.ops.total() >= sum(counts.values()), "modules that are said to be replaced run their own code"
    assert after.dtype == before.dtype
    assert small_models.as_near(model, after, before, right, 2e-6)
    now = model.state_dict()
    assert now.keys() == state.keys() and all(torch.equal(now[k], state[k]) for k in state)
    assert tachyscope.restore(model) == sum(counts.values())
    assert torch.equal(small_models.run(model, inputs), before)
    assert tachyscope.restore(model) == 0


@pytest.mark.parametrize("name", small_models.MODELS)
@pytest.mark.parametrize("level", ["safe", "aggressive"])
def test_bfloat16(name, level):
    """The error against the model in float32 is at most a quarter larger than that of the model itself in
    bfloat16, and the dtype is the same."""
    model, inputs = small_models.make(name, torch.bfloat16)
    theirs = small_models.run(model, inputs)
    tachyscope.optimize(model, level, verbose=False)
    ours = small_models.run(model, inputs)
    tachyscope.restore(model)
    assert torch.equal(small_models.run(model, inputs), theirs)
    wide = {k: t.float() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for k, t in inputs.items()}
    exact = small_models.run(model.float(), wide)

    def error(result):
        return (result.float() - exact).square().mean().sqrt().item()

    assert ours.dtype == theirs.dtype == torch.bfloat16
    assert error(ours) <= 1.25 * error(theirs), (error(ours), error(theirs))


def test_wan_norms_and_positions_in_one_pass():
    """Level aggressive computes norms and positions in one pass with the norms' current weights, except for norms whose weights a hook loads."""
    model, inputs = small_models.make("Wan")
    before = small_models.run(model, inputs)
    tachyscope.optimize(model, "aggressive", verbose=False)
    seen = []
    one_pass = tachyscope.ops.qk_norm_rope
    tachyscope.ops.qk_norm_rope = lambda *args: seen.append(1) or one_pass(*args)
    try:
        torch.testing.assert_close(small_models.run(model, inputs), before, rtol=1e-5, atol=1e-5)
        assert len(seen) == 2
        with torch.no_grad():
            model.blocks[0].attn1.norm_q.weight.mul_(3)
        after = small_models.run(model, inputs)
        tachyscope.optimize(model, "safe", verbose=False)
        torch.testing.assert_close(small_models.run(model, inputs), after, rtol=1e-5, atol=1e-5)
        assert len(seen) == 4 and not torch.allclose(after, before, rtol=1e-3)
    finally:
        tachyscope.ops.qk_norm_rope = one_pass


def test_wan_norms_of_another_kind_are_called():
    class Doubled(torch.nn.RMSNorm):
        def forward(self, x):
            return 2 * super().forward(x)

    model, inputs = small_models.make("Wan")
    for block in model.blocks:
        for name in ("norm_q", "norm_k"):
            norm = getattr(block.attn1, name)
            other = Doubled(norm.normalized_shape, norm.eps)
            other.load_state_dict(norm.state_dict())
            setattr(block.attn1, name, other)
    before = small_models.run(model, inputs)
    tachyscope.optimize(model, "aggressive", verbose=False)
    torch.testing.assert_close(small_models.run(model, inputs), before, rtol=1e-5, atol=1e-5)


def test_greedy_tokens():
    model, _ = small_models.make("LLaMA")
    prompt = torch.arange(3, 12)[None]
    before = model.generate(prompt, max_new_tokens=12, do_sample=False)
    tachyscope.optimize(model, verbose=False)
    assert torch.equal(model.generate(prompt, max_new_tokens=12, do_sample=False), before)


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class Norm2D(nn.LayerNorm):  # inherits its forward
    pass


class OtherNorm(nn.LayerNorm):  # computes something else
    def forward(self, x):
        return super().forward(x) + 1


def test_what_is_left_and_why(capsys):
    patched = nn.SiLU()
    patched.forward = lambda x: x
    model = nn.ModuleDict({
        "quick": QuickGELU(), "inplace": nn.SiLU(inplace=True), "two dims": nn.LayerNorm((3, 4)), "no eps": nn.RMSNorm(8),
        "other": OtherNorm(8), "patched": patched, "batch": nn.BatchNorm1d(4), "fits": Norm2D(8), "linear": nn.Linear(2, 2)})
    report = tachyscope.optimize(model)
    assert report.replaced == [("fits", "Norm2D", "layer_norm")]
    assert {name: why for name, _, why in report.left} == {
        "quick": "no rule for what it computes", "inplace": "it works in place", "two dims": "it normalises over 2 dims",
        "no eps": "its eps depends on the dtype", "other": "no rule for what it computes",
        "patched": "something else has replaced its forward", "batch": "no rule for what it computes"}
    said = capsys.readouterr().out
    assert "1 modules replaced at level safe, 7 left" in said and "left: 1 x SiLU: it works in place" in said
    assert tachyscope.restore(model) == 1 and "forward" in patched.__dict__


def test_calls_that_the_module_converts():
    """With mixed dtypes, float64 or autocast the module's own code runs, and the result has its dtype."""
    norm = nn.LayerNorm(8)
    x = torch.randn(3, 8)
    plain = copy.deepcopy(norm)
    tachyscope.optimize(norm, verbose=False)
    double = copy.deepcopy(plain).double()
    assert torch.equal(tachyscope_of(double)(x.double()), double(x.double()))
    with torch.autocast(x.device.type, torch.bfloat16):
        assert norm(x.bfloat16()).dtype == plain(x.bfloat16()).dtype
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    llama = LlamaRMSNorm(8)  # with float32 weights and bfloat16 input its result is float32
    assert tachyscope_of(llama)(x.bfloat16()).dtype == llama(x.bfloat16()).dtype == torch.float32


def tachyscope_of(module):
    twin = copy.deepcopy(module)
    assert tachyscope.optimize(twin, verbose=False).replaced
    return twin


def test_pipelines_and_bad_arguments():
    shared = nn.RMSNorm(8, 1e-6)
    pipe = types.SimpleNamespace(components={"transformer": nn.Sequential(shared, nn.SiLU()), "norm": shared, "scheduler": object()})
    report = tachyscope.optimize(pipe, "AGGRESSIVE", verbose=False)
    assert [name for name, _, _ in report.replaced] == ["transformer.0", "transformer.1"]
    assert tachyscope.optimize(pipe, "none", verbose=False).replaced == [] and tachyscope.restore(pipe) == 0
    with pytest.raises(ValueError, match="expected level to be one of none, safe, aggressive, extreme, got 'fast'"):
        tachyscope.optimize(pipe, "fast")
    with pytest.raises(TypeError, match="restore: expected a torch module or a pipeline with components, got int"):
        tachyscope.restore(3)
    with pytest.raises(TypeError, match="optimize: expected a torch module or a pipeline with components, got str"):
        tachyscope.optimize("model")
