"""Trains the denoiser (diffusers' WanTransformer3DModel) and the text encoder (transformers' UMT5EncoderModel) together.

    python3 dit.py bank --bank bank.npz --scenes 160000      # scenes and tokenised captions, on the CPU
    torchrun --nproc_per_node 4 dit.py train --bank bank.npz --model models/sprites --minutes 7
    python3 dit.py check                                     # this file's forward passes against the reference's

Training encodes the bank's clips once, measures the latents' mean and standard deviation into vae/config.json, then fits a
rectified flow: x = (1 - s) x0 + s e, target e - x0. The text context is 512 rows at inference, of which all but the caption's
are zero; here those equal rows are one key with the logarithm of their number added to its score, which is the same softmax.
"""
import argparse
import json
import math
import multiprocessing
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import vae as video
import world
from common import Clock, Flat, Team
from tokenizer import EOS, MAX_TOKENS

CONTEXT = 512
ROWS = MAX_TOKENS + 1   # the last row stands for all rows of padding
WORDINGS = 12           # captions per clip
TEXT = dict(vocab_size=6144, d_model=192, d_kv=64, num_heads=3, d_ff=384, num_layers=3, dropout_rate=0.0, feed_forward_proj="gated-gelu",
            relative_attention_num_buckets=32, relative_attention_max_distance=128, layer_norm_epsilon=1e-6, is_encoder_decoder=False,
            use_cache=False, pad_token_id=0, eos_token_id=EOS, decoder_start_token_id=0, tie_word_embeddings=True)
DIT = dict(patch_size=(1, 2, 2), num_attention_heads=3, attention_head_dim=128, in_channels=16, out_channels=16, text_dim=192, freq_dim=256,
           ffn_dim=1024, num_layers=6, cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6, rope_max_seq_len=1024)


# ------------------------------------------------------------------------------------------- data
OWN = [8, 9, 8]       # colours, shapes, motions
PAIR, PASS = 2, 3     # indices of two of the four layouts
SIZES = [4] + OWN + [9, 10, 9] + [8, 3]  # classes per question; the second object may be absent, place and time unmentioned


def answers(s):
    """Returns the scene as class indices, one per question. The first object is the left one, or the one that goes right."""
    objects = sorted(s.objects, key=lambda o: o.motion == "left") if s.layout == "pass" else s.objects
    names = list(world.COLOURS), world.SHAPES, world.MOTIONS
    code = lambda o: [n.index(v) for n, v in zip(names, (o.colour, o.shape, o.motion))]
    second = code(objects[1]) if len(objects) > 1 else [8, 9, 8]
    return [["single", "twin", "pair", "pass"].index(s.layout), *code(objects[0]), *second,
            world.BACKGROUNDS.index(s.background) if s.said["background"] else 7, world.TIMES.index(s.time) if s.said["time"] else 2]


def clause_owner(order, spans, offsets):
    """For each token (character offsets) returns the object in whose clause it lies: 1 or 2 in the order of `answers`, 0 for none."""
    return [next((1 + order.index(k) for k, (a, b) in enumerate(spans) if a < end <= b), 0) for _, end in offsets]


def _bank_part(job):
    seed, n, model = job
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(os.path.join(model, "tokenizer", "tokenizer.json"))
    rng = np.random.default_rng(seed)
    scenes = [world.sample_scene(rng, mix=(0.16, 0.06, 0.48, 0.3)) for _ in range(n)]  # scenes of two objects are far harder
    ids, owner = np.zeros((n, WORDINGS, MAX_TOKENS), np.int16), np.zeros((n, WORDINGS, MAX_TOKENS), np.int8)
    for i, s in enumerate(scenes):
        order = [1, 0] if s.layout == "pass" and s.objects[0].motion == "left" else [0, 1]
        for j in range(WORDINGS):
            text, spans = world.caption(s, rng, clauses=True)
            t = tok.encode(text)
            ids[i, j, :len(t.ids)], owner[i, j, :len(t.ids)] = t.ids, clause_owner(order, spans, t.offsets)
    return world.pack(scenes), ids, owner, np.array([answers(s) for s in scenes], np.int8)


