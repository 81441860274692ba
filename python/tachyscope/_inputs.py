"""Values of Python as the engine's C interface takes them: settings as texts, pictures, sounds and tensors as memory. Whatever does not fit is an
ArgumentError that names the argument."""

from __future__ import annotations

import ctypes
import operator
import os
from typing import Any

from . import _engine_c as c
from ._engine import ArgumentError, ArgumentTypeError, OutOfMemory

MOST_PIXELS = 1 << 14  # of a picture's side, as in src/api/c_request.cpp
MOST_SECONDS, MOST_CHANNELS = 7200, 64  # of a sound; the seconds as there
MOST_VALUES = 1 << 16  # of a list of prompts or seeds
MOST_ENTRIES = 64  # of a list, as in settings that are read from JSON
MOST_BYTES = 1 << 20  # of a text, as in src/api/c_fields.h


def wrong(name: str, text: str) -> ArgumentError:
    return ArgumentError(2, f"`{name}`: {text}")


def wrong_type(name: str, expected: str, value: Any) -> ArgumentTypeError:
    return ArgumentTypeError(2, f"`{name}`: expected {expected}, got {type(value).__name__}")


def text(name: str, value: Any) -> bytes:
    """Returns a text or a path as C's text."""
    if isinstance(value, os.PathLike):
        try:
            value = os.fspath(value)
        except Exception as error:
            raise wrong(name, f"expected a path: {error}") from None
    if not isinstance(value, str):
        raise wrong_type(name, "a text", value)
    try:
        out = value.encode()
    except UnicodeEncodeError as error:
        raise wrong(name, f"expected a text in Unicode, got {value[error.start:error.end]!r} in it") from None
    if b"\0" in out or len(out) > MOST_BYTES:
        raise wrong(name, "expected a text without NUL" if b"\0" in out else f"expected a text of at most {MOST_BYTES} bytes")
    return out


def whole(name: str, value: Any) -> bytes:
    if isinstance(value, bool):
        raise wrong_type(name, "a whole number", value)
    try:
        out = operator.index(value)
    except TypeError:
        raise wrong_type(name, "a whole number", value) from None
    except Exception as error:
        raise wrong(name, f"expected a whole number: {error}") from None
    if abs(out) >= 1 << 64:
        raise wrong(name, "expected a whole number of at most 64 bits")
    return str(out).encode()


def number(name: str, value: Any) -> bytes:
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise wrong_type(name, "a number", value)
    try:
        return repr(float(value)).encode()
    except Exception:
        raise wrong(name, f"expected a number, got {type(value).__name__}") from None


def _list(name: str, value: Any) -> list[bytes]:
    if isinstance(value, (str, os.PathLike)):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise wrong_type(name, "a list of texts", value)
    if len(value) > MOST_ENTRIES:
        raise wrong(name, f"expected at most {MOST_ENTRIES} texts, got {len(value)}")
    if name == "speaker_boxes":  # a box is a text, or four numbers
        value = [",".join(whole(name, v).decode() for v in box) if isinstance(box, (list, tuple)) else box for box in value]
    return [text(name, entry) for entry in value]


def setting(name: str, kind: str, value: Any) -> list[tuple[bytes, bytes]]:
    """Returns the settings of C that a value becomes; a list is one for each entry."""
    key = name.encode()
    if kind == "list":
        return [(key, entry) for entry in _list(name, value)]
    if kind == "bool":
        if not isinstance(value, bool):
            raise wrong_type(name, "True or False", value)
        return [(key, b"true" if value else b"false")]
    if name == "max_vram" and isinstance(value, str):
        kind = "text"
    return [(key, {"text": text, "int": whole, "number": number}[kind](name, value))]


def settings(pairs: list[tuple[bytes, bytes]]) -> Any:
    return (c.Setting * len(pairs))(*(c.Setting(*pair) for pair in pairs))


def _array(name: str, value: Any, expected: str) -> Any:
    """Returns a NumPy array of the same memory where that is possible; of a tensor on a GPU, a copy."""
    import numpy as np
    if isinstance(value, (str, bytes, dict)) or value is None:
        raise wrong_type(name, expected, value)
    try:
        if hasattr(value, "detach") and hasattr(value, "cpu"):
            value = value.detach().cpu()
            value = (value.float() if value.is_floating_point() else value).numpy()
        out = np.asarray(value)
    except Exception as error:
        raise wrong(name, f"expected {expected}: {error}") from None
    if out.dtype.hasobject or out.dtype.kind not in "buif":
        raise wrong_type(name, expected, value)
    return out


