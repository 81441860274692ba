#!/usr/bin/env python3
"""Times a talking photo on a GPU, stage by stage: InfiniteTalk on Wan2.1-I2V-14B of true shape with random weights, 120 frames.

    python3 bench/peers/talk.py build/tachyscope [--rows 1024 576 512] [--kinds bf16 int8 fp8-int8] [--windows infinitetalk even] [--models FOLDER] [--json FILE]
    python3 bench/peers/talk.py build/tachyscope --list --models /dev/shm --budget 480      # LIST below, most wanted first, as many as there is time for
    python3 bench/peers/talk.py build/tachyscope --rows 512 --more=--profile --more=FILE     # also the shares of each kind of work, launch by launch
    python3 bench/peers/talk.py build/tachyscope --tiny --device cpu          # the script itself, anywhere

Each row is one process of `tachyscope talk` with --json, whose events tell the seconds of each stage; what is loaded in a stage counts as
"load". There are three steps of one pass each, as in --preset talk-3. The folder takes 39 GB (transformer 33, InfiniteTalk 5, CLIP 1.3); its umT5 is
only a placeholder, which the output mentions. With --list a table comes last: seconds beside the targets, the GPU memory that --plan predicts, the
most that nvidia-smi showed above the memory in use before, and a hash of the video's samples, by which rows of one picture are compared. Needs torch,
diffusers and transformers."""
import argparse
import hashlib
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "reference"), str(pathlib.Path(__file__).resolve().parent)]
SIZES = {"1024": (1024, 1024), "576": (576, 1024), "512": (512, 512), "tiny": (64, 64)}
KINDS = {"bf16": [], "int8": ["--attention", "int8"], "fp8": ["--math", "fp8"], "fp8-int8": ["--math", "fp8", "--attention", "int8"], "f32": ["--level", "safe"]}
FRAMES = 120
# size, kind, windows, further options, target (seconds without loading, or a factor of the named row)
LIST = [("1024", "bf16", "infinitetalk", [], 84), ("512", "fp8-int8", "infinitetalk", [], 6.5), ("512", "fp8-int8", "infinitetalk", ["--max-vram", "22GiB"], (1.02, 1)),
        ("512", "fp8-int8", "infinitetalk", ["--max-vram", "10GiB"], (1.1, 1)), ("576", "bf16", "infinitetalk", [], 33), ("576", "fp8-int8", "even", [], 16),
        ("1024", "fp8-int8", "even", [], 39), ("1024", "fp8-int8", "infinitetalk", [], 56)]


def sizes(tiny):
    """Returns (transformer, CLIP, wav2vec2, layers and width of the ears, projection)."""
    dit = dict(patch_size=(1, 2, 2), num_attention_heads=40, attention_head_dim=128, in_channels=36, out_channels=16, text_dim=4096, freq_dim=256, ffn_dim=13824,
               num_layers=40, cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6, image_dim=1280, added_kv_proj_dim=5120)
    clip = dict(hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=16, image_size=224, patch_size=14, hidden_act="gelu")
    if tiny:
        dit |= dict(num_attention_heads=2, attention_head_dim=24, text_dim=4096, ffn_dim=64, num_layers=2, image_dim=32, added_kv_proj_dim=48)
        clip |= dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
    return dit, clip, dict(num_hidden_layers=2, hidden_size=16, num_attention_heads=2, intermediate_size=32, conv_dim=[8] * 7) if tiny else {}


def make_branch(path, dit, width, layers, hidden, tokens, device):
    """Writes InfiniteTalk's file."""
    import torch
    from safetensors.torch import save_file
    dim, out = dit["num_attention_heads"] * dit["attention_head_dim"], {}

    def linear(name, rows, columns):
        out[f"{name}.weight"] = torch.randn(rows, columns, dtype=torch.bfloat16, device=device) * columns**-0.5
        out[f"{name}.bias"] = torch.zeros(rows, dtype=torch.bfloat16, device=device)

    def norm(name, n):
        out[f"{name}.weight"], out[f"{name}.bias"] = (torch.full((n,), v, dtype=torch.bfloat16) for v in (1.0, 0.0))
    row = layers * width
    for name, rows, columns in (("proj1", hidden, 5 * row), ("proj1_vf", hidden, 8 * row), ("proj2", hidden, hidden), ("proj3", tokens * width, hidden)):
        linear(f"audio_proj.{name}", rows, columns)
    norm("audio_proj.norm", width)
    for i in range(dit["num_layers"]):
        norm(f"blocks.{i}.norm_x", dim)
        linear(f"blocks.{i}.audio_cross_attn.q_linear", dim, dim)
        linear(f"blocks.{i}.audio_cross_attn.kv_linear", 2 * dim, width)
        linear(f"blocks.{i}.audio_cross_attn.proj", dim, dim)
    save_file({k: v.cpu() for k, v in out.items()}, path)