def make_bank(path, scenes, model):
    """Writes packed scenes [n, ...], token ids and their clauses' owners [n, WORDINGS, MAX_TOKENS] and answers [n, len(SIZES)] of n training scenes."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    part = 500
    jobs = [(50000 + i, min(part, scenes - i * part), model) for i in range(-(-scenes // part))]
    with multiprocessing.get_context("spawn").Pool(min(len(jobs), max(1, (os.cpu_count() or 2) // 2))) as pool:
        parts = pool.map(_bank_part, jobs, chunksize=1)
    tmp = path + ".tmp.npz"
    np.savez(tmp, **{k: np.concatenate([p[j] for p in parts]) for j, k in enumerate(("packed", "ids", "owner", "answers"))})
    os.replace(tmp, path)


@torch.no_grad()
def encode_bank(team, net, packed, batch):
    """Returns latents of packed scenes, bfloat16 [n, 16, 9, 16, 16] on the device; (sum, sum of squares, count) per channel; and where
    the objects are, bool [n, 1, 9, 16, 16]."""
    render, encode = world.render, video.encode
    if team.cuda:
        render, encode = torch.compile(world.render, dynamic=False), torch.compile(video.encode, dynamic=False)
    n = len(packed) // batch * batch
    out, stats = None, torch.zeros(3, 16, dtype=torch.float64, device=team.device)
    for i in range(0, n, batch):
        x = render(packed[i:i + batch].to(team.device), torch)
        with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
            z = encode(net, x)[0]
        if out is None:
            out = torch.empty(n, *z.shape[1:], dtype=torch.bfloat16, device=team.device)
            where = torch.empty(n, 1, *z.shape[2:], dtype=torch.bool, device=team.device)
        out[i:i + batch] = z
        c = ((x.amax(1, keepdim=True) - x.amin(1, keepdim=True)) > 0.5).to(z.dtype)
        where[i:i + batch] = torch.cat([F.max_pool3d(c[:, :, :1], (1, 8, 8)), F.max_pool3d(c[:, :, 1:], (4, 8, 8))], 2) > 0
        z = z.double()
        stats += torch.stack([z.sum((0, 2, 3, 4)), (z * z).sum((0, 2, 3, 4)), torch.full((16,), z[:, 0].numel(), device=team.device, dtype=torch.float64)])
    return out, stats, where


# ------------------------------------------------------------------------------------------- forward passes
def _bucket(n, device):
    """Returns umT5's relative position buckets, [n, n] (query, key)."""
    rel = torch.arange(n, device=device)[None] - torch.arange(n, device=device)[:, None]
    a = rel.abs()
    far = 8 + (torch.log(a.clamp(min=1).float() / 8) / math.log(16) * 8).long()
    return torch.where(a < 8, a, far.clamp(max=15)) + 16 * (rel > 0)


def _rms(w, x, eps):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * w.float()


def encode_text(te, ids, mask):
    """umT5 states [B, L, d] of ids [B, L]; mask [B, L] is True on real tokens. Padding rows of the result are zero."""
    h = te.get_input_embeddings()(ids).float()
    b, n, _ = h.shape
    bucket = _bucket(n, ids.device)
    heads, dk = te.config.num_heads, te.config.d_kv
    for block in te.encoder.block:
        att, norm = block.layer[0].SelfAttention, block.layer[0].layer_norm
        a = _rms(norm.weight, h, norm.variance_epsilon)
        q, k, v = (f(a).view(b, n, heads, dk).transpose(1, 2) for f in (att.q, att.k, att.v))
        s = (q @ k.transpose(2, 3)).float() + att.relative_attention_bias(bucket).permute(2, 0, 1).float()
        s = s.masked_fill(~mask[:, None, None], -1e30)
        h = h + att.o((s.softmax(-1).to(v.dtype) @ v).transpose(1, 2).reshape(b, n, -1))
        ff, norm = block.layer[1].DenseReluDense, block.layer[1].layer_norm
        a = _rms(norm.weight, h, norm.variance_epsilon)
        h = h + ff.wo(F.gelu(ff.wi_0(a), approximate="tanh") * ff.wi_1(a))
    norm = te.encoder.final_layer_norm
    return _rms(norm.weight, h, norm.variance_epsilon) * mask[..., None]


def _rotate(x, cos, sin, swap):
    """Interleaved rotary embedding of x [B, L, heads, 128]; cos, sin [1, L, 1, 128]; x @ swap is (-x1, x0, -x3, x2, ...)."""
    return x * cos + (x @ swap) * sin


