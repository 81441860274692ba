"""Tachyscope's nodes for ComfyUI. This folder, linked or copied into ComfyUI's `custom_nodes`, is all it needs beside the package
`tachyscope`: kernels for ComfyUI's own models (nodes.py), and the engine itself (engine_nodes.py, world_node.py)."""

from . import engine_nodes as _e
from .nodes import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS
from .world_node import World

_ENGINE_NODES = {
    "TachyscopeLoad": (_e.Load, "Tachyscope load"),
    "TachyscopeServer": (_e.Server, "Tachyscope server"),
    "TachyscopeTextToVideo": (_e.TextToVideo, "Tachyscope text to video"),
    "TachyscopeImageToVideo": (_e.ImageToVideo, "Tachyscope image to video"),
    "TachyscopeFirstLastToVideo": (_e.FirstLastToVideo, "Tachyscope first and last frame"),
    "TachyscopeTalk": (_e.Talk, "Tachyscope talk"),
    "TachyscopeWorld": (World, "Tachyscope world clip"),
    "TachyscopeEncode": (_e.Encode, "Tachyscope encode"),
    "TachyscopeDecode": (_e.Decode, "Tachyscope decode"),
}
NODE_CLASS_MAPPINGS = NODE_CLASS_MAPPINGS | {name: node for name, (node, _) in _ENGINE_NODES.items()}
NODE_DISPLAY_NAME_MAPPINGS = NODE_DISPLAY_NAME_MAPPINGS | {name: shown for name, (_, shown) in _ENGINE_NODES.items()}

__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
