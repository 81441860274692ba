"""Makes models/world/golden and models/talker/golden: whole generations of the PyTorch reference, never our own, with which `tachyscope validate`
compares ours frame by frame.

    python tools/golden/make_world_and_talker.py [world] [talker] [--threads 1]

Needs the packages of tests/reference/requirements.txt (made with torch 2.11.0, diffusers 0.42.1, transformers 5.23.0); about two minutes on two
cores. The reference is made of diffusers' and transformers' modules, tests/reference/causal.py (the world; make_causal.py compares it with the
original code) and tests/reference/infinitetalk.py with talk.py (the talking photo; make_infinitetalk.py), with the weights of the folder. The values
are those of float64. The files also have the reference's own errors in float32 and in bfloat16 on the same weights and inputs, as the original would
run there (causal_cached.py rounds where it rounds); ours may be no worse.

    golden.json             the run, the SHA-256 of the weight files, the reference's own errors, versions and the command
    generation.safetensors  latents: the world's of all blocks, the talking photo's of the last window
    frames.png              every fourth frame, side by side
"""

import argparse
import copy
import hashlib
import json
import math
import os
import pathlib
import sys

import diffusers
import numpy as np
import torch
import transformers
from diffusers.models import embeddings
from PIL import Image
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import causal_cached  # noqa: E402
import clip_pictures  # noqa: E402
import layouts  # noqa: E402
import shipped  # noqa: E402
import talk  # noqa: E402
import wav2vec2  # noqa: E402
import world_compare  # noqa: E402
from precision import float64  # noqa: E402

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
FRAME_STEP = 4
SCRIPT = [(["W"], [0, 0]), (["W"], [0, 0.1]), ([], [0, 0.1]), (["D"], [0, 0]), (["D", "W"], [0, -0.1]), (["A"], [0, 0]), (["S"], [0, 0.1]), ([], [0, -0.1]),
          ([], [0, 0])]  # a block each
TALK = dict(prompt="a person talks and nods", photo="../example/photo.png", speech="../example/speech.wav", num_frames=57, window_frames=33, motion_frames=9,
            num_inference_steps=8, flow_shift=3.0, guidance_scale=1.0, audio_guidance_scale=1.0, color_correction=0.0, seed=7)


def psnr(a, b):
    mse = ((a.astype(np.float64) - b) ** 2).mean()
    return 10 * math.log10(255**2 / mse) if mse else 999.0


def bytes_of(video):
    """Rounds frames [T, H, W, 3] in [0, 255] to bytes, as they are shown."""
    return video.double().clamp(0, 255).round().numpy().astype(np.uint8)


class WorldGeneration:
    run = dict(kind="world", image="../example/start.png", seed=7, actions=[dict(keys=k, mouse=m) for k, m in SCRIPT])

    def __init__(self, folder):
        w = json.loads((folder / "generation_config.json").read_text())["world"]
        assert w["sampler"] == "euler" and w["kind"] == "universal"
        model, window = shipped.causal_transformer(folder)
        self.world = world_compare.World(model=model, vae=shipped.vae(folder), clip=shipped.eyes(folder), side=224, z=model.out_channels, block=w["block"],
                                         first=w["first_block"], window=window, timesteps=w["timesteps"], shift=w["shift"], euler=True,
                                         image=Image.open(folder / "golden" / self.run["image"]).convert("RGB"))
        assert self.world.image.size == (w["width"], w["height"])
        s = [w["shift"] * t / 1000 / (1 + (w["shift"] - 1) * t / 1000) for t in w["timesteps"]]
        self.world.schedule = lambda: ([1000 * v for v in s], s)
        self.keys = w["keys"]

    def generate(self, dtype):
        """Returns latents [z, T, h, w], and frames as bytes."""
        w, held = self.world, [(self.run["actions"][i], 4 if i else 1) for i in range(len(SCRIPT))]
        keyboard = torch.tensor([[float(k in a["keys"]) for k in self.keys] for a, n in held for _ in range(n)])
        mouse = torch.tensor([[float(v) for v in a["mouse"]] for a, n in held for _ in range(n)])
        count = len(keyboard)
        condition, clip = w.condition(len(SCRIPT), dtype)
        if dtype == torch.bfloat16:
            timesteps, sigmas = w.schedule()
            x = causal_cached.rollout(w.model.to(dtype), w.noise(self.run["seed"], count)[0].to(dtype), timesteps, sigmas, clip, w.window, [1] * len(SCRIPT),
                                      condition=condition, keyboard=keyboard.to(dtype), mouse=mouse.to(dtype))[0]
        else:
            x = w.latents(self.run["seed"], count, keyboard, mouse, dtype, condition, clip)
        return x, bytes_of(w.decoded(x, count, dtype))


