"""Graphs of ComfyUI for tests and as seeds of the fuzz target `workflow`: tests/fuzz/make_corpus.py stores what `graphs()` returns."""

import json


def api_text(scheduler="simple", sampler="euler", **more):
    """A video from text with one LoRA, as the API has it."""
    nodes = {
        "1": ("UNETLoader", {"unet_name": "wan/t2v.safetensors", "weight_dtype": "default"}),
        "2": ("LoraLoaderModelOnly", {"model": ["1", 0], "lora_name": "a.safetensors", "strength_model": 0.5}),
        "3": ("ModelSamplingSD3", {"model": ["2", 0], "shift": 3.0}),
        "4": ("CLIPLoader", {"clip_name": "umt5.safetensors", "type": "wan", "device": "default"}),
        "5": ("CLIPTextEncode", {"clip": ["4", 0], "text": "a red \\(round\\) circle"}),
        "6": ("CLIPTextEncode", {"clip": ["4", 0], "text": "blurred"}),
        "7": ("EmptyHunyuanLatentVideo", {"width": 64, "height": 48, "length": 7, "batch_size": 1}),
        "8": ("KSampler", {"model": ["3", 0], "positive": ["5", 0], "negative": ["6", 0], "latent_image": ["7", 0], "seed": 2**64 - 1, "steps": 4,
                           "cfg": 5, "sampler_name": sampler, "scheduler": scheduler, "denoise": 1.0}),
        "9": ("VAELoader", {"vae_name": "vae.safetensors"}),
        "10": ("VAEDecode", {"samples": ["8", 0], "vae": ["9", 0]}),
        "11": ("CreateVideo", {"images": ["10", 0], "fps": ["12", 0]}),
        "12": ("PrimitiveFloat", {"value": 16.0}),
        "13": ("SaveVideo", {"video": ["11", 0], "filename_prefix": "video/ComfyUI", "format": "auto", "codec": "auto"}),
    }
    nodes |= more
    return {id: {"class_type": kind, "inputs": inputs, "_meta": {"title": kind}} for id, (kind, inputs) in nodes.items()}


def api_pictures():
    """From a first to a last frame, both seen by CLIP, saved as WebM."""
    graph = api_text()
    graph["7"] = {"class_type": "WanFirstLastFrameToVideo", "inputs": {
        "positive": ["5", 0], "negative": ["6", 0], "vae": ["9", 0], "width": 64, "height": 48, "length": 9, "batch_size": 1,
        "clip_vision_start_image": ["22", 0], "clip_vision_end_image": ["23", 0], "start_image": ["20", 0], "end_image": ["21", 0]}}
    graph["8"]["inputs"] |= {"positive": ["7", 0], "negative": ["7", 1], "latent_image": ["7", 2]}
    for id, name in (("20", "first.png"), ("21", "sub/last.png")):
        graph[id] = {"class_type": "LoadImage", "inputs": {"image": name}}
    for id, picture in (("22", "20"), ("23", "21")):
        graph[id] = {"class_type": "CLIPVisionEncode", "inputs": {"clip_vision": ["24", 0], "image": [picture, 0], "crop": "none"}}
    graph["24"] = {"class_type": "CLIPVisionLoader", "inputs": {"clip_name": "clip_vision_h.safetensors"}}
    del graph["13"]
    graph["14"] = {"class_type": "SaveWEBM", "inputs": {"images": ["10", 0], "filename_prefix": "x", "codec": "vp9", "fps": 24.0, "crf": 30.0}}
    return graph


