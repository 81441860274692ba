"""Measures the error of the causal Wan models in bfloat16 on their golden rollouts, for tests/golden/causal/golden.json.

    python tools/golden/make_causal_bf16.py      (torch 2.11.0, safetensors)

The original code needs a GPU's attention for bfloat16; tests/reference/causal_cached.py restates what it computes and where it rounds. Here it is
compared with the golden values, which are the original's: in float64 it gives the same. Our 16-bit arithmetic may err as much as it does in bfloat16
on the same inputs and at most on some further draws of noise (`tachyscope validate --golden tests/golden/causal`,
tests/unit/pipelines/gpu_rollout_test.cpp)."""

import json
import pathlib
import sys

import torch
from safetensors import safe_open

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import causal  # noqa: E402
import causal_cached  # noqa: E402

FOLDER = ROOT / "tests" / "golden" / "causal"
DRAWS = 4


def load_model(folder):
    config = json.loads((folder / "config.json").read_text())
    with safe_open(folder / "diffusion_pytorch_model.safetensors", "pt") as file:
        weights = {k: file.get_tensor(k).float() for k in file.keys()}
    sizes = dict(dim=config["dim"], heads=config["num_heads"], layers=config["num_layers"], ffn=config["ffn_dim"], channels=config["in_dim"],
                 out_channels=config["out_dim"], text_dim=config.get("text_dim", 0), freq_dim=config["freq_dim"])
    if not sizes["text_dim"]:
        sizes["image_dim"] = weights["img_emb.proj.1.weight"].shape[0]
    if a := config.get("action_config"):
        sizes["actions"] = dict(keyboard=a["keyboard_dim_in"], mouse=a.get("mouse_dim_in", 0), hidden=a["hidden_size"], keyboard_hidden=a["keyboard_hidden_dim"],
                                mouse_hidden=a.get("mouse_hidden_dim", 64), heads=a["heads_num"])
        sizes["action_blocks"] = a["blocks"]
    model = causal.CausalWan(**sizes)
    model.load_state_dict(weights)
    return model.eval()


def distance(y, r):
    """Returns the largest and the mean difference, relative to the largest value."""
    off, most = (y.double() - r.double()).abs(), r.double().abs().max()
    return {"max": (off.max() / most).item(), "mean": (off.mean() / most).item()}


def make(path):
    with safe_open(path, "pt") as file:
        meta, t = file.metadata(), {k: file.get_tensor(k) for k in file.keys()}
    model = load_model(FOLDER / meta["model"])
    want = {name: t.pop(name) for name in ("velocities", "latents")}
    context = torch.zeros(int(meta["context_rows"]), t["context"].shape[1])
    context[: len(t["context"])] = t["context"]
    given = t | {"context": context}
    how = dict(timesteps=json.loads(meta["timesteps"]), sigmas=json.loads(meta["sigmas"]), window=int(meta["window"]), sinks=int(meta["sinks"]), blocks=json.loads(meta["blocks"]))

    def run(inputs, dtype):
        with torch.no_grad():
            latents, velocities = causal_cached.rollout(model.to(dtype), **{k: v.to(dtype) for k, v in inputs.items()}, **how)
            return {"velocities": torch.stack(velocities), "latents": latents}

    exact, single, low = (run(given, d) for d in (torch.float64, torch.float32, torch.bfloat16))
    errors, draws = {}, []
    for i in range(DRAWS):
        gen = torch.Generator().manual_seed(1000 + i)
        other = given | {k: torch.randn(given[k].shape, generator=gen) for k in ("noise", "fresh", "condition", "mouse") if k in given}
        a, b = run(other, torch.bfloat16), run(other, torch.float64)
        draws.append({name: distance(a[name], b[name]) for name in want})
    for name, values in want.items():
        same = distance(exact[name], values)
        assert same["max"] < 1e-6, (path.stem, name, same)  # the golden values are stored in float32
        own = distance(low[name], values)
        most = {k: max(own[k], *(d[name][k] for d in draws)) for k in own}
        errors[name] = {"float32": distance(single[name], values), "bfloat16": most, "bfloat16_here": own}
        print(f"{path.stem} {name}: float64 {same['max']:.1e}, float32 {errors[name]['float32']['max']:.1e}, bfloat16 here {own['max']:.4f} {own['mean']:.4f}, "
              f"of {DRAWS} further draws at most {most['max']:.4f} {most['mean']:.4f}")
    return errors


def main():
    torch.set_num_threads(1)
    rollouts = {path.stem: make(path) for path in sorted(FOLDER.glob("*.safetensors"))}
    text = {"tachyscope_golden": 2, "made_with": f"torch {torch.__version__.split('+')[0]}", "rollouts": rollouts}
    (FOLDER / "golden.json").write_text(json.dumps(text, indent=1) + "\n")


if __name__ == "__main__":
    main()
