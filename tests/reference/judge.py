"""Runs the shipped model on its held-out captions in this engine (and with --reference in diffusers with the same seeds). training/judge.py gives the
percentages of attributes that are right.

    tests/reference/run --judge build/tachyscope [--limit 240] [--reference]
    python3 tests/reference/judge.py build/bench/peers/clips --clips cuda --dtype bf16    # all clips in one process, on a GPU"""

import argparse
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "training"))
import judge  # noqa: E402


def engine_clips(binary, model, items, extra):
    with tempfile.TemporaryDirectory() as folder:
        for i, item in enumerate(items):
            target = pathlib.Path(folder) / f"{i:03d}"
            target.mkdir()
            subprocess.run([binary, "generate", "--prompt", item["caption"], "--model", str(model), "--seed", str(i), "-q", "-o", f"{target}/", *extra],
                           check=True)
            yield judge.load(str(target))


def clips_of_one_process(binary, model, items, device, dtype):
    """Makes all clips with bench/peers/clips, which loads the model once."""
    import numpy as np
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "prompts.txt").write_text("\n".join(item["caption"] for item in items) + "\n", encoding="utf-8")
        done = subprocess.run([binary, str(model), device, dtype, "1", str(folder / "prompts.txt"), str(folder / "out.rgb")], check=True, stdout=subprocess.PIPE,
                              text=True)
        frames, height, width = map(int, done.stdout.splitlines()[0].split())
        yield from np.fromfile(folder / "out.rgb", np.uint8).reshape(len(items), frames, height, width, 3)


def reference_clips(model, items):
    import numpy as np
    import torch
    from diffusers import WanPipeline
    defaults = json.loads((model / "generation_config.json").read_text())
    pipe = WanPipeline.from_pretrained(model, torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    for i, item in enumerate(items):
        out = pipe(prompt=item["caption"], negative_prompt=defaults.get("negative_prompt", ""), height=defaults["height"], width=defaults["width"],
                   num_frames=defaults["num_frames"], num_inference_steps=defaults["num_inference_steps"],
                   guidance_scale=defaults["guidance_scale"], output_type="np", generator=torch.Generator("cpu").manual_seed(i)).frames[0]
        yield np.round(np.asarray(out) * 255).astype(np.uint8)


def judged(name, clips, items):
    start, scores = time.time(), []
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # for each of the pool's processes
    pool = multiprocessing.get_context("spawn").Pool()
    for i, (seen, item) in enumerate(zip(pool.imap(judge.look, clips), items)):
        scores.append(judge.score(seen, item["scene"]))
        if any(a != b for a, b in scores[-1].values()):
            print(f"  {name} {i:03d} {item['caption']} -> {seen['count']}: " +
                  ", ".join(f"{o['colour']} {o['shape']} {o['motion']}" for o in seen["objects"]), flush=True)
    pool.terminate()
    table = judge.table(scores)
    print(f"{name}: {json.dumps(table)} {time.time() - start:.0f} s", flush=True)
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "models" / "sprites")
    parser.add_argument("--limit", type=int, default=240)
    parser.add_argument("--at-least", type=float, default=95.0, help="per cent of attributes that must be right")
    parser.add_argument("--clips", metavar="DEVICE", help="BINARY is bench/peers/clips; cpu, cuda, cuda:1 ...")
    parser.add_argument("--dtype", default="default", help="with --clips: f32, bf16")
    parser.add_argument("--reference", action="store_true", help="also run diffusers and demand a difference of at most one point")
    args, extra = parser.parse_known_args()
    items = json.loads((args.model / "heldout.json").read_text(encoding="utf-8"))[:args.limit]
    clips = clips_of_one_process(args.binary, args.model, items, args.clips, args.dtype) if args.clips else engine_clips(args.binary, args.model, items, extra)
    ours = judged("engine", clips, items)
    failed = int(ours["all"] < args.at_least)
    if args.reference:
        theirs = judged("diffusers", reference_clips(args.model, items), items)
        failed += int(abs(ours["all"] - theirs["all"]) > 1.0)
    print(f"{2 - failed if args.reference else 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
