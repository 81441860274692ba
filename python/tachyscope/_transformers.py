"""Modules of transformers: norms, activations, gated products and whole decoder layers.

Every model of transformers has its own copy of the same few classes, so a class is recognised by the code of its
forward: one with the code of LLaMA's MLP is computed as that. A decoder layer calls its parts as modules, whatever
adapters or hooks they have, except for the residual add and the norm after it. These two are one pass if that norm runs
our forward and nothing is hooked in before it. The layer's second residual add stays a separate add, since the norm
after it belongs to the next layer.

Attention is in `_transformers_attention.py`."""

import functools

import torch
import torch.nn.functional as F

from . import ops
from ._rules import Rule, _activation, _code, _plain, _usual, code_of, forwards, replaced, unhooked


def _llama_rms(module, twice, hidden_states):
    if not _usual(hidden_states, module.weight):
        return _plain(module, hidden_states)
    return ops.rms_norm(hidden_states, module.weight, module.variance_epsilon, round_twice=twice)


def _gemma_rms(module, twice, x):
    if not _usual(x):
        return _plain(module, x)
    return ops.rms_norm(x, 1.0 + module.weight.float(), module.eps)


# The same norms after a residual add: (the norm's result, the sum), or None if the norm must be called.


def _llama_sum(norm, twice, x, u):
    if not _usual(x, u, norm.weight):
        return None
    if twice and x.dtype != torch.float32:  # normalised values are rounded before the weight, as in the module
        normed, h = ops.add_norm(x, u, eps=norm.variance_epsilon)
        return norm.weight * normed, h
    return ops.add_norm(x, u, norm.weight, eps=norm.variance_epsilon)


def _gemma_sum(norm, twice, x, u):
    return ops.add_norm(x, u, 1.0 + norm.weight.float(), eps=norm.eps) if _usual(x, u) else None


def _layer_sum(norm, twice, x, u):
    return ops.add_norm(x, u, norm.weight, norm.bias, norm="layer", eps=norm.eps) if _usual(x, u, norm.weight, norm.bias) else None


def _alone(norm):
    """Says whether the norm runs our forward and nothing else runs with it, such as a hook that loads its weights."""
    return replaced(norm) and unhooked(norm)


# Decoder layers.


class _Layer(Rule):
    """A layer whose residual add after attention comes before the norm named `second`. `call(layer, both, twice,
    hidden_states, kwargs)` computes it, where both(x, u) returns that norm of x + u, and x + u."""

    def __init__(self, second, call):
        super().__init__("add_norm", call, self._check)
        self.second = second

    def _check(self, layer):
        norm = getattr(layer, self.second, None)
        if norm is None:
            return "no norm follows the residual add"
        return None if code_of(norm) in _sums() else f"its norm is {type(norm).__name__}, which no kernel combines with the add"

    def begin(self, layer):
        second, call = self.second, self.call
        kind = type(getattr(layer, second))
        fused = _sums()[code_of(getattr(layer, second))]

        def run(layer, twice, hidden_states, *args, **kwargs):
            checkpointing = getattr(layer, "gradient_checkpointing", False) and layer.training
            if args or checkpointing or not _usual(hidden_states):
                return _plain(layer, hidden_states, *args, **kwargs)

            def both(x, u):
                norm = getattr(layer, second)
                result = fused(norm, twice, x, u) if type(norm) is kind and _alone(norm) else None
                if result is None:
                    h = x + u
                    result = norm(h), h
                return result

            return call(layer, both, hidden_states, {"position_embeddings": None, "attention_mask": None} | kwargs)

        return run


def _llama_layer(layer, both, x, kwargs):
    attended, _ = layer.self_attn(hidden_states=layer.input_layernorm(x), **kwargs)
    normed, h = both(x, attended)
    return h + layer.mlp(normed)


