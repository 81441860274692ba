"""Linear layers: what head_cases.py does not ask of `ops.linear`, products in 8 bits, and level extreme."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tachyscope
from conftest import DEVICE
from tachyscope import _scaled, ops

KINDS = ["int8"] + ["float8_e4m3fn"] * (DEVICE == "cpu" or torch.cuda.get_device_capability() >= (8, 9))
ERROR = {"int8": 0.02, "float8_e4m3fn": 0.06}  # of the result's norm, for values of a normal distribution


def apart(one, other):
    return ((one.double() - other.double()).norm() / other.double().norm()).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_wider_residual(dtype):
    """The residual stream may be float32 beside 16-bit values, and gives the result's dtype."""
    x, weight, bias, gate = (torch.randn(shape).to(dtype) for shape in [(2, 5, 64), (48, 64), (48,), (2, 1, 48)])
    residual = torch.randn(2, 5, 48)
    y = ops.linear(x, weight, bias, gate=gate, residual=residual)
    right = residual.double() + gate.double() * F.linear(x.double(), weight.double(), bias.double())
    assert y.dtype == torch.float32 and apart(y, right) < 1e-6


@pytest.mark.parametrize("call, text", [
    (lambda x, w, r: ops.linear(x, w.T), r"linear: expected weight \[out, 64\], got \[64, 48\]"),
    (lambda x, w, r: ops.linear(x, w, w[0]), r"linear: expected bias \[48\], got \[64\]"),
    (lambda x, w, r: ops.linear(x, w, gate=r), "linear: expected residual beside gate, got none"),
    (lambda x, w, r: ops.linear(x, w, residual=x), r"linear: expected residual \[2, 5, 48\], got \[2, 5, 64\]"),
    (lambda x, w, r: ops.linear(x, w, residual=r, gate=x), r"linear: expected gate \[2, 5, 48\] or with dims of 1"),
    (lambda x, w, r: ops.linear(x, w, activation="relu"), "linear: expected activation to be one of None, 'silu'"),
    (lambda x, w, r: ops.linear(x, w.int()), "linear: expected weight f32, f16 or bf16"),
    (lambda x, w, r: ops.linear(x[..., :0], w[:, :0]), "linear: expected x with at least one channel"),
    (lambda x, w, r: ops.scaled_linear(x, w, w[:, 0].contiguous()), "scaled_linear: expected codes i8, got f32"),
    (lambda x, w, r: ops.scaled_linear(x, w.char(), w[0]), r"scaled_linear: expected scales \[48\], got \[64\]"),
    (lambda x, w, r: ops.scaled_linear(x, w.char().T.contiguous().T, w[:, 0].contiguous()), "expected codes .* contiguous"),
    (lambda x, w, r: ops.codes_of(w, "int4"), "codes_of: expected dtype to be one of 'int8', 'float8_e4m3fn', got 'int4'"),
    (lambda x, w, r: ops.codes_of(w[0]), r"codes_of: expected weight \[out, in\] of floats, got \[64\]")])
def test_bad_input(call, text):
    with pytest.raises(ValueError, match=text):
        call(torch.randn(2, 5, 64), torch.randn(48, 64), torch.randn(2, 5, 48))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("activation", [None, "gelu_tanh"])
def test_eight_bits(kind, dtype, activation):
    x, weight, bias = (torch.randn(shape).to(dtype) for shape in [(2, 33, 64), (48, 64), (48,)])
    codes, scales = ops.codes_of(weight, kind)
    assert codes.dtype == getattr(torch, kind) and scales.dtype == torch.float32
    y = ops.scaled_linear(x, codes, scales, bias, activation=activation)
    right = F.linear(x.double(), weight.double(), bias.double())
    right = F.gelu(right, approximate="tanh") if activation else right
    assert y.dtype == dtype and 1e-4 < apart(y, right) < ERROR[kind]
    # The same codes by torch's operations in float64: only the result's rounding is left.
    top = 127 if kind == "int8" else 448
    row = x.float().abs().amax(-1, keepdim=True) / top
    rounded = (x.float() / row).round() if kind == "int8" else (x.float() / row).to(torch.float8_e4m3fn)
    exact = F.linear(rounded.double() * row, codes.double() * scales.double()[:, None], bias.double())
    exact = F.gelu(exact, approximate="tanh") if activation else exact
    assert apart(y, exact) < {torch.float32: 1e-3, torch.bfloat16: 5e-3, torch.float16: 2e-3}[dtype]


