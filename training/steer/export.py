"""The files of models/world from what pipeline.py keeps: the original repository's layout and names. `pipeline.py --export` calls it."""
import json
import os
import shutil

import net  # first: it finds the folder above
import torch
from safetensors.torch import save_file

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
