#!/usr/bin/env python3
"""Times a denoising step of VACE beside the plain step of the same model on a GPU, and the encoding of a control video.

    python3 bench/peers/vace.py build/tachyscope [--rows 1.3b-480 14b-480 14b-720-24g] [--steps 6] [--models FOLDER] [--json FILE]
    python3 bench/peers/vace.py build/tachyscope --rows tiny --device cpu       # the script itself, anywhere

Each row is two processes of `tachyscope generate --json` without guidance: one with `--vace-strength 0`, which is the plain model, and one that follows a
video. A step is the median time between two steps' events, without the first two steps (loading, capture); "video" is the stage that reads, fits and
encodes the control (two passes of the encoder). Weights are random and of true shape; bench/lab/serve_models.py makes them."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# model, size, frames, further options, the factor asked for
ROWS = {"1.3b-480": ("1.3B-VACE", "832x480", 81, [], 1.5),
        "14b-480": ("14B-VACE", "832x480", 81, [], 1.21),
        "14b-720-24g": ("14B-VACE", "1280x720", 81, ["--max-vram", "24GiB"], None),
        "tiny": ("1.3B-VACE", "64x64", 5, [], None)}


def run(command):
    """Returns the seconds of each stage, and of each denoising step, from the events of one process."""
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=errors, text=True)
        arrivals = [(time.monotonic(), json.loads(line)) for line in child.stdout]
        code = child.wait()
        errors.seek(0)
        said = errors.read()
    if code:
        raise RuntimeError(f"exit code {code}: {said[-800:]}")
    progress = [(at, event) for at, event in arrivals if event["event"] == "progress"]
    stages, steps = {}, []
    for (at, event), (after, following) in zip(progress, progress[1:]):
        stages[event["stage"]] = stages.get(event["stage"], 0) + after - at
    ends = {}
    for at, event in progress:
        if event["stage"] == "denoise":
            ends.setdefault(event["done"], at)
    steps = [ends[i + 1] - ends[i] for i in sorted(ends) if i + 1 in ends]
    done = [event for _, event in arrivals if event["event"] == "done"]
    return {"step": statistics.median(steps[2:] or steps), "steps": steps, "stages": stages, "whole": done[0]["seconds"]}


def row_of(program, name, folder, device, steps, control):
    model, size, frames, more, asked = ROWS[name]
    command = [program, "generate", "a cat on a skateboard", "--model", folder / model, "--device", device, "--size", size, "--frames", frames,
               "--steps", steps, "--guidance", 1, "--seed", 7, *more, "--json"]
    plain = run([*command, "--vace-strength", 0, "-o", control / f"{name}.mp4"])
    vace = run([*command, "--control-video", control / f"{name}.mp4", "-o", control / f"{name}-vace.mp4"])
    return {"plain": plain, "vace": vace, "factor": vace["step"] / plain["step"], "asked": asked}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rows", nargs="+", default=[row for row in ROWS if row != "tiny"], choices=ROWS)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--models", type=pathlib.Path, help="where the models lie or are made (default: a temporary folder)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    args = parser.parse_args()
    report = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.models or pathlib.Path(temporary) / "models").resolve()
        models = sorted({ROWS[row][0] for row in args.rows})
        if not all((folder / model / "model_index.json").exists() for model in models):
            small = ["--layers", "2", "--text-layers", "1"] if args.rows == ["tiny"] else []
            subprocess.run([sys.executable, ROOT / "bench/lab/serve_models.py", folder, "--models", *models, *small], check=True)
        for name in args.rows:
            try:
                report[name] = row_of(args.program, name, folder, args.device, args.steps, pathlib.Path(temporary))
            except RuntimeError as error:
                report[name] = {"failed": str(error)}
            print(name, json.dumps(report[name]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(report, indent=1))
    print("| row | plain step, s | VACE's step, s | factor | asked | video, s | whole, s |\n|" + " --- |" * 7)
    for name, r in report.items():
        if "failed" in r:
            print(f"| {name} | {r['failed'][:300]} |")
        else:
            print(f"| {name} | {r['plain']['step']:.3f} | {r['vace']['step']:.3f} | {r['factor']:.3f} | {r['asked'] or '–'} | {r['vace']['stages'].get('video', 0):.2f} | {r['vace']['whole']:.1f} |")
    sys.exit(any("failed" in r for r in report.values()))


if __name__ == "__main__":
    main()
