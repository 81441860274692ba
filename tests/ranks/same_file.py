"""Several processes give the file of one, however they were started."""

import json
import os
import shutil
import subprocess

import talk_model
from processes import CLIP, MODEL, Ranks, clean_environment, run_alone


def all_well(done):
    assert all(d.code == 0 for d in done), done


def same(folder, one, other):
    assert (folder / one).read_bytes() == (folder / other).read_bytes(), f"{one} and {other} differ"


def torchrun_variables(binary, folder):
    run_alone(binary, folder, CLIP + ["-o", "one.mp4"])
    done = Ranks(binary, folder, 4, CLIP + ["-o", "four.mp4"]).wait()
    all_well(done)
    same(folder, "one.mp4", "four.mp4")
    assert "four.mp4" in done[0].out and not any(d.out or d.err for d in done[1:]), done
    assert sorted(p.name for p in folder.iterdir()) == ["four.json", "four.mp4", "one.json", "one.mp4"]


def other_counts(binary, folder):
    for guidance in ("1", "5"):
        words = CLIP + ["--guidance", guidance]
        run_alone(binary, folder, words + ["-o", f"one{guidance}.mp4"])
        for ranks in (1, 2, 3, 5, 8):
            all_well(Ranks(binary, folder, ranks, words + ["-o", f"{ranks}-{guidance}.mp4"]).wait())
            same(folder, f"one{guidance}.mp4", f"{ranks}-{guidance}.mp4")
    windows = CLIP + ["--windows", "static", "--window-frames", "17", "--window-overlap", "8", "--frames", "33", "--step-cache", "0.5"]
    run_alone(binary, folder, windows + ["-o", "windows.mp4"])
    all_well(Ranks(binary, folder, 3, windows + ["-o", "windows3.mp4"]).wait())
    same(folder, "windows.mp4", "windows3.mp4")


def layouts(binary, folder):
    """What --parallel asks for keeps the bits without a ring, and with one has those of as many ranks in one process."""
    run_alone(binary, folder, CLIP + ["-o", "one.mp4"])
    for ranks, parallel in ((4, "ulysses=4"), (3, "ulysses=3"), (2, "cfg=2")):
        all_well(Ranks(binary, folder, ranks, CLIP + ["--parallel", parallel, "-o", f"{parallel}.mp4"]).wait())
        same(folder, "one.mp4", f"{parallel}.mp4")
    for ranks, parallel in ((4, "cfg=2,ring=2"), (4, "ulysses=2,ring=2")):
        words = CLIP + ["--parallel", parallel]
        run_alone(binary, folder, words + ["--ranks", str(ranks), "-o", "threads.mp4"])
        all_well(Ranks(binary, folder, ranks, words + ["-o", "processes.mp4"]).wait())
        same(folder, "threads.mp4", "processes.mp4")
        assert "ring=2" in json.loads((folder / "processes.json").read_text())["parallel"]
        os.remove(folder / "threads.mp4"), os.remove(folder / "processes.mp4")


def block_by_block(binary, folder):
    words = CLIP + ["--frames", "17", "--block", "1"]
    run_alone(binary, folder, words + ["-o", "one.mp4"])
    for ranks, more in ((3, []), (2, ["--parallel", "ulysses=2"])):
        all_well(Ranks(binary, folder, ranks, words + more + ["-o", f"{ranks}.mp4"]).wait())
        same(folder, "one.mp4", f"{ranks}.mp4")


def talking_photo(binary, folder):
    """Each window begins with frames that rank 0 alone has decoded."""
    words = talk_model.words(folder, 0.8)
    run_alone(binary, folder, words + ["-o", "one.mp4"], talk_model.MODEL)
    for ranks, more in ((3, []), (5, []), (2, ["--parallel", "ulysses=2"])):
        run = Ranks(binary, folder, ranks, words + more + ["-o", f"{ranks}.mp4"], each=lambda r: {"model": talk_model.MODEL})
        all_well(run.wait())
        same(folder, "one.mp4", f"{ranks}.mp4")


