#!/usr/bin/env python3
"""Upgrades a service of two hosts while clients use it, as docs/deployment.md says: the tables get a later version, then one host after the other is
stopped and started again. Between the clients and the hosts is what a balancer does: it knows which hosts are ready, and hands a request to another one
where nobody answers. No client may see an error, and each video has the bytes of a run that nobody disturbed.

    upgrade.py BUILD [--short] [--old BUILD]

The later version is made here, by a step as that version would make it: only it need know of what it adds. With --old, the hosts begin as servers of an
older build, and are replaced by those of this one, which make the step."""

import argparse
import contextlib
import hashlib
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "postgres")]

from database import Database, binaries  # noqa: E402
from hosts import Host, everything, new_key  # noqa: E402
from kills import job, reference, same  # noqa: E402

# A step that leaves `works_with` as it was: servers that do not know of it go on.
LATER = """SET search_path = tachyscope; BEGIN;
SELECT pg_advisory_xact_lock(1415668584, hashtext('tachyscope'));
ALTER TABLE jobs ADD COLUMN of_later text NOT NULL DEFAULT 'x';
ALTER TABLE job_texts ADD COLUMN of_later text NOT NULL DEFAULT 'x';
ALTER TABLE hosts ADD COLUMN of_later integer NOT NULL DEFAULT 1;
ALTER TABLE workers ADD COLUMN of_later integer NOT NULL DEFAULT 1;
CREATE TABLE later (seq bigint PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE);
CREATE INDEX jobs_of_later ON jobs (of_later);
UPDATE schema_version SET version = version + 1;
COMMIT"""


class Balancer:
    """Hands requests to hosts that are ready. A status of theirs is the client's: only what nobody has answered is tried again."""

    def __init__(self, hosts, draw):
        self.hosts, self.draw, self.ready, self.again, self.ending = hosts, draw, list(hosts), 0, False
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.ending:
            self.ready = [host for host in self.hosts if (answer := host.ask("GET", "/ready", timeout=2)) and answer.status == 200]
            time.sleep(1)

    def ask(self, method, path, body=None, headers=None):
        until = time.monotonic() + 5
        while time.monotonic() < until:
            answer = self.draw.choice(self.ready or self.hosts).ask(method, path, body, headers)
            if answer:
                return answer
            self.again += 1
            time.sleep(0.02)
        raise AssertionError(f"nobody has answered {method} {path}")

    def close(self):
        self.ending = True
        self.thread.join()


class Clients:
    """Threads that make jobs and ask for them, until they are stopped. Whatever is not as a client expects it is an error."""

    def __init__(self, front, most):
        self.front, self.most, self.ids, self.errors, self.stop, self.asked = front, most, {}, [], False, 0
        self.threads = [threading.Thread(target=self.guarded, args=(what,)) for what in (self.make, *[self.poll] * 4, self.look)]
        for thread in self.threads:
            thread.start()

    def guarded(self, what):
        try:
            while not self.stop:
                what()
        except Exception as error:
            self.errors.append(repr(error))

    def expect(self, method, path, body=None, headers=None):
        answer = self.front.ask(method, path, body, headers)
        self.asked += 1
        if answer.status not in (200, 206):
            self.errors.append(f"{method} {path}: {answer.status} {answer.body[:300]}")
        return answer

    def make(self):
        number = len(self.ids)
        if len([1 for video in self.expect("GET", "/v1/videos?status=active&limit=50").json["data"]]) >= self.most:
            return time.sleep(0.1)
        answer = self.expect("POST", "/v1/videos", job(number), {"Idempotency-Key": f"upgrade-{number}"})
        if answer.status == 200:
            self.ids[number] = answer.json["id"]

    def poll(self):
        for id in list(self.ids.values())[-5:]:
            video = self.expect("GET", f"/v1/videos/{id}").json
            if video["status"] == "completed":
                self.expect("GET", f"/v1/videos/{id}/content")
            time.sleep(0.05)
        time.sleep(0.02)

    def look(self):
        for path in ("/v1/videos?limit=5", "/v1/models", "/v1/usage", "/health"):
            self.expect("GET", path)
            time.sleep(0.1)

    def close(self):
        self.stop = True
        for thread in self.threads:
            thread.join()


