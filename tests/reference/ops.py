"""Compares the ops with PyTorch, diffusers and transformers on fresh random inputs, through a helper binary of the tests (op_call). Forward ops run
in every implementation; backward definitions run in float64 and float32 and are compared with autograd."""

import json
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden" / "ops"))
import op_cases  # noqa: E402


def compare(ctx, draws):
    helper = pathlib.Path(ctx.binary).parent / "tests/unit/ops/op_call"
    if not helper.exists():
        raise RuntimeError(f"{helper} is not built: cmake --build … --target op_call")
    folder = ctx.folder / "ops"
    folder.mkdir()
    calls, cases = [], []
    for _ in range(draws):
        for case in op_cases.all_cases(ctx.rng.randrange(2**31)):
            fast = {"rope_table": [""], "gemm": ["f32", "ref"], "scaled_gemm": ["", "ref"], "listed_attention": [""], "coarse_attention": ["ref"],
                    "linear_attention": ["ref"]}.get(case["op"], ["cpu", "ref"])
            for impl in ["ref"] if case["op"].endswith("_backward") else fast:
                save_file({k: v.detach().contiguous() for k, v in case["inputs"].items()} or {"none": torch.zeros(1)},
                          folder / f"{len(calls)}.safetensors")
                calls.append({"op": case["op"], "impl": impl, "options": case["options"]})
                cases.append(case)
    (folder / "calls.json").write_text(json.dumps(calls))
    done = subprocess.run([helper, folder], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    worst, misses = {}, []
    for i, (call, case) in enumerate(zip(calls, cases)):
        got = load_file(folder / f"{i}.out.safetensors")
        for name, (expected, bound) in case["outputs"].items():
            what = f"{call['op']} {call['impl']} {name} {str(got[name].dtype).removeprefix('torch.')}"
            share = miss(got[name], expected, bound)
            worst[what] = max(worst.get(what, 0), share)
            if share > 1:
                misses.append(f"{what} {list(expected.shape)} {call['options']}")
    for what, share in worst.items():
        ctx.report(f"op {what}: share of its bound", share, 1.0)
    for line in misses[:20]:
        print("     missed:", line)


def miss(y, expected, bound):
    """Returns the error as a share of the bound. It is infinite if NaN or infinities differ, or bytes that should be equal."""
    if y.shape != expected.shape:
        return float("inf")
    if bound == 0:
        return 0.0 if torch.equal(y.nan_to_num(nan=12345.0), expected.nan_to_num(nan=12345.0)) else float("inf")
    finite = expected.isfinite()
    if not torch.equal(y[~finite].double(), expected[~finite].double()):
        return float("inf")
    if not torch.isfinite(y[finite]).all():
        return float("inf")
    return op_cases.error(y[finite], expected[finite]) / bound if finite.any() else 0.0
