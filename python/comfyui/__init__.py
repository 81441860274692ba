"""Tachyscope's kernels as nodes of ComfyUI. This folder, linked or copied into ComfyUI's `custom_nodes`, is all it needs beside
the package `tachyscope`."""

from .nodes import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS

__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
