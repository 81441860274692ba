"""`tachyscope.graph` and `tachyscope.ring_kv_cache`. With TEST_DEVICE=cuda the graphs are real ones (test_gpu.py has captures
by torch alone)."""

import sys

import pytest
import torch

import tachyscope
import test_wrapper_wan
import wrapper_stubs
from tachyscope import _shrunk, ops

DEVICE = torch.get_default_device().type


def test_graph_of_a_module():
    model = torch.nn.Sequential(torch.nn.Linear(24, 48), torch.nn.SiLU(), torch.nn.RMSNorm(48, 1e-6))
    tachyscope.optimize(model, verbose=False)
    first, second = torch.randn(2, 3, 5, 24)
    step = tachyscope.graph(model, first)
    assert step.captured is (DEVICE == "cuda")
    with torch.no_grad():
        for x in (first, second, first):
            result = step(x)
            torch.testing.assert_close(result, model(x))
            assert not result.requires_grad
        model[0].weight.zero_()  # weights are read at each call
        torch.testing.assert_close(step(second), model(second))


def test_graph_of_keywords_and_structures():
    def call(x, pair, *, scale, deep):
        return {"sum": x + pair[0] * scale, "rest": (deep["a"] * 2, pair[1])}

    def inputs():
        x, a, b, c = torch.randn(4, 2, 8)
        return (x, (a, b)), {"scale": 3.0, "deep": {"a": c}}

    args, keywords = inputs()
    step = tachyscope.graph(call, *args, **keywords)
    args, keywords = inputs()
    result, right = step(*args, **keywords), call(*args, **keywords)
    assert torch.equal(result["sum"], right["sum"]) and torch.equal(result["rest"][0], right["rest"][0])
    for bad, words in ((dict(scale=4.0), "expected input 3 to be 3.0 as in the example, got 4.0"),
                       (dict(scale=3), "expected input 3 to be 3.0 as in the example, got 3"),
                       (dict(scale=torch.ones(1)), "expected input 3 to be 3.0"),
                       (dict(deep={"b": keywords["deep"]["a"]}), "expected inputs arranged like the example")):
        with pytest.raises(ValueError, match=words):
            step(*args, **(keywords | bad))


def test_context_windows_by_one_graph(monkeypatch):
    """A clip that is longer than the model's is denoised in windows that overlap, whose positions begin at 0 as in WanVideoWrapper. All windows have
    one length, so one graph serves all of them in all steps, and gives what the blocks' own code gives."""
    module = wrapper_stubs.wrapper()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(_shrunk, "_found", {})
    block, _, given = test_wrapper_wan.made(module.WanAttentionBlock())
    fixed = {name: value for name, value in given.items() if name not in ("e", "context")}
    clip, times, texts = torch.randn(1, 14, 48), torch.randn(3, 1, 6, 48), torch.randn(2, 1, 5, 48)

    def predict(x, e, context):
        return test_wrapper_wan.run(block, x, {"e": e, "context": context} | fixed)

    def sampled(predict):
        x = clip.clone()
        for e in times:
            total, count = torch.zeros_like(x), torch.zeros(1, 14, 1)
            for begin in (0, 4, 8):
                window = slice(begin, begin + 6)
                yes, no = (predict(x[:, window], e, text).clone() for text in texts)
                total[:, window] += no + 3 * (yes - no)
                count[:, window] += 1
            x = x - 0.05 * total / count
        return x

    own = sampled(predict)
    assert "a whole block" in [op for _, _, op in tachyscope.optimize(block, "aggressive", verbose=False).replaced]
    step = tachyscope.graph(predict, clip[:, :6], times[0], texts[0])
    assert step.captured is (DEVICE == "cuda")
    assert (own - clip).norm() > 0.1 * clip.norm() and test_wrapper_wan.apart(sampled(step), own) < 1e-5
    with pytest.raises(ValueError, match=r"expected input 0 to be \[1, 6, 48\] .*, got \[1, 5, 48\]"):
        step(clip[:, :5], times[0], texts[0])


def test_bad_inputs_of_a_graph():
    step = tachyscope.graph(lambda x: x * 2, torch.randn(3, 8))
    for bad, words in ((torch.randn(4, 8), r"expected input 0 to be \[3, 8\] float32 on .*, got \[4, 8\] float32"),
                       (torch.randn(3, 8).bfloat16(), r"got \[3, 8\] bfloat16"), (1.0, "got 1.0"),
                       (torch.randn(3, 8, device="meta"), "got .* on meta")):
        with pytest.raises(ValueError, match=words):
            step(bad)
    with pytest.raises(ValueError, match="expected inputs arranged like the example"):
        step(torch.randn(3, 8), torch.randn(3, 8))
    with pytest.raises(ValueError, match="at least one tensor"):
        tachyscope.graph(lambda x: x, 3)
    with pytest.raises(TypeError, match="graph: expected a module or a function, got int"):
        tachyscope.graph(3, torch.randn(3, 8))


def frames(first, count, tokens=2, heads=3, dim=4):
    """Returns keys whose numbers tell which frame they are, and values that are the negated keys."""
    numbers = torch.arange(first, first + count).repeat_interleave(tokens)
    offsets = torch.rand(tokens * count, heads, dim) / 2
    k = (numbers[:, None, None] + offsets).float()
    return k, -k


