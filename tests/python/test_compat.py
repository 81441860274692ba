"""`tachyscope.compat.wan_kernels`: every name, held against PyTorch in float32 (1e-5) and bfloat16."""

import inspect
import json

import pytest
import torch
import torch.nn.functional as F

import small_models
import tachyscope
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
    with pytest.raises(ValueError, match="fused_qkv_rope: expected qkv"):
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


def plain_block(block, x, shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp):
    shape = (*x.shape[:2], block.num_heads, -1)
    angles = torch.outer(torch.arange(x.shape[1]).double(), frequencies(x.shape[2] // block.num_heads).to(x.device))
    normed = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale_msa) + shift_msa
    q, k, v = (t.reshape(shape) for t in block.qkv(normed).chunk(3, -1))
    q, k = (rotated(t, angles.cos(), angles.sin(), False) for t in (q, k))
    weights = (torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5).softmax(-1)
    x = x + gate_msa * block.out(torch.einsum("bhij,bjhd->bihd", weights, v).flatten(2))
    normed = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale_mlp) + shift_mlp
    return x + gate_mlp * block.down_proj(F.silu(block.gate_proj(normed)) * block.up_proj(normed))


@BOTH
def test_block(dtype):
    torch.manual_seed(0)
    block = wan.FusedWanBlock(48, 4, 80).to(dtype)
    x, rows = torch.randn(2, 9, 48).to(dtype), torch.randn(6, 2, 1, 48).to(dtype)
    wide = wan.FusedWanBlock(48, 4, 80)
    wide.load_state_dict(block.state_dict())
    right = plain_block(wide, x.float(), *rows.float())
    with torch.no_grad():
        result = block(x, *rows)
        assert torch.equal(result, block(x, *rows.squeeze(2)))
    bound = 1e-5 if dtype == torch.float32 else 5e-2
    torch.testing.assert_close(result.float(), right, rtol=bound, atol=bound)


def test_gradients_of_block():
    block = wan.FusedWanBlock(48, 4, 80)
    x, rows = torch.randn(2, 9, 48), [t.requires_grad_() for t in torch.randn(6, 2, 1, 48)]
    wanted = [x.requires_grad_(), *rows, *block.parameters()]
    mine, theirs = (torch.autograd.grad(f(x, *rows).square().sum(), wanted) for f in (block, lambda *args: plain_block(block, *args)))
    for a, b in zip(mine, theirs):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * b.abs().max().item())
    with pytest.raises(ValueError, match="expected hidden_dim of num_heads even heads, got 48 and 5"):
        wan.FusedWanBlock(48, 5, 80)


def test_patched_blocks(monkeypatch):
    model, inputs = small_models.make("Wan")
    before = small_models.run(model, inputs)
    monkeypatch.setenv("WAN_ENABLE_FUSED_BLOCK", "0")
    assert wan.patch_model_with_fused_blocks(model) == 0
    monkeypatch.setenv("WAN_ENABLE_FUSED_BLOCK", "yes")
    with pytest.raises(ValueError, match="WAN_ENABLE_FUSED_BLOCK to be 0 or 1, got 'yes'"):
        wan.patch_model_with_fused_blocks(model)
    monkeypatch.setenv("WAN_ENABLE_FUSED_BLOCK", "1")
    assert wan.patch_model_with_fused_blocks(model) == 2
    after = small_models.run(model, inputs)
    assert not torch.equal(after, before) and (after - before).abs().max() <= 2e-6 * before.abs().max()
    assert wan.patch_model_with_fused_blocks(model) == 0  # they are replaced
    assert tachyscope.restore(model) == 2 and torch.equal(small_models.run(model, inputs), before)
    assert wan.patch_model_with_fused_blocks(small_models.make("LLaMA")[0]) == 0


