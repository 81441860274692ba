"""`tachyscope.compat.wan_kernels`: the block, the memory pool and the settings, on small models."""

import json

import pytest
import torch
import torch.nn.functional as F

import small_models
import tachyscope
from head_cases import frequencies, rotated
from tachyscope.compat import wan_kernels as wan

BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


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
    with pytest.warns(RuntimeWarning, match="WAN_ENABLE_FUSED_BLOCK is off"):
        assert wan.patch_model_with_fused_blocks(model) == 0
    monkeypatch.setenv("WAN_ENABLE_FUSED_BLOCK", "maybe")
    with pytest.raises(ValueError, match="WAN_ENABLE_FUSED_BLOCK to be 0 or 1, got 'maybe'"):
        wan.patch_model_with_fused_blocks(model)
    monkeypatch.setenv("WAN_ENABLE_FUSED_BLOCK", "True")
    assert wan.patch_model_with_fused_blocks(model) == 2
    after = small_models.run(model, inputs)
    assert not torch.equal(after, before) and (after - before).abs().max() <= 2e-6 * before.abs().max()
    with pytest.warns(RuntimeWarning, match="WanTransformerBlock: replaced before"):
        assert wan.patch_model_with_fused_blocks(model) == 0
    assert tachyscope.restore(model) == 2 and torch.equal(small_models.run(model, inputs), before)
    with pytest.warns(RuntimeWarning, match="no block of a class that is known here"):
        assert wan.patch_model_with_fused_blocks(small_models.make("LLaMA")[0]) == 0


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
    with pytest.raises(ValueError, match="model_config's num_layers to be 2 like the transformer's, got 30"):
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
    assert counts == {"LlamaDecoderLayer": 2, "LlamaAttention": 2, "LlamaRMSNorm": 5, "LlamaMLP": 2}
    assert (small_models.run(model, inputs) - before).abs().max() <= 2e-6 * before.abs().max()
