#!/usr/bin/env python3
"""Writes the sigmas and timesteps of ComfyUI's scheduler "simple" to comfyui.json beside this file.

    python tests/golden/samplers/make_comfyui.py COMFYUI        (a checkout of 0.3.64)

Versions: torch 2.11.0 (CPU, float32). The functions are ComfyUI's own: ModelSamplingDiscreteFlow, simple_scheduler, and KSampler.calculate_sigmas,
which drops a sigma for uni_pc."""
import json
import pathlib
import sys
import types


def main():
    sys.path.insert(0, sys.argv[1])
    sys.argv = [sys.argv[0], "--cpu"]
    import comfy.options
    comfy.options.enable_args_parsing()
    import comfy.model_sampling
    import comfy.samplers
    cases = []
    for shift in (1.0, 3.0, 5.0, 8.0, 5.000000000000001):
        sampling = comfy.model_sampling.ModelSamplingDiscreteFlow()
        sampling.set_parameters(shift=shift)
        model = types.SimpleNamespace(get_model_object=lambda name: sampling)
        for name, kind in (("euler", "euler"), ("uni_pc", "unipc"), ("dpmpp_2m", "dpm++"), ("lcm", "lcm")):
            for steps in (1, 2, 4, 6, 7, 20, 30, 50):
                sampler = types.SimpleNamespace(model=model, scheduler="simple", sampler=name,
                                                DISCARD_PENULTIMATE_SIGMA_SAMPLERS=comfy.samplers.KSampler.DISCARD_PENULTIMATE_SIGMA_SAMPLERS)
                sigmas = comfy.samplers.KSampler.calculate_sigmas(sampler, steps)
                cases.append({"kind": kind, "shift": shift, "steps": steps, "sigmas": [float(s) for s in sigmas],
                              "timesteps": [float(t) for t in sampling.timestep(sigmas[:-1])]})
    path = pathlib.Path(__file__).with_name("comfyui.json")
    path.write_text(json.dumps({"cases": cases}, separators=(",", ":")).replace('{"kind"', '\n{"kind"') + "\n")


if __name__ == "__main__":
    main()
