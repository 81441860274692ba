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
import json
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
MOST_CANCEL_SECONDS = 1  # half a second on an idle machine, and the time to look


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
        self.files = pathlib.Path(files)
        self.log = pathlib.Path(key_file).parent / f"{self.name}.log"
        self.environment = os.environ | {"TACHY_DEVICE": "cpu"} | (environment or {})
        self.process, self.lock = None, threading.Lock()
        self.wanted, self.ended = False, []  # whether it is to run; the last words of processes that have ended by themselves

    def start(self):
        """Starts it, unless it runs."""
        with self.lock, open(self.log, "ab") as errors:
            self.wanted = True
            if not self.process or self.process.poll() is not None:
                self.process = subprocess.Popen([str(word) for word in self.command], stdout=errors, stderr=errors, cwd=ROOT, env=self.environment,
                                                start_new_session=True)
        return self

    def kill(self):
        """Returns whether there was something to kill."""
        with self.lock:
            self.wanted = False
            ran = self.process.poll() is None
            self.process.kill()
            self.process.wait()
            return ran

    def restart_if_ended(self):
        """Does what systemd does for a server that has ended by itself, such as one whose database went away while it began."""
        with self.lock:
            gone = self.wanted and self.process.poll() is not None
        if gone:
            self.ended.append((self.process.returncode, (self.log.read_text(errors="replace").splitlines() or [""])[-1]))
            self.start()

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


class Supervisor(threading.Thread):
    def __init__(self, hosts):
        super().__init__()
        self.hosts, self.ending = hosts, threading.Event()
        self.start()

    def run(self):
        while not self.ending.wait(2):
            for host in self.hosts:
                host.restart_if_ended()

    def close(self):
        self.ending.set()
        self.join()


class Trouble:
    """Kills, restarts of the database and cuts, in a drawn order, while jobs are made."""

    def __init__(self, hosts, network, database, options, draw):
        self.hosts, self.network, self.database, self.options, self.draw = hosts, network, database, options, draw
        self.later, self.cut_off, self.killed = [], set(), 0

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
        """Kills one of those that run; the others are waited for."""
        while not (running := [host for host in self.hosts if host.process.poll() is None]) or not (host := self.draw.choice(running)).kill():
            time.sleep(0.1)
        self.killed += 1
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
        supervisor = Supervisor(hosts)
        stack.callback(supervisor.close)
        front, ids, lock, number = Hosts(hosts, draw), {}, threading.Lock(), [0]
        makers = [threading.Thread(target=make_jobs, args=(front, options.jobs, ids, number, lock)) for _ in range(3)]
        for maker in makers:
            maker.start()
        trouble = Trouble(hosts, network, database, options, draw)
        trouble.run()
        for maker in makers:
            maker.join()
        trouble_seconds = time.monotonic() - begin
        until = time.monotonic() + 60 + 10 * job_seconds * options.jobs
        for id in ids.values():
            while (video := front.ask("GET", f"/v1/videos/{id}").json)["status"] in ("queued", "in_progress"):
                assert time.monotonic() < until, f"{id} does not end: {video}"
                time.sleep(0.2)
        wrong = judge(front, database, ids, want, folder, time.monotonic() - begin, trouble_seconds)
        for host in hosts:
            for code, words in host.ended:
                print(f"{host.name} ended by itself with {code}: {words}")
                if code < 0:
                    wrong.append(f"{host.name} has crashed: {words}")
        refused = [host.name for host in hosts if "another server" in host.log.read_text()]
        return wrong + ([f"{trouble.killed} kills, and a second server of {refused}"] if refused or trouble.killed != options.kills else [])


