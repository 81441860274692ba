"""Attention of transformers, in two parts that work without each other.

The interface: an attention function and a mask function are registered with transformers under the name "tachyscope".
If a model's config says "sdpa" (which transformers sets if nobody chose), `optimize` writes that name instead, and
`restore` puts "sdpa" back. The config keeps it in a field that is never saved. The name is looked up at each call, so a later choice of the user's
counts. Calls that our kernels do not support (dropout, soft-capped scores, biases by position, a paged cache) go to transformers' own functions. A
config that caps scores keeps its setting: if that is "sdpa" (transformers 5.17), its function ignores the caps, and a model that is optimized gives
the same results as before.

The modules: attention whose forward has the code of LLaMA's (or of a variant below) runs a forward of ours, which
rotates queries and keys by `ops.rope` and calls whatever attention function the config names. At level safe 16-bit
values are rotated by the model's own function, which rounds each product."""

import copy

import torch
from transformers import masking_utils, modeling_utils
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from . import ops
from ._rules import Rule, _code, _plain, _usual, forwards

NAME = "tachyscope"
_OURS = "_tachyscope_attention"  # set on the module whose config had the name written into it
_SAFE = " (rope where it is float32)"
_THEIRS = ("softcap", "position_bias", "cache")  # further arguments that sdpa's function supports and ours does not


def attend(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **kwargs):
    """query, key and value [batch, heads, tokens, head dim] → [batch, tokens, heads, head dim], and no weights."""
    if dropout or any(kwargs.get(name) is not None for name in _THEIRS) or not _fits(query, key, value, attention_mask):
        return _by_transformers(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling,
                                is_causal=is_causal, **kwargs)
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    queries = query.shape[2]
    causal = queries > 1 and attention_mask is None and is_causal
    if causal and key.shape[2] > queries:  # a static cache that was empty: the places after these tokens are not filled yet
        key, value = key[:, :, :queries], value[:, :, :queries]
    q, k, v = (t.transpose(1, 2) for t in (query, key, value))
    return ops.attention(q, k, v, _once(attention_mask), scale=scaling, causal=causal), None


def _fits(query, key, value, mask):
    if not _usual(query, key, value) or key.shape != value.shape or query.shape[0] != key.shape[0]:
        return False
    if query.shape[1] % key.shape[1] != 0:
        return False
    return mask is None or (mask.shape[-1] == key.shape[2] and mask.dtype in (torch.bool, torch.float32, query.dtype))


def _once(mask):
    """Returns the mask without the dims along which it was expanded, whose values would otherwise be copied."""
    for dim in range(0 if mask is None else mask.dim() - 1):
        if mask.shape[dim] > 1 and mask.stride(dim) == 0:
            mask = mask.narrow(dim, 0, 1)
    return mask


def _by_transformers(module, query, key, value, mask, softcap=None, **kwargs):
    if mask is not None and mask.dtype != torch.bool:  # transformers' functions add masks without infinities
        mask = mask.to(query.dtype).clamp(min=torch.finfo(query.dtype).min)
    if softcap is None:
        return sdpa_attention_forward(module, query, key, value, mask, **kwargs)
    return _names(module)["eager_attention_forward"](module, query, key, value, mask, softcap=softcap, **kwargs)


def make_mask(*, config=None, dtype=torch.float32, **kwargs):
    """Like sdpa's mask, None if `is_causal` is enough. Otherwise it is a mask that is added to the scores, made once
    for all layers and in float32, which the kernels read directly."""
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return masking_utils.eager_mask(dtype=dtype, **kwargs)
    seen = masking_utils.sdpa_mask(**kwargs)
    if seen is None:
        return None
    once = _once(seen)
    added = torch.zeros(once.shape, dtype=torch.float32, device=once.device).masked_fill_(~once, float("-inf"))
    return added.expand(seen.shape)


modeling_utils.AttentionInterface.register(NAME, attend)
masking_utils.AttentionMaskInterface.register(NAME, make_mask)


# The modules.


def _turned(own, twice, q, k, cos, sin):
    """Returns q and k [batch, tokens, heads, head dim] with their positions applied, as [batch, heads, tokens, head
    dim]. The tables are [batch or 1, tokens, head dim], and their halves are equal. If rows of a batch differ in
    their positions, they are treated as one row of tokens."""
    if not _usual(q, k, cos, sin) or cos.dim() != 3 or cos.shape[-1] != q.shape[-1] or (twice and q.dtype != torch.float32):
        return own(q.transpose(1, 2), k.transpose(1, 2), cos, sin)
    half = q.shape[-1] // 2
    same = cos.shape[0] == 1
    cos, sin = (t[..., :half].reshape(-1, half).float().contiguous() for t in (cos, sin))
    turned = (ops.rope(t if same else t.reshape(1, -1, *t.shape[2:]), cos, sin, halves=True) for t in (q, k))
    return tuple(new.view(t.shape).transpose(1, 2) for new, t in zip(turned, (q, k)))


def _names(module):
    """Returns the names that the module's forward looks up in its file."""
    forward = type(module).forward
    return getattr(forward, "__wrapped__", forward).__globals__


