"""Makes golden values of the ops: one draw of each case of op_cases.py.

Made with Python 3.11, torch 2.11.0, diffusers 0.42.1, transformers 5.23.0, seed 20261121:
    python tests/golden/ops/make_ops.py
writes ops.json beside this file: [{"op", "options", "inputs": {name: {"dtype", "shape", "data"}}, "outputs": the same with
"bound"}]. Inputs are exact; outputs of float32 ops are rounded to float32 once."""

import json
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import op_cases  # noqa: E402

torch.set_num_threads(1)


def stored(t, wide):
    t = t.detach()
    if not t.is_floating_point():
        return {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "data": t.flatten().tolist()}
    if not wide:
        t = t.float()
    real = np.float64 if wide else np.float32
    data = [float(np.format_float_scientific(real(v), unique=True)) for v in t.flatten().tolist()]
    return {"dtype": "float64" if wide else "float32", "shape": list(t.shape),
            "data": [v if np.isfinite(v) else str(v) for v in data]}


cases, seen = [], {}
for draw in range(3):
    for case in op_cases.all_cases(20261121 + draw, largest=7):
        key = json.dumps([case["op"], sorted(case["inputs"]), {k: v for k, v in case["options"].items() if isinstance(v, (str, bool))},
                          [min(case["options"].get(k, 0), 2) for k in ("block_rows", "block_columns")],
                          [case["options"].get(k, 0) > 0 for k in ("x_keys", "y_keys")]])
        if key in seen:
            continue
        seen[key] = True
        wide = any(t.dtype == torch.float64 for t in case["inputs"].values())
        cases.append({"op": case["op"], "options": case["options"],
                      "inputs": {k: stored(t, wide) for k, t in case["inputs"].items()},
                      "outputs": {k: dict(stored(t, wide), bound=bound) for k, (t, bound) in case["outputs"].items()}})

path = pathlib.Path(__file__).with_name("ops.json")
path.write_text("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")
print(path, path.stat().st_size, len(cases))
