"""Tests of what the functions promise beyond their values: layouts, masks, mixed dtypes and the rounding of the modules they replace."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from diffusers.models.normalization import RMSNorm as DiffusersRMSNorm
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import tachyscope
from tachyscope import ops


@pytest.mark.parametrize("shape, layout", [((2, 8, 5, 7), torch.channels_last), ((2, 8, 3, 5, 7), torch.channels_last_3d)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_channels_last(shape, layout, dtype):
    plain = torch.randn(shape, dtype=dtype)
    x = plain.to(memory_format=layout)
    y = ops.group_norm_silu(x, 4)
    assert y.is_contiguous(memory_format=layout)
    torch.testing.assert_close(y, ops.group_norm_silu(plain, 4).contiguous(memory_format=layout))  # this layout's kernel adds in another order
    with FakeTensorMode() as mode:
        assert ops.group_norm_silu(mode.from_tensor(x), 4).stride() == y.stride()
    x.requires_grad_()
    gradient = torch.autograd.grad(ops.group_norm_silu(x, 4).float().square().sum(), x)[0]
    assert gradient.stride() == x.stride()


def test_one_sample_of_one_pixel():
    """With one sample of one pixel both layouts are the same."""
    x = torch.randn(1, 8, 1, 1)
    assert ops.group_norm(x, 2).is_contiguous()
    torch.testing.assert_close(ops.group_norm(x, 2), F.group_norm(x, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_halves_of_one_product(dtype):
    h = torch.randn(2, 5, 64, dtype=dtype)
    up, gate = h.chunk(2, -1)
    expected = ops.geglu(gate.contiguous(), up.contiguous())
    assert torch.equal(ops.geglu(gate, up), expected)


def test_residual_stream_in_float32():
    """With a float32 stream and bfloat16 branches, the sum stays in float32 and the norm's result is in bfloat16."""
    x, u, gate = torch.randn(2, 5, 32), torch.randn(2, 5, 32).bfloat16(), torch.randn(2, 1, 32)
    y, h = ops.add_norm(x, u, gate=gate, norm="layer", eps=1e-6)
    assert (y.dtype, h.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(h, x + gate * u.float())
    torch.testing.assert_close(y, F.layer_norm(h, (32,), eps=1e-6).bfloat16())
    torch.testing.assert_close(ops.gated_residual(x, u, gate), h)
    leaves = [t.clone().requires_grad_() for t in (x, u, gate)]
    ops.gated_residual(*leaves).square().sum().backward()
    assert [t.grad.dtype for t in leaves] == [torch.float32, torch.bfloat16, torch.float32]
    torch.testing.assert_close(leaves[0].grad, 2 * h)
    torch.testing.assert_close(leaves[1].grad, (2 * h * gate).bfloat16())
    mixed = [t.clone().requires_grad_() for t in (x, u, gate)]
    y, h = ops.add_norm(mixed[0], mixed[1], gate=mixed[2])
    (y.float().sum() + h.sum()).backward()
    assert [t.grad.dtype for t in mixed] == [torch.float32, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("make", [lambda: DiffusersRMSNorm(512, 1e-6), lambda: LlamaRMSNorm(512, 1e-6)],
                         ids=["diffusers", "llama"])
def test_rounding_of_modules(make):
    """round_twice gives the bits of modules that round twice, except for values that lie almost halfway between two; rounding once does not."""
    torch.manual_seed(0)
    module = make().bfloat16().requires_grad_(False)
    module.weight.copy_(torch.randn(512))
    x = torch.randn(64, 512).bfloat16()
    theirs = module(x)
    changed = [(ops.rms_norm(x, module.weight, 1e-6, round_twice=twice) != theirs).float().mean() for twice in (False, True)]
    assert changed[0] > 0.05 and changed[1] < 0.001, changed


def test_masks_of_bools():
    q, k = torch.randn(2, 5, 4, 16), torch.randn(2, 7, 4, 16)
    seen = torch.rand(2, 1, 5, 7) < 0.6
    seen[:, :, 2] = False  # a query that sees nothing
    y = ops.attention(q, k, k, seen)
    right = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), k.transpose(1, 2), seen).transpose(1, 2)
    others = [0, 1, 3, 4]
    torch.testing.assert_close(y[:, others], right[:, others])
    assert (y[:, 2] == 0).all()


