#!/usr/bin/env python3
"""Times a pass of diffusers' transformer of Wan 2.1 in bf16 on one GPU, and on several with its ContextParallelConfig (Ulysses) under torchrun. Weights are
random and made on the GPU; nothing is read.

    python3 bench/peers/context_parallel.py [--model 14B] [--size 1280x720] [--frames 81] [--passes 2]
    torchrun --nproc-per-node 2 bench/peers/context_parallel.py …

It prints the seconds of each pass but the first, from the first rank, where a pass ends when its results are there."""

import argparse
import os
import time

import torch
from diffusers import ContextParallelConfig, WanTransformer3DModel

SHAPES = {"1.3B": dict(num_attention_heads=12, ffn_dim=8960, num_layers=30), "14B": dict(num_attention_heads=40, ffn_dim=13824, num_layers=40)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SHAPES, default="14B")
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--frames", type=int, default=81)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--backend", default="_native_cudnn", help="diffusers' name of the attention")
    options = parser.parse_args()
    ranks, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    if ranks > 1:
        torch.distributed.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    with torch.device("meta"):
        model = WanTransformer3DModel(attention_head_dim=128, **SHAPES[options.model])
    model = model.to(torch.bfloat16).to_empty(device=device).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.02)
        model.rope = type(model.rope)(128, (1, 2, 2), 1024).to(device)  # its tables are no parameters
    model.set_attention_backend(options.backend)
    if ranks > 1:
        model.enable_parallelism(config=ContextParallelConfig(ulysses_degree=ranks))
    width, height = map(int, options.size.split("x"))
    latents = torch.randn(1, 16, (options.frames - 1) // 4 + 1, height // 8, width // 8, device=device, dtype=torch.bfloat16)
    text = torch.randn(1, 512, 4096, device=device, dtype=torch.bfloat16)
    times = []
    for _ in range(options.passes + 1):
        if ranks > 1:
            torch.distributed.barrier()
        torch.cuda.synchronize()
        begin = time.monotonic()
        with torch.no_grad():
            out = model(latents, timestep=torch.tensor([500.0], device=device), encoder_hidden_states=text, return_dict=False)[0]
        torch.cuda.synchronize()
        times.append(time.monotonic() - begin)
    if rank == 0:
        print(f"diffusers, {options.model} {options.size}, {ranks} GPUs: {' '.join(f'{t:.3f}' for t in times[1:])} s a pass, mean of the result {out.float().mean():.4f}")
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
