"""An engine behind a Tachyscope server's /v1/videos (docs/server.md), with nothing but Python's own library and PyAV, which ComfyUI has."""

import io
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

from . import host, values

_POLL_SECONDS = 0.5
_SECONDS_TO_ANSWER = 60


class ServerEngine:
    """Makes videos on a server. address: as "http://127.0.0.1:8190"; key: "" where it needs none; model: one of the server's, or "".
    The video comes as a file, so its frames have been compressed."""

    def __init__(self, address, key="", model=""):
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"address: expected one such as http://127.0.0.1:8190, got {address!r}")
        self._address, self._key, self._model = address.rstrip("/"), key, model

    def make(self, prompt, **fields):
        """Returns (IMAGE, frames a second). fields: as for the engine in this process; pictures and sounds are sent along."""
        job = self._post(prompt, fields)
        bar = host.progress_bar(100)
        try:
            while job["status"] in ("queued", "in_progress"):
                bar.update_absolute(int(job.get("progress") or 0), 100)
                host.throw_if_cancelled()
                time.sleep(_POLL_SECONDS)
                job = json.loads(self._ask("GET", f"/v1/videos/{job['id']}"))
        except BaseException:
            self._ask("DELETE", f"/v1/videos/{job['id']}")
            raise
        if job["status"] != "completed":
            raise RuntimeError((job.get("error") or {}).get("message") or f"the server's job ended as {job['status']}")
        bar.update_absolute(100, 100)
        return _frames(self._ask("GET", f"/v1/videos/{job['id']}/content"))

    def encode(self, images):
        raise ValueError("a server has no encoder of its own: use Tachyscope load for this node")

    decode = encode

    def _post(self, prompt, fields):
        form = {"prompt": prompt, **({"model": self._model} if self._model else {})}
        files = {}
        for name, value in fields.items():
            if name == "image":
                files["input_reference"] = ("image.png", _png(value))
            elif name == "last_image":
                files["last_image"] = ("last.png", _png(value))
            elif name == "audio":
                files["speech"] = ("speech.wav", _wav(value))
            else:
                form[name] = "true" if value is True else "false" if value is False else str(value)
        body, kind = _multipart(form, files)
        return json.loads(self._ask("POST", "/v1/videos", body, {"Content-Type": kind}))

    def _ask(self, method, path, body=None, headers=None):
        request = urllib.request.Request(self._address + path, body, dict(headers or {}), method=method)
        if self._key:
            request.add_unredirected_header("Authorization", f"Bearer {self._key}")
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS_TO_ANSWER) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            said = error.read()
            try:
                said = json.loads(said)["error"]["message"]
            except (ValueError, KeyError, TypeError):
                said = f"the server answered {error.code}"
            raise RuntimeError(said) from None


def _multipart(form, files):
    mark, out = uuid.uuid4().hex, io.BytesIO()
    for name, value in form.items():
        out.write(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    for name, (file, data) in files.items():
        out.write(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"; filename="{file}"\r\n\r\n'.encode() + data + b"\r\n")
    out.write(f"--{mark}--\r\n".encode())
    return out.getvalue(), f"multipart/form-data; boundary={mark}"


def _png(pixels):
    from PIL import Image
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def _wav(audio):
    import wave
    out, waveform = io.BytesIO(), audio["waveform"][0].mean(0)
    with wave.open(out, "wb") as file:
        file.setnchannels(1), file.setsampwidth(2), file.setframerate(int(audio["sample_rate"]))
        file.writeframes((waveform.clamp(-1, 1) * 32767).round().short().cpu().numpy().tobytes())
    return out.getvalue()


def _frames(video):
    import av
    with av.open(io.BytesIO(video)) as file:
        stream = file.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in file.decode(stream)]
        return values.batch(frames), float(stream.average_rate)
