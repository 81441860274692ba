#!/usr/bin/env python3
"""Writes golden timesteps and trajectories of MultiTalk's and InfiniteTalk's sampler to multitalk.json beside this file.

Versions: torch 2.11.0 (CPU, float32), numpy. No random numbers. The sampler restated here has n timesteps from 1000 to 1 by numpy.linspace in
float32. Each u = t/1000 is shifted once to s u / (1 + (s - 1) u) and multiplied by 1000 again; a 0 follows the last. x moves by -v (t - t')/1000,
where t' is the next timestep. The model is that of make.py."""
import json
import pathlib

import numpy as np
import torch
from make import START, short


def run(steps, shift):
    times = [torch.tensor([t]) for t in np.linspace(1000, 1, steps, dtype=np.float32)] + [torch.tensor([0.0])]
    times = [shift * (t / 1000) / (1 + (shift - 1) * (t / 1000)) * 1000 for t in times]
    x, first = torch.tensor(START), []
    for t, after in zip(times, times[1:]):
        v = x * 0.3 + (0.0005 * float(t) - 0.2) + x * x * 0.05
        x = x + (-v) * ((t - after) / 1000)
        first.append(short(x[0]))
    return {"steps": steps, "shift": shift, "timesteps": [short(t) for t in times[:-1]], "x0": first, "final": [short(v) for v in x]}


def main():
    cases = [run(steps, shift) for steps in (1, 2, 3, 4, 6, 8, 40) for shift in (1.0, 2.0, 5.0, 7.0, 11.0)]
    out = {"torch": torch.__version__, "numpy": np.__version__, "cases": cases}
    path = pathlib.Path(__file__).with_name("multitalk.json")
    path.write_text(json.dumps(out, separators=(",", ":")).replace('{"steps"', '\n{"steps"') + "\n")


if __name__ == "__main__":
    main()
