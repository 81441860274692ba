"""The engine in ComfyUI's own process."""

import pathlib
import subprocess
import tempfile

from . import host, values, watch
from .memory import Held


class LocalEngine:
    """A model for the nodes. It is opened when a node first needs it, closed when ComfyUI wants its memory, and opened again.

    model: a path, or None for the model that ships; loras: as the engine takes them; options: of tachyscope.Engine."""

    def __init__(self, model=None, loras=(), **options):
        import tachyscope
        self._package = tachyscope
        self.model, self._loras, self._options = model, list(loras), options
        self._engine = None
        device = "cpu" if options.get("device") == "cpu" else host.management().get_torch_device()
        self.held = Held(device, self._close)

    def _close(self):
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _opened(self):
        if self._engine is None:
            self._engine = self._package.Engine(self.model, loras=self._loras, **self._options)
        return self._engine

    def make(self, prompt, **fields):
        """Returns (IMAGE, frames a second). fields: of tachyscope.Engine.generate. Raises what the engine raises, and
        ComfyUI's InterruptProcessingException."""
        package, held = self._package, self.held
        plan = self._opened().plan(prompt, **fields)
        held.busy = True
        try:
            held.size = plan.bytes
            host.management().load_models_gpu([held])
            stream = self._opened().stream(prompt, preview=True, **fields)
            frames = watch.frames_of(stream, package.Progress, package.Preview, package.Frame)
        finally:
            held.busy = False
        return values.batch(frames), plan.fps

    def encode(self, images):
        """Returns latents [1, channels, frames, height, width] on the VAE's own scale, as ComfyUI's."""
        from safetensors.torch import load_file
        with tempfile.TemporaryDirectory() as folder:
            _write_pictures(images, pathlib.Path(folder) / "in")
            out = f"{folder}/latents.safetensors"
            self._vae("encode", f"{folder}/in", out)
            latents = load_file(out)["latents"]
            return latents.reshape(1, *latents.shape[-4:])

    def decode(self, latents):
        """Returns an IMAGE of latents as `encode` gives them."""
        import numpy as np
        from PIL import Image
        from safetensors.torch import save_file
        if latents.ndim != 5 or latents.shape[0] != 1:
            raise ValueError(f"samples: expected the latents of one video, [1, channels, frames, height, width], got {list(latents.shape)}")
        with tempfile.TemporaryDirectory() as folder:
            save_file({"latents": latents[0].detach().cpu().float().contiguous()}, f"{folder}/latents.safetensors")
            self._vae("decode", f"{folder}/latents.safetensors", f"{folder}/out/")
            return values.batch([np.array(Image.open(p).convert("RGB")) for p in sorted(pathlib.Path(folder, "out").glob("*.png"))])

    def _vae(self, what, source, target):
        """Runs `tachyscope vae`, which the package brings along, and ends it when the user cancels."""
        vae = self._options.get("vae") or self.model
        command = [program(self._package), "vae", what, source, "-o", target, "--raw", *(["-m", str(vae)] if vae else []),
                   *(["--device", self._options["device"]] if self._options.get("device") else [])]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
            while True:
                try:
                    host.throw_if_cancelled()
                    _, said = run.communicate(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    continue
                except BaseException:
                    run.kill()
                    raise
        if run.returncode:
            raise RuntimeError(said.strip().splitlines()[-1] if said.strip() else f"tachyscope vae ended with {run.returncode}")


def program(package):
    """Returns the program of a wheel, or the one in PATH. Raises FileNotFoundError if there is neither."""
    import shutil
    inside = pathlib.Path(package.__file__).parent / "bin" / "tachyscope"
    found = str(inside) if inside.exists() else shutil.which("tachyscope")
    if not found:
        raise FileNotFoundError("the program tachyscope is needed for this node: install the wheel, or put it into PATH")
    return found


def _write_pictures(images, folder):
    from PIL import Image
    folder.mkdir()
    count = (images.shape[0] - 1) // 4 * 4 + 1
    for index, frame in enumerate(values.pixels(images[:count])):
        Image.fromarray(frame.numpy()).save(folder / f"{index:06}.png")