def _attend(att, x, ctx, rope=None, bias=None):
    q, k, v = att.to_q(x), att.to_k(ctx), att.to_v(ctx)
    heads = lambda t: t.unflatten(-1, (att.heads, -1))
    q, k = heads(_rms(att.norm_q.weight, q, att.norm_q.eps)), heads(_rms(att.norm_k.weight, k, att.norm_k.eps))
    if rope is not None:
        q, k = _rotate(q, *rope), _rotate(k, *rope)
    q, k, v = (t.to(v.dtype).transpose(1, 2) for t in (q, k, heads(v)))
    if bias is None:
        o = F.scaled_dot_product_attention(q, k, v)
    else:
        o = ((q @ k.transpose(2, 3)).float() / math.sqrt(q.shape[-1]) + bias[:, None, None]).softmax(-1).to(v.dtype) @ v
    return att.to_out[0](o.transpose(1, 2).flatten(2))


def _block(m, h, ctx, bias, mod, rope):
    """One transformer block; h [B, L, d] float32, mod [B, 6, d]."""
    ln = lambda t: F.layer_norm(t, t.shape[-1:], eps=1e-6)
    s1, c1, g1, s2, c2, g2 = (m.scale_shift_table + mod.float()).chunk(6, 1)
    u = ln(h) * (1 + c1) + s1
    h = h + _attend(m.attn1, u, u, rope).float() * g1
    u = F.layer_norm(h, h.shape[-1:], m.norm2.weight, m.norm2.bias, 1e-6)
    h = h + _attend(m.attn2, u, ctx, bias=bias).float()
    u = ln(h) * (1 + c2) + s2
    return h + m.ffn.net[2](m.ffn.net[0](u)).float() * g2


