"""Compares two functions on the same inputs: whether they agree, and how long each takes."""

import time

import torch
from torch.utils import _pytree


def validate_kernel(old_fn, new_fn, inputs, rtol=1e-5, atol=1e-5):
    """Calls both functions on copies of `inputs` (a tensor, a tuple or list of arguments, or a dict of keywords) and
    returns {"passed", "max_diff", "mean_diff"}. They agree if |new − old| ≤ atol + rtol · |old| for every value. If
    the results differ in shape, dtype or number, or only one has a NaN or an infinity, the difference is infinite."""
    old, new = (_pytree.tree_leaves(_call(fn, inputs)) for fn in (old_fn, new_fn))
    if not old or len(old) != len(new):
        return {"passed": False, "max_diff": float("inf"), "mean_diff": float("inf")}
    passed, largest, total, count = True, 0.0, 0.0, 0
    for a, b in zip(old, new):
        if not _alike(a, b):
            return {"passed": False, "max_diff": float("inf"), "mean_diff": float("inf")}
        if a.numel() == 0:
            continue
        a, b = a.detach().double(), b.detach().double()
        same = (a == b) | (a.isnan() & b.isnan())
        off = torch.where(same, 0.0, (b - a).abs()).nan_to_num(nan=float("inf"), posinf=float("inf"))
        passed = passed and bool((same | (off <= atol + rtol * a.abs()) & a.isfinite()).all())
        largest, total, count = max(largest, off.max().item()), total + off.sum().item(), count + off.numel()
    return {"passed": passed, "max_diff": largest, "mean_diff": total / max(count, 1)}


def _alike(a, b):
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        raise TypeError(f"validate_kernel: expected results of tensors, got {type(a).__name__} and {type(b).__name__}")
    return a.shape == b.shape and a.dtype == b.dtype and a.device == b.device


def _call(fn, inputs):
    """Calls the function on copies, so that one that works in place does not change the other's inputs."""
    inputs = _pytree.tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, inputs)
    with torch.no_grad():
        if isinstance(inputs, dict):
            return fn(**inputs)
        return fn(*inputs) if isinstance(inputs, (tuple, list)) else fn(inputs)


def agree(pairs):
    """Says whether all (plain, ours, inputs) agree: to 1e-5 in float32, and in bfloat16 to two of its roundings."""
    for plain, ours, inputs in pairs:
        sixteen = any(isinstance(t, torch.Tensor) and t.dtype == torch.bfloat16 for t in inputs)
        bound = 2e-2 if sixteen else 1e-5
        if not validate_kernel(plain, ours, inputs, bound, bound)["passed"]:
            return False
    return True


def compare_times(cases, rounds=3):
    """Returns {name: {"plain_us", "ours_us", "speedup"}} for cases {name: (plain, ours, inputs)}: the least of some
    rounds, in which the two alternate. Waits for the GPU if the default device is one."""
    table, calls = {}, 100 if torch.get_default_device().type == "cuda" else 5
    with torch.no_grad():
        for name, (plain, ours, inputs) in cases.items():
            best = [float("inf"), float("inf")]
            for _ in range(rounds):
                for i, fn in enumerate((plain, ours)):
                    best[i] = min(best[i], _microseconds(fn, inputs, calls))
            table[name] = {"plain_us": best[0], "ours_us": best[1], "speedup": best[0] / best[1]}
    return table


def _microseconds(fn, inputs, calls):
    wait = torch.cuda.synchronize if torch.get_default_device().type == "cuda" else lambda: None
    fn(*inputs)
    wait()
    begin = time.perf_counter()
    for _ in range(calls):
        fn(*inputs)
    wait()
    return (time.perf_counter() - begin) / calls * 1e6
