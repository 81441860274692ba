"""The nodes: a model in, the same model with our kernels out.

All clones of a model share one tree of modules, so what a clone does to it has to be undone while another clone computes."""

import logging
import weakref

from comfy.patcher_extension import PatcherInjection

from . import kernels

LEVELS = ["safe", "aggressive", "extreme", "none"]
_KEY = "tachyscope"
_LEVEL = (LEVELS, {"default": "safe", "tooltip": "safe: rounds as the model does; aggressive: rounds once for each op; none: leaves the model as it is"})


class TachyscopeModel:
    """A node for ComfyUI's own models. ComfyUI calls `inject` when it has loaded a clone, and `eject` before
    it unloads that clone or loads another one of the same model."""

    DESCRIPTION = "Computes the model's norms and activations with Tachyscope's kernels while this model is loaded."
    CATEGORY = "Tachyscope"
    RETURN_TYPES = ("MODEL",)
    FUNCTION = "apply"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"model": ("MODEL",), "level": _LEVEL}}

    def apply(self, model, level):
        clone = model.clone()
        clone.remove_injections(_KEY)
        if level != "none":
            clone.set_injections(_KEY, [_injection(level)])
        return (clone,)


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
        weakref.finalize(self, _restore_unused, weakref.ref(transformer))


def _restore_unused(transformer):
    transformer = transformer()
    if transformer is not None and _latest[transformer]() is None:
        kernels.restore(transformer)


NODE_CLASS_MAPPINGS = {"TachyscopeModel": TachyscopeModel, "TachyscopeWanVideoModel": TachyscopeWanVideoModel}
NODE_DISPLAY_NAME_MAPPINGS = {
    "TachyscopeModel": "Tachyscope kernels",
    "TachyscopeWanVideoModel": "Tachyscope kernels (WanVideoWrapper)",
}
