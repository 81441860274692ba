"""Makes the results of published step caches with the tiny model of tests/golden/pipeline, and what they decide by published numbers.

    python tests/golden/step_caches/make.py        (torch 2.11.0, diffusers 0.42.1, numpy, safetensors)

    values.json              the numbers of these runs, as in a model's generation_config.json
    golden.safetensors
        easycache, teacache, …           final latents of 20 guided steps (unipc, float64)
        ….made                           [20, 2] u8: whether the blocks ran, for the prompt and the negative prompt
        alone.…                          the same without guidance
        decided.kWan13bRatios.50 …       [steps, 2] u8: MagCache's decisions by each published table, for several numbers of steps
        embeddings, decided.teacache.0 … random time embeddings [20, 8] f32, and TeaCache's decisions on them by each published polynomial
"""

import json
import pathlib
import random
import sys

import torch
from diffusers import WanTransformer3DModel
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import generation  # noqa: E402
import step_caches  # noqa: E402
from precision import float64  # noqa: E402

torch.set_num_threads(1)
PIPELINE = HERE.parent / "pipeline"
# The thresholds are those of the whole numbers below in src/resolve/step_cache_values.cpp.
POLYNOMIALS = [([2.39676752e+03, -1.31110545e+03, 2.01331979e+02, -8.29855975e+00, 1.37887774e-01], 0.08),
               ([-5784.54975374, 5449.50911966, -1811.16591783, 256.27178429, -13.02252404], 0.2),
               ([-3.02331670e+02, 2.23948934e+02, -5.25463970e+01, 5.87348440e+00, -2.01973289e-01], 0.26),
               ([-114.36346466, 65.26524496, -18.82220707, 4.91518089, -0.23412683], 0.3)]
# threshold, most, retention, and whether all steps of the first of two experts are computed (None: one network)
TABLES = {"kWan13bRatios": (0.12, 4, 0.2, None), "kWan14bRatios": (0.24, 6, 0.2, None), "kWanImage480Ratios": (0.24, 6, 0.2, None),
          "kWanImage720Ratios": (0.24, 6, 0.2, None), "kWan22Ratios": (0.06, 2, 0.4, True), "kWan22ImageRatios": (0.06, 2, 0.1, False),
          "kWan5bRatios": (0.06, 2, 0.2, None), "kWan5bImageRatios": (0.06, 2, 0.2, None)}


def values():
    rng = random.Random(3)
    ratios = [round(1 - rng.uniform(0.0, 0.04), 5) for _ in range(2 * 14)]  # branches differ, and the number of steps is another one
    return dict(easycache=0.5, teacache_threshold=0.25, teacache_coefficients=[0.2, 0.1, 0.02], magcache_threshold=0.08, magcache_ratios=ratios,
                magcache_steps=3, magcache_retention=0.15, taylorseer=4)


def main():
    run, own = json.loads((PIPELINE / "run.json").read_text()), values()
    source, golden = load_file(PIPELINE / "golden.safetensors"), {}
    rows = [torch.cat([source[k].double(), torch.zeros(1, 512 - source[k].shape[1], source[k].shape[2])], 1) for k in ("prompt", "negative")]
    dit = WanTransformer3DModel.from_pretrained(PIPELINE / "model" / "transformer", torch_dtype=torch.float32).eval().double()
    steps = run["num_inference_steps"]
    with float64():
        for kind in step_caches.KINDS:
            for prefix, texts in (("", rows), ("alone.", rows[:1])):
                scheduler = generation.scheduler("unipc", run["flow_shift"])
                scheduler.set_timesteps(steps)
                cache = step_caches.cache_of(kind, dit, steps, own)
                golden[prefix + kind] = step_caches.denoise(cache, source["noise"], texts, run["guidance_scale"], scheduler)[0]
                golden[f"{prefix}{kind}.made"] = torch.tensor(cache.made, dtype=torch.uint8)
                print(prefix + kind, "".join("".join(map(str, m)) + " " for m in cache.made), f"margin {cache.margin:.3f}")
                assert cache.margin > 0.005 and 3 < sum(m[0] for m in cache.made) < steps, "another threshold is needed"
    for name, ratios in step_caches.ratios_of(HERE.parents[2] / "src" / "resolve" / "magcache_ratios.inc").items():
        threshold, most, retention, whole = TABLES[name]
        for steps in (50, 40, 20, 7):
            split = 0 if whole is None else steps * 3 // 10
            cache = step_caches.MagCache(None, steps, threshold, ratios=ratios, most=most, retention=retention, split=split, whole=whole)
            made = []
            for i in range(steps):
                if i == split:
                    cache.begin()
                made.append([int(not cache.reuses(i, b)) for b in range(2)])
            golden[f"decided.{name}.{steps}"] = torch.tensor(made, dtype=torch.uint8)
            print(name, steps, sum(m[0] for m in made), sum(m[1] for m in made), f"margin {cache.margin:.4f}")
    torch.manual_seed(4)
    e = [torch.randn(8)]
    for i in range(19):
        e.append(e[-1] + torch.randn(8) * (0.02 + 0.01 * i))
    golden["embeddings"] = torch.stack(e)
    for n, (coefficients, threshold) in enumerate(POLYNOMIALS):
        cache = step_caches.TeaCache(None, 20, threshold, coefficients=coefficients)
        made = [[int(not cache.decide(i, 0, x))] for i, x in enumerate(golden["embeddings"])]
        golden[f"decided.teacache.{n}"] = torch.tensor(made, dtype=torch.uint8)
        print("polynomial", n, "".join(str(m[0]) for m in made), f"margin {cache.margin:.4f}")
    save_file({k: (v.to(torch.float32) if v.is_floating_point() else v).contiguous() for k, v in golden.items()}, HERE / "golden.safetensors")
    (HERE / "values.json").write_text(json.dumps(own) + "\n")


main()
