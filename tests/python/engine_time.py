"""Compares Engine with the program by hand, alternating: opening the shipped model, making a whole clip and writing its mp4 file. It prints the ratio
of the medians, of processor time and of time on the clock; the former says more where others use the machine. Before that it prints how long after its decode
a frame reaches a loop over stream: from the engine's call for it to the loop's body.

    PYTHONPATH=build/python TEST_PROGRAM=build/tachyscope python tests/python/engine_time.py [TURNS]
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import tachyscope
from tachyscope import _run
from engine_cases import SPRITES, program

PROMPT = "a red circle moves right"


def by_engine(path):
    with tachyscope.Engine(SPRITES, device="cpu") as engine:
        engine.generate(PROMPT, seed=7).save(path)


def by_program(path):
    subprocess.run([program(), "generate", PROMPT, "-m", SPRITES, "--seed", "7", "--device", "cpu", "-o", path], check=True, capture_output=True)


def seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measured(make, who, path):
    clock, used = time.monotonic(), seconds(who)
    make(path)
    return seconds(who) - used, time.monotonic() - clock


def delays(turns):
    """Returns the seconds from a decoded frame to the loop that takes it, for the first frames and for all."""
    decoded, take = {}, _run.Making._frame

    def stamped(self, user, rgb, width, height, index):
        decoded[index] = time.monotonic()
        return take(self, user, rgb, width, height, index)
    first, others = [], []
    _run.Making._frame = stamped
    try:
        with tachyscope.Engine(SPRITES, device="cpu") as engine:
            for seed in range(turns):
                for event in engine.stream(PROMPT, frames=17, steps=2, seed=seed):
                    if isinstance(event, tachyscope.Frame):
                        (first if event.index == 0 else others).append(time.monotonic() - decoded[event.index])
    finally:
        _run.Making._frame = take
    return first, others


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    for name, seconds_ in zip(("first frames", "other frames"), delays(4 * turns)):
        print(f"{name}: {1e3 * statistics.median(seconds_):.2f} ms after their decode, at most {1e3 * max(seconds_):.2f} ms ({len(seconds_)})", flush=True)
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(turns):
            ours.append(measured(by_engine, resource.RUSAGE_SELF, os.path.join(folder, f"engine{i}.mp4")))
            theirs.append(measured(by_program, resource.RUSAGE_CHILDREN, os.path.join(folder, f"program{i}.mp4")))
            print(f"engine {ours[-1][0]:.2f} s of processors, {ours[-1][1]:.2f} s; program {theirs[-1][0]:.2f} s, {theirs[-1][1]:.2f} s", flush=True)
    for i, what in enumerate(("processor time", "time")):
        ratio = statistics.median(o[i] for o in ours) / statistics.median(t[i] for t in theirs)
        print(f"{what}: {ratio:.3f} of the program's")


if __name__ == "__main__":
    main()
