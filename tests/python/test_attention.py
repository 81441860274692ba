"""Tests of attention beyond those of test_ops.py: windows, one query of grouped heads, gradients by torch and by us, wrong arguments."""

import re

import numpy as np
import pytest
import torch
import torch._dynamo.testing

from tachyscope import ops


@pytest.mark.parametrize("causal, offset, masked", [(False, 0, False), (True, 0, False), (True, 3, False), (True, 3, True),
                                                    (False, 0, True)])
def test_gradients_of_attention_by_torch_and_ours(causal, offset, masked):
    """Both give the gradients of the same function, grouped heads included, and ours gives the same bits twice."""
    torch.manual_seed(0)
    mask = torch.randn(2, 4, 5, 8) if masked else None

    def gradients(own):
        torch.manual_seed(1)
        q, k, v = (torch.randn(2, n, h, 16).requires_grad_() for n, h in ((5, 4), (8, 2), (8, 2)))
        y = ops.attention(q, k, v, mask, causal=causal, causal_offset=offset, own_backward=own)
        return y.detach(), *torch.autograd.grad(y.square().sum(), (q, k, v))

    ours, theirs = gradients(True), gradients(False)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    assert all(torch.equal(a, b) for a, b in zip(ours, gradients(True)))


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
@pytest.mark.parametrize("causal, offset, window, seen", [
    (True, 0, 3, lambda i, j: i - 3 < j <= i), (True, 4, (2, 5), lambda i, j: i + 2 <= j <= i + 4),
    (False, 0, (2, 1), lambda i, j: i - 2 <= j <= i + 1), (False, 2, (0, 0), lambda i, j: j == i + 2),
    (False, 0, (None, 3), lambda i, j: j <= i + 3), (False, 1, (4, None), lambda i, j: j >= i + 1 - 4),
    (False, 0, (None, None), lambda i, j: True), (True, 0, 1000, lambda i, j: j <= i)])
def test_windows(causal, offset, window, seen, grad):
    q, k, v = torch.randn(1, 7, 4, 16, requires_grad=grad), torch.randn(1, 9, 2, 16), torch.randn(1, 9, 2, 16)
    mask = torch.tensor([[seen(i, j) for j in range(9)] for i in range(7)])
    if grad and not mask.any(-1).all():
        pytest.skip("torch gives NaN to a query without keys")
    got = ops.attention(q, k, v, causal=causal, causal_offset=offset, window=window)
    want = ops.attention(q, k, v, mask)
    torch.testing.assert_close(got, want)
    if grad:
        torch.testing.assert_close(*(torch.autograd.grad(t.square().sum(), q) for t in (got, want)))


@pytest.mark.parametrize("window", [0, -3, (1,), (1, -2), (1.5, 2), "all", (3, 2, 1), 1.5, 1 << 70, object()])
def test_what_is_no_window(window):
    x = torch.randn(1, 4, 1, 8)
    with pytest.raises(ValueError, match=r"attention: expected window an int .* got " + re.escape(repr(window))):
        ops.attention(x, x, x, causal=True, window=window)
    with pytest.raises(ValueError, match="attention: expected window without causal"):
        ops.attention(x, x, x, window=2)
    assert torch.equal(ops.attention(x, x, x, causal=True, window=np.int64(2)), ops.attention(x, x, x, causal=True, window=2))


@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
def test_attention_says_what_is_wrong(grad):
    """The messages are the same when gradients are recorded and torch computes."""
    q, k = torch.randn(2, 4, 4, 8, requires_grad=grad), torch.randn(2, 6, 2, 8)
    for wrong, text in [(dict(causal_offset=2), "causal beside causal_offset 2"), (dict(causal=True, causal_offset=50), "causal_offset in"),
                        (dict(causal=True, causal_offset=-5, window=2), "causal_offset in")]:
        with pytest.raises(ValueError, match=f"attention: expected {text}"):
            ops.attention(q, k, k, **wrong)
    for keys, values in [(k[..., :6], k[..., :6]), (k[:1], k[:1]), (k, k[..., :6]), (k[:, :, :0], k[:, :, :0]), (k[0], k[0]),
                         (torch.randn(2, 6, 3, 8),) * 2]:
        with pytest.raises(ValueError, match="attention: expected [kv]"):
            ops.attention(q, keys, values)


def test_a_window_without_an_end_compiles_once():
    torch.compiler.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x: ops.attention(x, x, x, window=(2, None)), fullgraph=True, dynamic=True, backend=counter)
    for tokens in (5, 7, 9, 12):
        x = torch.randn(1, tokens, 2, 8)
        torch.testing.assert_close(compiled(x), ops.attention(x, x, x, window=(2, None)))
    assert counter.frame_count == 1


@pytest.mark.parametrize("causal, offset", [(False, 0), (True, 4), (True, -1)])
def test_one_query_of_groups(causal, offset):
    """Treating the heads of a group as queries of one head gives the same result and log-sum-exp as with a head of keys for each."""
    q, k, v = torch.randn(2, 1, 6, 16), torch.randn(2, 9, 2, 16), torch.randn(2, 9, 2, 16)
    wide_k, wide_v = (t.repeat_interleave(3, 2) for t in (k, v))
    ops.attention(q, k, v)  # registers the ops
    call = torch.ops.tachyscope.attention_lse
    for mask in (None, torch.randn(2, 1, 1, 9), torch.randn(2, 6, 1, 9)):
        got, want = (call(q, *keys, mask, 0.25, causal, offset) for keys in ((k, v), (wide_k, wide_v)))
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a, b)
        assert (got[0] == 0).all() == (offset == -1)