def test_validate_kernel():
    x = torch.tensor([1.0, 2.0, 4.0])
    same = wan.validate_kernel(torch.exp, torch.exp, x)
    assert same == {"passed": True, "max_diff": 0.0, "mean_diff": 0.0}
    off = wan.validate_kernel(lambda x: x, lambda x: x + torch.tensor([0.0, 0.0, 0.75]), (x,))
    assert off == {"passed": False, "max_diff": 0.75, "mean_diff": 0.25}
    assert wan.validate_kernel(lambda x: x, lambda x: x + 0.5, {"x": x}, rtol=0, atol=0.5)["passed"]
    assert wan.validate_kernel(lambda x: x, lambda x: x * 1.125, [x], rtol=0.125, atol=0)["passed"]
    assert wan.validate_kernel(lambda x: x.mul_(2), lambda x: x.mul_(2), x)["passed"] and x[0] == 1  # each has a copy
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
    for op in ("rope", "rope_1d", "lora", "grouped_lora", "swiglu"):  # they do find a wrong kernel
        right = getattr(ops, op)
        monkeypatch.setattr(ops, op, lambda *args, right=right, **options: right(*args, **options) * 1.1)
    assert getattr(wan, name)() is False


@pytest.mark.parametrize("name", [name for name in wan.__all__ if name.startswith("benchmark_")])
def test_benchmarks(name):
    table = getattr(wan, name)()
    assert table and all(row["plain_us"] > 0 and row["ours_us"] > 0 and row["speedup"] > 0 for row in table.values())


def test_pool():
    assert wan.test_memory_pool() is True
    device, kinds = torch.get_default_device(), wan.BufferType
    pool = wan.CUDAGraphMemoryPool(2, 8, 16, 3, device)
    with pytest.raises(RuntimeError, match="allocate"):
        pool.get_buffer(kinds.BLOCK_INPUT)
    buffer = pool.allocate().get_buffer(kinds.BLOCK_INPUT, 0)
    assert buffer.shape == (2, 8, 16) and buffer.dtype == torch.bfloat16 and buffer.device.type == device.type
    assert pool.get_buffer(kinds.BLOCK_OUTPUT, 1) is buffer and pool.get_buffer(kinds.BLOCK_OUTPUT, 0) is not buffer
    assert pool.get_buffer(kinds.ATTENTION_WORKSPACE, 2).shape == (2, 8, 48)
    assert pool.get_buffer(kinds.FFN_WORKSPACE).shape == (2, 8, 64)
    assert pool.bytes() == 2 * 2 * 8 * (16 + 16 + 48 + 64)
    for index in (-1, 3):
        with pytest.raises(IndexError, match=f"got {index}"):
            pool.get_buffer(kinds.BLOCK_OUTPUT, index)
    pool.release()
    assert pool.bytes() == 0
    with pytest.raises(ValueError, match="expected num_blocks to be an integer above 0, got 0"):
        wan.CUDAGraphMemoryPool(2, 8, 16, 0, device)


def test_pool_of_a_model():
    model, _ = small_models.make("Wan")
    pool = wan.create_pool_for_wan_model(model, max_seq_len=18)
    assert pool.get_buffer(wan.BufferType.BLOCK_OUTPUT, 1).shape == (1, 18, 24)
    assert pool.get_buffer(wan.BufferType.FFN_WORKSPACE).shape == (1, 18, 32) and pool.dtype == torch.float32
    sizes = dict(num_layers=30, num_attention_heads=12, attention_head_dim=128, ffn_dim=8960)
    pool = wan.create_pool_for_wan_model(sizes, 2, 4, double_buffering=False)
    assert pool.bytes() == 2 * 2 * 4 * (31 * 1536 + 3 * 1536 + 8960)
    with pytest.raises(ValueError, match="expected a model whose config has ffn_dim, got dict"):
        wan.create_pool_for_wan_model({k: v for k, v in sizes.items() if k != "ffn_dim"})
    with pytest.raises(ValueError, match="config has num_layers.*, got Linear"):
        wan.create_pool_for_wan_model(torch.nn.Linear(2, 2))


