"""Wrong arguments raise an exception that names the argument, what was expected and what was given."""

import contextlib

import numpy as np
import pytest
import torch

from tachyscope import ops

pytestmark = pytest.mark.cpu

X, W, H = torch.randn(2, 3, 8), torch.randn(8), torch.randn(1, 6, 3, 8)
BY_TORCH = (ValueError, RuntimeError)  # torch raises the first up to 2.11, the second later
BAD = [
    (lambda: ops.rms_norm(X.int()), ValueError, "rms_norm: expected x f32, f16 or bf16 .*, got i32"),
    (lambda: ops.rms_norm(X.to(torch.complex64)), ValueError, "rms_norm: expected x f32, f16, bf16 or f64, got"),
    (lambda: ops.rms_norm(torch.tensor(1.0)), ValueError, "rms_norm: expected x with 1 to 6 dims, got 0"),
    (lambda: ops.rms_norm(torch.zeros(1, 1, 1, 1, 1, 1, 2)), ValueError, "expected x with 1 to 6 dims, got 7"),
    (lambda: ops.rms_norm(X, W[:7]), ValueError, r"rms_norm: expected weight \[8\], got \[7\]"),
    (lambda: ops.rms_norm(X, X), ValueError, r"rms_norm: expected weight \[8\], got \[2, 3, 8\]"),
    (lambda: ops.rms_norm(X, W.double()), ValueError, "expected weight f32, f16 or bf16 beside f32, got f64"),
    (lambda: ops.rms_norm(X.double(), W), ValueError, "expected weight f64 beside f64, got f32"),
    (lambda: ops.rms_norm(X, W.long()), ValueError, "expected weight f32, f16 or bf16 .*, got i64"),
    (lambda: ops.rms_norm(X, W.numpy()), TypeError, "rms_norm: expected weight to be a tensor of torch or None, got ndarray"),
    (lambda: ops.rms_norm(X, W, "small"), TypeError, "rms_norm: expected eps to be a number, got str"),
    (lambda: ops.rms_norm(X.clone().requires_grad_(), [1.0]), TypeError, "rms_norm: expected weight to be a tensor of torch or None, got list"),
    (lambda: ops.rms_norm(X, out=X.numpy()), TypeError, "rms_norm: expected out to be a tensor of torch, got ndarray"),
    (lambda: ops.rms_norm(X, round_twice="no"), TypeError, "rms_norm: expected round_twice to be True or False, got str"),
    (lambda: ops.rms_norm(X.numpy().astype(X.numpy().dtype.newbyteorder())), ValueError, "rms_norm: expected arrays that DLPack can hand over"),
    (lambda: ops.rms_norm(np.full((2, 3), "x", object)), ValueError, "rms_norm: expected arrays that DLPack can hand over"),
    (lambda: ops.gelu(X, ["tanh"]), ValueError, "gelu: expected approximate to be one of 'none', 'tanh', got"),
    (lambda: ops.linear(X, X[0], activation={}), ValueError, "linear: expected activation to be one of None"),
    (lambda: ops.rope_3d(H, 6), ValueError, r"rope_3d: expected grid to be \(frames, rows, columns\), got 6"),
    (lambda: ops.rope_3d(H, (2, 3)), ValueError, r"rope_3d: expected grid to be \(frames, rows, columns\), got \(2, 3\)"),
    (lambda: ops.qkv_rope(X, W, W, "2"), TypeError, "qkv_rope: expected heads to be a whole number, got str"),
    (lambda: ops.attention(H, H, H, causal=True, causal_offset="1"), ValueError, r"expected causal_offset in \[-6, 6\], got '1'"),
    (lambda: ops.lora(X, X[0], X[0].T, [1.0]), TypeError, "lora: expected scale to be a number or a tensor, got list"),
    (lambda: ops.mlp(X, X[0].numpy(), None, X[0].T, None), TypeError, "mlp: expected weight of x's framework, got ndarray beside Tensor"),
    (lambda: ops.mlp(X.numpy(), X[0], None, X[0].T, None), TypeError, "mlp: expected weight of x's framework, got Tensor beside ndarray"),
    (lambda: ops.conv1d_group_norm(X, X[:, :, :1], None, 2, conv_groups="a"), TypeError, "conv1d_group_norm: expected conv_groups to be a whole"),
    (lambda: ops.codes_of(X[0], []), ValueError, "codes_of: expected dtype to be one of 'int8'"),
    (lambda: ops.conv3d_codes_of(torch.ones(1, 1, 3, 3, 3), None), TypeError, "conv3d_codes_of: expected x_scale to be a number, got NoneType"),
    (lambda: ops.channel_norm_codes(H, W[:6], "x"), TypeError, "channel_norm_codes: expected scale to be a number, got str"),
    (lambda: ops.rms_norm(X, W.to("meta")), ValueError, "expected all tensors on cpu as the first, got one on meta"),
    (lambda: ops.rms_norm(X.to_sparse()), Exception, "[Ss]parse"),
    (lambda: ops.rms_norm([[1.0]]), TypeError, "expected x to be a tensor or an array .*, got list"),
    (lambda: ops.rms_norm(None), TypeError, "expected x to be a tensor or an array"),
    (lambda: ops.rms_norm(np.ones((2, 3), np.complex64)), ValueError, "expected x f32, f16, bf16 or f64, got DLPack type"),
    (lambda: ops.rms_norm(X, out=X[0]), ValueError, r"rms_norm: expected out \[2, 3, 8\], got \[3, 8\]"),
    (lambda: ops.rms_norm(X, out=X.bfloat16()), ValueError, "rms_norm: expected out f32, got bf16"),
    (lambda: ops.rms_norm(X, out=torch.empty(1, 1, 8).expand(2, 3, 8)), ValueError, "a place for each value, got stride 0"),
    (lambda: overlapping(), ValueError, "expected out in memory of its own or all of x itself, got some of x's"),
    (lambda: ops.layer_norm(X, W, W[:2]), ValueError, r"layer_norm: expected bias \[8\], got \[2\]"),
    (lambda: ops.ada_layer_norm(X, X, None), ValueError, r"expected scale and shift of one shape, got \[2, 3, 8\] and none"),
    (lambda: ops.ada_layer_norm(X, X[:, :2], X[:, :2]), ValueError, r"expected scale \[2, 3, 8\] or .* 1 .*, got \[2, 2, 8\]"),
    (lambda: ops.ada_layer_norm(X, W[:1], W[:1]), ValueError, r"layer_norm: expected scale .*, got \[1\]"),
    (lambda: ops.add_norm(X, X[:1]), ValueError, r"add_norm: expected u \[2, 3, 8\] as x, got \[1, 3, 8\]"),
    (lambda: ops.add_norm(X, X, norm="batch"), ValueError, "add_norm: expected norm to be one of 'rms', 'layer', got 'batch'"),
    (lambda: ops.add_norm(X, X, gate=X, scale=W, shift=W), ValueError, "expected gate and scale of one shape"),
    (lambda: ops.gated_residual(X, X.double()), ValueError, "gated_residual: expected u f32, f16 or bf16 beside f32, got f64"),
    (lambda: ops.gelu(X, "sigmoid"), ValueError, "gelu: expected approximate to be one of 'none', 'tanh', got 'sigmoid'"),
    (lambda: torch.ops.tachyscope.activation(X, 9), BY_TORCH, "activation: expected kind 1 .*, got 9"),
    (lambda: torch.ops.tachyscope.glu(X, X, -1, False), BY_TORCH, "glu: expected kind 0 .*, got -1"),
    (lambda: ops.swiglu(X, X.bfloat16()), ValueError, "glu: expected up f32 as gate, got bf16"),
    (lambda: ops.swiglu(X, X[0]), ValueError, r"glu: expected up \[2, 3, 8\] as gate, got \[3, 8\]"),
    (lambda: ops.rope_1d(X), ValueError, r"rope_1d: expected x \[batch, tokens, heads, even head dim\], got \[2, 3, 8\]"),
    (lambda: ops.rope_1d(H[..., :7]), ValueError, "even head dim"),
    (lambda: ops.rope_1d(H, -1.0), ValueError, "rope_1d: expected theta above 0, got -1"),
    (lambda: ops.rope_1d(H, float("nan")), ValueError, "rope_1d: expected theta above 0, got nan"),
    (lambda: ops.rope(H, W[:4], W[:4]), ValueError, r"rope: expected cos \[6, 4\], got \[4\]"),
    (lambda: ops.rope(H, H[0, :, 0, :4], H[0, :, 0]), ValueError, r"rope: expected sin \[6, 4\], got \[6, 8\]"),
    (lambda: ops.rope_3d(H, (2, 2, 2)), ValueError, "rope_3d: expected a grid of 6 tokens as x has, got 2 x 2 x 2"),
    (lambda: ops.rope_3d(H, (2 ** 62, 2 ** 62, 2)), ValueError, "expected a grid of 6 tokens"),
    (lambda: ops.rope_3d(H, (-1, -1, 6)), ValueError, "expected a grid of 6 tokens"),
    (lambda: ops.group_norm(H, 4), ValueError, "group_norm: expected groups that divide 6 channels, got 4"),
    (lambda: ops.group_norm(H, 0), ValueError, "group_norm: expected groups that divide 6 channels, got 0"),
    (lambda: ops.group_norm(H, 2 ** 40), ValueError, "expected groups that divide 6 channels"),
    (lambda: ops.group_norm(W, 1), ValueError, r"group_norm: expected x \[samples, channels, ...\], got \[8\]"),
    (lambda: ops.group_norm(H, 2, activation="relu"), ValueError, "group_norm: expected activation to be one of None"),
    (lambda: ops.attention(H, H, H[:, :5]), ValueError, r"attention: expected v \[1, 6, 3, 8\] as k, got \[1, 5, 3, 8\]"),
    (lambda: ops.attention(H, H[:, :, :2], H[:, :, :2]), ValueError, "expected k with heads that divide q's 3, got 2"),
    (lambda: ops.attention(H, H[:, :, :0], H[:, :, :0]), ValueError, r"attention: expected k \[1, keys, at least 1 head, 8\]"),
    (lambda: ops.attention(H, H, H, X), ValueError, r"attention: expected mask \[1, 3, 6, 6\] or .*, got \[2, 3, 8\]"),
    (lambda: ops.attention(H, H, H, causal_offset=1), ValueError, "attention: expected causal beside causal_offset 1"),
    (lambda: ops.attention(H, H, H, causal=True, causal_offset=9), ValueError, r"expected causal_offset in \[-6, 6\], got 9"),
    (lambda: ops.attention(X, X, X), ValueError, r"expected q \[batch, tokens, heads, head dim\], got \[2, 3, 8\]"),
    (lambda: ops.attention(H, H, H, out=H), ValueError, "attention: expected out in memory of its own, got some of q's"),
    (lambda: ops.lora(X, W, W), ValueError, r"lora: expected a \[rank, in\] and b \[out, rank\], .*, got \[8\] and \[8\]"),
    (lambda: ops.lora(X, X[0], X.transpose(1, 2)), ValueError, r"lora: expected a .* or a \[n, rank, in\] .*, got \[3, 8\] and \[2, 8, 3\]"),
    (lambda: ops.lora(X, X[0], X[0].T, index=torch.zeros(2, 3).int()), ValueError, "lora: expected no index beside a single adapter"),
    (lambda: ops.lora(X, X, X.transpose(1, 2), W), ValueError, r"lora: expected scales \[2\], got \[8\]"),
    (lambda: ops.lora(X, X[0], X[0].T, W), ValueError, r"lora: expected scales \[1\], got \[8\]"),
    (lambda: ops.lora(X, X[0], X[0].T[:, :2]), ValueError, r"lora: expected b \[1, out, 3\], got \[1, 8, 2\]"),
    (lambda: ops.lora(X, X[0, :, :7], X[0].T), ValueError, r"lora: expected a \[at least 1, rank, 8\], got \[1, 3, 7\]"),
    (lambda: ops.grouped_lora(X, X, X.transpose(1, 2), W), ValueError, r"lora: expected scales \[2\], got \[8\]"),
    (lambda: ops.grouped_lora(X, X, X.transpose(1, 2), index=W), ValueError, "lora: expected index i32, got f32"),
    (lambda: ops.grouped_lora(X, X, X.transpose(1, 2), index=torch.tensor([0, 1])), ValueError, "expected index with x's dims"),
    (lambda: ops.grouped_lora(X[0], X, X.transpose(1, 2), index=torch.tensor([0, 2, 1])), ValueError, "expected index"),
    (lambda: ops.reparameterize(X, X, W), ValueError, r"reparameterize: expected noise \[2, 3, 8\] as mean, got \[8\]"),
    (lambda: ops.attention([1], H, H), TypeError, "expected q to be a tensor or an array"),
]


