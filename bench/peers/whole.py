#!/usr/bin/env python3
"""Times ours and diffusers on a GPU from the prompt to the finished file, stage by stage, with models of true shape with random weights.

    python3 bench/peers/whole.py build/tachyscope [--rows 1.3b 5b] [--models FOLDER] [--repeats 2] [--ours-only] [--json FILE]

Ours is the whole process each time, `tachyscope generate … -o clip.mp4`: "file" is the time to encode and write the rest after the last frame has
been decoded. diffusers is one process that makes the video twice: the first call with its import, load and compilation is "cold", the second and its
export "warm". Attention is cuDNN's on both sides; 1.3b is compiled (compile_repeated_blocks). Since weights are random, the frames are noise, which
is the worst case for an encoder. The folders take 11.4 GB (umT5, shared) + 3.3 and 11.5 GB; with --models they are kept for later runs. Needs torch
with CUDA, diffusers, transformers and OpenCV (its export)."""
import argparse
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPT, NEGATIVE, SEED, GUIDANCE = "a cat on a skateboard", "blurry", 7, 5.0
ROWS = {"1.3b": dict(frames=81, height=480, width=832, steps=10, compile=True),
        "5b": dict(frames=121, height=704, width=1280, steps=4, compile=False),
        "tiny": dict(frames=5, height=64, width=64, steps=2, compile=False)}  # to try this script on any machine
DIT = dict(attention_head_dim=128, in_channels=16, out_channels=16, text_dim=4096, freq_dim=256, cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6)
DITS = {"1.3b": dict(DIT, num_attention_heads=12, ffn_dim=8960, num_layers=30),
        "5b": dict(DIT, num_attention_heads=24, ffn_dim=14336, num_layers=30, in_channels=48, out_channels=48),
        "tiny": dict(DIT, attention_head_dim=24, num_attention_heads=2, ffn_dim=64, num_layers=2, text_dim=64)}