def test_ring_wraps():
    ring = tachyscope.ring_kv_cache(2, 5, 2, 3, 4, dtype=torch.float32)
    assert ring.keys.shape == ring.values.shape == (2, 10, 3, 4) and ring.bytes() == 2 * 2 * 10 * 12 * 4
    places = (ring.keys.data_ptr(), ring.values.data_ptr())
    kept = {}
    for first in range(0, 24, 3):  # blocks of three wrap in a window of five in every possible way
        k, v = frames(first, 3)
        ring.write(1, first, k, v)
        kept |= {first + i: (k[2 * i:2 * i + 2], v[2 * i:2 * i + 2]) for i in range(3)}
        last = range(max(0, first - 2), first + 3)
        assert ring.frames(1) == len(last) and ring.next_frame(1) == first + 3
        keys, values = ring.read(1)
        assert keys.shape == (1, 2 * len(last), 3, 4)
        for frame in last:
            rows = slice(frame % 5 * 2, frame % 5 * 2 + 2)
            assert torch.equal(keys[0, rows], kept[frame][0]) and torch.equal(values[0, rows], kept[frame][1])
    assert places == (ring.keys.data_ptr(), ring.values.data_ptr()) == (keys.data_ptr() - ring.keys[0].nbytes, values.data_ptr() - ring.values[0].nbytes)
    assert ring.frames(0) == 0 and not ring.keys[0].any()  # the other layer


def test_ring_under_attention():
    """The order of slots does not matter: the result is that of attention over the last frames in the order of time."""
    torch.manual_seed(0)
    ring, k, v, q = tachyscope.ring_kv_cache(1, 4, 2, 3, 8, dtype=torch.float32), *torch.randn(3, 1, 14, 3, 8)
    for frame in range(7):
        block = slice(2 * frame, 2 * frame + 2)
        ring.write(0, frame, k[:, block], v[:, block])
        seen = slice(max(0, 2 * frame - 6), 2 * frame + 2)
        right = ops.attention(q[:, :2], k[:, seen], v[:, seen])
        torch.testing.assert_close(ops.attention(q[:, :2], *ring.read(0)), right)


def test_a_block_written_again():
    ring = tachyscope.ring_kv_cache(1, 4, 2, 3, 4, dtype=torch.float32)
    ring.write(0, 0, *frames(0, 3))
    ring.write(0, 3, *frames(3, 3))
    before = ring.keys.clone()
    again = frames(3, 3)
    ring.write(0, 3, *again)
    assert ring.next_frame() == 6 and torch.equal(ring.keys[0, 6:], again[0][:2]) and torch.equal(ring.keys[0, :4], again[0][2:])
    assert torch.equal(ring.keys[0, 4:6], before[0, 4:6])  # no block has overwritten frame 2
    ring.write(0, 2, *frames(2, 1))
    place = ring.keys.data_ptr()
    ring.reset()
    assert ring.frames() == 0 and ring.read(0)[0].shape[1] == 0 and ring.keys.data_ptr() == place
    ring.write(0, 0, *(t.requires_grad_() for t in frames(0, 4)))  # a whole window
    assert ring.frames() == 4 and not ring.keys.requires_grad


def test_bad_writes():
    ring = tachyscope.ring_kv_cache(1, 4, 2, 3, 4, dtype=torch.float32)
    ring.write(0, 0, *frames(0, 3))
    ring.write(0, 3, *frames(3, 3))
    before = ring.keys.clone()
    k, v = frames(6, 1)
    bad = [(7, k, v, "expected frame from 2 to 6, got 7"), (1, k, v, "got 1"), (-1, k, v, "got -1"),
           (6, k[:1], v[:1], r"expected k \[1 to 4 frames of 2, 3, 4\], got \[1, 3, 4\]"), (6, k, v[:, :2], "expected v"),
           (6, *frames(6, 5), "expected k"), (6, k[:0], v[:0], "expected k"), (6, k, frames(6, 2)[1], "expected v of 2 tokens as k, got 4"),
           (6, k.bfloat16(), v, "expected k torch.float32 on .*, got torch.bfloat16"), (6, k, v.to("meta"), "expected v .* got .* on meta"),
           (6, k.expand(2, -1, -1, -1), v, r"expected k .*, got \[2, 2, 3, 4\]")]
    for frame, keys, values, words in bad:
        with pytest.raises(ValueError, match=words):
            ring.write(0, frame, keys, values)
    assert torch.equal(ring.keys, before) and ring.next_frame() == 6
    with pytest.raises(ValueError, match="expected window to be an integer above 0, got 0"):
        tachyscope.ring_kv_cache(1, 0, 2, 3, 4)
    for dtype in ("float32", torch.int32):
        with pytest.raises(TypeError, match="ring_kv_cache: expected dtype to be a dtype of floats"):
            tachyscope.ring_kv_cache(1, 4, 2, 3, 4, dtype=dtype)
    for call in (lambda layer: ring.write(layer, 6, k, v), ring.read, ring.frames, ring.next_frame):
        for layer in (1, -1, "0"):
            with pytest.raises(IndexError, match="ring_kv_cache: expected layer from 0 to 0, got"):
                call(layer)
    with pytest.raises(TypeError, match="ring_kv_cache: expected v to be a tensor of torch, got list"):
        ring.write(0, 6, k, [1])
    with pytest.raises(ValueError, match="ring_kv_cache: expected frame from 2 to 6, got 5.5"):
        ring.write(0, 5.5, k, v)
