#!/usr/bin/env python3
"""The server's pace with nothing else on the machine: jobs of the shipped model by the server against `generate --prompt-file` in one process, a
few seconds of each in turn, and the time from a POST to the first step of denoising. All are times of the wall, so a busy machine says nothing;
--short checks that the measurement works, and asks only for what a busy machine gives too.

    rate.py BUILD [--pairs 5] [--jobs 20] [--short]"""

import argparse
import http.client
import json
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from server import ROOT, Server  # noqa: E402

LEAST_RATE, MOST_FIRST_STEP_MS, SLICE_SECONDS, POLL_SECONDS = 0.98, 150, 2, 0.02


class Turns:
    """Lets one of two processes run at a time, for SLICE_SECONDS, and stops the other by a signal. Both then see the same machine, whose pace may
    change by a twentieth from one minute to the next; `took` is the time that each of them ran."""

    def __init__(self, processes):
        self.processes, self.took = processes, [0.0] * len(processes)
        for process in processes:
            process.send_signal(signal.SIGSTOP)

    def run(self, ended):
        """Runs both until `ended[i]()` is true of each process i."""
        left = list(range(len(self.processes)))
        while left:
            for i in list(left):
                begin = time.monotonic()
                self.processes[i].send_signal(signal.SIGCONT)
                while not (done := ended[i]()) and time.monotonic() - begin < SLICE_SECONDS:
                    time.sleep(POLL_SECONDS)
                self.took[i] += time.monotonic() - begin
                if done:
                    left.remove(i)
                else:
                    self.processes[i].send_signal(signal.SIGSTOP)
        return self.took


class Listener:
    """Hears of a job's end by its events, which costs neither side anything until something is told."""

    def __init__(self, port):
        self.connection, self.text = http.client.HTTPConnection("127.0.0.1", port), b""

    def listen(self, id):
        self.connection.request("GET", f"/v1/videos/{id}/events")

    def ended(self):
        while select.select([self.connection.sock], [], [], 0)[0] and (told := self.connection.sock.recv(1 << 16)):
            self.text += told
        return b"event: done" in self.text or b"event: failed" in self.text


def seconds_of_both(build, prompts):
    """Makes a video of each prompt in one process of `generate`, from its start to its end, and by a server that has made one video before, from the
    first POST to the end of the last job. Returns the seconds of both."""
    with tempfile.TemporaryDirectory() as folder, Server(build) as server:
        server.wait_ready()
        server.wait(server.create()["id"])
        list_of_prompts = pathlib.Path(folder) / "prompts.txt"
        list_of_prompts.write_text("\n".join(prompts) + "\n")
        command = [build / "tachyscope", "generate", "--prompt-file", list_of_prompts, "-o", f"{folder}/video.mp4", "--seed", "1", "--device", "cpu"]
        file = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        processes, ids, listener = [file, server.process], [], Listener(server.port)

        def all_sent_and_ended():
            if not ids:
                ids.extend(server.ask("POST", "/v1/videos", {"prompt": prompt, "seed": 1}).json["id"] for prompt in prompts)
                listener.listen(ids[-1])
            return listener.ended()

        try:
            took = Turns(processes).run([lambda: file.poll() is not None, all_sent_and_ended])
        finally:
            for process in processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
        assert file.returncode == 0 and len(list(pathlib.Path(folder).glob("*.mp4"))) == len(prompts)
        assert all(server.wait(id, 600)["status"] == "completed" for id in ids)
        return took


def first_step_ms(server, number):
    """Returns the milliseconds from sending a job to the event that says that its denoising has begun."""
    begin = time.monotonic()
    video = server.ask("POST", "/v1/videos", {"prompt": f"a blue square moves left, number {number}"}).json
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", f"/v1/videos/{video['id']}/events")
    response, first = connection.getresponse(), None
    while line := response.readline():
        if line.startswith(b"data:") and first is None and json.loads(line[5:]).get("stage") == "denoise":
            first = (time.monotonic() - begin) * 1000
    connection.close()
    assert first is not None, "no event of denoising came"
    return first


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    pairs, jobs = (1, 3) if arguments.short else (arguments.pairs, arguments.jobs)
    with Server(arguments.build) as server:
        server.wait_ready()
        server.wait(server.create()["id"])
        times = [first_step_ms(server, number) for number in range(3 if arguments.short else 8)]
    first = statistics.median(times)
    print(f"from POST to the first step: median {first:.0f} ms of {', '.join(f'{time:.0f}' for time in times)}", flush=True)
    prompts, rates = [f"a red circle moves right, number {number}" for number in range(jobs)], []
    for _ in range(pairs):
        by_file, by_server = seconds_of_both(arguments.build, prompts)
        rates.append(by_file / by_server)
        print(f"{jobs} jobs: {by_file:.2f} s by generate --prompt-file, {by_server:.2f} s by the server, rate {rates[-1]:.3f}", flush=True)
    allowed = 4 if arguments.short else 1
    if first > allowed * MOST_FIRST_STEP_MS or statistics.median(rates) < LEAST_RATE / allowed:
        sys.exit("too slow")


if __name__ == "__main__":
    main()
