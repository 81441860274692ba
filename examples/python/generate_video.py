"""Makes videos from a prompt with a Wan or LTX-Video pipeline of diffusers and Tachyscope's kernels.

    python generate_video.py --prompt "A red fox in the snow" --output fox.mp4
    python generate_video.py --batch-size 3 --output fox.mp4    # fox-1.mp4 to fox-3.mp4, made at once
    python generate_video.py --tiny --output tiny.gif       # a small random model: noise, in seconds on a CPU

.mp4 needs the packages of diffusers' export_to_video (imageio-ffmpeg or OpenCV); .gif needs Pillow; .npy needs nothing.
"""

import importlib.util
import pathlib
import time

import numpy
import torch

import common
import tachyscope


def arguments():
    parser = common.options(__doc__.splitlines()[0])
    parser.add_argument("--model", default="Wan-AI/Wan2.1-T2V-1.3B-Diffusers", help="a folder or a name on the hub")
    parser.add_argument("--output", type=pathlib.Path, default="video.mp4", help=".mp4, .gif or .npy")
    parser.add_argument("--fps", type=int, default=16)
    parser.add_argument("--negative-prompt", default="")
    parser.add_argument("--no-optimized-kernels", dest="kernels", action="store_false", help="the model as it is")
    parser.add_argument("--compile", action="store_true", help="torch.compile of the transformer")
    parser.add_argument("--offload", action="store_true", help="keeps the parts that are not in use in the CPU's memory")
    parser.add_argument("--compare", action="store_true", help="runs without kernels first and shows both times")
    args = common.parse(parser)
    if args.output.suffix not in (".mp4", ".gif", ".npy"):
        parser.error(f"--output: expected .mp4, .gif or .npy, got {args.output}")
    if args.output.suffix == ".mp4" and not any(importlib.util.find_spec(name) for name in ("imageio_ffmpeg", "cv2")):
        parser.error("--output: .mp4 needs imageio-ffmpeg with imageio, or OpenCV; .gif and .npy do not")
    if args.compare and not args.kernels:
        parser.error("--compare needs the kernels")
    return args


def save(frames, path, fps):
    """Saves frames [time, height, width, 3] with values from 0 to 1."""
    if path.suffix == ".npy":
        numpy.save(path, frames)
        return
    if path.suffix == ".mp4":
        from diffusers.utils import export_to_video

        export_to_video(list(frames), str(path), fps=fps)
        return
    from PIL import Image

    pictures = [Image.fromarray((frame.clip(0, 1) * 255).round().astype("uint8")) for frame in frames]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=1000 // fps, loop=0)


def paths(args):
    """Returns one file name, or one with a number for each video."""
    if args.batch_size == 1:
        return [args.output]
    return [args.output.with_stem(f"{args.output.stem}-{i + 1}") for i in range(args.batch_size)]


def run(name, pipe, prompt, args, records):
    """Returns [batch, frames, height, width, 3] with values from 0 to 1."""
    start = time.perf_counter()
    videos, step = common.generate(pipe, prompt, args, output_type="np")
    whole = time.perf_counter() - start
    made = "the video" if args.batch_size == 1 else f"{args.batch_size} videos"
    print(f"{name}: {whole:.2f} s for {made}, {1 / step:.3f} it/s{common.each(step, args)}")
    records.append({"name": name, "seconds": whole, **common.pace(step, args)})
    return videos


def main():
    args = arguments()
    pipe, prompt = common.load(args, common.tiny_wan)
    if not args.tiny:
        prompt["negative_prompt"] = args.negative_prompt
    if args.offload and args.device != "cpu":
        pipe.enable_model_cpu_offload(device=args.device)

    records, before = [], None
    if args.compare:
        common.generate(pipe, prompt, args, steps=2)
        before = run("plain", pipe, prompt, args, records)
    replaced = 0
    if args.kernels:
        replaced = len(tachyscope.optimize(pipe, args.level).replaced)
    if args.compile:
        pipe.transformer.compile()
    for _ in range(args.warmup_iterations if args.compare or args.compile else 0):
        common.generate(pipe, prompt, args, steps=2)
    videos = run("with kernels" if args.kernels else "plain", pipe, prompt, args, records)

    more = {}
    if before is not None:
        more["difference"] = common.difference(torch.from_numpy(before), torch.from_numpy(videos))
        print(f"the frames differ by {more['difference']:.2e}")
    for frames, path in zip(videos, paths(args), strict=True):
        save(frames, path, args.fps)
        print(f"{path}: {len(frames)} frames of {frames.shape[2]}x{frames.shape[1]}")
    common.write(args, records, replaced=replaced, **more)


if __name__ == "__main__":
    main()
