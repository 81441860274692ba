"""The nodes: a model in, the same model with our kernels out.

All clones of a model share one tree of modules, so what a clone does to it has to be undone while another clone computes."""

import logging
import weakref

from comfy.patcher_extension import PatcherInjection

from . import attention as seam
from . import kernels

LEVELS = ["safe", "aggressive", "extreme", "none"]
_KEY = "tachyscope"
_LEVEL = (LEVELS, {"default": "safe", "tooltip": "safe: rounds as the model does; aggressive: rounds once for each op; none: leaves the model as it is"})
_ATTENTION = (seam.WAYS, {"default": "exact", "tooltip": "exact: softmax in float32; 8 bits: rounds to 8 bits on GPUs, off by about "
                               "4 % of its norm; off: attention as it is"})
_BLOCKS = ("FLOAT", {"default": 1.0, "min": 0.05, "max": 1.0, "step": 0.05, "tooltip": "the share of blocks of 128 keys that attention over "
                     "many tokens looks at; 1 is all of them"})


class TachyscopeModel:
    """A node for ComfyUI's own models. ComfyUI calls `inject` when it has loaded a clone, and `eject` before
    it unloads that clone or loads another one of the same model. Attention is an entry of the clone's options instead."""

    DESCRIPTION = "Computes the model's attention, Wan's blocks, norms and activations with Tachyscope's kernels while this model is loaded."
    CATEGORY = "Tachyscope"
    RETURN_TYPES = ("MODEL",)
    FUNCTION = "apply"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "level": _LEVEL}, "optional": {"attention": _ATTENTION, "blocks": _BLOCKS}}

    def apply(self, model, level, attention="exact", blocks=1.0):
        _expect(level, attention, blocks)
        clone = model.clone()
        seam.put(clone, attention if level != "none" else "off", blocks)
        clone.remove_injections(_KEY)
        if level != "none":
            clone.set_injections(_KEY, [_injection(level)])
        return (clone,)


def _expect(level, way="exact", share=1.0):
    """Throws an error that ComfyUI shows, for values from a workflow file that the node has not got."""
    if level not in LEVELS:
        raise ValueError(f"level: expected one of {', '.join(LEVELS)}, got {level!r}")
    if way not in seam.WAYS:
        raise ValueError(f"attention: expected one of {', '.join(seam.WAYS)}, got {way!r}")
    if not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise ValueError(f"blocks: expected a share in (0, 1], got {share!r}")


def _injection(level):
    def inject(patcher):
        logging.info("%s", kernels.optimize(patcher.model.diffusion_model, level))

    return PatcherInjection(inject=inject, eject=lambda patcher: kernels.restore(patcher.model.diffusion_model))


class TachyscopeWanVideoModel:
    """For WanVideoWrapper, whose samplers take the transformer out of the patcher and never ask it to inject anything. So the
    transformer, which all branches of a workflow share, is changed here and now, and it is restored when the last clone of
    this node's result is gone, as when ComfyUI drops the result from its cache."""

    DESCRIPTION = "Computes the norms and activations of a WanVideoWrapper model with Tachyscope's kernels."
    CATEGORY = "Tachyscope"
    RETURN_TYPES = ("WANVIDEOMODEL",)
    FUNCTION = "apply"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("WANVIDEOMODEL",), "level": _LEVEL}}

    def apply(self, model, level):
        _expect(level)
        clone = model.clone()
        transformer = clone.model.diffusion_model
        clone.remove_attachments(_KEY)
        logging.info("%s", kernels.optimize(transformer, level))
        if level != "none":
            clone.set_attachments(_KEY, _Use(transformer))
        return (clone,)


_latest = weakref.WeakKeyDictionary()  # for each transformer, the use that changed it last


class _Use:
    """An object that all clones of a node's result share, so that it is freed with the last of them."""

    def __init__(self, transformer):
        _latest[transformer] = weakref.ref(self)
        # While Python ends, nothing can be imported any more, and nobody computes with the model.
        weakref.finalize(self, _restore_unused, weakref.ref(transformer)).atexit = False


def _restore_unused(transformer):
    transformer = transformer()
    if transformer is not None and _latest[transformer]() is None:
        kernels.restore(transformer)


NODE_CLASS_MAPPINGS = {"TachyscopeModel": TachyscopeModel, "TachyscopeWanVideoModel": TachyscopeWanVideoModel}
NODE_DISPLAY_NAME_MAPPINGS = {
    "TachyscopeModel": "Tachyscope kernels",
    "TachyscopeWanVideoModel": "Tachyscope kernels (WanVideoWrapper)",
}
