"""Shared by the examples: their options, the pipelines (with --tiny small random ones), clocks and records."""

import argparse
import json
import platform
import time

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def count(text):
    """Reads a whole number of at least 1, for argparse."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text}")
    return int(text)


def options(description, video=True):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", choices=DTYPES, help="default: bfloat16 on a GPU, float32 on a CPU")
    parser.add_argument("--level", default="safe", choices=["safe", "aggressive", "extreme"], help="of tachyscope.optimize")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--json", metavar="FILE", help="writes what was measured")
    parser.add_argument("--tiny", action="store_true", help="a small random model and small sizes, to try the script")
    if video:
        parser.add_argument("--prompt", default="A cat walks on the grass, realistic")
        parser.add_argument("--batch-size", type=count, default=1, help="videos made at once; the noise of the n-th is that of --seed + n - 1")
        parser.add_argument("--num-frames", type=int, default=161)
        parser.add_argument("--height", type=int, default=512)
        parser.add_argument("--width", type=int, default=768)
        parser.add_argument("--steps", type=int, default=50)
        parser.add_argument("--guidance-scale", type=float, default=5.0)
        parser.add_argument("--warmup-iterations", type=int, default=2, help="runs of two steps before the measured one")
    return parser


def parse(parser):
    args = parser.parse_args()
    args.dtype = args.dtype or ("float32" if args.device == "cpu" else "bfloat16")
    if args.tiny and hasattr(args, "steps"):
        args.num_frames, args.height, args.width = 9, 32, 32
        args.steps, args.warmup_iterations = 2, 1
    if args.tiny:
        print("--tiny: sizes are so small that the times below tell nothing about a real model")
    if getattr(args, "steps", 2) < 2:
        parser.error("--steps: expected at least 2, since the first one is not measured")
    torch.manual_seed(args.seed)
    return args


def tiny_ltx():
    from diffusers import AutoencoderKLLTXVideo, FlowMatchEulerDiscreteScheduler, LTXPipeline, LTXVideoTransformer3DModel

    transformer = LTXVideoTransformer3DModel(in_channels=8, out_channels=8, num_attention_heads=2, attention_head_dim=16,
                                             cross_attention_dim=32, num_layers=2, caption_channels=16)
    one, off = (1, 1, 1, 1, 1), (False, False, False, False)
    vae = AutoencoderKLLTXVideo(latent_channels=8, block_out_channels=(8, 8, 8, 8), decoder_block_out_channels=(8, 8, 8, 8),
                                layers_per_block=one, decoder_layers_per_block=one, decoder_inject_noise=(*off, False),
                                upsample_residual=off, upsample_factor=(1, 1, 1, 1))
    return LTXPipeline(FlowMatchEulerDiscreteScheduler(), vae, None, None, transformer)


def tiny_wan():
    from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanPipeline, WanTransformer3DModel

    transformer = WanTransformer3DModel(num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16,
                                        text_dim=16, freq_dim=16, ffn_dim=32, num_layers=2, cross_attn_norm=True)
    vae = AutoencoderKLWan(base_dim=4, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1)
    return WanPipeline(None, None, vae, FlowMatchEulerDiscreteScheduler(shift=3.0), transformer)


def load(args, tiny):
    """Returns the pipeline of --model, or a tiny one of random values, and the arguments that stand for its prompt."""
    dtype = DTYPES[args.dtype]
    if not args.tiny:
        from diffusers import DiffusionPipeline

        pipe = DiffusionPipeline.from_pretrained(args.model, torch_dtype=dtype).to(args.device)
        return pipe, {"prompt": [args.prompt] * args.batch_size}
    pipe = tiny().to(args.device)
    if dtype != torch.float32:
        pipe.to(dtype)
    words = torch.randn(2, 1, 8, 16, dtype=dtype, device=args.device).repeat(1, args.batch_size, 1, 1)
    prompt = {"prompt_embeds": words[0], "negative_prompt_embeds": words[1]}
    if type(pipe).__name__.startswith("LTX"):
        mask = torch.ones(args.batch_size, 8, dtype=torch.bool, device=args.device)
        prompt |= {"prompt_attention_mask": mask, "negative_prompt_attention_mask": mask}
    return pipe, prompt


def synchronize(device):
    if str(device).startswith("cuda"):
        torch.cuda.synchronize(device)


def generate(pipe, prompt, args, output_type="latent", steps=None):
    """Returns the videos, or their latents, and the seconds per denoising step (over all but the first)."""
    ends = []

    def clock(pipe, step, timestep, tensors):
        synchronize(args.device)
        ends.append(time.perf_counter())
        return tensors

    pipe.set_progress_bar_config(disable=True)
    noise = [torch.Generator("cpu").manual_seed(args.seed + i) for i in range(args.batch_size)]
    videos = pipe(**prompt, num_frames=args.num_frames, height=args.height, width=args.width, output_type=output_type,
                  num_inference_steps=steps or args.steps, guidance_scale=args.guidance_scale, callback_on_step_end=clock,
                  generator=noise).frames
    if len(videos) != args.batch_size:
        raise RuntimeError(f"--batch-size {args.batch_size}: the pipeline gave {len(videos)} videos")
    return videos, (ends[-1] - ends[0]) / (len(ends) - 1)


def measure(name, pipe, prompt, args, records):
    """Warms up, runs once, prints and keeps the speed; returns the latents."""
    for _ in range(args.warmup_iterations):
        generate(pipe, prompt, args, steps=2)
    latents, seconds = generate(pipe, prompt, args)
    print(f"{name}: {seconds * 1000:.1f} ms per step, {1 / seconds:.3f} it/s{each(seconds, args)}")
    records.append({"name": name, **pace(seconds, args)})
    return latents


def each(seconds, args):
    """Returns a text with the share of one video in a step of a batch; empty for a batch of one."""
    return f", {seconds / args.batch_size * 1000:.1f} ms per step for each of {args.batch_size} videos" if args.batch_size > 1 else ""


def pace(seconds, args):
    """Returns the numbers of a step of the whole batch, for a record."""
    return {"seconds_per_step": seconds, "iterations_per_second": 1 / seconds, "seconds_per_step_and_video": seconds / args.batch_size}


def difference(one, other):
    """Returns the relative error of the second, as a root of mean squares."""
    one, other = one.double(), other.double()
    return ((one - other).square().mean().sqrt() / one.square().mean().sqrt()).item()


def device_name(device):
    if str(device).startswith("cuda"):
        return torch.cuda.get_device_name(device)
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def write(args, records, **more):
    """Writes --json: the device, the precision, the sizes and the measurements."""
    if args.json:
        facts = {key: value for key, value in vars(args).items() if key not in ("json", "prompt")}
        facts |= {"device_name": device_name(args.device), "torch": torch.__version__, **more, "runs": records}
        with open(args.json, "w") as file:
            json.dump(facts, file, indent=1, default=str)
