#!/usr/bin/env python3
"""Measures what the table of jobs costs a PostgreSQL: calls a second, and the processor's time of the database for each, which does not depend on who
else computes on the machine.

    bench/lab/postgres_load.py BUILD"""

import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/postgres"))

from database import Database  # noqa: E402

DURABLE = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB"}
# kind, count, threads, jobs that wait
RUNS = [("life", 1000, 4, 0), ("insert", 2000, 4, 0), ("poll", 20000, 4, 1000), ("beat", 5000, 4, 0), ("lost", 2000, 4, 0), ("look", 500, 4, 1000),
        ("look", 200, 4, 10000), ("life", 500, 4, 10000)]


def stat(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[1]), [int(field) for field in fields[11:15]]


def spent(postmaster):
    """Returns the seconds that the database's processes have computed, those that have ended as well."""
    ticks = sum(stat(postmaster)[1])
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent, times = stat(pid)
        except OSError:
            continue
        if parent == postmaster:
            ticks += sum(times[:2])
    return ticks / os.sysconf("SC_CLK_TCK")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with Database(settings=DURABLE) as database:
        postmaster = int((database.data / "postmaster.pid").read_text().split()[0])
        for kind, count, threads, queued in RUNS:
            words = [str(word) for word in (build / "bench/lab/postgres_load", kind, count, threads, queued)]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"TACHY_DATABASE": database.url}) as one:
                assert one.stdout.readline() == "begin\n"
                before = spent(postmaster)
                one.stdin.write("\n")
                one.stdin.flush()
                told = json.loads(one.stdout.readline())
                used = spent(postmaster) - before
                one.communicate("\n")
            print(f"{kind:9} queue {queued:6}: {count / told['seconds']:8.0f}/s, {used / count * 1e3:7.3f} ms of the database, median {told['median_ms']:.2f} ms, "
                  f"p99 {told['p99_ms']:.2f} ms", flush=True)
            if kind in ("insert", "life"):
                database.ask("DELETE FROM tachyscope.jobs WHERE status < 2")
                database.ask("VACUUM ANALYZE tachyscope.jobs")


if __name__ == "__main__":
    sys.exit(main())
