"""Asks ComfyUI and this server for the pictures of the same LoRAs: do both show the same one, or none?

    PYTHON tests/page_server/lora_pictures.py BUILD COMFYUI

COMFYUI is a checkout of Comfy-Org/ComfyUI, and PYTHON has torch, numpy, safetensors, einops, pillow and aiohttp. Of ComfyUI only the addresses under
/experiment/models run, by its own code (app/model_manager.py): they are what its page fetches such pictures from. No other part of ComfyUI is needed."""

import base64
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))

from server import Server  # noqa: E402

RED, GREEN, BLUE, YELLOW = (200, 20, 20), (20, 200, 20), (20, 20, 200), (200, 200, 20)
NEAR = 20  # levels of 255 that the same picture may differ by when it was encoded again
PORT = 18188


def picture(colour, kind="PNG"):
    out = io.BytesIO()
    Image.new("RGB", (32, 32), colour).save(out, kind)
    return out.getvalue()


def fill(folder):
    """Writes a LoRA of each way to have a picture, or none."""
    cover = {"ssmd_cover_images": json.dumps([base64.b64encode(picture(colour)).decode() for colour in (YELLOW, RED)])}
    beside = {"preview": {".preview.png": picture(RED)}, "plain": {".png": picture(GREEN)}, "cover": {}, "cover_and_file": {".png": picture(BLUE)},
              "both": {".preview.png": picture(RED), ".png": picture(GREEN)}, "none": {".txt": b"words"}, "other": {".thumbnail.png": picture(RED)},
              "broken": {".png": b"no picture"}, "dots.v1.2": {".preview.png": picture(GREEN)}}
    beside |= {f"as_{kind.lower()}": {f".preview.{kind.lower()}": picture(BLUE, kind)} for kind in ("JPEG", "WEBP", "GIF")}
    shapes, at = {"lora_A": [4, 384], "lora_B": [384, 4]}, 4 * 4 * 384
    for name, files in beside.items():
        header = {"__metadata__": cover if name.startswith("cover") else {}}
        for number, (part, shape) in enumerate(shapes.items()):
            header[f"transformer.blocks.0.attn1.to_q.{part}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [number * at, (number + 1) * at]}
        text = json.dumps(header).encode()
        (folder / f"{name}.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(2 * at))
        for ending, content in files.items():
            (folder / f"{name}{ending}").write_bytes(content)
    return sorted(beside)


def serve_as_comfyui(comfyui, folder):
    """Runs ComfyUI's addresses for models on PORT, with the LoRAs of this folder."""
    sys.path.insert(0, comfyui)
    sys.argv[1:] = ["--cpu"]  # its own modules read the command line
    import folder_paths
    from aiohttp import web
    from app.model_manager import ModelFileManager

    folder_paths.folder_names_and_paths["loras"][0][:] = [folder]
    routes, app = web.RouteTableDef(), web.Application()
    ModelFileManager().add_routes(routes)
    app.add_routes(routes)
    web.run_app(app, host="127.0.0.1", port=PORT, print=None)


def fetched(url):
    """Returns the colour of a picture's middle, or None where there is none."""
    try:
        with urllib.request.urlopen(url) as answer:
            return Image.open(io.BytesIO(answer.read())).convert("RGB").getpixel((16, 16))
    except urllib.error.HTTPError as error:
        assert error.code == 404, error
        return None


def main(build, comfyui):
    with tempfile.TemporaryDirectory() as folder:
        names = fill(pathlib.Path(folder))
        other = subprocess.Popen([sys.executable, __file__, "--comfyui", comfyui, folder])
        try:
            with Server(build, "--lora-dir", folder) as server:
                server.wait_ready()
                until = time.monotonic() + 600
                while True:
                    try:
                        fetched(f"http://127.0.0.1:{PORT}/nothing")
                        break
                    except urllib.error.URLError:
                        assert time.monotonic() < until and other.poll() is None, "ComfyUI does not answer"
                        time.sleep(0.2)
                same = 0
                for name in names:
                    theirs = fetched(f"http://127.0.0.1:{PORT}/experiment/models/preview/loras/0/{name}.safetensors")
                    ours = fetched(f"{server.base}/v1/loras/{name}/picture")
                    equal = (theirs is None) == (ours is None) and all(abs(a - b) < NEAR for a, b in zip(theirs or (), ours or ()))
                    same += equal
                    print(f"{name}: ComfyUI {theirs}, this server {ours}{'' if equal else '   DIFFERENT'}")
        finally:
            other.kill()
    print(f"{same} of {len(names)} are the same")
    sys.exit(same != len(names))


if __name__ == "__main__":
    if sys.argv[1] == "--comfyui":
        serve_as_comfyui(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
