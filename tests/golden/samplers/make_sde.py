#!/usr/bin/env python3
"""Writes golden schedules and trajectories of the stochastic DPM-Solver++ and of ComfyUI-WanVideoWrapper's grid to sde.json beside this file.

Versions: diffusers 0.42.1, torch 2.11.0 (CPU, float32), numpy. No random numbers: the noise is make.py's, and so is the model.
  grid "diffusers"  DPMSolverMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=s,
                    num_train_timesteps=1000, algorithm_type="sde-dpmsolver++", solver_order=2, solver_type="midpoint")
  grid "wrapper"    the same solver, or that of "dpmsolver++", or UniPCMultistepScheduler as in make.py, over the wrapper's list, which
                    is restated here: its schedulers are made with the shift, so that their table of sigmas, float32, begins at
                    0.999 shifted; numpy.linspace from there to 0, n + 1 values without the last, is shifted once more, in float64;
                    the model gets 1000 sigma, cut to whole numbers
"""
import json
import pathlib

import diffusers
import numpy as np
import torch
from make import START, noise, scheduler, short


def solver(kind, shift):
    if kind != "dpm++_sde":
        return scheduler(kind, shift)
    return diffusers.DPMSolverMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift, num_train_timesteps=1000,
        algorithm_type="sde-dpmsolver++", solver_order=2, solver_type="midpoint")


def wrapper_grid(sched, steps, shift):
    table = torch.from_numpy(1.0 - np.linspace(1, 1 / 1000, 1000)[::-1].copy()).to(torch.float32)
    table = shift * table / (1 + (shift - 1) * table)
    sigmas = np.linspace(table[0].item(), table[-1].item(), steps + 1)[:-1]
    sigmas = shift * sigmas / (1 + (shift - 1) * sigmas)
    sched.timesteps = torch.from_numpy(sigmas * 1000).to(torch.int64)
    sched.sigmas = torch.from_numpy(np.concatenate([sigmas, [0]]).astype(np.float32))


def run(kind, grid, steps, shift):
    sched = solver(kind, shift)
    sched.set_timesteps(steps)
    if grid == "wrapper":
        wrapper_grid(sched, steps, shift)
    sched.set_begin_index(0)
    x = torch.tensor(START, dtype=torch.float32).reshape(1, 1, 2, 4)
    first, peak = [], 0.0
    for i, t in enumerate(sched.timesteps):
        v = x * 0.3 + (0.0005 * float(t) - 0.2) + x * x * 0.05
        more = {"variance_noise": noise(i).reshape(x.shape)} if kind == "dpm++_sde" else {}
        x = sched.step(v, t, x, return_dict=False, **more)[0]
        first.append(short(x.flatten()[0]))
        peak = max(peak, float(x.abs().max()))
    return {"kind": kind, "grid": grid, "steps": steps, "shift": shift, "sigmas": [short(s) for s in sched.sigmas],
            "timesteps": [short(t) for t in sched.timesteps], "x0": first, "final": [short(v) for v in x.flatten()], "peak": short(peak)}


def main():
    torch.set_num_threads(1)
    cases = [run("dpm++_sde", "diffusers", steps, shift) for steps in (1, 2, 3, 4, 8, 20) for shift in (1.0, 5.0, 12.0)]
    cases += [run(kind, "wrapper", steps, shift) for kind in ("dpm++_sde", "dpm++", "unipc") for steps in (1, 2, 3, 4, 6, 8, 20)
              for shift in (1.0, 2.0, 5.0, 11.0)]
    out = {"diffusers": diffusers.__version__, "torch": torch.__version__, "cases": cases}
    path = pathlib.Path(__file__).with_name("sde.json")
    path.write_text(json.dumps(out, separators=(",", ":")).replace('{"kind"', '\n{"kind"') + "\n")


if __name__ == "__main__":
    main()
