"""Trains a small video VAE of Wan's kind twice, with our kernels and with PyTorch's, from the same weights on the same
clips. The two loss curves coincide, and the times of both are shown.

    python train_vae_example.py                          # 200 steps, base 16, clips of 17 frames of 64x64
    python train_vae_example.py --use-amp --compile
    python train_vae_example.py --yardstick          # a third time: PyTorch's kernels, the weights moved by float32's own rounding
    python train_vae_example.py --tiny

The loss is the mean absolute error of the reconstruction plus a little of the posterior's KL divergence. The clips are
discs that move over a plain background, drawn as they are needed.
"""

import time

import torch

import common
import tachyscope


def clips(count, frames, size, generator, device):
    """Returns [count, 3, frames, size, size] in −1..1: two discs, each of one colour, at a steady speed."""
    draw = lambda *shape: torch.rand(shape, generator=generator).to(device)  # noqa: E731
    ground, ink = draw(count, 1, 3, 1, 1, 1) * 2 - 1, draw(count, 2, 3, 1, 1, 1) * 2 - 1
    start, speed, radius = draw(count, 2, 2) * size, (draw(count, 2, 2) - 0.5) * size / 8, (0.1 + 0.2 * draw(count, 2)) * size
    moments = torch.arange(frames, device=device)
    middle = (start[..., None] + speed[..., None] * moments) % size                     # [count, disc, axis, frame]
    place = torch.arange(size, device=device) + 0.5
    rows, columns = ((place[:, None] - middle[:, :, axis, None]).square() for axis in (0, 1))  # [count, disc, place, frame]
    inside = (radius[..., None, None, None] - (rows[:, :, :, None] + columns[:, :, None]).sqrt()).clamp(-1, 1) / 2 + 0.5
    inside = inside.permute(0, 1, 4, 2, 3)[:, :, None]                                  # [count, disc, 1, frame, row, column]
    picture = ground[:, 0]
    for disc in range(2):
        picture = picture + inside[:, disc] * (ink[:, disc] - picture)
    return picture


def train(name, vae, args, records):
    """Makes steps of AdamW; returns the loss of each, and the seconds per step after the first ones."""
    generator = torch.Generator("cpu").manual_seed(args.seed)
    optimizer = torch.optim.AdamW(vae.parameters(), lr=args.learning_rate)

    def loss_of(x, noise):
        reconstruction, kl = vae(x, return_loss=True, use_amp=args.use_amp, noise=noise)
        return (reconstruction - x).abs().mean() + args.kl_weight * kl

    compute = torch.compile(loss_of, backend=args.compile_backend) if args.compile else loss_of
    losses, ends = [], []
    for step in range(args.steps):
        x = clips(args.batch_size, args.num_frames, args.size, generator, args.device)
        latents = (args.batch_size, vae.z_channels, (args.num_frames + 3) // 4, args.size // 8, args.size // 8)
        noise = torch.randn(latents, generator=generator).to(args.device)
        optimizer.zero_grad()
        loss = compute(x, noise)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        common.synchronize(args.device)
        ends.append(time.perf_counter())
        if step % 20 == 0 or step + 1 == args.steps:
            print(f"{name}: step {step + 1} of {args.steps}, loss {losses[-1].item():.4f}", flush=True)
    first = min(5, (args.steps - 1) // 2)
    seconds = (ends[-1] - ends[first]) / (args.steps - 1 - first)
    print(f"{name}: {seconds * 1000:.1f} ms per step, {1 / seconds:.3f} it/s")
    records.append({"name": name, "seconds_per_step": seconds, "iterations_per_second": 1 / seconds,
                    "losses": torch.stack(losses).tolist()})
    return torch.stack(losses)


def main():
    parser = common.options(__doc__.splitlines()[0], video=False)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=common.count, default=4)
    parser.add_argument("--num-frames", type=int, default=17)
    parser.add_argument("--size", type=int, default=64, help="rows and columns")
    parser.add_argument("--base", type=int, default=16, help="channels of the first block; Wan 2.1 has 96")
    parser.add_argument("--z-channels", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--kl-weight", type=float, default=1e-4)
    parser.add_argument("--use-amp", action="store_true", help="convolutions and attention in bfloat16")
    parser.add_argument("--no-channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--compile-backend", default="inductor")
    parser.add_argument("--yardstick", action="store_true",
                        help="also how far PyTorch's own curves are apart where the weights begin a rounding of float32 away")
    parser.add_argument("--output", metavar="FILE", help="writes the trained weights (a state_dict)")
    args = common.parse(parser)
    if args.tiny:
        args.num_frames, args.size, args.base, args.batch_size = 5, 16, 4, 1
        args.steps = 6

    # Convolutions in TF32, or with sums in a different order each time, would make the two curves diverge.
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
    records, curves = [], {}
    ways = [("PyTorch's kernels", False), ("our kernels", True)]
    if args.yardstick:
        ways.insert(0, ("PyTorch's kernels, weights moved by a rounding", False))
    for name, kernels in ways:
        torch.manual_seed(args.seed)
        vae = tachyscope.vae.create_wan2_1_vae(args.z_channels, not args.no_channels_last, base=args.base, kernels=kernels)
        if "moved" in name:
            with torch.no_grad():
                for parameter in vae.parameters():
                    parameter.mul_(1 + (torch.rand_like(parameter) - 0.5) * 2**-23)
        curves[name] = train(name, vae.to(args.device), args, records)
    theirs, ours = curves["PyTorch's kernels"], curves["our kernels"]
    apart = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    print(f"{records[-2]['seconds_per_step'] / records[-1]['seconds_per_step']:.2f}x as fast with our kernels; "
          f"the loss curves are {apart:.1e} of the loss apart at most")
    for name, curve in curves.items():
        if "moved" in name:
            moved = ((curve - theirs).abs().max() / theirs.abs().max()).item()
            print(f"{name}: {moved:.1e} of the loss apart from PyTorch's at most")
    if args.output:
        torch.save(vae.state_dict(), args.output)
    common.write(args, records, difference=apart)


if __name__ == "__main__":
    main()
