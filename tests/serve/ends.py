#!/usr/bin/env python3
"""How the server starts and ends: its exit codes, keys, the files' lock, ctrl-C and SIGTERM, and what it says when it listens.

    ends.py BUILD"""

import hashlib
import json
import os
import pathlib
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from server import ROOT, Server  # noqa: E402


def run(build, *words, seconds=60):
    return subprocess.run([build / "tachyscope", "serve", *map(str, words)], capture_output=True, text=True, timeout=seconds, env=os.environ | {"TACHY_DEVICE": "cpu"})


def exit_codes(build, folder):
    for words, code, says in ((("--host", "0.0.0.0", "--port", 0), 2, "--keys"), (("--model", "a=gone"), 3, "gone"), (("--keys", "gone"), 3, "gone"),
                              (("--port", "x"), 2, "--port"), (("--nonsense",), 2, "nonsense")):
        done = run(build, "--files", folder / "codes", *words)
        assert done.returncode == code and says in done.stderr, (words, done)
    (folder / "bad-keys").write_text("alice\n")
    done = run(build, "--files", folder / "codes", "--keys", folder / "bad-keys")
    assert done.returncode == 2 and "line 1" in done.stderr, done


def files_and_port_belong_to_one(build, folder):
    with Server(build, files=folder) as first:
        done = run(build, "--files", folder, "--port", 0)
        assert done.returncode == 6, done
        done = run(build, "--files", folder / "other", "--port", first.port)
        assert done.returncode == 6, done
        first.end()
    with Server(build, files=folder) as again:  # the lock goes with its holder
        again.end()
    assert stat.S_IMODE((folder / "jobs").stat().st_mode) & 0o077 == 0 or stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0


def a_video_is_made_again_from_its_file(build, folder):
    """The settings inside a video name no path of the server, and `generate --from` makes the same frames of them."""
    with Server(build, files=folder) as server:
        server.wait_ready()
        id = server.create(prompt="a green square")["id"]
        assert server.wait(id)["status"] == "completed"
        (folder / "first.mp4").write_bytes(server.ask("GET", f"/v1/videos/{id}/content").body)
    assert str(folder).encode() not in (folder / "first.mp4").read_bytes()
    command = [build / "tachyscope", "generate", "--from", folder / "first.mp4", "-o", folder / "again.mp4", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, env=os.environ | {"TACHY_DEVICE": "cpu"})
    assert done.returncode == 0, done.stderr
    frames = [media_of(folder / name) for name in ("first.mp4", "again.mp4")]
    assert frames[0] == frames[1] and len(frames[0]) > 1000


def media_of(file):
    """Returns the bytes of the frames in an mp4: those of its box `mdat`."""
    data, at = file.read_bytes(), 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        assert size >= 8, (file, size, kind)
        if kind == b"mdat":
            return data[at + 8:at + size]
        at += size
    raise AssertionError(f"{file} has no frames")


def health_answers_before_readiness(build, folder):
    with Server(build, files=folder) as server:
        assert server.ask("GET", "/health").status == 200
        first = server.ask("GET", "/ready")
        assert first.status in (200, 503), first.status
        server.wait_ready()


def ctrl_c_and_sigterm_end_it_with_0(build, folder):
    for how in (signal.SIGINT, signal.SIGTERM):
        with Server(build, files=folder) as server:
            server.wait_ready()
            id = server.create(num_frames=65, num_inference_steps=200)["id"]
            while server.video(id)["status"] == "queued":
                time.sleep(0.05)
            time.sleep(0.5)
            begin = time.monotonic()
            server.process.send_signal(how)
            assert server.process.wait(20) == 0, server.said()
            assert time.monotonic() - begin < 5, time.monotonic() - begin
        with Server(build, files=folder) as server:
            assert server.wait_ready().video(id)["status"] in ("queued", "in_progress")
            assert server.ask("DELETE", f"/v1/videos/{id}").status == 200
            server.end()


