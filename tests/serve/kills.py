#!/usr/bin/env python3
"""Kills the server with SIGKILL at random moments while clients create jobs, starts it again, and looks at what became of the jobs: each one that was
acknowledged is there once, is completed, belongs to the key that made it, and its file has the bytes of a run that nobody disturbed. Its end was told
to the webhook at least once, always under one id, and never before it had ended.

    kills.py BUILD [--short] [--kills N] [--seed N] [--database]"""

import argparse
import base64
import hashlib
import http.server
import json
import os
import pathlib
import random
import sys
import tempfile
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


KEYS = {name: f"tk-{name}-of-the-tests" for name in ("alice", "bob", "boss")}


def owner(number):
    return ("alice", "bob")[number % 2]


def bearer(name):
    return {"Authorization": f"Bearer {KEYS[name]}"}


class Hook(http.server.ThreadingHTTPServer):
    """Takes webhooks, and refuses some of them once."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.seen, self.lock = [], threading.Lock()  # when it came, its id, its type, the job
        threading.Thread(target=self.serve_forever, daemon=True).start()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with self.server.lock:
                self.server.seen.append((time.time(), self.headers["webhook-id"], event["type"], event["data"]["id"]))
                refused = len(self.server.seen) % 8 == 3
            self.send_response(500 if refused else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    def mistakes(self, videos, ids):
        """Returns what is wrong with the messages, given the videos as they are listed at the end."""
        with self.lock:
            seen = list(self.seen)
        listed = {video["id"]: video for video in videos}
        of_job = {}
        for _, message, _, job in seen:
            of_job.setdefault(job, set()).add(message)
        return ([f"none of {id}" for id in ids if id not in of_job] +
                [f"{len(messages)} ids of {job}" for job, messages in of_job.items() if len(messages) > 1] +
                [f"{type} of {job} at {came:.1f}, which is {listed.get(job)}" for came, _, type, job in seen
                 if job not in listed or type != f"video.{listed[job]['status']}" or came < listed[job]["ended_at"]])


def options_with(folder, hook):
    """Returns the server's options for keys and the webhook, whose files are made in the folder."""
    lines = [f"{name} {hashlib.sha256(key.encode()).hexdigest()}{' admin' if name == 'boss' else ''}" for name, key in KEYS.items()]
    keys, secret = folder / "keys", folder / "secret"
    keys.write_text("\n".join(lines) + "\n")
    secret.write_text("whsec_" + base64.b64encode(os.urandom(32)).decode())
    for file in (keys, secret):
        file.chmod(0o600)
    return "--keys", keys, "--webhook", f"http://127.0.0.1:{hook.server_port}/", "--webhook-secret-file", secret


class Maker(threading.Thread):
    """Creates jobs one after the other, each under an idempotency key, as a client that tries again until it has an answer."""

    def __init__(self, server, most, refusals=(503,)):
        super().__init__(daemon=True)
        self.server, self.most, self.refusals, self.ids, self.stop = server, most, refusals, {}, False
        self.lock = threading.Lock()  # held while the server has a port that answers
        self.waiting = 4

    def run(self):
        number = 0
        while not self.stop and number < self.most:
            if sum(self.open()) >= self.waiting:
                time.sleep(0.1)
                continue
            try:
                headers = {"Idempotency-Key": f"kill-{number}"} | (bearer(owner(number)) if self.server.key else {})
                answer = self.server.ask("POST", "/v1/videos", job(number), headers, timeout=10)
            except (OSError, ValueError, AttributeError):
                time.sleep(0.05)
                continue
            except Exception as error:  # http.client raises many kinds when a server dies under it
                if type(error).__module__ != "http.client":
                    raise
                time.sleep(0.05)
                continue
            assert answer.status in (200, *self.refusals), answer.body
            if answer.status == 200:
                self.ids[number] = answer.json["id"]
                number += 1
            else:
                time.sleep(0.05)

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
            assert server.wait(id, 600)["status"] == "completed"
            hashes[kind] = hashlib.sha256(server.ask("GET", f"/v1/videos/{id}/content").body).hexdigest()
        return hashes, (time.monotonic() - begin) / len(ids)


def judge(server, ids, want, hook=None):
    """Waits until all jobs have ended, and returns what is wrong by its kind."""
    for id in ids.values():
        server.wait(id, 300)
    videos = everything(server)
    made, status = [video["id"] for video in videos], {video["id"]: video["status"] for video in videos}
    # The maker may have been in the middle of one more request, whose job is there without its knowledge.
    strangers = set(made) - set(ids.values())
    doubled = [id for id in made if made.count(id) > 1] + sorted(strangers)[1:] + [id for id in ids.values() if list(ids.values()).count(id) > 1]
    bad = {"lost": [number for number, id in ids.items() if id not in made],
           "doubled": doubled,
           "not completed": [id for id in ids.values() if status.get(id) != "completed"],
           "with other bytes": [number for number, id in ids.items()
                                if hashlib.sha256(server.ask("GET", f"/v1/videos/{id}/content").body).hexdigest() != want[same(number)]],
           "folders without a job": sorted({path.name for path in (server.files / "jobs").iterdir()} - set(made))}
    if server.key:
        bad["of another key"] = [number for number, id in ids.items()
                                 if server.ask("GET", f"/v1/videos/{id}", headers=bearer(owner(number))).status != 200 or
                                 server.ask("GET", f"/v1/videos/{id}", headers=bearer(owner(number + 1))).status != 404]
    if hook:
        for id in strangers:
            server.wait(id, 300)
        videos, until = everything(server), time.monotonic() + 90
        while (mistakes := hook.mistakes(videos, ids.values())) and time.monotonic() < until:
            time.sleep(0.5)
        bad["messages wrong"] = mistakes
    return bad


def stage_now(server):
    try:
        running = [video for video in server.ask("GET", "/v1/videos?limit=20").json["data"] if video["status"] == "in_progress"]
        return (running[0]["stage"] or "between stages") if running else "no job"
    except Exception:
        return "starting"


def report(stages, ids, bad, begin):
    print(f"hit in: {', '.join(f'{stage} {count}' for stage, count in sorted(stages.items()))}")
    print(f"{len(ids)} jobs acknowledged: {', '.join(f'{len(of)} {what}' for what, of in bad.items())}; {time.monotonic() - begin:.0f} s")
    for what, of in bad.items():
        if of:
            print(f"{what}: {of}")
    return 1 if any(bad.values()) else 0


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
    stages, hook = {}, Hook()
    with tempfile.TemporaryDirectory(prefix="tachyscope-kills-") as folder, options_of_table(options.database) as table, \
            Server(options.build, *options_with(pathlib.Path(folder), hook), *table) as server:
        server.key = KEYS["boss"]
        server.wait_ready()
        maker = Maker(server, most=10**9)
        maker.start()
        for _ in range(kills):
            # Mostly within a job or two, now and then while the server is still starting.
            time.sleep(draw.uniform(0, 1.5 * job_seconds) if draw.random() < 0.85 else draw.uniform(0, 0.1))
            stage = stage_now(server)
            stages[stage] = stages.get(stage, 0) + 1
            server.kill()
            server.start()
        maker.stop = True
        maker.join(60)
        server.wait_ready()
        ids = dict(maker.ids)
        bad = judge(server, ids, want, hook)
        server.end()
    print(f"{len(hook.seen)} messages came to the webhook")
    return report(stages, ids, bad, begin)


if __name__ == "__main__":
    sys.exit(main())
