"""Tests what else users do with optimized models: training, torch.compile, offloading, copies, adapters, and attention that the
user has chosen."""

import copy

import pytest
import torch
from torch import nn

import small_models
import tachyscope
from conftest import no_default_device
from test_optimize import EXPECTED, CountedCalls

CLASSES = {"Wan": "WanAttention", "LTX-Video": "LTXAttention", "FLUX": "FluxAttention", "SD3": "Attention", "SDXL": "Attention"}
DIFFUSERS = ["Wan", "LTX-Video", "FLUX", "SD3", "SDXL", "PixArt", "DiT", "VAE"]


@pytest.mark.parametrize("name", DIFFUSERS)
def test_training_step(name):
    """The gradients of all parameters stay the same but for float32 rounding."""
    model, inputs = small_models.make(name)

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


@pytest.mark.parametrize("name", [*DIFFUSERS, "LLaMA"])
def test_compile(name):
    torch.compiler.reset()
    model, inputs = small_models.make(name)
    before = small_models.run(model, inputs)
    tachyscope.optimize(model, verbose=False)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with no_default_device():
        torch.testing.assert_close(small_models.run(compiled, inputs), before)


@pytest.mark.parametrize("name", ["SD3", "SDXL", "PixArt", "DiT"])
def test_compile_with_a_default_device(name):
    """Models whose own code compiles to one graph with a default device (some do not) still do."""
    torch.compiler.reset()
    model, inputs = small_models.make(name)
    before = small_models.run(model, inputs)
    tachyscope.optimize(model, verbose=False)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.device(torch.get_default_device()):
        torch.testing.assert_close(small_models.run(compiled, inputs), before)


