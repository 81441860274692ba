#!/usr/bin/env python3
"""Makes the table of one video on all cards of a host, beside one of them in the same run: steps, whole runs, the decoder, and repetitions.

    bench/lab/cards_table.py BUILD [--cards 8] [--models FOLDER] [--rows ROW …] [--seconds 1500] [--json FILE]
    bench/lab/cards_table.py BUILD --tiny                       the script itself: two ranks on a CPU, with the shipped model

Models of true shape with random weights are made by serve_models.py in FOLDER (a temporary one by default; about 75 GB), each one when a row needs it. Rows run
in the order of ROWS, and each one is printed as it ends. A row that no longer fits into --seconds is left out and named. "asked" is for eight cards. A factor
is the median step of one card over that of all, and latents are compared with one card's. Needs numpy."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import typing

import numpy as np
from several_gpus import run

HERE = pathlib.Path(__file__).resolve().parent
BITS8 = "--math fp8 --attention int8"
LARGE = "--size 1280x720 --frames 81"


class Row(typing.NamedTuple):
    kind: str  # factor: steps beside one card's; whole: seconds of the process; steps: seconds of the last four; decode; repetitions
    model: str
    options: str
    asked: float
    aim: float
    usual: int  # seconds that it takes on eight H200s with its model made


ROWS = {
    "unguided": Row("factor", "14B", f"{LARGE} --steps 3 --guidance 1 --parallel cfg=1,ulysses=N", 7.3, 7.7, 80),
    "guided": Row("factor", "14B", f"{LARGE} --steps 3 --guidance 5 --parallel cfg=2,ulysses=H", 7.5, 7.8, 110),
    "unguided-8bit": Row("factor", "14B", f"{LARGE} --steps 3 --guidance 1 --parallel cfg=1,ulysses=N {BITS8}", 7.0, 7.5, 70),
    "480p-8bit": Row("steps", "14B", f"--size 832x480 --frames 81 --steps 6 --guidance 1 --parallel cfg=1,ulysses=N {BITS8}", 1.0, 0.9, 25),
    "decode": Row("decode", "1.3B", f"{LARGE} --steps 2 --guidance 1 --reps 3 --decode 1", 0.22, 0.16, 40),
    "repetitions": Row("repetitions", "sprites", "--size 128x128 --frames 9 --steps 2 --reps 50 --decode 1", 0, 0, 40),
    "a14b-8bit": Row("whole", "A14B", f"{LARGE} --steps 40 --vae-math fp8 {BITS8}", 85, 75, 130),
    "a14b": Row("whole", "A14B", f"{LARGE} --steps 40", 110, 99, 160)}


def words_of(row, args):
    """Returns the row's options, with the number of cards (N) and half of it (H) in place."""
    text = row.options.replace("ulysses=N", f"ulysses={args.cards}").replace("ulysses=H", f"ulysses={max(1, args.cards // 2)}")
    if args.tiny:  # what a CPU can do of it
        text = text.replace(BITS8, "").replace("--vae-math fp8", "").replace("--steps 40", "--steps 3")
        text = re.sub(r"--frames \d+", "--frames 9", re.sub(r"--size \S+", "--size 128x128", text))
    return " ".join(text.split())


def place(count, args):
    return f"cpu{count}" if args.tiny else str(count)


def model_of(row, args, models):
    sprites = HERE.parents[1] / "models" / "sprites"
    if args.tiny or row.model == "sprites":
        return sprites
    if not (models / row.model).exists():
        subprocess.run([sys.executable, HERE / "serve_models.py", models, "--models", row.model], check=True, stdout=subprocess.DEVNULL)
    return models / row.model


def video(row, count, args, model, folder):
    """Makes a clip and returns the seconds of its steps, the whole seconds, and its latents."""
    moments, _, seconds, latents, _ = run(str(args.build / "tachyscope"), place(count, args), f"--model {model} {words_of(row, args)}", folder)
    if isinstance(latents, str):
        raise RuntimeError(latents.strip()[-400:])
    return [after - before for before, after in zip(moments, moments[1:])], seconds, latents


