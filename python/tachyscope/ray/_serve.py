"""The engine as a deployment of Ray Serve: a body of JSON comes in over HTTP, and a video goes out."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
import tempfile
from typing import Any

from .. import _inputs
from .._engine import EngineError
from .._requests import DATA, KINDS, NAMES, OWN_NAMES
from ._actor import EngineActor, check_share, engine_options, need_ray, share
from ._rows import FORMATS

MOST_BODY = 64 << 20
TYPES = {"mp4": "video/mp4", "webm": "video/webm", "gif": "image/gif"}
# Settings of clients that name files of the machine.
NOT_OVER_HTTP = ("loras", "init_latents", "image_embeds")
STATUS = {2: 400, 4: 400, 5: 400, 7: 503, 130: 503}
ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif", "audio/wav": ".wav", "audio/x-wav": ".wav",
           "audio/mpeg": ".mp3", "audio/mp4": ".m4a", "audio/flac": ".flac", "audio/ogg": ".ogg"}


def _data(field: str, value: Any, folder: str) -> str:
    """Writes what a data URL has to a file and returns its path: a client may not name files of this machine."""
    if not isinstance(value, str) or not value.startswith("data:"):
        raise _inputs.wrong(field, "expected a data URL, such as data:image/png;base64,…")
    kind, comma, text = value[5:].partition(",")
    ending = ENDINGS.get(kind.removesuffix(";base64").lower())
    if not comma or not kind.endswith(";base64") or ending is None:
        raise _inputs.wrong(field, f"expected base64 of one of {', '.join(ENDINGS)}")
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _inputs.wrong(field, "it is not base64") from None
    path = os.path.join(folder, field + ending)
    with open(path, "wb") as file:
        file.write(content)
    return path


def fields_of(body: bytes, folder: str) -> tuple[str, str, dict[str, Any]]:
    """Returns the prompt, the format and the fields of a body; pictures and sounds become files in `folder`."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise _inputs.wrong("body", "expected JSON") from None
    if not isinstance(given, dict):
        raise _inputs.wrong("body", "expected an object of JSON")
    prompt, format_ = given.pop("prompt", None), given.pop("format", "mp4")
    if not isinstance(prompt, str):
        raise _inputs.wrong_type("prompt", "a text", prompt)
    if format_ not in FORMATS:
        raise _inputs.wrong("format", f"expected one of {', '.join(FORMATS)}")
    for name, value in given.items():
        field = NAMES.get(name, name)
        if field in NOT_OVER_HTTP:
            raise _inputs.wrong(name, "it cannot be given over HTTP")
        if field in OWN_NAMES or field not in KINDS:
            if name == "size":
                continue
            raise _inputs.wrong(name, "no such field" if name != "audio" else "give it as speech and speech_2")
        if value is not None and KINDS[field] in DATA:
            given[name] = _data(field, value, folder)
        elif isinstance(value, (dict, list)) and KINDS[field] != "list":
            raise _inputs.wrong(name, "expected a single value")
    return prompt, format_, given


class VideoService(EngineActor):
    """Answers a POST of {"prompt": …, and fields of a request by name} with a video. Other deployments call generate,
    plan and stream through its handle."""

    async def __call__(self, request: Any) -> Any:
        from starlette.responses import JSONResponse, Response
        if request.method != "POST":
            return _refusal(405, "give a POST of JSON with a prompt", None)
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MOST_BODY:
                return _refusal(413, f"the body is larger than {MOST_BODY} bytes", None)
        try:
            with tempfile.TemporaryDirectory(prefix="tachyscope-") as folder:
                prompt, format_, fields = await asyncio.to_thread(fields_of, bytes(body), folder)
                path = os.path.join(folder, f"video.{format_}")
                await self.save(path, prompt, **fields)
                with open(path, "rb") as file:
                    video = file.read()
        except EngineError as error:
            # An error that is not the client's fault may name files of this machine.
            status = STATUS.get(error.code, 500)
            return _refusal(status, str(error) if status == 400 else "the engine cannot make this now", error.field)
        return Response(video, media_type=TYPES[format_])


def _refusal(status: int, message: str, field: str | None) -> Any:
    from starlette.responses import JSONResponse
    return JSONResponse({"error": {"message": message, "field": field}}, status_code=status)


def serve_app(model: str | os.PathLike[str] | None = None, *, num_cpus: float = 1, num_gpus: float = 0, replicas: int | dict[str, Any] = 1,
              waiting: int = 16, ray_options: dict[str, Any] | None = None, **options: Any) -> Any:
    """Returns an application for ray.serve.run: engines that answer a POST of {"prompt": "a cat", "frames": 81} with a video.

        ray.serve.run(tachyscope.ray.serve_app("Wan2.1-T2V-1.3B", num_gpus=1, replicas=4), route_prefix="/videos")

    model, num_cpus, num_gpus and all else: as for actor. replicas is a number of engines, or Serve's autoscaling as a
    dictionary ({"min_replicas": 1, "max_replicas": 8}). An engine has one request at a time, or `workers`; up to
    `waiting` more wait at each proxy, and beyond that a client gets 503. A client that goes away ends its run.

    A body has the fields by their names in docs/options.md with underscores. Pictures and sounds are data URLs; files of
    the machine, adapters and latents cannot be named. `format` is mp4, webm or gif. Errors are {"error": {"message",
    "field"}} with 400 for what the client can mend, 413, 503 and 500. ray_options: Ray's own for the actors.
    Raises ImportError without Ray Serve, and ArgumentError for an argument that does not fit."""
    need_ray()
    try:
        from ray import serve
    except ImportError as error:
        raise ImportError('tachyscope.ray.serve_app needs Ray Serve: pip install "ray[serve]"') from error
    cpus, gpus = share("num_cpus", num_cpus, 0), share("num_gpus", num_gpus, 0)
    check_share(gpus, options)
    if isinstance(waiting, bool) or not isinstance(waiting, int) or waiting < 1:
        raise _inputs.wrong("waiting", f"expected a whole number from 1 on, got {waiting!r}")
    if isinstance(replicas, bool) or not isinstance(replicas, (int, dict)) or isinstance(replicas, int) and replicas < 1:
        raise _inputs.wrong("replicas", f"expected a number from 1 on, or a dictionary, got {replicas!r}")
    many = {"autoscaling_config": replicas} if isinstance(replicas, dict) else {"num_replicas": replicas}
    made = serve.deployment(VideoService).options(
        max_ongoing_requests=options.get("workers", 1), max_queued_requests=waiting, graceful_shutdown_timeout_s=5,
        ray_actor_options={"num_cpus": cpus, "num_gpus": gpus, **(ray_options or {})}, **many)
    return made.bind(model, **engine_options(options, cpus, gpus))
