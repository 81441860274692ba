"""The causal transformer of the steered world, under Matrix-Game 2's names, and its rollout.

    Denoiser     [noise 16 | mask 4 | picture 16] latents, the picture's CLIP rows as the only context, actions in the first three blocks

It runs in two ways that give the same: `whole` is a training pass over a clip and its noisy copy, where each frame remembers clean frames and
predicts the velocity of noisy ones; `Roll` goes frame by frame and keeps what it remembers. `python3 net.py` compares both with the definition in
tests/reference/causal.py."""
import functools
import json
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
from layers import CLIP_MEAN, CLIP_STD, Head, ImageEmbedding, Rms, condition, waves

Z, ROWS, COLUMNS = 16, 12, 20
SITES = ROWS * COLUMNS // 4
WIDTH, HEADS, LAYERS, FFN, IMAGE, FREQ = 256, 2, 6, 704, 128, 256
ACTED, HIDDEN, EMBED, PAST = (0, 1, 2), 192, 32, 12     # blocks with actions, their width, width of a key's embedding, actions of a latent frame
WINDOW, CHUNK = 12, 4
FRAMES = 32                                             # latent frames of a training clip; after them the condition is constant
STEPS, SHIFT = tuple(1000 - 125.0 * i for i in range(8)), 3.0  # Euler's timesteps at inference
MODEL = os.path.join(HERE, "..", "..", "models", "world")


def unit(x):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def plain(x):
    return F.layer_norm(x.float(), x.shape[-1:], eps=1e-6)


def turned(x, angle):
    """Rotates adjacent pairs of x [..., 2n] by angle [..., n]."""
    a, b = x[..., 0::2], x[..., 1::2]
    c, s = angle.cos(), angle.sin()
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


