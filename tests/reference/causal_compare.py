"""Compares the stage rollout with causal.py on fresh random causal models, windows, blocks and actions."""

import causal
import causal_models as cm
import torch
from precision import error

LATENT_BOUND = 1e-5  # over all blocks


def random_model(rng, gen, kind):
    heads, head_dim = rng.choice([(1, 12), (2, 12), (3, 32), (1, 128)])
    sizes = dict(dim=heads * head_dim, heads=heads, layers=rng.choice([1, 3]), ffn=rng.choice([40, 66]), freq_dim=rng.choice([16, 256]))
    channels = rng.choice([3, 4])
    if kind == "text":
        return cm.causal_model(gen, channels=channels, out_channels=channels, text_dim=rng.choice([6, 20]), **sizes)
    a_heads, wide = rng.choice([(1, 64), (2, 48), (4, 64)])
    actions = dict(keyboard=rng.randint(1, 7), mouse=2 if kind == "mouse" else 0, hidden=rng.choice([4, 10]), keyboard_hidden=wide,
                   mouse_hidden=2 * wide if kind == "mouse" else 64, heads=a_heads)
    return cm.causal_model(gen, channels=2 * channels + 1, out_channels=channels, text_dim=0, image_dim=rng.choice([10, 24]), actions=actions,
                           action_blocks=sorted(rng.sample(range(sizes["layers"]), rng.randint(1, sizes["layers"]))), **sizes)


def draw(rng, kind):
    """Draws a window, blocks, and how many latent frames are given."""
    n = rng.choice([1, 2, 3])
    first = rng.choice([1, n])
    blocks = [first] + [n] * 7
    sinks = rng.choice([0, 0, 1, 2]) if kind == "text" else 0
    frames = rng.choice([n + sinks, n + sinks + 1, 2 * n + sinks, 3 * n + sinks + 1])
    return causal.Window(frames, sinks, follow=rng.random() < 0.6), blocks, rng.choice([0, 0, first, first + n])


def stage_inputs(model, inputs, window, blocks, timesteps, sigmas):
    names = {"context": "encoder_hidden_states" if model.text_dim else "encoder_hidden_states_image"}
    return {names.get(k, k): v for k, v in inputs.items()} | {
        "blocks": torch.tensor(blocks), "window": torch.tensor([window.frames, window.sinks, int(window.follow)]),
        "timesteps": torch.tensor(timesteps), "sigmas": torch.tensor(sigmas)}


def both(model, inputs, **run):
    results = []
    for dtype in (torch.float32, torch.float64):
        with torch.no_grad():
            latents, velocities = causal.rollout(model.to(dtype), **{k: v.to(dtype) for k, v in inputs.items()}, **run)
        results.append((latents, torch.cat([v.flatten() for v in velocities])))
    return results


def store(model, folder, kind, i):
    """Saves the model as a folder of the published form, or as a pickle with the names of Self-Forcing's."""
    cm.save(model.float(), folder, prefix="model." if i % 2 else "")
    if kind == "text" and i % 2:
        (folder / "diffusion_pytorch_model.safetensors").unlink()
        state = {f"model.{k}": v for k, v in model.state_dict().items()}
        torch.save({"generator": {k: v * 0 for k, v in state.items()}, "generator_ema": state}, folder / "diffusion_pytorch_model.pt")
        return folder / "diffusion_pytorch_model.pt"
    return folder


def compare(ctx, draws, bound):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # thousands of tiny products: threads would only wait for one another
    try:
        compare_each(ctx, draws, bound)
    finally:
        torch.set_num_threads(threads)


def compare_each(ctx, draws, bound):
    for i in range(max(draws, 3)):
        for kind in ("text", "mouse", "keyboard"):
            gen = torch.Generator().manual_seed(ctx.rng.randrange(2**31))
            model = random_model(ctx.rng, gen, kind)
            window, blocks, given = draw(ctx.rng, kind)
            timesteps, sigmas = cm.shifted(ctx.rng.choice([5, 8]), ctx.rng.choice([[1, 0.75, 0.5, 0.25], [1, 0.666, 0.333], [1]]))
            inputs = cm.rollout_inputs(gen, model, blocks, len(timesteps), 2 * ctx.rng.randint(1, 3), 2 * ctx.rng.randint(1, 4), given, ctx.rng.randint(1, 20))
            where = store(model, ctx.folder / f"causal-{kind}-{i}", kind, i)
            got = ctx.stage("rollout", where, stage_inputs(model, inputs, window, blocks, timesteps, sigmas))
            (x32, v32), (x64, v64) = both(model, inputs, timesteps=timesteps, sigmas=sigmas, window=window, blocks=blocks)
            follow = " that follow" if window.follow and window.sinks else ""
            label = f"causal {kind} {i}: window {window.frames}, {window.sinks} sinks{follow}, blocks {blocks[0]}, {blocks[1]}, {given} given"
            own = error(v32, v64)
            # With action modules the error may be three times the reference's own float32 error, if that is not negligible.
            most = bound if kind == "text" else min(bound, max(3 * own, 1e-6))
            ctx.report(f"{label}: velocities (reference's own {own:.1e})", error(got["velocities"], v64), most)
            ctx.report(f"{label}: latents (reference's own {error(x32, x64):.1e})", error(got["latents"], x64), LATENT_BOUND)
