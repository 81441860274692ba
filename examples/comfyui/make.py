"""Writes the example workflows beside this file, each as ComfyUI's API takes it (NAME.api.json) and as its page opens it (NAME.json):

    python examples/comfyui/make.py
"""

import json
import pathlib

SEED = "fixed"  # what the page does with a seed after a run
VIDEO = ("prompt", "negative_prompt", "width", "height", "frames", "seed", SEED, "steps", "guidance")
# class: the widgets in the page's order, inputs that are links, and outputs
NODES = {
    "TachyscopeLoad": (("model", "loras", "device", "max_vram", "keep_loaded", "text_encoder", "vae", "image_encoder", "tokenizer", "transformer_2",
                        "infinitetalk", "audio_encoder"), {}, ["TACHYSCOPE_ENGINE"]),
    "TachyscopeServer": (("address", "model", "key_file"), {}, ["TACHYSCOPE_ENGINE"]),
    "TachyscopeTextToVideo": ((*VIDEO, "settings"), {"engine": "TACHYSCOPE_ENGINE"}, ["IMAGE", "FLOAT"]),
    "TachyscopeTalk": ((*VIDEO, "settings"), {"engine": "TACHYSCOPE_ENGINE", "image": "IMAGE", "audio": "AUDIO"}, ["IMAGE", "AUDIO", "FLOAT"]),
    "TachyscopeWorld": (("model", "actions", "seed", SEED, "device", "prompt"), {"image": "IMAGE"}, ["IMAGE", "FLOAT"]),
    "TachyscopeEncode": ((), {"engine": "TACHYSCOPE_ENGINE", "frames": "IMAGE"}, ["LATENT"]),
    "TachyscopeDecode": ((), {"engine": "TACHYSCOPE_ENGINE", "latent": "LATENT"}, ["IMAGE"]),
    "LoadImage": (("image", "upload"), {}, ["IMAGE", "MASK"]),
    "LoadAudio": (("audio", "play", "upload"), {}, ["AUDIO"]),
    "CreateVideo": (("fps",), {"images": "IMAGE", "audio": "AUDIO"}, ["VIDEO"]),
    "SaveVideo": (("filename_prefix", "format", "codec"), {"video": "VIDEO"}, []),
}
DEFAULTS = {
    "negative_prompt": "", "width": 0, "height": 0, "frames": 0, "seed": 7, SEED: "fixed", "steps": 0, "guidance": -1.0, "settings": "", "model": "",
    "loras": "", "device": "cpu", "max_vram": "", "keep_loaded": True, "text_encoder": "", "vae": "", "image_encoder": "", "tokenizer": "",
    "transformer_2": "", "infinitetalk": "", "audio_encoder": "", "prompt": "", "upload": "image", "play": None, "filename_prefix": "video/tachyscope",
    "format": "auto", "codec": "auto", "fps": 16.0,
}
NO_INPUT = (SEED, "upload", "play")  # of the page alone


class Workflow:
    def __init__(self):
        self.api, self.nodes, self.links = {}, [], []

    def add(self, kind, **given):
        """given: values of widgets, and for links (node, output). Returns the node's number."""
        widgets, sockets, outputs = NODES[kind]
        id = len(self.nodes) + 1
        linked = {name: value for name, value in given.items() if isinstance(value, tuple)}
        values = {name: given.get(name, DEFAULTS.get(name)) for name in widgets if name not in linked}
        inputs = []
        for name in [*sockets, *(name for name in linked if name not in sockets)]:
            link = None
            if name in linked:
                origin, slot = linked[name]
                link = len(self.links) + 1
                type = self.nodes[origin - 1]["outputs"][slot]["type"]
                self.nodes[origin - 1]["outputs"][slot]["links"].append(link)
                self.links.append([link, origin, slot, id, len(inputs), type])
            inputs.append({"name": name, "type": sockets.get(name, "FLOAT"), "link": link} | ({} if name in sockets else {"widget": {"name": name}}))
        stored = [values.get(name, DEFAULTS.get(name)) for name in widgets]
        self.nodes.append({"id": id, "type": kind, "pos": [40 + 420 * (id - 1), 60], "size": [380, 120 + 28 * len(widgets)], "flags": {}, "order": id - 1,
                           "mode": 0, "inputs": inputs, "outputs": [{"name": t, "type": t, "links": []} for t in outputs], "properties": {},
                           "widgets_values": stored})
        self.api[str(id)] = {"class_type": kind, "inputs": {k: v for k, v in values.items() if k not in NO_INPUT}
                             | {name: [str(origin), slot] for name, (origin, slot) in linked.items()}}
        return id

    def save(self, frames, fps, audio=None):
        video = self.add("CreateVideo", images=frames, fps=fps, **({"audio": audio} if audio else {}))
        self.add("SaveVideo", video=(video, 0))
        return self

    def page(self):
        return {"last_node_id": len(self.nodes), "last_link_id": len(self.links), "nodes": self.nodes, "links": self.links, "groups": [],
                "config": {}, "extra": {}, "version": 0.4}


def text():
    w = Workflow()
    made = w.add("TachyscopeTextToVideo", engine=(w.add("TachyscopeLoad"), 0), prompt="a red circle moves right over hills at day")
    return w.save((made, 0), (made, 1))


def few_steps():
    """The shipped model that was distilled to a few steps."""
    w = Workflow()
    made = w.add("TachyscopeTextToVideo", engine=(w.add("TachyscopeLoad", model="sprites-fast"), 0), prompt="a blue square moves left over hills at night")
    return w.save((made, 0), (made, 1))


def server():
    """The same on a server: build/tachyscope serve"""
    w = Workflow()
    made = w.add("TachyscopeTextToVideo", engine=(w.add("TachyscopeServer", address="http://127.0.0.1:8190", model="", key_file=""), 0),
                 prompt="a red circle moves right over hills at day")
    return w.save((made, 0), (made, 1))


def talk():
    w = Workflow()
    engine, photo, sound = w.add("TachyscopeLoad", model="talker"), w.add("LoadImage", image="photo.png"), w.add("LoadAudio", audio="speech.wav")
    made = w.add("TachyscopeTalk", engine=(engine, 0), image=(photo, 0), audio=(sound, 0), prompt="a person is talking")
    return w.save((made, 0), (made, 2), (made, 1))


def world():
    w = Workflow()
    picture = w.add("LoadImage", image="world.png")
    made = w.add("TachyscopeWorld", model="world", actions="- 1\nW 3", seed=7, device="cpu", image=(picture, 0))
    return w.save((made, 0), (made, 1))


def latents():
    """A video through the VAE's encoder and decoder."""
    w = Workflow()
    engine = w.add("TachyscopeLoad")
    made = w.add("TachyscopeTextToVideo", engine=(engine, 0), prompt="a green triangle moves up over the sea at day")
    encoded = w.add("TachyscopeEncode", engine=(engine, 0), frames=(made, 0))
    decoded = w.add("TachyscopeDecode", engine=(engine, 0), latent=(encoded, 0))
    return w.save((decoded, 0), (made, 1))


def main():
    here = pathlib.Path(__file__).parent
    for make in (text, few_steps, server, talk, world, latents):
        name, workflow = make.__name__.replace("_", "-"), make()
        (here / f"{name}.api.json").write_text(json.dumps(workflow.api, indent=1) + "\n")
        (here / f"{name}.json").write_text(json.dumps(workflow.page(), indent=1) + "\n")


if __name__ == "__main__":
    main()
