#!/usr/bin/env python3
"""Several hosts on one queue, under kills, restarts of the database and cuts of the network.

Three servers, each in a network namespace of its own, share a folder and a PostgreSQL. Clients create jobs at any of them, each under an idempotency key,
and ask another one when one does not answer. Meanwhile servers are killed and started again, the database is restarted, and cables are pulled. At the end
each acknowledged job is there once, is completed, was counted once, and its file has the bytes of a run that nobody disturbed.

    hosts.py BUILD [--short] [--jobs N] [--kills N] [--restarts N] [--cuts N] [--cut-seconds S] [--seed N]

Then two hosts with folders of their own pass on what the other one has. Without PostgreSQL, or without the right to make network namespaces, nothing is
tried and the reason is printed."""

import argparse
import contextlib
import hashlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "postgres")]

from database import Database, binaries  # noqa: E402
from kills import job, reference, same  # noqa: E402
from server import ROOT, ask  # noqa: E402
from store import Store  # noqa: E402

NET = f"10.213.{os.getpid() % 250}"
BRIDGE = f"tsb{os.getpid() % 100000}"
PORT = 8190


def ip(*words):
    subprocess.run(["ip", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


class Network:
    """A bridge with an address for the database and the clients, and a namespace with one cable for each host."""

    def __init__(self, count):
        self.names = [f"{BRIDGE}h{i}" for i in range(count)]
        try:
            ip("link", "add", BRIDGE, "type", "bridge")
            ip("addr", "add", f"{NET}.1/24", "dev", BRIDGE)
            ip("link", "set", BRIDGE, "up")
            for i, name in enumerate(self.names):
                ip("netns", "add", name)
                ip("link", "add", f"{name}v", "type", "veth", "peer", "name", "eth0", "netns", name)
                ip("link", "set", f"{name}v", "master", BRIDGE, "up")
                for words in (["addr", "add", f"{self.address(i)}/24", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
                    ip("-n", name, *words)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def address(i):
        return f"{NET}.{10 + i}"

    def cable(self, i, up):
        ip("link", "set", f"{self.names[i]}v", "up" if up else "down")

    def close(self):
        for words in [["netns", "del", name] for name in self.names] + [["link", "del", f"{name}v"] for name in self.names] + [["link", "del", BRIDGE]]:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(*words)


class Host:
    def __init__(self, build, number, address, files, key_file, key, database, namespace=None, options=(), environment=None):
        self.name, self.url, self.headers = f"h{number}", f"http://{address}:{PORT + (0 if namespace else number)}", {"Authorization": f"Bearer {key}"}
        port = PORT + (0 if namespace else number)
        self.command = [*(["ip", "netns", "exec", namespace] if namespace else []), build / "tachyscope-serve", "--host", address, "--port", port, "--keys",
                        key_file, "--files", files, "--database", database, "--name", self.name, "--threads", 1, "--quiet", *options]
        self.log = pathlib.Path(key_file).parent / f"{self.name}.log"
        self.environment = os.environ | {"TACHY_DEVICE": "cpu"} | (environment or {})
        self.process, self.lock = None, threading.Lock()

    def start(self):
        with self.lock, open(self.log, "ab") as errors:
            self.process = subprocess.Popen([str(word) for word in self.command], stdout=errors, stderr=errors, cwd=ROOT, env=self.environment)
        return self

    def kill(self):
        with self.lock:
            self.process.kill()
            self.process.wait()

    def ask(self, method, path, body=None, headers=None, timeout=30):
        """Returns the answer, or None if the host does not give one."""
        try:
            answer = ask(self.url, method, path, body, self.headers | (headers or {}), timeout)
        except Exception as error:  # http.client raises many kinds when a server dies under it
            if not isinstance(error, (OSError, ValueError, AttributeError)) and type(error).__module__ != "http.client":
                raise
            return None
        return answer

    def wait_ready(self, seconds=60):
        until = time.monotonic() + seconds
        while not ((answer := self.ask("GET", "/ready", timeout=2)) and answer.status == 200):
            assert self.process.poll() is None, f"{self.name} ended: {self.log.read_text()[-2000:]}"
            assert time.monotonic() < until, f"{self.name} is not ready: {self.log.read_text()[-2000:]}"
            time.sleep(0.05)
        return self


class Hosts:
    """What a client with a list of hosts sees: it asks one after the other until one answers."""

    def __init__(self, hosts, draw):
        self.hosts, self.draw, self.errors = hosts, draw, {}

    def ask(self, method, path, body=None, headers=None, seconds=180):
        until = time.monotonic() + seconds
        while True:
            host = self.draw.choice(self.hosts)
            answer = host.ask(method, path, body, headers, timeout=10)
            if answer and answer.status < 500:
                return answer
            assert not answer or answer.status == 503, (answer.status, answer.body)
            assert time.monotonic() < until, f"no host has answered {method} {path} within {seconds} s"
            time.sleep(0.1)


def make_jobs(hosts, count, ids, next_number, lock):
    while True:
        with lock:
            if next_number[0] >= count:
                return
            number = next_number[0]
            next_number[0] += 1
        answer = hosts.ask("POST", "/v1/videos", job(number), {"Idempotency-Key": f"hosts-{number}"})
        assert answer.status == 200, (answer.status, answer.body)
        ids[number] = answer.json["id"]


def everything(hosts):
    videos, after = [], ""
    while True:
        page = hosts.ask("GET", f"/v1/videos?limit=100&order=asc{after}").json
        videos += page["data"]
        if not page["has_more"]:
            return videos
        after = f"&after={page['last_id']}"


def new_key(build, file):
    done = subprocess.run([str(build / "tachyscope-serve"), "--keys", str(file), "--new-key", "anna"], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip()


class Trouble:
    """Kills, restarts of the database and cuts, in a drawn order, while jobs are made."""

    def __init__(self, hosts, network, database, options, draw):
        self.hosts, self.network, self.database, self.options, self.draw = hosts, network, database, options, draw
        self.later, self.cut_off = [], set()

    def run(self):
        o = self.options
        todo = [self.kill] * o.kills + [self.restart] * o.restarts + [self.cut] * o.cuts
        self.draw.shuffle(todo)
        for what in todo:
            time.sleep(self.draw.uniform(0, 2 * o.pause))
            what()
        for thread in self.later:
            thread.join()

    def after(self, seconds, then):
        thread = threading.Thread(target=lambda: (time.sleep(seconds), then()))
        thread.start()
        self.later.append(thread)

    def kill(self):
        host = self.draw.choice([host for host in self.hosts if host.process.poll() is None] or self.hosts)
        host.kill()
        if self.draw.random() < 0.2:  # it comes back when the others may have its jobs
            self.after(self.options.away, host.start)
        else:
            host.start()

    def restart(self):
        self.database.restart(self.draw.choice(["fast", "immediate"]))

    def cut(self):
        """Pulls the cable of one host; only one at a time, so that somebody answers."""
        while self.cut_off:
            time.sleep(0.1)
        number = self.draw.randrange(len(self.hosts))
        self.cut_off.add(number)
        self.network.cable(number, up=False)
        self.after(self.options.cut_seconds, lambda: (self.network.cable(number, up=True), self.cut_off.discard(number)))


def parse():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", type=pathlib.Path)
    options.add_argument("--short", action="store_true")
    options.add_argument("--seed", type=int, default=int(time.time()))
    for name, kind in (("jobs", int), ("kills", int), ("restarts", int), ("cuts", int), ("cut-seconds", float), ("pause", float), ("away", float)):
        options.add_argument(f"--{name}", type=kind)
    options = options.parse_args()
    usual = {"jobs": 10, "kills": 3, "restarts": 1, "cuts": 1, "cut_seconds": 2, "pause": 0.7, "away": 1} if options.short else {
        "jobs": 300, "kills": 60, "restarts": 2, "cuts": 2, "cut_seconds": 20, "pause": 2, "away": 40}
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    options.build = options.build.resolve()
    return options


def trial(options, folder, draw):
    """Returns what went wrong, as a list of texts."""
    begin = time.monotonic()
    want, job_seconds = reference(options.build)
    print(f"{options.jobs} jobs of {len(want)} kinds ({job_seconds:.1f} s each by one server), {options.kills} kills, {options.restarts} restarts of the "
          f"database, {options.cuts} cuts of {options.cut_seconds:g} s, seed {options.seed}", flush=True)
    keys = folder / "keys"
    key = new_key(options.build, keys)
    with contextlib.ExitStack() as stack:
        network = Network(3)
        stack.callback(network.close)
        database = stack.enter_context(Database(host=f"{NET}.1"))
        hosts = [Host(options.build, i + 1, network.address(i), folder / "files", keys, key, database.url, network.names[i]) for i in range(3)]
        for host in hosts:
            stack.callback(host.kill)
            host.start()
        for host in hosts:
            host.wait_ready()
        front, ids, lock, number = Hosts(hosts, draw), {}, threading.Lock(), [0]
        makers = [threading.Thread(target=make_jobs, args=(front, options.jobs, ids, number, lock)) for _ in range(3)]
        for maker in makers:
            maker.start()
        Trouble(hosts, network, database, options, draw).run()
        for maker in makers:
            maker.join()
        trouble_seconds = time.monotonic() - begin
        until = time.monotonic() + 60 + 10 * job_seconds * options.jobs
        for id in ids.values():
            while (video := front.ask("GET", f"/v1/videos/{id}").json)["status"] in ("queued", "in_progress"):
                assert time.monotonic() < until, f"{id} does not end: {video}"
                time.sleep(0.2)
        return judge(front, database, ids, want, folder, time.monotonic() - begin, trouble_seconds)


def judge(front, database, ids, want, folder, seconds, trouble_seconds):
    videos = {video["id"]: video for video in everything(front)}
    completed = int(database.ask("SELECT count(*) FROM tachyscope.jobs WHERE status = 2"))
    counted = int(database.ask("SELECT coalesce(sum(jobs), 0) FROM tachyscope.usage"))
    sums = {number: hashlib.sha256(front.ask("GET", f"/v1/videos/{id}/content").body).hexdigest() for number, id in ids.items()}
    again = sum(video["worker"] is None for video in videos.values())
    wrong = {
        "lost": [number for number, id in ids.items() if id not in videos],
        "doubled": sorted(set(videos) - set(ids.values())) + [number for number, id in ids.items() if list(ids.values()).count(id) > 1],
        "failed": [(id, video["error"]) for id, video in videos.items() if video["status"] != "completed"],
        "counted more or less than once": [] if counted == completed == len(ids) else [(completed, counted, len(ids))],
        "with other bytes": [number for number, sum in sums.items() if sum != want[same(number)]],
        "folders without a job": sorted({path.name for path in (folder / "files" / "jobs").iterdir() if path.name.startswith("video_")} - set(videos)),
        "without a worker": [again] if again else [],
    }
    by = {name: sum(video["worker"] == name for video in videos.values()) for name in ("h1", "h2", "h3")}
    print(f"{len(ids)} jobs acknowledged: " + ", ".join(f"{len(found)} {what}" for what, found in wrong.items()) +
          f"; made by {', '.join(f'{name} {count}' for name, count in by.items())}; {trouble_seconds:.0f} s of trouble, {seconds:.0f} s in all", flush=True)
    return [f"{what}: {found}" for what, found in wrong.items() if found]


def passing_on(options, folder):
    """Two hosts with folders of their own: each answers for the other's jobs, and says so when it cannot."""
    secret = folder / "secret"
    secret.write_text(os.urandom(32).hex() + "\n")
    secret.chmod(0o600)
    keys = folder / "keys-of-two"
    key, wrong = new_key(options.build, keys), []

    def expect(what, truth):
        if not truth:
            wrong.append(f"passing on: {what}")

    with contextlib.ExitStack() as stack:
        database = stack.enter_context(Database())
        more = ("--cluster-secret-file", secret)
        # The first one runs all jobs, and the second one takes requests alone.
        made = [Host(options.build, i, "127.0.0.1", folder / f"files-{i}", keys, key, database.url, options=(*more, "--role", role))
                for i, role in ((1, "worker"), (2, "api"))]
        for host in made:
            stack.callback(host.kill)
            host.start().wait_ready()
        worker, front = made
        id = front.ask("POST", "/v1/videos", job(0)).json["id"]
        events = front.ask("GET", f"/v1/videos/{id}/events", timeout=120).body.decode()
        expect(f"events: {events}", events.count("event: done") == 1 and "event: preview" in events)
        video = front.ask("GET", f"/v1/videos/{id}").json
        expect(f"status {video}", video["status"] == "completed" and video["worker"] == "h1" and video["why"])
        own, far = (host.ask("GET", f"/v1/videos/{id}/content") for host in (worker, front))
        expect("content", own.status == far.status == 200 and own.body == far.body and len(far.body) > 1000)
        part = front.ask("GET", f"/v1/videos/{id}/content", headers={"Range": "bytes=100-199"})
        expect("a range", part.status == 206 and part.body == own.body[100:200])
        for variant in ("thumbnail", "spritesheet"):
            pictures = [host.ask("GET", f"/v1/videos/{id}/content?variant={variant}") for host in (worker, front)]
            expect(variant, pictures[0].status == pictures[1].status == 200 and pictures[0].body == pictures[1].body)
        link = front.ask("GET", f"/v1/videos/{id}/link").json["url"]
        expect("a link of another host", ask(worker.url, "GET", link).body == own.body)
        expect("without a key", ask(front.url, "GET", f"/v1/videos/{id}/content").status == 401)
        forged = ask(worker.url, "GET", f"/v1/videos/{id}/content", headers={"Tachyscope-Host": "1;1;h1;YQ;a;AAAA"})
        expect("a forged signature", forged.status == 401)
        expect("usage", [day["videos"] for day in front.ask("GET", "/v1/usage").json["data"]] == [1])
        second = front.ask("POST", "/v1/videos", job(1)).json["id"]
        while front.ask("GET", f"/v1/videos/{second}").json["status"] != "completed":
            time.sleep(0.1)
        worker.kill()
        gone = front.ask("GET", f"/v1/videos/{second}/content")
        expect(f"an owner that is gone: {gone.body}", gone.status == 503 and "h1" in gone.json["error"]["message"] and "retry-after" in gone.headers)
        kept = front.ask("GET", f"/v1/videos/{id}/content")
        expect("what was fetched before", kept.status == 200 and kept.body == own.body)
    print(f"passing on: {len(wrong)} wrong", flush=True)
    return wrong


def stored(options, folder):
    """A worker stores its videos in S3's way: another host has them when the worker is gone. A store that is away is waited for."""
    keys, wrong = folder / "keys-of-stored", []
    key = new_key(options.build, keys)
    with contextlib.ExitStack() as stack:
        database, store = stack.enter_context(Database()), stack.enter_context(Store("an-id", "a secret"))
        environment = {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a secret", "AWS_ENDPOINT_URL": store.url}
        worker, front = (Host(options.build, i, "127.0.0.1", folder / f"stored-{i}", keys, key, database.url,
                              options=("--store", "s3://videos/of tests", "--role", role), environment=environment)
                         for i, role in ((3, "worker"), (4, "api")))
        for host in (worker, front):
            stack.callback(host.kill)
            host.start().wait_ready()
        store.away = True
        id = front.ask("POST", "/v1/videos", job(0)).json["id"]
        until = time.monotonic() + 60
        while front.ask("GET", f"/v1/videos/{id}").json["progress"] < 90 and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.5)
        if front.ask("GET", f"/v1/videos/{id}").json["status"] != "in_progress":
            wrong.append("stored: a video is finished that the store has not got")
        store.away = False
        while (video := front.ask("GET", f"/v1/videos/{id}").json)["status"] != "completed" and time.monotonic() < until:
            time.sleep(0.1)
        own = worker.ask("GET", f"/v1/videos/{id}/content")
        worker.kill()
        far = front.ask("GET", f"/v1/videos/{id}/content")
        if far.status != 200 or far.body != own.body or store.objects.get(f"/videos/of tests/{id}/video.mp4") != own.body:
            wrong.append(f"stored: {video['status']} {far.status} {sorted(store.objects)} {store.refused}")
        front.ask("DELETE", f"/v1/videos/{id}")
        if store.objects or store.refused:
            wrong.append(f"stored: left or refused: {sorted(store.objects)} {store.refused}")
    print(f"a store that checks signatures (a stand-in): {len(wrong)} wrong", flush=True)
    return wrong


def may_make_namespaces():
    if os.geteuid() != 0 or not shutil.which("ip"):
        return False
    try:
        Network(1).close()
        return True
    except subprocess.CalledProcessError:
        return False


def main():
    options = parse()
    if not binaries():
        print("skipped: PostgreSQL is not here (Debian's package postgresql has it)")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tachyscope-hosts-"))
    wrong = []
    try:
        wrong += passing_on(options, folder)
        wrong += stored(options, folder)
        if may_make_namespaces():
            wrong += trial(options, folder, random.Random(options.seed))
        else:
            print("skipped: only root may make network namespaces, and iproute2 is needed")
    finally:
        if wrong:
            print(f"left for a look: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
