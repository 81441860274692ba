"""Tests of the package without torch, on NumPy arrays, in a process of its own; and of `_core` on torch tensors."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from tachyscope import _core

pytestmark = pytest.mark.cpu


def run(code):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numpy():
    run("""
        import sys
        import numpy as np
        import tachyscope
        x = np.random.default_rng(0).standard_normal((3, 5, 17))
        for dtype, bound in ((np.float32, 1e-6), (np.float16, 2e-3), (np.float64, 1e-7)):
            a = x.astype(dtype)
            wide = a.astype(np.float64)
            expected = wide / np.sqrt((wide ** 2).mean(-1, keepdims=True) + 1e-6)
            for given, right in ((a, expected), (a[:, ::2], expected[:, ::2]), (a[..., ::-1], expected[..., ::-1])):
                y = tachyscope.ops.rms_norm(given)
                assert type(y) is np.ndarray and y.dtype == dtype and abs(y - right).max() < bound
            out = np.empty_like(a)
            assert tachyscope.ops.rms_norm(a, out=out) is out and abs(out - expected).max() < bound
            a.flags.writeable = False
            tachyscope.ops.rms_norm(a)
            try:
                tachyscope.ops.rms_norm(a.copy(), out=a)
                raise SystemExit("a read-only array was written")
            except (ValueError, BufferError):
                pass
        assert "torch" not in sys.modules
    """)


def test_other_ops_on_numpy():
    run("""
        import sys
        import numpy as np
        from tachyscope import ops
        rng = np.random.default_rng(0)
        x, u = rng.standard_normal((2, 2, 6, 12)).astype(np.float32)
        y, h = ops.add_norm(x, u)
        assert type(y) is np.ndarray and (h == x + u).all()
        assert abs(y - ops.rms_norm(h)).max() < 1e-6
        assert abs(ops.swiglu(x, u) - x / (1 + np.exp(-x)) * u).max() < 1e-6
        heads = x.reshape(1, 12, 2, 6)
        scores = np.einsum("bihd,bjhd->bhij", heads, heads) / np.sqrt(6)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        expected = np.einsum("bhij,bjhd->bihd", weights, heads)
        assert abs(ops.attention(heads, heads, heads) - expected).max() < 1e-6
        assert abs(np.linalg.norm(ops.rope_3d(heads, (3, 2, 2))) - np.linalg.norm(heads)) < 1e-4
        assert ops.group_norm_silu(x.reshape(2, 6, 3, 4), 3).shape == (2, 6, 3, 4)
        assert "torch" not in sys.modules
    """)


def test_torch_imported_later():
    run("""
        import tachyscope
        import torch
        x = torch.randn(3, 8, requires_grad=True)
        y = tachyscope.ops.rms_norm(x)
        assert y.requires_grad
    """)


def test_torch_that_may_not_be_imported():
    """None in sys.modules is how tests and launchers say that a module is not available."""
    run("""
        import sys
        sys.modules["torch"] = None
        import numpy as np
        import tachyscope
        x = np.ones((2, 8), np.float32)
        assert abs(tachyscope.ops.rms_norm(x) - 1).max() < 1e-6
        tachyscope.ops.rms_norm(x, out=np.empty_like(x))
        tachyscope.ops.lora(x, np.ones((3, 2, 8), np.float32), np.ones((3, 5, 2), np.float32), 0.5)
        tachyscope.ops.attention(*[x.reshape(1, 2, 1, 8)] * 3)
        try:
            tachyscope.optimize
            raise SystemExit("optimize without torch")
        except ImportError as error:
            assert "torch" in str(error)
        import pydoc
        shown = pydoc.render_doc(tachyscope, renderer=pydoc.plaintext)
        assert "class Engine" in shown and "optimize(thing" not in shown
    """)


def test_help_has_what_is_loaded_later():
    run("""
        import pydoc
        import tachyscope
        assert set(tachyscope.__all__) <= set(dir(tachyscope))
        shown = pydoc.render_doc(tachyscope, renderer=pydoc.plaintext)
        for name in ("class Engine", "class World", "class NotFinite", "optimize(thing", "ring_kv_cache(layers"):
            assert name in shown, name
    """)


def test_fork():
    """A process forked after the threads were started has threads of its own."""
    run("""
        import os
        import numpy as np
        import tachyscope
        tachyscope.set_threads(2)
        x = np.ones((4096, 512), np.float32)
        y = tachyscope.ops.rms_norm(x)
        child = os.fork()
        if child == 0:
            os._exit(0 if (tachyscope.ops.rms_norm(x) == y).all() and tachyscope.threads() == 2 else 1)
        assert os.waitpid(child, 0)[1] == 0
    """)


def test_core_and_torch_agree():
    x = torch.randn(3, 5, 17).bfloat16()
    through_exchange = _core.rms_norm(x, None, 1e-6, False)
    assert type(through_exchange) is torch.Tensor
    assert torch.equal(through_exchange, torch.ops.tachyscope._rms_norm(x, None, 1e-6, False))


def test_signatures():
    """The table of signatures agrees with what the functions take."""
    assert _core.signatures["rms_norm"] == "(Tensor x, Tensor? weight, float eps, bool round_twice) -> Tensor"
    for name in _core.signatures:
        with pytest.raises(TypeError, match=f"{name}.*arguments"):
            getattr(_core, name)()
    with pytest.raises(TypeError, match="expected x to be a tensor or an array"):
        _core.rms_norm("x", None, 1e-6, False)
    with pytest.raises(TypeError, match="expected eps to be a number, got str"):
        _core.rms_norm(np.ones((2, 3), np.float32), None, "1e-6", False)
