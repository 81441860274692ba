"""Shows a run in ComfyUI's way: progress and previews by its ProgressBar, and its button "cancel"."""

import queue
import threading

from . import host

_POLL_SECONDS = 0.1
_PREVIEW_SIZE = 512
_END = object()


def frames_of(stream, progress, preview, frame):
    """Takes the events of an engine's stream (of the types progress, preview and frame) and returns the frames. When the user
    cancels, the run is ended first, and then ComfyUI's InterruptProcessingException is raised, as in its own samplers."""
    events, bar, frames = queue.Queue(), host.progress_bar(1), []
    threading.Thread(target=_pump, args=(stream, events), name="tachyscope-events", daemon=True).start()
    done, total = 0, 1
    while True:
        try:
            host.throw_if_cancelled()
            event = events.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            continue
        except BaseException:
            stream.close()
            raise
        if event is _END:
            return frames
        if isinstance(event, BaseException):
            raise event
        if isinstance(event, frame):
            frames.append(event.image)
        elif isinstance(event, progress):
            done, total = event.done, max(1, event.total)
            bar.update_absolute(done, total)
        elif isinstance(event, preview):
            bar.update_absolute(done, total, shown(event.image))


def shown(pixels):
    """Returns what ComfyUI's page takes as a preview: a format, a Pillow picture, and its largest side."""
    from PIL import Image
    return ("JPEG", Image.fromarray(pixels), _PREVIEW_SIZE)


def _pump(stream, events):
    try:
        for event in stream:
            events.put(event)
        events.put(_END)
    except BaseException as error:
        events.put(error)
