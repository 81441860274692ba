"""Tests a model of Wan2.1-1.3B's true shape with random weights: names, dims and files as published, in both layouts.

    tests/reference/true_shape.py BINARY [--full] [--seed N] [--folder DIR]

umT5-xxl with its whole vocabulary (256384), cut to 2 layers; the VAE at its true width (96); the transformer with 2 of
its 30 layers, or all of them with --full (2.8 GB of bf16 weights, 16 GB of memory for the reference, some minutes).
Opens both layouts, runs one step at 17x256x256 through `stage transformer` and compares with diffusers in float64.
Error: max|y - R| / max|R|, bound 5e-6.
"""

import argparse
import json
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from diffusers.models import embeddings
from safetensors.torch import load_file, save_file
from transformers import UMT5Config, UMT5EncoderModel

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import generation  # noqa: E402
import layouts  # noqa: E402
import random_models as rm  # noqa: E402
from precision import error, float64  # noqa: E402

DIT = dict(patch_size=(1, 2, 2), num_attention_heads=12, attention_head_dim=128, in_channels=16, out_channels=16, text_dim=4096,
           freq_dim=256, ffn_dim=8960, cross_attn_norm=True, eps=1e-6)
UMT5 = dict(vocab_size=256384, d_model=4096, d_kv=64, d_ff=10240, num_layers=2, num_heads=64, feed_forward_proj="gated-gelu",
            dropout_rate=0.0)
LATENTS = (1, 16, 5, 32, 32)  # 17 frames of 256x256


def set_dtype(model, dtype):
    """Sets the dtype of the parameters only: the rope tables are buffers, and must not be rounded."""
    for p in model.parameters():
        p.data = p.data.to(dtype)
    return model