def two_videos_and_a_drawn_seed(binary, folder):
    all_well(Ranks(binary, folder, 2, CLIP + ["-p", "a blue dog", "-o", "two.mp4"]).wait())
    run_alone(binary, folder, CLIP + ["-p", "a blue dog", "-o", "one.mp4"])
    same(folder, "one-2.mp4", "two-2.mp4")
    drawn = [w for w in CLIP if w not in ("--seed", "3")] + ["--seed", "-1"]
    all_well(Ranks(binary, folder, 2, drawn + ["-o", "drawn.mp4"]).wait())
    seed = json.loads((folder / "drawn.json").read_text())["seed"]
    run_alone(binary, folder, drawn[:-1] + [str(seed), "-o", "again.mp4"])
    same(folder, "drawn.mp4", "again.mp4")


def what_is_complete_is_left(binary, folder):
    words = CLIP + ["-o", "a.mp4"]
    all_well(Ranks(binary, folder, 2, words).wait())
    before = (folder / "a.mp4").stat().st_mtime_ns
    done = Ranks(binary, folder, 2, words + ["--resume"]).wait()
    all_well(done)
    assert "complete already" in done[0].out and (folder / "a.mp4").stat().st_mtime_ns == before, done


def variables_without_the_option(binary, folder):
    command = [binary, "generate", "-m", str(MODEL), *CLIP, "-o", "a.mp4"]
    for variables in ({"SLURM_PROCID": 0, "SLURM_NTASKS": 8}, {"RANK": 1, "WORLD_SIZE": 2}):
        done = subprocess.run(command, cwd=folder, env=clean_environment(variables), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "is not used: without --distributed" in done.stderr, done
    alone = subprocess.run(command, cwd=folder, env=clean_environment({"SLURM_PROCID": 0, "SLURM_NTASKS": 1}), capture_output=True, text=True, timeout=60)
    assert alone.returncode == 0 and "not used" not in alone.stderr, alone


def open_mpi(binary, folder):
    mpirun = shutil.which("mpirun")
    if not mpirun:
        return "no mpirun"
    run_alone(binary, folder, CLIP + ["-o", "one.mp4"])
    command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-np", "4", binary, "generate", "-m", str(MODEL), *CLIP, "-o", "four.mp4", "--distributed"]
    done = subprocess.run(command, cwd=folder, env=clean_environment({}), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    same(folder, "one.mp4", "four.mp4")


class Hosts:
    """Two network namespaces, joined by a pair of interfaces. They have 10.77.0.1 and .2."""

    def __enter__(self):
        self.names = [f"tachy-ranks-{os.getpid()}-{i}" for i in range(2)]
        self.do(f"ip netns add {self.names[0]}", f"ip netns add {self.names[1]}",
                f"ip -n {self.names[0]} link add rank0 type veth peer name rank0 netns {self.names[1]}")
        for i, name in enumerate(self.names):
            self.do(f"ip -n {name} addr add 10.77.0.{i + 1}/24 dev rank0", f"ip -n {name} link set rank0 up", f"ip -n {name} link set lo up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def do(self, *commands):
        for command in commands:
            subprocess.run(command.split(), check=True, capture_output=True, text=True)

    def on(self, rank):
        """Where a rank of four runs, two on each host."""
        return ["ip", "netns", "exec", self.names[rank // 2]]


def hosts_or_why():
    if os.geteuid() != 0 or not shutil.which("ip"):
        return None, "needs root and iproute2"
    try:
        return Hosts().__enter__(), ""
    except subprocess.CalledProcessError as e:
        return None, f"no network namespaces here ({e.stderr.strip()})"


def two_hosts(binary, folder):
    hosts, why = hosts_or_why()
    if not hosts:
        return why
    try:
        run_alone(binary, folder, CLIP + ["-o", "one.mp4"])
        there = {"MASTER_ADDR": "10.77.0.1", "TACHY_RANK_SECRET": "a secret of these ranks", "TACHY_RANK_INTERFACE": "rank0"}
        all_well(Ranks(binary, folder, 4, CLIP + ["-o", "four.mp4"], there, lambda r: {"before": hosts.on(r)}).wait())
        same(folder, "one.mp4", "four.mp4")
        del there["TACHY_RANK_SECRET"]
        done = Ranks(binary, folder, 4, CLIP + ["-o", "none.mp4"], there, lambda r: {"before": hosts.on(r)}).wait()
        assert all(d.code == 2 and "TACHY_RANK_SECRET is not set" in d.err and d.seconds < 20 for d in done), done
    finally:
        hosts.__exit__()
