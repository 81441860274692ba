"""The server that the checks ask: by the openai client, and in plain HTTP."""

import contextlib
import functools
import io
import urllib.parse

import openai

import server as plain


class Missed(Exception):
    pass


class Site:
    def __init__(self, url, key, model, small):
        self.url, self.key, self.model, self.small = url.rstrip("/"), key, model, small
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key=key, timeout=60)
        self.once = openai.OpenAI(base_url=self.url + "/v1", api_key=key, timeout=60, max_retries=0)
        self.videos = self.client.videos
        self.made = []

    def close(self):
        for id in self.made:
            with contextlib.suppress(openai.OpenAIError):
                self.once.videos.delete(id)
        self.client.close()
        self.once.close()

    def ask(self, method, path, body=None, headers=None):
        """Sends a plain request with the key."""
        return plain.ask(self.url, method, path, body, {"Authorization": f"Bearer {self.key}"} | (headers or {}))

    def small_job(self, prompt="a red circle moves right", extra=None, **more):
        """Creates a job of about a second, as the client sends it: multipart, with the server's own fields as extra_body."""
        if self.model:
            more.setdefault("model", self.model)
        video = self.once.videos.create(prompt=prompt, extra_body=self.small | (extra or {}), **more)
        self.made.append(video.id)
        return video

    def long_job(self, prompt="a blue square moves left", extra=None):
        """Creates a job that runs for some time, for what is done to a job under way."""
        return self.small_job(prompt, {"num_frames": 65, "num_inference_steps": 100} | (extra or {}))

    @functools.cache
    def done(self):
        """Returns a job that is completed, the same for all checks."""
        video = self.once.videos.poll(self.small_job().id)
        assert video.status == "completed", video
        return video

    def content(self, id, **more):
        return self.once.videos.download_content(id, **more).read()

    def refused(self, kind, call, code=None, param=None, status=None):
        """Calls, and expects an error of this kind of the client's; returns it."""
        try:
            call()
        except kind as error:
            if code is not None and error.code != code:
                raise Missed(f"code {error.code!r}, expected {code!r}: {error}") from None
            if param is not None and error.param != param:
                raise Missed(f"param {error.param!r}, expected {param!r}: {error}") from None
            if status is not None and error.status_code != status:
                raise Missed(f"status {error.status_code}, expected {status}: {error}") from None
            assert isinstance(error.body, dict) and error.body.get("message"), f"the error has no message: {error.body}"
            return error
        raise Missed(f"no {kind.__name__}")

    def expect(self, answer, status, code=None):
        """Checks status and code of a plain answer, and the form of its error."""
        if answer.status != status or (code is not None and answer.code != code):
            raise Missed(f"{answer.status} {answer.code!r}, expected {status} {code!r}: {answer.body[:300]}")
        if status >= 400:
            error = answer.json["error"]
            assert set(error) >= {"message", "type", "param", "code"} and error["message"], error
        return answer


def quoted(text):
    return urllib.parse.quote(text, safe="")


def checks_of(names):
    """Returns the functions of a module that are checks, in their order."""
    return [value for name, value in names.items() if callable(value) and getattr(value, "__module__", "") == names["__name__"] and name[0] != "_"]


def png(width, height, value=128):
    """Returns a picture of one grey without a library of pictures."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([value]) * 3 * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def upload(data, name, type):
    return (name, io.BytesIO(data), type)
