#!/usr/bin/env python3
"""Times one step of Wan 2.1 1.3B at 81x480x832 with random weights in bf16, in ComfyUI's own code and in stand-ins for
WanVideoWrapper's blocks, without the node and with it. All variants of a table alternate in one run.

    PYTHONPATH=BUILD/python bench/peers/comfyui.py --comfyui FOLDER [--what comfyui compiled wrapper lora] [--layers N] [--rounds N] [--tiny] [--json FILE]

comfyui    ComfyUI's WanModel in its ModelPatcher: as it is, and with the node at several settings
compiled   the same of a few layers (--compiled-layers), with torch.compile as ComfyUI's TorchCompile node uses it, without the node and with it
wrapper    blocks as WanVideoWrapper writes them (tests/python/wrapper_stubs.py), as they are and at level aggressive
lora       the same, each linear layer with one adapter of rank 64 that is put into its weight in each call, as the wrapper does it

The figures are ms of a step, times as fast as without the node, and the distance of the result. A part that fails is named, and the others continue."""
import argparse
import copy
import importlib.util
import json
import pathlib
import sys
import traceback
import types

import torch
from torch import nn

from python_models import distance, in_turns

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = dict(dim=1536, num_heads=12, ffn_dim=8960, num_layers=30, freq_dim=256, text_dim=4096, in_dim=16, out_dim=16)
TINY = dict(dim=48, num_heads=2, ffn_dim=64, num_layers=2, freq_dim=16, text_dim=16, in_dim=16, out_dim=16)
NODE = {"node, safe": ("safe", "exact"), "node, aggressive": ("aggressive", "exact"), "node, aggressive, 8 bits": ("aggressive", "8 bits"),
        "node, extreme, 8 bits": ("extreme", "8 bits")}


def seeded(module):
    generator = torch.Generator(next(module.parameters()).device).manual_seed(0)
    for parameter in module.parameters():
        scale = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.1
        parameter.data.normal_(0, scale, generator=generator)
    return module.eval().requires_grad_(False)


def stand_in_for_torchvision():
    """ComfyUI imports it for pictures, of which there are none here."""
    if importlib.util.find_spec("torchvision") is None:
        sys.modules["torchvision"] = module = types.ModuleType("torchvision")
        sys.modules["torchvision.transforms"] = module.transforms = types.ModuleType("torchvision.transforms")


