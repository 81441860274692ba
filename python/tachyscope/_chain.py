"""The first norm of a block, computed by the block before it: together with that block's last residual add it is one
pass over the hidden states.

Which block comes next is learned from the calls: a block that is called with the very tensor that another one returned
is that one's next. What was computed for it counts only for this tensor, unchanged, and for the same modulation; otherwise
the block computes its norm itself. Nothing is done ahead under torch.compile, where gradients are recorded (a block may be
computed again there by itself), for tensors without a version, and for blocks with hooks, whose weights may come later."""

import weakref

import torch

from . import _op as way
from ._rules import MARK, unhooked

_next = weakref.WeakKeyDictionary()  # block -> the one that was called with its result
_ready = weakref.WeakKeyDictionary()  # block -> (its input, that one's version, its modulation's rows, its norm's result)
_latest = None  # the last result of a block and that block


def _ahead(x):
    return not (torch.compiler.is_compiling() or way.records(x) or x.is_inference())


def taken(block, x, rows):
    """Returns the block's first norm of x with the modulation of `rows` if the block before has computed it, or None."""
    if not _ahead(x):
        return None
    if _latest is not None and _latest[0]() is x:
        before = _latest[1]()
        if before is not None:
            _next[before] = weakref.ref(block)
    kept = _ready.pop(block, None)
    if kept is None or kept[0]() is not x or kept[1] != x._version or kept[2]() is not rows:
        return None
    return kept[3]


def following(block, x, table):
    """Returns the next block if its first norm may be computed now, from its modulation's `table` (an attribute)."""
    found = _next.get(block) if _ahead(x) else None
    found = None if found is None else found()
    if found is None or type(found) is not type(block) or MARK not in found.__dict__ or not unhooked(found):
        return None
    weight = getattr(found, table)
    plain = type(weight) in (torch.Tensor, torch.nn.Parameter) and weight.device == x.device and not way.records(weight)
    return found if plain else None


def returned(block, x, rows, following=None, normed=None):
    """Notes that the block returns x, and what it has computed for the following block. Returns x."""
    global _latest
    if _ahead(x):
        _latest = weakref.ref(x), weakref.ref(block)
        if following is not None:
            _ready[following] = weakref.ref(x), x._version, weakref.ref(rows), normed
    return x
