"""`tachyscope.compat.wan_kernels`: every function is compared with PyTorch in float32 (1e-5) and bfloat16; test_compat_models.py tests the classes
and the functions that take models."""

import inspect

import pytest
import torch
import torch.nn.functional as F

from head_cases import frequencies, grid_angles, rotated
from tachyscope.compat import wan_kernels as wan

BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
SIGNATURES = {
    "rope_apply": "x, grid_sizes, freqs, reverse_time=False", "rope_apply_triton": "x, grid_sizes, freqs, reverse_time=False",
    "rope_apply_real": "x, grid_sizes, freqs, reverse_time=False", "rope_apply_real_3d": "x, grid_sizes, freqs, reverse_time=False",
    "grouped_lora_forward_optimized": "x, a, b, scales", "single_lora_forward_optimized": "x, a, b, scale",
    "fused_layernorm_modulation": "x, weight, scale, shift", "fused_swiglu": "gate, up",
    "fused_qkv_rope": "qkv, cos, sin, num_heads", "FusedWanBlock": "hidden_dim, num_heads, ffn_dim",
    "patch_model_with_fused_blocks": "model", "validate_kernel": "old_fn, new_fn, inputs, rtol=1e-05, atol=1e-05",
    "inject_optimized_kernels": "pipe", "gelu_fast": "out, x", "optimize_transformer": "transformer, config=None, model_config=None",
}


def near(mine, theirs, dtype):
    assert mine.dtype == dtype
    bound = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(mine.float(), theirs.float(), rtol=bound, atol=bound)


def test_signatures():
    for name, words in SIGNATURES.items():
        assert str(inspect.signature(getattr(wan, name))) == f"({words})"
    assert all(hasattr(wan, name) for name in wan.__all__)


