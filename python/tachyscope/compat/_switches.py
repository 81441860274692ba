"""The environment variables that switch ComfyUI's Wan wrapper and its faster versions: those that count here, and for
the others, why they do not; and the engine's folder of models. This is the only file of the package that reads the environment."""

import os
import warnings

_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
_GRAPH = "no graph is captured without example inputs; call tachyscope.graph"
_LORA = "an adapter is computed by the function that is called, lora or grouped_lora, from its two factors"
HONOURED = ("WAN_ENABLE_FUSED_BLOCK", "WAN_FORCE_SDPA", "WAN_TORCH_COMPILE")
WITHOUT_EFFECT = {
    "WAN_FORCE_CUDA_GRAPHS": _GRAPH,
    "WAN_GRAPH_MAX_CAPTURE_RATIO": _GRAPH,
    "WAN_GRAPH_MIN_FREE_RATIO": _GRAPH,
    "WAN_GRAPH_MEMORY_FACTOR": _GRAPH,
    "WAN_FORCE_BATCHED_CFG": "guidance is the pipeline's; give the model both prompts in one batch",
    "WAN_KEEP_XFORMERS": "xFormers is not called by this package",
    "WAN_LORA_ONTHEFLY": _LORA,
    "WAN_LORA_STREAMING": _LORA,
    "WAN_LORA_TIMING": "nothing is timed unasked; call benchmark_lora_kernels",
}
_told = set()


def env_switch(name):
    """Returns the variable's value: True, False, or None if it is not set. Any other word is an error."""
    value = os.environ.get(name, "")
    if value.strip().lower() not in ("", *_ON, *_OFF):
        raise ValueError(f"expected {name} to be 0 or 1, got {value!r}")
    return None if not value.strip() else value.strip().lower() in _ON


def is_set(name: str) -> bool:
    """Says whether the variable has a value, whatever it is."""
    return bool(os.environ.get(name))


def asked_in_vain():
    """Returns {name: why} for the variables that are set to something other than off and have no effect here."""
    return {name: why for name, why in WITHOUT_EFFECT.items() if os.environ.get(name, "").strip().lower() not in ("", *_OFF)}


def warn():
    """Gives one warning about all variables without effect that no warning has named yet."""
    new = {name: why for name, why in asked_in_vain().items() if name not in _told}
    _told.update(new)
    if new:
        each = "".join(f"\n  {name}: {why}" for name, why in new.items())
        warnings.warn(f"tachyscope.compat: without effect here:{each}", stacklevel=3)
