"""Where names in a workflow lead: models of ComfyUI's folders, those that ship, and paths."""

import pathlib

from . import host

# Beside this folder, in a copy of the project; a wheel has its models in the package.
_SHIPPED = pathlib.Path(__file__).resolve().parents[2] / "models"


def model(name, kind="diffusion_models"):
    """Returns a path for a model's name: a file of ComfyUI's folder of that kind, a folder or file in its models/tachyscope, a
    model that ships ("talker"), or a path as it is. "" gives None, which is the engine's own default."""
    name = name.strip()
    if not name:
        return None
    folders = host.folders()
    found = folders.get_full_path(kind, name)
    if found:
        return found
    if pathlib.PurePath(name).name == name:
        for folder in (pathlib.Path(folders.models_dir) / "tachyscope", _SHIPPED):
            if (folder / name).exists():
                return str(folder / name)
    return name


def lora(line):
    """Returns FILE[:strength][@expert] with the file in ComfyUI's folder of LoRAs, if it is there."""
    head, at, expert = line.partition("@")
    file, colon, strength = head.rpartition(":")
    if not colon or not _is_number(strength):
        file, colon, strength = head, "", ""
    return (host.folders().get_full_path("loras", file) or file) + colon + strength + at + expert


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True
