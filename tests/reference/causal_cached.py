"""The causal models of causal.py as their original code runs them: keys are turned once and kept in caches of fixed size, which are moved when a
block begins; the keys of contexts are made once; each frame has a timestep. Rounding is the original's, too: a model in bfloat16 keeps norms, rope
and softmax in float32 or float64 inside and stores everything in bfloat16, the latents between steps, too.

It serves to measure the original's speed (bench/peers/world_torch.py) and its error in bfloat16 (tools/golden/make_causal_bf16.py). Weights are those
of causal.CausalWan; the functions take its modules."""

import torch
from torch.nn import functional as F


def rms(x, weight, eps):
    return (x.float() * (x.float().square().mean(-1, keepdim=True) + eps).rsqrt()).type_as(x) * weight if x.dtype.itemsize < 4 else \
        x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


def unit_rms(x):
    """The action module's norm, which has no weight and computes in the tensor's own dtype."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def turned(x, freqs):
    """Rotates x [L, H, D] by freqs [L, D/2] complex128, in float64 like the original."""
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * freqs[:, None]).flatten(-2).type_as(x)


def turned_real(x, freqs):
    """Does the same as `turned` in real numbers, for compilers without complex ones. freqs: (cos, sin) [L, D/2] float64"""
    cos, sin = (f[:, None] for f in freqs)
    a, b = x.double().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).type_as(x)


def attend(q, k, v):
    """Attention of q [B, L, H, D] to k and v [B, n, H, D]."""
    return F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)


def axis_angles(at, dim, theta=10000.0):
    return at.double()[:, None] * theta ** (-torch.arange(0, dim, 2, dtype=torch.float64, device=at.device) / dim)


def grid_angles(first, n, rows, columns, head_dim, device):
    side = 2 * (head_dim // 6)
    at = [torch.arange(b, b + c, device=device) for b, c in ((first, n), (0, rows), (0, columns))]
    t, y, x = (axis_angles(a, d) for a, d in zip(at, (head_dim - 2 * side, side, side)))
    shape = (n, rows, columns, -1)
    return torch.cat([t[:, None, None].expand(shape), y[None, :, None].expand(shape), x[None, None].expand(shape)], -1).flatten(0, 2)


class Cache:
    """Keys and values [B, size, heads, width] of the last frames; `each` rows a frame. A full cache moves its frames, except the sinks, when a block
    begins."""

    def __init__(self, batch, frames, each, heads, width, dtype, device, sinks=0):
        self.k, self.v = (torch.zeros(batch, frames * each, heads, width, dtype=dtype, device=device) for _ in range(2))
        self.each, self.sinks, self.end, self.last = each, sinks * each, 0, -1

    def begin(self, first, n):
        """Makes room for frames first to first + n; called once in each pass. Only the first pass of a block moves frames."""
        new = (first + n) * self.each
        if new <= self.last:
            return
        over = self.end + n * self.each - self.k.shape[1]
        if over > 0:
            for t in (self.k, self.v):
                t[:, self.sinks: self.end - over] = t[:, self.sinks + over: self.end].clone()
            self.end -= over
        self.end += n * self.each
        self.last = new

    def seen(self):
        return self.k[:, : self.end], self.v[:, : self.end]


class Caches:
    """The caches of all layers."""

    def __init__(self, model, frames, sinks, sites, dtype, device):
        self.layers, self.context = [], None
        for block in model.blocks:
            dim, heads = block.modulation.shape[-1], model.heads
            own = {"self": Cache(1, frames, sites, heads, dim // heads, dtype, device, sinks)}
            if hasattr(block, "action_model"):
                a = block.action_model
                if hasattr(a, "t_qkv"):
                    own["mouse"] = Cache(sites, frames, 1, a.heads, a.t_qkv.in_features // a.heads, dtype, device)
                own["keyboard"] = Cache(1, frames, 1, a.heads, a.mouse_attn_q.out_features // a.heads, dtype, device)
            self.layers.append(own)

    def begin(self, first, n):
        for own in self.layers:
            for cache in own.values():
                cache.begin(first, n)


def kept(seen, k, v):
    """Puts k and v [B, m, H, D] at the end of the frames that are seen."""
    seen[0][:, -k.shape[1]:], seen[1][:, -v.shape[1]:] = k, v
    return seen


def act(a, x, mouse, keyboard, angles, seen):
    """x [n, sites, dim]; mouse [n, 12 · values], keyboard [4 n + 8, values]: what these frames follow; angles [n, width/2] float32"""
    n, sites = x.shape[:2]

    def turn(t, frames):  # t [..., frames, heads, 64]: the first channels turn
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        p, q = t[..., : a.turning].float().unflatten(-1, (-1, 2)).unbind(-1)
        front = torch.stack([p * cos - q * sin, p * sin + q * cos], -1).flatten(-2).type_as(t)
        return torch.cat([front, t[..., a.turning:]], -1)

    if "mouse" in seen:
        rows = mouse[:, None].expand(-1, sites, -1)
        q, k, v = (a.by_heads(t).transpose(0, 1) for t in a.t_qkv(a.mouse_mlp(torch.cat([x, rows], -1))).chunk(3, -1))
        q, k = turn(unit_rms(q), n), turn(unit_rms(k), n)  # [sites, n, heads, 64]
        out = attend(q, *kept(seen["mouse"], k, v))
        x = x + a.proj_mouse(out.flatten(-2).transpose(0, 1))
    embedded = a.keyboard_embed(keyboard)
    past = a.RATIO * a.WINDOWS
    windows = torch.stack([embedded[a.RATIO * i: a.RATIO * i + past].flatten() for i in range(n)])
    k, v = (a.by_heads(t) for t in a.keyboard_attn_kv(windows).chunk(2, -1))
    k = turn(unit_rms(k), n)
    q = turn(unit_rms(a.by_heads(a.mouse_attn_q(x))).transpose(0, 1), n).transpose(0, 1).flatten(0, 1)
    out = attend(q[None], *kept(seen["keyboard"], k[None], v[None]))[0]
    return x + a.proj_keyboard(out.flatten(-2)).view_as(x)


def layer(block, x, e, freqs, context, seen, mouse, keyboard, action_angles, turn=turned):
    """x [n, sites, dim], e [n, 6, dim]; context: keys and values [1, rows, heads, width]; seen: what each cache has, this block's room at its end"""
    n, sites, dim = x.shape
    m = block.modulation + e
    m = [m[:, i: i + 1] for i in range(6)]  # [n, 1, dim]
    a, c, eps = block.self_attn, block.cross_attn, block.self_attn.norm_q.eps
    u = (block.norm1(x) * (1 + m[1]) + m[0]).flatten(0, 1)
    q, k = (turn(a.heads_of(rms(w(u), g.weight, eps)), freqs)[None] for w, g in ((a.q, a.norm_q), (a.k, a.norm_k)))
    out = attend(q, *kept(seen["self"], k, a.heads_of(a.v(u))[None]))
    x = x + a.o(out.flatten(-2)).view_as(x) * m[2]
    q = c.heads_of(rms(c.q(block.norm3(x).flatten(0, 1)), c.norm_q.weight, eps))[None]
    x = x + c.o(attend(q, *context).flatten(-2)).view_as(x)
    if action_angles is not None and "keyboard" in seen:
        x = act(block.action_model, x, mouse, keyboard, action_angles, seen)
    return x + block.ffn(block.norm2(x) * (1 + m[4]) + m[3]) * m[5]


