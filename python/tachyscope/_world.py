"""A world that responds to keys and mouse, block by block, as arrays of NumPy. docs/worlds.md describes models, and
docs/api.md the interface."""

import ctypes
import dataclasses
import os
import threading

from . import _engine


@dataclasses.dataclass(frozen=True)
class WorldInfo:
    """Properties of a world: `keys` names each value of the keyboard, `mouse_step` is the effect of holding an arrow
    key."""
    kind: str
    width: int
    height: int
    fps: float
    keys: tuple
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
    frames: object = None


class World:
    """One session on one device.

        with tachyscope.World("Matrix-Game-2.0", device="cuda") as world:
            world.start(image, seed=7)
            world.act({"W"}, mouse=(0, 0.1))
            frames = world.next_block().frames

    start, next_block, reset and close belong to one thread; any thread may call act and stop. A function that
    next_block calls may only call act and stop. A value that does not fit raises ValueError and changes nothing; after
    an error of next_block only start and reset work."""

    def __init__(self, model, device="auto", *, width=0, height=0, steps=None, window=None, shift=None, threads=0, max_vram=0):
        """model: as for `tachyscope world`. device: "cpu", "cuda", "cuda:1" or "auto". width, height, steps, window and
        shift are the model's if they are left out; max_vram: bytes of a GPU's memory, 0: all that is free."""
        self._world, self._making = None, False
        if steps is not None and steps < 1 or window is not None and window < 1 or shift is not None and shift <= 0:
            raise ValueError(f"expected steps and window of at least 1 and a shift above 0, got {steps}, {window} and {shift}")
        options = _engine.WorldOptions(width, height, steps or 0, window or 0, shift or 0.0, max_vram, threads)
        self._library, made = _engine.library(), ctypes.c_void_p()
        _engine.check(self._library.tachyscope_world_open(os.fsencode(model), device.encode(), ctypes.byref(options), ctypes.byref(made)))
        self._world = made
        self._acting = threading.Lock()  # close must not run while another thread acts
        about = _engine.WorldAbout()
        _engine.check(self._library.tachyscope_world_about(made, ctypes.byref(about)))
        self.info = WorldInfo(about.kind.decode(), about.width, about.height, about.fps,
                              tuple(about.keys[i].decode() for i in range(about.key_count)), bool(about.mouse), about.mouse_step,
                              bool(about.takes_image), bool(about.takes_prompt), about.first_block_frames, about.block_frames,
                              about.peak_bytes)

    def _open(self):
        if self._world is None:
            raise ValueError("the world was closed")
        return self._world

    def start(self, image=None, prompt="", seed=0):
        """Begins a new session from its first block: from `image` [height, width, 3] of uint8 and of any size (an
        array, or something that NumPy can turn into one, such as a Pillow picture), or from `prompt`, depending on
        info."""
        import numpy as np
        with_ = _engine.WorldStart(None, 0, 0, prompt.encode(), seed)
        if image is not None:
            pixels = np.ascontiguousarray(image)
            if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
                raise ValueError(f"expected an image [height, width, 3] of uint8, got {list(pixels.shape)} of {pixels.dtype}")
            with_.rgb, with_.height, with_.width = pixels.ctypes.data, pixels.shape[0], pixels.shape[1]
        _engine.check(self._library.tachyscope_world_start(self._open(), ctypes.byref(with_)))

    def act(self, keys=(), mouse=None, stamp=0):
        """Sets what is held from the next block on. keys: names from info.keys, or a mapping of names to values from -1
        to 1. mouse: (pitch, yaw) from -1 to 1. May be called from any thread."""
        held = dict(keys) if hasattr(keys, "keys") else dict.fromkeys(keys, 1.0)
        unknown = [k for k in held if k not in self.info.keys]
        if unknown:
            raise ValueError(f"no key {unknown[0]!r}; this world has {' '.join(self.info.keys) or 'none'}")
        if mouse is not None and (not self.info.mouse or len(mouse) != 2):
            raise ValueError("expected a mouse of (pitch, yaw)" if self.info.mouse else "this world has no mouse")
        keyboard = (ctypes.c_float * len(self.info.keys))(*(held.get(k, 0.0) for k in self.info.keys))
        moved = (ctypes.c_float * 2)(*mouse) if mouse is not None else None
        with self._acting:
            _engine.check(self._library.tachyscope_world_act(self._open(), keyboard, len(keyboard), moved, stamp))

    def next_block(self, frame=None):
        """Makes the next block. With `frame`, frame(array, index) is called for each frame [height, width, 3] as soon
        as it is there, with memory of its own; without it, the returned block has all frames."""
        import numpy as np
        info, made, failed = self.info, _engine.WorldBlock(), []
        most = max(info.first_block_frames, info.block_frames)
        all_ = None if frame else np.empty((most, info.height, info.width, 3), np.uint8)
        count = 0

        def take(_, rgb, width, height, index):
            nonlocal count
            try:
                pixels = np.ctypeslib.as_array(rgb, (height, width, 3))
                if frame:
                    frame(pixels.copy(), index)
                else:
                    all_[count] = pixels
                count += 1
                return 0
            except BaseException as error:  # an error in the caller's function ends the block and is raised again afterwards
                failed.append(error)
                return 1

        world, around = self._open(), self._making
        self._making = True
        try:
            code = self._library.tachyscope_world_next_block(world, _engine.FRAME(take), None, ctypes.byref(made))
        finally:
            self._making = around
        if failed:
            raise failed[0]
        _engine.check(code)
        return WorldBlock(made.index, made.first_frame, made.frames, made.stamp, made.first_frame_seconds, made.seconds,
                          None if frame else all_[:count])

    def stop(self):
        """Makes next_block end soon with Cancelled, in whatever thread it runs; start and reset still work."""
        with self._acting:
            if self._world is not None:
                self._library.tachyscope_world_stop(self._world)

    def reset(self):
        """Begins the same start again, from its first block: the same actions give the same bits."""
        _engine.check(self._library.tachyscope_world_reset(self._open()))

    def close(self):
        """Frees the world; a second call does nothing."""
        if self._world is None:
            return
        if self._making:
            raise ValueError("a block is being made: stop it, and close the world when next_block has returned")
        with self._acting:
            world, self._world = self._world, None
        self._library.tachyscope_world_close(world)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()
