"""The nodes that run the engine. Each takes what "Tachyscope load" or "Tachyscope server" gives, and gives frames as an IMAGE batch."""

from . import places, values
from .local import LocalEngine
from .remote import ServerEngine

ENGINE = "TACHYSCOPE_ENGINE"
_TEXT = ("STRING", {"multiline": True, "dynamicPrompts": True})
_PATH = ("STRING", {"default": ""})
_SEED = ("INT", {"default": 0, "min": 0, "max": 0xFFFFFFFFFFFFFFFF, "control_after_generate": True})
_SETTINGS = ("STRING", {"multiline": True, "default": "", "tooltip": "further settings, one a line: level = aggressive"})
_PARTS = ("text_encoder", "vae", "image_encoder", "tokenizer", "transformer_2", "infinitetalk", "audio_encoder")
_FOLDERS = {"text_encoder": "text_encoders", "vae": "vae", "image_encoder": "clip_vision", "audio_encoder": "audio_encoders"}


def _whole(default, least, most, step=1, tooltip=""):
    return ("INT", {"default": default, "min": least, "max": most, "step": step, "tooltip": tooltip})


def _number(default, least, most, step=0.01, tooltip=""):
    return ("FLOAT", {"default": default, "min": least, "max": most, "step": step, "tooltip": tooltip})


_VIDEO = {
    "engine": (ENGINE,), "prompt": _TEXT, "negative_prompt": ("STRING", {"multiline": True, "default": "", "tooltip": "empty: the model's"}),
    "width": _whole(0, 0, 16384, 16, "0: the model's"), "height": _whole(0, 0, 16384, 16, "0: the model's"),
    "frames": _whole(0, 0, 65536, 1, "4n + 1; 0: the model's, or as long as the sound"), "seed": _SEED,
    "steps": _whole(0, 0, 1000, 1, "0: the model's"), "guidance": _number(-1.0, -1.0, 100.0, 0.1, "-1: the model's"),
}


class _Node:
    CATEGORY, FUNCTION = "Tachyscope", "run"


class Load(_Node):
    """Names a model; it is opened when a node needs it, and closed when ComfyUI wants its memory."""
    DESCRIPTION = "A model for the Tachyscope nodes: a folder or a file, with its LoRAs. Without a name it is the model that ships."
    RETURN_TYPES, RETURN_NAMES = (ENGINE,), ("engine",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": _PATH, "loras": ("STRING", {"multiline": True, "default": "", "tooltip": "one a line: FILE:0.8@high"}),
                             "device": (["auto", "cpu", "cuda"],), "max_vram": ("STRING", {"default": "", "tooltip": "such as 8GiB; empty: what is free"}),
                             "keep_loaded": ("BOOLEAN", {"default": True})},
                "optional": {part: _PATH for part in _PARTS}}

    def run(self, model, loras, device, max_vram, keep_loaded, **parts):
        options = {"device": device, "keep_loaded": keep_loaded} | ({"max_vram": max_vram} if max_vram.strip() else {})
        for part, name in parts.items():
            if path := places.model(name, _FOLDERS.get(part, "diffusion_models")):
                options[part] = path
        return (LocalEngine(places.model(model), [places.lora(line) for line in values.lines(loras)], **options),)


class Server(_Node):
    DESCRIPTION = "A Tachyscope server in place of a model in this process. Its videos come as files, so their frames have been compressed."
    RETURN_TYPES, RETURN_NAMES = (ENGINE,), ("engine",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"address": ("STRING", {"default": "http://127.0.0.1:8190"}), "model": _PATH},
                "optional": {"key_file": ("STRING", {"default": "", "tooltip": "a file with the key, so that no workflow holds it"})}}

    def run(self, address, model, key_file=""):
        key = ""
        if key_file.strip():
            with open(key_file.strip()) as file:
                key = file.read().strip()
        return (ServerEngine(address, key, model.strip()),)


def _fields(negative_prompt, width, height, frames, seed, steps, guidance, settings):
    """Leaves out what the model decides."""
    given = {"negative_prompt": negative_prompt or None, "width": width or None, "height": height or None, "frames": frames or None,
             "steps": steps or None, "guidance": guidance if guidance >= 0 else None}
    return {"seed": seed} | {k: v for k, v in given.items() if v is not None} | values.settings(settings)


class TextToVideo(_Node):
    DESCRIPTION = "A video from text."
    RETURN_TYPES, RETURN_NAMES = ("IMAGE", "FLOAT"), ("frames", "fps")
    _MORE = {}

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": _VIDEO | cls._MORE, "optional": {"settings": _SETTINGS}}

    def run(self, engine, prompt, negative_prompt, width, height, frames, seed, steps, guidance, settings="", **inputs):
        fields = _fields(negative_prompt, width, height, frames, seed, steps, guidance, settings)
        return engine.make(prompt, **fields, **{name: values.picture(image, name) for name, image in inputs.items()})


class ImageToVideo(TextToVideo):
    DESCRIPTION = "A video that begins with a picture, of a model that takes one."
    _MORE = {"image": ("IMAGE",)}


class FirstLastToVideo(TextToVideo):
    DESCRIPTION = "A video from one picture to another, of a model that takes two."
    _MORE = {"image": ("IMAGE",), "last_image": ("IMAGE",)}


class Talk(_Node):
    DESCRIPTION = "A photo that says what is said in a sound, of an image-to-video model with InfiniteTalk."
    RETURN_TYPES, RETURN_NAMES = ("IMAGE", "AUDIO", "FLOAT"), ("frames", "audio", "fps")

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": _VIDEO | {"image": ("IMAGE",), "audio": ("AUDIO",)}, "optional": {"settings": _SETTINGS}}

    def run(self, engine, prompt, negative_prompt, width, height, frames, seed, steps, guidance, image, audio, settings=""):
        fields = _fields(negative_prompt, width, height, frames, seed, steps, guidance, settings)
        made, fps = engine.make(prompt, image=values.picture(image, "image"), audio=audio, **fields)
        return made, values.cut(audio, made.shape[0] / fps), fps


class Encode(_Node):
    DESCRIPTION = "Frames as latents on the VAE's own scale, as ComfyUI's Wan nodes have them."
    RETURN_TYPES, RETURN_NAMES = ("LATENT",), ("latent",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"engine": (ENGINE,), "frames": ("IMAGE",)}}

    def run(self, engine, frames):
        return ({"samples": engine.encode(frames)},)


class Decode(_Node):
    DESCRIPTION = "Frames of the latents of one video, such as ComfyUI's own samplers give."
    RETURN_TYPES, RETURN_NAMES = ("IMAGE",), ("frames",)

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"engine": (ENGINE,), "latent": ("LATENT",)}}

    def run(self, engine, latent):
        return (engine.decode(latent["samples"]),)