def make(folder, tiny, device):
    import torch
    import random_model
    import true_shape
    from diffusers import AutoencoderKLWan
    from transformers import CLIPVisionConfig, CLIPVisionModel, UMT5Config, UMT5EncoderModel, Wav2Vec2Config, Wav2Vec2Model
    start = time.time()
    dit, clip, ears = sizes(tiny)
    folder.mkdir(parents=True)
    torch.manual_seed(0)
    t5 = UMT5EncoderModel(UMT5Config(**{**true_shape.UMT5, "vocab_size": 512, "num_layers": 1, "num_heads": 2, "d_ff": 64}))
    vae = true_shape.randomise(AutoencoderKLWan(**(dict(base_dim=8) if tiny else {})))
    vae.decoder.conv_out.weight.data.mul_(0.06)  # frames with grain and not of noise, as in serve_models.py
    true_shape.save_diffusers(folder, random_model.make_transformer(dit), true_shape.randomise(t5), vae)
    with torch.device(device):
        seen, heard = true_shape.randomise(CLIPVisionModel(CLIPVisionConfig(**clip))), true_shape.randomise(Wav2Vec2Model(Wav2Vec2Config(**ears)))
    seen.save_pretrained(folder / "image_encoder")
    heard.save_pretrained(folder / "audio_encoder")
    c = heard.config
    make_branch(folder / "infinitetalk.safetensors", dit, c.hidden_size, c.num_hidden_layers, 12 if tiny else 512, 4 if tiny else 32, device)
    index = json.loads((folder / "model_index.json").read_text())
    index |= {"_class_name": "WanImageToVideoPipeline", "image_encoder": ["transformers", "CLIPVisionModel"], "image_processor": ["transformers", "CLIPImageProcessor"]}
    (folder / "model_index.json").write_text(json.dumps(index))
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    print(f"model made in {time.time() - start:.0f} s", flush=True)


def inputs(folder):
    """Makes a grey photo with grain, whose contrast the frames get by colour correction, and five seconds of a gliding tone."""
    import torch
    from PIL import Image
    gen = torch.Generator().manual_seed(1)
    Image.fromarray((128 + 5 * torch.randn(512, 512, 3, generator=gen)).byte().numpy()).save(folder / "photo.png")
    samples = [int(6000 * math.sin(0.05 * i + 9 * math.sin(i / 3000)) * abs(math.sin(i / 1700))) for i in range(FRAMES * 640 + 80)]
    data = struct.pack(f"<{len(samples)}h", *samples)
    (folder / "speech.wav").write_bytes(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) + b"data" + struct.pack("<I", len(data)) + data)