def _gemma_layer(layer, both, x, kwargs):
    """The layer of Gemma 2 and 3, whose branches also end in a norm."""
    attended, _ = layer.self_attn(hidden_states=layer.input_layernorm(x), **kwargs)
    normed, h = both(x, layer.post_attention_layernorm(attended))
    return h + layer.post_feedforward_layernorm(layer.mlp(normed))


def _falcon_layer(layer, both, x, kwargs):
    """The layer of Falcon, if its branches come one after the other. The dropouts are those in its config."""
    dropout, config = functools.partial(F.dropout, training=layer.training), layer.config
    attended, weights = layer.self_attention(layer.input_layernorm(x), **kwargs)
    normed, h = both(x, dropout(attended, config.attention_dropout))
    return h + dropout(layer.mlp(normed), config.hidden_dropout), weights


# Linear layers with an activation.


def _mlp(module, twice, x):
    gate, up = module.gate_proj(x), module.up_proj(x)
    if not _usual(gate, up):
        return module.down_proj(module.act_fn(gate) * up)
    return module.down_proj(_GATES[type(module.act_fn).__name__](gate, up, twice))


_GATES = {
    "SiLUActivation": lambda gate, up, twice: ops.swiglu(gate, up, round_twice=twice),
    "SiLU": lambda gate, up, twice: ops.swiglu(gate, up, round_twice=twice),
    "GELUActivation": lambda gate, up, twice: ops.geglu(gate, up, round_twice=twice),
    "GELUTanh": lambda gate, up, twice: ops.geglu(gate, up, "tanh", round_twice=twice),
}


def _mlp_check(module):
    name = type(module.act_fn).__name__
    if name not in _GATES:
        return f"its activation {name} has no kernel with a gate"
    checks = {"GELUActivation": _gelu_activation_check, "GELUTanh": _gelu_tanh_check}
    return checks.get(name, lambda act: None)(module.act_fn)


def _gelu_activation_check(module):
    return None if module.act is F.gelu else "it is asked to compute in Python"


def _gelu_tanh_check(module):
    return None if getattr(module.act, "func", None) is F.gelu else "it is asked to compute in Python"


def rules():
    """Returns the rules by the class whose forward a module runs."""
    from transformers import activations

    return {
        activations.SiLUActivation: Rule("silu", _activation(ops.silu)),
        activations.MishActivation: Rule("mish", _activation(ops.mish)),
        activations.GELUActivation: Rule("gelu", _activation(ops.gelu), _gelu_activation_check),
        activations.GELUTanh: Rule("gelu", _activation(ops.gelu, approximate="tanh"), _gelu_tanh_check),
    }


@functools.cache
def _sums():
    known = forwards([("llama", "LlamaRMSNorm", _llama_sum), ("gemma", "GemmaRMSNorm", _gemma_sum)])
    return known | {_code(torch.nn.LayerNorm.forward): _layer_sum}


@functools.cache
def codes():
    """Returns the rules by the code of the forward, for classes that every model of transformers copies."""
    known = forwards([
        ("llama", "LlamaRMSNorm", Rule("rms_norm", _llama_rms)),
        ("t5", "T5LayerNorm", Rule("rms_norm", _llama_rms)),
        ("gemma", "GemmaRMSNorm", Rule("rms_norm", _gemma_rms)),
        ("llama", "LlamaMLP", Rule("swiglu or geglu", _mlp, _mlp_check, lambda module: [module.act_fn])),
        ("llama", "LlamaDecoderLayer", _Layer("post_attention_layernorm", _llama_layer)),
        ("gemma2", "Gemma2DecoderLayer", _Layer("pre_feedforward_layernorm", _gemma_layer)),
        ("falcon", "FalconDecoderLayer", _Layer("post_attention_layernorm", _falcon_layer)),
    ])
    try:
        from . import _transformers_attention
    except ImportError:  # a version of transformers before its attention interface
        return known
    return known | _transformers_attention.codes()
