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


def by_sdpa(q, k, v, mask, causal):
    """The definition: torch's own, on [batch, heads, tokens, head dim]."""
    y = torch.nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), attn_mask=mask, is_causal=causal,
                                                         enable_gqa=q.shape[2] != k.shape[2])
    return y.transpose(1, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, pytest.param(torch.float64, marks=pytest.mark.cpu)], ids=str)
@pytest.mark.parametrize("queries, masked, causal, strided", [(5, False, False, False), (5, True, False, True), (1, False, False, False),
                                                              (5, False, True, False)])
def test_no_keys(queries, masked, causal, strided, dtype):
    """Zeros, as torch gives; with `out`, under torch.compile and for NumPy, too."""
    q, k = torch.randn(2, queries, 4, 8).to(dtype), torch.zeros(2, 0, 2, 8, dtype=dtype)
    q = q.transpose(0, -1).contiguous().transpose(0, -1) if strided else q
    mask = torch.zeros(2, 1, queries, 0, dtype=dtype) if masked else None
    want = by_sdpa(q, k, k, mask, causal)
    assert (want == 0).all() and want.shape == q.shape
    out = torch.full(q.shape, 7.0, dtype=dtype)
    assert torch.equal(ops.attention(q, k, k, mask, causal=causal), want)
    assert ops.attention(q, k, k, mask, causal=causal, out=out) is out and torch.equal(out, want)
    torch.compiler.reset()
    compiled = torch.compile(lambda q, k: ops.attention(q, k, k, mask, causal=causal), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k), want)
    if dtype != torch.bfloat16 and q.is_cpu:
        assert (ops.attention(q.numpy(), k.numpy(), k.numpy(), None if mask is None else mask.numpy(), causal=causal) == 0).all()


@pytest.mark.parametrize("own", [False, True], ids=["torch's backward", "ours"])
def test_gradients_without_keys(own):
    q, k = torch.randn(2, 5, 4, 8, requires_grad=True), torch.zeros(2, 0, 2, 8, requires_grad=True)
    y = ops.attention(q, k, k, own_backward=own)
    assert (y == 0).all()
    (y * torch.randn_like(y)).sum().backward()
    assert torch.equal(q.grad, torch.zeros_like(q)) and k.grad.shape == k.shape
    _, lse = torch.ops.tachyscope.attention_lse(q.detach(), k.detach(), k.detach(), None, 1.0, False, 0)
    assert lse.shape == (2, 4, 5) and (lse == float("-inf")).all()


def test_a_picture_with_less_text_than_wan_expects():
    """Wan's image-to-video takes the last 512 tokens of the text; here there are fewer in all, so none is left for the picture."""
    import tachyscope
    from diffusers import WanTransformer3DModel

    model = WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4,
                                  text_dim=16, freq_dim=16, ffn_dim=32, num_layers=1, image_dim=8, added_kv_proj_dim=24).eval()
    given = dict(hidden_states=torch.randn(1, 4, 2, 6, 6), timestep=torch.tensor([3]), encoder_hidden_states=torch.randn(1, 512, 16),
                 encoder_hidden_states_image=torch.zeros(1, 0, 8))
    with torch.no_grad():
        before = model(**given).sample
        tachyscope.optimize(model, verbose=False)
        torch.testing.assert_close(model(**given).sample, before)


def of_chosen_blocks(q, k, v, kept):
    """Attention in which each 128 queries see the blocks of 128 keys with the largest products of means, and their own."""
    tokens = q.shape[1]
    blocks = -(-tokens // 128)
    means = [torch.stack([part.double().mean(1) for part in t.split(128, dim=1)], dim=1) for t in (q, k)]
    scores = torch.einsum("bihd,bjhd->bhij", *means)
    scores.diagonal(dim1=2, dim2=3).fill_(float("inf"))
    seen = torch.zeros_like(scores, dtype=torch.bool).scatter_(3, scores.topk(max(1, round(kept * blocks)), dim=3).indices, True)
    seen = seen.repeat_interleave(128, 2).repeat_interleave(128, 3)[:, :, :tokens, :tokens]
    return ops.attention(q, k, v, seen)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kept", [0.01, 0.25, 0.6, 0.99])
def test_a_share_of_the_blocks(kept, dtype):
    torch.manual_seed(0)
    q, k, v = torch.unflatten(torch.randn(2, 700, 3 * 2 * 24), 2, (3, 2, -1)).to(dtype).unbind(2)
    got, want = ops.attention(q, k, v, blocks=kept), of_chosen_blocks(q, k, v, kept)
    bound = 1e-5 if dtype == torch.float32 else 8e-3
    torch.testing.assert_close(got, want, rtol=bound, atol=bound)
    compiled = torch.compile(lambda q, k, v: ops.attention(q, k, v, blocks=kept, eight_bits=True), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v), want, rtol=5e-2, atol=5e-2)


def test_eight_bits():
    q, k, v = torch.randn(3, 1, 300, 2, 64)
    mask = torch.randn(1, 1, 1, 300)
    got, want = ops.attention(q, k, v, mask, eight_bits=True), ops.attention(q, k, v, mask)
    assert (got - want).norm() < 0.05 * want.norm()
    causal = ops.attention(q, k, v, causal=True, eight_bits=True)
    assert (causal - ops.attention(q, k, v, causal=True)).norm() < 0.05 * want.norm() + 0.05 * causal.norm()


@pytest.mark.parametrize("options, text", [
    ({"blocks": 0}, r"expected blocks in \(0, 1\], got 0"), ({"blocks": 1.5}, r"expected blocks in \(0, 1\], got 1.5"),
    ({"blocks": float("nan")}, "expected blocks in"), ({"blocks": 0.5, "mask": torch.zeros(4)}, "expected no mask and no causal beside blocks"),
    ({"blocks": 0.5, "causal": True}, "expected no mask and no causal beside blocks"), ({"blocks": 0.5, "window": 2, "causal": True}, "expected no window"),
    ({"eight_bits": True, "out": torch.zeros(1, 4, 2, 8)}, "expected no out")])
def test_less_than_all_of_attention_refuses(options, text):
    x = torch.randn(1, 4, 2, 8)
    with pytest.raises(ValueError, match="attention.*: " + text):
        ops.attention(x, x, x, **options)
    with pytest.raises(TypeError, match="expected blocks to be a number"):
        ops.attention(x, x, x, blocks="half")
    with pytest.raises(ValueError, match="expected as many tokens and heads of k as of q beside blocks"):
        ops.attention(x, x[:, :3], x[:, :3], blocks=0.5)
    with pytest.raises(ValueError, match="expected no tensor that requires grad beside eight_bits"):
        ops.attention(x.clone().requires_grad_(), x, x, eight_bits=True)
    with pytest.raises(ValueError, match="expected q (of at most 32 bits|f32, f16 or bf16)"):
        ops.attention(x.double(), x.double(), x.double(), eight_bits=True)
