"""The events of a run, which another thread makes while a loop takes them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from . import _run


class Stream:
    """An iterator over Progress, Preview and Frame. The run begins with the first event that is asked for, and ends when
    the iterator is dropped or closed: leaving a for loop does that. close may be called from any thread."""

    def __init__(self, make: Callable[[_run.Handle, _run.Tell], Any]):
        self._make, self._handle = make, _run.Handle()
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._over = False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        if self._thread is None:
            # The thread does not hold the iterator, so that dropping that ends the run.
            self._thread = threading.Thread(target=_work, args=(self._make, self._handle, self._events), name="tachyscope")
            self._thread.start()
        event = self._events.get()
        if isinstance(event, _End):
            self._over = True
            self._events.put(_End(None))  # for another thread that waits here
            if event.error is not None:
                raise event.error
            raise StopIteration
        return event

    def close(self) -> None:
        """Ends the run and returns when it has ended."""
        self._over = True
        self._handle.cancel()
        if self._thread is not None:
            self._thread.join()

    def __del__(self) -> None:
        if self._thread is not threading.current_thread():
            self.close()


class _End:
    """The last of the events, with the error that ended the run, if any."""

    def __init__(self, error: BaseException | None):
        self.error = error


def _work(make: Callable[[_run.Handle, _run.Tell], Any], handle: _run.Handle, events: queue.SimpleQueue[Any]) -> None:
    error: BaseException | None = None
    try:
        make(handle, events.put)
    except BaseException as raised:
        error = raised
    events.put(_End(error))
