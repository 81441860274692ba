"""Runs wav2vec2 of transformers at a video's rate: its convolutions, torch's linear interpolation of their vectors, then its projection and encoder.
Compares the stage audio-encoder with it on fresh random weights and sounds."""

import math

import torch
from safetensors.torch import load_file, save_file

import random_models as rm
from precision import float64


def random_sound(rng, samples, level):
    """Makes a sound like a voice: a gliding tone with overtones that comes and goes, noise, and a small offset."""
    gen = torch.Generator().manual_seed(rng.randrange(2**31))
    t = torch.arange(samples, dtype=torch.float64) / 16000
    phase = 2 * math.pi * torch.cumsum(120 + 60 * torch.sin(2 * math.pi * 0.7 * t), 0) / 16000
    tone = sum(torch.sin(k * phase + 6 * torch.rand(1, generator=gen, dtype=torch.float64)) / k for k in range(1, 9))
    loudness = torch.sin(2 * math.pi * 1.9 * t + 6 * torch.rand(1, generator=gen, dtype=torch.float64)).clamp(min=0)
    noise = torch.randn(samples, generator=gen, dtype=torch.float64)
    return (level * (tone * loudness + 0.1 * noise + 0.05)).float()


def hidden_states(model, samples, frames):
    """Returns [frames, layers, width]: states 1 to the last of each frame. In models that norm first, the last state is normed."""
    model = getattr(model, "wav2vec2", model)
    encoder, stable = model.encoder, model.config.do_stable_layer_norm
    with torch.no_grad():
        vectors = model.feature_extractor(samples[None])
        vectors = torch.nn.functional.interpolate(vectors, size=frames, mode="linear", align_corners=True)
        h = model.feature_projection(vectors.transpose(1, 2))[0]
        h = h + encoder.pos_conv_embed(h)
        h = h if stable else encoder.layer_norm(h)
        states = []
        for layer in encoder.layers:
            h = layer(h)
            states.append(h)
        if stable:
            states[-1] = encoder.layer_norm(h)
    return torch.stack(states, 2)[0]


def both(model, samples, frames):
    """Returns the results in float32 and in float64; the model is float64 afterwards."""
    r32 = hidden_states(model, samples, frames)
    with float64():
        r64 = hidden_states(model.double(), samples.double(), frames)
    assert r64.dtype == torch.float64
    return r32, r64


def older_names(tensors):
    """Returns the tensors under the names of older files, from before weight norm was a parametrization."""
    endings = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    for new, old in endings.items():
        tensors = {(k.removesuffix(new) + old if k.endswith(new) else k): v for k, v in tensors.items()}
    return tensors


def compare_encoder(ctx, i, frames, bound):
    heads, large, bf16 = ctx.rng.choice([1, 2, 3]), i % 2 == 1, i % 3 == 2
    groups = ctx.rng.choice([1, 4])
    model = rm.audio_encoder(ctx.rng, head=ctx.rng.random() < 0.5, hidden_size=heads * ctx.rng.choice([8, 64]), num_attention_heads=heads,
                             intermediate_size=ctx.rng.choice([40, 130]), num_hidden_layers=ctx.rng.choice([1, 3]),
                             conv_dim=[ctx.rng.choice([8, 24]) for _ in range(7)], num_conv_pos_embeddings=ctx.rng.choice([5, 16, 128]),
                             num_conv_pos_embedding_groups=groups, feat_extract_norm="layer" if large else "group", conv_bias=large,
                             do_stable_layer_norm=large if i % 4 < 2 else not large)
    folder, older = ctx.folder / f"wav2vec2-{i}-{frames}", ctx.folder / f"wav2vec2-{i}-{frames}-older"
    if bf16:
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(p.to(torch.bfloat16))
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    if bf16:
        tensors = {k: v.to(torch.bfloat16) for k, v in tensors.items()}
        save_file(tensors, folder / "model.safetensors")
    older.mkdir()
    (older / "config.json").write_text((folder / "config.json").read_text())
    torch.save(older_names(tensors), older / "pytorch_model.bin")
    level = 10 ** ctx.rng.uniform(-3, -0.5)
    samples = random_sound(ctx.rng, int(frames * 640 + ctx.rng.randint(0, 639)), level)
    ours = [ctx.stage("audio-encoder", where, {"input_values": samples[None]}, *more)["hidden_states"]
            for where, more in ((folder, ()), (older, ("--shape", frames, "--weights", "mapped")))]
    r32, r64 = both(model, samples, frames)
    c = model.config
    kind = f"{c.feat_extract_norm} norm, {'norm first' if c.do_stable_layer_norm else 'norm last'}"
    label = f"audio encoder {i}: {frames} frames, {heads}x{c.hidden_size // heads}, {c.num_hidden_layers} layers, {kind}"
    ctx.check(label, ours[0], r64, r32, bound)
    ctx.report(f"{label}: older names, mapped", float((ours[0] - ours[1]).abs().max()), 0.0)


def compare(ctx, draws, bound):
    for i in range(max(draws, 4)):
        for frames in (81, 125):
            compare_encoder(ctx, i, frames, bound)
    compare_encoder(ctx, draws + 4, 1000, bound)