def tidied(hosts, folder, ids):
    """Returns the folders without a job that are still there when a host has begun again. It leaves what a request may just have made, so what a kill in
    the middle of a request has left is made older here."""
    for path in (folder / "files" / "jobs").iterdir():
        if path.name not in ids:
            os.utime(path, (time.time() - 3600,) * 2)
    hosts[0].kill()
    hosts[0].start().wait_ready()
    return sorted({path.name for path in (folder / "files" / "jobs").iterdir() if path.name.startswith("video_")} - set(ids))


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
        "folders without a job": tidied(front.hosts, folder, videos),
        "without a worker": [again] if again else [],
    }
    by = {name: sum(video["worker"] == name for video in videos.values()) for name in ("h1", "h2", "h3")}
    print(f"{len(ids)} jobs acknowledged: " + ", ".join(f"{len(found)} {what}" for what, found in wrong.items()) +
          f"; made by {', '.join(f'{name} {count}' for name, count in by.items())}; {trouble_seconds:.0f} s of trouble, {seconds:.0f} s in all", flush=True)
    if len(ids) >= 100:  # so many that each of them has its share
        wrong["hosts that made nothing"] = [name for name, count in by.items() if count == 0]
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
        second = front.ask("POST", "/v1/videos", job(1) | {"num_inference_steps": 100}).json["id"]
        wrong += how_far_it_is(front, second)
        wrong += between_two(worker, front, database, id)
        worker.kill()
        gone = front.ask("GET", f"/v1/videos/{second}/content")
        expect(f"an owner that is gone: {gone.body}", gone.status == 503 and "h1" in gone.json["error"]["message"] and "retry-after" in gone.headers)
        kept = front.ask("GET", f"/v1/videos/{id}/content")
        expect("what was fetched before", kept.status == 200 and kept.body == own.body)
        worker.start().wait_ready()
        third = Host(options.build, 3, "127.0.0.1", folder / "files-3", keys, key, database.url, options=(*more, "--role", "worker"))
        stack.callback(third.kill)
        wrong += one_stream(front, worker, third, hard=not options.short)
    print(f"passing on: {len(wrong)} wrong", flush=True)
    return wrong


def one_stream(front, worker, other, hard):
    """Ends the host that makes a job, or kills it, and lets another one go on. Returns what is wrong with the events that a third one streamed meanwhile."""
    id = front.ask("POST", "/v1/videos", job(0) | {"num_frames": 9, "num_inference_steps": 200}).json["id"]
    stream = []
    reader = threading.Thread(target=lambda: stream.append(front.ask("GET", f"/v1/videos/{id}/events", timeout=240)))
    reader.start()
    until = time.monotonic() + 60
    while front.ask("GET", f"/v1/videos/{id}").json["progress"] < 5:
        assert time.monotonic() < until, "a long job does not begin"
        time.sleep(0.05)
    worker.kill() if hard else (worker.process.terminate(), worker.process.wait(20))
    other.start().wait_ready()
    video = wait_ended(front, id, 180)
    reader.join()
    text = stream[0].body.decode() if stream[0] else ""
    numbers = [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]
    again = sum(number == 1 for number in numbers)  # each folder of files counts its own
    late = front.ask("GET", f"/v1/videos/{id}/events", headers={"Last-Event-ID": str(max(numbers, default=0) + 1000)}).body.decode()
    good = video["status"] == "completed" and video["worker"] == other.name and text.count("event: done") == 1 and again >= 2
    wrong = [] if good else [f"a stream over two hosts: {video['status']} by {video['worker']}, began {again} times, events {numbers}, …{text[-200:]}"]
    return wrong + ([] if late.count("event: done") == 1 else [f"events after one that another host counted: {late}"])


def how_far_it_is(front, id):
    """Waits until the job ends elsewhere. Returns what is wrong with what this host tells of it meanwhile."""
    told, until = [], time.monotonic() + 120
    while (video := front.ask("GET", f"/v1/videos/{id}").json)["status"] in ("queued", "in_progress"):
        assert time.monotonic() < until, video
        if video["status"] == "in_progress":
            told.append((video["stage"], video["eta_seconds"]))
        time.sleep(0.05)
    good = any(stage == "denoise" and eta is not None and eta >= 0 for stage, eta in told)
    return [] if good else [f"stage and seconds left of a job elsewhere: {sorted(set(map(str, told)))}"]