class Watch(threading.Thread):
    """Records the most memory that nvidia-smi shows while this object exists, in MiB above the first value."""
    def __init__(self):
        super().__init__(daemon=True)
        self.first, self.most, self.ended = self.used(), 0, threading.Event()
        self.start()

    @staticmethod
    def used():
        try:
            said = subprocess.run(["nvidia-smi", "-i", os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0], "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True).stdout
            return int(said.split()[0])
        except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
            return 0

    def run(self):
        while not self.ended.wait(0.2):
            self.most = max(self.most, self.used() - self.first)

    def end(self):
        self.ended.set()
        self.join()
        return self.most


def samples_hash(path):
    """Returns a hash of an mp4's mdat boxes, which hold its pictures and sound without the metadata."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while head := file.read(8):
            size, kind = struct.unpack(">I4s", head)
            size = struct.unpack(">Q", file.read(8))[0] - 16 if size == 1 else size - 8
            if kind == b"mdat":
                digest.update(file.read(size))
            else:
                file.seek(size, 1)
    return digest.hexdigest()


def table(report):
    """Prints the rows of LIST that were run."""
    print(f"{'size':>6} {'kind':<9} {'windows':<13} {'options':<18} {'load s':>7} {'loaded s':>9} {'asked':>9} {'denoise s':>10} {'speech s':>9} {'plan GiB':>9} {'seen GiB':>9}  samples")
    for r, (_, _, _, _, asked) in zip(report, LIST):
        said = f"{asked:.1f}" if not isinstance(asked, tuple) else f"{asked[0]:.2f}x"
        if "failed" in r:
            print(f"{r['row']:>6} {r['kind']:<9} {r['windows']:<13} {' '.join(r['more']):<18} FAILED {r['failed'][-300:]}")
            continue
        if isinstance(asked, tuple) and "loaded_s" in report[asked[1]]:
            said = f"{r['loaded_s'] / report[asked[1]]['loaded_s']:.3f}/{said}"
        stages = r["stages_s"]
        print(f"{r['row']:>6} {r['kind']:<9} {r['windows']:<13} {' '.join(r['more']):<18} {stages.get('load', 0):>7.2f} {r['loaded_s']:>9.2f} {said:>9} {stages.get('denoise', 0):>10.2f} "
              f"{stages.get('speech', 0):>9.2f} {r['plan_gib']:>9} {r['seen_gib']:>9}  {r['samples'][:16]}")


def run(binary, folder, size, kind, windows, device, more):
    width, height = SIZES[size]
    film = folder / f"out-{os.getpid()}.mp4"  # several processes may run at once
    command = [binary, "talk", "--photo", folder / "photo.png", "--audio", folder / "speech.wav", "--model", folder, "--infinitetalk", folder / "infinitetalk.safetensors",
               "--audio-encoder", folder / "audio_encoder", "--preset", "talk-3", "--size", f"{width}x{height}", "--windows", windows, "--device", device, "--json",
               *([] if kind == "f32" else ["--level", "aggressive"]), *KINDS[kind], *more, "-o", film]
    plan = subprocess.run([*map(str, command), "--plan"], capture_output=True, text=True)
    planned = next((e for e in map(json.loads, plan.stdout.splitlines()) if e["event"] == "plan"), {"peak_bytes": 0, "stages": []}) if plan.returncode == 0 else {"peak_bytes": 0, "stages": []}
    watch = Watch()
    start = last = time.time()
    stages, done, shares = {}, None, {}
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=errors, text=True)
        for line in child.stdout:
            now, event = time.time(), json.loads(line)
            if event["event"] == "progress":
                stages[event["stage"]] = stages.get(event["stage"], 0) + now - last
                last = now
            elif event["event"] == "done":
                done = event
            elif event["event"] == "profile":
                shares = event.get("device", event)["kinds_us"]
        code, seen = child.wait(), watch.end()
        errors.seek(0)
        said = errors.read()
    if code or done is None:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {code}: {said[-1500:]}")
    return {"row": size, "kind": kind, "windows": windows, "more": more, "plan_gib": round(planned["peak_bytes"] / 2**30, 2), "seen_gib": round(seen / 2**10, 2),
            "streamed": [x.get("streamed_blocks", 0) for x in planned["stages"]], "samples": samples_hash(film), "whole_s": round(time.time() - start, 2), "loaded_s": round(time.time() - start - stages.get("load", 0), 2),
            "stages_s": {k: round(v, 2) for k, v in stages.items()}, "end_s": round(time.time() - last, 2), "said": said[-400:],
            **({"device_ms": {k: round(v / 1000, 1) for k, v in shares.items()}} if shares else {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("--rows", nargs="+", default=["1024", "576", "512"], choices=SIZES)
    parser.add_argument("--kinds", nargs="+", default=["fp8-int8"], choices=KINDS)
    parser.add_argument("--windows", nargs="+", default=["infinitetalk"], choices=["infinitetalk", "even"])
    parser.add_argument("--models", type=pathlib.Path, help="where the model lies or is made (default: a temporary folder)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--make-only", action="store_true")
    parser.add_argument("--more", action="append", default=[], help="further options of each run, such as --more=--max-vram=22GiB; may be repeated")
    parser.add_argument("--list", action="store_true", help="the rows of LIST instead, and a table")
    parser.add_argument("--budget", type=float, default=1e9, help="with --list: seconds in all, the making of the model included; rows that would exceed it are left out")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    began = time.time()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.models or pathlib.Path(temporary)) / ("talk-tiny" if args.tiny else "talk-14b")
        if not (folder / "model_index.json").exists():
            make(folder, args.tiny, args.device)
        if not (folder / "speech.wav").exists():
            inputs(folder)
        report = []
        for size, kind, windows, more, asked in (LIST if args.list else ()):
            expected = (asked if not isinstance(asked, tuple) else 8) * 1.2 + 15
            if time.time() - began + expected > args.budget:
                report.append({"row": size, "kind": kind, "windows": windows, "more": more, "failed": "no time left"})
                continue
            try:
                report.append(run(args.ours, folder, *(("tiny", "f32") if args.tiny else (size, kind)), windows, args.device, more))
            except RuntimeError as e:
                report.append({"row": size, "kind": kind, "windows": windows, "more": more, "failed": str(e)})
            print(json.dumps(report[-1]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(report, indent=1))
        if args.list:
            table(report)
            sys.exit(any("failed" in r and r["failed"] != "no time left" for r in report))
        for size in () if args.make_only else ["tiny"] if args.tiny else args.rows:
            for kind in args.kinds if not args.tiny else ["f32"]:
                for windows in args.windows:
                    try:
                        report.append(run(args.ours, folder, size, kind, windows, args.device, args.more))
                    except RuntimeError as e:
                        report.append({"row": size, "kind": kind, "windows": windows, "failed": str(e)})
                    print(json.dumps(report[-1]), flush=True)
                    if args.json:
                        args.json.write_text(json.dumps(report, indent=1))
        for r in report:
            if "device_ms" in r:  # both for the transformer and for the VAE
                print(f"{r['row']} {r['kind']}: share of each kind of work on the GPU:", ", ".join(f"{k} {100 * v / sum(r['device_ms'].values()):.1f} %" for k, v in r["device_ms"].items()))
    if any("failed" in r for r in report):
        sys.exit(1)


if __name__ == "__main__":
    main()
