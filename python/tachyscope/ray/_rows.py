"""A row of a table as a request, and the files that it becomes. Nothing here needs Ray."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import tempfile
import time
from typing import Any

from .. import _inputs
from .._engine import EngineError
from .._generate import Engine
from .._requests import DATA, KINDS, NAMES, OWN_NAMES
from ._files import Files, fetched

FORMATS = ("mp4", "webm", "gif")
# An error of a row: an argument, a missing or damaged file, what a model cannot do, memory, NaN. Others are the machine's.
OF_A_ROW = (2, 3, 4, 5, 7, 8)
# Settings that say where and by which version a video was made.
OF_A_PLACE = ("tachyscope", "device", "model")
MOST_NAME = 200


@dataclasses.dataclass(frozen=True)
class Work:
    """What all rows have in common: the model, the engine's options, the request's fields where a row has none of its
    own, and what is done with the files and with a row's errors."""
    model: str | None
    engine: dict[str, Any]
    fields: dict[str, Any]
    files: Files
    format: str = "mp4"
    crf: int | None = None
    speed: str | None = None
    carry: tuple[str, ...] = ()
    keep_errors: bool = False

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise _inputs.wrong("format", f"expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {self.format!r}")
        for name in self.carry:
            if not isinstance(name, str):
                raise _inputs.wrong_type("carry", "names of columns", name)


def _is_none(value: Any) -> bool:
    return value is None or isinstance(value, float) and math.isnan(value)


def _plain(name: str, value: Any) -> Any:
    """Returns a value of a table as Engine takes it: whole numbers that a column with gaps has as 3.0, lists that it has as
    arrays."""
    kind = KINDS.get(NAMES.get(name, name), "")
    if name in ("seed", "width", "height") or kind == "int":
        if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
            value = value.item()
        if isinstance(value, float) and value.is_integer():
            return int(value)
    if (kind == "list" or name == "size") and hasattr(value, "tolist"):
        return value.tolist()
    return value


def request_of(row: dict[str, Any], work: Work) -> tuple[str | None, str, dict[str, Any]]:
    """Returns a row's name (or None), its prompt and its fields. A column that is none of these has to be in `carry`."""
    fields: dict[str, Any] = dict(work.fields)
    for column, value in row.items():
        if column in ("name", "prompt") or column in work.carry:
            continue
        if column not in NAMES and column not in OWN_NAMES and column != "negative_prompt":
            raise _inputs.wrong(column, "a column that is no field of a request; name it in `carry` if it should pass through")
        if not _is_none(value):
            fields[column] = _plain(column, value)
    name, prompt = row.get("name"), row.get("prompt")
    if not isinstance(prompt, str):
        raise _inputs.wrong_type("prompt", "a column of texts", prompt)
    return (None if _is_none(name) else _name(name)), prompt, fields


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise _inputs.wrong_type("name", "a text", name)
    if not name or name.startswith(".") or "/" in name or "\\" in name or not name.isprintable() or len(name.encode()) > MOST_NAME:
        raise _inputs.wrong("name", f"expected a file's name of at most {MOST_NAME} bytes without folders, got {name!r}")
    return name


def _hash_of_array(value: Any) -> str:
    """Returns the hash of what no file has: pictures, sounds and tensors in memory, also in tuples and dictionaries."""
    import numpy as np
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, (list, tuple)):
        return hashlib.sha256("".join(_hash_of_array(part) for part in value).encode()).hexdigest()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    array = np.ascontiguousarray(np.asarray(value))
    return hashlib.sha256(f"{array.shape}{array.dtype}".encode() + array.tobytes()).hexdigest()


def hash_of(settings: dict[str, Any], model: str | None, fields: dict[str, Any]) -> str:
    """Returns the hash of all that decides a video's content. Two rows with the same hash ask for the same video."""
    # Where an input lies does not count, but its content, which the settings have a hash of.
    inputs = {key.removesuffix("_sha256") for key in settings if key.endswith("_sha256")}
    about = {key: value for key, value in settings.items() if key not in OF_A_PLACE and key not in inputs}
    for name, value in fields.items():
        if (name == "audio" or KINDS.get(name) in DATA) and not isinstance(value, (str, os.PathLike)) and name + "_sha256" not in settings:
            about[name + "_sha256"] = _hash_of_array(value)
    about["model"] = os.path.basename(os.path.normpath(model)) if model else ""
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


class Maker:
    """Makes the videos of rows, one after another, with an engine of its own. A video whose files are complete is left as
    it is, so a table that was interrupted goes on when it is mapped again."""

    def __init__(self, work: Work):
        self._work = work
        self._engine = Engine(work.model, **work.engine)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Returns what became of a row: name, path, prompt, seed, whether it was made now, the seconds that it took, and
        with keep_errors the error's text and field."""
        out = {"name": "", "path": "", "prompt": str(row.get("prompt")), "seed": 0, "made": False, "seconds": 0.0}
        if self._work.keep_errors:
            out |= {"error": "", "field": ""}
        out |= {column: row.get(column) for column in self._work.carry}
        began = time.monotonic()
        try:
            self._make(row, out)
        except EngineError as error:
            if not self._work.keep_errors or error.code not in OF_A_ROW:
                raise
            out |= {"error": str(error), "field": error.field or ""}
        return out | {"seconds": time.monotonic() - began}

    def _make(self, row: dict[str, Any], out: dict[str, Any]) -> None:
        work, files = self._work, self._work.files
        name, prompt, fields = request_of(row, work)
        with tempfile.TemporaryDirectory(prefix="tachyscope-") as folder:
            for key, value in fields.items():
                if isinstance(value, str) and (key == "audio" or KINDS.get(key) in DATA):
                    fields[key] = fetched(value, folder, key)
            settings = self._engine.plan(prompt, **fields).settings
            digest = hash_of(settings, work.model, fields)
            name = name or digest[:16]
            video = f"{name}.{work.format}"
            out |= {"name": name, "path": files.path(video), "seed": settings["seed"]}
            if self._is_there(name, video, digest):
                return
            result = self._engine.generate(prompt, **fields)
            made = os.path.join(folder, video)
            result.save(made, crf=work.crf, speed=work.speed)
            files.put(video, made)
            # The settings come last: a video with settings is complete.
            settings_file = os.path.join(folder, "settings.json")
            with open(settings_file, "w", encoding="utf-8") as file:
                json.dump({**result.settings, "request_sha256": digest}, file, indent=2, ensure_ascii=False)
            files.put(f"{name}.json", settings_file)
            out["made"] = True

    def _is_there(self, name: str, video: str, digest: str) -> bool:
        text = self._work.files.read(f"{name}.json")
        if text is None:
            return False
        try:
            known = json.loads(text).get("request_sha256")
        except (ValueError, AttributeError):
            known = None
        if known != digest:
            raise _inputs.wrong("name", f"{self._work.files.path(name)}.json is of another request; give the row another name, or "
                                        "take another folder")
        return self._work.files.has(video)
