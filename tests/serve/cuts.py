#!/usr/bin/env python3
"""Cuts the server's file system off at random moments, as a cable that is pulled would: an ext4 image on a loop device is shut down without writing what
its log has not got yet, everything the server then asks of it fails, and the image is mounted again. After each cut the server is started on what is left.
Every job that was acknowledged must be there once and complete, with the bytes of a run that nobody disturbed. It takes root; elsewhere it says so.

    cuts.py BUILD [--short] [--cuts N] [--seed N]"""

import argparse
import fcntl
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from kills import Maker, judge, reference, report, stage_now  # noqa: E402
from server import Server  # noqa: E402

# EXT4_IOC_SHUTDOWN, which is _IOR('X', 125, __u32), with EXT4_GOING_FLAGS_NOLOGFLUSH.
SHUTDOWN, WITHOUT_ITS_LOG = 0x8004587D, struct.pack("I", 2)

OWN_MOUNTS = "TACHY_CUTS_HAS_OWN_MOUNTS"


class Disk:
    """A file system in an image, mounted on a folder."""

    def __init__(self, folder):
        self.image, self.place = folder / "image", folder / "disk"
        self.place.mkdir()
        with open(self.image, "wb") as file:
            file.truncate(512 << 20)
        subprocess.run(["mkfs.ext4", "-q", self.image], check=True)
        self.mount()

    def mount(self):
        subprocess.run(["mount", "-o", "loop", self.image, self.place], check=True, stderr=subprocess.DEVNULL)

    def cut(self):
        handle = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, SHUTDOWN, WITHOUT_ITS_LOG)
        finally:
            os.close(handle)

    def unmount(self):
        subprocess.run(["umount", self.place], check=True)

    def heal(self):
        """Mounts the image anew, which takes over what its log has, and looks whether it is whole."""
        self.unmount()
        subprocess.run(["e2fsck", "-p", self.image], stdout=subprocess.DEVNULL)
        check = subprocess.run(["e2fsck", "-fn", self.image], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert check.returncode == 0, check.stdout
        self.mount()


def disk_or_none(folder):
    try:
        return Disk(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no image can be mounted here, so nothing was cut off: {error}")
        return None


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build")
    options.add_argument("--short", action="store_true")
    options.add_argument("--cuts", type=int)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options = options.parse_args()
    if OWN_MOUNTS not in os.environ and shutil.which("unshare"):
        # A process that gets mounts of its own while the image is mounted would keep it in use, and the image could not be mounted anew.
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, *sys.argv], os.environ | {OWN_MOUNTS: "1"})
    cuts = options.cuts or (3 if options.short else 20)
    draw, begin = random.Random(options.seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tachyscope-cuts-") as folder:
        disk = disk_or_none(pathlib.Path(folder))
        if not disk:
            return 0
        try:
            want, job_seconds = reference(options.build)
            print(f"{cuts} cuts, seed {options.seed}; {len(want)} kinds of jobs, {job_seconds:.1f} s each", flush=True)
            return cut_and_judge(options.build, disk, cuts, draw, want, job_seconds, begin)
        finally:
            disk.unmount()


def cut_and_judge(build, disk, cuts, draw, want, job_seconds, begin):
    stages = {}
    files = disk.place / "files"
    files.mkdir()
    with Server(build, files=files) as server:
        server.wait_ready()
        # Whoever asks while the disk is gone gets 500, and tries again.
        maker = Maker(server, most=10**9, refusals=(500, 503))
        maker.start()
        for _ in range(cuts):
            time.sleep(draw.uniform(0, 1.5 * job_seconds))
            stage = stage_now(server)
            stages[stage] = stages.get(stage, 0) + 1
            disk.cut()
            time.sleep(draw.uniform(0, 1))  # it meets errors everywhere, and must not take them for an answer
            server.kill()
            disk.heal()
            server.start()
            server.wait_ready()
        maker.stop = True
        maker.join(60)
        ids = dict(maker.ids)
        bad = judge(server, ids, want)
        server.end()
    return report(stages, ids, bad, begin)


if __name__ == "__main__":
    sys.exit(main())
