"""InfiniteTalk's audio branch restated on diffusers' WanTransformer3DModel, from the published description of its tensors:
AudioProjModel, which turns the speech encoder's states into tokens, and the attention of each latent frame to its own tokens. With two speakers,
places on a line tell which tokens of the picture belong to whose speech."""

import math

import random_models as rm
import torch
from precision import float64
from safetensors.torch import save_file
from torch import nn


class AudioProj(nn.Module):
    def __init__(self, layers, width, hidden, tokens):
        super().__init__()
        self.tokens = tokens
        self.proj1 = nn.Linear(5 * layers * width, hidden)
        self.proj1_vf = nn.Linear(8 * layers * width, hidden)
        self.proj2 = nn.Linear(hidden, hidden)
        self.proj3 = nn.Linear(hidden, tokens * width)
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, states, start, latent_frames):
        """states [L, layers, width] of a clip, a window of it from pixel frame `start` on → [latent_frames, tokens, width].

        Here every frame has five rows, its own in the middle. Of the four frames of a latent the first gives rows 0 to 2, the two in between row 2,
        and the last one rows 2 to 4."""
        around = torch.arange(-2, 3)
        frames = start + torch.arange(4 * latent_frames - 3)
        rows = states[(frames[:, None] + around).clamp(0, len(states) - 1)]  # [frames, 5, layers, width]
        first = torch.relu(self.proj1(rows[0].flatten()))[None]
        groups = rows[1:].unflatten(0, (latent_frames - 1, 4))
        eight = torch.cat([groups[:, 0, :3], groups[:, 1:3, 2], groups[:, 3, 2:]], 1)
        h = torch.cat([first, torch.relu(self.proj1_vf(eight.flatten(1)))])
        h = self.proj3(torch.relu(self.proj2(h)))
        return self.norm(h.unflatten(1, (self.tokens, -1)))


def turned(x, places):
    """Rotates neighbouring pairs of x [..., n, d] by place · 10000^(-2i/d); places [..., n]."""
    d = x.shape[-1]
    angles = places[..., None] * 10000.0 ** (-torch.arange(0, d, 2, dtype=places.dtype) / d)
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def looks(q, k, masks):
    """q, k [B, N, heads, d] of a self-attention, turned by its own rope; masks [regions, S] → how much each token attends to a key of each region in
    the first latent frame, [B, N, regions]."""
    weights = torch.einsum("bnhd,bshd->bhns", q, k[:, :masks.shape[1]]).div(math.sqrt(q.shape[-1])).softmax(-1)
    return weights.mean(1) @ masks.T / masks.sum(1)


def places(looks):
    """Puts the tokens that attend most to the first speaker in [0, 4], those that attend most to the second one in [20, 24], and those that attend
    most to the background at 12."""
    low, high = looks.amin(1, keepdim=True), looks.amax(1, keepdim=True)
    line = (looks - low) / (high - low + 1e-8) * 4 + torch.tensor([0, 20, 0], dtype=looks.dtype)
    line[..., 2] = 12
    return line.gather(-1, looks.argmax(-1, keepdim=True)).squeeze(-1)


def closest_tie(looks):
    """Returns the smallest relative lead, over all tokens, of a token's first region over its second."""
    top = looks.topk(2, -1).values
    return ((top[..., 0] - top[..., 1]) / top[..., 0]).min().item()


