#!/usr/bin/env python3
"""Fills the folder that several hosts share while they make videos, and makes room again. As long as it is full, a new job is refused with the reason, those
under way go back into the queue with the states that they had, no other one begins, and each says why it waits. A host that is killed then comes up again.
With room, every job is made, once, with the bytes of a run that nobody disturbed. It takes root, who may mount a small disk; elsewhere it says so.

    full.py BUILD [--short]

--short is with two hosts."""

import contextlib
import errno
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "postgres")]

from cuts import OWN_MOUNTS  # noqa: E402
from database import Database, binaries  # noqa: E402
from hosts import Host, everything, new_key  # noqa: E402
from kills import job  # noqa: E402

DISK_MIB = 96  # more than the room without which no job begins
LONG = job(0) | {"num_frames": 17, "num_inference_steps": 40}  # several seconds
MOST_WORDS = 2  # about the full disk in a host's log: when it was seen, and once more after a start


def mount(folder):
    """Returns whether a small disk is on the folder now."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(f"skipped: only root may mount a small disk ({done.stdout.strip()})")
    return done.returncode == 0


def fill(disk):
    """Takes all the room that is left."""
    with open(disk / "filler", "ab", buffering=0) as filler:
        for size in (1 << 20, 4096, 1):
            try:
                while filler.write(b"\0" * size) == size:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def create(host, fields):
    answer = host.ask("POST", "/v1/videos", fields)
    assert answer and answer.status == 200, answer and answer.body
    return answer.json["id"]


def sum_of(host, id):
    answer = host.ask("GET", f"/v1/videos/{id}/content")
    return hashlib.sha256(answer.body).hexdigest() if answer and answer.status == 200 else None


def wait_for(what, truth, seconds=240):
    until = time.monotonic() + seconds
    while not (found := truth()):
        assert time.monotonic() < until, f"within {seconds} s not: {what}"
        time.sleep(0.2)
    return found


class Trial:
    def __init__(self, hosts, database, disk):
        self.hosts, self.database, self.disk, self.wrong = hosts, database, disk, []

    def expect(self, what, truth):
        if not truth:
            self.wrong.append(what)

    def videos(self, ids):
        return [self.hosts[0].ask("GET", f"/v1/videos/{id}").json for id in ids]

    def run(self):
        front = self.hosts[0]
        kinds = [job(0), job(1), LONG]
        former = [create(front, fields) for fields in kinds]
        wait_for("the first videos", lambda: all(video["status"] == "completed" for video in self.videos(former)))
        want = [sum_of(front, id) for id in former]
        long = [create(front, LONG) for _ in self.hosts]
        more = {create(front, kinds[number % 2]): want[number % 2] for number in range(2 * len(self.hosts) - 2)}
        ids = dict.fromkeys(long, want[2]) | more
        wait_for("a job on each host", lambda: len({video["worker"] for video in self.videos(long) if video["progress"] > 0}) == len(self.hosts))
        self.while_full(ids, former, want)
        (self.disk / "filler").unlink()
        begin = time.monotonic()
        wait_for("all videos", lambda: all(video["status"] in ("completed", "failed") for video in self.videos(ids)))
        self.judge(ids, former, time.monotonic() - begin)

    def while_full(self, ids, former, want):
        def none_computes():
            fill(self.disk)  # whatever a run that has ended has left
            return all(video["status"] != "in_progress" for video in self.videos(ids))

        fill(self.disk)
        for host in self.hosts:
            answer = host.ask("POST", "/v1/videos", job(0))
            self.expect(f"a new job: {answer.status} {answer.body}", answer.status == 503 and answer.code == "not_available" and
                        "full" in answer.json["error"]["message"] and int(answer.headers["retry-after"]) > 0)
        wait_for("no job computes", none_computes)
        self.expect(f"jobs have ended: {[(video['status'], video['error']) for video in self.videos(ids)]}",
                    all(video["status"] == "queued" for video in self.videos(ids)))
        for host in self.hosts:
            wait_for(f"the reason why jobs wait, from {host.name}",
                     lambda: all("full" in (host.ask("GET", f"/v1/videos/{id}").json["why"] or "") for id in ids), 30)
        self.expect("videos that are there", [sum_of(host, former[0]) for host in self.hosts] == [want[0]] * len(self.hosts))
        begun = self.attempts()
        self.hosts[1].kill()
        self.hosts[1].start().wait_ready()
        time.sleep(3)
        fill(self.disk)
        self.expect(f"jobs have begun without room: {begun} and {self.attempts()} attempts", self.attempts() == begun)

    def attempts(self):
        return int(self.database.ask("SELECT sum(attempts) FROM tachyscope.jobs"))

    def judge(self, ids, former, seconds):
        videos = {video["id"]: video for video in everything(self.hosts[0])}
        failed = [(id, video["error"]) for id, video in videos.items() if video["status"] != "completed"]
        lost = sorted({*ids, *former} - set(videos))
        strangers = sorted({path.name for path in (self.disk / "files" / "jobs").iterdir()} | set(videos) - {*ids, *former})
        strangers = [name for name in strangers if name not in ids and name not in former]
        other = [id for id, sum in ids.items() if sum_of(self.hosts[-1], id) != sum]
        counted = int(self.database.ask("SELECT coalesce(sum(jobs), 0) FROM tachyscope.usage"))
        words = {host.name: host.log.read_text(errors="replace").count("so no job begins") for host in self.hosts}
        self.expect(f"failed: {failed}", not failed)
        self.expect(f"lost: {lost}", not lost)
        self.expect(f"strangers: {strangers}", not strangers)
        self.expect(f"with other bytes: {other}", not other)
        self.expect(f"{counted} counted", counted == len(ids) + len(former))
        self.expect(f"how often the logs say that the disk is full: {words}", all(1 <= count <= MOST_WORDS for count in words.values()))
        print(f"{len(ids)} jobs while the folder of {len(self.hosts)} hosts was full: {len(failed)} failed, {len(lost)} lost, {len(strangers)} doubled or left, "
              f"{len(other)} with other bytes; all were made {seconds:.0f} s after there was room", flush=True)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if not binaries():
        print("skipped: PostgreSQL is not here (Debian's package postgresql has it)")
        return 0
    if OWN_MOUNTS not in os.environ and os.geteuid() == 0 and shutil.which("unshare"):
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, *sys.argv], os.environ | {OWN_MOUNTS: "1"})  # nobody else sees the disk
    begin, folder = time.monotonic(), pathlib.Path(tempfile.mkdtemp(prefix="tachyscope-full-"))
    with contextlib.ExitStack() as last:
        last.callback(shutil.rmtree, folder, ignore_errors=True)
        disk, keys = folder / "disk", folder / "keys"
        if not mount(disk):
            return 0
        last.callback(subprocess.run, ["umount", "-l", disk])
        database = last.enter_context(Database())
        key = new_key(build, keys)
        hosts = [Host(build, number, "127.0.0.1", disk / "files", keys, key, database.url) for number in ((11, 12) if "--short" in sys.argv else (11, 12, 13))]
        for host in hosts:
            host.command.remove("--quiet")  # its log is looked at
            last.callback(host.kill)
            host.start()
        for host in hosts:
            host.wait_ready()
        trial = Trial(hosts, database, disk)
        trial.run()
        if trial.wrong:
            print(*(f"the log of {host.name}: {host.log.read_text(errors='replace')[-2000:]}" for host in hosts), sep="\n")
    print(f"{time.monotonic() - begin:.0f} s")
    for text in trial.wrong:
        print(text)
    return 1 if trial.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