def _contiguous(name: str, values: Any, dtype: Any) -> Any:
    """Returns the values one after another; they are copied where they lie otherwise."""
    import numpy as np
    try:
        return np.ascontiguousarray(values, dtype)
    except MemoryError:
        raise OutOfMemory(7, f"`{name}`: there is no memory for a copy of {list(values.shape)}") from None


def _check_sides(name: str, width: int, height: int) -> None:
    if not (1 <= width <= MOST_PIXELS and 1 <= height <= MOST_PIXELS):
        raise wrong(name, f"expected sides of 1 to {MOST_PIXELS} pixels, got {width}x{height}")


def _colours(name: str, value: Any, expected: str, dims: int) -> Any:
    """Returns the pixels of pictures as an array of `dims` dims, the last three of which are height, width and 3."""
    import numpy as np
    values = _array(name, value, expected)
    if values.dtype != np.uint8 or values.ndim != dims or values.shape[-1] != 3 or dims == 4 and values.shape[0] < 1:
        raise wrong(name, f"expected {expected}, got {list(values.shape)} of {values.dtype}")
    _check_sides(name, values.shape[-2], values.shape[-3])
    return _contiguous(name, values, np.uint8)


def pixels(name: str, value: Any, expected: str) -> Any:
    """Returns a picture's pixels one after another, as an array of NumPy."""
    if hasattr(value, "convert") and hasattr(value, "mode"):  # Pillow's
        try:
            _check_sides(name, *value.size)  # first, since a conversion takes memory
            value = value.convert("RGB")
        except ArgumentError:
            raise
        except Exception as error:
            raise wrong(name, f"cannot read the picture: {error}") from None
    return _colours(name, value, expected, 3)


def picture(name: str, value: Any, keep: list[Any]) -> c.Picture:
    if isinstance(value, (str, os.PathLike)):
        return c.Picture(path=text(name, value))
    values = pixels(name, value, "a file, a Pillow picture or an array [height, width, 3] of uint8")
    keep.append(values)
    return c.Picture(None, values.ctypes.data, values.shape[1], values.shape[0])


def frames(name: str, value: Any) -> Any:
    """Returns a video's frames one after another."""
    return _colours(name, value, "an array [frames, height, width, 3] of uint8", 4)


def sound(name: str, value: Any, keep: list[Any]) -> c.Sound:
    import numpy as np
    if isinstance(value, (str, os.PathLike)):
        return c.Sound(path=text(name, value))
    expected = "a file, (samples, rate), or a dictionary with 'waveform' and 'sample_rate'"
    if isinstance(value, dict):  # ComfyUI's AUDIO
        value = (value.get("waveform"), value.get("sample_rate"))
    if not isinstance(value, tuple) or len(value) != 2:
        raise wrong_type(name, expected, value)
    samples, rate = _array(name, value[0], expected), int(whole(name, value[1]))
    while samples.ndim > 1 and samples.shape[0] == 1:
        samples = samples[0]
    if samples.dtype.kind != "f" or samples.ndim not in (1, 2) or samples.size == 0:
        raise wrong(name, f"expected samples [n] or [channels, n] of float32, got {list(samples.shape)} of {samples.dtype}")
    if not 1 <= rate < 1 << 31:
        raise wrong(name, f"expected a rate in Hz, got {rate}")
    channels = 1 if samples.ndim == 1 else samples.shape[0]
    if channels > MOST_CHANNELS or samples.size > MOST_SECONDS * rate * channels:
        raise wrong(name, f"expected at most {MOST_CHANNELS} channels of {MOST_SECONDS} seconds, got {list(samples.shape)} at {rate} Hz")
    samples = _contiguous(name, samples if samples.ndim == 1 else samples.mean(0), np.float32)
    keep.append(samples)
    return c.Sound(None, samples.ctypes.data, samples.size, rate)


def tensor(name: str, value: Any, keep: list[Any]) -> c.Tensor:
    import numpy as np
    if isinstance(value, (str, os.PathLike)):
        return c.Tensor(path=text(name, value))
    values = _array(name, value, "a .safetensors file or an array of float32")
    if values.dtype.kind != "f" or not 1 <= values.ndim <= 8 or not 1 <= values.size < 1 << 31:
        raise wrong(name, f"expected an array of float32, got {list(values.shape)} of {values.dtype}")
    values = _contiguous(name, values, np.float32)
    shape = (ctypes.c_int64 * values.ndim)(*values.shape)
    keep += [values, shape]
    return c.Tensor(None, values.ctypes.data, shape, values.ndim)
