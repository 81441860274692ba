"""Makes golden files of the causal Wan models, from the original repositories in float64 on the CPU, and proves that tests/reference/causal.py
computes the same.

    python tools/golden/make_causal.py --self-forcing PATH --matrix-game PATH     (torch 2.11.0, diffusers 0.42.1, einops, safetensors)

PATH: a checkout of guandeh17/Self-Forcing, and of SkyworkAI/Matrix-Game or its Matrix-Game-2 folder. Nothing of them is kept. So that their classes
run without a GPU, a few words of the source are replaced on import: attention is torch's in the dtype of its inputs (instead of flash_attn in
bfloat16), the number of tokens per frame (880) is this model's, and compilation does nothing. Weights that they initialise with zeros (head,
proj_mouse, proj_keyboard) are random here, or every output would be zero.

    tests/golden/causal/<case>/config.json, diffusion_pytorch_model.safetensors   a small random model under the published names
    tests/golden/causal/<case>.safetensors    inputs, velocities of all forward passes, latents; metadata: the rollout, the original's
                                              own float32 errors"""

import argparse
import contextlib
import importlib
import json
import pathlib
import shutil
import sys
import tempfile
import types

import torch
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import causal  # noqa: E402
import causal_models as cm  # noqa: E402
from precision import error  # noqa: E402

HEIGHT, WIDTH, TEXT_ROWS = 4, 6, 512
SITES = HEIGHT // 2 * (WIDTH // 2)
ACTIONS = dict(hidden=4, keyboard_hidden=64, mouse_hidden=64, heads=1)
CASES = {  # model, window and its sinks, blocks, shift, timesteps before they are shifted
    "self_forcing": dict(model=dict(text_dim=8, channels=4, out_channels=4), window=(5, 1), blocks=[2] * 5, shift=5, steps=[1, 0.75, 0.5, 0.25]),
    "universal": dict(model=dict(text_dim=0, image_dim=10, channels=9, out_channels=4, actions=dict(keyboard=4, mouse=2, **ACTIONS), action_blocks=[0]),
                      window=(6, 0), blocks=[3] * 4, shift=5, steps=[1, 0.666, 0.333]),
    # the window of gta_drive, in which a block of three frames wraps, with the weights of universal
    "short_window": dict(like="universal", window=(4, 0), blocks=[3] * 3, shift=5, steps=[1, 0.666]),
    "templerun": dict(model=dict(text_dim=0, image_dim=10, channels=9, out_channels=4, actions=dict(keyboard=7, mouse=0, **ACTIONS), action_blocks=[0]),
                      window=(6, 0), blocks=[3] * 3, shift=5, steps=[1, 0.5]),
}


def attention(q, k, v, *args, **kwargs):
    return torch.nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)


@contextlib.contextmanager
def imported(repository):
    """Imports wan.modules.causal_model of a repository; the rest of its package is not run."""
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder) / "wan" / "modules"
        target.mkdir(parents=True)
        for name in ("causal_model", "model", "action_module", "posemb_layers"):
            source = repository / "wan" / "modules" / f"{name}.py"
            if source.exists():
                text = source.read_text(encoding="utf-8").replace("880", str(SITES)).replace("torch.cuda.current_device()", '"cpu"')
                (target / source.name).write_text(text, encoding="utf-8")
        fake = types.ModuleType("wan.modules.attention")
        fake.attention = fake.flash_attention = attention
        flash = types.ModuleType("flash_attn")
        flash.flash_attn_func = attention
        flash.__spec__ = importlib.machinery.ModuleSpec("flash_attn", None)
        compiled, torch.compile = torch.compile, lambda f=None, **kwargs: f
        sys.path.insert(0, folder)
        try:
            package = importlib.import_module("wan.modules")
            sys.modules["wan.modules.attention"] = package.attention = fake
            sys.modules["flash_attn"] = flash
            yield importlib.import_module("wan.modules.causal_model")
        finally:
            torch.compile = compiled
            sys.path.remove(folder)
            for name in [m for m in sys.modules if m == "flash_attn" or m == "wan" or m.startswith("wan.")]:
                del sys.modules[name]


