"""What does not fit together is a clear error from every rank, and none is left waiting. Strangers at the port change nothing."""

import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time

from processes import CLIP, MODEL, Ranks, clean_environment, free_port, run_alone
from same_file import all_well, same

SECRET = {"TACHY_RANK_SECRET": "a secret of these ranks"}


def another_secret(binary, folder):
    other = {"environment": {"TACHY_RANK_SECRET": "another secret than theirs"}}
    done = Ranks(binary, folder, 3, CLIP + ["-o", "a.mp4"], SECRET | {"TACHY_RANK_SECONDS": 4}, lambda r: other if r == 2 else {}).wait()
    assert all(d.code not in (0, None) and d.seconds < 15 for d in done), done
    assert "TACHY_RANK_SECRET is not the same for both" in done[2].err and done[2].code == 2, done
    for d in done[:2]:
        assert "rank 2 did not come within 4 seconds; somebody came with another TACHY_RANK_SECRET" in d.err, done
    assert not list(folder.iterdir())


def another_request_and_model(binary, folder):
    more = CLIP + ["--fps", "7", "-o", "a.mp4"]
    done = Ranks(binary, folder, 3, CLIP + ["-o", "a.mp4"], each=lambda r: {"words": more} if r == 1 else {}).wait()
    assert all(d.code == 2 and "is not about to do the same as rank 0: fps 7" in d.err and "rank 1 (on " in d.err for d in done), done
    other = folder / "model"
    shutil.copytree(MODEL, other)
    config = next(other.glob("vae/*.safetensors"))
    content = bytearray(config.read_bytes())
    content[-2] ^= 1
    config.write_bytes(content)
    done = Ranks(binary, folder, 2, CLIP + ["-o", "a.mp4"], each=lambda r: {"model": other} if r == 1 else {}).wait()
    assert all(d.code == 2 and "its model has other files" in d.err for d in done), done
    done = Ranks(binary, folder, 2, CLIP + ["-o", "a.mp4"], each=lambda r: {"environment": {"TACHY_ISA": "sse4"}} if r == 1 else {}).wait()
    if "expected native" not in done[1].err:  # a CPU of another kind has one instruction set
        assert all(d.code == 2 and 'it computes with "sse4"' in d.err for d in done), done
    assert [p.name for p in folder.iterdir()] == ["model"]


def another_version(binary, folder):
    """The same program, whose bytes name another version."""
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.split()[1].encode()
    program = pathlib.Path(binary).read_bytes()
    assert program.count(version + b"\0") == 1
    other = folder / "tachyscope"
    other.write_bytes(program.replace(version + b"\0", b"9" * len(version) + b"\0"))
    other.chmod(0o755)
    done = Ranks(binary, folder, 3, CLIP + ["-o", "a.mp4"], each=lambda r: {"binary": str(other)} if r == 2 else {}).wait()
    told = f"rank 0: version {'9' * len(version)}, here {version.decode()}"
    assert all(d.code == 2 and told in d.err and "rank 2 (on " in d.err and d.seconds < 15 for d in done), done
    other.unlink()
    assert not list(folder.iterdir())


def too_little_memory_on_one_rank(binary, folder):
    large = CLIP + ["--size", "1280x720", "--frames", "81", "-o", "a.mp4"]
    little = ["sh", "-c", 'ulimit -v 400000; exec "$@"', "-"]
    for poor in (0, 1):
        done = Ranks(binary, folder, 2, large, each=lambda r: {"before": little} if r == poor else {}).wait()
        assert all("address-space limit" in d.err and d.code == 7 and d.seconds < 30 for d in done), done
        assert f"rank {poor} (on " in done[1 - poor].err, done
    assert not list(folder.glob("*.mp4"))


def a_rank_that_does_not_come(binary, folder):
    run = Ranks(binary, folder, 3, CLIP + ["-o", "a.mp4"], {"TACHY_RANK_SECONDS": 3}, lambda r: {"before": ["true"]} if r == 1 else {})
    done = run.wait()
    assert all(d.code == 9 and "rank 1 did not come within 3 seconds" in d.err and d.seconds < 12 for d in (done[0], done[2])), done
    first = Ranks(binary, folder, 2, CLIP + ["-o", "a.mp4"], {"TACHY_RANK_SECONDS": 2}, lambda r: {"before": ["true"]} if r == 0 else {})
    done = first.wait()
    assert done[1].code == 9 and "rank 0 was not found at 127.0.0.1 port" in done[1].err, done