def past_of(a, actions, first, n):
    """The actions that latent frames first to first + n follow, [4 (n - 1) + 12, values]. Before the beginning, the first one is repeated."""
    at = torch.arange(a.RATIO * (first - a.WINDOWS), a.RATIO * (first + n - 1), device=actions.device).clamp(min=0)
    return actions[at]


def make_context(model, context):
    """Computes the keys and values of the text or the picture for every layer."""
    context = model.text_embedding(context) if model.text_dim else model.img_emb.proj(context)
    out = []
    for block in model.blocks:
        c = block.cross_attn
        out.append((c.heads_of(rms(c.k(context), c.norm_k.weight, c.norm_k.eps))[None], c.heads_of(c.v(context))[None]))
    return out


def forward(model, x, t, first, caches, mouse=None, keyboard=None, run_layer=layer, complex_rope=True):
    """x [C, n, h, w] at time t, frames from `first` on → velocity; caches.context made before"""
    device, dtype, (_, n, height, width) = x.device, x.dtype, x.shape
    rows, columns = height // 2, width // 2
    tokens = model.patch_embedding(x[None])[0].flatten(2).permute(1, 2, 0)
    half = model.freq_dim // 2
    at = torch.full((n,), float(t), dtype=torch.float64, device=device)
    angles = at[:, None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64, device=device) / half)
    e = model.time_embedding(torch.cat([angles.cos(), angles.sin()], -1).to(dtype))  # [n, dim]
    e6 = model.time_projection(e).view(n, 6, -1)
    head_dim = tokens.shape[-1] // model.heads
    angles = grid_angles(first, n, rows, columns, head_dim, device)
    freqs = torch.polar(torch.ones_like(angles), angles) if complex_rope else (angles.cos(), angles.sin())
    action = next((b.action_model for b in model.blocks if hasattr(b, "action_model")), None)
    turns = None
    if action is not None:
        keyboard = past_of(action, keyboard, first, n)
        if mouse is not None:
            rows_of = past_of(action, mouse, first, n)
            past = action.RATIO * action.WINDOWS
            mouse = torch.stack([rows_of[action.RATIO * i: action.RATIO * i + past].flatten() for i in range(n)])
        turns = axis_angles(torch.arange(first, first + n, device=device), action.turning, action.theta).to(dtype if dtype.itemsize > 4 else torch.float32)
    caches.begin(first, n)
    for block, own, context in zip(model.blocks, caches.layers, caches.context):
        seen = {name: cache.seen() for name, cache in own.items()}
        tokens = run_layer(block, tokens, e6, freqs, context, seen, mouse, keyboard, turns, **({} if complex_rope else {"turn": turned_real}))
    m = model.head.modulation + e[:, None]
    out = model.head.head(model.head.norm(tokens) * (1 + m[:, 1:]) + m[:, :1]).view(n, rows, columns, 1, 2, 2, model.out_channels)
    return torch.einsum("fhwpqrc->cfphqwr", out).reshape(model.out_channels, n, 2 * rows, 2 * columns)


