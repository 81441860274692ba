#!/usr/bin/env python3
"""Hostile clients: slow ones, many connections, bodies beyond every limit, bombs, paths in every name, bytes that are not requests. After each of them the
server answers others, its memory has not grown by what was sent, and nothing lies where a caller wanted it.

    limits.py BUILD [--short]"""

import argparse
import concurrent.futures
import json
import os
import random
import resource
import select
import socket
import struct
import sys
import time
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from server import ROOT, Server  # noqa: E402

MiB = 1024  # in kB


def connect(server, timeout=60):
    return socket.create_connection(("127.0.0.1", server.port), timeout=timeout)


def talk(server, data, timeout=60, silence=2):
    """Sends bytes, and returns all that comes until the other side closes, or nothing comes for that many seconds."""
    with connect(server, timeout) as s:
        try:
            s.sendall(data)
        except OSError:
            pass  # it has closed meanwhile; what it said may still be read
        s.settimeout(silence)
        got = b""
        try:
            while piece := s.recv(65536):
                got += piece
        except OSError:
            pass
        return got


def status_of(answer):
    words = answer.split(b" ", 2)
    return int(words[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def alive(server):
    begin = time.monotonic()
    assert server.ask("GET", "/health", timeout=20).status == 200, "the server does not answer"
    return time.monotonic() - begin


def closed_within(server, begin, drip, seconds, every=0.5):
    """Sends the beginning, then `drip` again and again; returns the seconds until the server has had enough."""
    with connect(server) as s:
        s.sendall(begin)
        s.settimeout(every)
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            try:
                if s.recv(4096) == b"":
                    return time.monotonic() - start
            except TimeoutError:
                pass
            except OSError:
                return time.monotonic() - start
            try:
                s.sendall(drip)
            except OSError:
                return time.monotonic() - start
    raise AssertionError(f"a slow client was kept for {seconds} s")


def slow_headers(server):
    took = closed_within(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n", 20)
    return f"closed after {took:.0f} s"


def silent_bodies(server):
    head = b"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    return f"closed after {closed_within(server, head, b'', 45, 1):.0f} s"


def many_connections(server, count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(count, hard - 200)
    before = server.memory_kb()
    open_ones = []
    try:
        for _ in range(count):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", server.port))
            open_ones.append(s)
            if len(open_ones) % 500 == 0:
                alive(server)
        took = max(alive(server) for _ in range(5))
        grown = server.memory_kb() - before
    finally:
        for s in open_ones:
            s.close()
    assert took < 5, f"an answer took {took:.1f} s beside {count} connections"
    assert grown < 200 * MiB, f"{grown} kB for {count} connections"
    return f"{count} at once, {grown // MiB} MiB, an answer within {took * 1000:.0f} ms"


def form(*parts):
    out = b""
    for name, value, *more in parts:
        kind = f'; filename="{more[0]}"\r\nContent-Type: {more[1]}' if more else ""
        out += f'--b\r\nContent-Disposition: form-data; name="{name}"{kind}\r\n\r\n'.encode() + (value if isinstance(value, bytes) else value.encode()) + b"\r\n"
    return out + b"--b--\r\n"


def post_form(server, *parts):
    return server.ask("POST", "/v1/videos", form(*parts), {"Content-Type": "multipart/form-data; boundary=b"})


def a_million_parts(server):
    before, part = server.begin_peak(), b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n'
    head = (f"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            f"Content-Length: {len(part) * 1_000_000}\r\n\r\n").encode()
    with connect(server) as s:
        s.sendall(head)
        sent, got = 0, b""
        while sent < 1_000_000 and not got:
            s.sendall(part * 1000)
            sent += 1000
            if select.select([s], [], [], 0)[0]:
                got = s.recv(65536)
    assert status_of(got) == 413 and sent < 500_000, (sent, got[:100])
    grown = server.memory_kb("VmHWM") - before
    assert grown < 20 * MiB, f"{grown} kB"
    return f"refused after {sent:,} parts at most, {grown} kB"


def bodies_over_the_limits(server):
    kind = b"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    requests = [kind + b"Content-Length: 99999999999\r\n\r\n{",
                kind + b"Content-Length: 6000000\r\n\r\n" + b" " * 6_000_000,
                kind + b"Transfer-Encoding: chunked\r\n\r\n" + b"100000\r\n" + b" " * 0x100000 + b"\r\n" + (b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 6,
                b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
                b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"]
    said = [talk(server, request, silence=20) for request in requests]  # after each answer it closes
    answers, told = [status_of(one) for one in said], said[0]
    assert b"at most 4194304 bytes" in told, told
    assert answers[:3] == [413] * 3 and answers[3] == 431 and answers[4] in (414, 431), answers
    return str(answers)


def uploads_go_to_the_disk(server):
    before, data = server.begin_peak(), os.urandom(1 << 20) * 100
    answer = post_form(server, ("prompt", "x"), ("strange", data, "a.png", "image/png"))  # the field is looked at when the body is there
    assert answer.status == 400 and answer.json["error"]["param"] == "strange", answer.body
    grown = server.memory_kb("VmHWM") - before
    assert grown < 20 * MiB, f"{grown} kB for 100 MiB"
    assert not list((server.files / "spool").iterdir()), "a file is left in the spool folder"
    return f"{grown} kB for 100 MiB"


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bombs(server):
    before, took = server.begin_peak(), time.monotonic()
    huge = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 30000, 30000, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(b"\0" * 30_000_000, 9)) + chunk(b"IEND", b"")
    comment = zlib.compress(b"\0" * 300_000_000, 9)
    text = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) + chunk(b"zTXt", b"a\0\0" + comment) + \
        chunk(b"IDAT", zlib.compress((b"\0" + b"\x80" * 24) * 8)) + chunk(b"IEND", b"")
    wav = b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\xff\xff\xff\x7f" + b"\0" * 1000
    photo = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress((b"\0" + b"\x80" * 24) * 8)) + chunk(b"IEND", b"")
    answers = []
    for picture, sound in ((huge, wav), (text, wav), (photo, wav)):
        answer = post_form(server, ("prompt", "x"), ("model", "talker"), ("num_inference_steps", "1"), ("input_reference", picture, "a.png", "image/png"),
                           ("audio_reference", sound, "a.wav", "audio/wav"))
        answers.append(answer.status)
        if answer.status == 200:
            server.ask("DELETE", f"/v1/videos/{answer.json['id']}")
        assert answer.status in (200, 400, 413, 422), answer.body
    assert answers[0] in (400, 413, 422), answers
    squeezed = server.ask("POST", "/v1/videos", zlib.compress(b" " * 100_000_000), {"Content-Type": "application/json", "Content-Encoding": "deflate"})
    assert squeezed.status in (400, 415), squeezed.status
    grown, took = server.memory_kb("VmHWM") - before, time.monotonic() - took
    assert grown < 400 * MiB and took < 60, (grown, took)
    return f"{answers}, {grown // MiB} MiB, {took:.1f} s"


PATHS = ("../../escape", "/tmp/tachyscope-escape", "..\\..\\escape", "a/b", "jobs/../../escape", "%2e%2e%2fescape", "nul\0byte", ".", "..", "", "a" * 5000,
         "con\r\nX-Injected: 1", "\u202etxt.exe", "$(touch escape)", "'; DROP TABLE jobs; --")


def paths_in_every_name(server):
    server.wait(server.create()["id"])  # the server's own files are there from now on
    for video in server.ask("GET", "/v1/videos").json["data"]:
        server.ask("DELETE", f"/v1/videos/{video['id']}")
    before = set(os.listdir(server.files))
    picture = b"\x89PNG\r\n\x1a\n"
    for path in PATHS:
        plain = path.replace("\r\n", "").replace("\0", "").replace('"', "")
        for answer in (
                post_form(server, ("prompt", "x"), ("input_reference", picture, plain, "image/png")),
                post_form(server, (plain or "x", "1"), ("prompt", "x")),
                server.ask("POST", "/v1/videos", {"prompt": "x", "model": path}),
                server.ask("POST", "/v1/videos", {"prompt": "x", "preset": path}),
                server.ask("POST", "/v1/videos", {"prompt": "x", "loras": [{"name": path}]}),
                server.ask("POST", "/v1/videos", {"prompt": "x", "input_reference": path}),
                server.ask("POST", "/v1/videos", {"prompt": "x", "input_reference": {"image_url": "file://" + path}}),
                server.ask("POST", "/v1/videos", {"prompt": "x", "output": path}),
                server.ask("POST", "/v1/videos", {"prompt": "x", "extra_params": {"output": path}}),
                server.ask("POST", "/v1/videos/join", {"videos": [path, path]}),
                server.ask("POST", "/v1/presets", {"name": path, "fields": {"output": path}})):
            assert answer.status in (400, 404, 413, 422), (path, answer.status, answer.body[:200])
            assert "x-injected" not in answer.headers
        # A prompt and an idempotency key may be any text; they become no name.
        made = server.ask("POST", "/v1/videos", {"prompt": path or "x", "num_frames": 1, "num_inference_steps": 1},
                          {"Idempotency-Key": plain.encode("ascii", "replace").decode() or "x"})
        assert made.status in (200, 400), made.body
        if made.status == 200:
            assert server.ask("DELETE", f"/v1/videos/{made.json['id']}").status == 200
    after, around = set(os.listdir(server.files)), os.listdir(server.files.parent) + os.listdir(ROOT)
    assert after == before, f"something was written beside the jobs: {after ^ before}"
    assert not [name for name in around if "escape" in name], around
    assert not os.path.exists("/tmp/tachyscope-escape")
    assert not list((server.files / "jobs").iterdir()) and not list((server.files / "spool").iterdir())
    return f"{len(PATHS)} names in 13 places"


def requests_that_are_none(server):
    draw = random.Random(7)
    wrong = [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/0.9\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"\0" * 200,
             b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
             b"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /admin",
             b"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
             b"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
             b"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{",
             b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /v1/videos/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
             b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
             b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n"] + [draw.randbytes(draw.randrange(1, 400)) for _ in range(30)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = [status_of(answer) for answer in pool.map(lambda data: talk(server, data, 20), wrong)]
    assert not any(200 <= status < 400 or status >= 500 and status != 501 and status != 505 for status in answers), list(zip(answers, wrong))
    # Two requests that are sent at once are two answers.
    two = talk(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", silence=20)
    assert two.count(b"HTTP/1.1 200") == 2, two
    return f"{len(wrong)} of them: {sorted(set(answers))}"


def numbers_and_depths(server):
    for body in ('{"prompt": "x", "num_frames": 1e400}', '{"prompt": "x", "num_frames": 99999999999999999999}', '{"prompt": "x", "num_inference_steps": -1}',
                 '{"prompt": "x", "seed": 18446744073709551616}', '{"prompt": "x", "guidance_scale": NaN}', '{"prompt": "x", "__proto__": {}}',
                 '{"prompt": "x", "extra_params": ' + '{"a":' * 2000 + "1" + "}" * 2001, '{"prompt": "x\\u0000y"}',
                 '{"prompt": "\\ud800"}', '{"prompt": ["x"]}', '{"prompt": {"a": 1}}', '{"prompt": "x", "size": "99999999999x99999999999"}'):
        answer = server.ask("POST", "/v1/videos", body, {"Content-Type": "application/json"})
        assert answer.status in (400, 422), (body[:60], answer.status, answer.body[:200])
        json.loads(answer.body)


def clients_that_go_away(server):
    """A client that closes in the middle of anything does no harm, and cancels nothing."""
    made = server.create(num_frames=33, num_inference_steps=6)["id"]
    for data in (b"POST /v1/videos HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{",
                 f"GET /v1/videos/{made}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), b"GET /v1/vid"):
        for _ in range(50):
            with connect(server) as s:
                s.sendall(data)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert server.wait(made)["status"] == "completed"
    assert server.ask("DELETE", f"/v1/videos/{made}").status == 200


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build")
    options.add_argument("--short", action="store_true")
    options = options.parse_args()
    failed = 0
    with Server(options.build) as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
        server.wait_ready()
        slow = [(test, pool.submit(test, server)) for test in ([slow_headers] if options.short else [slow_headers, silent_bodies])]
        tests = [(bodies_over_the_limits,), (a_million_parts,), (uploads_go_to_the_disk,), (bombs,), (paths_in_every_name,), (requests_that_are_none,),
                 (numbers_and_depths,), (clients_that_go_away,)]
        tests += [(test, future) for test, future in slow] + [(many_connections, 2500 if options.short else 10_000)]
        for test, *more in tests:
            name, begin = test.__name__.replace("_", " "), time.monotonic()
            try:
                said = more[0].result() if more and isinstance(more[0], concurrent.futures.Future) else test(server, *more)
                alive(server)
                print(f"ok      {name}{': ' + said if said else ''} ({time.monotonic() - begin:.1f} s)", flush=True)
            except Exception as error:  # everything that a test meets is a miss; the others go on
                failed += 1
                print(f"MISSED  {name}: {type(error).__name__}: {str(error)[:600]}", flush=True)
                if server.process.poll() is not None:
                    print(server.said())
                    return 1
        server.end()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