def test_optimize_transformer(monkeypatch):
    model, inputs = small_models.make("Wan")
    before = small_models.run(model, inputs)
    full = tachyscope.optimize(model, verbose=False)
    config = wan.OptimizationConfig(level=wan.OptimizationLevel.SAFE)
    assert wan.optimize_transformer(model, config, {"num_layers": 2}) is model
    summary = json.loads(json.dumps(wan.get_optimization_summary()))
    assert summary["replaced"] == len(full.replaced) and summary["level"] == "safe" and summary["config"]["level"] == "safe"
    assert {"a whole block", "rope and attention"} < set(wan.get_active_optimizations()) == {op for _, _, op in full.replaced}
    assert (small_models.run(model, inputs) - before).abs().max() <= 2e-6 * before.abs().max()

    config.enable_fused_block = config.enable_fused_attention = False
    active = set(wan.get_active_optimizations()) if wan.optimize_transformer(model, config) else None
    assert "layer_norm" in active and not active & {"a whole block", "rope and attention"}
    assert {left["why"] for left in wan.get_optimization_summary()["left"]} >= {"it was not asked for"}
    config.enable_fused_norms = False
    wan.optimize_transformer(model, config)
    assert wan.get_active_optimizations() == ["gelu", "silu"]
    config.enable_fused_activations = False
    wan.optimize_transformer(model, config)
    assert wan.get_active_optimizations() == [] and torch.equal(small_models.run(model, inputs), before)

    config = wan.OptimizationConfig()
    for value, there in (("0", False), ("1", True)):
        monkeypatch.setenv("WAN_ENABLE_FUSED_BLOCK", value)
        wan.optimize_transformer(model, config)
        assert ("a whole block" in wan.get_active_optimizations()) is there
    tachyscope.restore(model)
    assert wan.get_active_optimizations() == [] and torch.equal(small_models.run(model, inputs), before)


def test_settings():
    levels = wan.OptimizationLevel
    assert [level.name for level in levels] == ["NONE", "SAFE", "AGGRESSIVE", "EXTREME"]
    assert wan.quick_setup_for_a100().level is wan.quick_setup_for_l4().level is levels.AGGRESSIVE
    assert wan.quick_setup_auto().level in (levels.SAFE, levels.AGGRESSIVE)
    for name in ("use_fp8", "use_cuda_graphs"):
        with pytest.raises(ValueError, match=f"{name} cannot be honoured"):
            wan.OptimizationConfig(**{name: True})
    model, _ = small_models.make("Wan")
    config = wan.OptimizationConfig("AGGRESSIVE")
    config.use_fp8 = True
    with pytest.raises(ValueError, match="use_fp8 cannot be honoured"):
        wan.optimize_transformer(model, config)
    with pytest.raises(ValueError, match="model_config's num_layers to be 2 as the transformer's, got 30"):
        wan.optimize_transformer(model, None, {"num_layers": 30})
    with pytest.raises(ValueError, match="got speed"):
        wan.optimize_transformer(model, None, {"speed": 1})
    with pytest.raises(TypeError, match="expected config to be an OptimizationConfig, got dict"):
        wan.optimize_transformer(model, {})


def test_compiled_transformer():
    norm = torch.nn.RMSNorm(8, 1e-6)
    x = torch.randn(3, 8)
    before = norm(x)
    wan.optimize_transformer(norm, wan.OptimizationConfig(use_torch_compile=True))
    assert norm._compiled_call_impl is not None
    torch.testing.assert_close(norm(x), before)


def test_injected_kernels():
    model, inputs = small_models.make("LLaMA")
    before = small_models.run(model, inputs)
    counts = wan.inject_optimized_kernels(model)
    assert counts == {"LlamaRMSNorm": 5, "LlamaMLP": 2}
    assert (small_models.run(model, inputs) - before).abs().max() <= 2e-6 * before.abs().max()
