"""Converts the files that pipeline.py keeps into those of models/world, in the original repository's layout and names, and back.
`pipeline.py --export` and `--back` call it."""
import json
import os
import shutil

import net  # first: it finds the folder above
import torch
from safetensors.torch import load_file, save_file

import autoencoder
import plane

GENERATION = {"world": {"kind": "universal", "width": plane.WIDTH, "height": plane.HEIGHT, "fps": plane.FPS, "keys": list(plane.KEYS), "mouse_step": plane.HELD,
                        "timesteps": list(net.STEPS), "sampler": "euler", "shift": net.SHIFT, "block": 1, "first_block": 1, "window": net.WINDOW}}


def there(state, eyes, model):
    os.makedirs(model, exist_ok=True)
    vae = autoencoder.load(os.path.join(state, "vae"))
    config = {k: v for k, v in vae.config.items() if k != "world_statistics"}
    save_file({autoencoder.original_name(k): v.to(torch.bfloat16).contiguous() for k, v in vae.state_dict().items()},
              os.path.join(model, "Wan2.1_VAE.safetensors"), {"format": "pt", "config": json.dumps(config, separators=(",", ":"))})
    shutil.copyfile(eyes, os.path.join(model, "models_clip_vision.safetensors"))
    net.save_denoiser(net.load_denoiser(state), model)
    for name, value in (("config.json", net.config()), ("generation_config.json", GENERATION)):
        with open(os.path.join(model, name), "w") as f:
            json.dump(value, f, indent=1)
            f.write("\n")
    for file in os.listdir(model):
        if os.path.isfile(os.path.join(model, file)):
            os.chmod(os.path.join(model, file), 0o644)


def back(model, state):
    """Converts the shipped files, in bfloat16 as they are, into those from which pipeline.py continues."""
    vae = autoencoder.load(os.path.join(model, "Wan2.1_VAE.safetensors"))
    vae.config["world_statistics"] = True
    autoencoder.save(vae, os.path.join(state, "vae"))
    tensors = load_file(os.path.join(model, "diffusion_pytorch_model.safetensors"))
    net.save_parts(torch.cat([tensors[name].float().flatten() for name, _ in net.Denoiser().named_parameters()]), state)
    with open(os.path.join(state, "progress.json"), "w") as f:
        json.dump({"vae": 1.0, "flow": 1.0, "self": 0.0, "calls": 1, "log": []}, f, indent=1)