def lora(path):
    """Writes a LoRA of the model that ships, whose values are zeros."""
    header, at = {}, 0
    for name, shape in (("lora_A", [4, 384]), ("lora_B", [384, 4])):
        header[f"transformer.blocks.0.attn1.to_q.{name}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * shape[0] * shape[1]]}
        at += 4 * shape[0] * shape[1]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(at))


def by_loras(options, folder):
    """Of two hosts one has a LoRA: it makes all jobs that need it, the other one meanwhile those that need none. When it is gone, they wait and say why."""
    keys, wrong, loras = folder / "keys-of-loras", [], folder / "loras"
    key = new_key(options.build, keys)
    loras.mkdir()
    lora(loras / "film.safetensors")
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(Database())
        plain, styled = (Host(options.build, i, "127.0.0.1", folder / "files-of-loras", keys, key, database.url, options=more)
                         for i, more in ((8, ()), (9, ("--lora-dir", loras))))
        for host in (plain, styled):
            stack.callback(host.kill)
            host.start().wait_ready()
        need = job(0) | {"loras": [{"name": "film", "strength": 0.5}]}
        ids = [styled.ask("POST", "/v1/videos", need | {"seed": seed}).json["id"] for seed in range(3)]
        others = [styled.ask("POST", "/v1/videos", job(1)).json["id"] for _ in range(3)]
        videos = [wait_ended(plain, id) for id in ids + others]
        if any(video["status"] != "completed" for video in videos) or any(video["worker"] != "h9" or not video["why"] for video in videos[:3]):
            wrong.append(f"jobs with a LoRA: {[(video['status'], video['worker'], video['why']) for video in videos]}")
        if not any(video["worker"] == "h8" for video in videos[3:]):
            wrong.append(f"jobs without: {[(video['worker'], video['why']) for video in videos[3:]]}")
        long = styled.ask("POST", "/v1/videos", need | {"num_frames": 65, "num_inference_steps": 500}).json["id"]
        last = styled.ask("POST", "/v1/videos", need | {"seed": 9}).json["id"]
        plain.ask("POST", f"/v1/videos/{long}/cancel"), plain.ask("POST", f"/v1/videos/{last}/pause")
        styled.process.terminate()
        styled.process.wait(20)
        plain.ask("POST", f"/v1/videos/{last}/continue")
        time.sleep(6)  # all have heard that the other one is gone, and looked at the job, unless the machine is busy
        says, until = "no worker that is there has the LoRA `film`", time.monotonic() + 30
        while says not in ((video := plain.ask("GET", f"/v1/videos/{last}").json)["why"] or "") and time.monotonic() < until:
            time.sleep(0.1)
        if video["status"] != "queued" or says not in (video["why"] or ""):
            wrong.append(f"a job whose LoRA nobody has: {video['status']} {video['why']}")
        styled.start().wait_ready()
        if (video := wait_ended(plain, last))["worker"] != "h9" or video["status"] != "completed":
            wrong.append(f"when its host is back: {video}")
    print(f"a LoRA that one of two hosts has: {len(wrong)} wrong", flush=True)
    return wrong


def wait_ended(host, id, seconds=120):
    until = time.monotonic() + seconds
    while (video := host.ask("GET", f"/v1/videos/{id}").json)["status"] in ("queued", "in_progress"):
        assert time.monotonic() < until, video
        time.sleep(0.1)
    return video


