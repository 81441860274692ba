"""tachyscope.Engine: videos from prompts, pictures and sounds. docs/python-engine.md shows its use."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _engine, _inputs, _requests, _run
from . import _engine_c as c
from ._result import OUTPUTS, Plan, Result
from ._stream import Stream

if TYPE_CHECKING:
    from typing import Unpack

    from ._fields import EngineFields, RequestFields

T = TypeVar("T")


class Job(concurrent.futures.Future[Any]):
    """A video, or a list of them, that is being made: a concurrent.futures.Future whose cancel also ends a run that is under way."""

    def __init__(self) -> None:
        super().__init__()
        self._handle = _run.Handle()

    def cancel(self) -> bool:
        """Ends the job, even while it runs. Returns False if it is done already."""
        done = super().cancel()
        if done:
            self._handle.cancel()
        return done

    def _work(self, make: Callable[[_run.Handle], Any]) -> None:
        """The future stays pending meanwhile, so that it can be cancelled at any time."""
        try:
            out, error = (None if self.cancelled() else make(self._handle)), None
        except BaseException as raised:
            out, error = None, raised
        # Whoever cancels it just now comes first: then the video is dropped.
        if self.set_running_or_notify_cancel():
            if error is None:
                self.set_result(out)
            else:
                self.set_exception(error)


class Engine:
    """A model, opened once, from which any number of threads may make videos at the same time.

        with tachyscope.Engine("Wan2.1-T2V-1.3B", device="auto", loras=["a.safetensors:0.8"]) as engine:
            video = engine.generate("a cat", frames=81, seed=7)
            video.save("cat.mp4")

    model: a folder or a file as for the program; without it, the model that ships. loras: adapters of every request that
    has none of its own. workers: how many jobs of submit are made at the same time. All else are fields:
    """

    _engine: Any = None

    def __init__(self, model: str | os.PathLike[str] | None = None, *, loras: Any = (), workers: int = 1,
                 **fields: Unpack[EngineFields]):
        if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= 64:
            raise _inputs.wrong("workers", f"expected 1 to 64, got {workers!r}")
        self._loras = _inputs.setting("loras", "list", loras)
        options = _requests.engine_settings(dict(fields))
        path = _requests.model_path(model)
        self.model = "" if model is None else os.fspath(model)
        self._library, self._pid, made = c.library(), os.getpid(), ctypes.c_void_p()
        _engine.check(self._library.tachyscope_open(path, _inputs.settings(options), len(options), ctypes.byref(made)))
        self._engine = made
        self._state = threading.Condition()
        self._makers: list[int] = []  # the threads that make something now
        self._workers = workers
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None

    def plan(self, prompt: str = "", *, seed: int = 0, **fields: Unpack[RequestFields]) -> Plan:
        """Says what a run would take: its memory to the byte, its seconds and its settings. Nothing is loaded."""
        [request] = self._requests(prompt, {**fields, "seed": seed}, single="plan")
        handle = _run.Handle()

        def work() -> Plan:
            with self._using() as engine, handle.run(engine, request) as run:
                return _run.plan_of(run, self.model)
        return _call(work, handle)

    @overload
    def generate(self, prompt: str, *, seed: int = 0, output: str = "numpy", **fields: Unpack[RequestFields]) -> Result: ...
    @overload
    def generate(self, prompt: list[str] | tuple[str, ...], *, seed: int | Sequence[int] = 0, output: str = "numpy",
                 **fields: Unpack[RequestFields]) -> list[Result]: ...
    @overload
    def generate(self, prompt: str, *, seed: Sequence[int], output: str = "numpy", **fields: Unpack[RequestFields]) -> list[Result]: ...

    def generate(self, prompt: Any, *, seed: Any = 0, output: str = "numpy", **fields: Unpack[RequestFields]) -> Any:
        """Makes a video, or one for each prompt and seed if either is a list (all seeds of the first prompt come first).
        output: "numpy", "torch", "pil", or "latents", which decodes nothing. Ctrl-C ends it.

        image, last_image and masks are files, Pillow pictures or arrays [height, width, 3] of uint8. audio is a file,
        (samples, rate) or ComfyUI's AUDIO, or a list of two for two speakers. Videos are paths. size is (width, height). All else are
        fields, also by the names that diffusers has for them:
        """
        return self._generate(prompt, output, {**fields, "seed": seed})

    def _generate(self, prompt: Any, output: str, fields: dict[str, Any], watch: _run.Tell | None = None) -> Any:
        make, handle = self._maker(prompt, output, fields, watch), _run.Handle()
        return _call(lambda: make(handle), handle)

    def submit(self, prompt: str | Sequence[str], *, seed: int | Sequence[int] = 0, output: str = "numpy", **fields: Unpack[RequestFields]) -> Job:
        """Takes what generate takes, and returns a Job at once. Jobs are made in their order, `workers` at a time."""
        make, job = self._maker(prompt, output, {**fields, "seed": seed}), Job()
        with self._state:
            self._open()
            if self._pool is None:
                self._pool = concurrent.futures.ThreadPoolExecutor(self._workers, "tachyscope")
            self._pool.submit(job._work, make)
        return job

    def stream(self, prompt: str, *, preview: bool = False, seed: int = 0, **fields: Unpack[RequestFields]) -> Stream:
        """Makes one video and yields Progress, Preview (if it is asked for) and Frame as they come. Leaving the loop ends
        the run. It takes the fields of generate:
        """
        [request] = self._requests(prompt, {**fields, "seed": seed}, single="stream")
        if not isinstance(preview, bool):
            raise _inputs.wrong_type("preview", "True or False", preview)

        def make(handle: _run.Handle, tell: _run.Tell) -> Result:
            with self._using() as engine:
                return _run.make(engine, self.model, request, handle, tell=tell, preview=preview)
        return Stream(make)

    def cancel(self) -> None:
        """Ends all that is being made now, from any thread: it raises Cancelled."""
        self._open()
        with self._state:
            self._library.tachyscope_cancel(self._open())

    def close(self) -> None:
        """Ends what is being made and frees the model; a second call does nothing. A callback may not close its own engine."""
        if self._engine is None or os.getpid() != self._pid:
            return
        with self._state:
            if threading.get_ident() in self._makers:  # it would wait for itself
                raise ValueError("a video is being made, and this is its callback: cancel the engine, and close it when the run has ended")
            engine, self._engine = self._engine, None
            if engine is None:  # another thread has closed it just now
                return
            while self._makers:  # a run may just be beginning
                self._library.tachyscope_cancel(engine)
                self._state.wait(0.01)
        if self._pool is not None:
            self._pool.shutdown(wait=False)
        self._library.tachyscope_free(engine)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("an Engine cannot be copied or pickled: open one in each process")

    def _open(self) -> Any:
        if os.getpid() != self._pid:
            raise RuntimeError("the engine was opened before a fork, and its threads are in the other process: open one in this process")
        if self._engine is None:
            raise ValueError("the engine was closed")
        return self._engine

    @contextlib.contextmanager
    def _using(self) -> Iterator[Any]:
        """Hands out the engine, which is not freed meanwhile."""
        with self._state:
            engine = self._open()
            self._makers.append(threading.get_ident())
        try:
            yield engine
        finally:
            with self._state:
                self._makers.remove(threading.get_ident())
                self._state.notify_all()

    def _requests(self, prompt: Any, fields: dict[str, Any], single: str = "") -> list[_run.Request]:
        self._open()
        made = _requests.requests(prompt, fields, self._loras)
        if single and isinstance(made.seeds, list) or single and isinstance(made.prompts, list):
            raise _inputs.wrong("prompt", f"{single} takes one prompt and one seed")
        return made.requests

    def _maker(self, prompt: Any, output: str, fields: dict[str, Any], watch: _run.Tell | None = None) -> Callable[[_run.Handle], Any]:
        if not isinstance(output, str) or output not in OUTPUTS:
            raise _inputs.wrong("output", f"expected {', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}, got {output!r}")
        self._open()
        made = _requests.requests(prompt, fields, self._loras)

        def make(handle: _run.Handle) -> Any:
            with self._using() as engine:
                results: list[Result] = [_run.make(engine, self.model, r, handle, output=output, watch=watch) for r in made.requests]
            return results if made.is_list else results[0]
        return make


def _call(work: Callable[[], T], handle: _run.Handle) -> T:
    """Runs `work` in another thread, since only a thread that waits in Python hears Ctrl-C, which then ends the run."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    out: list[T] = []
    failed: list[BaseException] = []
    done = threading.Event()

    def body() -> None:
        try:
            out.append(work())
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()
    thread = threading.Thread(target=body, name="tachyscope")
    try:
        thread.start()
        done.wait()
    except BaseException:
        handle.cancel()
        done.wait(None if thread.ident else 5)  # it may not have begun
        raise
    if failed:
        raise failed[0]
    return out[0]


_requests.describe(Engine)
