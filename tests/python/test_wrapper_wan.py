"""Wan's blocks and attention in WanVideoWrapper, on stand-ins for its classes, and with --wrapper FOLDER on its own."""

import importlib
import inspect
import sys
import types

import pytest
import torch
from torch import nn

import small_models
import tachyscope
import wrapper_stubs
from tachyscope import _shrunk
from tachyscope.compat import wan_kernels
from test_optimize import CountedCalls

pytestmark = pytest.mark.cpu


@pytest.fixture
def wan(monkeypatch):
    module = wrapper_stubs.wrapper()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(_shrunk, "_found", {})
    return module


def made(block, dtype=torch.float32, wide=torch.float32):
    """Returns the block with random weights, norms and rows of dtype `wide`, and its arguments."""
    torch.manual_seed(0)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.3)
    block = block.eval().requires_grad_(False).to(dtype)
    block.modulation.data = block.modulation.data.to(wide)
    for name in ("norm3", "self_attn.norm_q", "self_attn.norm_k"):
        block.get_submodule(name).to(wide)
    angles = torch.randn(1, 6, 1, 12)
    freqs = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], dim=-1).unflatten(-1, (2, 2))
    if block.rope_func == "default":
        freqs = torch.polar(torch.ones(8, 12, dtype=torch.double), torch.randn(8, 12).double())
    given = {"e": torch.randn(1, 6, 48).to(wide), "seq_lens": torch.tensor([6]), "grid_sizes": torch.tensor([[1, 2, 3]]), "freqs": freqs,
             "context": torch.randn(1, 5, 48).to(dtype), "current_step": 0}
    return block, torch.randn(1, 6, 48).to(dtype), given


def run(block, x, given):
    with torch.no_grad():
        result, *others = block(x.clone(), **given)
    assert others == [None, None, None]
    return result


def apart(a, b):
    return ((a.float() - b.float()).norm() / b.float().norm()).item()


@pytest.mark.parametrize("level", ["safe", "aggressive"])
@pytest.mark.parametrize("dtype, wide", [(torch.float32, torch.float32), (torch.bfloat16, torch.float32), (torch.bfloat16, torch.bfloat16)], ids=str)
@pytest.mark.parametrize("name, rope_func, image", [("WanAttentionBlock", "comfy", False), ("BaseWanAttentionBlock", "default", True),
                                                    ("BaseWanAttentionBlock", "comfy", False)])
def test_blocks(wan, name, rope_func, image, dtype, wide, level):
    block, x, given = made(getattr(wan, name)(image=image, rope_func=rope_func), dtype, wide)
    if image:
        given["clip_embed"] = torch.randn(1, 3, 48).to(dtype)
    before = run(block, x, given)
    report = tachyscope.optimize(block, level, verbose=False)
    assert {kind: op for _, kind, op in report.replaced if op != "gelu"} == {
        name: "a whole block", "WanSelfAttention": "attention", "WanI2VCrossAttention" if image else "WanT2VCrossAttention": "attention"}
    assert apart(run(block, x, given), before) < (2e-6 if dtype == torch.float32 else 1e-2)
    assert tachyscope.restore(block) == 4
    assert torch.equal(run(block, x, given), before)


@pytest.mark.parametrize("options, attention", [
    ({"camera_embed": torch.ones(1, 6, 48)}, False), ({"enhance_enabled": True}, False), ({"nag_context": torch.ones(1, 5, 48)}, False),
    ({"attention_mode_override": "sageattn"}, False), ({"x_ip": None, "last_step": True, "original_seq_len": 6}, True),
    ({"nag_params": {"nag_scale": 1}, "frame_tokens": 6, "transformer_options": {}}, True), ({"vace_hints": 2.0}, False)])
def test_arguments_of_other_models(wan, options, attention):
    """The block computes what its own code does, whatever it is asked for."""
    block, x, given = made(wan.BaseWanAttentionBlock())
    plain = run(block, x, given)
    before = run(block, x, given | options)
    assert (apart(before, plain) < 1e-6) == attention
    tachyscope.optimize(block, verbose=False)
    assert apart(run(block, x, given | options), before) < 2e-6


@pytest.mark.parametrize("change", [{"kv_cache": 1}, {"seg_idx": [0, 3, 6]}, {"rope_func": "mocha"}, {"attention_mode": "radial_sage_attention"}])
def test_states_of_other_models(wan, change, monkeypatch):
    block, x, given = made(wan.WanAttentionBlock())
    tachyscope.optimize(block, verbose=False)
    vars(block).update(change)
    calls = []
    monkeypatch.setattr(wan.WanAttentionBlock, "forward", lambda self, *args, **kwargs: calls.append(kwargs))
    block(x, **given)
    assert calls[0].keys() == given.keys()


def test_ways_of_use(wan):
    """Autocast, a forward that something else gave to attention, and layers in fp8 that cast themselves."""
    block, x, given = made(wan.WanAttentionBlock())
    block.cross_attn.forward = lambda x, context, *args, **kwargs: x * 2
    linear = block.ffn[0]
    linear.weight.data = linear.weight.data.to(torch.float8_e4m3fn)
    linear.forward = lambda x: nn.functional.linear(x, linear.weight.to(x.dtype), linear.bias)
    before = run(block, x, given)
    tachyscope.optimize(block, "aggressive", verbose=False)
    assert apart(run(block, x, given), before) < 2e-6
    tachyscope.restore(block)
    assert torch.equal(run(block, x, given), before)
    exact = run(block, x, given)
    with torch.autocast("cpu", torch.bfloat16):
        before = run(block, x, given)
        tachyscope.optimize(block, "aggressive", verbose=False)
        with CountedCalls() as calls:
            after = run(block, x, given)
    assert {"attention", "add_norm", "gated_residual"} <= calls.ops.keys() and after.dtype == before.dtype
    assert apart(after, exact) < 1.3 * apart(before, exact) + 1e-4


