"""Compares `tachyscope world` on fresh random models, picture and script with Matrix-Game 2's steps restated here: the picture goes through Pillow,
diffusers' VAE and transformers' CLIP, then causal.py's rollout makes frames, as bytes.

The whole session's grey video is encoded here; the engine encodes only until its latent frames no longer change, and repeats the last one."""

import json

import causal
import causal_models as cm
import clip_pictures
import numpy as np
import random_models as rm
import torch
from PIL import Image
from precision import error, float64
from safetensors.torch import load_file, save_file

WIDTH, HEIGHT, SIDE = 48, 32, 28
KEYS = {"universal": ["W", "S", "A", "D"], "gta": ["W", "S"], "templerun": ["still", "W", "S", "Z", "C", "A", "D"]}
MOST_OFF = 0.51


def fitted(image, width, height):
    """Cuts out the middle in the video's shape and resizes it bilinearly; Pillow gets the box as fractions."""
    w, h = image.size
    tall = h / w > height / width
    to_w, to_h = (w, int(w * height / width)) if tall else (int(h * width / height), h)
    box = ((w - to_w) / 2, (h - to_h) / 2, (w + to_w) / 2, (h + to_h) / 2)
    return image.crop(box).resize((width, height), Image.Resampling.BILINEAR)


class World:
    """The parts of a session: model, vae and clip (modules), the side of CLIP's picture, image (a picture of the video's size), z, block, first
    (latent frames of the first block), window, timesteps and shift, euler (otherwise the steps add noise)."""

    def __init__(self, **parts):
        self.__dict__.update(parts)

    def blocks(self, frames):
        """[(latent frames, first pixel frame, pixel frames)] until the video has as many frames as requested."""
        out, latent, pixel = [], 0, 0
        while pixel < frames:
            n = self.first if not out else self.block
            end = 1 + 4 * (latent + n - 1)
            out.append((n, pixel, end - pixel))
            latent, pixel = latent + n, end
        return out

    def noise(self, seed, frames):
        """Draws the noise block by block: first the block's own, then the noise between its steps."""
        g, noise, fresh = torch.Generator().manual_seed(seed), [], []
        for n, _, _ in self.blocks(frames):
            shape = (self.z, n, self.image.height // 8, self.image.width // 8)
            noise.append(torch.randn(shape, generator=g))
            fresh.append([] if self.euler else [torch.randn(shape, generator=g) for _ in self.timesteps[1:]])
        return torch.cat(noise, 1), None if self.euler else torch.cat([torch.stack(f) for f in fresh], 2)

    def condition(self, latents, dtype):
        pixels = torch.from_numpy(np.asarray(self.image).copy()).permute(2, 0, 1).float().div(255).sub(0.5).div(0.5)
        video = torch.cat([pixels[:, None].to(dtype), torch.zeros(3, 4 * (latents - 1), *pixels.shape[1:], dtype=dtype)], 1)
        c = self.vae.config
        mean, std = (torch.tensor(v, dtype=dtype).view(-1, 1, 1, 1) for v in (c.latents_mean, c.latents_std))
        encoded = (self.vae.to(dtype).encode(video[None]).latent_dist.mode()[0] - mean) / std
        mask = torch.zeros(4, *encoded.shape[1:], dtype=dtype)
        mask[:, 0] = 1
        clip = self.clip.to(dtype)(clip_pictures.original_pixels(self.image, self.side)[None].to(dtype), output_hidden_states=True).hidden_states[-2][0]
        return torch.cat([mask, encoded]), clip

    def latents(self, seed, count, keyboard, mouse, dtype, condition, clip):
        """[z, T, h, w]"""
        noise, fresh = (t if t is None else t.to(dtype) for t in self.noise(seed, count))
        timesteps, sigmas = self.schedule()
        return causal.rollout(self.model.to(dtype), noise, timesteps, sigmas, clip, causal.Window(self.window), [n for n, _, _ in self.blocks(count)],
                              fresh=fresh, condition=condition, keyboard=keyboard.to(dtype), mouse=None if mouse is None else mouse.to(dtype))[0]

    def schedule(self):
        return cm.shifted(self.shift, [t / 1000 for t in self.timesteps])

    def decoded(self, x, count, dtype):
        """Returns [count, H, W, 3] in [0, 255], before rounding."""
        c = self.vae.config
        mean, std = (torch.tensor(v, dtype=dtype).view(1, -1, 1, 1, 1) for v in (c.latents_mean, c.latents_std))
        video = self.vae.decode(x[None] * std + mean).sample[0].clamp(-1, 1).permute(1, 2, 3, 0)
        return (video[:count] + 1) * 127.5

    def frames(self, seed, count, keyboard, mouse, dtype):
        """Returns the decoded frames and the condition."""
        condition, clip = self.condition(sum(n for n, _, _ in self.blocks(count)), dtype)
        return self.decoded(self.latents(seed, count, keyboard, mouse, dtype, condition, clip), count, dtype), condition


class Case(World):
    def __init__(self, ctx, i, kind):
        rng = ctx.rng
        self.side, self.euler = SIDE, False
        self.ctx, self.kind, self.folder, self.z = ctx, kind, ctx.folder / f"world-{i}-{kind}", rng.choice([4, 6])
        self.block, self.first = rng.choice([(3, 3), (1, 1), (2, 1)])
        self.window = rng.choice([self.block, 4, 6])
        self.window = max(self.window, self.block)
        self.timesteps, self.shift = rng.choice([[1000, 500], [1000, 666, 333]]), rng.choice([5, 8])
        gen = torch.Generator().manual_seed(rng.randrange(2**31))
        heads, dim = rng.choice([(1, 12), (2, 32)])
        mouse = 0 if kind == "templerun" else 2
        actions = dict(keyboard=len(KEYS[kind]), mouse=mouse, hidden=6, keyboard_hidden=48, mouse_hidden=64, heads=2)
        self.model = cm.causal_model(gen, channels=2 * self.z + 4, out_channels=self.z, text_dim=0, image_dim=24, actions=actions, action_blocks=[0, 1],
                                     dim=heads * dim, heads=heads, layers=3, ffn=40, freq_dim=16)
        cm.save(self.model, self.folder, window=self.window, prefix="model." if i % 2 else "")
        self.vae = rm.vae(rng, base_dim=8, z_dim=self.z, num_res_blocks=1)
        self.vae.save_pretrained(self.folder / "vae-source")
        file = self.folder / "vae-source" / "diffusion_pytorch_model.safetensors"
        config = (self.folder / "vae-source" / "config.json").read_text()
        save_file(load_file(file), self.folder / "Wan2.1_VAE.safetensors", metadata={"config": config})
        self.clip = rm.image_encoder(rng, hidden_size=24, intermediate_size=50, num_attention_heads=2, num_hidden_layers=2, image_size=SIDE, patch_size=14)
        self.clip.save_pretrained(self.folder / "clip-source")
        tensors = clip_pictures.original_names(load_file(self.folder / "clip-source" / "model.safetensors"), self.clip.config)
        save_file(tensors, self.folder / "models_clip_tiny.safetensors", metadata={"config": (self.folder / "clip-source" / "config.json").read_text()})
        world = dict(kind=kind, fps=12, timesteps=self.timesteps, shift=self.shift, block=self.block, first_block=self.first, width=WIDTH, height=HEIGHT)
        (self.folder / "generation_config.json").write_text(json.dumps({"world": world}))
        image = clip_pictures.random_picture(np.random.default_rng(rng.randrange(2**32)), rng.randint(20, 200), rng.randint(20, 200))
        image.save(self.folder / "start.png")
        self.image = fitted(image, WIDTH, HEIGHT)

    def script(self, frames):
        """Writes a script of random lengths. Returns it with the action that each pixel frame of the session follows. It begins with something held
        for most of a block, whatever the block's size: otherwise nothing might happen in a short script."""
        rng, left, entries = self.ctx.rng, frames, []
        while left:
            begins = not entries
            n = min(left, rng.randint(9 if begins else 1, 17))
            entry = {"frames": n}
            if begins or rng.random() < 0.8:
                entry["keys"] = rng.sample(KEYS[self.kind], rng.randint(int(begins), 2))
            if self.kind != "templerun" and (begins or rng.random() < 0.7):
                entry["mouse"] = [round(rng.uniform(-1, 1), 3) for _ in range(2)]
            entries.append(entry)
            left -= n
        (self.folder / "script.json").write_text(json.dumps({"actions": entries}))
        each = [e for e in entries for _ in range(e["frames"])]
        order = [i for i, e in enumerate(entries) for _ in range(e["frames"])]
        keyboard, mouse = [], []
        for _, first, count in self.blocks(frames):
            held = order[first: first + count]
            most = max(sorted(set(held)), key=held.count)
            entry = each[order.index(most)]
            keys = [float(k in entry.get("keys", [])) for k in KEYS[self.kind]]
            if self.kind == "templerun" and not any(keys):
                keys[0] = 1.0
            keyboard += [keys] * count
            mouse += [entry.get("mouse", [0.0, 0.0])] * count
        return torch.tensor(keyboard), torch.tensor(mouse) if self.kind != "templerun" else None


def compare(ctx, draws):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for i in range(max(draws // 2, 2)):
            for kind in KEYS:
                compare_one(ctx, i, kind)
    finally:
        torch.set_num_threads(threads)


def compare_one(ctx, i, kind):
    case, count, seed = Case(ctx, i, kind), 101 if i == 0 else ctx.rng.randint(5, 45), ctx.rng.randrange(2**32)
    keyboard, mouse = case.script(count)
    (case.folder / "out").mkdir()
    ctx.run("world", "--model", case.folder, "--image", case.folder / "start.png", "--actions", case.folder / "script.json", "--seed", seed,
                 "-o", case.folder / "out" / "%04d.png", "--device", "cpu", "-q")
    ours = np.stack([np.asarray(Image.open(p).convert("RGB")) for p in sorted((case.folder / "out").glob("*.png"))])
    with torch.no_grad():
        r32, _ = case.frames(seed, count, keyboard, mouse, torch.float32)
        with float64():
            want, condition = case.frames(seed, count, keyboard, mouse, torch.float64)
    label = f"world {kind} {i}: blocks {case.first}, {case.block}, window {case.window}, {count} frames"
    ctx.report(f"{label}: their number", abs(len(ours) - count), 0)
    y, r = torch.from_numpy(ours.astype(np.float64)), want.double()
    # The difference from exact values may be that of rounding to bytes, and very little more.
    off = (torch.from_numpy(ours.astype(np.float64)) - want.double()).abs().max().item()
    ctx.report(f"{label}: bytes (float32 alone {error(r32, want):.1e})", off, MOST_OFF)
    with torch.no_grad():  # actions and the condition's later frames must affect what is compared
        still, _ = case.frames(seed, count, keyboard * 0, None if mouse is None else mouse * 0, torch.float32)
    ctx.report(f"{label}: bytes that actions move, negative", -(still - r32).abs().max().item(), -3)
    if condition.shape[1] > 22:
        ctx.report(f"{label}: latent frames of the condition from the 22nd on differ by", (condition[:, 21:] - condition[:, 21:22]).abs().max().item(), 1e-12)
        ctx.report(f"{label}: the one before differs by, negative", -(condition[:, 20] - condition[:, 21]).abs().max().item(), -1e-9)
