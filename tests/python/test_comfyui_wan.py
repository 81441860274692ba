"""The node's attention and Wan's blocks in ComfyUI, on stand-ins for its classes."""

import copy
import sys

import pytest
import torch
from torch import nn

import comfy_stubs
import tachyscope
from comfy_stubs import SEAM, by_torch, optimized_attention
from tachyscope import _shrunk, ops
from tachyscope.compat import wan_kernels
from test_comfyui import FOLDER, Patcher, nodes  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.skipif(not FOLDER.is_dir(), reason="a package without its sources"), pytest.mark.cpu]


@pytest.fixture
def wan(monkeypatch):
    module = comfy_stubs.comfyui()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(_shrunk, "_found", {})
    return module


@pytest.fixture
def attention(nodes):
    return sys.modules["comfyui_tachyscope.attention"]


def filled(model, dtype=torch.float32):
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval().requires_grad_(False).to(dtype)


def made(wan, dtype=torch.float32, frames=1, **options):
    """Returns a patcher of a small model and the inputs of its blocks."""
    patcher, model = Patcher(nn.Module()), filled(wan.WanModel(**options), dtype)
    patcher.model.diffusion_model = model
    angles = torch.randn(1, 6, 1, 12)
    freqs = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], dim=-1).unflatten(-1, (2, 2))
    return patcher, (torch.randn(2, 6, 48).to(dtype), torch.randn(2, frames, 6, 48).to(dtype), freqs, torch.randn(2, 8, 48).to(dtype))


def run(patcher, inputs, model=None):
    with torch.no_grad():
        return (patcher.model.diffusion_model if model is None else model)(*inputs, transformer_options=patcher.model_options["transformer_options"])


def node(nodes, patcher, level="aggressive", **settings):
    ours, = nodes.NODE_CLASS_MAPPINGS["TachyscopeModel"]().apply(patcher, level, **settings)
    ours.patch_model()
    return ours


def in_one(*shape, apart):
    return torch.randn(shape[0], shape[2], shape[1], shape[3]) if apart else torch.randn(*shape).flatten(2)


@pytest.mark.parametrize("apart, kept_apart", [(False, False), (True, False), (True, True), (False, True)])
@pytest.mark.parametrize("size", [8, 40, 64, 80, 96, 128, 160, 256])
def test_attention_of_every_head_size(attention, monkeypatch, size, apart, kept_apart):
    q, k, v = (in_one(2, n, 3, size, apart=apart) for n in (5, 7, 7))
    options = {"skip_reshape": apart, "skip_output_reshape": kept_apart}
    want = by_torch(q, k, v, 3, **options)
    got = optimized_attention(q, k, v, 3, transformer_options={SEAM: attention.Override(None, False, 1.0)}, **options)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (2, 5, 7), (1, 5, 7), (2, 1, 7), (2, 3, 5, 7), (2, 1, 1, 7)])
@pytest.mark.parametrize("kind", ["bool", "added"])
def test_masks(attention, shape, kind):
    torch.manual_seed(0)
    q, k, v = (in_one(2, n, 3, 16, apart=False) for n in (5, 7, 7))
    mask = torch.randn(shape)
    if kind == "bool":
        mask = mask > -0.5
        mask[..., 0] = True
    calls = []
    ours = attention.Override(lambda *args, **kwargs: calls.append(kwargs), False, 1.0)
    got = optimized_attention(q, k, v, 3, mask, transformer_options={SEAM: ours})
    torch.testing.assert_close(got, by_torch(q, k, v, 3, mask))
    assert not calls