def test_codes_of_a_row_of_zeros_and_gradients():
    weight = torch.randn(32, 64)
    weight[3] = 0
    codes, scales = ops.codes_of(weight)
    assert scales[3] == 1 and not codes[3].any() and codes.abs().max() == 127
    with pytest.raises(ValueError, match="scaled_linear: expected no tensor that requires grad"):
        ops.scaled_linear(torch.randn(2, 64, requires_grad=True), codes, scales)


@pytest.mark.parametrize("compiled", [False, True])
def test_compiled_calls(compiled):
    x, weight, gate, residual = (torch.randn(shape) for shape in [(2, 33, 64), (48, 64), (2, 1, 48), (2, 33, 48)])
    codes, scales = ops.codes_of(weight)

    def call(x, weight, gate, residual, codes, scales):
        return ops.linear(x, weight, activation="silu", gate=gate, residual=residual), ops.scaled_linear(x, codes, scales)

    run = torch.compile(call, backend="eager", fullgraph=True) if compiled else call
    first, second = run(x, weight, gate, residual, codes, scales)
    torch.testing.assert_close(first, residual + gate * F.silu(F.linear(x, weight)))
    assert torch.equal(second, ops.scaled_linear(x, codes, scales))


def blocks(dtype=torch.float32):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64)) for _ in range(2)))
    return model.to(dtype).requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_level_extreme(dtype):
    model, x = blocks(dtype), torch.randn(1, 48, 64).to(dtype)
    before = model(x)
    report = tachyscope.optimize(model, "extreme", verbose=False)
    assert [op for _, _, op in report.replaced].count("a linear layer in 8 bits") == 4
    after = model(x)
    assert 1e-4 < apart(after, before) < 0.1
    assert torch.equal(model(x[:, :4]), tachyscope.optimize(model, "aggressive", verbose=False) and model(x[:, :4])), "few tokens"
    tachyscope.restore(model)
    assert torch.equal(model(x), before) and not any(_scaled._CODES in vars(module) for module in model.modules())


def test_weights_that_change():
    """Codes belong to the values of the weight: after a step of training, a loaded state and a move they are made again."""
    model, x = blocks(), torch.randn(1, 48, 64)
    other = copy.deepcopy(model)
    tachyscope.optimize(model, "extreme", verbose=False)
    first = model(x)
    for change in (lambda p: p.mul_(-2), lambda p: p.copy_(torch.randn_like(p))):
        for p, q in zip(model.parameters(), other.parameters()):
            change(p)
            q.copy_(p)
        assert apart(model(x), other(x)) < 0.1 and apart(model(x), first) > 0.1
    copied = copy.deepcopy(model)
    assert torch.equal(copied(x), model(x))


def test_layers_that_stay(monkeypatch):
    """Gradients, autocast, hooks and adapters go the layer's own way; layers outside of blocks and of odd sizes are not replaced."""
    model, x = blocks().requires_grad_(True), torch.randn(1, 48, 64)
    tachyscope.optimize(model, "extreme", verbose=False)
    monkeypatch.setattr(ops, "scaled_linear", None)
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16):
        model(x)
    odd = nn.ModuleDict({"head": nn.Linear(64, 64), "blocks": nn.ModuleList([nn.Sequential(nn.Linear(64, 40), nn.Linear(16, 64))])})
    report = tachyscope.optimize(odd, "extreme", verbose=False)
    assert not report.replaced and all("8 bits take multiples of 16 from 32 on" in why for _, _, why in report.left) and len(report.left) == 2


def test_wan_at_level_extreme():
    from diffusers import WanTransformer3DModel

    torch.manual_seed(0)
    model = WanTransformer3DModel(num_attention_heads=2, attention_head_dim=32, ffn_dim=96, num_layers=2, text_dim=16, in_channels=4,
                                  out_channels=4, freq_dim=16, cross_attn_norm=True).eval().requires_grad_(False)
    given = dict(hidden_states=torch.randn(1, 4, 3, 8, 8), timestep=torch.tensor([500]), encoder_hidden_states=torch.randn(1, 40, 16), return_dict=False)
    before = model(**given)[0]
    tachyscope.optimize(model, "aggressive", verbose=False)
    fused = model(**given)[0]
    report = tachyscope.optimize(model, "extreme", verbose=False)
    assert sum(op == "a linear layer in 8 bits" for _, _, op in report.replaced) == 2 * (4 + 4 + 2)
    after = model(**given)[0]
    tachyscope.restore(model)
    assert torch.equal(model(**given)[0], before)
    assert apart(fused, before) < 1e-5 and 1e-4 < apart(after, before) < 0.05
