"""Tests of a convolution with GroupNorm and an activation: the function, and `optimize` on torch's Sequential and diffusers' Conv1dBlock."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tachyscope
from tachyscope import ops

BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
# samples, in, out, length, kernel, groups of the norm, options of the convolution
SHAPES = [(2, 6, 8, 17, 5, 4, dict(padding=2)), (1, 3, 9, 31, 3, 3, dict(stride=2)), (3, 4, 6, 13, 3, 1, dict(padding="same", dilation=2)),
          (2, 10, 15, 7, 1, 5, dict(groups=5)), (5, 1, 7, 5, 3, 7, {})]


def draw(shape, dtype):
    samples, channels, out, length, kernel, groups, options = shape
    torch.manual_seed(0)
    sizes = (samples, channels, length), (out, channels // options.get("groups", 1), kernel), (out,), (out,), (out,)
    return [torch.randn(size).to(dtype).requires_grad_() for size in sizes]


def call(shape, given, activation="mish"):
    options = dict(shape[6])
    options["conv_groups"] = options.pop("groups", 1)
    x, weight, bias, norm_weight, norm_bias = given
    return ops.conv1d_group_norm(x, weight, bias, shape[5], norm_weight, norm_bias, activation=activation, **options)


def plain(shape, given, act=F.mish):
    x, weight, bias, norm_weight, norm_bias = given
    return act(F.group_norm(F.conv1d(x, weight, bias, **shape[6]), shape[5], norm_weight, norm_bias))


def apart(result, exact):
    return (result.double() - exact).square().mean().sqrt().item()


@BOTH
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(shape, dtype):
    """In float32 values and gradients equal PyTorch's. In bfloat16 they are as near to float64 as the results of PyTorch's
    three steps."""
    given = draw(shape, dtype)
    wide = [t.detach().double().requires_grad_() for t in given]
    incoming = torch.randn(plain(shape, given).shape)

    def both_passes(function, tensors):
        y = function(shape, tensors)
        return [y, *torch.autograd.grad(y, tensors, incoming.to(y.dtype))]

    mine, theirs, exact = both_passes(call, given), both_passes(plain, given), both_passes(plain, wide)
    with torch.no_grad():
        in_place = call(shape, given)
    torch.testing.assert_close(in_place, mine[0])
    for a, b, right in zip(mine, theirs, exact):
        assert a.dtype == b.dtype == dtype and a.shape == b.shape
        if dtype == torch.float32:
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5 * max(1, right.abs().max().item()))
        else:
            rounding = 2 ** -8 * right.square().mean().sqrt().item()  # some gradients have less than ten values
            assert apart(a, right) <= 1.25 * apart(b, right) + rounding, (apart(a, right), apart(b, right))


@pytest.mark.parametrize("activation, act", [(None, lambda t: t), ("silu", F.silu), ("gelu", F.gelu)])
def test_other_activations(activation, act):
    given = draw(SHAPES[0], torch.float32)
    torch.testing.assert_close(call(SHAPES[0], given, activation), plain(SHAPES[0], given, act), rtol=1e-5, atol=1e-5)


def test_without_parameters():
    x, weight = draw(SHAPES[0], torch.float32)[:2]
    result = ops.conv1d_group_norm(x, weight, None, 4, padding=2)
    torch.testing.assert_close(result, plain(SHAPES[0], (x, weight, None, None, None)), rtol=1e-5, atol=1e-5)


@pytest.mark.cpu
def test_gradcheck():
    given = [t.detach().double().requires_grad_() for t in draw((1, 2, 4, 5, 3, 2, dict(padding=1)), torch.float32)]
    assert torch.autograd.gradcheck(lambda *t: ops.conv1d_group_norm(*t[:3], 2, *t[3:], padding=1), given)


def test_compiled():
    torch.compiler.reset()
    given = draw(SHAPES[0], torch.float32)
    compiled = torch.compile(lambda *t: call(SHAPES[0], t), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*given), call(SHAPES[0], given))


def test_autocast():
    given, kind = [t.detach() for t in draw(SHAPES[0], torch.float32)], torch.get_default_device().type
    with torch.autocast(kind, torch.bfloat16):
        result, expected = call(SHAPES[0], given), plain(SHAPES[0], given)
    torch.testing.assert_close(result.float(), expected.float(), rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("change, error, words", [
    (dict(x=np.zeros((2, 6, 17))), TypeError, "expected x to be a tensor of torch, got ndarray"),
    (dict(x=torch.zeros(6, 17)), ValueError, r"expected x \[samples, channels, length\], got \[6, 17\]"),
    (dict(weight=torch.zeros(8, 6)), ValueError, r"expected weight \[out, in / conv_groups, kernel\], got \[8, 6\]"),
    (dict(weight=7), ValueError, "kernel], got int"),
    (dict(weight=torch.zeros(8, 5, 5)), ValueError, r"beside 6 channels and conv_groups 1, got \[8, 5, 5\]"),
    (dict(conv_groups=0), ValueError, "conv_groups 0"),
    (dict(bias=torch.zeros(7)), ValueError, r"expected bias \[8\], got \[7\]"),
    (dict(groups=3), ValueError, "expected groups that divide 8 channels, got 3"),
    (dict(norm_weight=torch.zeros(7)), ValueError, r"group_norm: expected weight \[8\]"),
    (dict(activation="relu"), ValueError, "expected activation to be one of None")])
def test_bad_input(change, error, words):
    x, weight, bias, norm_weight, norm_bias = (t.detach() for t in draw(SHAPES[0], torch.float32))
    given = dict(x=x, weight=weight, bias=bias, groups=4, norm_weight=norm_weight, norm_bias=norm_bias)
    with pytest.raises(error, match=words):
        ops.conv1d_group_norm(**given | change)


def sequence():
    return nn.Sequential(nn.Conv1d(6, 8, 5, padding=2), nn.GroupNorm(4, 8), nn.Mish())


def image_sequence():
    return nn.Sequential(nn.Conv2d(6, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 9, 1), nn.GroupNorm(3, 9), nn.Mish(),
                         nn.GroupNorm(1, 9), nn.GELU("tanh"))


def conv1d_block():
    from diffusers.models.resnet import Conv1dBlock

    return Conv1dBlock(6, 8, 5, n_groups=4)


MAKERS = {"Sequential": (sequence, (3, 6, 17), {"Sequential": 1, "GroupNorm": 1, "Mish": 1}),
          "Sequential of images": (image_sequence, (2, 6, 7, 9), {"Sequential": 1, "GroupNorm": 3, "Mish": 1, "SiLU": 1, "GELU": 1}),
          "Conv1dBlock": (conv1d_block, (3, 6, 17), {"Conv1dBlock": 1, "GroupNorm": 1, "Mish": 1})}


def make(name, dtype=torch.float32):
    maker, shape, counts = MAKERS[name]
    torch.manual_seed(0)
    module = maker()
    for parameter in module.parameters():
        nn.init.normal_(parameter, mean=0.2, std=0.5)
    return module.to(dtype), torch.randn(shape).to(dtype), counts


def passes(monkeypatch):
    """Returns a list to which every later call of the kernel adds its activation."""
    seen, kernel = [], ops.group_norm
    monkeypatch.setattr(ops, "group_norm", lambda *args, activation=None, **more: seen.append(activation) or
                        kernel(*args, activation=activation, **more))
    return seen


@BOTH
@pytest.mark.parametrize("level", ["safe", "aggressive"])
@pytest.mark.parametrize("name", MAKERS)
def test_modules(name, level, dtype, monkeypatch):
    """In float32 and above level safe, norm and activation run in one pass. At level safe, 16-bit values are rounded as the modules round them."""
    module, x, counts = make(name, dtype)
    x.requires_grad_()
    expected = module(x)
    gradients = torch.autograd.grad(expected.float().square().sum(), [x, *module.parameters()])
    report = tachyscope.optimize(module, level, verbose=False)
    assert report.counts() == counts and not report.left
    assert any("group_norm_mish" in words for _, _, words in report.replaced)
    seen = passes(monkeypatch)
    result = module(x)
    joined = dtype == torch.float32 or level == "aggressive"
    assert seen == (["silu", "mish", "gelu_tanh"] if name == "Sequential of images" else ["mish"]) if joined else not any(seen)
    assert result.dtype == dtype and result.stride() == expected.stride()
    mine = torch.autograd.grad(result.float().square().sum(), [x, *module.parameters()])
    bound = 1e-5 if dtype == torch.float32 else 3e-2
    for a, b in zip((result, *mine), (expected, *gradients)):
        torch.testing.assert_close(a, b, rtol=bound, atol=bound * b.abs().max().item())
    assert tachyscope.restore(module) == sum(counts.values()) and torch.equal(module(x), expected)


@pytest.mark.parametrize("name", MAKERS)
def test_a_hook_is_called(name, monkeypatch):
    module, x, _ = make(name)
    norm = next(part for part in module.modules() if isinstance(part, nn.GroupNorm))
    results, seen = [], passes(monkeypatch)
    norm.register_forward_hook(lambda module, args, result: results.append(result))
    expected = module(x)
    tachyscope.optimize(module, verbose=False)
    torch.testing.assert_close(module(x), expected, rtol=1e-5, atol=1e-5)
    assert len(results) == 2 and seen[0] is None


def test_other_sequences():
    """The report does not mention sequences without such a pair, but it does mention their parts."""
    module = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.GroupNorm(2, 4), nn.ReLU(), nn.Mish(), nn.GroupNorm(1, 4))
    report = tachyscope.optimize(module, verbose=False)
    assert report.counts() == {"GroupNorm": 2, "Mish": 1} and not report.left
    assert tachyscope.optimize(nn.Sequential(), verbose=False).counts() == {}


def test_sequences_in_others():
    """Copies get a forward of their own, and modules that were not asked for stay as they are."""
    module = nn.Sequential(sequence(), nn.Identity(), sequence().append(nn.Conv1d(8, 6, 1)))
    module[2][0] = nn.Conv1d(8, 8, 3)
    x = torch.randn(2, 6, 13)
    expected = module(x)
    assert tachyscope.optimize(module, verbose=False).counts()["Sequential"] == 2
    other = copy.deepcopy(module)
    with torch.no_grad():
        other[0][1].bias.add_(1)
    torch.testing.assert_close(module(x), expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(other(x), expected)
    from tachyscope.compat import wan_kernels

    wan_kernels.optimize_transformer(module, wan_kernels.OptimizationConfig(enable_fused_norms=False))
    assert wan_kernels.get_active_optimizations() == ["mish"]


def test_compiled_sequence():
    torch.compiler.reset()
    module, x, _ = make("Sequential")
    tachyscope.optimize(module, verbose=False)
    expected = module(x)
    torch.testing.assert_close(torch.compile(module, fullgraph=True, backend="aot_eager")(x), expected)


def test_residual_block_of_one_axis():
    from diffusers.models.resnet import ResidualTemporalBlock1D

    block = ResidualTemporalBlock1D(16, 24, 12).eval()
    x, t = torch.randn(3, 16, 11), torch.randn(3, 12)
    expected = block(x, t)
    assert tachyscope.optimize(block, verbose=False).counts()["Conv1dBlock"] == 2
    torch.testing.assert_close(block(x, t), expected, rtol=1e-5, atol=1e-5)
