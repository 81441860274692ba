#!/usr/bin/env python3
"""Writes golden schedules and trajectories of diffusers' flow schedulers to diffusers.json beside this file.

Versions: diffusers 0.42.1, torch 2.11.0 (CPU, float32), numpy. No random numbers.
Classes and constructor arguments (everything else is the class's default):
  unipc  UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=s,
         num_train_timesteps=1000, solver_order=2, solver_type="bh2", lower_order_final=True)
  euler  FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=s)
  dpm++  DPMSolverMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=s,
         num_train_timesteps=1000, algorithm_type="dpmsolver++", solver_order=2, solver_type="midpoint")
  lcm    FlowMatchLCMScheduler(num_train_timesteps=1000, shift=s), its noise replaced by `noise` below

Start: x[k] = (1, -0.5, 0.25, 2, -1.5, 0.75, 0, -2). The model: v = x * 0.3 + (0.0005 t - 0.2) + x * x * 0.05, so
that the trajectory depends on t as the model sees it and is not linear. `x0`: element 0 after each step, `final`:
all elements at the end, `peak`: the largest magnitude on the way.
"""
import json
import pathlib

import diffusers
import torch
from diffusers.schedulers import scheduling_flow_match_lcm

START = (1.0, -0.5, 0.25, 2.0, -1.5, 0.75, 0.0, -2.0)


def noise(step):
    return torch.tensor([((7 * k + 3 * step) % 11 - 5) / 4 for k in range(8)], dtype=torch.float32)


def scheduler(kind, shift):
    flow = dict(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift, num_train_timesteps=1000)
    if kind == "unipc":
        return diffusers.UniPCMultistepScheduler(solver_order=2, solver_type="bh2", lower_order_final=True, **flow)
    if kind == "dpm++":
        return diffusers.DPMSolverMultistepScheduler(
            algorithm_type="dpmsolver++", solver_order=2, solver_type="midpoint", **flow)
    if kind == "euler":
        return diffusers.FlowMatchEulerDiscreteScheduler(num_train_timesteps=1000, shift=shift)
    return diffusers.FlowMatchLCMScheduler(num_train_timesteps=1000, shift=shift)


def short(value):
    return float(f"{float(value):.9g}")


def run(kind, steps, shift):
    sched = scheduler(kind, shift)
    sched.set_timesteps(steps)
    x = torch.tensor(START, dtype=torch.float32).reshape(1, 1, 2, 4)
    first, peak = [], 0.0
    for i, t in enumerate(sched.timesteps):
        scheduling_flow_match_lcm.randn_tensor = lambda shape, **_: noise(i).reshape(shape)
        v = x * 0.3 + (0.0005 * float(t) - 0.2) + x * x * 0.05
        x = sched.step(v, t, x, return_dict=False)[0]
        first.append(short(x.flatten()[0]))
        peak = max(peak, float(x.abs().max()))
    return {
        "kind": kind, "steps": steps, "shift": shift,
        "sigmas": [short(s) for s in sched.sigmas], "timesteps": [short(t) for t in sched.timesteps],
        "x0": first, "final": [short(v) for v in x.flatten()], "peak": short(peak),
    }


def main():
    torch.set_num_threads(1)
    cases = [run(kind, steps, shift)
             for kind in ("unipc", "euler", "dpm++", "lcm")
             for steps in (1, 2, 3, 4, 5, 8, 20, 50)
             for shift in (1.0, 3.0, 5.0, 8.0, 12.0, 16.0)]
    out = {"diffusers": diffusers.__version__, "torch": torch.__version__, "cases": cases}
    path = pathlib.Path(__file__).with_name("diffusers.json")
    path.write_text(json.dumps(out, separators=(",", ":")).replace('{"kind"', '\n{"kind"') + "\n")


if __name__ == "__main__":
    main()
