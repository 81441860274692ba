"""Wrong arguments: an exception that names the argument, what was expected and what came."""

import numpy as np
import pytest
import torch

from tachyscope import ops

X, W = torch.randn(2, 3, 8), torch.randn(8)
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
    (lambda: ops.rms_norm(X, W.numpy()), RuntimeError, "argument 'weight'"),
    (lambda: ops.rms_norm(X, W, "small"), RuntimeError, "argument 'eps'"),
    (lambda: ops.rms_norm(X, W.to("meta")), ValueError, "expected all tensors on cpu as the first, got one on meta"),
    (lambda: ops.rms_norm(X.to_sparse()), Exception, "[Ss]parse"),
    (lambda: ops.rms_norm([[1.0]]), TypeError, "expected x to be a tensor or an array .*, got list"),
    (lambda: ops.rms_norm(None), TypeError, "expected x to be a tensor or an array"),
    (lambda: ops.rms_norm(np.ones((2, 3), np.complex64)), ValueError, "expected x f32, f16, bf16 or f64, got DLPack type"),
    (lambda: ops.rms_norm(X, out=X[0]), ValueError, r"rms_norm: expected out \[2, 3, 8\], got \[3, 8\]"),
    (lambda: ops.rms_norm(X, out=X.bfloat16()), ValueError, "rms_norm: expected out f32, got bf16"),
    (lambda: ops.rms_norm(X, out=torch.empty(1, 1, 8).expand(2, 3, 8)), ValueError, "a place for each value, got stride 0"),
    (lambda: overlapping(), ValueError, "expected out in memory of its own or all of x itself, got some of x's"),
    (lambda: ops.rms_norm(X, W, out=weight_as_out()), ValueError, r"expected out \[2, 3, 8\]"),
]


def overlapping():
    memory = torch.randn(20)
    return ops.rms_norm(memory[:16].view(2, 8), out=memory[4:].view(2, 8))


def weight_as_out():
    return W


@pytest.mark.parametrize("call, error, words", BAD)
def test_bad(call, error, words):
    with pytest.raises(error, match=words):
        call()
