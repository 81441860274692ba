"""Imports and plans all of ComfyUI's Wan templates and prints a table for docs/comfyui-templates.md:

    pip download --no-deps comfyui-workflow-templates==0.1.94 && unzip comfyui_workflow_templates-*.whl -d TEMPLATES
    python tests/workflows/hollow.py HOLLOW/models --comfyui COMFYUI --spiece models/sprites/tokenizer/spiece.model
    python tests/workflows/templates.py TEMPLATES/comfyui_workflow_templates/templates build/tachyscope HOLLOW/models

A picture or video that a template names and that is not in the folder is made of one colour. It fails if a template is refused with another exit
code than 5, or without the number of a node, or if one that was imported cannot be planned for a reason that is not an exit code 2 or 5.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from PIL import Image


def files_of(graph, kind):
    nodes = graph["nodes"] + [n for s in graph.get("definitions", {}).get("subgraphs", []) for n in s["nodes"]]
    return {n["widgets_values"][0] for n in nodes if n["type"] == kind and n.get("widgets_values")}


def make_input(path, name):
    """Makes what a template loads, of one colour, if it is not there: a picture, or a video, which is an animated GIF under any name."""
    if path.exists() or ".." in name:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.new("RGB", (64, 64), (200, 120, 40))
    if path.suffix in (".mp4", ".webm", ".mov"):
        frames = [Image.new("RGB", (64, 64), (200, i, 40)) for i in range(1, 100)]
        picture.save(path, format="GIF", save_all=True, append_images=frames, duration=60)
    else:
        picture.save(path)


def main():
    folder, program, models = sys.argv[1:]
    env, wrong = os.environ | {"TACHY_DEVICE": "cpu"}, []
    print("| template | imported | planned, or the reason |\n| --- | --- | --- |")
    counts = {"planned": 0, "refused": 0, "imported only": 0}
    for path in sorted(pathlib.Path(folder).glob("*wan*.json")):
        graph = json.loads(path.read_text())
        for name in files_of(graph, "LoadImage") | files_of(graph, "LoadVideo"):
            make_input(pathlib.Path(models).parent / "input" / name.removesuffix(" [input]"), name)
        with tempfile.TemporaryDirectory() as scratch:
            job = f"{scratch}/job.json"
            done = subprocess.run([program, "import", str(path), "--models", models, "-o", job], capture_output=True, text=True, env=env)
            said = done.stderr.strip().splitlines()
            if done.returncode:
                reason = said[-1].removeprefix("tachyscope: ")
                if done.returncode != 5 or not re.match(r"node [\d:]+ \w+|no node SaveVideo", reason):
                    wrong.append((path.name, done.returncode, reason))
                counts["refused"] += 1
                print(f"| `{path.stem}` | no | {reason.replace('|', '/')} |", flush=True)
                continue
            plan = subprocess.run([program, "generate", "--from", job, "--plan", "--json"], capture_output=True, text=True, env=env)
            if plan.returncode:
                reason = plan.stderr.strip().splitlines()[-1].removeprefix("tachyscope: ").replace(models, "models")
                if plan.returncode not in (2, 5):
                    wrong.append((path.name, plan.returncode, reason))
                counts["imported only"] += 1
                print(f"| `{path.stem}` | yes | no: {reason} |", flush=True)
                continue
            peak = json.loads(plan.stdout)["peak_bytes"]
            counts["planned"] += 1
            print(f"| `{path.stem}` | yes | {peak / 2**30:.1f} GiB |", flush=True)
    print(counts, file=sys.stderr)
    if wrong:
        sys.exit("\n".join(map(str, wrong)))


if __name__ == "__main__":
    main()