def patched(conv, x):
    """Returns what a patch embedding of 1x2x2 makes of latents x: [B, tokens, d], float32."""
    b, _, f, hh, ww = x.shape
    patches = x.reshape(b, -1, f, hh // 2, 2, ww // 2, 2).permute(0, 2, 3, 5, 1, 4, 6).reshape(b, f * hh * ww // 4, -1)
    return F.linear(patches, conv.weight.flatten(1), conv.bias).float()


def denoise(m, x, t, ctx, bias, states=None, hints=None):
    """Velocity [B, 16, T, H, W] of noisy latents x at times t [B] (0..1000), context rows ctx [B, R, text_dim] with score biases [B, R].

    `states`, a list, receives the hidden states [B, tokens, d] after every block. hints(h, ctx, bias, mod, rope), called before the first block,
    returns what is added to the hidden states after blocks, by their numbers.
    """
    b, _, f, hh, ww = x.shape
    i = torch.arange(128, device=x.device)
    swap = (i[:, None] == (i ^ 1)[None]) * torch.where(i % 2 == 1, 1.0, -1.0)
    rope = (*m.rope(x), swap)
    h = patched(m.patch_embedding, x)
    c = m.condition_embedder
    freq = torch.exp(-math.log(10000) * torch.arange(128, device=x.device, dtype=torch.float32) / 128)
    a = t.float()[:, None] * freq[None]
    e = c.time_embedder.linear_2(F.silu(c.time_embedder.linear_1(torch.cat([a.cos(), a.sin()], -1)))).float()
    mod = c.time_proj(F.silu(e)).unflatten(1, (6, -1))
    ctx = c.text_embedder.linear_2(F.gelu(c.text_embedder.linear_1(ctx), approximate="tanh"))
    added = hints(h, ctx, bias, mod, rope) if hints is not None else {}
    for i, layer in enumerate(m.blocks):
        h = _block(layer, h, ctx, bias, mod, rope)
        if i in added:
            h = h + added[i]
        if states is not None:
            states.append(h)
    shift, scale = (m.scale_shift_table + e[:, None]).chunk(2, 1)
    y = m.proj_out(F.layer_norm(h, h.shape[-1:], eps=1e-6) * (1 + scale) + shift)
    return y.view(b, f, hh // 2, ww // 2, 2, 2, -1).permute(0, 6, 1, 2, 4, 3, 5).reshape(b, -1, f, hh, ww).float()


def context(te, ids):
    """Returns context rows [B, ROWS, d] and score biases [B, ROWS] of token ids [B, MAX_TOKENS] (0 is padding)."""
    mask = ids != 0
    n = mask.sum(1, keepdim=True)
    rows = F.pad(encode_text(te, ids, mask), (0, 0, 0, 1))
    bias = torch.where(mask, 0.0, -1e4)
    return rows, torch.cat([bias, torch.log((CONTEXT - n).float())], 1)


class Hints(torch.nn.Module):
    """Linear heads on the denoiser's hidden states during training, thrown away afterwards.

    Wan's only notion of place is relative (rope), so from noise alone a token learns where it is only if that lowers the loss. Time and height did
    (backgrounds have an up and a down), left and right did not, and two objects side by side got mixed. One head asks each token after the second
    block for its (t, y, x); the other, after the third, asks for colour, shape and motion of the object that its half of the screen shows."""

    def __init__(self, d=DIT["num_attention_heads"] * DIT["attention_head_dim"]):
        super().__init__()
        self.place, self.own = torch.nn.Linear(d, 3), torch.nn.Linear(d, sum(OWN))

    def forward(self, states, shape, want, said):
        """Returns (loss, place error, share of right answers). shape is (T, H, W) in tokens; want [B, len(SIZES)] are the answers; said [B] tells
        whether the caption is not empty."""
        f, hh, ww = shape
        dev = want.device
        grid = torch.stack(torch.meshgrid(*(torch.linspace(-1, 1, n, device=dev) for n in shape), indexing="ij"), -1).view(-1, 3)
        ln = lambda h: F.layer_norm(h, h.shape[-1:])
        place = (self.place(ln(states[1])).float() - grid).square().mean()
        y, x = grid[:, 1] > 0, grid[:, 2] > 0
        layout = want[:, :1]
        second = ((layout == PAIR) & x[None]) | ((layout == PASS) & y[None])                     # [B, tokens]
        target = torch.where(second[..., None], want[:, None, 4:7], want[:, None, 1:4])
        target = torch.where(said[:, None, None], target, -100)
        parts = self.own(ln(states[2])).float().split(OWN, 2)
        own = sum(F.cross_entropy(p.flatten(0, 1), target[..., k].flatten()) for k, p in enumerate(parts)) / len(OWN)
        right = sum((p.argmax(2) == target[..., k]).sum() for k, p in enumerate(parts)) / (len(OWN) * f * hh * ww * said.sum())
        return 0.1 * place + 0.1 * own, place.detach(), right


def loss_of(te, dit, hints, tokens, x0, noise, s, where, want):
    """Mean squared error of the velocity for clean latents x0 at noise levels s [B], with four times the weight `where` objects are; and
    the hints' loss. Returns (sum, what to report [3]: velocity error, place error, share of right answers)."""
    rows, bias = context(te, tokens)
    w, states = s.view(-1, 1, 1, 1, 1), []
    e = denoise(dit, (1 - w) * x0 + w * noise, 1000 * s, rows, bias, states) - (noise - x0)
    velocity = ((1 + 3 * where) * e * e).mean()
    _, _, f, hh, ww = x0.shape
    extra, place, right = hints(states, (f, hh // 2, ww // 2), want, tokens[:, 1] != 0)
    return velocity + extra, torch.stack([velocity.detach(), place, right])


# ------------------------------------------------------------------------------------------- training
def build(model=None):
    """Returns (text encoder, denoiser), from an exported folder or new."""
    from diffusers import WanTransformer3DModel
    from transformers import UMT5Config, UMT5EncoderModel
    if model:
        return (UMT5EncoderModel.from_pretrained(os.path.join(model, "text_encoder"), dtype=torch.float32).eval(),
                WanTransformer3DModel.from_pretrained(os.path.join(model, "transformer"), torch_dtype=torch.float32))
    te, dit = UMT5EncoderModel(UMT5Config(**TEXT)).eval(), WanTransformer3DModel(**DIT)
    with torch.no_grad():
        for p in (*dit.condition_embedder.time_proj.parameters(), *dit.proj_out.parameters()):
            p.zero_()
    return te, dit


def assemble(model, steps, guidance):
    """Writes the pipeline's small files: model_index.json, scheduler, generation_config.json."""
    from diffusers import UniPCMultistepScheduler, __version__
    UniPCMultistepScheduler(num_train_timesteps=1000, prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0,
                            solver_order=2, solver_type="bh2").save_pretrained(os.path.join(model, "scheduler"))
    index = {"_class_name": "WanPipeline", "_diffusers_version": __version__, "boundary_ratio": None, "expand_timesteps": False,
             "scheduler": ["diffusers", "UniPCMultistepScheduler"], "text_encoder": ["transformers", "UMT5EncoderModel"],
             "tokenizer": ["transformers", "PreTrainedTokenizerFast"], "transformer": ["diffusers", "WanTransformer3DModel"],
             "transformer_2": [None, None], "vae": ["diffusers", "AutoencoderKLWan"]}
    defaults = {"num_inference_steps": steps, "guidance_scale": guidance, "height": world.SIZE, "width": world.SIZE,
                "num_frames": world.FRAMES, "fps": world.FPS, "negative_prompt": ""}
    for name, data in (("model_index.json", index), ("generation_config.json", defaults)):
        with open(os.path.join(model, name), "w") as f:
            json.dump(data, f, indent=2)
            f.write("\n")


def train(args):
    team = Team()
    clock = Clock(team, args.minutes, args.max_steps)
    torch.manual_seed(2)
    te, dit = build(args.resume)
    te, dit, hints = te.to(team.device), dit.to(team.device), Hints().to(team.device)
    torch.manual_seed(200 + team.rank)
    flat = Flat(team, [te, dit, hints], betas=(0.9, 0.99))
    team.log(f"text encoder {sum(p.numel() for p in te.parameters()) / 1e6:.2f} M, denoiser {sum(p.numel() for p in dit.parameters()) / 1e6:.2f} M parameters")

    while not os.path.exists(args.bank):
        time.sleep(1)
    bank = np.load(args.bank)
    packed, ids, want = (torch.from_numpy(bank[k][team.rank::team.size].copy()) for k in ("packed", "ids", "answers"))
    net = video.build(os.path.join(args.model, "vae")).to(team.device)
    latents, stats, where = encode_bank(team, net, packed, min(args.encode_batch, len(packed)))
    del net
    team.sum(stats)
    mean = stats[0] / stats[2]
    std = (stats[1] / stats[2] - mean * mean).sqrt()
    if team.rank == 0:
        path = os.path.join(args.model, "vae", "config.json")
        config = json.load(open(path))
        config["latents_mean"], config["latents_std"] = ([round(float(v), 5) for v in t] for t in (mean, std))
        json.dump(config, open(path, "w"), indent=2)
    mean, std = ((torch.round(t * 1e5) / 1e5).float().view(1, -1, 1, 1, 1) for t in (mean, std))
    for i in range(0, len(latents), 2048):
        latents[i:i + 2048] = ((latents[i:i + 2048].float() - mean) / std).bfloat16()
    ids, want = (t[:len(latents)].to(team.device) for t in (ids, want))
    if args.text:  # text.py has prepared it in the meantime
        while not os.path.exists(args.text):
            time.sleep(0.5)
        from transformers import UMT5EncoderModel
        te.load_state_dict(UMT5EncoderModel.from_pretrained(args.text, dtype=torch.float32).state_dict())
        flat.ema.copy_(flat.flat)
    team.log(f"{len(latents) * team.size} latents at {clock.elapsed():.0f} s, std {[round(float(v), 2) for v in std.flatten()]}")

    loss_fn = torch.compile(loss_of, dynamic=False) if team.cuda else loss_of
    empty = torch.tensor([EOS] + [0] * (MAX_TOKENS - 1), device=team.device)
    dev, b = team.device, args.batch

    def save():
        if team.rank == 0:
            t, d = flat.averaged([te, dit])  # the hints are not exported
            t.save_pretrained(os.path.join(args.model, "text_encoder"))
            d.save_pretrained(os.path.join(args.model, "transformer"))
            assemble(args.model, args.steps, args.guidance)

    step, mark, total, saved = 0, time.time(), torch.zeros(3, device=dev), time.time()
    began = time.time()
    while clock.tick(step):
        i = torch.randint(len(latents), (b,), device=dev)
        tokens = ids[i, torch.randint(WORDINGS, (b,), device=dev)].long()
        tokens = torch.where(torch.rand(b, 1, device=dev) < 0.1, empty, tokens)
        x0 = latents[i].float()
        noise = torch.randn_like(x0)
        u = torch.where(torch.rand(b, device=dev) < 0.15, torch.rand(b, device=dev), torch.sigmoid(torch.randn(b, device=dev)))
        with torch.autocast(dev.type, torch.bfloat16, enabled=team.cuda):
            loss, report = loss_fn(te, dit, hints, tokens, x0, noise, 3 * u / (1 + 2 * u), where[i], want[i].long())
        loss.backward()
        flat.step(clock.lr(step, args.lr, warm=400, floor=0.005), decay=args.ema)
        total += report
        step += 1
        if step % 100 == 0:
            loss, place, right = (total / 100).tolist()
            team.log(f"step {step} {100 * clock.fraction:.0f} % loss {loss:.4f} place {place:.3f} objects {100 * right:.1f} % {10 * (time.time() - mark):.1f} ms a step")
            total.zero_()
            mark = time.time()
        if team.rank == 0 and time.time() - saved > args.save_every:
            save()
            saved = time.time()
    save()
    team.log(f"denoiser: {step} steps of {b * team.size} clips, {time.time() - began:.0f} s")
    if team.rank == 0:
        json.dump({"steps": step, "seconds": time.time() - began, "clips": step * b * team.size, "latents": len(latents) * team.size},
                  open(os.path.join(args.model, "dit.log.json"), "w"))
    team.close()


def warm(args):
    """Compiles the loss as `train` does, so that the caches are filled while something else runs."""
    team = Team()
    te, dit, hints = (m.to(team.device) for m in (*build(), Hints()))
    loss_fn, b = torch.compile(loss_of, dynamic=False), args.batch
    x0 = torch.randn(b, 16, 9, world.SIZE // 8, world.SIZE // 8, device=team.device)
    with torch.autocast(team.device.type, torch.bfloat16, enabled=team.cuda):
        loss, _ = loss_fn(te, dit, hints, torch.ones(b, MAX_TOKENS, dtype=torch.long, device=team.device), x0, x0.clone(), torch.rand(b, device=team.device),
                          torch.zeros(b, 1, 9, world.SIZE // 8, world.SIZE // 8, dtype=torch.bool, device=team.device),
                          torch.zeros(b, len(SIZES), dtype=torch.long, device=team.device))
    loss.backward()
    team.log("warm")


def check():
    """Compares these forward passes with diffusers' and transformers' in float32."""
    torch.manual_seed(0)
    te, dit = build()
    for p in dit.parameters():
        if p.abs().max() == 0:
            torch.nn.init.normal_(p, std=0.05)
    ids = torch.zeros(2, MAX_TOKENS, dtype=torch.long)
    ids[0, :5], ids[1, :30] = torch.tensor([9, 8, 7, 6, 1]), torch.randint(3, 900, (30,))
    x, t = torch.randn(2, 16, 3, 8, 12), torch.tensor([999.0, 123.0])
    with torch.no_grad():
        full = F.pad(ids, (0, CONTEXT - MAX_TOKENS))
        ref = te(full, (full != 0).long()).last_hidden_state * (full != 0)[..., None]
        rows, bias = context(te, ids)
        e1 = float((rows[:, :-1] - ref[:, :MAX_TOKENS]).abs().max() / ref.abs().max())
        want = dit(x, t, ref, return_dict=False)[0]
        e2 = float((denoise(dit, x, t, rows, bias) - want).abs().max() / want.abs().max())
    print(f"text encoder {e1:.1e}, denoiser {e2:.1e}")
    assert e1 < 1e-5 and e2 < 1e-4


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("what", choices=["bank", "warm", "train", "check"])
    a.add_argument("--bank", default="bank.npz")
    a.add_argument("--scenes", type=int, default=160000)
    a.add_argument("--model", default="models/sprites")
    a.add_argument("--resume", help="exported model to continue from")
    a.add_argument("--text", help="text encoder that text.py prepares; waited for after the latents")
    a.add_argument("--minutes", type=float, default=7)
    a.add_argument("--max-steps", type=int, default=0)
    a.add_argument("--batch", type=int, default=128, help="clips per process")
    a.add_argument("--encode-batch", type=int, default=32)
    a.add_argument("--lr", type=float, default=1e-3)
    a.add_argument("--ema", type=float, default=0.9995)
    a.add_argument("--steps", type=int, default=20, help="default for generation_config.json")
    a.add_argument("--guidance", type=float, default=3.0, help="default for generation_config.json")
    a.add_argument("--save-every", type=float, default=120, help="seconds between exports")
    args = a.parse_args()
    if args.what == "check":
        check()
    elif args.what == "bank":
        make_bank(args.bank, args.scenes, args.model)
    elif args.what == "warm":
        warm(args)
    else:
        train(args)


if __name__ == "__main__":
    main()
