"""An Engine in an actor of Ray, with the processors and GPUs that Ray has set aside for it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator
from typing import Any

from .. import _inputs
from .._async_engine import AsyncEngine
from .._result import Plan, Result


def need_ray() -> Any:
    """Returns the module ray; without one, an ImportError says what to install."""
    try:
        import ray
    except ImportError as error:
        raise ImportError('tachyscope.ray needs Ray: pip install "ray[data,serve]"') from error
    return ray


def share(name: str, value: Any, least: float) -> float:
    """Returns how much of a resource an actor takes."""
    out = float(_inputs.setting(name, "number", value)[0][1])
    if not least <= out <= 1 << 16:
        raise _inputs.wrong(name, f"expected a number from {least} on, got {value}")
    if out > 1 and out != int(out):
        raise _inputs.wrong(name, f"expected a share below 1 or a whole number, got {value}")
    return out


def engine_options(given: dict[str, Any], num_cpus: float, num_gpus: float) -> dict[str, Any]:
    """Returns an engine's options: as many threads as there are processors set aside, and the GPU if there is one. Ray
    hides the other GPUs from the process."""
    own = {"device": "cuda" if num_gpus > 0 else "cpu", "threads": max(1, int(num_cpus))}
    if num_gpus > 1 and "gpus" not in given:
        own["gpus"] = "all"
    return {**own, **given}


class EngineActor:
    """Is an AsyncEngine, and takes what Engine takes. Its calls wait for one another, `workers` at a time."""

    def __init__(self, model: str | os.PathLike[str] | None = None, **options: Any):
        self._engine = AsyncEngine(model, **options)
        self._engine.open_now()

    async def plan(self, prompt: str = "", **fields: Any) -> Plan:
        """Is Engine.plan."""
        return await self._engine.plan(prompt, **fields)

    async def generate(self, prompt: Any, **fields: Any) -> Any:
        """Is Engine.generate: a Result, or a list of them. ray.cancel ends the run."""
        return await self._engine.generate(prompt, **fields)

    async def stream(self, prompt: str, **fields: Any) -> AsyncIterator[Any]:
        """Is Engine.stream; call it with .options(num_returns="streaming")."""
        async for event in self._engine.stream(prompt, **fields):
            yield event

    async def save(self, path: str | os.PathLike[str], prompt: str, *, crf: int | None = None, speed: str | None = None, **fields: Any) -> Result:
        """Makes one video, writes it to a file on the actor's machine, and returns the Result without its frames."""
        result: Result = await self._engine.generate(prompt, **fields)
        await asyncio.to_thread(result.save, path, crf=crf, speed=speed)
        return dataclasses.replace(result, frames=None, pixels=None)


def actor(model: str | os.PathLike[str] | None = None, *, num_cpus: float = 1, num_gpus: float = 0, ray_options: dict[str, Any] | None = None,
          **options: Any) -> Any:
    """Starts an EngineActor somewhere in the cluster and returns its handle at once; a first call waits for it.

        engine = tachyscope.ray.actor("Wan2.1-T2V-1.3B", num_gpus=1)
        video = ray.get(engine.generate.remote("a cat", seed=7))

    model: as for Engine, on the machine where the actor runs. num_cpus is a number of processors or a share of one, and
    the engine has as many threads, at least one. num_gpus is 0 (the engine computes on the CPU), 1, more (they divide each
    step), or a share of one; then `max_vram` has to say how much of its memory is meant. ray_options: Ray's own, such as
    {"name": "wan", "max_restarts": -1, "resources": {…}}. All else is for Engine. Errors of the engine keep their types.
    Raises ImportError without Ray, and ArgumentError for resources that cannot be."""
    ray = need_ray()
    cpus, gpus = share("num_cpus", num_cpus, 0), share("num_gpus", num_gpus, 0)
    check_share(gpus, options)
    made = ray.remote(EngineActor).options(num_cpus=cpus, num_gpus=gpus, **(ray_options or {}))
    return made.remote(model, **engine_options(options, cpus, gpus))


def check_share(gpus: float, options: dict[str, Any]) -> None:
    if 0 < gpus < 1 and "max_vram" not in options:
        raise _inputs.wrong("max_vram", "it is needed where an engine gets a share of a GPU: without it an engine plans with all that is free")

