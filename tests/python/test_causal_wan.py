"""Blocks of Self-Forcing's CausalWanModel, on stand-ins for its classes, and with --self-forcing FOLDER on its own."""

import importlib
import os
import sys
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import causal_stubs
import tachyscope
from tachyscope import _causal_wan, _shrunk

pytestmark = pytest.mark.cpu
FRAME, BLOCK = 2, 3  # tokens, frames


@pytest.fixture(params=["a stand-in", "its own"])
def wan(request, monkeypatch):
    monkeypatch.setattr(_shrunk, "_found", {})
    if request.param == "a stand-in":
        module = causal_stubs.causal_model()
        monkeypatch.setitem(sys.modules, module.__name__, module)
        functions = causal_stubs
    else:
        folder = request.config.getoption("--self-forcing")
        if not folder:
            pytest.skip("--self-forcing names no folder")
        for name in ("wan", "wan.modules"):  # their own packages import what asks for a GPU
            package = types.ModuleType(name)
            package.__path__ = [os.path.join(folder, *name.split("."))]
            monkeypatch.setitem(sys.modules, name, package)
        module = importlib.import_module("wan.modules.causal_model")
        functions = importlib.import_module("wan.modules.model")

    # Theirs needs a GPU, or rounds to bfloat16 whatever it is given.
    def attend(q, k, v, k_lens=None):
        return F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)

    monkeypatch.setattr(functions, "flash_attention", attend)
    for owner in {module, functions}:
        if hasattr(owner, "attention"):
            monkeypatch.setattr(owner, "attention", attend)
    return module


def is_theirs(wan):
    return wan.CausalWanAttentionBlock.__module__ != "causal_stubs"


class Model(nn.Module):
    """Two blocks and the head, with a cache each, as the pipeline has them."""

    def __init__(self, wan, window, sink):
        super().__init__()
        torch.manual_seed(0)
        first, more = (("t2v_cross_attn",), {"cross_attn_norm": True}) if is_theirs(wan) else ((), {})
        self.blocks = nn.ModuleList(wan.CausalWanAttentionBlock(*first, 48, 96, 2, local_attn_size=window, sink_size=sink, **more) for _ in range(2))
        self.head = wan.CausalHead(48, 16, (1, 2, 2))
        for block in self.blocks:
            if window != -1:
                block.self_attn.max_attention_size = window * FRAME
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.3)
        self.eval().requires_grad_(False)

    def forward(self, x, e, head_e, caches, crosses, context, start):
        grid = torch.tensor([[BLOCK, 1, FRAME]] * len(x))
        for block, cache, cross in zip(self.blocks, caches, crosses):
            x = block(x, e, torch.tensor([x.shape[1]]), grid, self.freqs, context, None, None, kv_cache=cache, crossattn_cache=cross, current_start=start)
        return self.head(x, head_e)


def clip(model, blocks, dtype, window, batch=1, reset_at=None):
    """Makes blocks of frames, two passes each. Returns all results and what the caches hold."""
    generator = torch.Generator().manual_seed(3)

    def draw(*shape):
        return torch.randn(shape, generator=generator).to(dtype)

    tokens = (window if window != -1 else blocks * BLOCK) * FRAME
    model.freqs = torch.polar(torch.ones(64, 12), torch.randn(64, 12, generator=generator)).to(torch.complex128)

    def new_caches():
        return [{"k": torch.zeros(batch, tokens, 2, 24, dtype=dtype), "v": torch.zeros(batch, tokens, 2, 24, dtype=dtype),
                 "global_end_index": torch.tensor([0]), "local_end_index": torch.tensor([0])} for _ in model.blocks]

    caches, crosses, context, results = new_caches(), [{"is_init": False} for _ in model.blocks], draw(batch, 5, 48), []
    start = 0
    for i in range(blocks):
        if i == reset_at:  # as the pipeline does for another video
            start = 0
            for cache in caches:
                for name in ("global_end_index", "local_end_index"):
                    cache[name].zero_()
        for _ in range(2):
            x, e = draw(batch, BLOCK * FRAME, 48), draw(batch, BLOCK, 6, 48)
            with torch.no_grad():
                results.append(model(x, e, draw(batch, BLOCK, 1, 48), caches, crosses, context, start))
        start += BLOCK * FRAME
    return torch.stack(results), torch.stack([cache[name] for cache in caches for name in "kv"]), caches[0]["local_end_index"].item()