def api_experts():
    """Two samplers, each with a model and a LoRA of its own."""
    graph = api_text()
    prompts = {"positive": ["5", 0], "negative": ["6", 0]}
    common = {"steps": 8, "sampler_name": "euler", "scheduler": "simple"}
    graph["8"] = {"class_type": "KSamplerAdvanced", "inputs": prompts | common | {
        "model": ["33", 0], "latent_image": ["30", 0], "add_noise": "disable", "noise_seed": 0, "cfg": 3.0, "start_at_step": 3,
        "end_at_step": 10000, "return_with_leftover_noise": "disable"}}
    graph["30"] = {"class_type": "KSamplerAdvanced", "inputs": prompts | common | {
        "model": ["3", 0], "latent_image": ["7", 0], "add_noise": "enable", "noise_seed": 7, "cfg": 4.0, "start_at_step": 0,
        "end_at_step": 3, "return_with_leftover_noise": "enable"}}
    graph["31"] = {"class_type": "UNETLoader", "inputs": {"unet_name": "low.safetensors", "weight_dtype": "default"}}
    graph["32"] = {"class_type": "LoraLoaderModelOnly", "inputs": {"model": ["31", 0], "lora_name": "b.safetensors", "strength_model": 1.0}}
    graph["33"] = {"class_type": "ModelSamplingSD3", "inputs": {"model": ["32", 0], "shift": 3.0}}
    return graph


class Page:
    """Lays out a graph as ComfyUI's page saves it."""

    def __init__(self):
        self.nodes, self.links, self.ends = [], [], []

    def node(self, id, kind, values=None, inputs=(), outputs=(), mode=0, widgets=()):
        """inputs: (name, type, (node, slot) or None); those named in `widgets` stand for widgets."""
        made = []
        for name, type, origin in inputs:
            link = None
            if origin:
                link = len(self.links) + 1
                self.links.append([link, origin[0], origin[1], id, len(made), type])
                self.ends.append((origin, link))
            made.append({"name": name, "type": type, "link": link} | ({"widget": {"name": name}} if name in widgets else {}))
        self.nodes.append({"id": id, "type": kind, "pos": [300 * id, 0], "size": [280, 200], "flags": {}, "order": id, "mode": mode, "inputs": made,
                           "outputs": [{"name": t, "type": t, "links": []} for t in outputs], "properties": {}}
                          | ({} if values is None else {"widgets_values": values}))

    def close(self):
        """Names at each output the links that begin there."""
        for (id, slot), link in self.ends:
            for node in self.nodes:
                if node["id"] == id:
                    node["outputs"][slot]["links"].append(link)

    def file(self, **more):
        self.close()
        return {"version": 0.4, "last_node_id": len(self.nodes), "last_link_id": len(self.links), "nodes": self.nodes, "links": self.links, "groups": [], "config": {}, "extra": {}} | more


