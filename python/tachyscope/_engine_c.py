"""The structs and functions of src/api/tachyscope_c_v2.h through ctypes: engines and their runs."""

import ctypes
import functools

from . import _engine

c = ctypes
FRAME = _engine.FRAME
LATENTS = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(c.c_float), c.POINTER(c.c_int64), c.c_int32)


class Setting(c.Structure):
    _fields_ = [("name", c.c_char_p), ("value", c.c_char_p)]


class Picture(c.Structure):
    _fields_ = [("path", c.c_char_p), ("rgb", c.c_void_p), ("width", c.c_int32), ("height", c.c_int32)]


class Sound(c.Structure):
    _fields_ = [("path", c.c_char_p), ("samples", c.c_void_p), ("count", c.c_int64), ("rate", c.c_int32)]


class Tensor(c.Structure):
    _fields_ = [("path", c.c_char_p), ("values", c.c_void_p), ("shape", c.POINTER(c.c_int64)), ("dims", c.c_int32)]


class Request(c.Structure):
    _fields_ = [("size", c.c_uint64), ("prompt", c.c_char_p), ("negative_prompt", c.c_char_p), ("preset", c.c_char_p),
                ("width", c.c_int32), ("height", c.c_int32), ("frames", c.c_int32), ("steps", c.c_int32),
                ("guidance", c.c_double), ("guidance_2", c.c_double), ("shift", c.c_double), ("seed", c.c_uint64),
                ("loras", c.c_void_p), ("lora_count", c.c_int32), ("setting_count", c.c_int32), ("settings", c.POINTER(Setting)),
                ("image", c.POINTER(Picture)), ("last_image", c.POINTER(Picture)), ("speaker_mask", c.POINTER(Picture)),
                ("speaker_mask_2", c.POINTER(Picture)), ("speech", c.POINTER(Sound)), ("speech_2", c.POINTER(Sound)),
                ("init_latents", c.POINTER(Tensor)), ("image_embeds", c.POINTER(Tensor)), ("video", c.c_char_p), ("control_video", c.c_char_p),
                ("mask_video", c.c_char_p), ("reference", c.POINTER(Picture)), ("reference_2", c.POINTER(Picture)),
                ("reference_3", c.POINTER(Picture)), ("reference_4", c.POINTER(Picture))]


class CProgress(c.Structure):
    _fields_ = [("stage", c.c_char_p), ("done", c.c_int64), ("total", c.c_int64), ("elapsed_seconds", c.c_double),
                ("eta_seconds", c.c_double), ("window", c.c_int64), ("windows", c.c_int64)]


PROGRESS = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(CProgress))


class DeviceFrames(c.Structure):
    _fields_ = [("rgb", c.c_void_p), ("gpu", c.c_int32), ("width", c.c_int32), ("height", c.c_int32), ("first", c.c_int64), ("count", c.c_int64)]


DEVICE_FRAMES = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(DeviceFrames))


class Callbacks(c.Structure):
    _fields_ = [("size", c.c_uint64), ("user", c.c_void_p), ("frame", FRAME), ("preview", FRAME), ("progress", PROGRESS),
                ("latents", LATENTS), ("device_frames", DEVICE_FRAMES)]


class CPlan(c.Structure):
    _fields_ = [("peak_bytes", c.c_uint64), ("seconds", c.c_double)]


class Size(c.Structure):
    _fields_ = [("width", c.c_int32), ("height", c.c_int32), ("frames", c.c_int64), ("fps", c.c_double)]


class Video(c.Structure):
    _fields_ = [("size", c.c_uint64), ("rgb", c.c_void_p), ("frames", c.c_int64), ("width", c.c_int32), ("height", c.c_int32),
                ("fps", c.c_double), ("settings", c.c_char_p), ("sound", c.POINTER(Sound)), ("has_crf", c.c_int32),
                ("crf", c.c_int32), ("speed", c.c_char_p)]


@functools.cache
def library() -> c.CDLL:
    """Returns the engine's library with the types of the functions of runs."""
    lib: c.CDLL = _engine.library()
    pointer, text = c.c_void_p, c.c_char_p
    for name, arguments in {
            "open": [text, c.POINTER(Setting), c.c_int32, c.POINTER(pointer)],
            "run_open": [pointer, c.POINTER(Request), c.POINTER(pointer)],
            "run_plan": [pointer, c.POINTER(CPlan)],
            "run_size": [pointer, c.POINTER(Size)],
            "run_settings": [pointer, c.POINTER(text)],
            "run_sound": [pointer, c.POINTER(Sound)],
            "run_generate": [pointer, c.POINTER(Callbacks)],
            "save": [text, c.POINTER(Video)]}.items():
        function = getattr(lib, "tachyscope_" + name)
        function.argtypes, function.restype = arguments, c.c_int
    for name in ("run_cancel", "run_free", "free", "cancel"):
        function = getattr(lib, "tachyscope_" + name)
        function.argtypes, function.restype = [pointer], None
    lib.tachyscope_version.restype = text
    return lib