UMT5 = dict(d_model=4096, d_ff=10240, num_layers=24, num_heads=64, d_kv=64, vocab_size=256384, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
TINY_UMT5 = dict(UMT5, d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16, vocab_size=8192)  # all ids of the shipped tokenizer
WAN22_VAE = dict(base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True, in_channels=12, out_channels=12, patch_size=2, scale_factor_spatial=16,
                 latents_mean=[0.0] * 48, latents_std=[1.0] * 48)


def make_model(folder, row, t5_folder, device):
    """Makes a folder in diffusers' layout; tokenizer and scheduler are those of the shipped model."""
    import torch
    from diffusers import AutoencoderKLWan, WanTransformer3DModel
    from transformers import UMT5Config, UMT5EncoderModel
    start = time.time()
    torch.manual_seed(0)
    folder.mkdir(parents=True)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = WanTransformer3DModel(**DITS[row])
    model.save_pretrained(folder / "transformer", max_shard_size="100GB")
    with open(f"{t5_folder}.lock", "w") as lock:  # another row may be making its model at the same time
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not t5_folder.exists():
            part = t5_folder.with_name(t5_folder.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            with torch.device(device):
                model = UMT5EncoderModel(UMT5Config(**(TINY_UMT5 if row == "tiny" else UMT5)))
            model.save_pretrained(part, max_shard_size="100GB")
            part.rename(t5_folder)
    torch.set_default_dtype(torch.float32)
    (folder / "text_encoder").symlink_to(t5_folder)
    with torch.device(device):
        model = AutoencoderKLWan(**(WAN22_VAE if row == "5b" else dict(base_dim=8) if row == "tiny" else {}))
    # Frames get grain of 4 or 5 of 255 (standard deviation), for otherwise they are noise, which takes an encoder longer than any film.
    model.decoder.conv_out.weight.data.mul_(0.12)
    model.to(torch.bfloat16 if row == "5b" else torch.float32).save_pretrained(folder / "vae")
    sprites = ROOT / "models/sprites"
    for part in ("tokenizer", "scheduler"):
        shutil.copytree(sprites / part, folder / part)
    index = json.loads((sprites / "model_index.json").read_text())
    index["expand_timesteps"] = row == "5b"
    (folder / "model_index.json").write_text(json.dumps(index))  # written last: a folder without it is made again
    print(f"{row}: model made in {time.time() - start:.0f} s", flush=True)


def run_ours(binary, folder, row, out, device):
    """Returns the seconds of each stage of one process, from the times at which its progress lines arrive."""
    shape = ROWS[row]
    command = [binary, "generate", PROMPT, "-n", NEGATIVE, "--model", folder, "--device", device, "--size", f"{shape['width']}x{shape['height']}", "--frames", shape["frames"],
               "--steps", shape["steps"], "--guidance", GUIDANCE, "--seed", SEED, "--json", "-o", out]
    start = last = time.time()
    stages, order, first, done = {}, [], None, None
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=errors, text=True)
        for line in child.stdout:
            now, event = time.time(), json.loads(line)
            if event["event"] == "progress":
                stage = event["stage"]
                if first is None:  # this is the time before the first stage began
                    first = stages["start"] = max(0.0, now - event["elapsed_seconds"] - start)
                    last = start + first
                stages[stage] = stages.get(stage, 0) + now - last
                last = now
            elif event["event"] == "done":
                stages["file"], last, done = now - last, now, event
        code = child.wait()
        errors.seek(0)
        if code or done is None:
            raise RuntimeError(f"{' '.join(map(str, command))}: exit code {code}: {errors.read()[-1500:]}")
    end = time.time()
    stages["end"] = end - last
    return {"whole_s": end - start, "stages_s": {name: round(value, 3) for name, value in stages.items()}, "file_mb": round(out.stat().st_size / 1e6, 1)}


def plan_of(binary, folder, row, device):
    """Returns the engine's plan from before the run: TFLOP and seconds of each stage."""
    shape = ROWS[row]
    command = [binary, "generate", PROMPT, "-n", NEGATIVE, "--model", folder, "--device", device, "--size", f"{shape['width']}x{shape['height']}", "--frames", shape["frames"],
               "--steps", shape["steps"], "--guidance", GUIDANCE, "--plan", "--json"]
    plan = json.loads(subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True).stdout)
    return {stage["stage"]: {"tflop": round(stage["flops"] / 1e12, 2), "seconds": round(stage["seconds"], 2)} for stage in plan["stages"]}


