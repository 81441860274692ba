#!/usr/bin/env python3
"""Makes the table of whole requests on a GPU: warm requests of distilled models and talking photos, stage by stage; steps of a model that was trained with
sparse attention; decodes alone. Beside each stand what peers publish and what was asked for.

    python3 bench/peers/whole_requests.py build/tachyscope [--ours-gpu build/bench/peers/ours_gpu] [--rows 1.3b-480 …] [--requests 4] [--models FOLDER]
                                          [--json FILE]
    python3 bench/peers/whole_requests.py build/tachyscope --rows tiny --device cpu         # the script itself, anywhere, with the model that ships

A row of requests is one process of `tachyscope generate --prompt-file … --json` (or `talk`) without guidance, whose first video is left out, since it
loads the model. A request lasts from one video's end to the next one's. The seconds of a stage are those between its events' arrivals; "file" is from
the last decoded frame to the finished file, and "rest" is what lies between stages (the JSON says before which, and has each denoising step). The table
has medians. Steps of `vsa` rows are those of bench/peers/trained.py, and decodes are timed by OURS_GPU, as bench/peers/gpu.py does it.

Weights are random and of true shape. Frames have grain, which an encoder takes like a film's. Models of Wan 2.1 and A14B
are made by bench/lab/serve_models.py. TI2V-5B, talking photos and decodes need torch and diffusers, which make theirs (bench/peers/whole.py, talk.py,
gpu.py); where these are missing, the rows say so. With --models they are kept. Models are removed as soon as no row needs them if --tidy is given."""
import argparse
import importlib.util
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LAB = HERE.parent / "lab"
EIGHT_BITS = ["--level", "extreme", "--attention", "int8", "--vae-math", "fp8"]
BF16 = ["--level", "aggressive"]
TALK = [*BF16, "--math", "fp8", "--attention", "int8", "--vae-math", "fp8"]
VSA = [*BF16, "--math", "fp8", "--vae-math", "fp8"]  # attention over cubes is in bf16
# model, size, frames, steps, further options, the peer's seconds and its name, the seconds asked for
ROWS = {"1.3b-480": ("1.3B", "832x480", 81, 4, EIGHT_BITS, "SGLang 2.5", 1.65),
        "14b-480": ("14B", "832x480", 81, 4, EIGHT_BITS, "LightX2V 14", 7.4),
        "14b-720": ("14B", "1280x720", 81, 4, EIGHT_BITS, "LightX2V 44", 29.0),
        "a14b-480": ("A14B", "832x480", 81, 4, EIGHT_BITS, "none", None),  # its third step has the change of experts
        "5b-704": ("5b", "1280x704", 121, 3, EIGHT_BITS, "SGLang 9.1", 4.0),
        "talk-512": ("talk-14b", "512x512", None, 3, TALK, "none", 8.5),
        "talk-1024": ("talk-14b", "1024x1024", None, 3, TALK, "none", 56.0),
        "1.3b-vsa": ("1.3B-VSA", "832x480", 81, 3, VSA, "none", 1.15),
        "tiny": (None, "64x64", 5, 2, [], "none", None)}
# model, size, share of the cubes (as FastWan's of that size were trained), options, seconds of three steps: the peer's, asked for
SPARSE_ROWS = {"vsa-1.3b": ("1.3B", "832x480", 0.2, "", "FastVideo 0.98", 0.75),
               "vsa-1.3b-fp8": ("1.3B", "832x480", 0.2, "--math fp8", "FastVideo 0.98", 0.75),
               "vsa-14b": ("14B", "1280x720", 0.1, "--math fp8", "FastVideo 13", 11.0)}
# VAE, size as bench/peers/gpu.py has it, milliseconds asked for in bf16 and in 8 bits
DECODE_ROWS = {"decode-2.2": ("2.2", "704p", 2700, 1800), "decode-480": ("2.1", "480p", 400, None), "decode-720": ("2.1", "720p", 990, None)}
MADE = {"1.3B", "14B", "A14B", "1.3B-VSA"}
STAGES = ["text", "load", "denoise", "decode", "file", "rest"]


