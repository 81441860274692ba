"""`optimize` and `restore` on small random models: what is replaced, the error that it brings, the way back."""

import collections
import copy
import types

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import small_models
import tachyscope

# How many modules of each class are replaced, and the classes of those that are left. Where blocks compute for modules inside
# them as well, also how often each op runs in one pass in float32.
EXPECTED = {
    "Wan": ({"WanTransformerBlock": 2, "WanAttention": 4, "SiLU": 2, "GELU": 3, "FP32LayerNorm": 3,
             "RMSNorm": 8}, set()),
    "LTX-Video": ({"SiLU": 2, "GELU": 3, "RMSNorm": 12, "LayerNorm": 1}, {"AdaLayerNormSingle"}),
    "FLUX": ({"SiLU": 6, "LayerNorm": 6, "RMSNorm": 6, "GELU": 3},
             {"AdaLayerNormZero", "AdaLayerNormZeroSingle", "AdaLayerNormContinuous"}),
    "SD3": ({"SiLU": 7, "LayerNorm": 8, "RMSNorm": 8, "GELU": 3}, {"AdaLayerNormZero", "AdaLayerNormContinuous"}),
    "SDXL": ({"SiLU": 11, "LayerNorm": 24, "GEGLU": 8, "GroupNorm": 21, "ResnetBlock2D": 8}, set(),
             {"activation": 11, "glu": 8, "layer_norm": 24, "group_norm": 21}),
    "PixArt": ({"LayerNorm": 3, "GELU": 2, "SiLU": 2}, {"AdaLayerNormSingle"}),
    "DiT": ({"SiLU": 2, "LayerNorm": 3, "GELU": 1}, {"AdaLayerNormZero"}),
    "VAE": ({"GroupNorm": 24, "SiLU": 12, "ResnetBlock2D": 10, "Encoder": 1, "Decoder": 1}, set(), {"group_norm": 24}),
    "LLaMA": ({"LlamaDecoderLayer": 2, "LlamaAttention": 2, "LlamaMLP": 2, "LlamaRMSNorm": 5}, set()),
    "Mistral": ({"MistralDecoderLayer": 2, "MistralAttention": 2, "MistralMLP": 2, "MistralRMSNorm": 5}, set()),
    "Qwen2": ({"Qwen2DecoderLayer": 2, "Qwen2Attention": 2, "Qwen2MLP": 2, "Qwen2RMSNorm": 5}, set()),
    "Qwen3": ({"Qwen3DecoderLayer": 2, "Qwen3Attention": 2, "Qwen3MLP": 2, "Qwen3RMSNorm": 9}, set()),
    "Falcon": ({"FalconAttention": 2, "LayerNorm": 3, "GELUActivation": 2}, {"FalconDecoderLayer"}),
    "Gemma": ({"GemmaDecoderLayer": 2, "GemmaAttention": 2, "GemmaMLP": 2, "GemmaRMSNorm": 5}, set()),
    "Gemma2": ({"Gemma2DecoderLayer": 2, "Gemma2Attention": 2, "Gemma2MLP": 2, "Gemma2RMSNorm": 9}, set()),
    "Gemma3": ({"Gemma3DecoderLayer": 2, "Gemma3Attention": 2, "Gemma3MLP": 2, "Gemma3RMSNorm": 13}, set()),
}


class CountedCalls(TorchDispatchMode):
    """How often each op of ours ran."""

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
    before, state = small_models.run(model, inputs), {k: t.clone() for k, t in model.state_dict().items()}
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
    assert (after - before).abs().max() <= 2e-6 * before.abs().max()
    now = model.state_dict()
    assert now.keys() == state.keys() and all(torch.equal(now[k], state[k]) for k in state)
    assert tachyscope.restore(model) == sum(counts.values())
    assert torch.equal(small_models.run(model, inputs), before)
    assert tachyscope.restore(model) == 0


@pytest.mark.parametrize("name", small_models.MODELS)
@pytest.mark.parametrize("level", ["safe", "aggressive"])
def test_bfloat16(name, level):
    """As near to the model in float32 as the model itself is in bfloat16: within a quarter, and the same dtype."""
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
    """At level aggressive, with the weights that the norms have now, and not where a hook brings them."""
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