class Original:
    """Wraps an original model, with its own caches, for rollout() of causal.py."""

    def __init__(self, module, model, window, sinks):
        self.model = model
        config = cm.original_config(model, window, sinks)
        names = ("model_type", "dim", "ffn_dim", "freq_dim", "in_dim", "out_dim", "num_heads", "num_layers", "local_attn_size", "sink_size", "eps",
                 "text_dim", "cross_attn_norm", "action_config")
        given = {k: v for k, v in config.items() if k in names and v is not None}
        self.network = module.CausalWanModel(**given).eval()
        if not model.text_dim:  # the class has CLIP's width of 1280 written into it
            self.network.img_emb = module.MLPProj(model.img_emb.proj[1].in_features, self.network.dim)
        self.network.load_state_dict(model.state_dict())
        self.window, self.actions = window, bool(config.get("action_config"))

    def to(self, dtype):
        self.network.to(dtype)
        for m in self.network.modules():
            if hasattr(m, "freqs_cos"):
                m.freqs_cos, m.freqs_sin = m.freqs_cos.to(dtype), m.freqs_sin.to(dtype)
        self.dtype = dtype
        return self

    def new_memory(self):
        def cache(batch, size, heads, width):
            return {"k": torch.zeros(batch, size, heads, width, dtype=self.dtype), "v": torch.zeros(batch, size, heads, width, dtype=self.dtype),
                    "global_end_index": torch.tensor([0]), "local_end_index": torch.tensor([0])}
        heads, dim, layers = self.network.num_heads, self.network.dim, len(self.network.blocks)
        size = ACTIONS["heads"], 64
        return {"kv_cache": [cache(1, self.window * SITES, heads, dim // heads) for _ in range(layers)],
                "kv_cache_mouse": [cache(SITES, self.window, *size) for _ in range(layers)],
                "kv_cache_keyboard": [cache(1, self.window, *size) for _ in range(layers)],
                "crossattn_cache": [{"is_init": False} for _ in range(layers)]}

    def __call__(self, x, t, first, context, memory, window, mouse=None, keyboard=None):
        n = x.shape[1]
        self.network.num_frame_per_block = n
        self.network.use_rope_keyboard = True
        t = torch.full((1, n), float(t), dtype=torch.float64)
        if self.actions:
            seen = 1 + 4 * (first + n - 1)
            latents, condition = x[None].split([self.model.out_channels, x.shape[0] - self.model.out_channels], 1)
            return self.network(latents, t=t, visual_context=context[None], cond_concat=condition, mouse_cond=None if mouse is None else mouse[None, :seen],
                                keyboard_cond=keyboard[None, :seen], current_start=first * SITES, **memory)[0]
        caches = {k: memory[k] for k in ("kv_cache", "crossattn_cache")}
        return self.network([x], t=t, context=[context], seq_len=x.shape[1] * SITES, current_start=first * SITES, **caches)[0]


def make(name, seed, repositories):
    case = CASES[name]
    like = case.get("like", name)
    sizes, weights_seed = CASES[like]["model"], 70 + list(CASES).index(like)
    window, sinks = case["window"]
    model = cm.causal_model(torch.Generator().manual_seed(weights_seed), dim=24, heads=2, layers=2, ffn=40, freq_dim=16, **sizes)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(torch.bfloat16))
    inputs = cm.rollout_inputs(torch.Generator().manual_seed(seed), model, case["blocks"], len(case["steps"]), HEIGHT, WIDTH)
    timesteps, sigmas = cm.shifted(case["shift"], case["steps"])

    def run(which, dtype):
        with torch.no_grad():
            wide = {k: v.to(dtype) if torch.is_tensor(v) else v for k, v in inputs.items()}
            latents, velocities = causal.rollout(which.to(dtype), timesteps=timesteps, sigmas=sigmas, window=causal.Window(window, sinks),
                                                 blocks=case["blocks"], **wide)
            return latents, torch.stack(velocities)

    with imported(repositories["self_forcing" if name == "self_forcing" else "matrix_game"]) as module:
        original = Original(module, model, window, sinks)
        r32, r64 = run(original, torch.float32), run(original, torch.float64)
    own = run(model, torch.float64)
    moved = cm.reaction(model, inputs, timesteps, sigmas, window, case["blocks"])
    errors = [error(a, b) for a, b in zip(r32, r64)]
    differences = [error(a, b) for a, b in zip(own, r64)]
    print(f"{name}: the original's float32 error: latents {errors[0]:.1e}, velocities {errors[1]:.1e}; causal.py beside it: {differences[0]:.1e}, "
          f"{differences[1]:.1e}; actions move the velocities by {moved:.2f} of them")
    assert max(differences) < 1e-6 and (moved > 0.05 or not sizes.get("actions"))

    folder = ROOT / "tests" / "golden" / "causal" / name
    if like == name:
        shutil.rmtree(folder, ignore_errors=True)
        cm.save(model.float(), folder, window, sinks, bf16=True)
    context = inputs["context"][:TEXT_ROWS]
    rows = len(context) if not model.text_dim else cm.TEXT_GIVEN
    stored = {k: v for k, v in inputs.items() if torch.is_tensor(v)} | {"context": context[:rows].contiguous()}
    save_file({**stored, "latents": r64[0].float(), "velocities": r64[1].float()}, folder.with_suffix(".safetensors"),
              {"model": like, "latents_error": repr(errors[0]), "velocities_error": repr(errors[1]), "blocks": json.dumps(case["blocks"]), "window": str(window),
               "sinks": str(sinks), "timesteps": json.dumps(timesteps), "sigmas": json.dumps(sigmas), "context_rows": str(len(context))})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-forcing", type=pathlib.Path, required=True)
    parser.add_argument("--matrix-game", type=pathlib.Path, required=True)
    args = parser.parse_args()
    game = args.matrix_game / "Matrix-Game-2"
    repositories = {"self_forcing": args.self_forcing, "matrix_game": game if game.exists() else args.matrix_game}
    torch.set_num_threads(1)
    for i, name in enumerate(CASES):
        make(name, 170 + i, repositories)


if __name__ == "__main__":
    main()
