"""Compares Engine with the program by hand, alternating: opening the shipped model, making a whole clip and writing its mp4 file. It prints the ratio
of the medians, of processor time and of time on the clock; the former says more where others use the machine. Before that it prints how long after its decode
a frame reaches a loop over stream: from the engine's call for it to the loop's body.

    PYTHONPATH=build/python TEST_PROGRAM=build/tachyscope python tests/python/engine_time.py [TURNS] [--model FOLDER] [--device cuda] [--frames N] [--size WxH] [--steps N]

With --node it compares ComfyUI's node with an engine instead, both open all the time and with a stand-in for ComfyUI (comfy_host.py): the node makes
an IMAGE batch and shows previews.
"""

import argparse
import importlib
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import types

import tachyscope
from tachyscope import _run
from engine_cases import SPRITES, program

PROMPT = "a red circle moves right"


def by_engine(path, args, fields):
    with tachyscope.Engine(args.model, device=args.device) as engine:
        engine.generate(PROMPT, seed=7, **fields).save(path)


def by_program(path, args, fields):
    options = [word for name, value in fields.items() for word in (f"--{name}", "x".join(map(str, value)) if name == "size" else str(value))]
    subprocess.run([program(), "generate", PROMPT, "-m", args.model, "--seed", "7", "--device", args.device, *options, "-o", path], check=True, capture_output=True)


def seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measured(make, who, *inputs):
    clock, used = time.monotonic(), seconds(who)
    make(*inputs)
    return seconds(who) - used, time.monotonic() - clock


def delays(turns, args):
    """Returns the seconds from a decoded frame to the loop that takes it, for the first frames and for all."""
    decoded, take = {}, _run.Making._frame

    def stamped(self, user, rgb, width, height, index):
        decoded[index] = time.monotonic()
        return take(self, user, rgb, width, height, index)
    first, others = [], []
    _run.Making._frame = stamped
    try:
        with tachyscope.Engine(args.model, device=args.device) as engine:
            for seed in range(turns):
                for event in engine.stream(PROMPT, frames=17, steps=2, seed=seed):
                    if isinstance(event, tachyscope.Frame):
                        (first if event.index == 0 else others).append(time.monotonic() - decoded[event.index])
    finally:
        _run.Making._frame = take
    return first, others


def by_node(turns, args, fields):
    """Returns (the node's, the engine's) measures of whole runs."""
    from comfy_host import Host
    sys.modules.update(Host(pathlib.Path(tempfile.gettempdir())).modules())
    package = sys.modules["tachy_nodes"] = types.ModuleType("tachy_nodes")
    package.__path__ = [str(pathlib.Path(__file__).resolve().parents[2] / "python" / "comfyui")]
    nodes = importlib.import_module("tachy_nodes.engine_nodes")
    (loaded,) = nodes.Load().run(args.model, "", args.device, "", True)
    width, height = fields.get("size", (0, 0))
    given = {"negative_prompt": "", "width": width, "height": height, "frames": args.frames or 0, "seed": 7, "steps": args.steps or 0, "guidance": -1.0}
    with tachyscope.Engine(args.model, device=args.device) as engine:
        runs = (lambda: nodes.TextToVideo().run(loaded, PROMPT, **given), lambda: engine.generate(PROMPT, seed=7, **fields))
        for run in runs:  # the first ones load the model
            run()
        return tuple(zip(*([measured(run, resource.RUSAGE_SELF) for run in runs] for _ in range(turns))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("turns", type=int, nargs="?", default=5)
    parser.add_argument("--model", default=SPRITES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--node", action="store_true")
    for name, kind in (("frames", int), ("size", str), ("steps", int)):
        parser.add_argument(f"--{name}", type=kind)
    args = parser.parse_args()
    fields = {name: value for name in ("frames", "size", "steps") if (value := getattr(args, name)) is not None}
    if args.size:
        fields["size"] = tuple(int(n) for n in args.size.split("x"))
    turns = args.turns
    if args.node:
        node, engine = by_node(turns, args, fields)
        for i, what in enumerate(("processor time", "time")):
            medians = [statistics.median(run[i] for run in runs) for runs in (node, engine)]
            print(f"{what}: the node {medians[0]:.3f} s, the engine {medians[1]:.3f} s: {medians[0] / medians[1]:.3f}")
        return
    for name, seconds_ in zip(("first frames", "other frames"), delays(4 * turns, args)):
        print(f"{name}: {1e3 * statistics.median(seconds_):.2f} ms after their decode, at most {1e3 * max(seconds_):.2f} ms ({len(seconds_)})", flush=True)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(turns):
            ours.append(measured(by_engine, resource.RUSAGE_SELF, os.path.join(folder, f"engine{i}.mp4"), args, fields))
            theirs.append(measured(by_program, resource.RUSAGE_CHILDREN, os.path.join(folder, f"program{i}.mp4"), args, fields))
            print(f"engine {ours[-1][0]:.2f} s of processors, {ours[-1][1]:.2f} s; program {theirs[-1][0]:.2f} s, {theirs[-1][1]:.2f} s", flush=True)
    for i, what in enumerate(("processor time", "time")):
        ratio = statistics.median(o[i] for o in ours) / statistics.median(t[i] for t in theirs)
        print(f"{what}: {ratio:.3f} of the program's")


if __name__ == "__main__":
    main()
