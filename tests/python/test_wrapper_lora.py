"""WanVideoWrapper's LoRA at run time, on a stand-in for its linear layer."""

import sys

import pytest
import torch

import tachyscope
import wrapper_stubs
from tachyscope import _shrunk

pytestmark = pytest.mark.cpu


@pytest.fixture
def layers(monkeypatch):
    module = wrapper_stubs.custom_linear()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(_shrunk, "_found", {})
    return module.CustomLinear


def adapter(out, size, rank, alpha, strength, dtype=torch.float32):
    return (torch.randn(out, rank) * 0.2).to(dtype), (torch.randn(rank, size) * 0.2).to(dtype), alpha, strength


def made(layers, *adapters, dtype=torch.float32, bias=True):
    torch.manual_seed(0)
    layer = layers(24, 40, bias=bias).to(dtype).requires_grad_(False)
    return layer.take(*(adapter(40, 24, *words, dtype) for words in adapters))


def apart(one, other):
    return ((one.double() - other.double()).norm() / other.double().norm()).item()


ADAPTERS = {"one": [(4, None, 1.0)], "one with alpha": [(4, 8.0, 0.5)], "three of other ranks": [(4, 2.0, 1.0), (7, 0.0, -0.5), (1, None, 2.0)],
            "by steps": [(4, None, [0.0, 0.5, 1.0]), (4, 4.0, 1.0)]}


@pytest.mark.parametrize("rows", [3, 50], ids=["few tokens", "many tokens"])
@pytest.mark.parametrize("kind", ADAPTERS)
def test_values(layers, kind, rows):
    layer, x = made(layers, *ADAPTERS[kind]), torch.randn(2, rows, 24)
    report = tachyscope.optimize(layer, "safe", verbose=False)
    assert [op for _, _, op in report.replaced] == ["a linear layer with LoRA"]
    for step in range(3):
        layer._step.fill_(step)
        right = layers.forward(layer.double(), x.double())
        assert apart(layer.float()(x), right) < 1e-6
    tachyscope.restore(layer)
    assert torch.equal(layer(x), layers.forward(layer, x))


@pytest.mark.parametrize("rows", [3, 50])
def test_bfloat16(layers, rows):
    """At level aggressive the error is at most the wrapper's own; at level safe its own code runs."""
    layer, x = made(layers, (4, 2.0, 1.0), (7, None, -0.5), dtype=torch.bfloat16), torch.randn(1, rows, 24).bfloat16()
    before = layer(x)
    tachyscope.optimize(layer, "safe", verbose=False)
    assert torch.equal(layer(x), before)
    tachyscope.optimize(layer, "aggressive", verbose=False)
    got, wide = layer(x), made(layers, (4, 2.0, 1.0), (7, None, -0.5))
    for name, tensor in layer.state_dict().items():
        wide.state_dict()[name].copy_(tensor)
    right = layers.forward(wide, x.float())
    assert got.dtype == torch.bfloat16 and apart(got, right) <= 1.2 * apart(before, right)


@pytest.mark.parametrize("rows", [1, 50], ids=["scales the tokens", "scales the weight"])
def test_weights_in_fp8_with_a_scale(layers, rows):
    layer, x = made(layers, (4, 2.0, 1.0)), torch.randn(1, rows, 24)
    layer.weight.data, layer.scale_weight = layer.weight.data.to(torch.float8_e4m3fn), torch.tensor(0.25)
    before = layer(x)
    tachyscope.optimize(layer, verbose=False)
    assert apart(layer(x), before) < 1e-6



def long(layer):
    layer.lora_diff_0_1 = layer.lora_diff_0_1[:, :, None]


@pytest.mark.parametrize("change", [lambda layer: setattr(layer, "is_gguf", True), lambda layer: setattr(layer, "_comfy_quant_format", "nvfp4"), long],
                         ids=["GGUF", "ComfyUI's codes", "a convolution's adapter"])
def test_layers_that_keep_their_own_code(layers, change, monkeypatch):
    layer, x = made(layers, (4, 2.0, 1.0)), torch.randn(1, 50, 24)
    tachyscope.optimize(layer, verbose=False)
    change(layer)
    monkeypatch.setattr(layers, "forward", lambda self, x: "its own")
    assert layer(x) == "its own"


def test_adapters_that_come_later(layers):
    """The wrapper sets them when it samples, and takes them out afterwards."""
    layer, x = made(layers), torch.randn(1, 50, 24)
    plain = layer(x)
    tachyscope.optimize(layer, verbose=False)
    assert torch.equal(layer(x), plain)
    layer.take((torch.randn(40, 24), 1.0))
    assert torch.equal(layer(x), layers.forward(layer, x)) and apart(layer(x), plain) > 1e-2
    layer.lora_diffs.clear()
    layer.take(adapter(40, 24, 4, 2.0, 1.0))
    assert apart(layer(x), layers.forward(layer, x)) < 1e-6


def test_another_version(layers):
    theirs = layers.forward
    layers.forward = lambda self, x: theirs(self, x) * 2
    report = tachyscope.optimize(made(layers, (4, None, 1.0)), verbose=False)
    assert not report.replaced and "gives other values" in report.left[0][2]
