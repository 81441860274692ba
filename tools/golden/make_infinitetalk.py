"""Writes golden values of InfiniteTalk's own code to tests/golden/infinitetalk/ (or the folder given by --out).

    python tools/golden/make_infinitetalk.py --repo PATH [--out FOLDER]

PATH is a checkout of github.com/MeiGen-AI/InfiniteTalk (made from commit 0107cd9, with torch 2.11.0, diffusers 0.42.1, einops 0.8.2). Its transformer
runs on the CPU in float32, with one and with two speakers. Stand-ins below replace the libraries that a CPU lacks: xfuser and torch.compile do
nothing, xformers' and flash attention are PyTorch's in float32, einops is real; imageio, soundfile, torchvision and skimage are never called.

    golden.json          the transformer's config; [name, shape, around, scale] of each tensor, weights and inputs: the i-th one is
                         around + scale * torch.randn(shape) of a CPU generator seeded with i, so that none is stored (257 image
                         tokens of 1280, and 12 layers of 768 of the speech encoder are fixed in that code); how near the
                         restatement comes (tests/reference/infinitetalk.py, in float64), and how near two regions come to a tie;
                         masks of tokens that its code makes of boxes in pictures of several sizes
    golden.safetensors   sample_1, sample_2: of one speaker and of two

The config avoids a mistake of that code, which with an odd number of heads leaves one out of the reference map."""

import argparse
import ast
import inspect
import json
import math
import pathlib
import random
import sys
import types

import diffusers  # before the stand-ins, because diffusers looks for some of these modules
import diffusers.models.transformers.transformer_wan
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "tests/reference"))

CONFIG = dict(model_type="i2v", dim=48, ffn_dim=60, freq_dim=256, in_dim=36, num_heads=2, num_layers=2, out_dim=16, text_len=512, text_dim=16, eps=1e-6)
AUDIO = dict(intermediate_dim=8, output_dim=768, context_tokens=4)
FRAMES, HEIGHT, WIDTH = 3, 8, 12  # latents
CLIP, START, TEXT, TIMESTEP = 14, 3, 7, 640.0  # frames of speech, the window's first frame, rows of text, timestep


def sdpa(q, k, v, *args, **kwargs):
    """Attention of [B, L, H, D], in the given dtype."""
    return F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)


def open_repository(path):
    """Imports the repository's transformer module, with stand-ins for what is missing here."""
    for name in ("xfuser", "xfuser.core", "xfuser.core.distributed", "xformers", "xformers.ops", "imageio", "soundfile", "torchvision", "skimage"):
        sys.modules[name] = types.ModuleType(name)
    for name in ("get_sequence_parallel_rank", "get_sequence_parallel_world_size", "get_sp_group"):
        setattr(sys.modules["xfuser.core.distributed"], name, None)
    sys.modules["xformers"].ops = sys.modules["xformers.ops"]
    sys.modules["xformers.ops"].memory_efficient_attention = lambda q, k, v, attn_bias=None, op=None: sdpa(q, k, v)
    sys.modules["skimage"].color = None
    inspect.ArgSpec = getattr(inspect, "ArgSpec", None)
    torch.compile = lambda f=None, **kwargs: f
    for name in ("wan", "wan.modules", "wan.utils"):  # without their __init__.py, which import everything
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(path / name.replace(".", "/"))]
    import wan.modules.multitalk_model as module
    import wan.utils.multitalk_utils as utils

    module.flash_attention, module.USE_SAGEATTN, utils.torch_gc = sdpa, False, lambda: None
    return module


def scale_of(name, shape):
    """Returns (around, scale) of a tensor's values, chosen so that speech and the targets of attention matter."""
    if name.startswith("input."):
        return 0.0, 1.0
    if len(shape) > 1 and "modulation" not in name:
        gain = 1.5 if "audio" in name else 1.0
        return 0.0, gain / math.sqrt(math.prod(shape[1:]))
    if name.endswith("norm_q.weight"):
        return 1.5, 0.3
    norm = name.endswith("weight") or name.endswith("modulation")
    return (1.0 if name.endswith("weight") else 0.0), (0.2 if norm else 0.1)


