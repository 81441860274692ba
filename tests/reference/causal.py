"""Causal Wan transformers (Self-Forcing, CausVid, Matrix-Game 2.0) and their rollout, restated from their published description.

Tensors have the names of the published checkpoints. A block is n latent frames that are denoised together; they look at
themselves and at what is remembered of earlier frames: the first S ("sinks") and the last W - S, the block's own among them.
Memory keeps keys without their rope and turns them when they are looked at; there are no slots, counters or evictions here.
tools/golden/make_causal.py compares it with the original repositories."""

import torch
from torch import nn
from torch.nn import functional as F


def turned(x, angles):
    """Rotates adjacent pairs of x [..., L, H, D] by angles [L, D/2]."""
    pairs = x.unflatten(-1, (-1, 2))
    a, b = pairs[..., 0], pairs[..., 1]
    c, s = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


def grid_angles(positions, rows, columns, head_dim):
    """Returns angles [frames · rows · columns, head_dim/2] of frames at these positions in time."""
    def axis(at, dim):
        return torch.as_tensor(at, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    side = 2 * (head_dim // 6)
    t, y, x = axis(positions, head_dim - 2 * side), axis(range(rows), side), axis(range(columns), side)
    shape = (len(t), rows, columns, -1)
    return torch.cat([t[:, None, None].expand(shape), y[None, :, None].expand(shape), x[None, None].expand(shape)], -1).flatten(0, 2)


def attend(q, k, v):
    """Attention of q [..., L, H, D] to k and v [..., n, H, D]."""
    q, k, v = (t.transpose(-3, -2) for t in (q, k, v))
    return ((q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(-3, -2)


class RmsNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


def unit_rms(x):
    """The norm of the action module, whose weights the original does not use."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


class Attention(nn.Module):
    def __init__(self, dim, heads, eps):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm_q, self.norm_k = RmsNorm(dim, eps), RmsNorm(dim, eps)

    def heads_of(self, x):
        return x.unflatten(-1, (self.heads, -1))

    def forward(self, x, context):
        k, v = self.heads_of(self.norm_k(self.k(context))), self.heads_of(self.v(context))
        return self.o(attend(self.heads_of(self.norm_q(self.q(x))), k, v).flatten(-2))


class Window:
    """Chooses which frames are looked at, and at which positions: W frames (None: all), S sinks among them. Sinks that follow lie
    right before the window, which keeps them as near as in the first W frames; others stay where they are."""

    def __init__(self, frames=None, sinks=0, follow=False):
        self.frames, self.sinks, self.follow = frames, sinks, follow

    def of(self, end):
        if self.frames is None or end <= self.frames:
            return list(range(end)), list(range(end))
        sinks, last = list(range(self.sinks)), list(range(end - self.frames + self.sinks, end))
        moved = [s + end - self.frames for s in sinks] if self.follow else sinks
        return sinks + last, moved + last


def recent(memory, end, window, part):
    """Returns the last W frames of the action module's memory, without sinks."""
    first = 0 if window.frames is None else max(0, end - window.frames)
    return torch.stack([memory[f][part] for f in range(first, end)], -3)


class ActionModule(nn.Module):
    """Adds the mouse branch to x, then the keyboard branch; x has no norm, modulation or gate here."""

    RATIO, WINDOWS = 4, 3

    def __init__(self, dim, keyboard, mouse=2, hidden=128, keyboard_hidden=1024, mouse_hidden=1024, heads=16, turning=8, theta=256.0):
        super().__init__()
        self.heads, self.turning, self.theta = heads, turning, theta
        past = self.RATIO * self.WINDOWS
        self.keyboard_embed = nn.Sequential(nn.Linear(keyboard, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        if mouse:
            self.mouse_mlp = nn.Sequential(nn.Linear(mouse * past + dim, mouse_hidden), nn.GELU(approximate="tanh"),
                                           nn.Linear(mouse_hidden, mouse_hidden), nn.LayerNorm(mouse_hidden))
            self.t_qkv = nn.Linear(mouse_hidden, 3 * mouse_hidden, bias=False)
            self.img_attn_q_norm, self.img_attn_k_norm = RmsNorm(mouse_hidden // heads, 1e-6), RmsNorm(mouse_hidden // heads, 1e-6)
            self.proj_mouse = nn.Linear(mouse_hidden, dim, bias=False)
        self.key_attn_q_norm, self.key_attn_k_norm = RmsNorm(keyboard_hidden // heads, 1e-6), RmsNorm(keyboard_hidden // heads, 1e-6)
        self.mouse_attn_q = nn.Linear(dim, keyboard_hidden, bias=False)
        self.keyboard_attn_kv = nn.Linear(hidden * past, 2 * keyboard_hidden, bias=False)
        self.proj_keyboard = nn.Linear(keyboard_hidden, dim, bias=False)

    def past(self, actions, frame):
        """The 12 actions that latent frame τ follows: those of pixel frames 4τ - 12 to 4τ - 1. Before the beginning, the first one is repeated."""
        at = torch.arange(self.RATIO * (frame - self.WINDOWS), self.RATIO * frame).clamp(min=0)
        return actions[at].flatten()

    def turned(self, x, frame):
        """Rotates x [..., heads, 64]: the first 8 channels of a head turn with the latent frame."""
        angles = frame * self.theta ** (-torch.arange(0, self.turning, 2, dtype=torch.float64) / self.turning)
        return torch.cat([turned(x[..., : self.turning], angles.expand(1, -1)), x[..., self.turning:]], -1)

    def by_heads(self, x):
        return x.unflatten(-1, (self.heads, -1))

    def forward(self, x, first, mouse, keyboard, memory, window):
        """x [n, sites, dim]"""
        frames = range(first, first + len(x))
        if hasattr(self, "t_qkv"):
            seen = torch.stack([self.past(mouse, f) for f in frames])[:, None].expand(-1, x.shape[1], -1)
            q, k, v = (self.by_heads(t) for t in self.t_qkv(self.mouse_mlp(torch.cat([x, seen], -1))).chunk(3, -1))
            q = torch.stack([self.turned(unit_rms(t), f) for t, f in zip(q, frames)], 1)  # [sites, n, heads, 64]
            for i, f in enumerate(frames):
                memory["mouse"][f] = (self.turned(unit_rms(k[i]), f), v[i])
            out = attend(q, recent(memory["mouse"], frames[-1] + 1, window, 0), recent(memory["mouse"], frames[-1] + 1, window, 1))
            x = x + self.proj_mouse(out.flatten(-2).transpose(0, 1))
        for f in frames:
            embedded = self.past(self.keyboard_embed(keyboard), f)
            k, v = (self.by_heads(t) for t in self.keyboard_attn_kv(embedded).chunk(2))
            memory["keyboard"][f] = (self.turned(unit_rms(k)[None], f)[0], v)
        q = unit_rms(self.by_heads(self.mouse_attn_q(x)))
        q = torch.cat([self.turned(t, f) for t, f in zip(q, frames)])  # [n · sites, heads, 64]
        out = attend(q, recent(memory["keyboard"], frames[-1] + 1, window, 0), recent(memory["keyboard"], frames[-1] + 1, window, 1))
        return x + self.proj_keyboard(out.flatten(-2)).view_as(x)


class Block(nn.Module):
    def __init__(self, dim, ffn, heads, eps, actions):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(dim, eps=eps, elementwise_affine=False) for _ in range(2))
        self.norm3 = nn.LayerNorm(dim, eps=eps)
        self.self_attn, self.cross_attn = Attention(dim, heads, eps), Attention(dim, heads, eps)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn), nn.GELU(approximate="tanh"), nn.Linear(ffn, dim))
        self.modulation = nn.Parameter(torch.randn(1, 6, dim) / dim**0.5)
        if actions:
            self.action_model = ActionModule(dim, **actions)

    def self_attention(self, u, first, grid, memory, window):
        """u [n, sites, dim]"""
        a, frames = self.self_attn, range(first, first + len(u))
        k, v = a.heads_of(a.norm_k(a.k(u))), a.heads_of(a.v(u))
        for i, f in enumerate(frames):
            memory["self"][f] = (k[i], v[i])
        q = turned(a.heads_of(a.norm_q(a.q(u))).flatten(0, 1), grid_angles(frames, *grid, k.shape[-1]))
        seen, positions = window.of(frames[-1] + 1)
        keys = turned(torch.cat([memory["self"][f][0] for f in seen]), grid_angles(positions, *grid, k.shape[-1]))
        return a.o(attend(q, keys, torch.cat([memory["self"][f][1] for f in seen])).flatten(-2)).view_as(u)

    def forward(self, x, e, first, grid, context, mouse, keyboard, memory, window):
        """x [n, sites, dim], e [6, dim]"""
        m = self.modulation[0] + e
        x = x + self.self_attention(self.norm1(x) * (1 + m[1]) + m[0], first, grid, memory, window) * m[2]
        x = x + self.cross_attn(self.norm3(x).flatten(0, 1), context).view_as(x)
        if hasattr(self, "action_model"):
            x = self.action_model(x, first, mouse, keyboard, memory, window)
        return x + self.ffn(self.norm2(x) * (1 + m[4]) + m[3]) * m[5]


class Head(nn.Module):
    def __init__(self, dim, out, eps):
        super().__init__()
        self.norm, self.head = nn.LayerNorm(dim, eps=eps, elementwise_affine=False), nn.Linear(dim, out)
        self.modulation = nn.Parameter(torch.randn(1, 2, dim) / dim**0.5)

    def forward(self, x, e):
        m = self.modulation[0] + e
        return self.head(self.norm(x) * (1 + m[1]) + m[0])


class ImageProjection(nn.Module):
    def __init__(self, image_dim, dim):
        super().__init__()
        self.proj = nn.Sequential(nn.LayerNorm(image_dim), nn.Linear(image_dim, image_dim), nn.GELU(), nn.Linear(image_dim, dim), nn.LayerNorm(dim))


class CausalWan(nn.Module):
    """text_dim 0: no text; the image's tokens are the only context. actions: the ActionModule's sizes; action_blocks: which blocks have one."""

    def __init__(self, dim=1536, heads=12, layers=30, ffn=8960, channels=16, out_channels=16, text_dim=4096, image_dim=0, freq_dim=256, eps=1e-6,
                 actions=None, action_blocks=()):
        super().__init__()
        self.heads, self.freq_dim, self.out_channels, self.text_dim = heads, freq_dim, out_channels, text_dim
        self.patch_embedding = nn.Conv3d(channels, dim, (1, 2, 2), (1, 2, 2))
        self.time_embedding = nn.Sequential(nn.Linear(freq_dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.time_projection = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        if text_dim:
            self.text_embedding = nn.Sequential(nn.Linear(text_dim, dim), nn.GELU(approximate="tanh"), nn.Linear(dim, dim))
        else:
            self.img_emb = ImageProjection(image_dim, dim)
        self.blocks = nn.ModuleList(Block(dim, ffn, heads, eps, actions if i in action_blocks else None) for i in range(layers))
        self.head = Head(dim, 4 * out_channels, eps)

    def new_memory(self):
        return [{"self": {}, "mouse": {}, "keyboard": {}} for _ in self.blocks]

    def forward(self, x, t, first, context, memory, window, mouse=None, keyboard=None):
        """x [C, n, h, w] at time t, frames from `first` on; context: text [512, text_dim] or the image's tokens → velocity"""
        n, rows, columns = x.shape[1], x.shape[2] // 2, x.shape[3] // 2
        tokens = self.patch_embedding(x[None])[0].flatten(2).permute(1, 2, 0)  # [n, sites, dim]
        angles = float(t) * 10000.0 ** (-torch.arange(self.freq_dim // 2, dtype=torch.float64) / (self.freq_dim // 2))
        e = self.time_embedding(torch.cat([angles.cos(), angles.sin()]).to(x.dtype))
        e6 = self.time_projection(e).view(6, -1)
        context = self.text_embedding(context) if self.text_dim else self.img_emb.proj(context)
        for block, seen in zip(self.blocks, memory):
            tokens = block(tokens, e6, first, (rows, columns), context, mouse, keyboard, seen, window)
        out = self.head(tokens, e).view(n, rows, columns, 1, 2, 2, self.out_channels)
        return torch.einsum("fhwpqrc->cfphqwr", out).reshape(self.out_channels, n, 2 * rows, 2 * columns)


def rollout(model, noise, timesteps, sigmas, context, window, blocks, fresh=None, condition=None, given=None, mouse=None, keyboard=None):
    """noise [C, T, h, w] of the frames to make; fresh [steps - 1, C, T, h, w]: the noise added after each step but the last, None with Euler's steps,
    which add none; blocks: their lengths; given [C, T0, h, w]: latents of the first blocks, to continue from; condition [C', T0 + T, h, w]: further
    channels. → latents [C, T, h, w], the velocities in order."""
    memory, first, done, velocities = model.new_memory(), 0, 0, []

    def predict(x, t):
        if condition is not None:
            x = torch.cat([x, condition[:, first: first + x.shape[1]]])
        return model(x, t, first, context, memory, window, mouse, keyboard)

    blocks, latents = list(blocks), []
    while given is not None and first < given.shape[1]:
        n = blocks.pop(0)
        predict(given[:, first: first + n], 0.0)
        first += n
    for n in blocks:
        x = noise[:, done: done + n]
        for i, t in enumerate(timesteps):
            velocities.append(predict(x, t))
            last = i + 1 == len(timesteps)
            if fresh is None:
                x = x + ((0.0 if last else sigmas[i + 1]) - sigmas[i]) * velocities[-1]
                continue
            x = x - sigmas[i] * velocities[-1]
            if not last:
                x = (1 - sigmas[i + 1]) * x + sigmas[i + 1] * fresh[i][:, done: done + n]
        predict(x, 0.0)
        latents.append(x)
        first, done = first + n, done + n
    return torch.cat(latents, 1), velocities
