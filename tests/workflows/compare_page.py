"""Compares what `tachyscope import` makes of files of ComfyUI's page with what it makes of the graphs that the page itself sends for them:

    python tests/workflows/compare_page.py http://127.0.0.1:8188 build/tachyscope MODELS FILE.json … [--pictures FOLDER]

The page of a ComfyUI that is up opens each file in a headless browser (playwright; TACHY_BROWSER is its path). Both imports must end alike: with the same job, or with
the same exit code and message. A file NAME.json with NAME.api.json beside it must be that graph. --pictures keeps a picture of each."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from playwright.sync_api import sync_playwright

READY = "() => window.app && window.app.graph && window.app.extensionManager"


def plain(graph):
    """audioUI is the page's player, which no node knows."""
    return {id: (node["class_type"], {k: v for k, v in node["inputs"].items() if k != "audioUI"}) for id, node in graph.items()}


def imported(program, models, path, text):
    path.write_text(text)
    done = subprocess.run([program, "import", str(path), "--models", models], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.replace(str(path), "FILE")


def main():
    pictures = None
    args = sys.argv[1:]
    if "--pictures" in args:
        at = args.index("--pictures")
        pictures = pathlib.Path(args[at + 1])
        del args[at:at + 2]
    address, program, models, *files = args
    wrong = []
    with sync_playwright() as p, tempfile.TemporaryDirectory() as scratch:
        browser = p.chromium.launch(executable_path=os.environ["TACHY_BROWSER"], args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        page.goto(address)
        page.wait_for_function(READY, timeout=120_000)
        page.wait_for_timeout(5000)
        for name in map(pathlib.Path, files):
            text = name.read_text()
            sent = page.evaluate("async file => { await app.loadGraphData(file); return (await app.graphToPrompt()).output }", json.loads(text))
            ours = imported(program, models, pathlib.Path(scratch) / "g.json", text)
            theirs = imported(program, models, pathlib.Path(scratch) / "g.json", json.dumps(sent))
            api = name.with_name(name.stem + ".api.json")
            same = ours == theirs and (not api.exists() or plain(sent) == plain(json.loads(api.read_text())))
            print("same " if same else "OTHER", ours[0], name.stem, flush=True)
            if not same:
                wrong.append(name.stem)
                print("  ", ours[2].strip(), "|", theirs[2].strip())
                if api.exists():
                    print(json.dumps(plain(sent)), "\n", json.dumps(plain(json.loads(api.read_text()))))
            if pictures:
                page.evaluate("() => { app.canvas.ds.reset(); app.canvas.fitViewToSelectionAnimated?.(); }")
                page.wait_for_timeout(1500)
                page.screenshot(path=str(pictures / f"{name.stem}.png"))
    if wrong:
        sys.exit(f"{len(wrong)} differ: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