def command_of(program, row, folder, device, prompts, out, bf16):
    model, size, frames, steps, more, _, _ = ROWS[row]
    if bf16 and more:
        more = BF16
    place = folder / model if model else None
    common = ["--prompt-file", prompts, "--device", device, "--size", size, "--seed", 7, *more, "--json", "-o", out / "clip.mp4"]
    if row.startswith("talk"):
        return [program, "talk", "--photo", place / "photo.png", "--audio", place / "speech.wav", "--model", place, "--infinitetalk",
                place / "infinitetalk.safetensors", "--audio-encoder", place / "audio_encoder", "--preset", f"talk-{steps}", *common]
    return [program, "generate", *(["--model", place] if place else []), "--frames", frames, "--steps", steps, "--guidance", 1, *common]


def read_requests(lines, clock=time.monotonic):
    """Returns a dictionary of seconds for each request. `lines` are the program's events as text, in the order and at the time of their arrival."""
    requests, begin = [], clock()
    seconds, last, stage = dict.fromkeys(STAGES, 0.0), begin, None

    def add(name, value):
        seconds[name] = seconds.get(name, 0.0) + value

    for line in lines:
        now, event = clock(), json.loads(line)
        if event["event"] == "progress":
            if event["stage"] == stage:
                add(stage, now - last)
                if stage == "denoise":
                    seconds[f"step {event['done']}"] = now - last
            else:  # time before a stage's first event belongs to no stage
                add("rest", now - last)
                add(f"before {event['stage']}", now - last)
            stage, last = event["stage"], now
        elif event["event"] == "done":
            add("file", now - last)
            requests.append({**seconds, "whole": now - begin})
            seconds, begin, last, stage = dict.fromkeys(STAGES, 0.0), now, now, None
    return requests


def run(program, row, folder, device, count, bf16):
    with tempfile.TemporaryDirectory() as temporary, tempfile.TemporaryFile("w+") as errors:
        out = pathlib.Path(temporary)
        prompts = out / "prompts.txt"
        prompts.write_text("".join(f"a cat on a skateboard, take {i}\n" for i in range(count)))
        child = subprocess.Popen([str(word) for word in command_of(program, row, folder, device, prompts, out, bf16)], stdout=subprocess.PIPE, stderr=errors, text=True)
        requests = read_requests(child.stdout)
        code = child.wait()
        errors.seek(0)
        if code or len(requests) != count:
            raise RuntimeError(f"exit code {code}, {len(requests)} of {count} videos: {errors.read()[-1000:]}")
    names = {name for r in requests[1:] for name in r}
    return {"cold": requests[0], "warm": {name: statistics.median(r.get(name, 0.0) for r in requests[1:]) for name in sorted(names)}}


