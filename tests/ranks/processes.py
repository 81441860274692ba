"""Starts the ranks of one run as processes, as a launcher would, and waits for all of them."""

import os
import pathlib
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/golden/pipeline/model"
LAUNCHERS = ("RANK", "WORLD_SIZE", "TORCHELASTIC_", "LOCAL_", "MASTER_", "OMPI_", "PMI", "SLURM_", "MPI_", "JOB_COMPLETION_INDEX", "TACHY_RANK_")
CLIP = ["a red cat", "--size", "32x16", "--frames", "5", "--steps", "4", "--seed", "3", "--device", "cpu", "-t", "1"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def clean_environment(more):
    return {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)} | {k: str(v) for k, v in more.items()}


class Done:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def __repr__(self):
        return f"code {self.code} after {self.seconds:.1f} s\n{self.err}{self.out}"


class Ranks:
    """The ranks of a run. `each` is a function from a rank to what differs: {"words": …, "environment": …, "before": …, "binary": …}."""

    def __init__(self, binary, folder, ranks, words, environment=None, each=lambda rank: {}, port=None):
        self.port = port or free_port()
        self.started = time.monotonic()
        self.processes = []
        for rank in range(ranks):
            mine = each(rank)
            variables = {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": self.port}
            variables |= (environment or {}) | mine.get("environment", {})
            command = mine.get("before", []) + [mine.get("binary", binary), "generate", "-m", str(mine.get("model", MODEL))] + mine.get("words", words) + ["--distributed"]
            self.processes.append(subprocess.Popen(command, cwd=folder, env=clean_environment(variables), text=True,
                                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def wait(self, seconds=60):
        """Returns what became of each rank. One that has not ended by then is killed, and its code is None."""
        out = []
        for process in self.processes:
            try:
                texts = process.communicate(timeout=max(0.1, self.started + seconds - time.monotonic()))
                out.append(Done(process.returncode, *texts, time.monotonic() - self.started))
            except subprocess.TimeoutExpired:
                process.kill()
                out.append(Done(None, *process.communicate(), time.monotonic() - self.started))
        return out

    def kill(self, rank, how=signal.SIGKILL):
        self.processes[rank].send_signal(how)


def run_alone(binary, folder, words, model=MODEL, environment=None):
    """Makes the video in one process, for comparison."""
    done = subprocess.run([binary, "generate", "-m", str(model), *words], cwd=folder, env=clean_environment(environment or {}), text=True, capture_output=True)
    assert done.returncode == 0, f"one process: code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout
