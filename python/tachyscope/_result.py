"""What the engine gives back: plans, events and results."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
from typing import Any, NamedTuple

from . import _engine, _inputs
from . import _engine_c as c


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run would take: the most memory in bytes, exactly, the seconds as far as they can be told beforehand, the
    video's size, and the settings with every default filled in."""
    bytes: int
    seconds: float
    width: int
    height: int
    frames: int
    fps: float
    settings: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Progress:
    """A stage ("text", "denoise", "decode" …) has done `done` of `total`; `eta` is the seconds that it will still take,
    None while they are not known. A talking photo has several windows."""
    stage: str
    done: int
    total: int
    elapsed: float
    eta: float | None
    window: int
    windows: int


@dataclasses.dataclass(frozen=True)
class Preview:
    """The latents after a step as small pictures side by side, [height, width, 3] of uint8."""
    step: int
    image: Any


@dataclasses.dataclass(frozen=True)
class Frame:
    """A finished frame, [height, width, 3] of uint8."""
    index: int
    image: Any


class Audio(NamedTuple):
    """One channel of float32, where full scale is -1 to 1, and its samples per second."""
    samples: Any
    rate: int


@dataclasses.dataclass(frozen=True)
class Result:
    """A video. `frames` is [frames, height, width, 3] of uint8 (NumPy's or torch's, or a list of Pillow pictures; None
    with output="latents"), `latents` is there with output="latents" only ([z, t, h, w] of float32, or a list of one for
    each window of a talking photo), `audio` is None for a video without sound, `timings` has the seconds of each stage
    and of all of them ("total"), and `settings` are those that a video of the program holds."""
    frames: Any
    fps: float
    audio: Audio | None
    timings: dict[str, float]
    settings: dict[str, Any]
    latents: Any = None
    pixels: Any = dataclasses.field(default=None, repr=False, compare=False)

    def save(self, path: str | os.PathLike[str], *, crf: int | None = None, speed: str | None = None) -> None:
        """Writes an mp4, webm or gif file or pictures, by the ending, with the settings and the sound in it. crf is the
        quality (0: lossless), speed one of x264's names."""
        if self.pixels is None:
            raise _inputs.wrong("path", "this result has latents in place of frames, which no video file can hold")
        pixels = _inputs.frames("pixels", self.pixels)
        keep: list[Any] = [pixels]
        sound = _inputs.sound("audio", tuple(self.audio), keep) if self.audio else None
        if crf is not None:
            crf = int(_inputs.setting("crf", "int", crf)[0][1])
            if not 0 <= crf <= 63:
                raise _inputs.wrong("crf", f"expected 0 to 63, got {crf}")
        count, height, width, _ = pixels.shape
        video = c.Video(ctypes.sizeof(c.Video), pixels.ctypes.data, count, width, height, self.fps,
                        json.dumps(self.settings).encode(), ctypes.pointer(sound) if sound else None, crf is not None, crf or 0,
                        _inputs.text("speed", speed) if speed is not None else None)
        _engine.check(c.library().tachyscope_save(_inputs.text("path", path), ctypes.byref(video)))


OUTPUTS = ("numpy", "torch", "pil", "latents")


def shaped(pixels: Any, output: str) -> Any:
    """Returns the frames in the form that was asked for; torch's share NumPy's memory, or lie on the GPU already."""
    if output == "torch":
        import torch
        return pixels if isinstance(pixels, torch.Tensor) else torch.from_numpy(pixels)
    if output == "pil":
        from PIL import Image
        return [Image.fromarray(frame) for frame in pixels]
    return pixels
