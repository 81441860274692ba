#!/usr/bin/env python3
"""Records what the unmodified openai client sends for /v1/videos, as fixtures of the unit tests (tests/unit/web_api/bodies).

    pip install openai==3.57.0
    tests/serve/record_bodies.py [folder]

A small server on a socket keeps each request as it came, from its first line to the last byte of its body. Only the boundary of a
multipart body, which the client draws, is replaced by another of the same length, so that a second recording has the same bytes."""

import json
import pathlib
import re
import socket
import sys
import threading

import openai

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "unit" / "web_api" / "bodies"
VIDEO = {"id": "video_1", "object": "video", "created_at": 1, "model": "wan", "progress": 0, "seconds": "1.00", "size": "64x64",
         "status": "queued"}
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
                    "53de0000000c4944415408d763f8cfc000000301010018dd8db00000000049454e44ae426082")


class Recorder:
    """Answers every request with a Video, and keeps the last one."""

    def __init__(self):
        self.last = b""
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            with connection:
                self.last = self.read(connection)
                answer = json.dumps(VIDEO).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                                   b"Content-Length: %d\r\n\r\n%s" % (len(answer), answer))

    @staticmethod
    def read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        head = data.split(b"\r\n\r\n", 1)[0]
        length = re.search(rb"(?i)content-length: (\d+)", head)
        chunked = re.search(rb"(?i)transfer-encoding: chunked", head)
        while chunked and not data.endswith(b"0\r\n\r\n"):
            data += connection.recv(65536)
        while length and len(data) < len(head) + 4 + int(length[1]):
            data += connection.recv(65536)
        return data


def calls(client):
    """Yields the name of a fixture and the call that makes it."""
    videos = client.videos
    yield "plain", lambda: videos.create(prompt="a red circle moves right", model="wan", seconds="4", size="832x480")
    yield "five", lambda: videos.create(prompt="5")
    yield "file", lambda: videos.create(prompt="a cat", input_reference=("cat.png", PNG, "image/png"))
    yield "numbers", lambda: videos.create(
        prompt="a cat", extra_body={"num_frames": 17, "guidance_scale": 4.5, "seed": 18446744073709551615, "free_noise": True})
    yield "lists", lambda: videos.create(
        prompt="a cat", extra_body={"without": ["fused-norms", "attention"],
                                    "loras": [{"name": "anime", "strength": 0.5}, {"name": "film", "strength": 1}]})
    yield "unequal", lambda: videos.create(
        prompt="a cat", extra_body={"loras": [{"name": "anime", "strength": 0.5}, {"name": "film"}]})
    yield "nested", lambda: videos.create(
        prompt="a cat", extra_body={"extra_params": {"num_inference_steps": 7, "flow_shift": 3}})
    yield "data_url", lambda: videos.create(
        prompt="a cat", extra_body={"input_reference": {"image_url": "data:image/png;base64,iVBORw0KGgo="}})
    yield "json_text", lambda: videos.create(
        prompt="a cat", extra_body={"loras": json.dumps([{"name": "anime", "strength": 0.5}]), "extra_params": '{"num_frames": 5}'})
    yield "none", lambda: videos.create(prompt="a cat", extra_body={"seed": None})
    yield "remix", lambda: videos.remix("video_1", prompt="a dog")
    yield "remix_more", lambda: videos.remix("video_1", prompt="a dog", extra_body={"seed": 7, "loras": [{"name": "film"}]})


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder()
    client = openai.OpenAI(api_key="tk-test", base_url=f"http://127.0.0.1:{recorder.port}/v1", max_retries=0)
    for name, call in calls(client):
        call()
        found = re.search(rb"boundary=([^\r\n]+)", recorder.last)
        request = recorder.last.replace(b"127.0.0.1:%d" % recorder.port, b"127.0.0.1:8190")
        if found:
            request = request.replace(found[1], b"recorded".ljust(len(found[1]), b"0"))
        (folder / f"{name}.http").write_bytes(request)
        print(name, len(request))


if __name__ == "__main__":
    main()