def rope_inputs(grids, heads, dim, rest, dtype):
    side = 2 * (dim // 6)
    angles = torch.cat([torch.outer(torch.arange(32, dtype=torch.float64), frequencies(d).to(torch.get_default_device()))
                        for d in (dim - 2 * side, side, side)], 1)
    tokens = max(t * h * w for t, h, w in grids) + rest
    x = torch.randn(len(grids), tokens, heads, dim).to(dtype)
    return x, torch.tensor(grids, device="cpu"), torch.polar(torch.ones_like(angles), angles)


@BOTH
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("grids, rest", [([(3, 2, 4)], 0), ([(3, 2, 4)] * 2, 5), ([(2, 3, 3), (1, 2, 4)], 1)])
def test_rope(dtype, reverse, grids, rest):
    dim = 44
    x, sizes, freqs = rope_inputs(grids, 2, dim, rest, dtype)
    right = x.clone()
    for i, grid in enumerate(grids):
        angles, n = grid_angles(grid, dim, reverse), grid[0] * grid[1] * grid[2]
        right[i:i + 1, :n] = rotated(x[i:i + 1, :n], angles.cos(), angles.sin(), False)
    before = x.clone()
    for name in ("rope_apply", "rope_apply_triton", "rope_apply_real", "rope_apply_real_3d"):
        near(getattr(wan, name)(x, sizes, freqs, reverse), right, dtype)
    assert torch.equal(x, before)


def test_gradient_of_rope():
    x, sizes, freqs = rope_inputs([(3, 2, 4), (2, 2, 2)], 2, 44, 0, torch.float32)
    x.requires_grad_()
    incoming = torch.randn_like(x)
    mine, theirs = (torch.autograd.grad(f(x, sizes, freqs), x, incoming)[0] for f in (wan.rope_apply_triton, wan.rope_apply))
    near(mine, theirs, torch.float32)


def test_bad_rope():
    x, sizes, freqs = rope_inputs([(3, 2, 4)], 2, 44, 0, torch.float32)
    for bad, words in (((x[0], sizes, freqs), "expected x"), ((x, sizes, freqs.real), "expected freqs complex"),
                       ((x, sizes.repeat(2, 1), freqs), r"expected grid_sizes \[1, 3\]"),
                       ((x, sizes + 1, freqs), "grid_sizes of at most 24 tokens"), ((x, sizes, freqs[:3]), "at least 4 positions")):
        with pytest.raises(ValueError, match=words):
            wan.rope_apply_triton(*bad)
    for bad, words in (((x.cpu().numpy(), sizes, freqs), "expected x to be a tensor of torch, got ndarray"),
                       ((x, sizes, None), "expected freqs to be a tensor of torch, got NoneType")):
        with pytest.raises(TypeError, match=words):
            wan.rope_apply_triton(*bad)


@BOTH
def test_lora(dtype):
    x, a, b = torch.randn(5, 24), torch.randn(3, 4, 24) / 5, torch.randn(3, 40, 4) / 2
    scales, (x, a, b) = torch.tensor([0.5, -1.0, 2.0]), (t.to(dtype) for t in (x, a, b))
    each = [x.float() @ a[i].float().T @ b[i].float().T for i in range(3)]
    near(wan.grouped_lora_forward_optimized(x, a, b, scales), sum(s * y for s, y in zip(scales, each)), dtype)
    near(wan.single_lora_forward_optimized(x, a[1], b[1], 0.25), 0.25 * each[1], dtype)


@BOTH
def test_fused_ops(dtype):
    x, gate = torch.randn(2, 2, 9, 40).to(dtype)
    weight, (scale, shift) = torch.randn(40).to(dtype), torch.randn(2, 2, 1, 40).to(dtype)
    right = (1 + scale.float()) * (F.layer_norm(x.float(), (40,), eps=1e-6) * weight.float()) + shift.float()
    near(wan.fused_layernorm_modulation(x, weight, scale, shift), right, dtype)
    near(wan.fused_layernorm_modulation(x, None, scale, shift),
         (1 + scale.float()) * F.layer_norm(x.float(), (40,), eps=1e-6) + shift.float(), dtype)
    near(wan.fused_swiglu(gate, x), F.silu(gate.float()) * x.float(), dtype)
    near(wan.FusedSwiGLUFunction.apply(gate, x), F.silu(gate.float()) * x.float(), dtype)
    qkv, angles = torch.randn(2, 9, 3 * 2 * 20).to(dtype), torch.rand(9, 10)
    q, k, v = wan.fused_qkv_rope(qkv, angles.cos(), angles.sin(), 2)
    parts = [t.reshape(2, 9, 2, 20) for t in qkv.chunk(3, -1)]
    near(q, rotated(parts[0], angles.cos(), angles.sin(), False), dtype)
    near(k, rotated(parts[1], angles.cos(), angles.sin(), False), dtype)
    assert torch.equal(v, parts[2])
    with pytest.raises(ValueError, match="qkv_rope: expected qkv"):
        wan.fused_qkv_rope(qkv, angles.cos(), angles.sin(), 7)


@pytest.mark.parametrize("swiglu", [wan.fused_swiglu, wan.FusedSwiGLUFunction.apply], ids=["function", "autograd"])
def test_gradients_of_swiglu(swiglu):
    gate, up = torch.randn(2, 3, 5, 17).requires_grad_().unbind()
    incoming = torch.randn(3, 5, 17)
    mine = torch.autograd.grad(swiglu(gate, up), (gate, up), incoming)
    for a, b in zip(mine, torch.autograd.grad(F.silu(gate) * up, (gate, up), incoming)):
        near(a, b, torch.float32)


@BOTH
def test_hub_functions(dtype):
    x, weight = torch.randn(3, 40).to(dtype), torch.randn(40).to(dtype)
    out = torch.empty_like(x)
    assert wan.rmsnorm(out, x, weight, 1e-5) is out
    near(out, F.rms_norm(x.float(), (40,), weight.float(), 1e-5), dtype)
    near(wan.rmsnorm(out, x, None, 1e-5), F.rms_norm(x.float(), (40,), None, 1e-5), dtype)
    assert wan.gelu_fast(out, x) is out
    near(out, F.gelu(x.float(), approximate="tanh"), dtype)
    compiled = torch.compile(lambda out, x: wan.rmsnorm(out, x, weight) * 2, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(out, x), 2 * wan.rmsnorm(torch.empty_like(x), x, weight))


def test_validate_kernel():
    x = torch.tensor([1.0, 2.0, 4.0])
    same = wan.validate_kernel(torch.exp, torch.exp, x)
    assert same == {"passed": True, "max_diff": 0.0, "mean_diff": 0.0}
    off = wan.validate_kernel(lambda x: x, lambda x: x + torch.tensor([0.0, 0.0, 0.75]), (x,))
    assert off == {"passed": False, "max_diff": 0.75, "mean_diff": 0.25}
    assert wan.validate_kernel(lambda x: x, lambda x: x + 0.5, {"x": x}, rtol=0, atol=0.5)["passed"]
    assert wan.validate_kernel(lambda x: x, lambda x: x * 1.125, [x], rtol=0.125, atol=0)["passed"]
    assert wan.validate_kernel(lambda x: x.mul_(2), lambda x: x.mul_(2), x)["passed"] and x[0] == 1  # each function gets its own copy of x
    nan = torch.tensor([float("nan"), 1.0])
    assert wan.validate_kernel(lambda x: x, lambda x: x.clone(), nan)["passed"]
    for wrong in (lambda x: x * nan[0], lambda x: x[:2], lambda x: x.double(), lambda x: (x, x), lambda x: x / 0):
        result = wan.validate_kernel(lambda x: x, wrong, x)
        assert result["passed"] is False and result["max_diff"] == float("inf")
    assert not wan.validate_kernel(lambda x: x / 0, lambda x: x, x)["passed"]


@pytest.mark.parametrize("name", [name for name in wan.__all__ if name.startswith("validate_") and name != "validate_kernel"])
def test_validations(name, monkeypatch):
    assert getattr(wan, name)() is True
    from tachyscope import ops
    for op in ("rope", "rope_1d", "lora", "grouped_lora", "swiglu"):  # the checks find a wrong kernel
        right = getattr(ops, op)
        monkeypatch.setattr(ops, op, lambda *args, right=right, **options: right(*args, **options) * 1.1)
    assert getattr(wan, name)() is False


@pytest.mark.parametrize("name", [name for name in wan.__all__ if name.startswith("benchmark_")])
def test_benchmarks(name):
    table = getattr(wan, name)()
    assert table and all(row["plain_us"] > 0 and row["ours_us"] > 0 and row["speedup"] > 0 for row in table.values())