@pytest.mark.cpu
def test_numpy_masks_and_adapters():
    q, k, seen = torch.randn(2, 5, 4, 16), torch.randn(2, 7, 4, 16), torch.rand(2, 1, 5, 7) < 0.6
    by_numpy = ops.attention(q.numpy(), k.numpy(), k.numpy(), seen.numpy())
    assert np.array_equal(by_numpy, ops.attention(q, k, k, seen).numpy())
    x, a, b = torch.randn(5, 24), torch.randn(4, 24), torch.randn(40, 4)
    assert np.array_equal(ops.lora(x.numpy(), a.numpy(), b.numpy(), 0.5), ops.lora(x, a, b, 0.5).numpy())
    each = ops.grouped_lora(x.numpy(), a.numpy()[None], b.numpy()[None], index=np.array([0, -1, 0, -1, -1]))
    assert (each[[1, 3, 4]] == 0).all() and (each[[0, 2]] != 0).all()


def test_forward_mode_is_refused():
    """The ops raise an error where tangents would be lost. Modules that optimize replaced run their own code then."""
    x = torch.randn(2, 8)
    with pytest.raises(NotImplementedError, match="rms_norm: forward-mode derivatives"):
        torch.func.jvp(lambda t: ops.rms_norm(t), (x,), (x,))
    model = torch.nn.Sequential(torch.nn.GELU(), torch.nn.LayerNorm(8))
    want = torch.func.jvp(model, (x,), (x,))
    tachyscope.optimize(model, verbose=False)
    torch.testing.assert_close(torch.func.jvp(model, (x,), (x,)), want)


def test_rounded_twice_beside_a_wide_stream():
    x, u, weight = torch.randn(3, 40), torch.randn(3, 40).bfloat16(), torch.randn(40).bfloat16()
    y, h = ops.add_norm(x, u, weight, round_twice=True)
    normed = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6)
    torch.testing.assert_close(y, normed.bfloat16() * weight, rtol=0, atol=0)
    assert not torch.equal(y, ops.add_norm(x, u, weight)[0])


def test_constants_refuse_gradients():
    x, table = torch.randn(1, 4, 1, 8, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    with pytest.raises(NotImplementedError, match="rope: cos has no gradient"):
        ops.rope(x, table, table.detach()).sum().backward()
    mask = torch.zeros(4, 4, requires_grad=True)
    with pytest.raises(NotImplementedError, match="attention: mask has no gradient"):
        ops.attention(x, x, x, mask, own_backward=True).sum().backward()
    ops.attention(x, x, x, mask).sum().backward()  # torch's backward pass has a gradient of the mask
    assert mask.grad is not None


@pytest.mark.cpu
def test_threads_of_torch_stay():
    """The pool pins OpenMP's threads for its own work; torch's ops on the same thread keep their thread count."""
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            ops.gelu(torch.randn(64, 4096))
            assert torch.__config__.parallel_info().find(f"omp_get_max_threads() : {threads}") > 0
    finally:
        torch.set_num_threads(before)


def test_one_adapter():
    x, a, b = torch.randn(3, 5, 24).bfloat16(), torch.randn(4, 24), torch.randn(40, 4)
    read = [t.to(x.dtype) if t.is_cuda else t for t in (a, b)]  # on a GPU adapters have x's dtype
    right = (x.double() @ read[0].double().T @ read[1].double().T * 0.5).bfloat16()
    torch.testing.assert_close(ops.lora(x, a, b, 0.5), right, rtol=1e-2, atol=1e-2)
    assert torch.equal(ops.lora(x, a, b, torch.tensor(0.5)), ops.lora(x, a, b, 0.5))
    assert torch.equal(ops.lora(x, a, b), 2 * ops.lora(x, a, b, 0.5))


def test_tables_are_kept_apart():
    """Each call differs from the one before in positions, order or grid, and gets its own tables."""
    x = torch.randn(1, 12, 1, 12)
    results = [ops.rope_1d(x), ops.rope_1d(x, first=1), ops.rope_1d(x, reverse_time=True), ops.rope_1d(x, 500.0),
               ops.rope_1d(x, halves=True), ops.rope_3d(x, (3, 2, 2)), ops.rope_3d(x, (2, 3, 2)),
               ops.rope_3d(x, (3, 2, 2), reverse_time=True), ops.rope_3d(x, (3, 2, 2), 500.0)]
    for i, one in enumerate(results):
        assert not any(torch.equal(one, other) for other in results[i + 1:])
    assert torch.equal(results[0], ops.rope_1d(x)) and torch.equal(results[5], ops.rope_3d(x, (3, 2, 2)))
