"""Files of the autoencoder in ../coders.py.

    load(path)          from a folder, or from a file with the original's names and the config in its header; float32
    save(model, folder)  bfloat16
"""
import importlib.util
import json
import os

import net  # first: it finds the folder above
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from coders import CONFIG, WEIGHTS, Autoencoder


def original_name(name):
    """Returns the name that a tensor has in the original repository's file."""
    spec = importlib.util.spec_from_file_location("talker_export", os.path.join(net.HERE, "..", "talker", "export.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.vae_name(name)


def load(path):
    if os.path.isdir(path):
        with open(os.path.join(path, CONFIG)) as f:
            made, name = Autoencoder(json.load(f)), lambda k: k
        tensors = load_file(os.path.join(path, WEIGHTS))
    else:
        with safe_open(path, "pt") as f:
            config = json.loads(f.metadata()["config"])
        made, name, tensors = Autoencoder({k: v for k, v in config.items() if k != "_name_or_path"}), original_name, load_file(path)
    made.load_state_dict({k: tensors.pop(name(k)).float() for k in made.state_dict()})
    assert not tensors, f"{path}: {sorted(tensors)[:3]} …"
    return made


def save(model, folder):
    os.makedirs(folder, exist_ok=True)
    tensors = {k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in model.state_dict().items()}
    path = os.path.join(folder, WEIGHTS)
    save_file(tensors, path + ".part", {"format": "pt"})
    os.replace(path + ".part", path)
    path = os.path.join(folder, CONFIG)
    with open(path + ".part", "w") as f:
        json.dump(model.config, f, indent=2)
    os.replace(path + ".part", path)
