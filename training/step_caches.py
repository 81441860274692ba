"""Measures with a model the numbers by which TeaCache and MagCache decide, as their authors did with Wan's models, and writes them into the model's
generation_config.json.

    python training/step_caches.py models/sprites [--captions 3]        (torch, diffusers, in tests/reference's environment)

MagCache: the ratio of what the blocks add in a step to what they added in the step before, by the norms of the tokens; the mean over tokens and
captions, for the prompt and for the negative prompt. TeaCache: a line that gives the relative change (L1) of what the blocks add from that of the time
embedding, fitted to all steps but the last. (A polynomial of the fourth degree, as published for Wan, turns negative at the ends of so few steps, and
then no step is computed any more.)"""

import argparse
import json
import pathlib

import numpy as np
import torch
from diffusers import WanPipeline


def relative_change(now, before):
    return ((now - before).abs().mean() / before.abs().mean()).item()


class Measured:
    """Watches a transformer: what its blocks add, and its time embedding, in each call."""

    def __init__(self, dit):
        self.calls, self.seen = [], {}
        dit.condition_embedder.register_forward_hook(lambda _, args, out: self.seen.update(e=out[0].float()))
        dit.blocks[0].register_forward_pre_hook(lambda _, args: self.seen.update(x=args[0].float()))
        dit.blocks[-1].register_forward_hook(lambda _, args, out: self.finish(out.float()))

    def finish(self, out):
        self.calls.append((self.seen["e"], out - self.seen["x"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--captions", type=int, default=3)
    args = parser.parse_args()
    config = args.model / "generation_config.json"
    own = json.loads(config.read_text())
    pipe = WanPipeline.from_pretrained(args.model, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    measured, ratios, points = Measured(pipe.transformer), [], []
    for i, item in enumerate(json.loads((args.model / "heldout.json").read_text())[:args.captions]):
        measured.calls.clear()
        pipe(prompt=item["caption"], negative_prompt=own.get("negative_prompt", ""), height=own["height"], width=own["width"],
             num_frames=own["num_frames"], num_inference_steps=own["num_inference_steps"], guidance_scale=own["guidance_scale"], output_type="latent",
             generator=torch.Generator("cpu").manual_seed(1000 + i))
        branches = [measured.calls[b::2] for b in range(2)]
        ratios.append([[(now.norm(dim=-1) / before.norm(dim=-1)).mean().item() for (_, before), (_, now) in zip(calls, calls[1:])]
                       for calls in branches])
        for calls in branches:
            changes = [(relative_change(b[0], a[0]), relative_change(b[1], a[1])) for a, b in zip(calls, calls[1:])]
            points += changes[:-1]
        print(f"{item['caption']}: {len(measured.calls)} calls", flush=True)
    mean = np.mean(ratios, 0)  # [2, steps - 1]
    x, y = np.array(points).T
    fit = np.polyfit(x, y, 1)
    print("relative change of the time embedding", np.round(np.unique(x), 4).tolist())
    print("of what the blocks add, least and most", y.min().round(4), y.max().round(4), "error of the fit", np.abs(np.polyval(fit, x) - y).mean().round(4))
    text = config.read_text().rstrip()
    assert text.endswith("}")
    added = {"teacache_coefficients": [float(f"{c:.8g}") for c in fit], "magcache_ratios": [round(float(r), 5) for r in mean.T.flatten()]}
    for name in added:
        assert f'"{name}"' not in text, f"{config} has {name} already"
    lines = ",\n".join(f'  "{name}": {json.dumps(values)}' for name, values in added.items())
    config.write_text(text[:-1].rstrip() + ",\n" + lines + "\n}\n")


main()