class _Attention(Rule):
    """`more(module)`: further arguments that the forward passes to the attention function; `norms`: q_norm and k_norm."""

    def __init__(self, more=lambda module: {}, norms=False):
        super().__init__("rope and attention", None, _rope_check, safe=_SAFE)
        self.more, self.norms = more, norms

    def begin(self, module):
        _switch(module)
        names, more, norms = _names(module), self.more, self.norms
        own, interface, eager = (names[n] for n in ("apply_rotary_pos_emb", "ALL_ATTENTION_FUNCTIONS", "eager_attention_forward"))

        def call(module, twice, hidden_states, position_embeddings=None, attention_mask=None, past_key_values=None, **kwargs):
            shape = (*hidden_states.shape[:-1], -1, module.head_dim)
            q, k, v = (proj(hidden_states).view(shape) for proj in (module.q_proj, module.k_proj, module.v_proj))
            if norms:
                q, k = module.q_norm(q), module.k_norm(k)
            q, k = _turned(own, twice, q, k, *position_embeddings)
            v = v.transpose(1, 2)
            if past_key_values is not None:
                k, v = past_key_values.update(k, v, module.layer_idx)
            function = interface.get_interface(module.config._attn_implementation, eager)
            result, weights = function(module, q, k, v, attention_mask, scaling=module.scaling,
                                       dropout=module.attention_dropout if module.training else 0.0, **more(module), **kwargs)
            return module.o_proj(result.reshape(*shape[:-2], -1).contiguous()), weights

        return call

    def words(self, module):
        chosen = module.config._attn_implementation
        return self.op if chosen == NAME else f"rope, attention is {chosen or 'eager'}"


class _Switched:
    """Records that this config had our name written into it. A model that is pickled as a whole has its own forwards
    again when it is loaded, perhaps without this package; loading this object puts "sdpa" back there."""

    def __init__(self, config):
        self.config = config

    def __deepcopy__(self, memo):
        return _Switched(copy.deepcopy(self.config, memo))

    def __reduce__(self):
        return setattr, (self.config, "_attn_implementation_internal", "sdpa")


def _switch(module):
    if module.config._attn_implementation == "sdpa" and getattr(module.config, "attn_logit_softcapping", None) is None:
        module.config._attn_implementation_internal = NAME
        module.__dict__[_OURS] = _Switched(module.config)


def end(module):
    """Undoes what `restore` must undo besides a forward. It leaves settings that were changed by others since."""
    if module.__dict__.pop(_OURS, None) is not None and module.config._attn_implementation == NAME:
        module.config._attn_implementation_internal = "sdpa"


def _rope_check(module):
    from transformers.models.llama import modeling_llama as llama

    names = _names(module)
    for name in ("apply_rotary_pos_emb", "rotate_half"):
        if name not in names or not hasattr(names[name], "__code__") or _code(names[name]) != _code(getattr(llama, name)):
            return "its rotary positions are not LLaMA's"
    return None


class _Falcon(Rule):
    """Falcon's attention, which itself checks its config for "sdpa" and accepts no other name, so its config stays as
    it is."""

    def __init__(self):
        super().__init__("rope and attention", None, self._check, safe=_SAFE)

    def _check(self, module):
        chosen = module.config._attn_implementation
        return _rope_check(module) if chosen == "sdpa" else f"its attention is {chosen or 'eager'}"

    def begin(self, module):
        own = _names(module)["apply_rotary_pos_emb"]

        def call(module, twice, hidden_states, alibi, attention_mask, position_ids=None, layer_past=None, use_cache=False,
                 output_attentions=False, position_embeddings=None, **kwargs):
            if output_attentions or module.config._attn_implementation != "sdpa":
                return _plain(module, hidden_states, alibi, attention_mask, position_ids, layer_past, use_cache,
                              output_attentions, position_embeddings, **kwargs)
            q, k, v = module._split_heads(module.query_key_value(hidden_states))
            if alibi is None:
                q, k = _turned(own, twice, q, k, *position_embeddings)
            else:  # the mask contains ALiBi's positions
                q, k = q.transpose(1, 2), k.transpose(1, 2)
            v = v.transpose(1, 2)
            if layer_past is not None:
                k, v = layer_past.update(k, v, module.layer_idx)
            dropout = module.attention_dropout.p if alibi is not None and module.training else 0.0
            result, _ = attend(module, q, k, v, attention_mask, dropout)
            return module.dense(result.flatten(2)), None

        return call


def codes():
    return forwards([
        ("llama", "LlamaAttention", _Attention()),
        ("mistral", "MistralAttention", _Attention(lambda m: {"sliding_window": getattr(m.config, "sliding_window", None)})),
        ("qwen2", "Qwen2Attention", _Attention(lambda m: {"sliding_window": m.sliding_window})),
        ("qwen3", "Qwen3Attention", _Attention(lambda m: {"sliding_window": m.sliding_window}, norms=True)),
        ("gemma2", "Gemma2Attention", _Attention(lambda m: {"sliding_window": m.sliding_window,
                                                            "softcap": m.attn_logit_softcapping})),
        ("gemma3", "Gemma3Attention", _Attention(lambda m: {"sliding_window": m.sliding_window}, norms=True)),
        ("falcon", "FalconAttention", _Falcon()),
    ])
