#!/usr/bin/env python3
"""Shows which kernels one call of the Python package runs on a GPU, and how long each takes, to find out why an op is slower than it should be.

    PYTHONPATH=BUILD/python bench/lab/op_kernels.py [--calls 20] EXPRESSION…

An expression names `ops`, `torch`, `F` (torch.nn.functional) and `t(dtype, *shape)`, a random tensor made once:

    op_kernels.py "ops.lora(t('bf16', 32760, 5120), t('bf16', 64, 5120), t('bf16', 5120, 64), 1.0)"
"""
import argparse
import re

import torch
import torch.nn.functional as F

from tachyscope import ops

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
made = {}


def t(dtype, *shape):
    if (dtype, shape) not in made:
        made[dtype, shape] = torch.randn(*shape, device="cuda").to(DTYPES[dtype])
    return made[dtype, shape]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].replace("\n", " "))
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("expression", nargs="+")
    options = parser.parse_args()
    for expression in options.expression:
        call = eval("lambda: " + expression, {"ops": ops, "torch": torch, "F": F, "t": t})  # safe: the caller's own expression
        with torch.no_grad():
            for _ in range(3):
                call()
            torch.cuda.synchronize()
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(options.calls):
                    call()
                torch.cuda.synchronize()
        spans = sorted((e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e.time_range.start)
        whole = (spans[-1].time_range.end - spans[0].time_range.start) / options.calls
        print(f"\n{expression}\n{whole:10.1f} us a call, from the first kernel's start to the last one's end")
        total = {}
        for span in spans:
            us, count = total.get(span.name, (0, 0))
            total[span.name] = us + span.time_range.elapsed_us(), count + 1
        for kernel, (us, count) in sorted(total.items(), key=lambda item: -item[1][0]):
            print(f"{us / options.calls:10.1f} us {count / options.calls:6.1f}  {re.sub(r'<.*', '', kernel)[:40]:40} {kernel[:110]}", flush=True)


if __name__ == "__main__":
    main()
