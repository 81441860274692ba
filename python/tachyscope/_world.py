"""A world that responds to keys and mouse, block by block, as arrays of NumPy. docs/worlds.md describes models, and
docs/api.md the interface."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _engine, _inputs

_MOST, _MOST_64 = (1 << 31) - 1, (1 << 64) - 1  # of numbers as C takes them
_PICTURE = "an array [height, width, 3] of uint8 or a Pillow picture"


def _whole(name: str, value: Any, least: int, most: int) -> int:
    number = int(_inputs.whole(name, value))
    if not least <= number <= most:
        raise _inputs.wrong(name, f"expected {least} to {most}, got {number}")
    return number


def _above_zero(name: str, value: Any) -> float:
    number = float(_inputs.number(name, value))
    if not 0 < number < float("inf"):
        raise _inputs.wrong(name, f"expected a number above 0, got {number}")
    return number


def _held(name: str, values: Iterable[Any]) -> Any:
    """Returns numbers from -1 to 1 as C's array."""
    numbers = [float(_inputs.number(name, value)) for value in values]
    for number in numbers:
        if not -1 <= number <= 1:
            raise _inputs.wrong(name, f"expected numbers from -1 to 1, got {number}")
    return (ctypes.c_float * len(numbers))(*numbers)


class _CtrlC:
    """Notes Ctrl-C while C runs in the main thread, and hands it on at the end, or at once while the caller's function runs (`inside`). Python
    would raise it at the very beginning of a callback of C, where nobody can catch it."""

    def __init__(self) -> None:
        self.inside = False
        self.noted: list[tuple[int, Any]] = []
        main = threading.current_thread() is threading.main_thread()
        self._before: Any = signal.getsignal(signal.SIGINT) if main else None

    def __enter__(self) -> _CtrlC:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: Any) -> None:
        if self.inside:
            self._before(number, frame)
        else:
            self.noted.append((number, frame))

    def __exit__(self, *_: object) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)
            if self.noted:
                self._before(*self.noted[0])


@dataclasses.dataclass(frozen=True)
class WorldInfo:
    """Properties of a world: `keys` names each value of the keyboard, `mouse_step` is the effect of holding an arrow
    key."""
    kind: str
    width: int
    height: int
    fps: float
    keys: tuple[str, ...]
    mouse: bool
    mouse_step: float
    takes_image: bool
    takes_prompt: bool
    first_block_frames: int
    block_frames: int
    peak_bytes: int


@dataclasses.dataclass(frozen=True)
class WorldBlock:
    """A block of a video: `frames` [n, height, width, 3] of uint8 (None if a function took them one by one), the number
    of the first of them in the video, the stamp of the action that the block followed, and the seconds from its
    beginning to its first frame and to its end."""
    index: int
    first_frame: int
    count: int
    stamp: int
    first_frame_seconds: float
    seconds: float
    frames: Any = None


