#!/usr/bin/env python3
"""Times whole warm requests of distilled models on a GPU, stage by stage: from one video's end to the next one's, in one process.

    python3 bench/peers/warm_requests.py build/tachyscope [--rows 1.3b-480 14b-480 14b-720 a14b-480 5b-704] [--requests 4] [--bf16] [--models FOLDER] [--json FILE]
    python3 bench/peers/warm_requests.py build/tachyscope --rows tiny --device cpu            # the script itself, anywhere, with the model that ships

Each row is one process of `tachyscope generate --prompt-file … --json` without guidance, whose first video is left out, since it loads the model. The seconds of
a stage are those between its events' arrivals; "file" is from the last decoded frame to the finished file, and "rest" is what lies between stages (the
JSON says before which). The table has the medians over the warm requests; the JSON has those of each denoising step, too. Weights are random and of true shape, so frames are noise, which is the worst case for an encoder.
bench/lab/serve_models.py makes all but 5b-704 (with --models they are kept); the folder of 5b-704 (Wan 2.2's TI2V-5B) must lie there as `5b`, as
bench/peers/whole.py makes it with diffusers; without it that row is left out, and a line says so."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EIGHT_BITS = ["--level", "extreme", "--attention", "int8", "--vae-math", "fp8"]
# model, size, frames, steps, further options, the peer's seconds and its name, the seconds asked for
ROWS = {"1.3b-480": ("1.3B", "832x480", 81, 4, EIGHT_BITS, "SGLang 2.5", 1.65),
        "14b-480": ("14B", "832x480", 81, 4, EIGHT_BITS, "LightX2V 14", 7.4),
        "14b-720": ("14B", "1280x720", 81, 4, EIGHT_BITS, "LightX2V 44", 29.0),
        "a14b-480": ("A14B", "832x480", 81, 4, EIGHT_BITS, "none", None),  # its third step has the change of experts
        "5b-704": ("5b", "1280x704", 121, 3, EIGHT_BITS, "SGLang 9.1", 4.0),
        "tiny": (None, "64x64", 5, 2, [], "none", None)}
MADE = {"1.3B", "14B", "A14B"}
STAGES = ["text", "load", "denoise", "decode", "file", "rest"]


def command_of(program, row, folder, device, prompts, out, bf16):
    model, size, frames, steps, more, _, _ = ROWS[row]
    if bf16 and more:
        more = ["--level", "aggressive"]
    return [program, "generate", "--prompt-file", prompts, *(["--model", folder / model] if model else []), "--device", device, "--size", size, "--frames", frames,
            "--steps", steps, "--guidance", 1, "--seed", 7, *more, "--json", "-o", out / "clip.mp4"]


def read_requests(lines, clock=time.monotonic):
    """Returns a dictionary of seconds for each request. `lines` are the program's events as text, in the order and at the time of their arrival."""
    requests, begin = [], clock()
    seconds, last, stage = dict.fromkeys(STAGES, 0.0), begin, None
    for line in lines:
        now, event = clock(), json.loads(line)
        if event["event"] == "progress":
            if event["stage"] == stage:
                seconds[stage] += now - last
                if stage == "denoise":
                    seconds[f"step {event['done']}"] = now - last
            else:  # time before a stage's first event belongs to no stage
                seconds["rest"] += now - last
                seconds[f"before {event['stage']}"] = now - last
            stage, last = event["stage"], now
        elif event["event"] == "done":
            seconds["file"] += now - last
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
            raise RuntimeError(f"{row}: exit code {code}, {len(requests)} of {count} videos: {errors.read()[-1000:]}")
    return {"cold": requests[0], "warm": {name: statistics.median(r[name] for r in requests[1:]) for name in requests[1]}}


def make_models(folder, rows):
    """Makes the folders that the rows need and serve_models.py can make, each with its own text encoder, unless they are there."""
    for model in sorted({ROWS[row][0] for row in rows} & MADE):
        if not (folder / model / model / "model_index.json").exists():
            subprocess.run([sys.executable, ROOT / "bench/lab/serve_models.py", folder / model, "--models", model], check=True)


def place_of(folder, row):
    model = ROWS[row][0]
    return folder / model if model in MADE else folder


def table(report):
    print("| row | " + " | ".join(STAGES) + " | whole | first | peer | asked |\n|" + " --- |" * (len(STAGES) + 5))
    for row, r in report.items():
        if "failed" in r:
            print(f"| {row} | {r['failed'][:300]} |")
            continue
        asked = ROWS[row][6]
        cells = [f"{r['warm'][name]:.3f}" for name in (*STAGES, "whole")]
        print(f"| {row} | {' | '.join(cells)} | {r['cold']['whole']:.2f} | {ROWS[row][5]} | {asked if asked else '–'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--rows", nargs="+", default=[row for row in ROWS if row not in ("tiny", "a14b-480")], choices=ROWS)
    parser.add_argument("--requests", type=int, default=4, help="videos of each row; the first one is not counted")
    parser.add_argument("--bf16", action="store_true", help="everything in bf16, in place of 8 bits")
    parser.add_argument("--models", type=pathlib.Path, help="where the models lie or are made (default: a temporary folder)")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    args = parser.parse_args()
    if args.requests < 2:
        parser.error("--requests: at least 2, since the first one is not counted")
    report = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.models or pathlib.Path(temporary)).resolve()
        make_models(folder, args.rows)
        for row in args.rows:
            place = place_of(folder, row)
            if row != "tiny" and not (place / ROWS[row][0] / "model_index.json").exists():
                report[row] = {"failed": f"left out: {ROWS[row][0]} does not lie in the folder of models"}
                continue
            try:
                report[row] = run(args.program, row, place, args.device, args.requests, args.bf16)
            except RuntimeError as error:
                report[row] = {"failed": str(error)}
            print(row, json.dumps(report[row]), flush=True)
            if args.json:
                args.json.write_text(json.dumps(report, indent=1))
    table(report)
    sys.exit(any("failed" in r for r in report.values()))


if __name__ == "__main__":
    main()
