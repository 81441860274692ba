"""One run of the engine: a request becomes C's, the callbacks collect what is made, and another thread can end it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import _engine, _inputs
from . import _engine_c as c
from ._result import Audio, Frame, Plan, Preview, Progress, Result, shaped

Tell = Callable[[Any], None]


class Request:
    """A request in C's form. It keeps the memory to which C's struct points until the engine has copied it."""

    def __init__(self, prompt: bytes, pairs: list[tuple[bytes, bytes]], inputs: dict[str, Any]):
        self.keep: list[Any] = []
        self.pairs = pairs
        self.struct = c.Request(size=ctypes.sizeof(c.Request), prompt=prompt)
        settings = _inputs.settings(pairs)
        self.struct.settings, self.struct.setting_count = settings, len(pairs)
        self.keep.append(settings)
        for name, (kind, value) in inputs.items():
            if kind == "video":
                setattr(self.struct, name, _inputs.text(name, value))
                continue
            made = {"picture": _inputs.picture, "sound": _inputs.sound, "tensor": _inputs.tensor}[kind](name, value, self.keep)
            setattr(self.struct, name, ctypes.pointer(made))


class Handle:
    """What ends runs from another thread: all that it has been given, and those that begin later."""

    def __init__(self) -> None:
        self._lock, self.asked = threading.Lock(), False
        self._run: ctypes.c_void_p | None = None

    def cancel(self) -> None:
        with self._lock:
            self.asked = True
            if self._run is not None:
                c.library().tachyscope_run_cancel(self._run)

    @contextlib.contextmanager
    def run(self, engine: Any, request: Request) -> Iterator[Any]:
        lib, run = c.library(), ctypes.c_void_p()
        self.throw_if_asked()
        _engine.check(lib.tachyscope_run_open(engine, ctypes.byref(request.struct), ctypes.byref(run)))
        with self._lock:
            self._run = run
            if self.asked:
                lib.tachyscope_run_cancel(run)
        try:
            yield run
        finally:
            with self._lock:
                self._run = None
            lib.tachyscope_run_free(run)

    def throw_if_asked(self) -> None:
        if self.asked:
            raise _engine.Cancelled(_engine.CANCELLED, "cancelled")


def plan_of(run: Any, model: str) -> Plan:
    lib, plan, size, text = c.library(), c.CPlan(), c.Size(), ctypes.c_char_p()
    _engine.check(lib.tachyscope_run_plan(run, ctypes.byref(plan)))
    _engine.check(lib.tachyscope_run_size(run, ctypes.byref(size)))
    _engine.check(lib.tachyscope_run_settings(run, ctypes.byref(text)))
    settings = json.loads(text.value or b"{}")
    if model:
        settings["model"] = model
    return Plan(plan.peak_bytes, plan.seconds, size.width, size.height, size.frames, size.fps, settings)


def audio_of(run: Any) -> Audio | None:
    import numpy as np
    sound = c.Sound()
    _engine.check(c.library().tachyscope_run_sound(run, ctypes.byref(sound)))
    if not sound.count:
        return None
    samples = np.ctypeslib.as_array(ctypes.cast(sound.samples, ctypes.POINTER(ctypes.c_float)), (sound.count,)).copy()
    return Audio(samples, sound.rate)


class Borrowed:
    """Bytes on a GPU that somebody else owns, as torch reads them."""

    def __init__(self, address: int, shape: tuple[int, ...]):
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "|u1", "data": (address, False), "strides": None, "version": 3}


class Making:
    """The callbacks of a run. An error in one of them ends the run and is raised again afterwards."""

    def __init__(self, plan: Plan, output: str, tell: Tell | None, preview: bool, watch: Tell | None):
        import numpy as np
        self._np, self._output, self._tell, self._watch = np, output, tell, tell or watch
        self.pixels: Any = None
        collects = tell is None and output != "latents"
        self._shape = (plan.frames, plan.height, plan.width, 3)
        self.latents: list[Any] = []
        self.timings: dict[str, float] = {}
        self.error: BaseException | None = None
        self._windows = 1
        none = c.FRAME()
        self.callbacks = c.Callbacks(size=ctypes.sizeof(c.Callbacks), frame=c.FRAME(self._frame) if collects or tell else none,
                                     preview=c.FRAME(self._preview) if preview else none, progress=c.PROGRESS(self._progress),
                                     latents=c.LATENTS(self._latents) if output == "latents" else c.LATENTS(),
                                     device_frames=c.DEVICE_FRAMES(self._device_frames) if collects and output == "torch" else c.DEVICE_FRAMES())

    @property
    def has_all_latents(self) -> bool:
        return self._output == "latents" and len(self.latents) == self._windows

    def _guard(self, body: Callable[[], None]) -> int:
        try:
            if self.error is None:
                body()
        except BaseException as error:  # no exception may pass through C
            self.error = error
        return 0 if self.error is None else 1

    def _frame(self, _: Any, rgb: Any, width: int, height: int, index: int) -> int:
        def take() -> None:
            if self._tell:
                self._tell(Frame(index, self._np.ctypeslib.as_array(rgb, (height, width, 3)).copy()))
                return
            ctypes.memmove(self._room()[index].ctypes.data, rgb, 3 * width * height)
        return self._guard(take)

    def _room(self) -> Any:
        """Returns the array of all frames, which is made now: the engine first refuses what has no room."""
        if self.pixels is None:
            self.pixels = self._np.empty(self._shape, self._np.uint8)
        return self.pixels

    def _device_frames(self, _: Any, given: Any) -> int:
        def take() -> None:
            f = given.contents
            if f.gpu < 0:
                ctypes.memmove(self._room()[f.first].ctypes.data, f.rgb, f.count * 3 * f.width * f.height)
                return
            import torch
            device = torch.device("cuda", f.gpu)
            if self.pixels is None:
                self.pixels = torch.empty(self._shape, dtype=torch.uint8, device=device)
            self.pixels[f.first:f.first + f.count].copy_(torch.as_tensor(Borrowed(f.rgb, (f.count, f.height, f.width, 3)), device=device))
            torch.cuda.current_stream(device).synchronize()  # the engine takes its memory back now
        return self._guard(take)

    def _preview(self, _: Any, rgb: Any, width: int, height: int, step: int) -> int:
        tell = self._tell
        return self._guard(lambda: tell(Preview(step, self._np.ctypeslib.as_array(rgb, (height, width, 3)).copy())) if tell else None)

    def _progress(self, _: Any, given: Any) -> None:
        def take() -> None:
            p = given.contents
            self.timings[p.stage.decode()] = p.elapsed_seconds
            self._windows = p.windows
            if self._watch:
                self._watch(Progress(p.stage.decode(), p.done, p.total, p.elapsed_seconds, p.eta_seconds if p.eta_seconds >= 0 else None,
                                     p.window, p.windows))
        self._guard(take)

    def _latents(self, _: Any, values: Any, shape: Any, dims: int) -> int:
        def take() -> None:
            self.latents.append(self._np.ctypeslib.as_array(values, tuple(shape[i] for i in range(dims))).copy())
        # The latents of the last window are all that is wanted: nothing needs decoding.
        return self._guard(take) or int(self.has_all_latents)


def make(engine: Any, model: str, request: Request, handle: Handle, *, output: str = "numpy", tell: Tell | None = None,
         preview: bool = False, watch: Tell | None = None) -> Result:
    """Makes one video in the calling thread. With `tell`, events go there, and frames are not collected; `watch` is told
    of progress alone. An error of either ends the run and is raised."""
    began = time.monotonic()
    with handle.run(engine, request) as run:
        plan = plan_of(run, model)
        making = Making(plan, output, tell, preview, watch)
        code = c.library().tachyscope_run_generate(run, ctypes.byref(making.callbacks))
        if making.error is not None:
            raise making.error
        if not (code == _engine.CANCELLED and making.has_all_latents and not handle.asked):
            _engine.check(code)
        audio = audio_of(run)
    making.timings["total"] = time.monotonic() - began
    latents = making.latents[0] if len(making.latents) == 1 else making.latents or None
    frames = shaped(making.pixels, output) if making.pixels is not None else None
    return Result(frames, plan.fps, audio, making.timings, plan.settings, latents, making.pixels)