def randomise(model):
    """Fills the parameters with bfloat16 values as large as trained ones."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1 and name.endswith("weight"):
                p.normal_(1, 0.1)
            elif p.ndim == 1 or "scale_shift_table" in name or name.endswith("gamma"):
                p.normal_(1.0 if name.endswith("gamma") else 0.0, 0.1)
            else:
                p.normal_(0, p[0].numel() ** -0.5)
    return set_dtype(model, torch.bfloat16).eval()


def save_diffusers(folder, dit, t5, vae):
    dit.save_pretrained(folder / "transformer")
    t5.save_pretrained(folder / "text_encoder")
    vae.save_pretrained(folder / "vae")
    rm.tiny_tokenizer(folder / "tokenizer")
    generation.scheduler("unipc", 3.0).save_pretrained(folder / "scheduler")
    (folder / "model_index.json").write_text(json.dumps(
        {"_class_name": "WanPipeline", "_diffusers_version": "0.42.1", "scheduler": ["diffusers", "UniPCMultistepScheduler"],
         "text_encoder": ["transformers", "UMT5EncoderModel"], "tokenizer": ["transformers", "T5TokenizerFast"],
         "transformer": ["diffusers", "WanTransformer3DModel"], "vae": ["diffusers", "AutoencoderKLWan"]}))


class Timed:
    def __init__(self, binary):
        self.binary = binary

    def __call__(self, *args):
        start, self.peak_mb = time.time(), 0.0
        child = subprocess.Popen([self.binary, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        watch = threading.Thread(target=self._watch, args=(child,))
        watch.start()
        out, err = child.communicate()
        watch.join()
        if child.returncode:
            raise RuntimeError(f"{' '.join(map(str, args))}: exit {child.returncode}: {err.strip()}")
        self.seconds = time.time() - start
        return out

    def _watch(self, child):  # the usage that wait() reports would include this process's own from before the exec
        while child.poll() is None:
            try:
                status = pathlib.Path(f"/proc/{child.pid}/status").read_text()
                self.peak_mb = max(self.peak_mb, int(status.split("VmHWM:")[1].split()[0]) / 1024)
            except (OSError, IndexError):
                pass
            time.sleep(0.01)


def reference(dit, inputs):
    with torch.no_grad(), float64():
        return dit.double()(**{k: v.double() if k != "timestep" else v for k, v in inputs.items()}).sample


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--full", action="store_true", help="all 30 layers")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--folder", default=None, help="for the scratch files (default: the system's)")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else secrets.randbelow(2**31)
    print(f"seed {seed} (repeat with --seed {seed})", flush=True)
    torch.manual_seed(seed)
    failures = []

    def report(what, value, bound):
        print(f"{'ok  ' if value <= bound else 'FAIL'} {what:<58} {value:.2e}  (bound {bound:.1e})", flush=True)
        if not value <= bound:
            failures.append(what)

    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder, run = pathlib.Path(name), Timed(args.binary)
        layers = 30 if args.full else 2
        dit = randomise(WanTransformer3DModel(**DIT, num_layers=layers))
        t5 = randomise(UMT5EncoderModel(UMT5Config(**UMT5)))
        vae = randomise(AutoencoderKLWan())
        text = torch.randn(1, 512, DIT["text_dim"]) * 0.2
        text[:, 20:] = 0
        inputs = {"hidden_states": torch.randn(LATENTS), "timestep": torch.tensor([937.5]), "encoder_hidden_states": text}
        save_file(inputs, folder / "in.safetensors")
        out = folder / "out.safetensors"
        ids = torch.randint(3, UMT5["vocab_size"], (1, 24))
        save_file({"input_ids": ids}, folder / "ids.safetensors")

        got = {}
        for layout in ("diffusers", "original"):  # one at a time, to save disk space
            model = folder / layout
            if layout == "diffusers":
                save_diffusers(model, dit, t5, vae)
            else:
                layouts.save_original(model, dit, t5, vae)
            size = sum(f.stat().st_size for f in model.rglob("*") if f.is_file())
            plan = json.loads(run("info", model, "--json", "-W", 256, "-H", 256, "-f", 17))["peak_bytes"] / 2**20
            print(f"     {layout}: {size / 2**30:.2f} GiB on disk, `info` (opens everything, plans a run) {run.seconds:.2f} s; "
                  f"plan of a run at 17x256x256: {plan:.0f} MB")
            for weights in ("mapped", "packed"):
                run("stage", "transformer", "--model", model, "--in", folder / "in.safetensors", "--out", out, "--weights", weights)
                print(f"     {layout}, {weights}: one step at 17x256x256 in {run.seconds:.1f} s, load included; "
                      f"resident size {run.peak_mb:.0f} MB, mapped file included", flush=True)
                got[layout, weights] = load_file(out)["sample"]
            run("stage", "text-encoder", "--model", model, "--in", folder / "ids.safetensors", "--out", out)
            got[layout, "text"] = load_file(out)["last_hidden_state"]
            shutil.rmtree(model)

        del vae
        with torch.no_grad():
            single = set_dtype(t5, torch.float32)(ids).last_hidden_state
            with float64():
                want = t5.double()(ids).last_hidden_state
        bound = max(3 * error(single, want), 5e-6)  # scores are not scaled: random weights make them steep
        for layout in ("diffusers", "original"):
            report(f"text encoder, 2 layers of umT5-xxl, {layout}", error(got[layout, "text"], want), bound)
        del t5
        want = reference(dit, inputs)
        for (layout, weights), y in got.items():
            if layout == "diffusers" and weights != "text":
                report(f"transformer, {layers} layers, {layout}, {weights}", error(y, want), 5e-6)
        sinusoid, embeddings.get_timestep_embedding = embeddings.get_timestep_embedding, layouts.sinusoid64
        try:
            want = reference(dit, inputs)
        finally:
            embeddings.get_timestep_embedding = sinusoid
        for (layout, weights), y in got.items():
            if layout == "original" and weights != "text":
                report(f"transformer, {layers} layers, {layout}, {weights}", error(y, want), 5e-6)
    print("FAILED: " + ", ".join(failures) if failures else "passed")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