def replace(host, build):
    """Stops a host as systemd does, and starts what is installed now. Returns how long it was away."""
    begin = time.monotonic()
    host.process.send_signal(signal.SIGTERM)
    code = host.process.wait(20)
    assert code == 0, f"{host.name} ended with {code}"
    host.command[0] = build / "tachyscope-serve"
    host.start().wait_ready()
    return time.monotonic() - begin


def ask_for_a_join(host):
    """Asks a host of the new version for a video that waits for another one, which the older host must not begin. Returns their ids."""
    source = host.ask("POST", "/v1/videos", job(0)).json["id"]
    joined = host.ask("POST", "/v1/videos/join", {"videos": [source, {"id": source, "first_frame": 1}]})
    assert joined.status == 200, joined.body
    return source, joined.json["id"]


def judge_join(front, ids):
    """Waits for the two, and removes them. Returns what is wrong."""
    until = time.monotonic() + 300
    while (video := front.ask("GET", f"/v1/videos/{ids[1]}").json)["status"] in ("queued", "in_progress"):
        assert time.monotonic() < until, video
        time.sleep(0.1)
    for id in ids:
        front.ask("DELETE", f"/v1/videos/{id}")
    return [] if video["status"] == "completed" else [f"a video that waited for another one: {video}"]


def judge(front, ids, want):
    until = time.monotonic() + 300
    for id in ids.values():
        while front.ask("GET", f"/v1/videos/{id}").json["status"] in ("queued", "in_progress"):
            assert time.monotonic() < until, f"{id} does not end"
            time.sleep(0.1)
    videos = {video["id"]: video for video in everything(front)}
    wrong = {"lost": [id for id in ids.values() if id not in videos], "strangers": sorted(set(videos) - set(ids.values())),
             "failed": [(id, video["error"]) for id, video in videos.items() if video["status"] != "completed"]}
    wrong["with other bytes"] = [number for number, id in ids.items() if hashlib.sha256(front.ask("GET", f"/v1/videos/{id}/content").body).hexdigest() != want[same(number)]]
    return [f"{what}: {found}" for what, found in wrong.items() if found]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", type=pathlib.Path)
    options.add_argument("--short", action="store_true")
    options.add_argument("--old", type=pathlib.Path)
    options = options.parse_args()
    build, between = options.build.resolve(), 1 if options.short else 8
    old = (options.old or build).resolve()
    if not binaries():
        print("skipped: PostgreSQL is not here (Debian's package postgresql has it)")
        return 0
    folder, draw = pathlib.Path(tempfile.mkdtemp(prefix="tachyscope-upgrade-")), random.Random(7)
    want, _ = reference(build)
    begin = time.monotonic()
    with contextlib.ExitStack() as last:
        last.callback(shutil.rmtree, folder, ignore_errors=True)
        database, keys = last.enter_context(Database()), folder / "keys"
        key = new_key(build, keys)
        hosts = [Host(old, number, "127.0.0.1", folder / "files", keys, key, database.url) for number in (5, 6)]
        for host in hosts:
            last.callback(host.kill)
            host.start().wait_ready()
        front = Balancer(hosts, draw)
        last.callback(front.close)
        clients = Clients(front, most=4)
        last.callback(clients.close)
        time.sleep(between)
        version = int(database.ask("SELECT version FROM tachyscope.schema_version"))
        if not options.old:
            database.ask(LATER)
        time.sleep(between)
        away, joined = [], None
        for host in hosts:
            away.append(replace(host, build))
            joined = joined or (ask_for_a_join(host) if options.old else None)
            time.sleep(between)
        clients.close()
        wrong = clients.errors + (judge_join(front, joined) if joined else []) + judge(front, clients.ids, want)
        now = int(database.ask("SELECT version FROM tachyscope.schema_version"))
        if options.old:
            print(f"tables of version {version} have become those of {now}")
        elif now != version + 1:
            wrong.append("a server has changed the tables of a later version")
        if not options.short and not all(any(video["worker"] == host.name for video in everything(front)) for host in hosts):
            wrong.append("one host has made no video")
    print(f"{clients.asked} requests and {len(clients.ids)} videos while two hosts were replaced, which were away for {away[0]:.1f} and {away[1]:.1f} s: "
          f"{len(clients.errors)} errors, {front.again} handed to another host; {time.monotonic() - begin:.0f} s")
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
