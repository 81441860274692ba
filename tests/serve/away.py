#!/usr/bin/env python3
"""Tests the server with a PostgreSQL that refuses it, goes away, or whose clock differs from the server's.

    away.py BUILD [--short]"""

import contextlib
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from server import ROOT, TICK, Server  # noqa: E402

sys.path.insert(0, str(ROOT / "tests/postgres"))

from database import Database, binaries  # noqa: E402

LONG = {"num_frames": 33, "num_inference_steps": 10}  # several seconds
FAR = "+1h"


def refusal(build, url, code, *words):
    """Expects that a server does not begin with this address, and that it does not repeat the password."""
    with tempfile.TemporaryDirectory() as files:
        command = [str(build / "tachyscope-serve"), "--port", "0", "--files", files, "--database", url]
        done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, timeout=60)
    assert done.returncode == code, (url, done.returncode, done.stderr)
    for word in words:
        assert word in done.stderr, (word, done.stderr)
    assert "only for tests" not in done.stderr and "only%20for" not in done.stderr and "no-such-word" not in done.stderr, done.stderr


def refusals(build, database):
    refusal(build, "mysql://u:no-such-word@h/d", 2, "--database", "postgresql://")
    refusal(build, "postgresql://u:no-such-word@h:port/d", 2, "--database")
    refusal(build, database.url_of("tachy", "no-such-word"), 6, "password authentication failed")
    refusal(build, database.url.replace("/postgres", "/none"), 6, "does not exist")
    version = database.ask("SELECT version FROM tachyscope.schema_version")
    database.ask("UPDATE tachyscope.schema_version SET version = 1000, works_with = 1000")
    refusal(build, database.url, 5, "newer version", "1000")
    database.ask(f"UPDATE tachyscope.schema_version SET version = {version}, works_with = 1")


def content(server, id):
    answer = server.ask("GET", f"/v1/videos/{id}/content")
    assert answer.status == 200, answer.body
    return hashlib.sha256(answer.body).hexdigest()


def wait_answered(server, path):
    until = time.monotonic() + 30
    while (answer := server.ask("GET", path)).status == 503:
        assert time.monotonic() < until, answer.body
        time.sleep(TICK)
    return answer


def goes_away(server, database, how):
    """A job that is computed while the database is away is made to its end, with the same bytes."""
    want = content(server, wait_completed(server, server.create(**LONG)["id"]))
    id = server.create(**LONG)["id"]
    while server.video(id)["status"] == "queued":
        time.sleep(TICK)
    database.stop(how)
    begin = time.monotonic()
    for method, path, body in (("GET", f"/v1/videos/{id}", None), ("GET", "/v1/videos", None), ("POST", "/v1/videos", {"prompt": "x"})):
        answer = server.ask(method, path, body)
        assert answer.status == 503 and answer.code == "not_available" and int(answer.headers["retry-after"]) > 0, (path, answer.status, answer.body)
    took = time.monotonic() - begin
    assert took < 2, f"{took:.1f} s to say that the database is away"
    assert server.ask("GET", "/health").status == 200
    time.sleep(8)  # the job is done by now
    database.start()
    wait_answered(server, f"/v1/videos/{id}")
    assert content(server, wait_completed(server, id)) == want
    print(f"ok      the database is away ({how}): 503 at once, and the job is there afterwards", flush=True)


def wait_completed(server, id):
    video = server.wait(id)
    assert video["status"] == "completed", video
    return id


def begins_later(build, database):
    """A server waits for a database that begins a little later than it does."""
    database.stop()
    with tempfile.TemporaryDirectory() as files:
        command = [str(build / "tachyscope-serve"), "--port", "0", "--json", "--files", files, "--database", database.url, "--name", "later"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT)
        time.sleep(2)
        database.start()
        assert b"listening" in process.stdout.readline()
        process.terminate()
        assert process.wait(20) == 0
    print("ok      the server begins before the database", flush=True)


def other_clock(build, database):
    """The machine's clock is an hour ahead of the database's: only the latter counts."""
    library = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
    if not library:
        print("skipped another clock: libfaketime is not here (Debian's package faketime has it)")
        return
    environment = {"LD_PRELOAD": str(library), "FAKETIME": FAR, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}
    seen = int(subprocess.run(["date", "+%s"], env=os.environ | environment, check=True, stdout=subprocess.PIPE).stdout)
    assert seen - time.time() > 3500, "the clock that the server sees is not another one"
    with Server(build, "--database", database.url, "--name", "ahead", environment=environment) as server:
        server.wait_ready()
        id = wait_completed(server, server.create()["id"])
        video = server.video(id)
        for field in ("created_at", "started_at", "completed_at"):
            assert abs(video[field] - time.time()) < 60, (field, video[field], time.time())
        link = server.ask("GET", f"/v1/videos/{id}/link").json
        assert abs(link["expires_at"] - time.time()) < 660, link
        assert server.ask("GET", link["url"]).status == 200
        until = int(database.ask("SELECT until_ms FROM tachyscope.workers")) / 1000
        assert 0 < until - time.time() < 40, until - time.time()
        server.end()
    print("ok      a server's clock is an hour off", flush=True)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if not binaries():
        print("skipped: PostgreSQL is not here (Debian's package postgresql has it)")
        return 0
    begin = time.monotonic()
    files = tempfile.mkdtemp(prefix="tachyscope-serve-")
    with Database() as database, contextlib.ExitStack() as last:
        last.callback(shutil.rmtree, files, ignore_errors=True)
        with Server(build, "--database", database.url, files=files) as server:
            server.wait_ready()
            for how in ("fast",) if "--short" in sys.argv else ("fast", "immediate"):
                goes_away(server, database, how)
            server.end()
        assert database.ask("SELECT count(*) FROM tachyscope.workers") == "0", "the lease of a server that has ended"
        refusals(build, database)
        print("ok      refusals", flush=True)
        begins_later(build, database)
        other_clock(build, database)
    print(f"{time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