class World:
    """One session on one device.

        with tachyscope.World("Matrix-Game-2.0", device="cuda") as world:
            world.start(image, seed=7)
            world.act({"W"}, mouse=(0, 0.1))
            frames = world.next_block().frames

    start, next_block, reset and close belong to one thread; any thread may call act and stop. A function that
    next_block calls may only call act and stop. A value that does not fit raises ArgumentError, a ValueError (and a
    TypeError where its type is wrong), and changes nothing; after an error of next_block only start and reset work. A
    world belongs to the process that opened it: after a fork, in the child, every call raises RuntimeError."""

    _world: Any = None
    _making = False

    def __init__(self, model: str | os.PathLike[str], device: str = "auto", *, width: int = 0, height: int = 0, steps: int | None = None,
                 window: int | None = None, shift: float | None = None, threads: int = 0, max_vram: int = 0):
        """model: as for `tachyscope world`. device: "cpu", "cuda", "cuda:1" or "auto". width, height, steps, window and
        shift are the model's if they are left out; max_vram: bytes of a GPU's memory, 0: all that is free."""
        options = _engine.WorldOptions(
            *(_whole(name, value, 0, _MOST) for name, value in (("width", width), ("height", height))),
            *(0 if value is None else _whole(name, value, 1, _MOST) for name, value in (("steps", steps), ("window", window))),
            0.0 if shift is None else _above_zero("shift", shift), _whole("max_vram", max_vram, 0, _MOST_64),
            _whole("threads", threads, 0, _MOST))
        path, where = _inputs.text("model", model), _inputs.text("device", device)
        self._library, self._pid, made = _engine.library(), os.getpid(), ctypes.c_void_p()
        _engine.check(self._library.tachyscope_world_open(path, where, ctypes.byref(options), ctypes.byref(made)))
        self._world = made
        self._acting = threading.Lock()  # close must not run while another thread acts
        about = _engine.WorldAbout()
        _engine.check(self._library.tachyscope_world_about(made, ctypes.byref(about)))
        self.info = WorldInfo(about.kind.decode(), about.width, about.height, about.fps,
                              tuple(about.keys[i].decode() for i in range(about.key_count)), bool(about.mouse), about.mouse_step,
                              bool(about.takes_image), bool(about.takes_prompt), about.first_block_frames, about.block_frames,
                              about.peak_bytes)

    def _open(self) -> Any:
        if os.getpid() != self._pid:
            raise RuntimeError("the world was opened before a fork, and its threads are in the other process: open one in this process")
        if self._world is None:
            raise ValueError("the world was closed")
        return self._world

    def start(self, image: Any = None, prompt: str = "", seed: int = 0) -> None:
        """Begins a new session from its first block: from `image` [height, width, 3] of uint8 and of any size (an
        array, a tensor or a Pillow picture), or from `prompt`, depending on info. The same seed gives the same video."""
        with_ = _engine.WorldStart(None, 0, 0, _inputs.text("prompt", prompt), _whole("seed", seed, 0, _MOST_64))
        if image is not None:
            pixels = _inputs.pixels("image", image, _PICTURE)
            with_.rgb, with_.height, with_.width = pixels.ctypes.data, pixels.shape[0], pixels.shape[1]
        _engine.check(self._library.tachyscope_world_start(self._open(), ctypes.byref(with_)))

    def act(self, keys: Iterable[str] | Mapping[str, float] = (), mouse: Sequence[float] | None = None, stamp: int = 0) -> None:
        """Sets what is held from the next block on. keys: names from info.keys, or a mapping of names to values from -1
        to 1. mouse: (pitch, yaw) from -1 to 1. May be called from any thread."""
        given: Any = keys
        try:
            held = dict(given) if hasattr(given, "keys") else dict.fromkeys(given, 1.0)
        except TypeError:
            raise _inputs.wrong_type("keys", "names of keys, or a mapping of them to values", keys) from None
        unknown = [k for k in held if k not in self.info.keys]
        if unknown:
            raise _inputs.wrong("keys", f"no key {unknown[0]!r}; this world has {' '.join(self.info.keys) or 'none'}")
        if mouse is not None and not self.info.mouse:
            raise _inputs.wrong("mouse", "this world has no mouse")
        if mouse is not None and (not hasattr(mouse, "__len__") or len(mouse) != 2):
            raise _inputs.wrong("mouse", f"expected (pitch, yaw), got {mouse!r}")
        keyboard = _held("keys", [held.get(k, 0.0) for k in self.info.keys])
        moved = None if mouse is None else _held("mouse", mouse)
        stamp = _whole("stamp", stamp, 0, _MOST_64)
        with self._acting:
            _engine.check(self._library.tachyscope_world_act(self._open(), keyboard, len(keyboard), moved, stamp))

    def next_block(self, frame: Callable[[Any, int], object] | None = None) -> WorldBlock:
        """Makes the next block. With `frame`, frame(array, index) is called for each frame [height, width, 3] as soon
        as it is there, with memory of its own; without it, the returned block has all frames. Ctrl-C ends the block at its
        next frame and raises KeyboardInterrupt; start and reset still work."""
        import numpy as np
        if frame is not None and not callable(frame):
            raise _inputs.wrong_type("frame", "a function", frame)
        info, made = self.info, _engine.WorldBlock()
        failed: list[BaseException] = []
        most = max(info.first_block_frames, info.block_frames)
        all_: Any = None if frame else np.empty((most, info.height, info.width, 3), np.uint8)
        count = 0

        def take(_: Any, rgb: Any, width: int, height: int, index: int) -> int:
            nonlocal count
            if ctrl_c.noted:
                return 1
            try:
                pixels = np.ctypeslib.as_array(rgb, (height, width, 3))
                if frame:
                    ctrl_c.inside = True
                    frame(pixels.copy(), index)
                else:
                    all_[count] = pixels
                count += 1
                return 0
            except BaseException as error:  # an error in the caller's function ends the block and is raised again afterwards
                failed.append(error)
                return 1
            finally:
                ctrl_c.inside = False

        world, around = self._open(), self._making
        self._making = True
        try:
            with _CtrlC() as ctrl_c:
                code = self._library.tachyscope_world_next_block(world, _engine.FRAME(take), None, ctypes.byref(made))
        finally:
            self._making = around
        if failed:
            raise failed[0]
        _engine.check(code)
        return WorldBlock(made.index, made.first_frame, made.frames, made.stamp, made.first_frame_seconds, made.seconds,
                          None if frame else all_[:count])

    def stop(self) -> None:
        """Makes next_block end soon with Cancelled, in whatever thread it runs; start and reset still work."""
        if self._world is not None:
            self._open()
        with self._acting:
            if self._world is not None:
                self._library.tachyscope_world_stop(self._world)

    def reset(self) -> None:
        """Begins the same start again, from its first block: the same actions give the same bits."""
        _engine.check(self._library.tachyscope_world_reset(self._open()))

    def close(self) -> None:
        """Frees the world; a second call does nothing."""
        if self._world is None or os.getpid() != self._pid:
            return
        if self._making:
            raise ValueError("a block is being made: stop it, and close the world when next_block has returned")
        with self._acting:
            world, self._world = self._world, None
        self._library.tachyscope_world_close(world)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a World cannot be copied or pickled: open one in each process")