def test_calls_that_our_attention_does_not_take(attention):
    """They go to another node's function or to ComfyUI's, with the same arguments."""
    q, k, v = (in_one(2, n, 3, 16, apart=False) for n in (5, 7, 7))
    ours = attention.Override(None, False, 1.0)
    strange = [dict(q=q.double(), k=k.double(), v=v.double()), dict(v=v[..., :24]), dict(k=k.bfloat16(), v=v.bfloat16()), dict(scale=2.0),
               dict(mask=torch.zeros(5, 1)), dict(mask=torch.zeros(5, 7, dtype=torch.float64))]
    for change in strange:
        given = {"q": q, "k": k, "v": v, "heads": 3, **change}
        seen = []

        def theirs(q, k, v, heads, **kwargs):
            seen.append((q, k, v, heads, kwargs))
            return "theirs"

        assert ours(theirs, **given, _inside_attn_wrapper=True) == "theirs", change
        (*first, kwargs), = seen
        assert first == [given["q"], given["k"], given["v"], 3] and kwargs["_inside_attn_wrapper"] and kwargs["mask"] is given.get("mask")
        other = attention.Override(lambda function, *args, **kwargs: "another node's", False, 1.0)
        assert other(theirs, **given) == "another node's"


def test_less_of_attention(attention):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 1100, 2 * 32) for _ in range(3))
    heads = [torch.unflatten(t, 2, (2, -1)) for t in (q, k, v)]
    got = optimized_attention(q, k, v, 2, transformer_options={SEAM: attention.Override(None, False, 0.5)})
    assert torch.equal(got, ops.attention(*heads, blocks=0.5).flatten(2))
    exact = by_torch(q, k, v, 2)
    assert 0.01 < (got - exact).norm() / exact.norm() < 1
    for few in (slice(0, 600), slice(0, 5)):
        part = [t[:, few] for t in (q, k, v)]
        torch.testing.assert_close(attention.Override(None, False, 0.5)(by_torch, *part, 2), by_torch(*part, 2))
    eight = attention.Override(None, True, 1.0)(by_torch, q, k, v, 2)
    assert (eight - exact).norm() < 0.05 * exact.norm()
    with torch.enable_grad():
        q.requires_grad_()
        assert torch.autograd.grad(attention.Override(None, True, 0.5)(by_torch, q, k, v, 2).sum(), q)[0].isfinite().all()


def test_the_seam_is_the_clones(nodes, attention, wan):
    model, inputs = made(wan)
    ours, = nodes.NODE_CLASS_MAPPINGS["TachyscopeModel"]().apply(model, "safe", attention="8 bits", blocks=0.5)
    seam = ours.model_options["transformer_options"][SEAM]
    assert SEAM not in model.model_options["transformer_options"] and seam.eight_bits and seam.share == 0.5
    for settings in ({"level": "none"}, {"level": "safe", "attention": "off"}):
        again, = nodes.NODE_CLASS_MAPPINGS["TachyscopeModel"]().apply(ours, **settings)
        assert SEAM not in again.model_options["transformer_options"]
    other = model.clone()
    other.model_options["transformer_options"][SEAM] = by_torch
    twice, = nodes.NODE_CLASS_MAPPINGS["TachyscopeModel"]().apply(other, "safe")
    twice, = nodes.NODE_CLASS_MAPPINGS["TachyscopeModel"]().apply(twice, "safe")
    assert twice.model_options["transformer_options"][SEAM].before is by_torch


@pytest.mark.parametrize("settings, text", [({"level": "best"}, "level: expected one of safe"), ({"attention": "4 bits"}, "attention: expected one of"),
                                            ({"blocks": 0.0}, r"blocks: expected a share in \(0, 1\], got 0.0"), ({"blocks": "all"}, "blocks: expected")])
def test_settings_that_there_are_not(nodes, wan, settings, text):
    with pytest.raises(ValueError, match=text):
        nodes.NODE_CLASS_MAPPINGS["TachyscopeModel"]().apply(made(wan)[0], **{"level": "safe"} | settings)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("frames, image", [(1, False), (3, False), (1, True)])
def test_blocks(nodes, wan, dtype, frames, image):
    model, inputs = made(wan, dtype, frames, image=image)
    wide = copy.deepcopy(model.model.diffusion_model).float()
    right = run(model, [t.float() for t in inputs], wide)
    before = run(model, inputs)
    for level in ("safe", "aggressive"):
        ours = node(nodes, model, level)
        blocks = ours.model.diffusion_model.blocks
        assert all("forward" in part.__dict__ for block in blocks for part in (block, block.self_attn)), level
        got = run(ours, inputs)
        if dtype == torch.float32:
            torch.testing.assert_close(got, before, rtol=1e-4, atol=1e-4)
        # A few large values, which each rounding may move by a whole place, make most of the two errors.
        assert (got - right).norm() <= 1.5 * (before - right).norm() + 1e-5 * right.norm()
        ours.detach()
        assert torch.equal(run(model, inputs), before)