def rollout(model, noise, timesteps, sigmas, context, window, blocks, sinks=0, fresh=None, condition=None, mouse=None, keyboard=None):
    """Does the same as causal.rollout, but takes no given latents. Between steps, latents have the model's
    dtype, as in the original."""
    dtype, (_, total, height, width) = noise.dtype, noise.shape
    caches = Caches(model, window or total, sinks, height // 2 * (width // 2), dtype, noise.device)
    caches.context = make_context(model, context)
    first, latents, velocities = 0, [], []
    for n in blocks:
        def predict(x, t):
            if condition is not None:
                x = torch.cat([x, condition[:, first: first + n]])
            return forward(model, x, t, first, caches, mouse, keyboard)
        x = noise[:, first: first + n]
        for i, t in enumerate(timesteps):
            velocities.append(predict(x, t))
            last = i + 1 == len(timesteps)
            if fresh is None:
                x = (x.double() + ((0.0 if last else sigmas[i + 1]) - sigmas[i]) * velocities[-1].double()).to(dtype)
                continue
            x = (x.double() - sigmas[i] * velocities[-1].double()).to(dtype)
            if not last:
                x = ((1 - sigmas[i + 1]) * x.double() + sigmas[i + 1] * fresh[i][:, first: first + n].double()).to(dtype)
        predict(x, 0.0)
        latents.append(x)
        first += n
    return torch.cat(latents, 1), velocities