def keys_are_made_and_needed(build, folder):
    keys = folder / "keys"
    made = {}
    for name in ("alice", "bob"):
        done = run(build, "--keys", keys, "--new-key", name)
        assert done.returncode == 0, done
        made[name] = done.stdout.strip()
        assert made[name].startswith("tk-") and hashlib.sha256(made[name].encode()).hexdigest() in keys.read_text()
    assert made["alice"] not in keys.read_text()
    keys.write_text(keys.read_text().replace("\n", " admin\n", 1))  # alice may see everything
    with Server(build, "--keys", keys, files=folder) as server:
        def ask(method, path, key=None, body=None):
            return server.ask(method, path, body, {"Authorization": f"Bearer {made.get(key, key)}"} if key else {})
        assert server.ask("GET", "/health").status == 200 and server.ask("GET", "/ready").status in (200, 503)
        for path in ("/v1/videos", "/metrics", "/v1/models", "/openapi.json", "/nothing"):
            for key in (None, "tk-wrong", hashlib.sha256(made["bob"].encode()).hexdigest()):
                answer = ask("GET", path, key)
                assert answer.status == 401 and answer.code == "invalid_api_key" and answer.json["error"]["type"] == "authentication_error", (path, key)
        job = {"prompt": "x", "num_frames": 1, "num_inference_steps": 1}
        mine = ask("POST", "/v1/videos", "bob", job).json["id"]
        other = ask("POST", "/v1/videos", "alice", job).json["id"]
        assert ask("GET", f"/v1/videos/{other}", "bob").status == 404 and ask("DELETE", f"/v1/videos/{other}", "bob").status == 404
        assert [video["id"] for video in ask("GET", "/v1/videos", "bob").json["data"]] == [mine]
        assert ask("GET", f"/v1/videos/{mine}", "alice").status == 200
        refused = ask("POST", "/v1/videos", "bob", job | {"priority": 5})
        assert refused.status == 403 and refused.code == "forbidden", refused.body
        until = time.monotonic() + 60
        while ask("GET", f"/v1/videos/{mine}", "bob").json["status"] != "completed":
            assert time.monotonic() < until
            time.sleep(0.1)
        links(server, ask, mine, other)
        server.end()


def links(server, ask, mine, other):
    """A signed link gives one job's file without a key, and nothing else."""
    answer = ask("GET", f"/v1/videos/{mine}/link", "bob")
    assert answer.status == 200, answer.body
    link = answer.json["url"]
    link = link[link.index("/v1/"):]
    assert server.ask("GET", link).body[4:8] == b"ftyp"
    assert server.ask("GET", link, headers={"Range": "bytes=0-3"}).status == 206
    assert server.ask("DELETE", link).status == 401
    assert server.ask("GET", link.replace(mine, other)).status == 401
    assert server.ask("GET", link.replace("expires=", "expires=9")).status == 401
    assert server.ask("GET", link.replace("/content", "")).status == 401
    assert ask("GET", f"/v1/videos/{other}/link", "bob").status == 404


def webhooks_verify_with_the_client(build, folder):
    import base64
    import http.server
    import threading

    import openai
    secret = "whsec_" + base64.b64encode(os.urandom(32)).decode()
    file = folder / "secret"
    file.write_text(secret)
    file.chmod(0o600)
    seen, fail = [], [2]

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((dict(self.headers), body))
            fail[0] -= 1
            self.send_response(500 if fail[0] == 0 else 200)  # the second message is taken at the second attempt
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    options = ("--webhook", f"http://127.0.0.1:{receiver.server_port}/hook", "--webhook-secret-file", file)
    with Server(build, *options, files=folder) as server:
        server.wait_ready()
        done = server.create()["id"]
        assert server.wait(done)["status"] == "completed"
        long = server.create(num_frames=65, num_inference_steps=200)["id"]
        server.ask("POST", f"/v1/videos/{long}/cancel")
        until = time.monotonic() + 40
        while len(seen) < 3:
            assert time.monotonic() < until, f"{len(seen)} messages"
            time.sleep(0.1)
        server.end()
    receiver.shutdown()
    client = openai.OpenAI(api_key="none", webhook_secret=secret)
    events = [client.webhooks.unwrap(body, headers) for headers, body in seen]
    assert [event.type for event in events] == ["video.completed", "video.failed", "video.failed"], [event.type for event in events]
    assert events[0].data.id == done and events[1].data.id == long
    assert seen[1][1] == seen[2][1] and seen[1][0]["webhook-id"] == seen[2][0]["webhook-id"]
    assert json.loads(seen[1][1])["data"]["error"]["code"] == "cancelled"
    try:
        client.webhooks.unwrap(seen[0][1] + b" ", seen[0][0])
    except openai.InvalidWebhookSignatureError:
        return
    raise AssertionError("a changed body was taken")


TESTS = (exit_codes, files_and_port_belong_to_one, health_answers_before_readiness, a_video_is_made_again_from_its_file,
         ctrl_c_and_sigterm_end_it_with_0, keys_are_made_and_needed, webhooks_verify_with_the_client)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    for test in TESTS:
        with tempfile.TemporaryDirectory(prefix="tachyscope-ends-") as folder:
            begin = time.monotonic()
            test(build, pathlib.Path(folder))
            print(f"ok      {test.__name__.replace('_', ' ')} ({time.monotonic() - begin:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