def run_peer(folder, row, device):
    """Runs in a process of its own and prints one JSON line."""
    start = time.time()
    import numpy
    import torch
    from diffusers import WanPipeline
    from diffusers.pipelines.wan import pipeline_wan
    if not hasattr(pipeline_wan, "ftfy"):  # the prompt does not need ftfy
        pipeline_wan.ftfy = type("ftfy", (), {"fix_text": staticmethod(lambda text: text)})
    shape, cuda = ROWS[row], device != "cpu"
    pipe = WanPipeline.from_pretrained(folder, torch_dtype=torch.bfloat16)
    if row != "5b":
        pipe.vae.to(torch.float32)  # diffusers' documentation does the same
    pipe.to(device)
    pipe.set_progress_bar_config(disable=True)
    if cuda:
        pipe.transformer.set_attention_backend("_native_cudnn")
    if shape["compile"]:
        pipe.transformer.compile_repeated_blocks(fullgraph=True)
    if cuda:
        torch.cuda.synchronize()
    figures = {"load_s": time.time() - start, "compiled": shape["compile"], "torch": torch.__version__}
    for name in ("first", "warm"):
        begin, times = time.time(), []

        def ended(*_):
            if cuda:
                torch.cuda.synchronize()
            times.append(time.time())
            return {}
        video = pipe(PROMPT, negative_prompt=NEGATIVE, num_inference_steps=shape["steps"], guidance_scale=GUIDANCE, height=shape["height"], width=shape["width"],
                     num_frames=shape["frames"], generator=torch.Generator("cpu").manual_seed(SEED), callback_on_step_end=lambda pipe, step, when, values: ended(), output_type="np").frames[0]
        made = time.time()
        export(video, numpy)
        figures[name] = {"call_s": made - begin, "denoise_s": times[-1] - begin, "decode_s": made - times[-1], "export_s": time.time() - made}
    figures["cold_s"] = time.time() - start - sum(figures["warm"][key] for key in ("call_s", "export_s"))
    figures["warm_s"] = figures["warm"]["call_s"] + figures["warm"]["export_s"]
    if cuda:
        figures["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print(json.dumps(figures), flush=True)


def export(video, numpy):
    """Does the same as diffusers' export_to_video with OpenCV: MPEG-4 part 2, at no stated quality."""
    import cv2
    with tempfile.TemporaryDirectory() as folder:
        writer = cv2.VideoWriter(os.path.join(folder, "peer.mp4"), cv2.VideoWriter_fourcc(*"mp4v"), 16, (video.shape[2], video.shape[1]))
        for frame in video:
            writer.write(numpy.ascontiguousarray((frame[..., ::-1] * 255).round().astype("uint8")))
        writer.release()


def table(row, plan, ours, peer):
    best = min(ours, key=lambda run: run["whole_s"])
    stages = best["stages_s"]
    print(f"\n{row}, {ROWS[row]['frames']}x{ROWS[row]['height']}x{ROWS[row]['width']}, {ROWS[row]['steps']} guided steps, seconds; file of {best['file_mb']} MB\n")
    print(f"| | {' | '.join(stages)} | whole |\n|{' --- |' * (len(stages) + 2)}")
    for run in ours:
        print(f"| ours | {' | '.join(format(run['stages_s'].get(name, 0), '.2f') for name in stages)} | {run['whole_s']:.2f} |")
    print("\nthe plan: " + ", ".join(f"{name} {stage['tflop']} TFLOP, {stage['seconds']} s" for name, stage in plan.items()))
    if peer:
        kind = "compiled" if peer["compiled"] else "eager"
        warm = peer["warm"]
        print(f"\ndiffusers, {kind}: import and load {peer['load_s']:.1f}; cold {peer['cold_s']:.1f}; warm call {warm['call_s']:.2f} (denoise {warm['denoise_s']:.2f}, decode {warm['decode_s']:.2f})"
              f" + export {warm['export_s']:.2f} = {peer['warm_s']:.2f}")
        print(f"ours, whole process, against its warm call and export: {peer['warm_s'] / best['whole_s']:.2f}x; against its cold process: {peer['cold_s'] / best['whole_s']:.2f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("--rows", nargs="+", default=["1.3b", "5b"], choices=ROWS)
    parser.add_argument("--models", type=pathlib.Path, help="where the model folders lie or are made (default: a temporary folder)")
    parser.add_argument("--repeats", type=int, default=2, help="processes of ours")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--make-only", action="store_true")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    parser.add_argument("--peer", nargs=2, metavar=("FOLDER", "ROW"), help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, metavar=("FOLDER", "ROW"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return run_peer(*args.peer, args.device)
    if args.make:
        folder = pathlib.Path(args.make[0])
        return make_model(folder, args.make[1], folder.parent / ("t5-tiny" if args.make[1] == "tiny" else "t5"), args.device)
    report, failed = {}, False
    with tempfile.TemporaryDirectory() as temporary:
        models = (args.models or pathlib.Path(temporary)).resolve()
        for row in args.rows:
            folder, myself = models / row, [sys.executable, __file__, args.ours, "--device", args.device]
            if not (folder / "model_index.json").exists():
                shutil.rmtree(folder, ignore_errors=True)
                subprocess.run([*myself, "--make", folder, row], check=True)  # its memory on the GPU is freed with the process
            if args.make_only:
                continue
            plan = plan_of(args.ours, folder, row, args.device)
            figures = report[row] = {"shape": ROWS[row], "plan": plan, "ours": [run_ours(args.ours, folder, row, pathlib.Path(temporary) / "clip.mp4", args.device) for _ in range(args.repeats)]}
            if not args.ours_only:
                done = subprocess.run([*myself, "--peer", folder, row], stdout=subprocess.PIPE, text=True)
                if done.returncode == 0:
                    figures["diffusers"] = json.loads(done.stdout.strip().splitlines()[-1])
                failed |= done.returncode != 0  # our figures are kept even then
            table(row, plan, figures["ours"], figures.get("diffusers"))
            if args.json:
                args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
