"""Makes encoded.safetensors beside itself: float32 values [36, 64], and other libraries' encodings of them: blocks of GGUF by the gguf package, 8-bit
values with scales by torch.

    python make_encoded.py     (gguf 0.19.0, numpy 2, torch 2.11.0, safetensors; seed 13)

The rows are random ones of sizes from 1e-7 to 1e4, some of which have a scale that is subnormal in float16; a row of zeros; one of equal values; ties
in rounding; the largest magnitude twice with both signs; and a row with one outlier."""
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from safetensors.torch import save_file

rng = np.random.default_rng(13)
rows = [rng.standard_normal(64) * 10.0 ** (i % 12 - 7) for i in range(28)]
rows += [np.zeros(64), np.full(64, -0.37), np.full(64, 2.5), np.arange(64) - 31.5, np.arange(64) * 0.5 - 8]
rows += [np.where(np.arange(64) % 2, 3.0, -3.0), np.where(np.arange(64) % 2, -3.0, 3.0), np.r_[rng.standard_normal(63), 900]]
values = np.stack(rows).astype(np.float32)

out = {"values": torch.from_numpy(values)}
for kind in (T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.BF16, T.F16):
    out[kind.name.lower()] = torch.from_numpy(gguf.quants.quantize(values, kind).view(np.uint8).copy())
w = torch.from_numpy(values)
out["e4m3_scale"] = (w.abs().max() / 448).reshape(1)
out["e4m3"] = (w / out["e4m3_scale"]).clamp(-448, 448).to(torch.float8_e4m3fn)
out["int8_scale"] = w.abs().amax(1, keepdim=True).clamp(min=1e-5) / 127
out["int8"] = torch.clamp(torch.round(w / out["int8_scale"]), -128, 127).to(torch.int8)
save_file(out, Path(__file__).parent / "encoded.safetensors")
