"""The training data of the denoiser, made anew in each call: clips under random scripts, encoded once."""
import json
import os
import time

import net  # first: it finds the folder above
import torch

import autoencoder
import plane
import vae
import video

EACH = 3  # clips that begin with the same picture


def statistics_of(folder):
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    return c.get("world_statistics") and tuple(torch.tensor(c[k]) for k in ("latents_mean", "latents_std"))


class Bank:
    """z and y (the condition's latents) bfloat16, normalised; rows of the eyes; windows of actions. `seconds` are counted from the end of
    compilation."""

    def __init__(self, team, folder, eyes_file, seconds, seed, most=9000, batch=6, blocks=net.FRAMES):
        began, first, dev, self.device = time.time(), None, team.device, team.device
        auto = autoencoder.load(folder).to(dev).eval().requires_grad_(False)
        eyes = net.Eyes(eyes_file, dev)
        compiled = lambda f: torch.compile(f, dynamic=False) if team.cuda else f
        encode, draw = compiled(vae.encode), compiled(plane.render)
        frames, gen = 4 * blocks - 3, torch.Generator().manual_seed(seed)
        batch = batch // EACH * EACH
        most = -(-most // (batch * EACH)) * batch * EACH
        keyboard, mouse = video.scripts(most, blocks, seed)
        states = plane.track(plane.cameras(most // EACH, gen).repeat_interleave(EACH, 0), keyboard[:, :-1], mouse[:, :-1]).to(dev)
        worlds = torch.randint(plane.WORLDS, (most // EACH,), generator=gen).repeat_interleave(EACH).to(dev)
        z, y, rows, waiting = [], [], [], []
        while waiting or len(z) * batch < most and (first is None or time.time() - first < seconds):
            part = slice(len(z) * batch, (len(z) + 1) * batch)
            with torch.no_grad(), torch.autocast(dev.type, torch.bfloat16, enabled=team.cuda):
                x = draw(worlds[part], states[part]).contiguous()  # with the same strides as below, since code is compiled for given strides
                z.append(encode(auto, x)[0].bfloat16())
                waiting.append(x[::EACH, :, 0].clone())
                if len(waiting) == EACH:  # as many pictures as a batch has clips, so that only one shape is compiled
                    pictures, waiting = torch.cat(waiting), []
                    y.append(encode(auto, video.grey_behind(pictures, frames))[0].bfloat16())
                    rows.append(eyes.look(pictures).bfloat16())
                    if team.cuda:
                        torch.cuda.synchronize()  # otherwise the clock would run ahead of the queued work
                    first = first or time.time()
        self.z, self.y, self.rows = torch.cat(z), torch.cat(y), torch.cat(rows)
        known = statistics_of(folder)
        if known is None:
            part = self.z[:600].double()
            mean = part.mean((0, 2, 3, 4))
            known = tuple((1e5 * t).round().div(1e5).float().cpu() for t in (mean, part.std((0, 2, 3, 4))))
            path = os.path.join(folder, "config.json")
            with open(path) as f:
                config = json.load(f)
            config |= {"latents_mean": [round(float(v), 5) for v in known[0]], "latents_std": [round(float(v), 5) for v in known[1]], "world_statistics": True}
            with open(path, "w") as f:
                json.dump(config, f, indent=2)
        mean, std = (t.to(dev).view(1, -1, 1, 1, 1) for t in known)
        for t in (self.z, self.y):
            for i in range(0, len(t), 512):
                t[i:i + 512] = ((t[i:i + 512].float() - mean) / std).bfloat16()
        self.keyboard, self.mouse = (a[:len(self.z)].to(dev) for a in (keyboard, mouse))
        team.log(f"bank: {len(self.z)} clips of {frames} frames, {time.time() - began:.0f} s, of which {first - began:.0f} s until all was compiled, "
                 f"deviations {[round(float(v), 2) for v in known[1]]}")

    def draw(self, b):
        """Returns (x0 [B, Z, T, h, w], channels, rows, keyboard windows, mouse windows) of b clips."""
        i = torch.randint(len(self.z), (b,), device=self.device)
        j = i // EACH
        return (self.z[i].float(), net.condition(self.y[j].float()), self.rows[j].float(), *net.windows(self.keyboard[i], self.mouse[i], self.z.shape[2]))
