"""How a function of `tachyscope.ops` finds the code that computes it: one `Op` object for each op of the table in
python/bind.

A tensor of torch takes one of four paths, since the overhead of torch.compile, autograd and torch's dispatcher is
larger than the kernel's time for a small tensor. Under torch.compile it takes the public op (which has a fake function
and gradients). A plain eager call takes the C function of python/bind/front.cpp, inside an autograd.Function if
gradients are recorded, also under autocast, once the arguments have its dtypes. Any other eager call (under a profiler,
a mode or a transform, or for a subclass of tensors) takes the private op, with or without an autograd.Function.
Everything else goes to `_core`.
"""

import re
import sys

from . import _core

_Tensor = ()  # torch.Tensor once the ops are registered with torch; isinstance(x, ()) is False
_is_grad_enabled = _any_autocast = _cast = _forward_ad = _last_refusal = None
_all = []


def _is_compiling():
    """torch's own function once torch has been imported."""
    return False


class Op:
    """One op of the table, called with all arguments by position; `out` takes the result's tensor after them."""

    def __init__(self, name):
        self.name = name
        self.core = getattr(_core, name)
        self.needed = ()  # the place and name of each tensor that may not be None, from _torch.register
        self.public = self.private = self.into = self.function = None  # _torch.register fills these in
        # _torch.register puts functions in C here, if there are any: for all eager calls, and for arguments that autocast has changed.
        self.eager, self.of_cast = self.any_eager, self.dispatched
        _all.append(self)

    def __call__(self, *args):
        if _is_compiling() and isinstance(args[0], _Tensor):
            return self.public(*_cast(self.name, args))
        return self.eager(*args)

    def any_eager(self, *args):
        """Handles any call that torch.compile does not trace."""
        if isinstance(args[0], _Tensor):
            return self.of_cast(*_cast(self.name, args)) if _any_autocast() else self.dispatched(*args)
        if _torch_came():
            return self(*args)
        return self._by_core(*args)

    def dispatched(self, *args):
        """Handles a call with tensors of torch by its dispatcher."""
        self._refuse_none(args)
        if _forward_ad._current_level >= 0:
            _refuse_tangents(self.name, args)
        try:
            if _is_grad_enabled():
                for arg in args:
                    if isinstance(arg, _Tensor) and arg.requires_grad:
                        return self.function.apply(*args)
            return self.private(*args)
        except RuntimeError as error:
            _raise(error)

    def out(self, out, *args):
        """Writes the result into `out` and returns it. Gradients cannot flow through overwritten memory."""
        if isinstance(args[0], _Tensor):
            if _is_grad_enabled():
                for arg in (*args, out):
                    if isinstance(arg, _Tensor) and arg.requires_grad:
                        raise ValueError(f"{self.name}: expected no tensor that requires grad when out is given, got one; "
                                         "do not give out, or call it under torch.no_grad()")
            self._refuse_none(args)
            try:
                self.into(*args, out)
            except RuntimeError as error:
                _raise(error)
            return out
        if _torch_came():
            return self.out(out, *args)
        return self._by_core(*args, out)

    def _refuse_none(self, args):
        """Refuses None where a tensor is needed: torch would hand the op a tensor without anything, and print a trace."""
        for i, name in self.needed:
            if args[i] is None:
                raise TypeError(f"{self.name}: expected {name} to be a tensor, got None")

    def _by_core(self, *args):
        try:
            return self.core(*args)
        except BufferError as error:  # NumPy's, for arrays of objects or of another byte order
            raise ValueError(f"{self.name}: expected arrays that DLPack can hand over: {error}") from None


_MISTYPED = re.compile(r"^\S+::_?(\w+?)(?:_out)?\(\) Expected a value of type '([^']+)' for argument '(\w+)' but instead found type '([^']+)'")
_KINDS = {"Tensor": "a tensor of torch", "Optional[Tensor]": "a tensor of torch or None", "float": "a number", "int": "a whole number",
          "bool": "True or False"}


def _raise(error):
    """Raises the error that an op threw: for wrong arguments a ValueError, which newer versions of torch do not raise, and for those of a wrong
    type, which torch itself refuses, a TypeError."""
    if type(error) is RuntimeError:
        if str(error) == _last_refusal():
            raise ValueError(str(error)) from None
        if wrong := _MISTYPED.match(str(error)):
            name, kind, argument, got = wrong.groups()
            raise TypeError(f"{name}: expected {argument} to be {_KINDS.get(kind, kind)}, got {got}") from None
    raise error


def _refuse_tangents(name, args):
    """Refuses forward-mode derivatives: without a rule for them, torch would silently drop the tangents."""
    for arg in args:
        if isinstance(arg, _Tensor) and _forward_ad.unpack_dual(arg).tangent is not None:
            raise NotImplementedError(f"{name}: forward-mode derivatives (torch.func.jvp, forward_ad) are not supported")


def shape_of(t):
    """Returns a tensor's shape for the text of an error, or what the object is instead."""
    return list(t.shape) if hasattr(t, "shape") else type(t).__name__


def is_torch(x):
    """Says whether it is a tensor of torch."""
    return isinstance(x, _Tensor) or (_torch_came() and isinstance(x, _Tensor))


def records(*args):
    """Says whether torch records the gradients of a call with these arguments."""
    if _Tensor == () and not _torch_came():
        return False
    return _is_grad_enabled() and any(isinstance(arg, _Tensor) and arg.requires_grad for arg in args)


def _torch_came():
    """Says whether torch has been imported since the last check, so that the ops are now registered with it."""
    if _Tensor != () or sys.modules.get("torch") is None:  # None stands for a module that may not be imported
        return False
    enable_torch()
    return True


def enable_torch():
    """Registers the ops with torch. The first call with one of its tensors does this by itself. Call it first in code
    that torch.compile compiles before any such call, if torch was not yet imported when this package was."""
    if _Tensor != ():
        return
    import torch

    # Importing the compiler takes seconds, and without it nothing is being compiled.
    (torch.compiler.disable(_enable) if "torch._dynamo" in sys.modules else _enable)(torch)


# torch.compile says this where it meets the function in a call that it traces. Registered ops outlive a trace, so it must not follow.
enable_torch._torchdynamo_disable = True
enable_torch._torchdynamo_disable_msg = "tachyscope came before torch: call tachyscope.enable_torch() before torch.compile"


def _enable(torch):
    global _Tensor, _is_grad_enabled, _is_compiling, _any_autocast, _cast, _forward_ad, _last_refusal
    from . import _autocast, _info, _torch

    _info.warn_without_kernels(torch)
    _last_refusal = _torch.register(_all)
    _is_grad_enabled = torch.is_grad_enabled
    _is_compiling = torch.compiler.is_compiling
    _any_autocast = torch._C._is_any_autocast_enabled
    _cast = _autocast.cast
    _forward_ad = torch.autograd.forward_ad
    _Tensor = torch.Tensor
