#!/usr/bin/env python3
"""Ten thousand clients of one host that shares its queue by a PostgreSQL: each asks for a job of its own every ten seconds. Half of the jobs wait, and
half have ended. Prints the times of GET and what the database computes for it. Then it looks at how soon a change is seen: one of this host at once, one
of another host within a beat.

    pollers.py BUILD [--short] [--pollers N] [--seconds S]"""

import argparse
import os
import pathlib
import resource
import select
import socket
import sys
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "postgres")]

from database import Database, binaries  # noqa: E402
from server import Server  # noqa: E402

EVERY = 10  # seconds between two polls of a client
MOST_P99_MS, BEAT = 50, 5


class Poller:
    """One client: it keeps its connection as long as the server does, and opens another one when it is gone."""

    def __init__(self, port, id):
        self.port, self.socket, self.kept, self.begin, self.got = port, None, False, 0, b""
        self.request = f"GET /v1/videos/{id} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode()

    def ask(self):
        """Sends the request, and returns the socket to wait for."""
        self.got, self.kept = b"", self.socket is not None
        if self.kept:
            try:
                self.socket.send(self.request)
                return self.socket
            except OSError:
                self.close()
        self.socket = socket.socket()
        self.socket.connect(("127.0.0.1", self.port))
        self.socket.setblocking(False)
        self.socket.send(self.request)
        return self.socket

    def read(self):
        """Returns the status when the answer is whole, 0 if there is more to come, and None if the connection was closed before it."""
        try:
            piece = self.socket.recv(65536)
        except BlockingIOError:
            return 0
        except OSError:
            piece = b""
        if not piece:
            return None
        self.got += piece
        head, end, body = self.got.partition(b"\r\n\r\n")
        if not end:
            return 0
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return int(head.split()[1]) if len(body) == length else 0

    def close(self):
        self.socket.close()
        self.socket = None


class Crowd:
    """All pollers, in one thread: their turns are spread evenly over the time between two polls."""

    def __init__(self, port, ids):
        self.pollers, self.waiting, self.times, self.lags, self.reconnected = [Poller(port, id) for id in ids], {}, [], [], 0

    def run(self, seconds):
        ready, begin, count = select.epoll(), time.monotonic(), 0
        until, step = begin + seconds, EVERY / len(self.pollers)
        while self.waiting or count * step < seconds:
            now = time.monotonic()
            assert now < until + 30, f"{len(self.waiting)} answers did not come"
            while (due := begin + count * step) <= min(now, until):
                poller = self.pollers[count % len(self.pollers)]
                if poller.begin:  # it has not been answered for ten seconds
                    raise AssertionError("an answer took longer than the time between two polls")
                poller.begin = time.monotonic()
                self.lags.append(poller.begin - due)
                self.add(ready, poller)
                count += 1
            wait = max(0, due - time.monotonic()) if count * step < seconds else 0.1
            for number, _ in ready.poll(wait):
                self.read(ready, number)
        ready.close()

    def add(self, ready, poller):
        number = poller.ask().fileno()
        self.waiting[number] = poller
        ready.register(number, select.EPOLLIN)

    def read(self, ready, number):
        poller = self.waiting[number]
        status = poller.read()
        if status == 0:
            return
        ready.unregister(number)
        del self.waiting[number]
        if status is None:
            assert poller.kept, "a new connection was closed without an answer"
            poller.close()
            self.reconnected += 1
            return self.add(ready, poller)
        assert status == 200, poller.got
        self.times.append(time.monotonic() - poller.begin)
        poller.begin = 0

    def close(self):
        for poller in self.pollers:
            if poller.socket:
                poller.close()


def make_jobs(server, database, count):
    """Returns the ids of jobs, all but two of which are copies in the table, as if other hosts had made them."""
    first = [server.create(prompt=f"job {n}")["id"] for n in range(2)]
    columns = "owner, paused, priority, place, model, needs, kind, planned_seconds, created_ms, expires_ms, facts, files"
    database.ask(f"""SET search_path = tachyscope; UPDATE jobs SET status = 3, ended_ms = created_ms, error_code = 'cancelled' WHERE id = '{first[1]}';
        INSERT INTO jobs (id, status, ended_ms, {columns}) SELECT 'video_' || md5(n::text), status, ended_ms, {columns}
        FROM generate_series(1, {(count - 2) // 2}) AS n, jobs WHERE n >= 0 AND id = '{first[0]}';
        INSERT INTO jobs (id, status, ended_ms, {columns}) SELECT 'video_' || md5((-n)::text), status, ended_ms, {columns}
        FROM generate_series(1, {(count - 2) // 2}) AS n, jobs WHERE id = '{first[1]}';
        INSERT INTO job_texts SELECT j.seq, t.request, t.settings FROM jobs j, job_texts t WHERE t.seq = (SELECT min(seq) FROM jobs) ON CONFLICT DO NOTHING""")
    ids = database.ask("SELECT id FROM tachyscope.jobs ORDER BY md5(id)").split()
    assert len(ids) == count, len(ids)
    return ids


