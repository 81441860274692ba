#!/usr/bin/env python3
"""Kills the server with SIGKILL at random moments while clients create jobs, starts it again, and looks at what became of the jobs: each one that was
acknowledged is there once, is completed, and its file has the bytes of a run that nobody disturbed.

    kills.py BUILD [--short] [--kills N] [--seed N] [--database]"""

import argparse
import hashlib
import os
import random
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from server import SMALL, Server, options_of_table  # noqa: E402

# Jobs of several lengths, so that kills hit each stage.
KINDS = [{"num_frames": 5, "num_inference_steps": 2}, {"num_frames": 17, "num_inference_steps": 6}, {"num_frames": 33, "num_inference_steps": 10}]


SEEDS = 2


def same(number):
    """Returns what two jobs have in common whose files must be equal."""
    return number % SEEDS, number % len(KINDS)


def job(number):
    seed, kind = same(number)
    return {"prompt": f"a red circle {seed}"} | SMALL | KINDS[kind] | {"seed": seed}


class Maker(threading.Thread):
    """Creates jobs one after the other, each under an idempotency key, as a client that tries again until it has an answer."""

    def __init__(self, server, most):
        super().__init__(daemon=True)
        self.server, self.most, self.ids, self.stop = server, most, {}, False
        self.lock = threading.Lock()  # held while the server has a port that answers
        self.waiting = 4

    def run(self):
        number = 0
        while not self.stop and number < self.most:
            if sum(self.open()) >= self.waiting:
                time.sleep(0.1)
                continue
            try:
                answer = self.server.ask("POST", "/v1/videos", job(number), {"Idempotency-Key": f"kill-{number}"}, timeout=10)
            except (OSError, ValueError, AttributeError):
                time.sleep(0.05)
                continue
            except Exception as error:  # http.client raises many kinds when a server dies under it
                if type(error).__module__ != "http.client":
                    raise
                time.sleep(0.05)
                continue
            assert answer.status in (200, 503), answer.body
            if answer.status == 200:
                self.ids[number] = answer.json["id"]
                number += 1

    def open(self):
        try:
            page = self.server.ask("GET", "/v1/videos?limit=100", timeout=10).json
            return [video["status"] in ("queued", "in_progress") for video in page["data"]]
        except Exception:
            return [True] * self.waiting


def everything(server):
    """Returns all videos of the list, page by page."""
    videos, after = [], ""
    while True:
        page = server.ask("GET", f"/v1/videos?limit=100&order=asc{after}").json
        videos += page["data"]
        if not page["has_more"]:
            return videos
        after = f"&after={page['last_id']}"


def reference(build):
    """Returns the sha256 of each kind of job by a server that nobody disturbs, and how many seconds a job takes."""
    wanted, hashes = {}, {}
    for number in range(SEEDS * len(KINDS)):
        wanted.setdefault(same(number), number)
    with Server(build) as server:
        server.wait_ready()
        begin = time.monotonic()
        ids = {kind: server.create(**job(number))["id"] for kind, number in wanted.items()}
        for kind, id in ids.items():
            assert server.wait(id)["status"] == "completed"
            hashes[kind] = hashlib.sha256(server.ask("GET", f"/v1/videos/{id}/content").body).hexdigest()
        return hashes, (time.monotonic() - begin) / len(ids)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build")
    options.add_argument("--short", action="store_true")
    options.add_argument("--kills", type=int)
    options.add_argument("--database", action="store_true", help="the table is in a PostgreSQL of its own")
    options.add_argument("--seed", type=int, default=int(time.time()))
    options = options.parse_args()
    kills = options.kills or (4 if options.short else 40)
    draw = random.Random(options.seed)
    begin = time.monotonic()
    want, job_seconds = reference(options.build)
    print(f"{kills} kills, seed {options.seed}; {len(want)} kinds of jobs, {job_seconds:.1f} s each", flush=True)
    hit, stages = [], {}
    with options_of_table(options.database) as table, Server(options.build, *table) as server:
        server.wait_ready()
        maker = Maker(server, most=10**9)
        maker.start()
        for _ in range(kills):
            # Mostly within a job or two, now and then while the server is still starting.
            time.sleep(draw.uniform(0, 1.5 * job_seconds) if draw.random() < 0.85 else draw.uniform(0, 0.1))
            try:
                running = [video for video in server.ask("GET", "/v1/videos?limit=20").json["data"] if video["status"] == "in_progress"]
                stage = (running[0]["stage"] or "between stages") if running else "no job"
            except Exception:
                stage = "starting"
            stages[stage] = stages.get(stage, 0) + 1
            server.kill()
            hit.append(stage)
            server.start()
        maker.stop = True
        maker.join(60)
        server.wait_ready()
        ids = dict(maker.ids)
        for id in ids.values():
            server.wait(id, 300)
        videos = everything(server)
        made = [video["id"] for video in videos]
        # The maker may have been in the middle of one more request, whose job is there without its knowledge.
        strangers = set(made) - set(ids.values())
        lost = [number for number, id in ids.items() if id not in made]
        doubled = len(made) - len(set(made)) + max(0, len(strangers) - 1) + len(ids) - len(set(ids.values()))
        status = {video["id"]: video["status"] for video in videos}
        failed = [id for id in ids.values() if status.get(id) != "completed"]
        unequal = [number for number, id in ids.items()
                   if hashlib.sha256(server.ask("GET", f"/v1/videos/{id}/content").body).hexdigest() != want[same(number)]]
        folders = {path.name for path in (server.files / "jobs").iterdir()}
        left = folders - set(made)
        server.end()
    print(f"killed in: {', '.join(f'{stage} {count}' for stage, count in sorted(stages.items()))}")
    print(f"{len(ids)} jobs acknowledged: {len(lost)} lost, {doubled} doubled, {len(failed)} not completed, {len(unequal)} with other bytes, "
          f"{len(left)} folders without a job; {time.monotonic() - begin:.0f} s")
    bad = lost or doubled or failed or unequal or left
    if bad:
        print(f"lost {lost}, failed {failed}, unequal {unequal}, folders {left}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
