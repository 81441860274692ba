"""The wrapper's environment variables (`WAN_…`): those that are honoured have their effect, and one warning names those that are not."""

import os
import pathlib
import re
import subprocess
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F

import small_models
import tachyscope
from tachyscope.compat import _switches
from tachyscope.compat import wan_kernels as wan

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/comfyui.md"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    monkeypatch.setattr(_switches, "_told", set())
    for name in (*_switches.HONOURED, *_switches.WITHOUT_EFFECT):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("word, value", [("1", True), ("TRUE", True), (" yes ", True), ("on", True), ("0", False), ("False", False),
                                         ("no", False), ("off", False), ("", None), (" ", None)])
def test_words(monkeypatch, word, value):
    monkeypatch.setenv("WAN_FORCE_SDPA", word)
    assert _switches.env_switch("WAN_FORCE_SDPA") is value


@pytest.mark.parametrize("name", _switches.HONOURED)
def test_other_words(monkeypatch, name):
    monkeypatch.setenv(name, "2")
    with pytest.raises(ValueError, match=f"expected {name} to be 0 or 1, got '2'"):
        wan.optimize_transformer(small_models.make("Wan")[0])


def count_torch_attention(monkeypatch):
    calls, right = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *args, **more: calls.append(1) or right(*args, **more))
    return calls


def test_attention_of_torch(monkeypatch):
    """WAN_FORCE_SDPA leaves attention to PyTorch, and the config takes precedence over it."""
    model, inputs = small_models.make("Wan")
    before, calls = small_models.run(model, inputs), count_torch_attention(monkeypatch)
    for word, asked, ours in (("", None, True), ("1", None, False), ("0", None, True), ("1", True, True), ("0", False, False)):
        monkeypatch.setenv("WAN_FORCE_SDPA", word)
        wan.optimize_transformer(model, wan.OptimizationConfig("safe", enable_fused_attention=asked))
        active = wan.get_active_optimizations()
        assert ("rope and attention" in active) is ours and "a whole block" in active, (word, asked)
        calls.clear()
        assert (small_models.run(model, inputs) - before).abs().max() <= 2e-6 * before.abs().max()
        assert bool(calls) is not ours, (word, asked)


def test_attention_of_a_block(monkeypatch):
    torch.manual_seed(0)
    plain = wan.FusedWanBlock(48, 4, 80)
    monkeypatch.setenv("WAN_FORCE_SDPA", "1")
    block = wan.FusedWanBlock(48, 4, 80)
    block.load_state_dict(plain.state_dict())
    given = torch.randn(2, 9, 48), *torch.randn(6, 2, 1, 48)
    calls = count_torch_attention(monkeypatch)
    with torch.no_grad():
        expected = plain(*given)
        assert not calls
        torch.testing.assert_close(block(*given), expected, rtol=1e-5, atol=1e-5)
    assert len(calls) == 1


def test_compiled(monkeypatch):
    for word, asked, compiled in (("", None, False), ("1", None, True), ("0", None, False), ("1", False, False), ("0", True, True)):
        monkeypatch.setenv("WAN_TORCH_COMPILE", word)
        norm = torch.nn.RMSNorm(8, 1e-6)
        wan.optimize_transformer(norm, wan.OptimizationConfig(use_torch_compile=asked))
        assert (norm._compiled_call_impl is not None) is compiled, (word, asked)


def test_one_warning(monkeypatch):
    """The warning names each variable that asks for something we do not do, once, and none that is off."""
    for name in _switches.WITHOUT_EFFECT:
        monkeypatch.setenv(name, "0.35" if "RATIO" in name else "1")
    monkeypatch.setenv("WAN_KEEP_XFORMERS", "0")
    monkeypatch.setenv("WAN_FORCE_SDPA", "1")
    model, _ = small_models.make("Wan")
    with pytest.warns(UserWarning) as seen:
        wan.optimize_transformer(model)
    assert len(seen) == 1 and seen[0].filename == __file__
    text = str(seen[0].message)
    named = set(re.findall(r"WAN_[A-Z_]+", text))
    assert named == _switches.WITHOUT_EFFECT.keys() - {"WAN_KEEP_XFORMERS"} and "call tachyscope.graph" in text
    assert wan.get_optimization_summary()["without_effect"].keys() == named
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wan.optimize_transformer(model)
        assert tachyscope.restore(model) and wan.patch_model_with_fused_blocks(model) == 2
    tachyscope.restore(model)
    monkeypatch.setenv("WAN_KEEP_XFORMERS", "1")
    with pytest.warns(UserWarning, match="without effect here:\n  WAN_KEEP_XFORMERS: xFormers is not called"):
        wan.patch_model_with_fused_blocks(model)


def test_warning_of_the_import():
    script = "from tachyscope.compat import wan_kernels"
    for value, count in (("1", 1), ("0", 0)):
        done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "WAN_FORCE_CUDA_GRAPHS": value}, capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr.count("WAN_FORCE_CUDA_GRAPHS") == count, done.stderr


@pytest.mark.skipif(not PAGE.is_file(), reason="a package without its sources")
def test_page():
    """docs/comfyui.md says of each variable what the code does with it."""
    said = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `WAN_"):
            names, what = line.strip("| ").split(" | ")
            said |= {name: what.split(":")[0] for name in re.findall(r"WAN_[A-Z_]+", names)}
    assert said == dict.fromkeys(_switches.HONOURED, "honoured") | dict.fromkeys(_switches.WITHOUT_EFFECT, "without effect")