def angles(times, device):
    """Returns the angles [T, SITES, 1, 64] of the latent frames at `times` [T]."""
    freq = lambda d: 10000.0 ** (-torch.arange(0, d, 2, device=device, dtype=torch.float32) / d)
    t = times.float()[:, None] * freq(44)
    y, x = (torch.arange(n, device=device)[:, None] * freq(42) for n in (ROWS // 2, COLUMNS // 2))
    n = len(times)
    grid = (n, ROWS // 2, COLUMNS // 2, -1)
    return torch.cat([t[:, None, None].expand(grid), y[None, :, None].expand(grid), x[None, None].expand(grid)], -1).flatten(1, 2)[:, :, None]


def by_time(x, times):
    """Rotates action heads x [..., T, heads, 64]: the first eight channels turn with the latent frame, `times` [T]."""
    freq = 256.0 ** (-torch.arange(0, 8, 2, device=x.device, dtype=torch.float32) / 8)
    return torch.cat([turned(x[..., :8], (times.float()[:, None] * freq)[:, None]), x[..., 8:]], -1)


@functools.lru_cache(maxsize=8)
def masks(t, device):
    """Returns the masks of chunks [T / CHUNK, 2·CHUNK·SITES, keys], of the frames of both halves [2T, 2T], and of
    keyboards [2T, T]."""
    at = torch.arange(2 * t)
    half, frame = at // t, at % t
    near = (frame[None] <= frame[:, None]) & (frame[None] > frame[:, None] - WINDOW)
    both = torch.where(half[None] == 1, (half[:, None] == 1) & (frame[None] == frame[:, None]), near & ((half[:, None] == 0) | (frame[None] < frame[:, None])))
    out = []
    for j in range(t // CHUNK):
        q = torch.cat([torch.arange(CHUNK * j, CHUNK * (j + 1)), t + torch.arange(CHUNK * j, CHUNK * (j + 1))])
        k = torch.arange(CHUNK * j - WINDOW + 1, CHUNK * (j + 1))
        one = torch.cat([both[q][:, k.clamp(min=0)] & (k >= 0), both[q][:, t + torch.arange(CHUNK * j, CHUNK * (j + 1))]], 1)
        out.append(one.repeat_interleave(SITES, 0).repeat_interleave(SITES, 1))
    m = torch.stack(out)
    m = F.pad(m, (0, -m.shape[2] % 64))
    return m.to(device), both.to(device), near[:, :t].to(device)


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.norm_q, self.norm_k = Rms(d), Rms(d)

    def heads(self, x):
        return x.unflatten(-1, (-1, 128))

    def qkv(self, x, angle):
        """Returns q, k and v, [..., heads, 128] each; angle [..., 1, 64]."""
        v = self.v(x)
        q, k = (turned(self.heads(n(p(x))), angle).to(v.dtype) for n, p in ((self.norm_q, self.q), (self.norm_k, self.k)))
        return q, k, self.heads(v)

    def whole(self, x, angle, mask):
        """x [B, 2T, SITES, d]: T clean frames, then T noisy ones."""
        b, t2 = x.shape[:2]
        t = t2 // 2
        j, heads = t // CHUNK, HEADS
        q, k, v = self.qkv(x, torch.cat([angle, angle]))

        def chunks(a):
            """[B, J·heads, keys, 128]"""
            early = F.pad(a[:, :t], (0, 0, 0, 0, 0, 0, WINDOW - 1, 0))
            early = torch.stack([early[:, CHUNK * i:CHUNK * i + CHUNK + WINDOW - 1] for i in range(j)], 1)
            own = a[:, t:].unflatten(1, (j, CHUNK))
            a = torch.cat([early, own], 2).flatten(2, 3)
            a = F.pad(a, (0, 0, 0, 0, 0, mask.shape[2] - a.shape[2]))
            return a.permute(0, 1, 3, 2, 4).flatten(1, 2)

        both = torch.cat([q[:, :t].unflatten(1, (j, CHUNK)), q[:, t:].unflatten(1, (j, CHUNK))], 2).flatten(2, 3)
        both = both.permute(0, 1, 3, 2, 4).flatten(1, 2)
        y = F.scaled_dot_product_attention(both, chunks(k), chunks(v), mask.repeat_interleave(heads, 0)[None])
        y = y.unflatten(1, (j, heads)).permute(0, 1, 3, 2, 4).flatten(3).unflatten(2, (2, CHUNK, SITES))
        y = torch.cat([y[:, :, i].flatten(1, 2) for i in (0, 1)], 1)
        return self.o(y)

    def context(self, rows):
        """Returns keys and values [B, heads, R, 128] of the picture."""
        v = self.heads(self.v(rows)).transpose(1, 2)
        return self.heads(self.norm_k(self.k(rows))).transpose(1, 2).to(v.dtype), v

    def cross(self, x, kv):
        """x [B, N, SITES, d]"""
        b, n = x.shape[:2]
        q = self.heads(self.norm_q(self.q(x.flatten(1, 2)))).transpose(1, 2).to(kv[1].dtype)
        return self.o(F.scaled_dot_product_attention(q, *kv).transpose(1, 2).flatten(2)).unflatten(1, (n, SITES))


class ActionModel(nn.Module):
    def __init__(self, d, hidden=HIDDEN):
        super().__init__()
        self.keyboard_embed = nn.Sequential(nn.Linear(4, EMBED), nn.SiLU(), nn.Linear(EMBED, EMBED))
        self.mouse_mlp = nn.Sequential(nn.Linear(2 * PAST + d, hidden), nn.GELU(approximate="tanh"), nn.Linear(hidden, hidden), nn.LayerNorm(hidden))
        self.t_qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.img_attn_q_norm, self.img_attn_k_norm, self.key_attn_q_norm, self.key_attn_k_norm = (Rms(64) for _ in range(4))
        for norm in (self.img_attn_q_norm, self.img_attn_k_norm, self.key_attn_q_norm, self.key_attn_k_norm):
            norm.weight.requires_grad_(False)  # the official module has these weights and does not use them
        self.proj_mouse = nn.Linear(hidden, d, bias=False)
        self.mouse_attn_q = nn.Linear(d, hidden, bias=False)
        self.keyboard_attn_kv = nn.Linear(EMBED * PAST, 2 * hidden, bias=False)
        self.proj_keyboard = nn.Linear(hidden, d, bias=False)

    def heads(self, x):
        return x.unflatten(-1, (-1, 64))

    def mouse_qkv(self, x, mouse, times):
        """x [B, N, SITES, d], mouse [B, N, 24] → [B, N, SITES, heads, 64] each"""
        seen = mouse[:, :, None].expand(-1, -1, x.shape[2], -1)
        q, k, v = (self.heads(a) for a in self.t_qkv(self.mouse_mlp(torch.cat([x, seen.to(x.dtype)], -1))).chunk(3, -1))
        spin = lambda a: by_time(unit(a).transpose(1, 2), times).transpose(1, 2).to(v.dtype)
        return spin(q), spin(k), v

    def keyboard_kv(self, keyboard, times):
        """keyboard [B, N, PAST, 4] → [B, N, heads, 64] each"""
        k, v = (self.heads(a) for a in self.keyboard_attn_kv(self.keyboard_embed(keyboard).flatten(2)).chunk(2, -1))
        return by_time(unit(k), times).to(v.dtype), v

    def keyboard_q(self, x, times):
        return by_time(unit(self.heads(self.mouse_attn_q(x))).transpose(1, 2), times).transpose(1, 2)

    def whole(self, x, keyboard, mouse, times, both, near):
        b, t2 = x.shape[:2]
        twice = torch.cat([times, times])
        q, k, v = (a.transpose(1, 2).flatten(0, 1).transpose(1, 2) for a in self.mouse_qkv(x, torch.cat([mouse, mouse], 1), twice))
        y = F.scaled_dot_product_attention(q, k, v, both[None, None])
        x = x + self.proj_mouse(y.transpose(1, 2).flatten(2).unflatten(0, (b, -1)).transpose(1, 2)).float()
        k, v = (a.transpose(1, 2) for a in self.keyboard_kv(keyboard, times))
        q = self.keyboard_q(x, twice).to(v.dtype).flatten(1, 2).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, near.repeat_interleave(SITES, 0)[None, None])
        return x + self.proj_keyboard(y.transpose(1, 2).flatten(2)).unflatten(1, (t2, -1)).float()


class Block(nn.Module):
    def __init__(self, d, ffn, acts):
        super().__init__()
        self.modulation = nn.Parameter(torch.randn(1, 6, d) / d**0.5)
        self.self_attn, self.cross_attn = Attention(d), Attention(d)
        self.norm3 = nn.LayerNorm(d, 1e-6)
        self.ffn = nn.Sequential(nn.Linear(d, ffn), nn.GELU(approximate="tanh"), nn.Linear(ffn, d))
        if acts:
            self.action_model = ActionModel(d)

    def modulated(self, mod):
        """Splits mod [B, N, 6, d] into six of [B, N, 1, d]."""
        return (self.modulation[:, None] + mod.float()).unsqueeze(3).unbind(2)

    def whole(self, h, mod, angle, mask, both, near, rows, keyboard, mouse, times):
        s1, c1, g1, s2, c2, g2 = self.modulated(mod)
        h = h + self.self_attn.whole(plain(h) * (1 + c1) + s1, angle, mask).float() * g1
        h = h + self.cross_attn.cross(self.norm3(h), self.cross_attn.context(rows)).float()
        if hasattr(self, "action_model"):
            h = self.action_model.whole(h, keyboard, mouse, times, both, near)
        return h + self.ffn(plain(h) * (1 + c2) + s2).float() * g2


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        d = WIDTH
        self.patch_embedding = nn.Conv3d(2 * Z + 4, d, (1, 2, 2), (1, 2, 2))
        self.time_embedding = nn.Sequential(nn.Linear(FREQ, d), nn.SiLU(), nn.Linear(d, d))
        self.time_projection = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))
        self.img_emb = ImageEmbedding(IMAGE, d)
        self.blocks = nn.ModuleList(Block(d, FFN, i in ACTED) for i in range(LAYERS))
        self.head = Head(d, Z)
        with torch.no_grad():
            for p in (*self.time_projection.parameters(), *self.head.head.parameters()):
                p.zero_()
            for i in ACTED:  # the mouse's values are a tenth of the others
                self.blocks[i].action_model.mouse_mlp[0].weight[:, d:] *= 10

    def tokens(self, x):
        """Returns the tokens [B, N, SITES, d] of x [B, 36, N, ROWS, COLUMNS]."""
        b, _, n, h, w = x.shape
        patches = x.view(b, -1, n, h // 2, 2, w // 2, 2).permute(0, 2, 3, 5, 1, 4, 6).reshape(b, n, h * w // 4, -1)
        return F.linear(patches, self.patch_embedding.weight.flatten(1), self.patch_embedding.bias).float()

    def times(self, t):
        """Returns (e [B, N, d], its six [B, N, 6, d]) of timesteps t [B, N]."""
        e = self.time_embedding(waves(t, FREQ)).float()
        return e, self.time_projection(e).unflatten(-1, (6, -1))

    def latents(self, h, e):
        """Returns velocities [B, Z, N, ROWS, COLUMNS]."""
        shift, scale = (self.head.modulation[:, None] + e[:, :, None]).unsqueeze(3).unbind(2)
        y = self.head.head(plain(h) * (1 + scale) + shift)
        y = y.unflatten(2, (ROWS // 2, COLUMNS // 2)).unflatten(-1, (2, 2, -1))
        return y.permute(0, 6, 1, 2, 4, 3, 5).reshape(len(h), Z, -1, ROWS, COLUMNS).float()

    def whole(self, clean, noisy, t, channels, rows, keyboard, mouse):
        """Returns velocities of noisy latents [B, Z, T, h, w] at timesteps t [B, T], given clean ones of the same frames; channels [B, 20, T, h, w],
        rows [B, 257, IMAGE], keyboard [B, T, PAST, 4], mouse [B, T, 2·PAST]."""
        n = clean.shape[2]
        at = torch.arange(n, device=clean.device)
        mask, both, near = masks(n, clean.device)
        angle = angles(at, clean.device)
        h = self.tokens(torch.cat([torch.cat([clean, channels], 1), torch.cat([noisy, channels], 1)], 2))
        e, mod = self.times(torch.cat([torch.zeros_like(t), t], 1))
        rows = self.img_emb.proj(rows)
        for block in self.blocks:
            h = block.whole(h, mod, angle, mask, both, near, rows, keyboard, mouse, at)
        return self.latents(h[:, n:], e[:, n:])


def windows(keyboard, mouse, blocks):
    """Returns for each latent frame the twelve actions before its last pixel frame: keyboard [B, T, PAST, 4] and mouse [B, T, 2·PAST] of actions
    [B, 4T - 3, …] of pixel frames."""
    at = (4 * torch.arange(blocks, device=keyboard.device)[:, None] - PAST + torch.arange(PAST, device=keyboard.device)).clamp(min=0)
    return keyboard[:, at], mouse[:, at].flatten(2)


class Roll:
    """A rollout of B worlds, one latent frame after the other."""

    def __init__(self, net, rows, autocast):
        self.net, self.frame, self.autocast = net, 0, autocast
        with torch.no_grad(), autocast():
            rows = net.img_emb.proj(rows)
            self.rows = [b.cross_attn.context(rows) for b in net.blocks]
        self.kept = [{"self": [], "mouse": [], "keyboard": []} for _ in net.blocks]

    @torch.no_grad()
    def velocity(self, x, t, channels, keyboard, mouse, keep=False):
        """x [B, Z, 1, h, w] at the timestep t; channels [B, 20, 1, h, w], keyboard [B, 1, PAST, 4], mouse [B, 1, 2·PAST]. keep: later frames see this
        one, and the rollout moves to the next one."""
        at = torch.tensor([self.frame], device=x.device)
        angle = angles(at, x.device)
        with self.autocast():
            h = self.net.tokens(torch.cat([x, channels], 1))
            e, mod = self.net.times(torch.full((1, 1), float(t), device=x.device))
            for block, kept, rows in zip(self.net.blocks, self.kept, self.rows):
                h = self._block(block, kept, rows, h, mod, angle, at, keyboard, mouse, keep)
            out = None if keep else self.net.latents(h, e)
        if keep:
            self.frame += 1
            for kept in self.kept:
                for name in kept:
                    kept[name] = kept[name][-(WINDOW - 1):]
        return out

    def _block(self, block, kept, rows, h, mod, angle, at, keyboard, mouse, keep):
        def seen(name, own, dim):
            if keep:
                kept[name].append(own)
            parts = kept[name] if keep else [*kept[name], own]
            return (torch.cat([p[i] for p in parts], dim) for i in (0, 1))
        s1, c1, g1, s2, c2, g2 = block.modulated(mod)
        q, k, v = (a.flatten(1, 2).transpose(1, 2) for a in block.self_attn.qkv(plain(h) * (1 + c1) + s1, angle))
        y = F.scaled_dot_product_attention(q, *seen("self", (k, v), 2))
        h = h + block.self_attn.o(y.transpose(1, 2).flatten(2))[:, None].float() * g1
        h = h + block.cross_attn.cross(block.norm3(h), rows).float()
        if hasattr(block, "action_model"):
            a = block.action_model
            q, k, v = (p[:, 0].flatten(0, 1)[:, :, None] for p in a.mouse_qkv(h, mouse, at))  # [B·SITES, heads, 1, 64]
            y = F.scaled_dot_product_attention(q, *seen("mouse", (k, v), 2))
            h = h + a.proj_mouse(y.flatten(1).unflatten(0, (len(h), -1)))[:, None].float()
            k, v = (p.transpose(1, 2) for p in a.keyboard_kv(keyboard, at))
            k, v = seen("keyboard", (k, v), 2)
            q = a.keyboard_q(h, at)[:, 0].transpose(1, 2).to(v.dtype)
            y = F.scaled_dot_product_attention(q, k, v)
            h = h + a.proj_keyboard(y.transpose(1, 2).flatten(2))[:, None].float()
        return h + block.ffn(plain(h) * (1 + c2) + s2).float() * g2


def levels(steps=STEPS, shift=SHIFT):
    return [shift * t / 1000 / (1 + (shift - 1) * t / 1000) for t in steps]


@torch.no_grad()
def rollout(net, channels, rows, keyboard, mouse, blocks, autocast, noise=None, generator=None, sigmas=None):
    """Makes latents [B, Z, blocks, h, w], one latent frame after the other, by Euler's steps. After the end of channels [B, 20, T, h, w] the last
    frame's are reused."""
    with autocast():  # around the whole loop, so that weights are cast only once
        sigmas, roll, out, b = sigmas or levels(), Roll(net, rows, autocast), [], len(rows)
        for tau in range(blocks):
            c = channels[:, :, min(tau, channels.shape[2] - 1), None]
            held = keyboard[:, tau:tau + 1], mouse[:, tau:tau + 1]
            x = noise[:, :, tau:tau + 1] if noise is not None else torch.randn(b, Z, 1, ROWS, COLUMNS, device=rows.device, generator=generator)
            for s, following in zip(sigmas, [*sigmas[1:], 0.0]):
                x = x + (following - s) * roll.velocity(x, 1000 * s, c, *held)
            roll.velocity(x, 0, c, *held, keep=True)
            out.append(x)
        return torch.cat(out, 2)


# ------------------------------------------------------------------------------------------- files
def config():
    return {"_class_name": "CausalWanModel", "model_type": "i2v", "dim": WIDTH, "ffn_dim": FFN, "freq_dim": FREQ, "in_dim": 2 * Z + 4, "out_dim": Z,
            "num_heads": HEADS, "num_layers": LAYERS, "local_attn_size": WINDOW, "sink_size": 0, "eps": 1e-6, "text_len": 512, "cross_attn_norm": True,
            "action_config": {"blocks": list(ACTED), "enable_keyboard": True, "enable_mouse": True, "heads_num": HIDDEN // 64, "hidden_size": EMBED,
                              "img_hidden_size": WIDTH, "keyboard_dim_in": 4, "keyboard_hidden_dim": HIDDEN, "patch_size": [1, 2, 2], "qk_norm": True,
                              "qkv_bias": False, "rope_dim_list": [8, 28, 28], "rope_theta": 256, "vae_time_compression_ratio": 4, "windows_size": 3,
                              "mouse_dim_in": 2, "mouse_hidden_dim": HIDDEN, "mouse_qk_dim_list": [8, 28, 28]}}


def save_denoiser(net, folder):
    from safetensors.torch import save_file
    os.makedirs(folder, exist_ok=True)
    unused = lambda k: "_attn_q_norm." in k or "_attn_k_norm." in k
    save_file({k: (torch.ones_like(v) if unused(k) else v).detach().to("cpu", torch.bfloat16).contiguous() for k, v in net.state_dict().items()},
              os.path.join(folder, "diffusion_pytorch_model.safetensors"), {"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config(), f, indent=1)
        f.write("\n")


def parts(folder):
    """Writes what training keeps: the averaged weights one after the other, in float32, in files small enough to be carried."""
    i = 0
    while os.path.exists(path := os.path.join(folder, f"denoiser-{i}.pt")):
        yield torch.load(path, weights_only=True)
        i += 1


def save_parts(flat, folder, most=4_000_000):
    os.makedirs(folder, exist_ok=True)
    for i, part in enumerate(flat.cpu().split(most)):
        path = os.path.join(folder, f"denoiser-{i}.pt")
        torch.save(part.clone(), path + ".part")
        os.replace(path + ".part", path)


def load_denoiser(folder):
    """Loads the network that training keeps, rounded as in the shipped files."""
    net, flat, at = Denoiser(), torch.cat(list(parts(folder))), 0
    for p in net.parameters():
        p.data = flat[at:at + p.numel()].view(p.shape).bfloat16().float()
        at += p.numel()
    assert at == len(flat), f"{folder}: {len(flat)} of {at} weights"
    return net


class Eyes:
    """CLIP's vision model up to its last state but one, from a file with transformers' names and the config in its header. It is written out here,
    since transformers' versions differ in its names and config."""

    def __init__(self, path, device):
        from safetensors import safe_open
        from safetensors.torch import load_file
        with safe_open(path, "pt") as f:
            self.config = json.loads(f.metadata()["config"])
        assert self.config["hidden_act"] == "gelu", self.config["hidden_act"]
        self.of = {k.removeprefix("vision_model."): v.float().to(device) for k, v in load_file(path).items()}
        constant = lambda v: torch.tensor(v, device=device).view(1, 3, 1, 1)
        self.mean, self.std = constant(CLIP_MEAN), constant(CLIP_STD)

    def linear(self, x, name):
        return F.linear(x, self.of[name + ".weight"], self.of[name + ".bias"])

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self.of[name + ".weight"], self.of[name + ".bias"], self.config["layer_norm_eps"])

    @torch.no_grad()
    def look(self, pictures):
        """Returns rows [B, 257, IMAGE] of pictures [B, 3, H, W] in -1..1."""
        x = F.interpolate(pictures.float(), size=(224, 224), mode="bicubic", align_corners=False) * 0.5 + 0.5
        x = F.conv2d((x - self.mean) / self.std, self.of["embeddings.patch_embedding.weight"], stride=self.config["patch_size"]).flatten(2).transpose(1, 2)
        x = torch.cat([self.of["embeddings.class_embedding"].expand(len(x), 1, -1), x], 1) + self.of["embeddings.position_embedding.weight"]
        x = self.norm(x, "pre_layrnorm")
        for i in range(self.config["num_hidden_layers"] - 1):
            layer = f"encoder.layers.{i}."
            y = self.norm(x, layer + "layer_norm1")
            q, k, v = (self.linear(y, f"{layer}self_attn.{n}_proj").unflatten(-1, (self.config["num_attention_heads"], -1)).transpose(1, 2) for n in "qkv")
            x = x + self.linear(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), layer + "self_attn.out_proj")
            x = x + self.linear(F.gelu(self.linear(self.norm(x, layer + "layer_norm2"), layer + "mlp.fc1")), layer + "mlp.fc2")
        return x


# ------------------------------------------------------------------------------------------- check
def check(blocks=16):
    """Compares both ways with the definition in float32."""
    import contextlib
    sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "reference"))
    import causal
    torch.manual_seed(0)
    net = Denoiser().eval()
    with torch.no_grad():
        for p in net.parameters():
            if p.abs().max() == 0:
                p.normal_(std=0.05)
    other = causal.CausalWan(WIDTH, HEADS, LAYERS, FFN, 2 * Z + 4, Z, 0, IMAGE, FREQ, 1e-6,
                             dict(keyboard=4, mouse=2, hidden=EMBED, keyboard_hidden=HIDDEN, mouse_hidden=HIDDEN, heads=HIDDEN // 64), ACTED).eval()
    other.load_state_dict(net.state_dict())
    keyboard, mouse = (torch.rand(1, 4 * blocks - 3, 4) > 0.6).float(), 0.1 * torch.randn(1, 4 * blocks - 3, 2)
    channels, rows = torch.randn(1, 20, blocks, ROWS, COLUMNS), torch.randn(1, 257, IMAGE)
    noise = torch.randn(1, Z, blocks, ROWS, COLUMNS)
    held = windows(keyboard, mouse, blocks)
    with torch.no_grad():
        # With one step Euler's method and the definition's are the same.
        want, seen = causal.rollout(other, noise[0], (1000.0,), (1.0,), rows[0], causal.Window(WINDOW), [1] * blocks, None, channels[0], None, mouse[0], keyboard[0])
        got = rollout(net, channels, rows, *held, blocks, contextlib.nullcontext, noise, sigmas=[1.0])
        rolled = float((got[0] - want).abs().max() / want.abs().max())
        v = net.whole(got, noise, torch.full((1, blocks), 1000.0), channels, rows, *held)
        first = torch.cat(seen, 1)
        whole = float((v[0] - first).abs().max() / first.abs().max())
    print(f"rollout {rolled:.1e}, training pass {whole:.1e}, {sum(p.numel() for p in net.parameters()) / 1e6:.2f} M parameters")
    return max(rolled, whole)


if __name__ == "__main__":
    assert check() < 1e-4
