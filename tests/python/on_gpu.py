#!/usr/bin/env python3
"""The Python package on a GPU, without pytest: values, strides, gradients, graphs, streams; then times.

    PYTHONPATH=BUILD/python python3 tests/python/on_gpu.py [--json FILE]

Values and gradients are held against float64 on the CPU, with the tolerance of test_ops.py and test_gradients.py. Times: RMSNorm in bf16
beside torch's and a composed one (device time: a graph of 20 calls, median), and what a call costs the host. Exit code 1 where a
check fails."""

import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F

import tachyscope
from head_cases import CASES
from op_cases import STRIDES, restride
from tachyscope import ops

failures, checks = [], 0


def expect(condition, what):
    global checks
    checks += 1
    if not condition:
        failures.append(what)
        print("FAILED", what, flush=True)


def tuple_of(result):
    return result if isinstance(result, tuple) else (result,)


def close(mine, theirs, exact, units, what):
    allowed = 2 * (theirs.double() - exact).abs().max() + units * torch.finfo(mine.dtype).eps * exact.abs().max()
    error = (mine.double().cpu() - exact).abs().max()
    expect(bool(error <= allowed), f"{what}: error {error:.3g}, allowed {allowed:.3g}")


def values(case, dtype, how):
    given = {name: t.to(dtype) for name, t in case.draw().items()}
    exact = tuple_of(case.theirs(**{name: t.double() for name, t in given.items()}))
    theirs = tuple_of(case.theirs(**given))
    mine = tuple_of(case.ours(**{name: restride(t.cuda(), how) for name, t in given.items()}))
    for i, result in enumerate(mine):
        close(result, theirs[i], exact[i], 2, f"{case.name}, {dtype}, {how}")


def gradients(case, dtype):
    def run(call, device, dtype):
        given = {name: t.to(device, dtype).requires_grad_(name in case.grads) for name, t in case.draw().items()}
        generator = torch.Generator().manual_seed(7)
        loss = sum((r * torch.randn(r.shape, generator=generator, dtype=torch.float64).to(r)).sum() for r in tuple_of(call(**given)))
        loss.backward()
        return {name: given[name].grad for name in case.grads}

    mine, theirs, exact = run(case.ours, "cuda", dtype), run(case.theirs, "cpu", dtype), run(case.theirs, "cpu", torch.float64)
    again = run(case.ours, "cuda", dtype)
    for name in case.grads:
        if dtype == torch.float32:  # inputs that were rounded have other exact gradients
            close(mine[name], theirs[name], exact[name], 4, f"gradient of {name} of {case.name}, {dtype}")
        expect(torch.equal(mine[name], again[name]), f"gradient of {name} of {case.name}, {dtype}: other bits the second time")


def captured():
    x, weight = torch.randn(64, 3072, device="cuda").bfloat16(), torch.randn(3072, device="cuda").bfloat16()
    ops.rms_norm(x, weight)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = ops.rms_norm(x, weight)
    x.copy_(torch.randn(64, 3072))
    graph.replay()
    expect(torch.equal(out, ops.rms_norm(x, weight)), "a captured rms_norm")


def two_streams():
    inputs = [torch.randn(2, 64, 9, 32, 32, device="cuda") for _ in range(2)]
    weight, bias = torch.randn(64, device="cuda"), torch.randn(64, device="cuda")
    expected = [ops.group_norm_silu(x, 8, weight, bias) for x in inputs]
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    for _ in range(50):
        results = []
        for stream, x in zip(streams, inputs):
            with torch.cuda.stream(stream):
                results.append(ops.group_norm_silu(x, 8, weight, bias))
        torch.cuda.synchronize()
        if not all(torch.equal(a, b) for a, b in zip(results, expected)):
            expect(False, "two streams at once: group_norm_silu")
            return
    expect(True, "two streams")


def compiled():
    x, weight = torch.randn(8, 96, device="cuda"), torch.randn(96, device="cuda")
    call = torch.compile(lambda x, weight: ops.rms_norm(x * 2, weight) + 1, fullgraph=True)
    expect(torch.allclose(call(x, weight), F.rms_norm(x * 2, (96,), weight, 1e-6) + 1, atol=1e-5), "torch.compile(fullgraph=True)")


def bad_inputs():
    x = torch.randn(4, 8, device="cuda")
    for what, call in (("a CPU tensor beside one of the GPU", lambda: ops.rms_norm(x, torch.randn(8))), ("a wrong length", lambda: ops.rms_norm(x, x[0, :7]))):
        try:
            call()
            expect(False, what)
        except (ValueError, TypeError):
            expect(True, what)


def device_us(call, calls=20):
    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    times = []
    for _ in range(15):
        start, stop = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / calls)
    return sorted(times)[len(times) // 2]


def host_us(call, calls=3000):
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls * 1e6)
        torch.cuda.synchronize()
    return best


def timings():
    def composed(x, weight):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight

    figures = {"device_us": {}, "host_us": {}}
    with torch.no_grad():
        for shape in ((1, 1024, 2048), (2, 1024, 2048), (4, 1024, 2048), (2, 4096, 3072), (4, 4096, 3072)):
            x, weight = torch.randn(shape, device="cuda").bfloat16(), torch.randn(shape[-1], device="cuda").bfloat16()
            row = {"ours": device_us(lambda: ops.rms_norm(x, weight)), "F.rms_norm": device_us(lambda: F.rms_norm(x, shape[-1:], weight, 1e-6)),
                   "composed": device_us(lambda: composed(x, weight))}
            figures["device_us"]["x".join(map(str, shape))] = row
            print(shape, " ".join(f"{name} {us:.1f} us" for name, us in row.items()), f"{row['composed'] / row['ours']:.2f}x composed", flush=True)
        x, weight, out = torch.randn(4, 64, device="cuda"), torch.randn(64, device="cuda"), torch.empty(4, 64, device="cuda")
        row = {"ours": host_us(lambda: ops.rms_norm(x, weight)), "ours, out=": host_us(lambda: ops.rms_norm(x, weight, out=out)),
               "F.rms_norm": host_us(lambda: F.rms_norm(x, (64,), weight, 1e-6)), "F.layer_norm": host_us(lambda: F.layer_norm(x, (64,), weight))}
    x.requires_grad_()
    row |= {"ours, grad recorded": host_us(lambda: ops.rms_norm(x, weight)), "F.rms_norm, grad recorded": host_us(lambda: F.rms_norm(x, (64,), weight, 1e-6))}
    figures["host_us"] = row
    print("host time of a call:", " ".join(f"{name} {us:.1f} us;" for name, us in row.items()))
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    for case in CASES:
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for how in STRIDES:
                try:
                    values(case, dtype, how)
                except Exception as error:
                    expect(False, f"{case.name}, {dtype}, {how}: {type(error).__name__}: {str(error).splitlines()[0]}")
        for dtype in (torch.float32, torch.bfloat16):
            if not case.grads:
                continue
            try:
                gradients(case, dtype)
            except Exception as error:
                expect(False, f"gradients of {case.name}, {dtype}: {type(error).__name__}: {str(error).splitlines()[0]}")
    for check in (captured, two_streams, compiled, bad_inputs):
        try:
            check()
        except Exception as error:
            expect(False, f"{check.__name__}: {type(error).__name__}: {error}")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {checks} checks, {len(failures)} failed", flush=True)
    figures = timings()
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "checks": checks, "failures": failures, **figures}, file, indent=1)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
