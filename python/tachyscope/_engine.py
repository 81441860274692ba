"""The engine's C interface (src/api/tachyscope_c.h) through ctypes, from the library beside this file. Calls release
Python's lock, so that other threads continue."""

import ctypes
import functools
import os
import re

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtachyscope_engine.so")
CANCELLED = 130

FRAME = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)


class EngineError(RuntimeError):
    """An error of the engine, or a refusal; `code` is one of the program's exit codes, and `field` the argument that the
    text names first, or None."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code
        named = re.search(r"`(\w+)`", text)
        self.field: str | None = named[1] if named else None

    def __reduce__(self):
        return type(self), (self.code, self.args[0])


class ArgumentError(EngineError, ValueError):
    """A value that does not fit."""


class ArgumentTypeError(ArgumentError, TypeError):
    """A value of a type that does not fit."""


class NotFound(EngineError, FileNotFoundError):
    """A missing file, or a missing part of a model."""


class OutOfMemory(EngineError, MemoryError):
    """More memory is needed than there is; nothing was begun."""


class NotFinite(EngineError, ArithmeticError):
    """NaN or Inf in a stage, which the text names."""


class Cancelled(EngineError):
    """The call was stopped."""


_KINDS = {2: ArgumentError, 3: NotFound, 7: OutOfMemory, 8: NotFinite, CANCELLED: Cancelled}


class WorldOptions(ctypes.Structure):
    _fields_ = [("width", ctypes.c_int32), ("height", ctypes.c_int32), ("steps", ctypes.c_int32), ("window", ctypes.c_int32),
                ("shift", ctypes.c_double), ("max_vram_bytes", ctypes.c_uint64), ("threads", ctypes.c_int32)]


class WorldAbout(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char_p), ("keys", ctypes.POINTER(ctypes.c_char_p)), ("key_count", ctypes.c_int32),
                ("mouse", ctypes.c_int32), ("mouse_step", ctypes.c_double), ("fps", ctypes.c_double), ("width", ctypes.c_int32),
                ("height", ctypes.c_int32), ("takes_image", ctypes.c_int32), ("takes_prompt", ctypes.c_int32),
                ("first_block_frames", ctypes.c_int64), ("block_frames", ctypes.c_int64), ("peak_bytes", ctypes.c_uint64)]


class WorldStart(ctypes.Structure):
    _fields_ = [("rgb", ctypes.c_void_p), ("width", ctypes.c_int32), ("height", ctypes.c_int32), ("prompt", ctypes.c_char_p),
                ("seed", ctypes.c_uint64)]


class WorldBlock(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int64), ("first_frame", ctypes.c_int64), ("frames", ctypes.c_int64), ("stamp", ctypes.c_uint64),
                ("first_frame_seconds", ctypes.c_double), ("seconds", ctypes.c_double)]


@functools.cache
def library() -> ctypes.CDLL:
    """Returns the engine, which is loaded when it is first needed."""
    if not os.path.exists(LIBRARY):
        raise ImportError("tachyscope was built without the engine, which Engine and World need: install a wheel of tools/make_wheel, or build "
                          "with -DTACHY_PYTHON_ENGINE=ON")
    lib = ctypes.CDLL(LIBRARY)
    world, text = ctypes.c_void_p, ctypes.c_char_p
    lib.tachyscope_last_error.restype = text
    for name, arguments in {
            "open": [text, text, ctypes.POINTER(WorldOptions), ctypes.POINTER(world)],
            "about": [world, ctypes.POINTER(WorldAbout)],
            "start": [world, ctypes.POINTER(WorldStart)],
            "act": [world, ctypes.POINTER(ctypes.c_float), ctypes.c_int32, ctypes.POINTER(ctypes.c_float), ctypes.c_uint64],
            "next_block": [world, FRAME, ctypes.c_void_p, ctypes.POINTER(WorldBlock)],
            "reset": [world]}.items():
        function = getattr(lib, "tachyscope_world_" + name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    for name in ("stop", "close"):
        function = getattr(lib, "tachyscope_world_" + name)
        function.argtypes, function.restype = [world], None
    return lib


def check(code: int) -> None:
    """Raises the error for a call's code, with the engine's own text."""
    if code:
        raise _KINDS.get(code, EngineError)(code, library().tachyscope_last_error().decode())
