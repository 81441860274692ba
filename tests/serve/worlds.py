#!/usr/bin/env python3
"""A world's page within the server: a visit interrupts the job under way, whose file then has the bytes of an undisturbed run; who gets in where there
are keys; and that a server with a visitor ends in time.

    worlds.py BUILD"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from server import Server  # noqa: E402

LARGE = {"size": "256x256", "num_frames": 33}
LONG = {"num_frames": 17, "num_inference_steps": 60, "seed": 11}


class Visit:
    """The socket of a visitor, who takes every frame."""

    def __init__(self, server, first=None, headers=None):
        self.socket = connect(f"ws://127.0.0.1:{server.port}/world/world/socket", origin=server.base, additional_headers=headers or {}, max_size=None)
        if first is not None:
            self.socket.send(json.dumps(first))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def event(self, type, **values):
        """Returns the next event of that type and with these values."""
        while True:
            message = self.socket.recv(60)
            if isinstance(message, bytes):
                self.socket.send(json.dumps({"type": "seen", "sequence": int.from_bytes(message[8:16], "little")}))
                if type == "frame":
                    return message
            elif (event := json.loads(message))["type"] == type and all(event.get(name) == value for name, value in values.items()):
                return event

    def walk(self, frames):
        self.event("hello")
        self.socket.send(json.dumps({"type": "start"}))
        for _ in range(frames):
            assert self.event("frame")[:4] == b"TYF1"


def wait_status(server, id, status, seconds=60):
    until = time.monotonic() + seconds
    while server.video(id)["status"] != status:
        assert time.monotonic() < until, (status, server.video(id))
        time.sleep(0.02)


def content(server, id):
    answer = server.ask("GET", f"/v1/videos/{id}/content")
    assert answer.status == 200, answer.body
    return hashlib.sha256(answer.body).hexdigest()


def a_visit_interrupts_a_job(build, folder):
    with Server(build, files=folder) as server:
        server.wait_ready()
        assert [model["id"] for model in server.ask("GET", "/v1/models").json["data"] if model["kind"] == "world"] == ["world"]
        undisturbed = server.create(**LONG)["id"]
        assert server.wait(undisturbed)["status"] == "completed"
        job = server.create(**LONG)["id"]
        wait_status(server, job, "in_progress")
        time.sleep(1)
        assert server.video(job)["status"] == "in_progress", "the job is too short for this test"
        with Visit(server) as visit:
            visit.walk(1)
            progress = server.video(job)["progress"]
            assert server.video(job)["status"] == "queued" and progress < 100
            for _ in range(20):
                visit.event("frame")
            assert server.video(job)["status"] == "queued", "it waits as long as the visitor is there"
            assert server.video(job)["progress"] == progress
            # A video is planned as if the world were closed, since that is when it begins, and the answer says that it waits.
            plan = server.ask("POST", "/v1/videos/plan", {"prompt": "a cat"} | LARGE).json
            assert plan["fits"] and plan["waits_for_world"], plan
            busy = server.ask("GET", "/world/world/state").json
            assert busy["busy"], busy
            try:
                Visit(server)
                raise AssertionError("two visitors have the world")
            except InvalidStatus as refused:
                assert refused.response.status_code == 503
        wait_status(server, job, "in_progress", 20)
        again = server.ask("POST", "/v1/videos/plan", {"prompt": "a cat"} | LARGE).json
        assert not again["waits_for_world"] and again["host_bytes"] == plan["host_bytes"], (plan, again)
        assert server.wait(job)["status"] == "completed"
        assert content(server, job) == content(server, undisturbed), "an interrupted job has other bytes"
        server.end()


def with_keys_a_ticket_comes_first(build, folder):
    keys = folder / "keys"
    made = subprocess.run([build / "tachyscope-serve", "--keys", keys, "--new-key", "alice"], capture_output=True, text=True, timeout=60)
    key = {"Authorization": f"Bearer {made.stdout.strip()}"}
    with Server(build, "--keys", keys, files=folder) as server:
        for path, status in (("", 200), ("/", 200), ("/main.js", 200), ("/state", 401), ("/recording?id=x", 401)):
            assert server.ask("GET", "/world/world" + path).status == status, path
        assert server.ask("POST", "/world/world/ticket").status == 401
        assert server.ask("POST", "/world/sprites/ticket", headers=key).status == 404
        assert server.ask("POST", "/world/world/ticket", headers=key | {"Origin": "http://evil.example"}).code == "forbidden_origin"
        ticket = server.ask("POST", "/world/world/ticket", headers=key).json
        first = {"type": "ticket", "ticket": ticket["ticket"]}
        with Visit(server, first) as visit:
            visit.walk(5)
            with Visit(server, first) as second:
                assert second.event("closing")["reason"] == "ticket"
        with Visit(server, {"type": "start"}) as stranger:
            assert stranger.event("closing")["reason"] == "protocol"
            try:
                stranger.event("hello")
                raise AssertionError("a stranger has the world")
            except ConnectionClosed:
                pass
        until = time.monotonic() + 20
        while server.ask("GET", "/world/world/state", headers=key).json["busy"]:
            assert time.monotonic() < until
            time.sleep(0.05)
        with Visit(server, headers=key) as visit:
            visit.walk(5)
        server.end()


def a_foreign_page_gets_no_world(build, folder):
    with Server(build, files=folder) as server:
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
            for path in ("/world/world", "/world/world/state"):
                assert server.ask("GET", path, headers=headers).status == 403, (headers, path)
        assert server.ask("POST", "/world/world/ticket").code == "not_found", "without keys nobody needs a ticket"
        server.end()


def it_ends_in_time_with_a_visitor(build, folder):
    with Server(build, files=folder) as server:
        server.wait_ready()
        with Visit(server) as visit:
            visit.walk(3)
            seconds = server.end()
            assert seconds < 5, seconds


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    for check in (a_visit_interrupts_a_job, with_keys_a_ticket_comes_first, a_foreign_page_gets_no_world, it_ends_in_time_with_a_visitor):
        with tempfile.TemporaryDirectory(prefix="tachyscope-serve-") as folder:
            begin = time.monotonic()
            check(build, pathlib.Path(folder))
            print(f"{check.__name__}: {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