def overlapping():
    memory = torch.randn(20)
    return ops.rms_norm(memory[:16].view(2, 8), out=memory[4:].view(2, 8))


WITHOUT = {"u": lambda: ops.add_norm(X, None), "up": lambda: ops.swiglu(X, None), "cos": lambda: ops.rope(H, None, None),
           "weight": lambda: ops.linear(X, None), "gamma": lambda: ops.channel_norm(H, None), "v": lambda: ops.attention(H, H, None),
           "noise": lambda: ops.reparameterize(X, X, None), "codes": lambda: ops.scaled_linear(X, None, None),
           "x": lambda: ops.gated_residual(None, X), "scale": lambda: ops.rms_modulate(X.clone().requires_grad_(), None, None)}


@pytest.mark.parametrize("name", WITHOUT)
def test_none_in_place_of_a_tensor(capfd, name):
    """torch would print a trace of C++ for each."""
    for region in (contextlib.nullcontext(), torch.autocast("cpu", torch.bfloat16)):
        with region, pytest.raises(TypeError, match=f"expected {name} to be a tensor"):
            WITHOUT[name]()
    assert capfd.readouterr().err == ""


def test_numbers_of_numpy():
    for number in (np.float64(0.5), np.float32(0.5)):
        assert torch.equal(ops.lora(X, X[0], X[0].T, number), ops.lora(X, X[0], X[0].T, 0.5))


@pytest.mark.parametrize("call, error, words", BAD)
def test_bad(call, error, words):
    with pytest.raises(error, match=words):
        call()
