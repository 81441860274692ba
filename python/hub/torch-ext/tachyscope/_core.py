"""Stands in for the package's module for arrays of other frameworks. A kernel takes tensors of torch only, so
that nothing in it belongs to one version of Python."""

import ctypes
import pathlib

_library = ctypes.CDLL(str(pathlib.Path(__file__).parent / "libtachyscope_torch.so"))
_library.tachyscope_set_threads.restype = ctypes.c_char_p


def set_threads(threads):
    """Sets how many threads the ops use on the CPU, the calling one included; 0 means one for each processor."""
    why = _library.tachyscope_set_threads(ctypes.c_int(threads))
    if why is not None:
        raise ValueError(why.decode())


def threads():
    """Returns how many threads the ops use on the CPU."""
    return _library.tachyscope_threads()


def __getattr__(name):
    """Returns an op's function for calls without tensors of torch, which refuses them."""
    if name.startswith("_"):
        raise AttributeError(name)

    def refuse(*args):
        raise TypeError(f"{name}: expected a tensor of torch first, got {type(args[0]).__name__}")

    return refuse