def between_two(worker, front, database, made):
    """What the second host asks of the first one: a video of its own files, an end in the middle, a removal."""
    wrong = []
    joined = front.ask("POST", "/v1/videos/join", {"videos": [made, {"id": made, "first_frame": 1}]})
    video = wait_ended(front, joined.json["id"])
    both = [host.ask("GET", f"/v1/videos/{video['id']}/content") for host in (worker, front)]
    if video["status"] != "completed" or both[0].status != 200 or both[0].body != both[1].body:
        wrong.append(f"inputs of another host: {video}")
    kept = worker.files / "jobs" / video["id"]
    there = kept.is_dir()
    front.ask("DELETE", f"/v1/videos/{video['id']}")
    if not there or kept.exists():
        wrong.append(f"the folder of a removed video: it was {'' if there else 'not '}there, and is {'' if kept.exists() else 'not '}there")
    took = []
    while not took or (min(took) > MOST_CANCEL_SECONDS and len(took) < 5):  # a busy machine makes some slow, and a slow server all of them
        took.append(cancel_seconds(front, database))
    print(f"a job of another host was cancelled within {took[-1]:.2f} s", flush=True)
    if min(took) > MOST_CANCEL_SECONDS:
        wrong.append(f"cancels took {', '.join(f'{one:.2f}' for one in took)} s")
    return wrong


def cancel_seconds(front, database):
    """Returns how long a job that another host computes goes on when it is cancelled here."""
    long = front.ask("POST", "/v1/videos", job(2) | {"num_frames": 65, "num_inference_steps": 200}).json["id"]
    until = time.monotonic() + 60
    while front.ask("GET", f"/v1/videos/{long}").json["progress"] < 1:  # it computes
        assert time.monotonic() < until, "a long job does not begin"
        time.sleep(0.05)
    begin = time.monotonic()
    front.ask("POST", f"/v1/videos/{long}/cancel")
    while database.ask(f"SELECT status FROM tachyscope.jobs WHERE id = '{long}'") == "1":
        assert time.monotonic() < begin + 30, "a cancelled job goes on"
    return time.monotonic() - begin


def waiting_apart(options, folder):
    """Jobs that wait for videos which two hosts with folders of their own make: whoever lets them begin fetches what the other one has."""
    secret, keys, wrong = folder / "secret-of-three", folder / "keys-of-three", []
    secret.write_text(os.urandom(32).hex() + "\n")
    secret.chmod(0o600)
    key = new_key(options.build, keys)
    words = ("--cluster-secret-file", secret, "--model", f"may={ROOT / 'tests/golden/image_pipeline/ti2v'}")
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(Database())
        hosts = [Host(options.build, i, "127.0.0.1", folder / f"apart-{i}", keys, key, database.url, options=(*words, "--role", role))
                 for i, role in ((8, "worker"), (9, "worker"), (10, "api"))]
        for host in hosts:
            stack.callback(host.kill)
            host.start()
        for host in hosts:
            host.wait_ready()
        front = hosts[2]

        def made(path, body):
            answer = front.ask("POST", path, body)
            assert answer.status == 200, answer.body
            return answer.json["id"]

        # The first one takes most of a second, so that the other host begins the second one meanwhile, even if it is late.
        size = {"model": "may", "size": "192x192", "num_frames": 17, "num_inference_steps": 1000, "seed": 5}
        first, second = (made("/v1/videos", size | {"prompt": prompt}) for prompt in ("one", "two"))
        on = [made("/v1/videos/extensions", size | {"video": {"id": id}, "prompt": "it goes on", "num_inference_steps": 2}) for id in (first, second)]
        joined = made("/v1/videos/join", {"videos": [first, {"id": on[0], "first_frame": 1}, second, {"id": on[1], "first_frame": 1}]})
        waited = front.ask("GET", f"/v1/videos/{joined}").json
        if not waited["waits_for"]:
            wrong.append(f"waiting apart: it does not wait: {waited}")
        videos = {id: wait_ended(front, id) for id in (first, second, *on, joined)}
        wrong += [f"waiting apart: {video}" for video in videos.values() if video["status"] != "completed"]
        if not wrong and videos[joined]["num_frames"] != 2 * (17 + 16):
            wrong.append(f"waiting apart: {videos[joined]['num_frames']} frames")
        by = [videos[id]["worker"] for id in (first, second)]
        if sorted(by) != ["h8", "h9"]:
            wrong.append(f"waiting apart: both were made by {by}, so nothing was fetched")
        # The picture is that which one gets who goes on when the video is there.
        for source, id in zip((first, second), on):
            later = made("/v1/videos/extensions", size | {"video": {"id": source}, "prompt": "later", "num_inference_steps": 2})
            pictures = [front.ask("GET", f"/v1/videos/{one}/inputs/input_reference") for one in (id, later) if wait_ended(front, one)]
            if pictures[0].status != 200 or pictures[0].body != pictures[1].body:
                wrong.append(f"waiting apart: another picture: {[picture.status for picture in pictures]}")
    print(f"waiting for videos of hosts with folders of their own: {len(wrong)} wrong", flush=True)
    return wrong


