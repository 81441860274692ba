"""All rules for what the process has imported: those for torch and diffusers, and those in the files that know a
model's blocks or a library. `_rules.py` and those files say how a single module is computed."""

import importlib
import sys

from torch import nn

from . import _norm_act, ops
from ._rules import (Rule, _activation, _diffusers_rms, _diffusers_rms_check, _float_layer_norm, _gelu, _group_norm, _layer_norm,
                     _one_dim, _projected_gelu, _projected_glu, _silu_check, _torch_rms, _torch_rms_check)


def torch_rules():
    """Returns the rules by the class whose forward a module runs."""
    return _norm_act.rules() | {
        nn.RMSNorm: Rule("rms_norm", _torch_rms, _torch_rms_check),
        nn.LayerNorm: Rule("layer_norm", _layer_norm, lambda m: _one_dim(m, m.normalized_shape)),
        nn.GroupNorm: Rule("group_norm", _group_norm),
        nn.GELU: Rule("gelu", _gelu),
        nn.SiLU: Rule("silu", _activation(ops.silu), _silu_check),
        nn.Mish: Rule("mish", _activation(ops.mish), _silu_check),
    }


# Modules of diffusers.models, and our file that has the rules for their blocks and attention once they are imported.
_BLOCKS = (("normalization", "_adaptive"), ("attention_processor", "_processors"), ("attention", "_sd3"), ("attention", "_unet"),
           ("resnet", "_resnet"), ("transformers.transformer_flux", "_flux"), ("transformers.transformer_ltx", "_ltx"),
           ("transformers.transformer_wan", "_wan"))


def _left_in_wan_vae():
    from diffusers.models.autoencoders.autoencoder_kl_wan import WanRMS_norm

    why = "its channels lie first; our kernel takes them last, and would copy all values"
    return {WanRMS_norm: Rule("channel_norm", None, lambda module: why)}


def diffusers_rules():
    from diffusers.models import activations, normalization

    blocks = {}
    for theirs, ours in _BLOCKS:
        if sys.modules.get("diffusers.models." + theirs):
            blocks |= importlib.import_module("." + ours, __package__).rules()
    if sys.modules.get("diffusers.models.autoencoders.autoencoder_kl_wan"):
        blocks |= _left_in_wan_vae()
    return blocks | {
        normalization.RMSNorm: Rule("rms_norm", _diffusers_rms, _diffusers_rms_check),
        normalization.FP32LayerNorm: Rule("layer_norm", _float_layer_norm, lambda m: _one_dim(m, m.normalized_shape)),
        activations.GELU: Rule("gelu", _projected_gelu),
        activations.GEGLU: Rule("geglu", _projected_glu(ops.geglu)),
        activations.SwiGLU: Rule("swiglu", _projected_glu(ops.swiglu)),
        activations.FP32SiLU: Rule("silu", _activation(ops.silu)),
    }


def known():
    """Returns the rules for what is imported; if a library is not imported, there can be no model of it here."""
    rules, codes = torch_rules(), {}
    if sys.modules.get("diffusers"):
        rules |= diffusers_rules()
    if sys.modules.get("comfy.ldm.wan.model"):
        from . import _comfy_wan
        rules |= _comfy_wan.rules()
    if any(name.endswith("wanvideo.modules.model") for name in list(sys.modules)):
        from . import _wrapper_wan
        rules |= _wrapper_wan.rules()
    if any(name.endswith("modules.causal_model") for name in list(sys.modules)):
        from . import _causal_wan
        rules |= _causal_wan.rules()
    if any(name.endswith("custom_linear") for name in list(sys.modules)):
        from . import _wrapper_lora
        rules |= _wrapper_lora.rules()
    if sys.modules.get("transformers"):
        from . import _transformers
        rules |= _transformers.rules()
        codes = _transformers.codes()
    return rules, codes
