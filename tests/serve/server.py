"""Starts the server under test, and asks it in plain HTTP where the openai client would hide what comes back."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SMALL = {"num_frames": 5, "num_inference_steps": 2, "seed": 7}  # a job of about a second
TICK = 0.05


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """Returns the error's code, or "" if the answer is none."""
        try:
            return self.json["error"]["code"]
        except (ValueError, KeyError, TypeError):
            return ""


def ask(url, method, path, body=None, headers=None, timeout=60):
    """Sends one request and returns its Answer. A body that is a dict becomes JSON."""
    parts = urllib.parse.urlsplit(url)
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname, parts.port, timeout=timeout)
    headers = dict(headers or {})
    if isinstance(body, dict):
        body = json.dumps(body)
        headers.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, body, headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Server:
    """A server of this build in a folder of its own, on a free port."""

    def __init__(self, build, *options, files=None, environment=None):
        self.build, self.options = pathlib.Path(build), options
        self.own_files = files is None
        self.files = pathlib.Path(files or tempfile.mkdtemp(prefix="tachyscope-serve-"))
        self.environment = os.environ | {"TACHY_DEVICE": "cpu"} | (environment or {})
        self.process, self.key = None, None  # with a key, requests are those of its holder unless their headers say otherwise
        self.start()

    def start(self, port=0):
        """Starts it on a port that is free, or on this one."""
        self.errors = open(self.files / "stderr.txt", "ab")
        command = [self.build / "tachyscope-serve", "--port", port, "--json", "--files", self.files, *self.options]
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=self.errors, env=self.environment, cwd=ROOT)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the server did not start: exit code {self.process.wait()}: {self.said()}")
        event = json.loads(line)
        assert event["event"] == "listening", event
        self.url, self.port = event["url"].rstrip("/"), event["port"]
        self.base = f"http://127.0.0.1:{self.port}"

    def said(self):
        return (self.files / "stderr.txt").read_text(errors="replace")[-2000:]

    def ask(self, method, path, body=None, headers=None, timeout=60):
        own = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return ask(self.base, method, path, body, own | (headers or {}), timeout)

    def wait_ready(self, seconds=60):
        until = time.monotonic() + seconds
        while self.ask("GET", "/ready").status != 200:
            assert time.monotonic() < until, f"not ready after {seconds} s: {self.said()}"
            time.sleep(TICK)
        return self

    def create(self, **fields):
        answer = self.ask("POST", "/v1/videos", {"prompt": "a red circle moves right"} | SMALL | fields)
        assert answer.status == 200, answer.body
        return answer.json

    def video(self, id):
        return self.ask("GET", f"/v1/videos/{id}").json

    def wait(self, id, seconds=120):
        until = time.monotonic() + seconds
        while (video := self.video(id))["status"] in ("queued", "in_progress"):
            assert time.monotonic() < until, f"{id} has not ended after {seconds} s: {video}"
            time.sleep(TICK)
        return video

    def memory_kb(self, what="VmRSS"):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(what + ":"))

    def begin_peak(self):
        """Lets VmHWM begin anew, and returns the memory in use now."""
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")
        return self.memory_kb()

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()

    def end(self, seconds=5.5):
        """Asks it to end, and returns how long that took."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(seconds + 10)
        took = time.monotonic() - begin
        self.errors.close()
        assert code == 0, f"exit code {code}: {self.said()}"
        assert took < seconds, f"it took {took:.1f} s to end"
        return took

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            self.errors.close()
        if self.own_files:
            shutil.rmtree(self.files, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
