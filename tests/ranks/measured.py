"""Reads what runs leave or are doing: latents, the seconds of steps, and which cards they are on."""

import array
import json
import shutil
import struct
import subprocess
import time


def latents_of(path):
    """Returns the values of the only tensor of a .safetensors file."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    (tensor,) = [v for k, v in json.loads(content[8 : 8 + length]).items() if k != "__metadata__"]
    assert tensor["dtype"] == "F32", tensor
    first, end = tensor["data_offsets"]
    return array.array("f", content[8 + length + first : 8 + length + end])


def apart(folder, one, other):
    """Says whether files and latents are the same, and otherwise by how much of their RMS the latents differ."""
    a, b = (latents_of(folder / f"{name}.safetensors") for name in (one, other))
    assert len(a) == len(b) and all(x == x for x in a)
    rms = (sum(x * x for x in a) / len(a)) ** 0.5
    error = (sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)) ** 0.5
    files = (folder / f"{one}.mp4").read_bytes() == (folder / f"{other}.mp4").read_bytes()
    assert error < 0.05 * rms, f"the latents differ by {error / rms:.3g} of their RMS"
    return f"latents {'equal' if a.tobytes() == b.tobytes() else f'differ by {error / rms:.2g} of their RMS'}, files {'equal' if files else 'differ'}"


def step_seconds(events):
    """Returns the seconds of each step by the lines of --json, but for the first, after which the device is warm."""
    lines = [json.loads(line) for line in events.splitlines() if line.startswith("{")]
    at = [e["elapsed_seconds"] for e in lines if e.get("event") == "progress" and e["stage"] == "denoise" and e["done"] > 0]
    assert len(at) > 1, lines
    return [after - before for before, after in zip(at, at[1:])]


def processes_of_cards():
    """Tells how many processes each card has, as far as the driver says: a rank is to be on its own card alone."""
    if not shutil.which("nvidia-smi"):
        return "no nvidia-smi"
    lines = subprocess.run(["nvidia-smi", "--query-compute-apps=gpu_bus_id", "--format=csv,noheader"], capture_output=True, text=True).stdout.split()
    return "processes a card " + (", ".join(str(lines.count(card)) for card in sorted(set(lines))) or "not told")


def until(what, seconds=40):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