def script(name, *words):
    """Runs another script and returns what it prints."""
    done = subprocess.run([sys.executable, str(name), *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{name.name}: exit code {done.returncode}: {done.stdout[-1000:]}")
    return done.stdout


def place_of(program, folder, row, device):
    """Returns the folder in which the row's model lies; makes the model unless it is there."""
    model = ROWS[row][0]
    if model is None:
        return folder
    place = folder / model if model in MADE else folder
    if (place / model / "model_index.json").exists() and (model != "talk-14b" or (place / model / "speech.wav").exists()):
        return place
    if model in MADE:
        script(LAB / "serve_models.py", place, "--models", model)
    elif importlib.util.find_spec("diffusers") is None:
        raise RuntimeError("left out: diffusers, which makes its model, is not installed")
    elif model == "5b":
        script(HERE / "whole.py", program, "--rows", "5b", "--make-only", "--models", folder)
    else:
        script(HERE / "talk.py", program, "--make-only", "--models", folder, "--device", device)
    return place


def run_sparse(program, row, device):
    model, size, share, options, _, _ = SPARSE_ROWS[row]
    said = script(HERE / "trained.py", program, "--model", model, "--size", size, "--shares", share, "--steps", "6", f"--options={options}", "--device", device)
    return {"step": float(re.search(r"a step ([\d.]+) ms", said).group(1)) / 1e3}


def run_decode(ours_gpu, row):
    vae, size, _, _ = DECODE_ROWS[row]
    if ours_gpu is None or importlib.util.find_spec("diffusers") is None:
        raise RuntimeError("left out: it needs --ours-gpu and diffusers")
    out = {}
    for dtype in ("bf16", "fp8"):
        said = script(HERE / "gpu.py", ours_gpu, "--what", "decode", "--size", size, "--vae", vae, "--dtype", dtype, "--repeats", "3", "--ours-only")
        out[dtype] = float(re.search(r"median ([\d.]+) ms", said).group(1))
    return out


def tables(report):
    failed = {row: r["failed"] for row, r in report.items() if "failed" in r}
    ran = {row: r for row, r in report.items() if row not in failed}
    if any(row in ROWS for row in ran):
        print("| row | " + " | ".join(STAGES) + " | whole | first | peer | asked |\n|" + " --- |" * (len(STAGES) + 5))
    for row, r in ran.items():
        if row in ROWS:
            cells = [f"{r['warm'][name]:.3f}" for name in (*STAGES, "whole")]
            print(f"| {row} | {' | '.join(cells)} | {r['cold']['whole']:.2f} | {ROWS[row][5]} | {ROWS[row][6] or '–'} |")
    if any(row in SPARSE_ROWS for row in ran):
        print("\n| row | a step, s | three steps | peer | asked |\n| --- | --- | --- | --- | --- |")
    for row, r in ran.items():
        if row in SPARSE_ROWS:
            print(f"| {row} | {r['step']:.4f} | {3 * r['step']:.3f} | {SPARSE_ROWS[row][4]} | {SPARSE_ROWS[row][5]} |")
    if any(row in DECODE_ROWS for row in ran):
        print("\n| row | bf16, ms | asked | 8 bits, ms | asked |\n| --- | --- | --- | --- | --- |")
    for row, r in ran.items():
        if row in DECODE_ROWS:
            print(f"| {row} | {r['bf16']:.1f} | {DECODE_ROWS[row][2]} | {r['fp8']:.1f} | {DECODE_ROWS[row][3] or '–'} |")
    for row, why in failed.items():
        print(f"{row}: {why[:400]}")
    return bool(failed)


def main():
    every = [*(row for row in ROWS if row != "tiny"), *SPARSE_ROWS, *DECODE_ROWS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--ours-gpu", type=pathlib.Path, help="bench/peers/ours_gpu of a build, for the decodes")
    parser.add_argument("--rows", nargs="+", default=every, choices=[*every, "tiny"])
    parser.add_argument("--requests", type=int, default=4, help="videos of each row; the first one is not counted")
    parser.add_argument("--bf16", action="store_true", help="requests with everything in bf16, in place of 8 bits")
    parser.add_argument("--models", type=pathlib.Path, help="where the models lie or are made (default: a temporary folder)")
    parser.add_argument("--tidy", action="store_true", help="remove each model after its last row")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    args = parser.parse_args()
    if args.requests < 2:
        parser.error("--requests: at least 2, since the first one is not counted")
    report = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.models or pathlib.Path(temporary)).resolve()
        for i, row in enumerate(args.rows):
            try:
                if row in ROWS:
                    place = place_of(args.program, folder, row, args.device)
                    report[row] = run(args.program, row, place, args.device, args.requests, args.bf16)
                else:
                    report[row] = run_sparse(args.program, row, args.device) if row in SPARSE_ROWS else run_decode(args.ours_gpu, row)
            except RuntimeError as error:
                report[row] = {"failed": str(error)}
            print(row, json.dumps(report[row]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(report, indent=1))
            model = ROWS.get(row, (None,))[0]
            if args.tidy and model and not any(ROWS.get(later, (None,))[0] == model for later in args.rows[i + 1:]):
                shutil.rmtree(folder / model, ignore_errors=True)
    sys.exit(tables(report))


if __name__ == "__main__":
    main()