def too_large(options, folder):
    """A job for which a host has not got the memory waits for another one that has it, and fails when that is gone."""
    keys, wrong = folder / "keys-of-large", []
    key = new_key(options.build, keys)
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(Database())
        host = Host(options.build, 7, "127.0.0.1", folder / "files-of-large", keys, key, database.url)
        stack.callback(host.kill)
        host.start().wait_ready()
        large = {"size": "2048x2048", "num_frames": 1001, "num_inference_steps": 50}
        refused = host.ask("POST", "/v1/videos", job(0) | large)
        if refused.status != 422:
            wrong.append(f"too large: {refused.status} {refused.body}")
        about = {"role": "worker", "memory_bytes": 1 << 50, "models": [model["id"] for model in host.ask("GET", "/v1/models").json["data"]]}
        database.ask(f"""INSERT INTO tachyscope.hosts (name, address, files, about, seen_ms)
            SELECT 'large', '127.0.0.1:1', 'x', '{json.dumps(about)}', (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint""")
        seen = "UPDATE tachyscope.hosts SET seen_ms = (extract(EPOCH FROM clock_timestamp()) * 1000)::bigint WHERE name = 'large'"
        until = time.monotonic() + 15
        while (answer := host.ask("POST", "/v1/videos", job(0) | large)).status != 200 and time.monotonic() < until:
            time.sleep(0.2)
        if answer.status != 200:
            return [*wrong, f"too large, with a host that has the memory: {answer.status} {answer.body}"]
        id, until = answer.json["id"], time.monotonic() + 60
        while not (video := host.ask("GET", f"/v1/videos/{id}").json)["started_at"] and time.monotonic() < until:
            database.ask(seen)
            time.sleep(0.5)
        database.ask(seen)
        time.sleep(3)  # it would have begun again
        after = host.ask("GET", f"/v1/videos/{id}").json
        if not video["started_at"] or after["status"] != "queued":
            wrong.append(f"too large, left to the other host: {video} {after}")
        database.ask("DELETE FROM tachyscope.hosts WHERE name = 'large'")
        video = wait_ended(host, id, 30)
        if video["status"] != "failed" or video["error"]["code"] != "out_of_memory":
            wrong.append(f"too large, when the other host is gone: {video}")
        begin = time.monotonic()
        host.process.terminate()
        host.process.wait(20)
        again = Host(options.build, 7, "127.0.0.1", folder / "files-of-another", keys, key, database.url)
        stack.callback(again.kill)
        again.start().wait_ready()
        print(f"too large for one host: {len(wrong)} wrong; a host of the same name and another folder began {time.monotonic() - begin:.1f} s later", flush=True)
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
        wrong += waiting_apart(options, folder)
        wrong += by_loras(options, folder)
        wrong += stored(options, folder)
        if not options.short:
            wrong += too_large(options, folder)
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