@pytest.mark.parametrize("name", DIFFUSERS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_offloading(name, when):
    """accelerate may keep the weights elsewhere and load them for each call, whether it or optimize came first. Removing its hooks leaves our changes
    in place."""
    from accelerate.hooks import AlignDevicesHook, add_hook_to_module, remove_hook_from_submodules

    model, inputs = small_models.make(name)
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
    assert report.counts() == EXPECTED[name][0]
    assert all(parameter.device.type == "meta" for parameter in model.parameters())
    optimized = small_models.run(model, inputs)
    torch.testing.assert_close(optimized, before)
    count = sum(EXPECTED[name][0].values())
    assert tachyscope.restore(model) == count
    assert torch.equal(small_models.run(model, inputs), before)
    tachyscope.optimize(model, verbose=False)
    remove_hook_from_submodules(model)
    torch.testing.assert_close(small_models.run(model, inputs), optimized)
    assert tachyscope.restore(model) == count
    assert torch.equal(small_models.run(model, inputs), before)


@pytest.mark.parametrize("name", ["Wan", "LTX-Video", "FLUX", "SDXL"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_hooks_of_diffusers(name, when):
    """Offloading in groups works whether it or optimize came first. Norms whose weights it loads are called, and everything can be undone."""
    from diffusers.hooks import apply_group_offloading
    from diffusers.hooks.hooks import HookRegistry

    model, inputs = small_models.make(name)
    before, device = small_models.run(model, inputs), next(model.parameters()).device

    def offload():
        apply_group_offloading(model, onload_device=device, offload_device=torch.device("cpu"), offload_type="leaf_level")

    if when == "before":
        offload()
    report = tachyscope.optimize(model, verbose=False)
    assert report.counts() == EXPECTED[name][0]
    if when == "after":
        offload()
    with CountedCalls() as calls:
        optimized = small_models.run(model, inputs)
    assert calls.ops["attention"] == sum(type(m).__name__ == CLASSES[name] for m in model.modules())
    if name in ("Wan", "SDXL"):  # blocks do not read a norm's parameters if a hook loads them
        assert calls.ops["add_norm"] == {"Wan": 2, "SDXL": 0}[name]
    torch.testing.assert_close(optimized, before)
    count = sum(EXPECTED[name][0].values())
    assert tachyscope.restore(model) == count
    with CountedCalls() as calls:
        assert torch.equal(small_models.run(model, inputs), before)
    assert not calls.ops
    tachyscope.optimize(model, verbose=False)
    for hook in {key for m in model.modules() if hasattr(m, "_diffusers_hook") for key in m._diffusers_hook.hooks}:
        HookRegistry.check_if_exists_or_initialize(model).remove_hook(hook, recurse=True)
    model.to(device)  # the hooks leave the weights where they were offloaded to
    torch.testing.assert_close(small_models.run(model, inputs), before)
    assert tachyscope.restore(model) == count
    assert torch.equal(small_models.run(model, inputs), before)


@pytest.mark.parametrize("name", DIFFUSERS)
def test_copies_of_models(name):
    """A copy computes with its own parameters: changing them changes the copy's result and not the original's."""
    model, inputs = small_models.make(name)
    tachyscope.optimize(model, verbose=False)
    before = small_models.run(model, inputs)
    twin = copy.deepcopy(model)
    assert torch.equal(small_models.run(twin, inputs), before)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    assert torch.equal(small_models.run(twin, inputs), before)
    assert not torch.equal(small_models.run(model, inputs), before)


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


@pytest.mark.parametrize("name", DIFFUSERS)
@pytest.mark.parametrize("level", ["safe", "aggressive"])
def test_layers_are_called(name, level):
    """Every linear layer and convolution is called as often as before, so hooks and adapters on them still take effect."""
    model, inputs = small_models.make(name)
    calls = {}

    def count(module, args, result):
        calls[module] = calls.get(module, 0) + 1

    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d, nn.Conv3d)):
            module.register_forward_hook(count)
    small_models.run(model, inputs)
    before = dict(calls)
    calls.clear()
    tachyscope.optimize(model, level, verbose=False)
    small_models.run(model, inputs)
    assert calls == before and len(before) > 3


@pytest.mark.parametrize("name", ["LTX-Video", "FLUX", "SD3", "SDXL"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_lora(name, when):
    peft = pytest.importorskip("peft")
    model, inputs = small_models.make(name)
    plain = small_models.run(model, inputs)

    def adapt():
        torch.manual_seed(1)
        model.add_adapter(peft.LoraConfig(r=2, target_modules=["to_q", "to_v", "to_out.0"], init_lora_weights=False))

    if when == "before":
        adapt()
    tachyscope.optimize(model, verbose=False)
    if when == "after":
        adapt()
    ours = small_models.run(model, inputs)
    tachyscope.restore(model)
    theirs = small_models.run(model, inputs)
    assert (theirs - plain).abs().max() > 1e-2 * plain.abs().max()
    assert (ours - theirs).abs().max() <= small_models.near(model, 3e-6) * theirs.abs().max()


@pytest.mark.parametrize("name", CLASSES)
def test_a_processor_of_the_user(name):
    """If the user sets a processor before optimize, the module is left as it is and the report says so. If it
    is set afterwards, the user's code runs, in that module alone."""
    model, inputs = small_models.make(name)
    attentions = {key: m for key, m in model.named_modules() if type(m).__name__ == CLASSES[name]}
    (first, one), (_, two), *others = attentions.items()

    class Mine(type(one.processor)):
        calls = 0

        def __call__(self, *args, **kwargs):
            Mine.calls += 1
            return super().__call__(*args, **kwargs)

    expected = small_models.run(model, inputs)
    one.set_processor(Mine())
    report = tachyscope.optimize(model, verbose=False)
    assert (first, CLASSES[name], "its processor is Mine") in report.left
    two.set_processor(Mine())
    with CountedCalls() as calls:
        result = small_models.run(model, inputs)
    assert Mine.calls == 2 and calls.ops["attention"] == len(others)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Wan", "LTX-Video", "FLUX"])
def test_a_backend_of_the_user(name):
    """If the user chooses a backend for all of diffusers in a context, or for one model, diffusers'
    dispatcher runs."""
    from diffusers.models.attention_dispatch import AttentionBackendName, _AttentionBackendRegistry, attention_backend

    model, inputs = small_models.make(name)
    count = sum(type(m).__name__ == CLASSES[name] for m in model.modules())

    def attentions():
        with CountedCalls() as calls:
            small_models.run(model, inputs)
        return calls.ops["attention"]

    with attention_backend("_native_math"):
        left = tachyscope.optimize(model, verbose=False).left
        words = [why for _, kind, why in left if kind == CLASSES[name]]
        assert words == ["another attention backend was chosen for diffusers"] * count
    assert attentions() == 0
    tachyscope.optimize(model, verbose=False)
    assert attentions() == count
    with attention_backend("_native_math"):
        assert attentions() == 0
    model.set_attention_backend("_native_math")
    # The line above has changed the backend for all models.
    _AttentionBackendRegistry.set_active_backend(AttentionBackendName.NATIVE)
    assert attentions() == 0


def test_unknown_arguments_of_attention():
    """A call with arguments that the rules do not know is left to the module itself, which warns of them or uses them."""
    model, inputs = small_models.make("SD3")
    tachyscope.optimize(model, verbose=False)
    with CountedCalls() as calls:
        small_models.run(model, inputs | dict(joint_attention_kwargs={"other": 1}))
    assert calls.ops["attention"] == 0 and calls.ops["gated_residual"] > 0
