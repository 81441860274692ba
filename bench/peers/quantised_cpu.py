"""Measures what float32 costs a quantised transformer on a CPU: one block of the 1.3B's shape with random weights, as GGUF, in e4m3 with scales, and
dequantised into float32 and bfloat16; one forward pass of 1,560 tokens each, packed and mapped, by one or several builds in turn.

    python bench/peers/quantised_cpu.py BUILD/tachyscope [OTHER/tachyscope …] [--repeats 3] [--threads 2] [--forms Q8_0,f32]

The seconds are the processor time of the pass alone: the shortest of several runs, minus that of a pass of one token, which loads the same weights
(shown beside it). Errors are those of the files of tests/golden/quantised against the float64 reference."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
from diffusers import WanTransformer3DModel
from gguf import GGMLQuantizationType as T
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "reference"))
import gguf_files  # noqa: E402
import layouts  # noqa: E402
import single_files  # noqa: E402

SHAPE = dict(num_attention_heads=12, attention_head_dim=128, in_channels=16, out_channels=16, text_dim=512, ffn_dim=8960, num_layers=1)
GOLDEN = {"dit_gguf": "transformer", "dit_scaled": "transformer", "t5_gguf": "text-encoder", "t5_scaled": "text-encoder"}


def make_files(folder):
    """Returns {form: the transformer's file}, each in a folder with its config."""
    torch.manual_seed(1)
    model = WanTransformer3DModel(**SHAPE)
    state = {layouts._rename(k, layouts._DIT): v.detach().float() for k, v in model.state_dict().items()}
    files = {}

    def place(form, name):
        (folder / form).mkdir()
        model.save_config(folder / form)
        files[form] = folder / form / name
        return files[form]

    def outside(name):
        return not name.startswith("blocks.") or "modulation" in name

    for kind in (T.Q8_0, T.Q4_0, T.Q4_K):
        stored, _ = gguf_files.quantised(state, lambda k, w: None if w.ndim != 2 or outside(k) else kind, np.random.default_rng(1))
        gguf_files.write(place(kind.name, "model.gguf"), "wan", stored)
    stored, meant = single_files.scaled(state, outside)
    save_file(stored, place("e4m3", "model.safetensors"))
    save_file({k: v.contiguous() for k, v in meant.items()}, place("f32", "model.safetensors"))
    save_file({k: v.to(torch.bfloat16).contiguous() for k, v in meant.items()}, place("bf16", "model.safetensors"))
    return files


def inputs(path, height, width):
    torch.manual_seed(2)
    save_file({"hidden_states": torch.randn(1, 16, 1, height, width), "encoder_hidden_states": torch.randn(1, 20, SHAPE["text_dim"]),
               "timestep": torch.tensor([900.0])}, path)
    return path


def run(program, stage, model, given, out, *options):
    """Returns processor seconds."""
    log = open(os.devnull, "w")
    child = subprocess.Popen([program, "stage", stage, "--model", model, "--in", given, "--out", out, *options], stdout=log, env={**os.environ, "TACHY_DEVICE": "cpu"})
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{program} stage {stage} --model {model}: status {status}")
    return used.ru_utime + used.ru_stime


def padded(text):
    return torch.nn.functional.pad(text, (0, 0, 0, 512 - text.shape[1]))


def error(y, reference):
    return ((y.double() - reference.double()).abs().max() / reference.double().abs().max()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--forms", default="Q8_0,Q4_0,Q4_K,e4m3,f32,bf16")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        out = folder / "out.safetensors"
        for case, stage in GOLDEN.items():
            golden = ROOT / "tests/golden/quantised" / case
            want = load_file(f"{golden}.safetensors")
            given, result = folder / "golden.safetensors", "sample" if "sample" in want else "last_hidden_state"
            save_file({k: padded(v) if k == "encoder_hidden_states" else v for k, v in want.items()
                       if k not in ("sample", "sample_lora", "last_hidden_state")}, given)
            for program in args.programs:
                run(program, stage, golden, given, out, *(["--sinusoid", "diffusers"] if stage == "transformer" else []))
                print(f"{case:<12} {program}: error {error(load_file(out)[result], want[result]):.1e}", flush=True)
        large, small = inputs(folder / "large.safetensors", 60, 104), inputs(folder / "small.safetensors", 2, 2)
        files = make_files(folder)
        for form, file in ((form, files[form]) for form in args.forms.split(",")):
            for options in (["--weights", "packed"], ["--weights", "mapped"], ["--weights", "mapped", "--dtype", "bf16"]):
                best = {}
                for _ in range(args.repeats):
                    for program in args.programs:
                        for what, given in (("pass", large), ("load", small)):
                            now = run(program, "transformer", file, given, out, "--threads", args.threads, *options)
                            best[program, what] = min(best.get((program, what), now), now)
                for program in args.programs:
                    both, load = best[program, "pass"], best[program, "load"]
                    print(f"{form:<5} {' '.join(options):<31} {program}: {both - load:.2f} s, and {load:.2f} s to load", flush=True)


if __name__ == "__main__":
    main()
