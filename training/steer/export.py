"""The files of models/world from what pipeline.py keeps: the original repository's layout and names. `pipeline.py --export` calls it."""
import importlib.util
import json
import os
import shutil

import net  # first: it finds the folder above
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import plane

GENERATION = {"world": {"kind": "universal", "width": plane.WIDTH, "height": plane.HEIGHT, "fps": plane.FPS, "keys": list(plane.KEYS), "mouse_step": plane.HELD,
                        "timesteps": list(net.STEPS), "shift": net.SHIFT, "block": 1, "first_block": 1, "window": net.WINDOW}}


def vae_name(name):
    spec = importlib.util.spec_from_file_location("talker_export", os.path.join(net.HERE, "..", "talker", "export.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.vae_name(name)


def load_vae(path):
    """diffusers' autoencoder of a folder, or of a file with the original's names and the config in its header; float32."""
    if os.path.isdir(path):
        import vae
        return vae.build(path)
    from diffusers import AutoencoderKLWan
    with safe_open(path, "pt") as f:
        config = json.loads(f.metadata()["config"])
    made, tensors = AutoencoderKLWan.from_config(config), load_file(path)
    made.load_state_dict({k: tensors[vae_name(k)].float() for k in made.state_dict()})
    return made


def there(state, eyes, model):
    os.makedirs(model, exist_ok=True)
    tensors = load_file(os.path.join(state, "vae", "diffusion_pytorch_model.safetensors"))
    with open(os.path.join(state, "vae", "config.json")) as f:
        config = json.load(f)
    config.pop("world_statistics", None)
    save_file({vae_name(k): v.to(torch.bfloat16).contiguous() for k, v in tensors.items()}, os.path.join(model, "Wan2.1_VAE.safetensors"),
              {"format": "pt", "config": json.dumps(config, separators=(",", ":"))})
    shutil.copyfile(eyes, os.path.join(model, "models_clip_vision.safetensors"))
    shutil.copyfile(os.path.join(state, "diffusion_pytorch_model.safetensors"), os.path.join(model, "diffusion_pytorch_model.safetensors"))
    for name, value in (("config.json", net.config()), ("generation_config.json", GENERATION)):
        with open(os.path.join(model, name), "w") as f:
            json.dump(value, f, indent=1)
            f.write("\n")
    for file in os.listdir(model):
        if os.path.isfile(os.path.join(model, file)):
            os.chmod(os.path.join(model, file), 0o644)
