"""Inside torch.autocast the ops take and give the dtypes that torch's own functions do."""

import pytest
import torch
import torch.nn.functional as F

from tachyscope import ops, _autocast

FUNCTIONS = {
    "rms_norm": (lambda x, y: ops.rms_norm(x), lambda x, y: F.rms_norm(x, (8,), None, 1e-6)),
    "layer_norm": (lambda x, y: ops.layer_norm(x), lambda x, y: F.layer_norm(x, (8,))),
    "group_norm": (lambda x, y: ops.group_norm(x, 2), lambda x, y: F.group_norm(x, 2)),
    "gelu": (lambda x, y: ops.gelu(x), lambda x, y: F.gelu(x)),
    "swiglu": (lambda x, y: ops.swiglu(x, y), lambda x, y: F.silu(x) * y),
    "attention": (lambda x, y: ops.attention(x, y, y), lambda x, y: F.scaled_dot_product_attention(
        *(t.transpose(1, 2) for t in (x, y, y))).transpose(1, 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("region", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float32), (torch.bfloat16, torch.bfloat16),
                                    (torch.bfloat16, torch.float32), (torch.float32, torch.float16)], ids=str)
@pytest.mark.parametrize("grad", [False, True], ids=["", "grad"])
def test_dtypes_are_as_torchs(name, region, dtypes, grad):
    device = torch.get_default_device().type
    x, y = (torch.randn(2, 6, 4, 8, dtype=dtype, requires_grad=grad) for dtype in dtypes)
    ours, theirs = FUNCTIONS[name]
    with torch.autocast(device, dtype=region):
        got, want = ours(x, y), theirs(x, y)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)
    if grad:
        got.float().square().sum().backward()
        assert x.grad.dtype == x.dtype and torch.isfinite(x.grad).all()


def test_adapters_take_the_regions_dtype():
    x, a, b = torch.randn(5, 24, requires_grad=True), torch.randn(4, 24, requires_grad=True), torch.randn(40, 4)
    device = torch.get_default_device().type
    with torch.autocast(device, dtype=torch.bfloat16):
        y = ops.lora(x, a, b, 0.5)
        assert y.dtype == F.linear(x, a).dtype == torch.bfloat16
        y.float().sum().backward()  # this runs inside the autocast region, where einsum would round
    want = torch.autograd.grad((x.bfloat16().float() @ a.bfloat16().float().T @ b.bfloat16().float().T * 0.5).sum(), (x, a))
    torch.testing.assert_close((x.grad, a.grad), want, rtol=2e-2, atol=2e-2)


@pytest.mark.cpu
def test_float64_is_left_alone():
    x = torch.randn(2, 6, 4, 8, dtype=torch.float64)
    with torch.autocast(torch.get_default_device().type, dtype=torch.bfloat16):
        assert ops.attention(x, x, x).dtype == torch.float64


def test_what_torch_widens_on_a_gpu_is_what_we_widen():
    """The test asks torch's dispatcher, which knows its CUDA rules even without a GPU. Matrix products are narrowed on both devices."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    assert {"layer_norm", "group_norm"} <= _autocast.WIDENED["cuda"].keys()
    assert ("rms_norm" in _autocast.WIDENED["cuda"]) == has("aten::rms_norm", "AutocastCUDA")
    for kind in ("AutocastCUDA", "AutocastCPU"):
        assert has("aten::scaled_dot_product_attention", kind) and has("aten::linear", kind)
        assert not has("aten::gelu", kind) and not has("aten::silu", kind)


def test_compiled():
    torch.compiler.reset()
    device = torch.get_default_device().type
    x = torch.randn(2, 6, 4, 8)

    def call(x):
        with torch.autocast(device, dtype=torch.bfloat16):
            return ops.attention(x, x, x), ops.rms_norm(x)

    got = torch.compile(call, fullgraph=True, backend="aot_eager")(x)
    assert [t.dtype for t in got] == [t.dtype for t in call(x)]
    torch.testing.assert_close(got, call(x))