class TalkGeneration:
    run = dict(kind="talk", **TALK)

    def __init__(self, folder):
        self.folder = folder
        self.image = Image.open(folder / "golden" / TALK["photo"]).convert("RGB")
        self.sound = self.heard(folder / "golden" / TALK["speech"])
        embeddings.get_timestep_embedding = layouts.sinusoid64  # the original layout's sinusoid

    def heard(self, path):
        """Returns the sound, made as loud as InfiniteTalk makes it and then normalised as for the encoder."""
        import wave
        with wave.open(str(path)) as file:
            assert file.getframerate() == 16000 and file.getnchannels() == 1 and file.getsampwidth() == 2
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        loud = talk.as_loud_as_expected(torch.from_numpy(samples.astype(np.float32) / 32768))
        return torch.from_numpy(transformers.Wav2Vec2FeatureExtractor.zero_mean_unit_var_norm([loud.numpy()], None)[0])

    def generate(self, dtype):
        folder, r = self.folder, TALK
        parts = argparse.Namespace(pipe=argparse.Namespace(vae=shipped.vae(folder).to(dtype)), talker=shipped.talker(folder).to(dtype))
        ears, eyes, (words, tokenizer) = shipped.ears(folder).to(dtype), shipped.eyes(folder).to(dtype), shipped.text_encoder(folder)
        words = words.to(dtype)
        spoken = int(len(self.sound) / 16000 * 25)
        states = wav2vec2.hidden_states(ears, self.sound.to(dtype), spoken)[None]
        picture = eyes(clip_pictures.original_pixels(self.image, 224)[None].to(dtype), output_hidden_states=True).hidden_states[-2]
        texts = [shipped.encode_prompt(words, tokenizer, t) for t in (r["prompt"], "")]
        how = dict(window=r["window_frames"], motion=r["motion_frames"], steps=r["num_inference_steps"], shift=r["flow_shift"], text=r["guidance_scale"],
                   speech=r["audio_guidance_scale"], recipe="infinitetalk", seed=r["seed"], colors=r["color_correction"], sampler=talk.Euler, masks=torch.zeros(3, 1, 1))
        x, video = talk.talk(parts, (*texts, picture, states), self.image, r["num_frames"], how, dtype)
        return x, bytes_of((video + 1) * 127.5)


def make(name, kind, command):
    model = ROOT / "models" / name
    out = model / "golden"
    out.mkdir(exist_ok=True)
    made = kind(model)
    with torch.no_grad():
        with float64():
            latents, frames = made.generate(torch.float64)
        print(f"{name}: float64", flush=True)
        assert latents.dtype == torch.float64
        errors = {}
        for precision in ("float32", "bfloat16"):
            x, f = copy.copy(made).generate(DTYPES[precision])
            away = (x.double() - latents).abs() / latents.abs().max()
            levels = np.abs(f.astype(int) - frames)
            errors[precision] = dict(latents=dict(max=away.max().item(), mean=away.mean().item()), max_level=int(levels.max()),
                                     mean_level=float(levels.mean()), psnr=min(psnr(a, b) for a, b in zip(f, frames)))
            print(f"{name} {precision}: {errors[precision]}", flush=True)
    save_file(dict(latents=latents.float().contiguous()), out / "generation.safetensors")
    shown = frames[::FRAME_STEP]
    Image.fromarray(np.concatenate(list(shown), 1)).save(out / "frames.png", optimize=True)
    weights = {str(f.relative_to(model)): hashlib.sha256(f.read_bytes()).hexdigest()
               for f in sorted(model.rglob("*.safetensors")) if out not in f.parents}
    run = made.run | dict(width=frames.shape[2], height=frames.shape[1], num_frames=len(frames), frame_step=FRAME_STEP)
    (out / "golden.json").write_text(json.dumps(dict(
        tachyscope_golden=2, model=os.path.relpath(model, out), command=command,
        made_with=f"torch {torch.__version__.split('+')[0]}, diffusers {diffusers.__version__}, transformers {transformers.__version__}",
        weights=weights, stages=[], generation=dict(run=run, errors=errors)), indent=1) + "\n")
    for f in out.iterdir():
        f.chmod(0o644)
    print(f"{out}: {sum(f.stat().st_size for f in out.iterdir()) / 1e3:.0f} kB, {len(frames)} frames, {len(shown)} kept")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help="world, talker; default: both")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name, kind in (("world", WorldGeneration), ("talker", TalkGeneration)):
        if not args.models or name in args.models:
            make(name, kind, f"python tools/golden/make_world_and_talker.py {name}")


if __name__ == "__main__":
    main()
