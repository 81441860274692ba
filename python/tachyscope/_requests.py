"""The arguments of Engine's functions by the table of fields (_fields.py, which is made of the engine's own): what they may be, the requests that they
become, and what help() shows of them."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import itertools
import os
from collections.abc import Iterable
from typing import Any

from . import _inputs, _run
from ._engine import ArgumentTypeError
from ._fields import ENGINE, REQUEST
from .compat._switches import is_set

DATA = ("picture", "sound", "tensor", "video")
KINDS = {name: kind for name, kind, _, _ in REQUEST}
NAMES = {key: name for name, _, key, _ in REQUEST} | {name: name for name, _, _, _ in REQUEST}
OPTIONS = {name: kind for name, kind, _, _ in ENGINE}
OWN_NAMES = {"size": "width and height in pixels, in one",
             "audio": "speech, or a list of speech and speech_2"}


def _refuse_unknown(given: Iterable[str], known: Iterable[str], whose: str) -> None:
    known = list(known)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ArgumentTypeError(2, f"`{name}`: {whose} has no such field{f'; did you mean {near[0]}?' if near else ''}")


def engine_settings(fields: dict[str, Any]) -> list[tuple[bytes, bytes]]:
    _refuse_unknown(fields, OPTIONS, "an engine")
    return [pair for name, value in fields.items() if value is not None for pair in _inputs.setting(name, OPTIONS[name], value)]


def model_path(model: Any) -> bytes | None:
    """Returns the model's path as C takes it; without one, that of the model in a wheel, or null."""
    if model is not None:
        return _inputs.text("model", model)
    shipped = os.path.join(os.path.dirname(os.path.abspath(__file__)), "share", "tachyscope", "models", "sprites")
    return os.fsencode(shipped) if os.path.isdir(shipped) and not is_set("TACHY_MODEL_DIR") else None


@dataclasses.dataclass
class Requests:
    """The requests of one call, and whether its prompts or seeds were lists."""
    requests: list[_run.Request]
    prompts: Any
    seeds: Any

    @property
    def is_list(self) -> bool:
        return isinstance(self.prompts, list) or isinstance(self.seeds, list)


def _unfold(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields by the names of the table, without those that are None."""
    _refuse_unknown(fields, [*NAMES, *OWN_NAMES], "a request")
    out: dict[str, Any] = {}

    def put(name: str, value: Any) -> None:
        if name in out:
            raise _inputs.wrong(name, "it is given twice")
        out[name] = value
    for name, value in fields.items():
        if value is None:
            continue
        if name == "size":
            if not isinstance(value, (tuple, list)) or len(value) != 2:
                raise _inputs.wrong_type(name, "(width, height)", value)
            put("width", value[0])
            put("height", value[1])
        elif name == "audio":
            both = value if isinstance(value, list) else [value]
            if not 1 <= len(both) <= 2:
                raise _inputs.wrong(name, f"expected one or two sounds, got {len(both)}")
            for field, one in zip(("speech", "speech_2"), both):
                put(field, one)
        else:
            put(NAMES[name], value)
    return out


def _several(name: str, value: Any) -> list[Any]:
    most = _inputs.MOST_VALUES
    if isinstance(value, (list, tuple, range)) and value[most:]:
        raise _inputs.wrong(name, f"expected a list of at most {most}")
    out = list(value) if isinstance(value, (list, tuple, range)) else [value]
    if not out:
        raise _inputs.wrong(name, "expected at least one")
    return out


def requests(prompt: Any, fields: dict[str, Any], loras: list[tuple[bytes, bytes]]) -> Requests:
    """Checks the types of all arguments and makes C's requests of them: all seeds of the first prompt first."""
    given = _unfold(fields)
    seeds = given.pop("seed", 0)
    prompts = [_inputs.text("prompt", p) for p in _several("prompt", prompt)]
    drawn = [_inputs.setting("seed", "int", seed) for seed in _several("seed", seeds)]
    inputs = {name: (KINDS[name], value) for name, value in given.items() if KINDS[name] in DATA}
    pairs = [pair for name, value in given.items() if KINDS[name] not in DATA for pair in _inputs.setting(name, KINDS[name], value)]
    if "loras" not in given:
        pairs += loras
    made = [_run.Request(p, pairs + seed, inputs) for p, seed in itertools.product(prompts, drawn)]
    return Requests(made, list(prompts) if isinstance(prompt, (list, tuple)) else prompt, list(drawn) if isinstance(seeds, (list, tuple, range)) else seeds)


def _with_fields(function: Any, fields: Iterable[tuple[str, str]]) -> None:
    """Puts the fields in place of **fields into what help() and inspect show."""
    fields = list(fields)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    own = {p.name for p in parameters}
    parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name, _ in fields if name not in own]
    function.__signature__ = inspect.Signature(parameters)
    function.__doc__ = inspect.cleandoc(function.__doc__ or "").rstrip() + "\n\n" + "\n".join(f"{name}: {help_}" for name, help_ in fields)


def describe(engine: type) -> None:
    """Gives Engine's functions their signatures and help."""
    fields = [(name, help_) for name, _, _, help_ in REQUEST] + list(OWN_NAMES.items())
    for name in ("plan", "generate", "submit", "stream"):
        _with_fields(engine.__dict__[name], fields)
    init, options = engine.__dict__["__init__"], [(name, help_) for name, _, _, help_ in ENGINE]
    init.__doc__ = engine.__doc__
    _with_fields(init, options)
    engine.__doc__ = init.__doc__
