#!/usr/bin/env python3
"""Tests the server with a PostgreSQL that refuses it, is not there, goes away, or whose clock differs from the server's, and with a folder that it may not use.

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
from store import Store  # noqa: E402

sys.path.insert(0, str(ROOT / "tests/postgres"))

from database import Database, binaries  # noqa: E402

LONG = {"num_frames": 33, "num_inference_steps": 10}  # several seconds
HOUR = 3600


def refusal(build, url, code, *words):
    """Expects that a server does not begin with this address, and that it does not repeat the password."""
    with tempfile.TemporaryDirectory() as files:
        expect_refusal(begin(build, url, files), code, *words)


def begin(build, url, files, *before):
    command = [*before, str(build / "tachyscope-serve"), "--port", "0", "--files", files, "--database", url]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def expect_refusal(process, code, *words):
    try:
        said = process.communicate(timeout=90)[1]
    finally:
        process.kill()
    assert process.returncode == code, (process.args, process.returncode, said)
    for word in words:
        assert word in said, (word, said)
    assert "only for tests" not in said and "only%20for" not in said and "no-such-word" not in said, said


def refusals(build, database):
    refusal(build, "mysql://u:no-such-word@h/d", 2, "--database", "postgresql://")
    refusal(build, "postgresql://u:no-such-word@h:port/d", 2, "--database")
    refusal(build, database.url_of("tachy", "no-such-word"), 6, "password authentication failed")
    refusal(build, database.url.replace("/postgres", "/none"), 6, "does not exist")
    version = database.ask("SELECT version FROM tachyscope.schema_version")
    database.ask("UPDATE tachyscope.schema_version SET version = 1000, works_with = 1000")
    refusal(build, database.url, 5, "newer version", "1000")
    database.ask(f"UPDATE tachyscope.schema_version SET version = {version}, works_with = 1")
    database.ask("CREATE ROLE weak LOGIN PASSWORD 'no-such-word'")
    weak = database.url_of("weak", "no-such-word")
    refusal(build, weak, 6, "permission denied", "GRANT USAGE")
    database.ask("GRANT USAGE ON SCHEMA tachyscope TO weak; GRANT SELECT ON ALL TABLES IN SCHEMA tachyscope TO weak")
    refusal(build, weak, 6, "permission denied", "GRANT")
    database.ask("DROP OWNED BY weak; DROP ROLE weak")
    print("ok      refusals: an address, a password, a database, rights, tables of a newer version", flush=True)


def without_rights(build, database):
    """A server whose folder of files belongs to somebody else says so."""
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder) / "files"
        files.mkdir(mode=0o500)
        os.chmod(folder, 0o755)
        other_user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        expect_refusal(begin(build, database.url, str(files), *other_user), 6, str(files), "Permission denied")
    print("ok      a folder that the server may not write", flush=True)


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
    assert took < 5, f"{took:.1f} s to say that the database is away"
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


def clock_of(library, seconds):
    """Returns the environment of a process whose clock differs by so much, or None if that cannot be had."""
    environment = {"LD_PRELOAD": str(library), "FAKETIME": f"{seconds:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}
    seen = int(subprocess.run(["date", "+%s"], env=os.environ | environment, check=True, stdout=subprocess.PIPE).stdout)
    assert abs(seen - time.time() - seconds) < 100, "the clock that the server sees is not another one"
    return environment


def other_clocks(build, database):
    """Two hosts share a folder. The clock of one is an hour ahead of the database's, that of the other an hour behind: only the database's counts."""
    library = next(iter(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
    if not library:
        print("skipped other clocks: libfaketime is not here (Debian's package faketime has it)")
        return
    with contextlib.ExitStack() as last:
        files = tempfile.mkdtemp(prefix="tachyscope-serve-")
        last.callback(shutil.rmtree, files, ignore_errors=True)
        store = last.enter_context(Store("an-id", "a secret"))
        keys = {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a secret", "AWS_ENDPOINT_URL": store.url}
        words = ("--database", database.url, "--store", "s3://videos/clocks")
        hosts = [last.enter_context(Server(build, *words, "--name", name, files=files, environment=keys | clock_of(library, seconds)))
                 for name, seconds in (("ahead", HOUR), ("behind", -HOUR))]
        for host in hosts:
            host.wait_ready()
        ids = [hosts[number % 2].create(**LONG)["id"] for number in range(4)]
        while any(host.video(ids[0])["status"] == "queued" for host in hosts):
            time.sleep(TICK)
        until = database.ask("SELECT until_ms FROM tachyscope.workers").split()
        assert len(until) == 2 and all(0 < int(one) / 1000 - time.time() < 40 for one in until), (until, time.time())
        hosts[0].end()  # a start tidies the folder, where the other one is at work
        hosts[0].start()
        hosts[0].wait_ready()
        for id in ids:
            wait_completed(hosts[1], id)
        for host in hosts:
            for id in ids:
                times_are_right(host, id)
        assert len({content(host, id) for host in hosts for id in ids}) == 1
        assert not store.refused and all(f"/videos/clocks/{id}/video.mp4" in store.objects for id in ids), (store.refused, sorted(store.objects))
        made = {hosts[0].video(id)["worker"] for id in ids}
        for host in hosts:
            host.end()
    print(f"ok      the clocks of two hosts are an hour off, ahead and behind; videos were made by {' and '.join(sorted(made))}", flush=True)


def times_are_right(host, id):
    video = host.video(id)
    for field in ("created_at", "started_at", "completed_at"):
        assert abs(video[field] - time.time()) < 300, (field, video[field], time.time())
    link = host.ask("GET", f"/v1/videos/{id}/link").json
    assert abs(link["expires_at"] - time.time()) < 660, link
    assert host.ask("GET", link["url"]).status == 200


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if not binaries():
        print("skipped: PostgreSQL is not here (Debian's package postgresql has it)")
        return 0
    start = time.monotonic()
    files, of_nowhere = tempfile.mkdtemp(prefix="tachyscope-serve-"), tempfile.mkdtemp(prefix="tachyscope-serve-")
    with Database() as database, contextlib.ExitStack() as last:
        for folder in (files, of_nowhere):
            last.callback(shutil.rmtree, folder, ignore_errors=True)
        nowhere = begin(build, "postgresql://tachy:no-such-word@127.0.0.1:1/postgres", of_nowhere)  # it tries for half a minute
        last.callback(nowhere.kill)
        with Server(build, "--database", database.url, files=files) as server:
            server.wait_ready()
            for how in ("fast",) if "--short" in sys.argv else ("fast", "immediate"):
                goes_away(server, database, how)
            server.end()
        assert database.ask("SELECT count(*) FROM tachyscope.workers") == "0", "the lease of a server that has ended"
        refusals(build, database)
        without_rights(build, database)
        begins_later(build, database)
        other_clocks(build, database)
        expect_refusal(nowhere, 6, "127.0.0.1:1", "refused")
        print("ok      a database that is not there: the server ends, and says so", flush=True)
    print(f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