def apart(a, b):
    return ((a.float() - b.float()).norm() / b.float().norm()).item()


@pytest.mark.parametrize("level", ["safe", "aggressive"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("window, sink, batch", [(-1, 0, 1), (6, 0, 1), (9, 2, 1), (6, 0, 2)])
def test_clips(wan, window, sink, batch, dtype, level):
    model = Model(wan, window, sink).to(dtype)
    before = clip(model, 5, dtype, window, batch)
    report = tachyscope.optimize(model, level, verbose=False)
    kinds = {kind: op for _, kind, op in report.replaced if op != "gelu"}
    assert kinds == {"CausalWanAttentionBlock": "a whole block", "CausalWanSelfAttention": "attention with its cache",
                     "WanT2VCrossAttention": "attention with its cache", "CausalHead": "norm with modulation"}
    after = clip(model, 5, dtype, window, batch)
    assert after[2] == before[2]
    for got, expected in zip(after[:2], before[:2]):
        assert apart(got, expected) < (4e-6 if dtype == torch.float32 else 2e-2)
    tachyscope.restore(model)
    assert all(torch.equal(got, expected) for got, expected in zip(clip(model, 5, dtype, window, batch)[:2], before[:2]))


def test_another_video(wan):
    """Whoever sets the indices back, or gives new ones, is believed."""
    model = Model(wan, 6, 0)
    before = clip(model, 5, torch.float32, 6, reset_at=3)
    tachyscope.optimize(model, verbose=False)
    after = clip(model, 5, torch.float32, 6, reset_at=3)
    assert apart(after[0], before[0]) < 4e-6 and after[2] == before[2]


def test_the_device_is_asked_once(wan, monkeypatch):
    model = Model(wan, 6, 0)
    tachyscope.optimize(model, verbose=False)
    asked = []
    item = torch.Tensor.item
    monkeypatch.setattr(torch.Tensor, "item", lambda tensor: asked.append(tensor) or item(tensor))
    clip(model, 5, torch.float32, 6)
    assert len(asked) == 2 * 2 + 1  # both indices of both layers, and what the test itself looks at


def test_inference_mode(wan):
    model = Model(wan, 6, 0)
    before = clip(model, 4, torch.float32, 6)
    tachyscope.optimize(model, verbose=False)
    with torch.inference_mode():
        after = clip(model, 4, torch.float32, 6)
    assert apart(after[0], before[0]) < 4e-6


def test_training_runs_its_own_code(wan):
    if is_theirs(wan):
        pytest.skip("its training attends by a compiled function, for a GPU")
    model = Model(wan, -1, 0)
    x = torch.randn(1, 6, 48)
    given = (x, torch.tensor([6]), torch.tensor([[3, 1, 2]]), torch.zeros(64, 12, dtype=torch.complex128), None)
    before = model.blocks[0].self_attn(*given)
    tachyscope.optimize(model, verbose=False)
    assert torch.equal(model.blocks[0].self_attn(*given), before)


def test_another_version_is_left_alone(wan, monkeypatch):
    def other(self, x, e, **options):
        return x * 2

    monkeypatch.setattr(wan.CausalWanAttentionBlock, "forward", other)
    report = tachyscope.optimize(Model(wan, 6, 0), verbose=False)
    assert not any(kind == "CausalWanAttentionBlock" for _, kind, _ in report.replaced)
    assert any("CausalWanAttentionBlock" in str(left) for left in report.left), report.left


def test_tables_are_kept_for_a_few_places(wan):
    clip(Model(wan, 6, 0), 2, torch.float32, 6)
    assert len(_causal_wan._tables) <= 4