class AudioAttention(nn.Module):
    def __init__(self, dim, heads, width):
        super().__init__()
        self.heads = heads
        self.q_linear = nn.Linear(dim, dim)
        self.kv_linear = nn.Linear(width, 2 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, tokens, places=None):
        """x [B, T·S, dim], tokens [B, T, n, width], with two speakers the first half belongs to the first; places [B, T·S]"""
        batch, frames = tokens.shape[:2]
        q = self.q_linear(x).unflatten(1, (frames, -1)).unflatten(-1, (self.heads, -1)).transpose(2, 3)
        kv = self.kv_linear(tokens).unflatten(-1, (2, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        k = kv[0]
        if places is not None:
            q = turned(q, places.unflatten(1, (frames, 1, -1)))
            of_keys = torch.tensor([2, 22], dtype=q.dtype).repeat_interleave(k.shape[-2] // 2)
            k = turned(k, of_keys)
        y = nn.functional.scaled_dot_product_attention(q, k, kv[1])
        return self.proj(y.transpose(2, 3).flatten(-2).reshape(batch, -1, self.heads * kv.shape[-1]))


class Talker(nn.Module):
    """A transformer with the branch. branch_state() names the branch's own tensors."""

    def __init__(self, transformer, layers=3, width=8, hidden=12, tokens=4):
        super().__init__()
        c = transformer.config
        dim = c.num_attention_heads * c.attention_head_dim
        self.transformer = transformer
        self.audio_proj = AudioProj(layers, width, hidden, tokens)
        self.norms = nn.ModuleList(nn.LayerNorm(dim, eps=c.eps) for _ in transformer.blocks)
        self.attentions = nn.ModuleList(AudioAttention(dim, c.num_attention_heads, width) for _ in transformer.blocks)
        self.audio = self.masks = None
        self.tie = math.inf  # the closest tie since this was last reset
        for block, norm, attention in zip(transformer.blocks, self.norms, self.attentions):
            self._join(block, norm, attention)

    def _join(self, block, norm, attention):
        """Makes the block add attention to speech as well, computed from the sum of x and the block's
        cross-attention."""
        seen = {}

        def routes():
            if self.masks is None:
                return None
            x, (cos, sin) = seen["self"]
            a, pairs = block.attn1, (cos[..., 0::2], sin[..., 1::2])
            rope = lambda t: torch.stack([t[..., 0] * pairs[0] - t[..., 1] * pairs[1], t[..., 0] * pairs[1] + t[..., 1] * pairs[0]], -1).flatten(-2).type_as(x)
            heads = lambda t: t.unflatten(-1, (a.heads, -1, 2))
            at = looks(rope(heads(a.norm_q(a.to_q(x)))), rope(heads(a.norm_k(a.to_k(x)))), self.masks.to(x.dtype))
            self.tie = min(self.tie, closest_tie(at))
            return places(at)

        block.attn1.register_forward_pre_hook(lambda m, args: seen.update(self=(args[0], args[3])))
        block.norm2.register_forward_pre_hook(lambda m, args: seen.update(x=args[0]))
        block.attn2.register_forward_hook(lambda m, args, out: out + attention(norm(seen["x"].to(out.dtype) + out), self.audio, routes()))

    def forward(self, audio_embeds, audio_start, speaker_masks=None, **inputs):
        """audio_embeds [B, L, layers, width], or [B, 2, L, layers, width] with speaker_masks [3, rows, columns] of tokens"""
        frames = inputs["hidden_states"].shape[2]
        project = lambda states: self.audio_proj(states, int(audio_start), frames)
        if speaker_masks is None:
            self.audio, self.masks = torch.stack([project(states) for states in audio_embeds]), None
        else:
            self.audio = torch.stack([torch.cat([project(states) for states in both], 1) for both in audio_embeds])
            self.masks = speaker_masks.flatten(1)
        return self.transformer(**inputs).sample

    def branch_state(self):
        state = {f"audio_proj.{k}": v for k, v in self.audio_proj.state_dict().items()}
        for i, (norm, attention) in enumerate(zip(self.norms, self.attentions)):
            state |= {f"blocks.{i}.norm_x.{k}": v for k, v in norm.state_dict().items()}
            state |= {f"blocks.{i}.audio_cross_attn.{k}": v for k, v in attention.state_dict().items()}
        return {k: v.contiguous() for k, v in state.items()}


def talker(rng, transformer, **sizes):
    """Returns a talker with weights so large that speech makes about as much of the output as the rest."""
    torch.manual_seed(rng.randrange(2**31))
    made = Talker(transformer, **sizes)
    gen = torch.Generator().manual_seed(rng.randrange(2**31))
    with torch.no_grad():
        for name, p in (*made.audio_proj.named_parameters(), *made.norms.named_parameters(), *made.attentions.named_parameters()):
            noise = torch.randn(p.shape, generator=gen)
            if p.ndim == 2:
                p.copy_(noise / p.shape[1] ** 0.5)
            else:
                p.copy_(1 + 0.2 * noise if name.endswith("weight") else 0.2 * noise)
    return made.eval()


def exactly(model, inputs):
    with torch.no_grad(), float64():
        return model(**{k: v.double() if k != "timestep" and v.is_floating_point() else v for k, v in inputs.items()})


def both(model, inputs):
    """Returns the results in float32 and in float64; the model is float64 afterwards."""
    with torch.no_grad():
        r32 = model(**inputs)
    r64 = exactly(model.double(), inputs)
    assert r64.dtype == torch.float64
    return r32, r64


TIE = 1e-5  # if two regions differ relatively by less than this, rounding may decide


def random_regions(rng, rows, columns):
    """[3, rows, columns] of tokens: two rectangles beside each other, and the rest, which is not empty."""
    masks = torch.zeros(3, rows, columns)
    while masks[2].sum() == 0:
        masks[:], middle = 0, rng.randint(1, columns - 1)
        for mask, (first, last) in zip(masks, ((0, middle), (middle, columns))):
            top = rng.randint(0, rows - 1)
            mask[top:rng.randint(top + 1, rows), first:rng.randint(first + 1, last)] = 1
        masks[2] = (masks[0] + masks[1] == 0).float()
    return masks


def compare(ctx, draws, bound):
    """Compares the stage transformer with InfiniteTalk's file, in both spellings of its names; half of the comparisons have two speakers."""
    redrawn = 0
    for i in range(max(draws, 4)):
        while not compare_one(ctx, i, i // 2 % 2 == 1, bound):
            redrawn += 1
    ctx.report(f"talkers drawn again, for two regions were closer than {TIE:g}", float(redrawn), float(max(draws, 4)))


def compare_one(ctx, i, two, bound):
    """Returns False if nothing was compared, because a token's choice of region was nearly a tie."""
    heads, head_dim = ctx.rng.choice([1, 3]), ctx.rng.choice([12, 128])
    base = rm.transformer(ctx.rng, "i2v", num_attention_heads=heads, attention_head_dim=head_dim, added_kv_proj_dim=heads * head_dim)
    folder, file = ctx.folder / f"talker-{i}", ctx.folder / f"infinitetalk-{i}.safetensors"
    layers, frames, clip = ctx.rng.choice([1, 4]), ctx.rng.choice([1, 2, 5]), ctx.rng.randint(1, 40)
    model = talker(ctx.rng, base, layers=layers, width=ctx.rng.choice([8, 24]), hidden=ctx.rng.choice([16, 33]), tokens=ctx.rng.choice([1, 5, 32]))
    bf16 = i % 2 == 1
    with torch.no_grad():
        for p in model.parameters() if bf16 else ():
            p.copy_(p.to(torch.bfloat16))
    base.save_pretrained(folder)
    prefix = "multitalk_audio_proj." if i % 3 == 1 else "audio_proj."
    save_file({k.replace("audio_proj.", prefix): v.to(torch.bfloat16 if bf16 else torch.float32) for k, v in model.branch_state().items()}, file)
    c, batch, start = base.config, 2, ctx.rng.randint(0, 30)
    h, w = 2 * ctx.rng.randint(1 + two, 5), 2 * ctx.rng.randint(1 + two, 5)
    text = torch.randn(batch, 512, c.text_dim)
    text[:, ctx.rng.randint(1, 40):] = 0
    states = torch.randn(batch, *((2,) if two else ()), clip, layers, model.audio_proj.norm.normalized_shape[0])
    if i % 2 and not two:
        states[1] = 0  # guidance's pass without speech
    inputs = {"hidden_states": torch.randn(batch, c.in_channels, frames, h, w), "encoder_hidden_states": text,
              "timestep": torch.tensor([ctx.rng.randint(0, 1000) for _ in range(batch)]), "audio_embeds": states,
              "encoder_hidden_states_image": torch.randn(batch, 9, c.image_dim), "audio_start": torch.tensor([start])}
    if two:
        inputs["speaker_masks"] = random_regions(ctx.rng, h // 2, w // 2)
    r32, r64 = both(model, inputs)
    if model.tie < TIE:
        return False
    y = ctx.stage("transformer", folder, inputs, "--infinitetalk", file)["sample"]
    what = f"talker {i}: {1 + two} speakers, {frames} latent frames from {start} of {clip}, {layers} layers"
    ctx.check(what, y, r64, r32, bound)
    silent = exactly(model, inputs | {"audio_embeds": states * 0})
    moved = ((silent - r64)[0].norm() / r64[0].norm()).item()
    ctx.report(f"talker {i}: speech moves the result by {moved:.2f} of it", -moved, -0.02)
    if two:
        moved = ((exactly(model, inputs | {"audio_embeds": states.flip(1)}) - r64).norm() / r64.norm()).item()
        ctx.report(f"talker {i}: the other's words move it by {moved:.2f}", -moved, -0.02)
    return True