def patched(model, way):
    """Changes the model as ComfyUI does for that way."""
    for name, module in model.model.diffusion_model.named_modules():
        if way == "low memory" and isinstance(module, comfy_stubs.Cast) and getattr(module, "weight", None) is not None:
            module.bfloat16()
        if way == "fp8" and isinstance(module, nn.Linear):
            module.weight.data = module.weight.data.to(torch.float8_e4m3fn)
        if way == "LoRA" and name.endswith(("self_attn.q", "ffn.0", "norm3", "norm_q")):
            module.weight_function = [lambda weight: weight * 1.5]


@pytest.mark.parametrize("way", ["low memory", "fp8", "LoRA", "autocast", "skipped layers", "compile", "hook"])
def test_ways_of_use(nodes, wan, way):
    model, inputs = made(wan)
    patched(model, way)
    options = model.model_options["transformer_options"]
    if way == "skipped layers":
        options["patches_replace"] = {"dit": {("double_block", 0): lambda args, more: args}}
    called = []
    if way == "hook":
        model.model.diffusion_model.blocks[0].norm3.register_forward_hook(lambda *args: called.append(1))

    def result(patcher, module=None):
        with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast"):
            return run(patcher, inputs, module)

    before = result(model)
    ours = node(nodes, model)
    module = torch.compile(ours.model.diffusion_model, backend="eager", fullgraph=True) if way == "compile" else None
    got, bound = result(ours, module), 2e-2 if way == "autocast" else 1e-5
    assert got.dtype == before.dtype and (got - before).norm() <= bound * before.norm()
    assert way != "hook" or len(called) == 2
    ours.detach()
    assert torch.equal(result(model), before)


def test_a_node_that_replaces_a_part(nodes, wan):
    """Its forward of attention is called by our block."""
    model, inputs = made(wan)
    attention = model.model.diffusion_model.blocks[1].cross_attn
    attention.forward = lambda x, context, **options: x * 2
    before = run(model, inputs)
    ours = node(nodes, model)
    torch.testing.assert_close(run(ours, inputs), before, rtol=1e-4, atol=1e-4)
    ours.detach()
    assert torch.equal(run(model, inputs), before)


def changed(wan, how):
    """Gives the blocks another forward, as a later version of ComfyUI may."""
    theirs = wan.WanAttentionBlock.forward

    def other_values(self, x, e, freqs, context, context_img_len=257, transformer_options={}):
        return theirs(self, x, e, freqs, context, context_img_len, transformer_options) + x

    def other_arguments(self, x, rows, positions, text):
        return x

    wan.WanAttentionBlock.forward = {"values": other_values, "arguments": other_arguments}[how]


@pytest.mark.parametrize("how, why", [("values", "gives other values than our rule"), ("arguments", "does not run with the arguments")])
def test_another_version(wan, how, why):
    changed(wan, how)
    model = filled(wan.WanModel())
    report = tachyscope.optimize(model, verbose=False)
    assert [w for name, _, w in report.left if name == "blocks.0" and why in w], report
    tachyscope.restore(model)
    with pytest.warns(RuntimeWarning, match=f"replaced no block: WanAttentionBlock: .*{why}"):
        assert wan_kernels.patch_model_with_fused_blocks(model) == 0


def test_number_of_blocks(wan):
    model = filled(wan.WanModel(layers=3))
    assert wan_kernels.patch_model_with_fused_blocks(model) == 3
    with pytest.warns(RuntimeWarning, match="replaced before"):
        assert wan_kernels.patch_model_with_fused_blocks(model) == 0
    assert tachyscope.restore(model) == 3
    with pytest.warns(RuntimeWarning, match="no block of a class that is known here"):
        assert wan_kernels.patch_model_with_fused_blocks(nn.Linear(2, 2)) == 0
