#!/usr/bin/env python3
"""Compares plans with what is then seen: asks POST /v1/videos/plan for random jobs, runs each, and reads from /metrics what it took. Memory must be
within a tenth for each job, and the median ratio of seconds within a quarter. Memory is what the engine holds: weights, activations, tensors. The
encoder and libraries are not in the plan, and not in what is seen.

The server learns from its own runs, so two jobs come first: one that loads the model, and one of which it learns its pace (the calibration). Seconds
are those of the clock. On a busy machine single jobs are off by far, so their median counts, and the load is printed beside it. A machine whose other
work begins or ends meanwhile moves the median, too, so where it is off as many jobs follow, up to twice: a plan that is wrong is wrong each time.

    plans.py BUILD [--short] [--jobs N] [--seed N]"""

import argparse
import os
import random
import re
import statistics
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from server import Server  # noqa: E402

MOST_OF_MEMORY, MOST_OF_SECONDS, ROUNDS = 0.10, 0.25, 3
SIZES = ["64x64", "96x64", "64x96", "80x80", "96x96", "112x80"]  # metrics tell 48 shapes apart


def draw_job(draw):
    return {"prompt": draw.choice(["a red circle moves right", "a blue square, then a green one, moves slowly up and down", "dots"]),
            "size": draw.choice(SIZES), "num_frames": draw.choice([5, 9, 13, 17, 25]), "num_inference_steps": draw.randint(3, 16),
            "guidance_scale": draw.choice([1, 4]), "seed": draw.randrange(1000)}


def metric(text, name, size):
    """Returns the value of one metric of jobs of this size."""
    lines = re.findall(rf'^{name}{{([^}}]*)}} (\S+)$', text, re.MULTILINE)
    return next((float(value) for labels, value in lines if f'size="{size}"' in labels), 0.0)


class Seen:
    """The figures of /metrics about jobs of one size."""

    def __init__(self, server, size):
        text = server.ask("GET", "/metrics").body.decode()
        self.runs = metric(text, "tachyscope_job_run_seconds_count", size)
        self.seconds = metric(text, "tachyscope_job_run_seconds_sum", size)
        self.bytes = metric(text, "tachyscope_job_seen_bytes", size)


def run(server, job):
    """Runs one job. Returns its plan, the seconds and the bytes that it took."""
    answer = server.ask("POST", "/v1/videos/plan", job)
    assert answer.status == 200 and answer.json["fits"], answer.body
    before = Seen(server, job["size"])
    video = server.wait(server.create(**job)["id"])
    assert video["status"] == "completed", video
    until = time.monotonic() + 5
    while (after := Seen(server, job["size"])).runs == before.runs:
        assert time.monotonic() < until, "the run is not in the metrics"
        time.sleep(0.02)
    return answer.json, after.seconds - before.seconds, after.bytes


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build")
    options.add_argument("--short", action="store_true")
    options.add_argument("--jobs", type=int)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options = options.parse_args()
    jobs = options.jobs or (10 if options.short else 100)
    draw = random.Random(options.seed)
    memory, medians, bad = [], [], []
    with Server(options.build) as server:
        server.wait_ready()
        for _ in range(2):
            run(server, {"prompt": "a red circle moves right", "size": "80x80", "num_frames": 17, "num_inference_steps": 8, "seed": 1})
        while not medians or (abs(medians[-1] - 1) > MOST_OF_SECONDS and len(medians) < ROUNDS):
            begin, seconds = time.monotonic(), []
            for number in range(jobs):
                job = draw_job(draw)
                plan, took, held = run(server, job)
                planned = plan["gpu_bytes"] or plan["host_bytes"]
                memory.append(held / planned)
                seconds.append(took / plan["seconds"])
                if abs(memory[-1] - 1) > MOST_OF_MEMORY:
                    bad.append(f"job {number} {job}: planned {planned} bytes, held {held:.0f}")
            medians.append(statistics.median(seconds))
            low, high = sorted(seconds)[len(seconds) // 10], sorted(seconds)[-1 - len(seconds) // 10]
            print(f"{jobs} jobs, seed {options.seed}, {time.monotonic() - begin:.0f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
            print(f"seconds seen by planned: median {medians[-1]:.2f}, four fifths of them from {low:.2f} to {high:.2f}", flush=True)
        server.end()
    print(f"memory seen by planned: {min(memory):.3f} to {max(memory):.3f}")
    if abs(medians[-1] - 1) > MOST_OF_SECONDS:
        bad.append(f"the median ratios of seconds are {', '.join(f'{median:.2f}' for median in medians)}")
    for line in bad:
        print(line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
