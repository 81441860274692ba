"""Tests that need a GPU: captures in a graph, two streams at once, more than 2^31 values, tensors of two devices.

    TEST_DEVICE=cuda tests/python/run BUILD -- -k gpu runs them in a build folder with CUDA."""

import subprocess
import sys
import textwrap

import pytest
import torch

import tachyscope
from conftest import DEVICE
from tachyscope import ops

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="without TEST_DEVICE=cuda")

CAPTURE = """
    import torch
    from tachyscope import ops
    torch.set_default_device("cuda")
    torch.manual_seed(0)
    shape, call = {case}
    x, weight, bias = torch.randn(shape).bfloat16(), torch.randn(shape[{channels}]), torch.randn(shape[{channels}])
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), torch.no_grad():
        if {warm}:
            call(x, weight, bias)
            stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            out = call(x, weight, bias)
    torch.cuda.synchronize()
    for _ in range(3):
        x.copy_(torch.randn(shape))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, call(x, weight, bias)), "a replay gives other bits than a call"
"""
CASES = {
    "rms_norm": ("((64, 3072), lambda x, weight, bias: ops.rms_norm(x, weight))", -1),
    "group_norm_silu": ("((2, 64, 9, 32, 32), lambda x, weight, bias: ops.group_norm_silu(x, 8, weight, bias))", 1),
}


@pytest.mark.parametrize("warm", [True, False], ids=["after a call", "without a call before"])
@pytest.mark.parametrize("name", CASES)
def test_capture_by_torch(name, warm):
    """Each capture runs in a process of its own: its stream has seen no call, and a capture that fails spoils nothing else."""
    case, channels = CASES[name]
    code = textwrap.dedent(CAPTURE).format(case=case, channels=channels, warm=warm)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_our_graph():
    x, weight, bias = torch.randn(2, 64, 9, 32, 32), torch.randn(64), torch.randn(64)
    step = tachyscope.graph(lambda x: ops.rms_norm(ops.group_norm_silu(x, 8, weight, bias)), x)
    assert step.captured
    addresses = set()
    for _ in range(3):
        x = torch.randn_like(x)
        result = step(x)
        addresses.add(result.data_ptr())
        assert torch.equal(result, ops.rms_norm(ops.group_norm_silu(x, 8, weight, bias)))
    assert len(addresses) == 1


def test_graph_of_two_devices():
    with pytest.raises(ValueError, match="graph: expected all tensors on cuda:0, got some on cpu"):
        tachyscope.graph(lambda x, y: x, torch.randn(3), torch.randn(3, device="cpu"))


def test_two_streams():
    """group_norm's scratch belongs to a stream, so two streams at once give the same bits as one after the other."""
    inputs, weight, bias = [torch.randn(2, 64, 9, 32, 32) for _ in range(2)], torch.randn(64), torch.randn(64)
    expected = [ops.group_norm_silu(x, 8, weight, bias) for x in inputs]
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    for round in range(50):
        results = []
        for stream, x in zip(streams, inputs):
            with torch.cuda.stream(stream):
                results.append(ops.group_norm_silu(x, 8, weight, bias))
        torch.cuda.synchronize()
        for stream, (mine, right) in enumerate(zip(results, expected)):
            assert torch.equal(mine, right), f"round {round}, stream {stream}"


def test_many_values():
    """With offsets above 2^31, the rows before, across and after that offset have the same bits as when they are computed alone. Alone there are still
    as many as fill the GPU: fewer rows get more threads each, and the sum of a row another order."""
    if torch.cuda.get_device_properties(0).total_memory < 40 * 2 ** 30:
        pytest.skip("less than 40 GB of memory")
    rows, alone = 2 ** 20 + 9, 4096
    x, weight = torch.empty(rows, 2048, dtype=torch.bfloat16), torch.randn(2048).bfloat16()
    for part in x.split(2 ** 17):
        part.normal_()
    assert x.numel() > 2 ** 31
    y = ops.rms_norm(x, weight)
    for first in (0, 2 ** 19 - alone // 2, 2 ** 20 - alone // 2 - 8, rows - alone):
        part = slice(first, first + alone)
        torch.testing.assert_close(y[part], ops.rms_norm(x[part].clone(), weight), rtol=0, atol=0)
        wide = x[part].float()
        right = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight.float()
        torch.testing.assert_close(y[part].float(), right, rtol=1e-2, atol=1e-2)


def test_a_tensor_of_the_cpu_beside_one_of_the_gpu():
    x, near, far = torch.randn(4, 8), torch.randn(8), torch.randn(8, device="cpu")
    for call in (lambda: ops.rms_norm(x, far), lambda: ops.rms_norm(x.cpu(), near),
                 lambda: ops.rms_norm(x, out=torch.empty(4, 8, device="cpu")), lambda: ops.gated_residual(x, x.cpu())):
        with pytest.raises(ValueError, match="expected .* on .*, got it on"):
            call()
    torch.cuda.synchronize()
    assert torch.equal(ops.rms_norm(x, near), ops.rms_norm(x, near))
