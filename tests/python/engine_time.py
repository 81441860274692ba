"""Compares Engine with the program by hand, alternating: opening the shipped model, making a whole clip and writing its mp4 file. It prints the ratio
of the medians, of processor time and of time on the clock; the former says more where others use the machine.

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


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
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