def windows(frames, length, overlap):
    """The frames of each context window: all windows have one length, and the last one ends with the clip, as in the wrapper's schedules without stride."""
    starts = range(0, max(1, frames - overlap), length - overlap)
    return [range(min(start, frames - length), min(start, frames - length) + length) for start in starts]


@pytest.mark.parametrize("how", ["tachyscope.graph", "torch.compile"])
def test_one_graph_for_all_context_windows(wan, how):
    """The wrapper's sampler takes the frames of a window out of the latent, the same for the prompt and without it, and calls the model with tables of
    positions that count from 0 in each. So calls of all windows and steps have the same shapes: one graph of a block serves them all, be it captured or
    compiled, as the wrapper compiles its blocks. A step's number is a plain value, so that one may change what is compiled but not what is captured."""
    per_frame, length = 3, 4
    block, _, given = made(wan.WanAttentionBlock())
    tachyscope.optimize(block, "aggressive", verbose=False)
    angles = torch.randn(1, per_frame * length, 1, 12)
    given["freqs"] = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], dim=-1).unflatten(-1, (2, 2))
    given |= {"seq_lens": torch.tensor([per_frame * length]), "grid_sizes": torch.tensor([[length, 1, per_frame]])}
    made_graphs = []

    def counted(graph, example):
        made_graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    x, rest = torch.randn(1, 11, per_frame, 48), {key: t for key, t in given.items() if key != "current_step"}
    call = torch.compile(block, fullgraph=True, dynamic=False, backend=counted) if how == "torch.compile" else None
    seen = windows(11, length, 1)
    assert len(seen) == 4 and {len(window) for window in seen} == {length} and set().union(*seen) == set(range(11))
    for _ in range(2):  # steps
        for window in seen:
            for _ in range(2):  # with the prompt, and without it
                taken = x[:, list(window)].flatten(1, 2)
                given_now = rest | {"e": torch.randn(1, 6, 48), "context": torch.randn(1, 5, 48)}
                if call is None:
                    call = tachyscope.graph(lambda x, **given: block(x, current_step=0, **given)[0], taken, **given_now)
                    made_graphs.append(call)
                with torch.no_grad():
                    got = call(taken.clone(), **given_now) if how == "tachyscope.graph" else call(taken.clone(), current_step=0, **given_now)[0]
                assert apart(got, run(block, taken, given | given_now)) < 2e-6
    assert len(made_graphs) == 1
    with torch.no_grad():  # a clip of another length
        if how == "tachyscope.graph":
            with pytest.raises(ValueError, match="graph: expected input"):
                call(taken[:, :per_frame], **given_now)


def test_number_of_blocks(wan):
    blocks = nn.ModuleList(made(wan.BaseWanAttentionBlock())[0] for _ in range(3))
    assert wan_kernels.patch_model_with_fused_blocks(blocks) == 3
    tachyscope.restore(blocks)
    wan.WanAttentionBlock.forward = lambda self, x, e, seq_lens, grid_sizes, freqs, context, context_lens: x
    with pytest.warns(RuntimeWarning, match="replaced no block: BaseWanAttentionBlock: it is of an old version of WanVideoWrapper"):
        assert wan_kernels.patch_model_with_fused_blocks(blocks) == 0
    with pytest.warns(RuntimeWarning, match="no block of a class that is known here"):
        assert wan_kernels.patch_model_with_fused_blocks(small_models.make("LLaMA")[0]) == 0


@pytest.fixture
def real(request, monkeypatch):
    """The module of WanVideoWrapper's own blocks, without the rest of the wrapper."""
    folder = request.config.getoption("--wrapper")
    if not folder:
        pytest.skip("no --wrapper FOLDER")
    if not request.config.getoption("--comfyui"):
        pytest.skip("the wrapper needs --comfyui FOLDER")
    name = "wrapper_under_test"
    for part in ("", ".wanvideo", ".wanvideo.modules"):  # the folders as packages, whose __init__ files are not run
        package = types.ModuleType(name + part)
        package.__path__ = [folder + part.replace(".", "/")]
        monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setattr(_shrunk, "_found", {})
    return importlib.import_module(name + ".wanvideo.modules.model")


def test_real_wrapper(real):
    """Blocks of a version whose arguments are known here are replaced; an older one keeps its own, with our norms."""
    if "current_step" not in inspect.signature(real.WanAttentionBlock.forward).parameters:
        report = tachyscope.optimize(real.WanAttentionBlock("t2v_cross_attn", 48, 64, 2, cross_attn_norm=True), verbose=False)
        assert [why for _, kind, why in report.left if kind == "WanAttentionBlock"] == ["it is of an old version of WanVideoWrapper"]
        return
    for kind in ("t2v_cross_attn", "i2v_cross_attn"):
        for rope_func in ("comfy", "default"):
            block, x, given = made(real.WanAttentionBlock(kind, 48, 48, 64, 64, 2, cross_attn_norm=True, rope_func=rope_func))
            if kind[0] == "i":
                given["clip_embed"] = torch.randn(1, 3, 48)
            before = run(block, x, given)
            report = tachyscope.optimize(block, "aggressive", verbose=False)
            assert report.counts()["WanAttentionBlock"] == 1 and report.counts()["WanSelfAttention"] == 1, report
            assert apart(run(block, x, given), before) < 2e-6
            tachyscope.restore(block)
            assert torch.equal(run(block, x, given), before)