def nodes():
    """Loads python/comfyui as ComfyUI loads a folder of custom_nodes."""
    folder = ROOT / "python/comfyui"
    spec = importlib.util.spec_from_file_location("comfyui_tachyscope", folder / "__init__.py", submodule_search_locations=[str(folder)])
    sys.modules["comfyui_tachyscope"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.NODE_CLASS_MAPPINGS


class Steps:
    """ComfyUI's model behind one patcher. Variants share its modules, so each puts the node's kernels in and takes them out again."""

    def __init__(self, options, layers):
        from comfy import model_patcher, ops
        from comfy.ldm.wan.model import WanModel

        sizes = (TINY if options.tiny else SIZES) | ({} if layers is None else {"num_layers": layers})
        dtype = torch.float32 if options.tiny else torch.bfloat16
        model = nn.Module()
        model.diffusion_model = WanModel(**sizes, dtype=dtype, device=options.device, operations=ops.disable_weight_init)
        seeded(model)
        self.patcher = model_patcher.ModelPatcher(model, torch.device(options.device), torch.device("cpu"))
        frames, height, width = (2, 6, 6) if options.tiny else (21, 60, 104)
        self.inputs = (torch.randn(1, 16, frames, height, width, dtype=dtype, device=options.device), torch.tensor([500.0], device=options.device),
                       torch.randn(1, 512, sizes["text_dim"], dtype=dtype, device=options.device))
        self.node = nodes()["TachyscopeModel"]

    def variant(self, setting, compiled=False):
        """Returns a call of one step. The kernels are in the modules only while it runs."""
        patcher = self.patcher.clone()
        if setting is not None:
            patcher, = self.node().apply(patcher, setting[0], attention=setting[1])
        model, options = patcher.model.diffusion_model, patcher.model_options["transformer_options"]
        injections = [i for entries in patcher.injections.values() for i in entries]
        step = torch.compile(model) if compiled else model
        if compiled and setting is not None:  # compiled code knows the modules' forwards: a copy of its own keeps them
            patcher.model = copy.deepcopy(patcher.model)
            step = torch.compile(patcher.model.diffusion_model)
            for injection in injections:
                injection.inject(patcher)
            injections = []

        def call():
            with torch.no_grad():
                return step(*self.inputs, transformer_options=options)

        def begin():
            for injection in injections:
                injection.inject(patcher)

        def end():
            for injection in injections:
                injection.eject(patcher)

        return call, begin, end


def in_rounds(variants, options):
    """Returns {name: (median ms, result)}: each round puts one variant's kernels in, runs it once to warm up, and times it."""
    times, results = {name: [] for name in variants}, {}
    for turn in range(options.rounds):
        for name, (call, begin, end) in variants.items():
            begin()
            try:
                if turn == 0:
                    results[name] = call()
                times[name].append(in_turns({name: call}, argparse.Namespace(rounds=1, device=options.device))[name])
            finally:
                end()
    return {name: (sorted(t)[len(t) // 2], results[name]) for name, t in times.items()}


def comfyui(options):
    steps = Steps(options, options.layers)
    return in_rounds({"without": steps.variant(None)} | {name: steps.variant(setting) for name, setting in NODE.items()}, options)


def compiled(options):
    steps = Steps(options, 2 if options.tiny else options.compiled_layers)
    return in_rounds({"compiled": steps.variant(None, True), "compiled, node": steps.variant(("aggressive", "exact"), True),
                      "without": steps.variant(None), "node": steps.variant(("aggressive", "exact"))}, options)


def with_adapters(model, layer):
    """Makes each linear layer the wrapper's, with one adapter of rank 64."""
    for module in [m for m in model.modules() if type(m) is nn.Linear]:
        out, size, weight = *module.weight.shape, module.weight
        module.__class__ = layer
        module.lora_diffs, module._lora_strength_is_scheduled, module.scale_weight, module.is_gguf = [], [], None, False
        module.register_buffer("_step", torch.zeros((), dtype=torch.long))
        module.take((torch.randn(out, 64).to(weight) * 0.01, torch.randn(64, size).to(weight) * 0.01, None, 1.0))
    return model


def wrapper(options, lora=False):
    import tachyscope

    sys.path.insert(0, str(ROOT / "tests/python"))
    import wrapper_stubs

    module = wrapper_stubs.wrapper()
    sys.modules[module.__name__] = module
    linear = wrapper_stubs.custom_linear()
    if lora:
        sys.modules[linear.__name__] = linear
    dim, hidden, heads, layers = (48, 64, 2, 2) if options.tiny else (1536, 8960, 12, options.layers or 30)
    dtype, grid = (torch.float32, (2, 3, 3)) if options.tiny else (torch.bfloat16, (21, 30, 52))
    tokens = grid[0] * grid[1] * grid[2]
    with torch.device(options.device):
        blocks = nn.ModuleList(module.WanAttentionBlock(dim, heads, hidden) for _ in range(layers)).to(dtype)
        blocks = seeded(blocks)
        blocks = with_adapters(blocks, linear.CustomLinear) if lora else blocks
        angles = torch.randn(1, tokens, 1, dim // heads // 2)
        freqs = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], dim=-1).unflatten(-1, (2, 2))
        given = dict(e=torch.randn(1, 6, dim), seq_lens=torch.tensor([tokens]), grid_sizes=torch.tensor([grid]), freqs=freqs,
                     context=torch.randn(1, 512, dim, dtype=dtype), current_step=0)
        start = torch.randn(1, tokens, dim, dtype=dtype)

    def call():
        x = start.clone()
        with torch.no_grad():
            for block in blocks:
                x, *_ = block(x, **given)
        return x

    def use(level):
        return call, lambda: tachyscope.optimize(blocks, level, verbose=False) if level else None, lambda: tachyscope.restore(blocks)

    return in_rounds({"without": use(None), "aggressive": use("aggressive"), "extreme": use("extreme")}, options)


PARTS = {"comfyui": comfyui, "compiled": compiled, "wrapper": wrapper, "lora": lambda options: wrapper(options, True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].replace("\n", " "))
    parser.add_argument("--comfyui", help="a checkout of ComfyUI, for the first two parts")
    parser.add_argument("--what", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--layers", type=int)
    parser.add_argument("--compiled-layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true", help="models of a few parameters, to try the script")
    parser.add_argument("--json", help="write the figures to this file as well")
    options = parser.parse_args()
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.comfyui:
        sys.path.insert(0, options.comfyui)
        stand_in_for_torchvision()
        sys.argv = sys.argv[:1]
        from comfy.cli_args import args

        args.cpu = options.device == "cpu"
    print(f"{torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU'}, torch {torch.__version__}")
    records, failed = [], []
    for name in options.what:
        try:
            table = PARTS[name](options)
        except Exception:
            traceback.print_exc()
            failed.append(name)
            continue
        base, right = table.get("without") or next(iter(table.values()))
        print(f"\n{name}: ms of a step, times as fast as without the node, distance of the result")
        for variant, (ms, result) in table.items():
            print(f"{variant:28}{ms:10.2f}{base / ms:8.3f}x{distance(result, right):12.1e}", flush=True)
            records.append({"part": name, "variant": variant, "ms": ms, "ratio": base / ms, "apart": distance(result, right)})
        torch.compiler.reset()
        del table, right, result
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps({"torch": torch.__version__, "steps": records}, indent=1))
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