def repeated(row, count, args, model):
    """Runs bench/lab/repeat and returns what it printed."""
    stress = {"TACHY_STRESS": "7", "TACHY_RANK_DECODE": "rows"} if row.kind == "repetitions" else {}
    words = words_of(row, args).replace("--reps 50", "--reps 3") if args.tiny else words_of(row, args)
    placed = ["--device", "cpu"] if args.tiny else ["--gpus", str(count)]
    done = subprocess.run([args.build / "bench/lab/repeat", model, *words.split(), "--level", "aggressive", *placed], capture_output=True, text=True, env={**os.environ, **stress})
    if not re.search(r"\d+ repetitions in", done.stdout):
        raise RuntimeError((done.stdout + done.stderr).strip()[-400:])
    return done.stdout


def measure(row, args, model, folder):
    """Returns a row's figures."""
    if row.kind == "factor":
        alone, _, one = video(row._replace(options=row.options.split(" --parallel")[0] + (f" {BITS8}" if BITS8 in row.options else "")), 1, args, model, folder)
        taken, _, all_of = video(row, args.cards, args, model, folder)
        far = 0.0 if np.array_equal(one, all_of) else float(np.sqrt(np.mean((one - all_of) ** 2) / np.mean(one ** 2)))
        return {"one_s": statistics.median(alone), "all_s": statistics.median(taken), "factor": statistics.median(alone) / statistics.median(taken), "latents_differ_by": far}
    if row.kind in ("whole", "steps"):
        taken, seconds, _ = video(row, args.cards, args, model, folder)
        return {"all_s": sum(taken[-4:]) if row.kind == "steps" else seconds, "steps_s": taken[-4:]}
    if row.kind == "decode":
        one, several = ([float(s) for s in re.findall(r"decode ([\d.]+)", repeated(row, count, args, model))] for count in (1, args.cards))
        return {"one_s": min(one), "all_s": min(several), "factor": min(one) / min(several)}
    last = repeated(row, args.cards, args, model).strip().splitlines()[-1]
    return {"said": last, "differ": int(re.search(r"(\d+) differ", last).group(1))}


def told(name, row, figures):
    """Returns a row of the table."""
    if "failed" in figures:
        return f"{name:16} failed: {figures['failed']}"
    if row.kind == "repetitions":
        return f"{name:16} {figures['said']}"
    factor = f"{figures['factor']:.2f} times of {figures['one_s']:.3f} s" if "factor" in figures else ""
    asked = f"asked {row.asked:g}{'' if row.kind == 'factor' else ' s'} (aim {row.aim:g})"
    apart = figures.get("latents_differ_by")
    latents = "" if apart is None else "equal latents" if apart == 0 else f"latents differ by {apart:.1e} of their RMS"
    return f"{name:16} {figures['all_s']:9.3f} s  {factor:28} {asked:24} {latents}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--cards", type=int, default=8)
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seconds", type=float, default=1500)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--tiny", action="store_true", help="two ranks on a CPU with the shipped model: no figure of it means anything")
    args = parser.parse_args()
    if args.tiny:
        args.cards = 2
    start, figures = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for row_name in args.rows:
            row = ROWS[row_name]
            if time.monotonic() - start + (0 if args.tiny else row.usual) > args.seconds:
                print(f"{row_name:16} left out: no time left", flush=True)
                continue
            try:
                figures[row_name] = measure(row, args, model_of(row, args, args.models or folder / "models"), folder)
            except (RuntimeError, OSError, ValueError, subprocess.CalledProcessError) as error:
                figures[row_name] = {"failed": str(error)}
            print(told(row_name, row, figures[row_name]), flush=True)
            if args.json:
                args.json.write_text(json.dumps({"cards": args.cards, "rows": figures}, indent=1) + "\n")
    failed = [row for row in args.rows if row not in figures or "failed" in figures[row] or figures[row].get("differ")]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
