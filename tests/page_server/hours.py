"""Keeps the page open by the clock, and measures its memory each minute: does it stay?

    tests/page_server/run BUILD hours [MINUTES]          for example: tests/page_server/run build hours 120

Meanwhile the page does what it does in hours of use, only more often: it goes from view to view (the queue with its previews, the gallery, a video that
plays, a comparison, the form, worlds, keys), a video is asked for every 15 s, and the oldest one is removed, so that as many are there all the time. The
heap, the nodes and the listeners are those after a collection; the process is the renderer's own memory, pictures and videos included, without the pages of
the browser's files. A browser keeps pictures, code and styles until memory is wanted elsewhere, so after the first minutes and at the end it is also told that
memory is short, and what then stays is printed. At the end the middle of the first five minutes after the second stands beside that of the last five."""

import contextlib
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))

from server import Server  # noqa: E402
from tab import Tab  # noqa: E402

BUILD = pathlib.Path(os.environ["TACHY_BUILD"])
KEPT, VISIT_S, JOB_S, WARM = 12, 6, 15, 2
QUICK = {"size": "32x32", "num_frames": 5, "num_inference_steps": 4}
NAMES = {"heap MB": "JSHeapUsedSize", "nodes": "Nodes", "listeners": "JSEventListeners", "documents": "Documents"}


def own_mb(pid):
    """Returns the memory of a process that no file backs, or 0 if it has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss_Anon:"))


class Watch:
    """A tab, a server and the clock."""

    def __init__(self, server, tab):
        self.server, self.tab = server, tab
        self.jobs = [server.wait(server.create(prompt=f"number {seed}", **QUICK | {"seed": seed})["id"])["id"] for seed in range(KEPT)]
        self.made, self.visits, self.begun = KEPT, 0, time.monotonic()
        self.tab.goto(f"{server.base}/#/queue")

    def job(self):
        self.jobs.append(self.server.create(prompt=f"number {self.made}", **QUICK | {"seed": self.made})["id"])
        self.made += 1
        if self.server.video(self.jobs[0])["status"] == "completed":
            self.server.ask("DELETE", f"/v1/videos/{self.jobs.pop(0)}")

    def visit(self):
        one, other = self.jobs[3], self.jobs[4]
        routes = ["queue", "gallery", f"gallery/{one}", f"compare/{one}/{other}", "make", "queue", "worlds", "keys"]
        self.show(routes[self.visits % len(routes)])
        self.visits += 1
        time.sleep(1)
        self.tab.press_space()  # plays where there is a video

    def show(self, route):
        self.tab.evaluate(f"location.hash = '#/{route}'")

    def spare(self):
        """Has the browser give up what it only keeps for later, and returns the megabytes that stay."""
        self.measure()
        self.tab.send("Memory.simulatePressureNotification", system=True, level="critical")
        time.sleep(5)
        return self.measure()["process MB"]

    def measure(self):
        """Returns what is there after a collection, in the view of worlds, which has little of its own."""
        self.show("worlds")
        self.tab.wait_for("document.querySelector('worlds-view h1')")
        time.sleep(1.5)
        for _ in range(3):
            self.tab.send("HeapProfiler.collectGarbage")
        values = {one["name"]: one["value"] for one in self.tab.send("Performance.getMetrics")["metrics"]}
        found = {name: values[key] for name, key in NAMES.items()}
        processes = self.tab.send("SystemInfo.getProcessInfo", system=True)["processInfo"]
        largest = max(own_mb(one["id"]) for one in processes if one["type"] == "renderer")  # others wait for tabs to come
        return found | {"heap MB": found["heap MB"] / 1e6, "process MB": largest}


def main(minutes):
    with Server(BUILD) as server, contextlib.closing(Tab(os.environ["TACHY_BROWSER"], 1100, 900)) as tab:
        watch, rows, spared, job_at = Watch(server.wait_ready(), tab), [], [], 0.0
        while len(rows) < minutes:
            minute = watch.begun + 60 * (len(rows) + 1)
            while time.monotonic() < minute:
                if time.monotonic() > job_at:
                    watch.job()
                    job_at = time.monotonic() + JOB_S
                watch.visit()
                time.sleep(VISIT_S - 1)
            rows.append(watch.measure())
            print(f"minute {len(rows)}, {watch.visits} visits, {watch.made} videos: " + ", ".join(f"{name} {value:.2f}" for name, value in rows[-1].items()), flush=True)
            if len(rows) in (WARM + 3, minutes):
                spared.append(watch.spare())
                print(f"minute {len(rows)}, memory said to be short: {spared[-1]:.2f} MB stay", flush=True)
    some = min(5, len(rows) // 2)
    print(f"middle of {some} minutes after minute {WARM}, and of the last {some}:")
    for name in rows[0]:
        print(f"  {name}: {statistics.median(row[name] for row in rows[WARM:WARM + some]):.2f} -> {statistics.median(row[name] for row in rows[-some:]):.2f}")
    print(f"  process MB when memory is said to be short: {spared[0]:.2f} -> {spared[-1]:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 120)
