"""tachyscope.AsyncEngine: Engine for asyncio. The event loop goes on while videos are made, and cancelling a task ends its run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from ._generate import Engine
from ._result import Plan, Result

if TYPE_CHECKING:
    from typing import Unpack

    from ._fields import EngineFields, RequestFields


class AsyncEngine:
    """Takes what Engine takes; the model is opened by `async with`.

        async with tachyscope.AsyncEngine("Wan2.2-TI2V-5B") as engine:
            video = await engine.generate("a cat")
            async for event in engine.stream("a dog", preview=True): ...
    """

    def __init__(self, model: str | os.PathLike[str] | None = None, *, loras: Any = (), workers: int = 1, **fields: Unpack[EngineFields]):
        self._make: Callable[[], Engine] = lambda: Engine(model, loras=loras, workers=workers, **fields)
        self._opened: Engine | None = None

    async def __aenter__(self) -> AsyncEngine:
        await asyncio.to_thread(self.open_now)
        return self

    def open_now(self) -> None:
        """Opens the model in the calling thread, for those who have no `async with`."""
        self._opened = self._make()

    async def __aexit__(self, *_: object) -> None:
        engine, self._opened = self._engine, None
        await asyncio.to_thread(engine.close)

    @property
    def _engine(self) -> Engine:
        if self._opened is None:
            raise ValueError("the engine is not open: use it inside `async with`")
        return self._opened

    async def plan(self, prompt: str = "", *, seed: int = 0, **fields: Unpack[RequestFields]) -> Plan:
        """Is Engine.plan."""
        engine = self._engine
        return await asyncio.to_thread(lambda: engine.plan(prompt, seed=seed, **fields))

    @overload
    async def generate(self, prompt: str, *, seed: int = 0, output: str = "numpy", **fields: Unpack[RequestFields]) -> Result: ...
    @overload
    async def generate(self, prompt: list[str] | tuple[str, ...], *, seed: int | Sequence[int] = 0, output: str = "numpy",
                       **fields: Unpack[RequestFields]) -> list[Result]: ...
    @overload
    async def generate(self, prompt: str, *, seed: Sequence[int], output: str = "numpy", **fields: Unpack[RequestFields]) -> list[Result]: ...

    async def generate(self, prompt: Any, *, seed: Any = 0, output: str = "numpy", **fields: Unpack[RequestFields]) -> Any:
        """Is Engine.generate. Several calls at once are made `workers` at a time, in their order."""
        return await asyncio.wrap_future(self._engine.submit(prompt, seed=seed, output=output, **fields))

    async def stream(self, prompt: str, *, preview: bool = False, seed: int = 0, **fields: Unpack[RequestFields]) -> AsyncIterator[Any]:
        """Is Engine.stream. Where a loop is left early, `contextlib.aclosing` ends the run at once; otherwise the event
        loop ends it soon."""
        events = self._engine.stream(prompt, preview=preview, seed=seed, **fields)
        end = object()
        try:
            while (event := await asyncio.to_thread(next, events, end)) is not end:
                yield event
        finally:
            await asyncio.to_thread(events.close)
