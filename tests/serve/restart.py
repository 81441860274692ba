#!/usr/bin/env python3
"""Starts a server that has 10,000 finished videos, each with its folder, and measures what it takes until it is ready and lists them: its own processor
seconds, which do not depend on what else the machine does.

    restart.py BUILD [--short]"""

import argparse
import os
import secrets
import sqlite3
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from server import Server  # noqa: E402

VIDEOS, MOST_SECONDS = 10_000, 2


def copies(server, id, count):
    """Gives the server's table that many copies of a finished video, and each a folder with the same files."""
    table = sqlite3.connect(server.files / "tachyscope.db")
    table.row_factory = sqlite3.Row
    job = dict(table.execute("SELECT * FROM jobs WHERE id = ?", (id,)).fetchone())
    texts = dict(table.execute("SELECT * FROM job_texts WHERE seq = ?", (job["seq"],)).fetchone())
    files = [file for file in (server.files / "jobs" / id).iterdir() if file.is_file()]
    for number in range(count):
        copy = "video_" + secrets.token_hex((len(id) - len("video_")) // 2)
        for name, row in (("jobs", job | {"id": copy, "seq": job["seq"] + 1 + number}), ("job_texts", texts | {"seq": job["seq"] + 1 + number})):
            table.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
        folder = server.files / "jobs" / copy
        folder.mkdir()
        for file in files:
            os.link(file, folder / file.name)
    table.commit()
    table.close()


def started(server):
    """Starts the server, and returns the processor's and the clock's seconds until it is ready."""
    begin = time.monotonic()
    server.start()
    server.wait_ready()
    page = server.ask("GET", "/v1/videos?limit=100").json
    return server.processor_seconds(), time.monotonic() - begin, len(page["data"])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build")
    options.add_argument("--short", action="store_true")
    options = options.parse_args()
    with Server(options.build) as server:
        server.wait_ready()
        id = server.create()["id"]
        assert server.wait(id)["status"] == "completed"
        server.end()
        few, _, _ = started(server)
        server.end()
        copies(server, id, VIDEOS - 1)
        seconds, clock, listed = started(server)
        assert listed == 100, listed
        server.end()
    print(f"{VIDEOS:,} videos: ready after {seconds:.2f} s of the processor and {clock:.2f} s by the clock (at most {MOST_SECONDS}); with one video {few:.2f} s")
    return 1 if seconds > MOST_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
