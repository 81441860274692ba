"""The reference's side of bench/peers: eager diffusers on torch. It reads one job per line from stdin and answers each with a line of JSON.

    {"work": "generate", "model": DIR, "prompt": TEXT, "steps": 20}          → total, step, decode (seconds)
    {"work": "decode", "model": DIR, "frames": 17, "size": 256, "dtype": "f32"}
    {"work": "step", "model": DIR, "frames": 17, "size": 256, "dtype": "bf16"}

`--whole` instead runs one generation and ends: the driver times the whole process, import and load included.
"""

import argparse
import json
import statistics
import sys
import time

import numpy as np
import torch

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
loaded = {}


def part(cls, model, folder, dtype):
    key = (folder, str(model), dtype)
    if key not in loaded:
        for old in [k for k in loaded if k[0] == folder]:
            del loaded[old]
        loaded[key] = cls.from_pretrained(model, subfolder=folder, torch_dtype=DTYPES[dtype]).eval()
    return loaded[key]


def pipeline(model):
    from diffusers import WanPipeline
    if ("pipeline", model) not in loaded:
        pipe = WanPipeline.from_pretrained(model, torch_dtype=torch.float32)
        pipe.set_progress_bar_config(disable=True)
        loaded["pipeline", model] = pipe
    return loaded["pipeline", model]


def generate(job):
    pipe = pipeline(job["model"])
    stamps = []
    settings = json.load(open(f"{job['model']}/generation_config.json"))
    start = time.perf_counter()

    def stamp(pipe, step, timestep, kwargs):
        stamps.append(time.perf_counter())
        return kwargs

    frames = pipe(job["prompt"], negative_prompt=settings["negative_prompt"], height=settings["height"], width=settings["width"],
                  num_frames=settings["num_frames"], num_inference_steps=job["steps"], guidance_scale=settings["guidance_scale"],
                  generator=torch.Generator().manual_seed(0), callback_on_step_end=stamp, output_type="np").frames
    (np.asarray(frames[0]) * 255).round().astype(np.uint8)
    end = time.perf_counter()
    return {"total": end - start, "step": statistics.median(np.diff(stamps)), "decode": end - stamps[-1]}


def decode(job):
    from diffusers import AutoencoderKLWan
    vae = part(AutoencoderKLWan, job["model"], "vae", job["dtype"])
    z = torch.randn(1, vae.config.z_dim, (job["frames"] - 1) // 4 + 1, job["size"] // 8, job["size"] // 8,
                    generator=torch.Generator().manual_seed(0)).to(DTYPES[job["dtype"]])
    start = time.perf_counter()
    vae.decode(z)
    return {"seconds": time.perf_counter() - start}


def step(job):
    from diffusers import WanTransformer3DModel
    dit = part(WanTransformer3DModel, job["model"], "transformer", job["dtype"])
    make = torch.Generator().manual_seed(0)
    dtype = DTYPES[job["dtype"]]
    x = torch.randn(1, 16, (job["frames"] - 1) // 4 + 1, job["size"] // 8, job["size"] // 8, generator=make).to(dtype)
    text = torch.randn(1, 512, dit.config.text_dim, generator=make).to(dtype) * 0.2
    text[:, 64:] = 0
    start = time.perf_counter()
    dit(x, torch.tensor([937]), text)
    return {"seconds": time.perf_counter() - start}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--whole", default=None, help="one job, as JSON, in a process of its own")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    if args.whole:
        print(json.dumps(generate(json.loads(args.whole))), flush=True)
        return
    for line in sys.stdin:
        job = json.loads(line)
        if job["work"] == "versions":
            import diffusers
            print(json.dumps({"torch": torch.__version__, "diffusers": diffusers.__version__}), flush=True)
            continue
        if job["work"] == "unload":
            loaded.clear()
            print("{}", flush=True)
            continue
        print(json.dumps({"generate": generate, "decode": decode, "step": step}[job["work"]](job)), flush=True)


if __name__ == "__main__":
    main()