def test_greedy_tokens():
    model, _ = small_models.make("LLaMA")
    prompt = torch.arange(3, 12)[None]
    before = model.generate(prompt, max_new_tokens=12, do_sample=False)
    tachyscope.optimize(model, verbose=False)
    assert torch.equal(model.generate(prompt, max_new_tokens=12, do_sample=False), before)


def test_training_step():
    """Gradients of all parameters, as before to float32's rounding."""
    model, inputs = small_models.make("Wan")

    def gradients():
        model.zero_grad()
        model(**inputs).sample.square().mean().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    before = gradients()
    tachyscope.optimize(model, verbose=False)
    after = gradients()
    assert after.keys() == before.keys()
    for name in before:
        torch.testing.assert_close(after[name], before[name], rtol=1e-4, atol=1e-6, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("name", ["Wan", "LLaMA"])
def test_compile(name):
    torch.compiler.reset()
    model, inputs = small_models.make(name)
    before = small_models.run(model, inputs)
    tachyscope.optimize(model, verbose=False)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(small_models.run(compiled, inputs), before)


@pytest.mark.parametrize("when", ["before", "after"])
def test_offloading(when):
    """Weights that accelerate keeps elsewhere and brings for each call, whichever came first; removed hooks leave ours."""
    from accelerate.hooks import AlignDevicesHook, add_hook_to_module, remove_hook_from_submodules

    model, inputs = small_models.make("Wan")
    before = small_models.run(model, inputs)

    def offload():
        for module in model.modules():
            if any(True for _ in module.parameters(recurse=False)):
                add_hook_to_module(module, AlignDevicesHook(execution_device=torch.get_default_device(), offload=True))

    if when == "before":
        offload()
    report = tachyscope.optimize(model, verbose=False)
    if when == "after":
        offload()
    assert report.counts() == EXPECTED["Wan"][0]
    assert model.blocks[0].norm2.weight.device.type == "meta"
    optimized = small_models.run(model, inputs)
    torch.testing.assert_close(optimized, before)
    count = sum(EXPECTED["Wan"][0].values())
    assert tachyscope.restore(model) == count
    assert torch.equal(small_models.run(model, inputs), before)
    tachyscope.optimize(model, verbose=False)
    remove_hook_from_submodules(model)
    torch.testing.assert_close(small_models.run(model, inputs), optimized)
    assert tachyscope.restore(model) == count
    assert torch.equal(small_models.run(model, inputs), before)


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


def test_the_users_choice_of_attention_counts():
    """A processor or backend of the user's, before or after: its own code runs."""
    from diffusers.models.transformers.transformer_wan import WanAttnProcessor

    class Mine(WanAttnProcessor):
        calls = 0

        def __call__(self, *args, **kwargs):
            Mine.calls += 1
            return super().__call__(*args, **kwargs)

    model, inputs = small_models.make("Wan")
    model.blocks[0].attn1.set_processor(Mine())
    report = tachyscope.optimize(model, verbose=False)
    assert ("blocks.0.attn1", "WanAttention", "its processor is Mine") in report.left
    model.blocks[1].attn1.set_processor(Mine())
    small_models.run(model, inputs)
    assert Mine.calls == 2


def test_copy_has_its_own_weights():
    model, inputs = small_models.make("LLaMA")
    tachyscope.optimize(model, verbose=False)
    before = small_models.run(model, inputs)
    twin = copy.deepcopy(model)
    assert torch.equal(small_models.run(twin, inputs), before)
    with torch.no_grad():
        twin.model.norm.weight.zero_()
    assert (small_models.run(twin, inputs) == 0).all()
    assert torch.equal(small_models.run(model, inputs), before)
    assert tachyscope.restore(twin) == 11 and torch.equal(small_models.run(model, inputs), before)


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
    """Mixed dtypes, float64 and autocast: the module's own way, with its result's dtype."""
    norm = nn.LayerNorm(8)
    x = torch.randn(3, 8)
    plain = copy.deepcopy(norm)
    tachyscope.optimize(norm, verbose=False)
    double = copy.deepcopy(plain).double()
    assert torch.equal(tachyscope_of(double)(x.double()), double(x.double()))
    with torch.autocast(x.device.type, torch.bfloat16):
        assert norm(x.bfloat16()).dtype == plain(x.bfloat16()).dtype
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    llama = LlamaRMSNorm(8)  # float32 weights beside bfloat16: its result is float32
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
    with pytest.raises(TypeError, match="expected a torch module or a pipeline with components, got int"):
        tachyscope.restore(3)
