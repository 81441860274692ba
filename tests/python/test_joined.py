"""Tests of the functions made of several ops: splitting a joined projection, and the feed-forward part."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from head_cases import rotated
from tachyscope import ops


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_qkv_rope(dtype):
    qkv, angles = torch.randn(2, 5, 3 * 2 * 16).to(dtype), torch.rand(5, 8) * 6
    parts = ops.qkv_rope(qkv, angles.cos(), angles.sin(), 2)
    want = qkv.view(2, 5, 3, 2, 16).unbind(2)
    for got, right in zip(parts[:2], want):
        torch.testing.assert_close(got, rotated(right, angles.cos(), angles.sin(), False))
    assert torch.equal(parts[2], want[2]) and parts[2].data_ptr() == want[2].data_ptr(), "v is a view"
    array = ops.qkv_rope(*(t.float().cpu().numpy() for t in (qkv, angles.cos(), angles.sin())), 2)
    torch.testing.assert_close(torch.from_numpy(array[1]), rotated(want[1].float(), angles.cos(), angles.sin(), False).cpu())
    for wrong, heads in ((qkv, 5), (qkv, 0), (qkv[0], 2), (7, 2)):
        with pytest.raises(ValueError, match="qkv_rope: expected qkv"):
            ops.qkv_rope(wrong, angles.cos(), angles.sin(), heads)


def layers(dtype=torch.float32, grad=False):
    shapes = (3, 5, 24), (40, 24), (40,), (10, 40), (10,)
    return [(torch.randn(shape) / 4).to(dtype).requires_grad_(grad) for shape in shapes]


def plain(x, weight, bias, weight2, bias2, approximate):
    return F.linear(F.gelu(F.linear(x, weight, bias), approximate=approximate), weight2, bias2)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_mlp(approximate):
    given = layers()
    want = plain(*given, approximate)
    torch.testing.assert_close(ops.mlp(*given, approximate), want)
    arrays = ops.mlp(*(t.cpu().numpy() for t in given), approximate)
    assert isinstance(arrays, np.ndarray)
    torch.testing.assert_close(torch.from_numpy(arrays), want.cpu())
    x, weight, _, weight2, _ = given
    torch.testing.assert_close(ops.mlp(x, weight, None, weight2, None, approximate), plain(x, weight, None, weight2, None, approximate))
    narrow = [t.bfloat16() for t in given]
    torch.testing.assert_close(ops.mlp(*narrow, approximate).float(), want, rtol=2e-2, atol=2e-2)


def test_gradients_of_mlp():
    given = layers(grad=True)
    got = torch.autograd.grad(ops.mlp(*given).square().sum(), given)
    want = torch.autograd.grad(plain(*given, "none").square().sum(), given)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)


def test_mlp_compiled():
    torch.compiler.reset()
    given = layers()
    compiled = torch.compile(lambda *t: ops.mlp(*t), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*given), plain(*given, "none"))


@pytest.mark.parametrize("place, shape, name", [(0, (3, 23), "x"), (1, (40,), "weight"), (2, (41,), "bias"), (3, (10, 39), "weight2"),
                                                (4, (11,), "bias2")])
def test_mlp_says_what_is_wrong(place, shape, name):
    given = layers()
    given[place] = torch.zeros(shape)
    with pytest.raises(ValueError, match=f"mlp: expected {name} "):
        ops.mlp(*given)
    with pytest.raises(ValueError, match="mlp: expected x"):
        ops.mlp(3.0, *layers()[1:])