def the_same_rank_twice(binary, folder):
    run = Ranks(binary, folder, 3, CLIP + ["-o", "a.mp4"], {"TACHY_RANK_SECONDS": 3}, lambda r: {"environment": {"RANK": min(r, 1)}})
    done = run.wait()
    assert all(d.code in (2, 9) for d in done), done
    assert sum("a process with this rank is there already" in d.err for d in done) == 1, done
    assert sum("rank 2 did not come" in d.err for d in done) == 2, done


def launch_variables(binary, folder):
    def ask(variables):
        done = subprocess.run([binary, "generate", "-m", str(MODEL), *CLIP, "-o", "a.mp4", "--distributed"], cwd=folder, env=clean_environment(variables),
                              capture_output=True, text=True, timeout=20)
        assert done.returncode == 2, done
        return done.stderr

    assert "MASTER_ADDR is not set" in ask({"RANK": 0, "WORLD_SIZE": 4})
    assert "RANK is not set" in ask({"WORLD_SIZE": 4, "MASTER_ADDR": "127.0.0.1"})
    assert "WORLD_SIZE is not set" in ask({"JOB_COMPLETION_INDEX": 0, "MASTER_ADDR": "127.0.0.1"})
    assert "RANK: expected 0 to 3, got '4'" in ask({"RANK": 4, "WORLD_SIZE": 4, "MASTER_ADDR": "127.0.0.1"})
    assert "no launcher's variables are set" in ask({})
    assert "expected 16 characters or more" in ask({"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "TACHY_RANK_SECRET": "short"})
    assert "no interface nowhere0" in ask({"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "TACHY_RANK_INTERFACE": "nowhere0"})


def what_cannot_be_divided(binary, folder):
    done = Ranks(binary, folder, 2, CLIP + ["--block", "1", "--parallel", "ring=2", "-o", "a.mp4"]).wait()
    assert all(d.code == 5 and "keys of a video that is made block by block cannot go round" in d.err for d in done), done
    for parallel, told in (("ring=4", "is for 4 ranks, but --distributed names 2"), ("heads=2", "got 'heads=2'")):
        done = Ranks(binary, folder, 2, CLIP + ["--parallel", parallel, "-o", "a.mp4"]).wait()
        assert all(d.code == 2 and told in d.err for d in done), done
    other = {"words": CLIP + ["--parallel", "ulysses=2", "-o", "a.mp4"]}
    done = Ranks(binary, folder, 2, CLIP + ["-o", "a.mp4"], each=lambda r: other if r == 1 else {}).wait()
    assert all(d.code == 2 and '--parallel "cfg=2,ulysses=1,ring=1" (here: rank 0) and "cfg=1,ulysses=2,ring=1"' in d.err for d in done), done
    done = Ranks(binary, folder, 2, CLIP + ["--ranks", "2", "-o", "a.mp4"]).wait()
    assert all(d.code == 2 and "--ranks" in d.err and "each is one rank" in d.err for d in done), done
    assert not list(folder.iterdir())


class Strangers(threading.Thread):
    """Sends rubbish to a port, and holds connections open."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.ends, self.sent = port, False, 0

    def run(self):
        held = []
        while not self.ends:
            try:
                s = socket.create_connection(("127.0.0.1", self.port), 0.2)
                hello = s.recv(40)
                turn = self.sent % 4
                if turn == 0:
                    s.sendall(os.urandom(1 << 16))
                elif turn == 1:
                    s.sendall(b"TACHYRK1" + hello[8:40] + os.urandom(44))  # a greeting without the secret
                elif turn == 2:
                    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                held.append(s)
                self.sent += 1
                if len(held) > 50:
                    held.pop(0).close()
            except OSError:
                time.sleep(0.005)


def strangers_at_the_port(binary, folder):
    run_alone(binary, folder, CLIP + ["-o", "one.mp4"])
    port = free_port()
    strangers = Strangers(port)
    strangers.start()
    run = Ranks(binary, folder, 2, CLIP + ["-o", "two.mp4"], SECRET, lambda r: {"before": ["sh", "-c", 'sleep 1; exec "$@"', "-"]} if r == 1 else {}, port)
    done = run.wait()
    strangers.ends = True
    strangers.join()
    all_well(done)
    assert strangers.sent > 20, strangers.sent
    same(folder, "one.mp4", "two.mp4")