def draw(recipe):
    return {name: around + scale * torch.randn(shape, generator=torch.Generator().manual_seed(i)) for i, (name, shape, around, scale) in enumerate(recipe)}


def token_masks(masks):
    """Turns masks on the grid of latents into [3, S] on that of tokens, as the transformer does."""
    return (F.interpolate(masks[None], size=(HEIGHT // 2, WIDTH // 2), mode="nearest")[0] > 0).float()


def region_cases(path):
    """Returns the masks of tokens, 16 pixels each, that InfiniteTalk makes from (picture, video, boxes or none)."""
    tree = ast.parse((path / "wan/multitalk.py").read_text())
    function = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "resize_and_centercrop")

    def center_crop(t, size):
        top, left = (int(round((t.shape[i - 2] - size[i]) / 2.0)) for i in (0, 1))
        return t[..., top:top + size[0], left:left + size[1]]

    space = {"torch": torch, "nn": nn, "math": math, "np": np, "Image": None,
             "transforms": types.SimpleNamespace(functional=types.SimpleNamespace(center_crop=center_crop))}
    exec(compile(ast.Module([function], []), "multitalk.py", "exec"), space)

    rng, cases = random.Random(4), []
    for (w, h), (width, height), boxed in (((640, 480), (64, 48), False), ((97, 61), (97 * 16, 61 * 16), False), ((128, 96), (256, 192), True),
                                           ((333, 222), (96, 64), True), ((48, 32), (48, 32), False)):
        middle = rng.randint(w // 3, 2 * w // 3)
        boxes = [[rng.randint(0, w // 8), rng.randint(0, h // 8), middle, rng.randint(h // 2, h)],
                 [middle, rng.randint(0, h // 3), rng.randint(7 * w // 8, w), h]]
        masks = torch.zeros(3, h, w)
        if boxed:
            for mask, (x0, y0, x1, y1) in zip(masks, boxes):
                mask[y0:y1, x0:x1] = 1
        else:  # its halves
            for mask, left in zip(masks, (0, w // 2)):
                mask[int(h * 0.05):int(h * (1 - 0.05)), int((w // 2) * 0.05 + left):int((w // 2) * (1 - 0.05) + left)] = 1
        masks[2] = (masks[0] + masks[1] == 0).float()
        fitted = space["resize_and_centercrop"](masks, (height, width))
        fitted = (F.interpolate(fitted[None], size=(height // 8, width // 8), mode="nearest")[0] > 0).float()
        tokens = F.interpolate(fitted[None], size=(height // 16, width // 16), mode="nearest")[0] > 0
        if tokens.numel() > 3000:  # only some rows, to keep the file readable
            tokens = tokens[:, ::20]
        cases.append({"picture": [w, h], "video": [width, height], "boxes": boxes if boxed else [], "rows": tokens.shape[1],
                      "masks": ["".join("01"[int(v)] for v in m.flatten()) for m in tokens]})
    return cases


def restated(tensors, inputs, weights_of):
    """Computes the same by tests/reference/infinitetalk.py in float64, with one speaker and with two: [(sample, closest tie)]."""
    import infinitetalk
    import layouts
    from diffusers.models import embeddings
    from precision import float64

    dim, heads = CONFIG["dim"], CONFIG["num_heads"]
    base = diffusers.WanTransformer3DModel(num_attention_heads=heads, attention_head_dim=dim // heads, in_channels=36, out_channels=16, text_dim=CONFIG["text_dim"],
                                 ffn_dim=CONFIG["ffn_dim"], num_layers=CONFIG["num_layers"], image_dim=1280, added_kv_proj_dim=dim)
    talker = infinitetalk.Talker(base, layers=12, width=768, hidden=AUDIO["intermediate_dim"], tokens=AUDIO["context_tokens"])
    base.load_state_dict({name: tensors[layouts._rename(name, layouts._DIT)] for name in base.state_dict()})
    for part, prefix in ((talker.audio_proj, "audio_proj."), *((n, f"blocks.{i}.norm_x.") for i, n in enumerate(talker.norms)),
                         *((a, f"blocks.{i}.audio_cross_attn.") for i, a in enumerate(talker.attentions))):
        part.load_state_dict({name: tensors[prefix + name] for name in part.state_dict()})
    talker = talker.double().eval()
    given = {k: v.double() for k, v in inputs.items()}
    half = CONFIG["freq_dim"] // 2
    t = TIMESTEP * torch.pow(10000, -torch.arange(half, dtype=torch.float64) / half)
    sinusoid = torch.cat([t.cos(), t.sin()])[None].float()
    out = []
    with torch.no_grad(), float64():
        embeddings.get_timestep_embedding = lambda *args, **kwargs: sinusoid.double()
        base.condition_embedder.timesteps_proj.forward = lambda timestep: sinusoid.double()
        text = torch.zeros(1, 512, CONFIG["text_dim"], dtype=torch.float64)
        text[0, :TEXT] = given["context"]
        states, masks = given["states"], weights_of
        for two in (False, True):
            talker.tie = math.inf
            sample = talker(states[None] if two else states[:1], torch.tensor([START]), speaker_masks=masks.double() if two else None,
                            hidden_states=torch.cat([given["latents"], given["y"]])[None], encoder_hidden_states=text,
                            timestep=torch.tensor([TIMESTEP]), encoder_hidden_states_image=given["clip"])
            out.append((sample[0], talker.tie))
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repo", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "tests/golden/infinitetalk")
    args = parser.parse_args()
    torch.set_num_threads(1)
    module = open_repository(args.repo)
    model = module.WanModel(**CONFIG, **AUDIO, weight_init=False).eval()
    model.disable_teacache()

    shapes = {name: list(p.shape) for name, p in sorted(model.state_dict().items())}
    shapes |= {"input.latents": [16, FRAMES, HEIGHT, WIDTH], "input.y": [20, FRAMES, HEIGHT, WIDTH], "input.clip": [1, 257, 1280],
               "input.context": [TEXT, CONFIG["text_dim"]], "input.states": [2, CLIP, 12, 768]}
    recipe = [[name, shape, *scale_of(name, shape)] for name, shape in shapes.items()]
    drawn = draw(recipe)
    tensors = {k: v for k, v in drawn.items() if not k.startswith("input.")}
    inputs = {k.removeprefix("input."): v for k, v in drawn.items() if k.startswith("input.")}
    model.load_state_dict(tensors)

    masks = torch.zeros(3, HEIGHT, WIDTH)
    masks[0, 1:7, 0:5] = masks[1, 2:8, 6:11] = 1
    masks[2] = (masks[0] + masks[1] == 0).float()
    window = 4 * FRAMES - 3
    rows = (START + torch.arange(window)[:, None] + torch.arange(-2, 3)).clamp(0, CLIP - 1)
    samples = []
    with torch.no_grad():
        for speakers in (1, 2):
            audio = torch.stack([inputs["states"][s][rows] for s in range(speakers)])
            samples.append(model([inputs["latents"].clone()], t=torch.tensor([TIMESTEP]), context=[inputs["context"]], clip_fea=inputs["clip"],
                                 seq_len=FRAMES * HEIGHT * WIDTH // 4, y=[inputs["y"]], audio=audio, ref_target_masks=masks)[0])
    again = restated(tensors, inputs, token_masks(masks))
    error = lambda y, r: ((y.double() - r).abs().max() / r.abs().max()).item()
    about = {"restatement": [error(y, r) for y, (r, _) in zip(samples, again)], "closest_tie": again[1][1],
             "second_speaker_moves": error(samples[1], samples[0].double())}
    print(about)
    args.out.mkdir(parents=True, exist_ok=True)
    golden = {"config": CONFIG, "about": about, "timestep": TIMESTEP, "start": START, "tensors": recipe,
              "masks": token_masks(masks).int().tolist(), "regions": region_cases(args.repo)}
    lines = json.dumps(golden).replace('[["', '[\n["').replace('], ["', '],\n["').replace('{"picture"', '\n{"picture"')
    (args.out / "golden.json").write_text(lines + "\n")
    save_file({f"sample_{i + 1}": s.contiguous() for i, s in enumerate(samples)}, args.out / "golden.safetensors")


if __name__ == "__main__":
    main()
