"""Values of ComfyUI's links as the engine takes them, and back: IMAGE [frames, height, width, 3] of floats from 0 to 1, AUDIO
{"waveform": [batch, channels, samples], "sample_rate"}."""

import torch


def picture(image, name):
    """Returns the first of a batch as [height, width, 3] of uint8. Raises ValueError for another shape."""
    if not isinstance(image, torch.Tensor) or image.ndim != 4 or image.shape[0] < 1 or image.shape[3] < 3:
        raise ValueError(f"{name}: expected an IMAGE [frames, height, width, 3], got {list(getattr(image, 'shape', ()))}")
    return pixels(image[:1])[0].numpy()


def pixels(images):
    """Returns [frames, height, width, 3] of uint8, rounded as ComfyUI's own nodes that save do: cut off after times 255."""
    return (images[..., :3].detach().cpu().float() * 255).clamp(0, 255).to(torch.uint8)


def batch(frames):
    """Returns an IMAGE of frames [height, width, 3] of uint8. Raises ValueError if there are none."""
    if not len(frames):
        raise ValueError("the run made no frames")
    return torch.stack([torch.from_numpy(frame) for frame in frames]).float() / 255


def cut(audio, seconds):
    """Returns an AUDIO as long as the video, or as it is if it is shorter."""
    rate = audio["sample_rate"]
    return {"waveform": audio["waveform"][..., :round(seconds * rate)], "sample_rate": rate}


def silence(seconds, rate=16000):
    """Returns the AUDIO of a video without sound."""
    return {"waveform": torch.zeros(1, 1, max(1, round(seconds * rate))), "sample_rate": rate}


def settings(text):
    """Reads lines "name = value" into a dict of numbers and texts; empty lines and lines that begin with # are skipped.
    Raises ValueError naming the line."""
    out = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name.isidentifier() or not value:
            raise ValueError(f"settings: expected lines such as steps = 30, got {line!r} in line {number}")
        out[name] = _value(value)
    return out


def _value(text):
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def lines(text):
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
