"""Tests training, compiling, offloading, hooks and copies of transformers' language models with our attention and decoder layers."""

import copy

import pytest
import torch

import tachyscope
from test_optimize import CountedCalls
from test_transformers import expect_near, generate, logits, make, prompts


@pytest.mark.parametrize("name", ["LLaMA", "Gemma3", "Falcon", "Falcon, older"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_training_step(name, checkpointing):
    model = make(name).train()
    if checkpointing:
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()  # 5.17 has only the second name
    ids, mask = prompts()

    def gradients():
        model.zero_grad()
        model(ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, -100), use_cache=False).loss.backward()
        return {name: p.grad.clone() for name, p in model.named_parameters()}

    before = gradients()
    tachyscope.optimize(model, verbose=False)
    after = gradients()
    for key, theirs in before.items():
        assert (after[key] - theirs).abs().max() <= 1e-4 * theirs.abs().max() + 1e-7, key


@pytest.mark.parametrize("name", ["LLaMA", "Gemma3", "Falcon"])
def test_autocast(name):
    """Under autocast our registered function hands over to transformers' own code with our mask, so the bits are the same where a model has neither
    torch's LayerNorm nor its GELU, which compute there."""
    model = make(name)
    ids, mask = prompts()

    def inside():
        with torch.autocast(ids.device.type, torch.bfloat16):
            return logits(model, ids, mask)[mask.bool()]

    before = inside()
    tachyscope.optimize(model, verbose=False)
    with CountedCalls() as calls:
        after = inside()
    if name == "Falcon":
        assert calls.ops.keys() == {"layer_norm", "activation"}
        torch.testing.assert_close(after, before, rtol=3e-2, atol=3e-2)
    else:
        assert torch.equal(after, before) and not calls.ops


def graphs_of(seen):
    """Makes a backend that records the names of our ops in each graph."""
    from torch._dynamo.backends.debugging import aot_eager

    def backend(module, inputs):
        seen.append({str(node.target).split(".")[1] for node in module.graph.nodes if "tachyscope" in str(node.target)})
        return aot_eager(module, inputs)

    return backend


@pytest.mark.parametrize("name", ["LLaMA", "Mistral", "Gemma2", "Gemma3", "Falcon"])
def test_compile(name):
    """A prompt, and generate's decoding with a static cache, compile to whole graphs."""
    from transformers import CompileConfig

    torch.compiler.reset()
    model, seen = make(name), []
    ids, mask = prompts()
    tokens = generate(model, cache_implementation="static")
    tachyscope.optimize(model, verbose=False)
    before = logits(model, ids, mask, use_cache=False)
    compiled = torch.compile(model, fullgraph=True, backend=graphs_of(seen))
    torch.testing.assert_close(logits(compiled, ids, mask, use_cache=False), before)
    ours = {"rope"} | ({"attention"} if name != "Gemma2" else set()) | ({"add_norm"} if name != "Falcon" else set())
    assert len(seen) == 1 and ours <= seen[0]

    config = CompileConfig(backend=graphs_of(seen), fullgraph=True, mode=None)
    config._compile_all_devices = True
    assert torch.equal(generate(model, cache_implementation="static", compile_config=config), tokens)
    assert len(seen) > 1 and all(ours <= graph for graph in seen)


@pytest.mark.parametrize("when", ["before", "after"])
def test_offloading(when):
    """accelerate loads the weights for each call; the norm after the add is then called as a module."""
    from accelerate.hooks import AlignDevicesHook, add_hook_to_module, remove_hook_from_submodules

    model = make("LLaMA")
    before = generate(model)

    def offload():
        for module in model.modules():
            if any(True for _ in module.parameters(recurse=False)):
                add_hook_to_module(module, AlignDevicesHook(execution_device=torch.get_default_device(), offload=True))

    if when == "before":
        offload()
    tachyscope.optimize(model, verbose=False)
    if when == "after":
        offload()
    assert model.model.layers[0].post_attention_layernorm.weight.device.type == "meta"
    with CountedCalls() as calls:
        assert torch.equal(generate(model), before)
    assert "add_norm" not in calls.ops and calls.ops["attention"] == 3 * 14
    remove_hook_from_submodules(model)
    with CountedCalls() as calls:
        assert torch.equal(generate(model), before)
    assert calls.ops["add_norm"] == 3 * 14
    tachyscope.restore(model)
    assert torch.equal(generate(model), before)


def test_hooks_and_changed_modules():
    """Hooks on the norm after the add run, and a norm that was replaced later is called."""
    model = make("LLaMA")
    tachyscope.optimize(model, verbose=False)
    ids, mask = prompts()
    before, seen = logits(model, ids, mask), []
    norm = model.model.layers[1].post_attention_layernorm
    handle = norm.register_forward_hook(lambda module, args, result: seen.append(result))
    expect_near(logits(model, ids, mask), before)
    assert len(seen) == 1
    handle.remove()
    model.model.layers[1].post_attention_layernorm = torch.nn.Identity()
    assert not torch.allclose(logits(model, ids, mask), before)


def test_recorded_outputs():
    model = make("Gemma3")
    ids, mask = prompts()

    def states():
        with torch.no_grad():
            return model(ids, attention_mask=mask, output_hidden_states=True).hidden_states

    before = states()
    tachyscope.optimize(model, verbose=False)
    after = states()
    assert len(after) == len(before) == 4
    for ours, theirs in zip(after, before):
        expect_near(ours[mask.bool()], theirs[mask.bool()])


def test_copies():
    """A copy has its own config: restoring the copy leaves the other model's config as it is."""
    model = make("LLaMA")
    tokens = generate(model)
    tachyscope.optimize(model, verbose=False)
    twin = copy.deepcopy(model)
    assert torch.equal(generate(twin), tokens)
    tachyscope.restore(twin)
    assert (twin.config._attn_implementation, model.config._attn_implementation) == ("sdpa", "tachyscope")
    assert torch.equal(generate(twin), tokens) and torch.equal(generate(model), tokens)


@pytest.mark.parametrize("what", ["a forward hook", "a backward hook", "a forward of its own", "a hook of diffusers"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_on_a_norm_counts(what, when):
    """A norm in the middle of a layer is called if it has hooks or a changed forward."""
    model, calls = make("LLaMA"), []
    norm = model.model.layers[0].post_attention_layernorm

    def put_on():
        if what == "a forward hook":
            norm.register_forward_hook(lambda module, inputs, output: calls.append(1))
        elif what == "a backward hook":
            norm.register_full_backward_hook(lambda module, inputs, outputs: calls.append(1))
        elif what == "a forward of its own":
            norm.forward = lambda x: calls.append(1) or x * 0
        else:
            from diffusers.hooks import HookRegistry, ModelHook

            class Counting(ModelHook):
                def pre_forward(self, module, *args, **kwargs):
                    calls.append(1)
                    return args, kwargs

            HookRegistry.check_if_exists_or_initialize(norm).register_hook(Counting(), "counting")

    if when == "before":
        put_on()
    tachyscope.optimize(model, verbose=False)
    if when == "after":
        put_on()
    ids, mask = prompts()
    model(ids, attention_mask=mask, use_cache=False).logits.sum().backward()
    assert len(calls) == 1


def test_float64_with_padding():
    """Our registered function hands over to transformers' own code with our mask."""
    model = make("LLaMA").double()
    ids, mask = prompts()
    before = logits(model, ids, mask)
    tachyscope.optimize(model, verbose=False)
    torch.testing.assert_close(logits(model, ids, mask)[mask.bool()], before[mask.bool()], rtol=1e-6, atol=1e-6)