def page():
    """The graph of api_text with what only the page knows: a subgraph, a reroute, a primitive, notes, a bypassed LoRA, a muted end."""
    inner = Page()
    conditioning, latent = "CONDITIONING", "LATENT"
    inner.node(1, "KSampler", [5, "randomize", 30, 5, "euler", "simple", 1], [
        ("model", "MODEL", (-10, 0)), ("positive", conditioning, (-10, 1)), ("negative", conditioning, (-10, 2)), ("latent_image", latent, (-10, 3)),
        ("seed", "INT", (-10, 4)), ("steps", "INT", (-10, 5))], [latent], widgets=("seed", "steps"))
    inner.node(2, "VAEDecode", [], [("samples", latent, (1, 0)), ("vae", "VAE", (-10, 6))], ["IMAGE"])
    inner.close()
    links = [dict(zip(("id", "origin_id", "origin_slot", "target_id", "target_slot", "type"), link)) for link in inner.links]
    inner.nodes[1]["outputs"][0]["links"].append(90)
    links.append({"id": 90, "origin_id": 2, "origin_slot": 0, "target_id": -20, "target_slot": 0, "type": "IMAGE"})
    names = [("model", "MODEL"), ("positive", conditioning), ("negative", conditioning), ("latent_image", latent), ("seed", "INT"), ("steps", "INT"), ("vae", "VAE")]
    def ends(names, at):
        return [{"id": f"{n}-{i}", "name": n, "type": t, "linkIds": [k["id"] for k in links if (k[f"{at}_id"], k[f"{at}_slot"]) == ({"origin": -10, "target": -20}[at], i)]}
                for i, (n, t) in enumerate(names)]
    subgraph = {"id": "5a-b", "version": 1, "revision": 0, "config": {}, "state": {"lastGroupId": 0, "lastNodeId": 9, "lastLinkId": 99, "lastRerouteId": 0},
                "name": "Sampling", "inputNode": {"id": -10, "bounding": [0, 0, 120, 200]}, "outputNode": {"id": -20, "bounding": [900, 0, 120, 60]},
                "inputs": ends(names, "origin"), "outputs": ends([("IMAGE", "IMAGE")], "target"), "widgets": [], "groups": [], "extra": {},
                "nodes": inner.nodes, "links": links}
    p = Page()
    p.node(1, "UNETLoader", ["wan/t2v.safetensors", "default"], outputs=["MODEL"])
    p.node(2, "LoraLoaderModelOnly", ["a.safetensors", 0.5], [("model", "MODEL", (1, 0))], ["MODEL"])
    p.node(3, "LoraLoaderModelOnly", ["gone.safetensors", 1], [("model", "MODEL", (2, 0))], ["MODEL"], mode=4)
    p.node(4, "ModelSamplingSD3", [3], [("model", "MODEL", (3, 0))], ["MODEL"])
    p.node(5, "CLIPLoader", ["umt5.safetensors", "wan", "default"], outputs=["CLIP"])
    p.node(6, "Reroute", None, [("", "*", (5, 0))], ["CLIP"])
    p.node(7, "CLIPTextEncode", ["a red \\(round\\) circle"], [("clip", "CLIP", (6, 0))], [conditioning])
    p.node(8, "CLIPTextEncode", ["blurred"], [("clip", "CLIP", (6, 0))], [conditioning])
    p.node(9, "PrimitiveNode", [48, "fixed"], outputs=["INT"])
    p.node(10, "EmptyHunyuanLatentVideo", [64, 999, 7, 1], [("height", "INT", (9, 0))], [latent], widgets=("height",))
    p.node(11, "VAELoader", ["vae.safetensors"], outputs=["VAE"])
    p.node(12, "5a-b", [18446744073709551615, 4], [
        ("model", "MODEL", (4, 0)), ("positive", conditioning, (7, 0)), ("negative", conditioning, (8, 0)), ("latent_image", latent, (10, 0)),
        ("vae", "VAE", (11, 0))], ["IMAGE"])
    p.node(13, "CreateVideo", [16], [("images", "IMAGE", (12, 0)), ("audio", "AUDIO", None)], ["VIDEO"])
    p.node(14, "SaveVideo", ["video/ComfyUI", "auto", "auto"], [("video", "VIDEO", (13, 0))])
    p.node(15, "SaveAnimatedWEBP", ["x", 6, True, 80, "default"], [("images", "IMAGE", (12, 0))], mode=2)
    p.node(16, "MarkdownNote", ["a note"])
    return p.file(definitions={"subgraphs": [subgraph]})


def api_vace():
    """A clip that follows a video where another one is white, with a reference picture."""
    graph = api_text()
    graph["7"] = {"class_type": "WanVaceToVideo", "inputs": {
        "positive": ["5", 0], "negative": ["6", 0], "vae": ["9", 0], "width": 64, "height": 48, "length": 9, "batch_size": 1, "strength": 0.75,
        "control_video": ["31", 0], "control_masks": ["34", 0], "reference_image": ["20", 0]}}
    graph["8"]["inputs"] |= {"positive": ["7", 0], "negative": ["7", 1], "latent_image": ["7", 2]}
    graph["20"] = {"class_type": "LoadImage", "inputs": {"image": "dog.png"}}
    for id, name in (("30", "depth.mp4"), ("32", "mask.mp4 [input]")):
        graph[id] = {"class_type": "LoadVideo", "inputs": {"file": name}}
        graph[str(int(id) + 1)] = {"class_type": "GetVideoComponents", "inputs": {"video": [id, 0]}}
    graph["34"] = {"class_type": "ImageToMask", "inputs": {"image": ["33", 0], "channel": "red"}}
    graph["35"] = {"class_type": "TrimVideoLatent", "inputs": {"samples": ["8", 0], "trim_amount": ["7", 3]}}
    graph["10"]["inputs"]["samples"] = ["35", 0]
    return graph


def graphs():
    return {"api_text": api_text(), "api_vace": api_vace(), "api_pictures": api_pictures(), "api_experts": api_experts(), "page": page()}


def text(graph):
    return json.dumps(graph, separators=(",", ":"))
