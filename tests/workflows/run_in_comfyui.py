"""Runs the example workflows in a ComfyUI that is up, with our nodes in it and the pictures and the sound of models/ in its folder input:

    cp models/talker/example/* COMFYUI/input; cp models/world/example/start.png COMFYUI/input/world.png
    python tests/workflows/run_in_comfyui.py http://127.0.0.1:8188 [NAME …]

It fails if one of them does not end with a video. With --cancel the first one is cancelled after its first step instead, and must end soon."""

import json
import pathlib
import sys
import time
import urllib.error
import urllib.request

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "comfyui"


def ask(address, path, body=None):
    request = urllib.request.Request(address + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        sys.exit(f"{path}: {error.code} {error.read().decode()}")


def finished(address, id):
    while not (entry := ask(address, f"/history/{id}").get(id)):
        time.sleep(0.5)
    return entry


def main():
    address, *names = [a for a in sys.argv[1:] if a != "--cancel"]
    for path in sorted(EXAMPLES.glob("*.api.json")):
        name = path.name.removesuffix(".api.json")
        if names and name not in names:
            continue
        begin = time.monotonic()
        id = ask(address, "/prompt", {"prompt": json.loads(path.read_text())})["prompt_id"]
        if "--cancel" in sys.argv:
            time.sleep(3)
            begin = time.monotonic()
            ask(address, "/interrupt", {})
        entry = finished(address, id)
        said = entry["status"]["status_str"]
        messages = [kind for kind, _ in entry["status"]["messages"]]
        print(name, said, f"{time.monotonic() - begin:.1f} s", messages[-1], flush=True)
        if "--cancel" in sys.argv:
            if "execution_interrupted" not in messages:
                sys.exit(f"{name} was not interrupted")
            return
        files = [image for output in entry["outputs"].values() for image in output.get("images", [])]
        if said != "success" or not files:
            sys.exit(f"{name}: {json.dumps(entry['status'], indent=1)}")
        print("  ", files[0]["filename"], flush=True)


if __name__ == "__main__":
    main()
