#!/usr/bin/env python3
"""Times the denoising steps of a model that was trained with sparse attention, beside attention to all keys of the same model.

    python3 bench/peers/trained.py build/tachyscope [--model 1.3B|14B] [--kind vsa|sla] [--size 832x480] [--frames 81] [--shares 0.2 0.1] [--steps 8]
                                   [--options "--attention int8"] [--device cuda] [--json FILE]

Each share is a process of `tachyscope generate --json` without guidance, and share 0 is attention to all keys. A step is the median time between two
steps' events, without the first two steps (loading, capture); three of them are FastWan's transformer time. Weights are random and of true shape, made by
bench/lab/serve_models.py: how many blocks neighbouring lists have in common, on which the time depends, is not a trained model's."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "lab"))
import serve_models  # noqa: E402


def make_model(folder, model, kind, layers):
    """Writes the model with the layers of that kind of attention, and returns its folder."""
    if kind == "vsa":
        model += "-VSA"
    else:
        plain = serve_models.dit_shapes

        def with_products(**shape):
            width = shape["dim"] // shape["heads"]
            more = {f"blocks.{i}.attn1.proj_l.{part}": [width, width][:n] for i in range(shape["layers"]) for part, n in (("weight", 2), ("bias", 1))}
            return {**plain(**shape), **more}

        serve_models.dit_shapes = with_products
    sys.argv = ["serve_models.py", str(folder), "--models", model, "--text-layers", "1", *(["--layers", str(layers)] if layers else [])]
    serve_models.main()
    return folder / model


def steps_of(command):
    """Returns the seconds of each denoising step from the second on, from the events of one process."""
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=errors, text=True)
        ends = {}
        for line in child.stdout:
            event = json.loads(line)
            if event["event"] == "progress" and event["stage"] == "denoise":
                ends.setdefault(event["done"], time.monotonic())
        code = child.wait()
        errors.seek(0)
        said = errors.read()
    if code:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {code}: {said[-1500:]}")
    return [ends[i + 1] - ends[i] for i in sorted(ends) if i + 1 in ends]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--model", default="1.3B", choices=["1.3B", "14B"])
    parser.add_argument("--kind", default="vsa", choices=["vsa", "sla"])
    parser.add_argument("--layers", type=int, help="of the transformer; default: all")
    parser.add_argument("--size", default="832x480")
    parser.add_argument("--frames", default=81)
    parser.add_argument("--shares", nargs="+", type=float, default=[0, 0.2, 0.1])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--options", default="", help="further ones of `tachyscope generate`")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    args = parser.parse_args()
    report = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        model = make_model(folder / "models", args.model, args.kind, args.layers)
        for share in args.shares:
            chooser = ["--sparse-chooser", "trained"] if share else []
            steps = steps_of([args.program, "generate", "a cat on a skateboard", "--model", model, "--device", args.device,
                              "--size", args.size, "--frames", args.frames, "--steps", args.steps, "--guidance", 1, "--seed", 7,
                              "--sparse-attention", share, *chooser, *args.options.split(), "--json", "-o", folder / "out.mp4"])
            step = statistics.median(steps[2:] or steps)
            report[str(share)] = {"step": step, "steps": steps}
            print(f"{args.model} {args.kind} {args.size}x{args.frames}, share {share:g}: a step {1e3 * step:.1f} ms, three {3 * step:.3f} s", flush=True)
    if args.json:
        args.json.write_text(json.dumps({"model": args.model, "kind": args.kind, "size": args.size, "frames": args.frames, **report}, indent=1) + "\n")


if __name__ == "__main__":
    main()
