"""A block of Wan computes the first norm of the next one: how often, and that a changed tensor, another order of the blocks and hooks
still give what the blocks' own code gives."""

import pytest
import torch
from diffusers import WanTransformer3DModel

import tachyscope
from tachyscope import ops


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = WanTransformer3DModel(num_attention_heads=2, attention_head_dim=12, ffn_dim=40, num_layers=4, text_dim=16, in_channels=4,
                                  out_channels=4, freq_dim=16, cross_attn_norm=True)
    return model.eval().requires_grad_(False)


@pytest.fixture
def norms(monkeypatch):
    """The shapes of the norms that a block computes by themselves."""
    calls, norm = [], ops.ada_layer_norm
    monkeypatch.setattr(ops, "ada_layer_norm", lambda x, *args, **options: calls.append(x.shape) or norm(x, *args, **options))
    return calls


def run(model, scale=1.0):
    generator = torch.Generator("cpu").manual_seed(1)
    x, text = (torch.randn(shape, generator=generator, device="cpu").to(model.device) for shape in [(1, 4, 2, 4, 6), (1, 5, 16)])
    return model(x * scale, torch.tensor([500]), text, return_dict=False)[0]


def near(model, other):
    torch.testing.assert_close(model, other, rtol=1e-4, atol=1e-5)


def test_one_pass_for_two_blocks(model, norms):
    before, report = run(model), tachyscope.optimize(model, verbose=False)
    assert report.counts()["WanTransformerBlock"] == 4
    near(run(model), before)
    assert len(norms) >= 4, "the first run learns which block is next"
    first = len(norms)
    for scale in (1.0, 0.5, 1.0):
        norms.clear()
        result = run(model, scale)
        assert len(norms) == first - 3, "of four blocks the first computes its own norm"
    near(result, before)
    tachyscope.restore(model)
    assert torch.equal(run(model), before)


def test_a_tensor_that_changes_between_blocks(model):
    def double(block, args, result):
        return result.mul_(2)

    def other(block, args, result):
        return result * 2

    for hook in (double, other):
        handle = model.blocks[1].register_forward_hook(hook)
        before = run(model)
        tachyscope.optimize(model, verbose=False)
        for _ in range(3):
            near(run(model), before)
        tachyscope.restore(model)
        handle.remove()


def test_another_order_of_the_blocks(model):
    tachyscope.optimize(model, verbose=False)
    run(model), run(model)
    blocks = list(model.blocks)
    for order in ([0, 2, 1, 3], [0, 3], [2, 2, 1]):
        model.blocks = torch.nn.ModuleList(blocks[i] for i in order)
        got = run(model)
        tachyscope.restore(model)
        before = run(model)
        tachyscope.optimize(model, verbose=False)
        near(got, before)
        near(run(model), before)


def test_a_block_that_changes_its_weights_first(model):
    """Weights that a hook brings are not read ahead of it."""
    table = model.blocks[2].scale_shift_table
    right = table.clone()
    before = run(model)
    table.data.zero_()
    model.blocks[2].register_forward_pre_hook(lambda block, args: table.data.copy_(right).numel() and None)
    model.blocks[2].register_forward_hook(lambda block, args, result: table.data.zero_().numel() and None)
    tachyscope.optimize(model, verbose=False)
    for _ in range(3):
        near(run(model), before)


@pytest.mark.parametrize("way", ["gradients", "inference mode", "compiled"])
def test_ways_without_it(model, norms, way):
    before = run(model)
    tachyscope.optimize(model, verbose=False)
    run(model), norms.clear()
    if way == "gradients":
        model.requires_grad_(True)
        results = [run(model) for _ in range(2)]
        results[-1].sum().backward()
        assert all(p.grad is not None for p in model.blocks.parameters())
    elif way == "inference mode":
        with torch.inference_mode():
            results = [run(model) for _ in range(2)]
    else:
        torch.compiler.reset()
        model.compile_repeated_blocks(backend="eager")
        results = [run(model) for _ in range(2)]
    for result in results:
        near(result, before)
    assert way == "compiled" or len(norms) >= 2 * 4