def processor_seconds(folder):
    """Returns what the database's processes have computed so far."""
    postmaster, ticks = int((folder / "postmaster.pid").read_text().split()[0]), 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if postmaster in (int(pid), int(fields[1])):
            ticks += sum(int(field) for field in fields[11:15 if int(pid) == postmaster else 13])
    return ticks / os.sysconf("SC_CLK_TCK")


def changes_are_seen(server, database, id):
    """Returns after how many seconds a change of another host is seen by a client that asks all the time."""
    slowest = 0
    for progress in range(1, 6):
        assert server.video(id)["progress"] < progress
        begin = time.monotonic()
        database.ask(f"UPDATE tachyscope.jobs SET progress = {progress} WHERE id = '{id}'")
        while server.video(id)["progress"] != progress:
            assert time.monotonic() < begin + BEAT, "another host's change is not seen"
            time.sleep(0.01)
        slowest = max(slowest, time.monotonic() - begin)
    for what, paused in (("pause", True), ("continue", False), ("pause", True)):
        server.video(id), server.ask("POST", f"/v1/videos/{id}/{what}")
        assert server.video(id)["paused"] == paused, f"this host's {what} is not seen at once"
    database.ask(f"DELETE FROM tachyscope.jobs WHERE id = '{id}'")
    begin = time.monotonic()
    while server.ask("GET", f"/v1/videos/{id}").status != 404:
        assert time.monotonic() < begin + BEAT, "a job that another host has removed is still there"
        time.sleep(0.01)
    return slowest


def quantile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))] * 1000


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", type=pathlib.Path)
    options.add_argument("--short", action="store_true")
    options.add_argument("--pollers", type=int)
    options.add_argument("--seconds", type=float)
    options = options.parse_args()
    pollers, seconds = options.pollers or (1000 if options.short else 10_000), options.seconds or (2 if options.short else 60)
    if not binaries():
        print("skipped: PostgreSQL is not here (Debian's package postgresql has it)")
        return 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with Database() as database, Server(options.build.resolve(), "--database", database.url, "--name", "front", "--role", "api", "--queue", 20_000) as server:
        server.wait_ready()
        ids = make_jobs(server, database, pollers)
        crowd = Crowd(server.port, ids)
        crowd.run(min(seconds, EVERY))  # each of them has asked once
        crowd.times, crowd.lags, crowd.reconnected = [], [], 0
        before, own = processor_seconds(database.data), server.processor_seconds()
        crowd.run(seconds)
        used, own = processor_seconds(database.data) - before, server.processor_seconds() - own
        crowd.close()
        seen = changes_are_seen(server, database, database.ask("SELECT min(id) FROM tachyscope.jobs WHERE status = 0"))
        memory = server.memory_kb() / 1000
        server.end()
    p99 = quantile(crowd.times, 0.99)
    print(f"{pollers} pollers, each of a job of its own, {len(crowd.times) / seconds:.0f} polls a second; {os.cpu_count()} processors, whose load is {os.getloadavg()[0]:.1f}")
    print(f"GET: p50 {quantile(crowd.times, 0.5):.1f} ms, p99 {p99:.1f} ms (at most {MOST_P99_MS}), slowest {max(crowd.times) * 1000:.0f} ms; "
          f"the clients were late by {quantile(crowd.lags, 0.99):.1f} ms in p99, and {crowd.reconnected} of their connections had been closed")
    print(f"processor: {own / seconds:.3f} s a second for the server, {used / seconds:.3f} for the database; {memory:.0f} MB of memory")
    print(f"another host's change is seen within {seen:.1f} s, this host's own at once")
    return 1 if p99 > MOST_P99_MS and not options.short else 0


if __name__ == "__main__":
    sys.exit(main())
