"""Blocks and attention of Self-Forcing's `CausalWanModel`, as it makes videos: with a cache of keys and values.

Its attention keeps two indices of the cache in tensors and asks for them in each layer, which waits for the GPU each
time. Here they are remembered as long as nobody else writes them. Training, which masks, runs the model's own code, and
so does a call whose frames are padded."""

import contextlib
import inspect
import math
import sys

import torch
from torch import nn

from . import _shrunk, ops
from ._rules import Rule, _plain, _usual, fuses
from ._wan_parts import added_modulated, added_norm, bare, heads_of, layer_norm_of, turned

_END = "modules.causal_model"
_NOTED = "_tachyscope_noted"  # what an index was, with the version of its tensor
_tables = []  # (freqs, (frames, rows, columns, first), (cos, sin)), the latest at the end
_MOST_TABLES = 4


def _framed(x, rows):
    """Returns x [batch, frames · tokens, channels] as [batch, frames, tokens, channels], for rows [batch, frames, 1, …]."""
    return torch.unflatten(x, 1, (rows.shape[1], -1))


def _fits(x, e):
    return (_usual(x) and x.dim() == 3 and e.dim() == 4 and e.dtype == x.dtype and e.device == x.device
            and e.shape[1] > 0 and x.shape[1] % e.shape[1] == 0)


def _block(block, twice, x, e, seq_lens, grid_sizes, freqs, context, context_lens, block_mask, kv_cache=None, crossattn_cache=None,
           current_start=0, cache_start=None):
    attention = (seq_lens, grid_sizes, freqs, block_mask, kv_cache, current_start, cache_start)
    norms = block.norm1, block.norm2
    if kv_cache is None or not _fits(x, e) or not fuses(twice, x) or not all(layer_norm_of(norm, x) for norm in norms):
        return _plain(block, x, e, seq_lens, grid_sizes, freqs, context, context_lens, block_mask, kv_cache=kv_cache,
                      crossattn_cache=crossattn_cache, current_start=current_start, cache_start=cache_start)
    shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = (block.modulation.unsqueeze(1) + e).chunk(6, dim=2)
    x = _framed(x, e)
    normed = ops.ada_layer_norm(x, scale, shift, block.norm1.weight, block.norm1.bias, block.norm1.eps)
    attended = _framed(block.self_attn(normed.flatten(1, 2), *attention), e)
    if isinstance(block.norm3, nn.Identity):
        x = normed = ops.gated_residual(x, attended, gate)
    else:
        normed, x = added_norm(block.norm3, x, attended, gate)
    attended = _framed(block.cross_attn(normed.flatten(1, 2), context, context_lens, crossattn_cache=crossattn_cache), e)
    normed, x = added_modulated(block.norm2, x, attended, ffn_scale, ffn_shift, twice)
    return ops.gated_residual(x, _framed(block.ffn(normed.flatten(1, 2)), e), ffn_gate).flatten(1, 2)


def _head(head, twice, x, e):
    if not _fits(x, e) or not fuses(twice, x) or not layer_norm_of(head.norm, x):
        return _plain(head, x, e)
    shift, scale = (head.modulation.unsqueeze(1) + e).chunk(2, dim=2)
    return head.head(ops.ada_layer_norm(_framed(x, e), scale, shift, head.norm.weight, head.norm.bias, head.norm.eps))


def _turns(freqs, grid, first):
    """Returns cos and sin [tokens, pairs] of the positions of a block of frames that begins with frame `first`."""
    key = (*grid, first)
    for known, of, tables in _tables:
        if known is freqs and of == key:
            return tables
    pairs = freqs.shape[1]
    parts = freqs.split([pairs - 2 * (pairs // 3), pairs // 3, pairs // 3], dim=1)
    begins = (first, 0, 0)
    each = [part[begin:begin + n].view(*(n if i == axis else 1 for i in range(3)), -1).expand(*grid, -1)
            for axis, (part, begin, n) in enumerate(zip(parts, begins, grid))]
    turns = torch.cat(each, dim=-1).flatten(0, 2)
    tables = turns.real.float().contiguous(), turns.imag.float().contiguous()
    _tables.append((freqs, key, tables))
    del _tables[:-_MOST_TABLES]
    return tables


def _index(tensor):
    """Returns the number in the tensor. It is read from the device only if somebody else has written it since."""
    noted = getattr(tensor, _NOTED, None)
    if noted is None or tensor.is_inference() or noted[0] != tensor._version:
        return int(tensor.item())
    return noted[1]


def _set_index(tensor, value):
    tensor.fill_(value)
    if not tensor.is_inference():
        setattr(tensor, _NOTED, (tensor._version, value))


def _cached(attention, cache, k, v, start, sink):
    """Puts the block's keys and values into the cache, which drops the oldest beyond its size but for `sink` tokens.
    Returns the views of the cache that the block attends to."""
    new, size = k.shape[1], cache["k"].shape[1]
    end, local, known = start + new, _index(cache["local_end_index"]), _index(cache["global_end_index"])
    dropped = max(0, new + local - size) if attention.local_attn_size != -1 and end > known else 0
    if dropped:
        kept = local - dropped - sink
        for tensor in (cache["k"], cache["v"]):
            tensor[:, sink:sink + kept] = tensor[:, sink + dropped:sink + dropped + kept].clone()
    local += end - known - dropped
    first = max(0, local - attention.max_attention_size)
    seen = []
    for name, block in (("k", k), ("v", v)):
        cache[name][:, local - new:local] = block
        seen.append(cache[name][:, first:local])
    _set_index(cache["global_end_index"], end)
    _set_index(cache["local_end_index"], local)
    return seen


def _grid(grid_sizes, tokens):
    """Returns (frames, rows, columns) if all samples have the same and fill `tokens`, or None."""
    grids = grid_sizes.tolist()
    alike = all(grid == grids[0] for grid in grids) and math.prod(grids[0]) == tokens
    return tuple(grids[0]) if alike else None


def _self_attention(attention, twice, x, seq_lens, grid_sizes, freqs, block_mask, kv_cache=None, current_start=0, cache_start=None):
    takes = kv_cache is not None and _usual(x) and x.dim() == 3 and freqs.is_complex() and not torch.is_grad_enabled()
    grid = _grid(grid_sizes, x.shape[1]) if takes else None
    if grid is None or kv_cache["k"].dtype != x.dtype:
        return _plain(attention, x, seq_lens, grid_sizes, freqs, block_mask, kv_cache, current_start, cache_start)
    frame = grid[1] * grid[2]
    tables = _turns(freqs, grid, current_start // frame)
    q, k = turned(attention.q(x), attention.k(x), (attention.norm_q, attention.norm_k), attention.num_heads, *tables, twice)
    v = torch.unflatten(attention.v(x), 2, (attention.num_heads, -1))
    keys, values = _cached(attention, kv_cache, k, v, current_start, attention.sink_size * frame)
    return attention.o(ops.attention(q, keys, values).flatten(2))


def _cross_attention(attention, twice, x, context, context_lens, crossattn_cache=None):
    if context_lens is not None or not _usual(x) or x.dim() != 3:
        return _plain(attention, x, context, context_lens, crossattn_cache=crossattn_cache)
    if crossattn_cache is None or not crossattn_cache["is_init"]:
        k = heads_of(attention.norm_k, attention.k(context), attention.num_heads)
        v = torch.unflatten(attention.v(context), 2, (attention.num_heads, -1))
        if crossattn_cache is not None:
            crossattn_cache.update(is_init=True, k=k, v=v)
    else:
        k, v = crossattn_cache["k"], crossattn_cache["v"]
    return attention.o(ops.attention(heads_of(attention.norm_q, attention.q(x), attention.num_heads), k, v).flatten(2))


# Trials on small copies. Attention of the model's own code needs a GPU, or rounds to bfloat16; for a trial it is torch's.


@contextlib.contextmanager
def _plain_attention(cls):
    """Has the functions by which the class attends be torch's own."""
    own = sys.modules[cls.__module__].__dict__
    saved = {name: own[name] for name in ("attention", "flash_attention") if name in own}
    attend = nn.functional.scaled_dot_product_attention
    own.update(dict.fromkeys(saved, lambda q, k, v, k_lens=None: attend(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)))
    try:
        yield
    finally:
        own.update(saved)


class _First(nn.Module):
    """Stands for attention in a trial of what is around it."""

    def forward(self, x, *others, **options):
        return x


def _freqs(generator):
    angles = torch.randn(16, _shrunk.HEAD_DIM // 2, generator=generator)
    return torch.polar(torch.ones_like(angles), angles)


def _try_block(block):
    (x, e, context), generator = _shrunk.draws((1, 6, _shrunk.CHANNELS), (1, 3, 6, _shrunk.CHANNELS), (1, 5, _shrunk.CHANNELS))
    small = _shrunk.shrunk(block, block.dim, block.ffn_dim, generator)
    small.self_attn, small.cross_attn = _First(), _First()
    given = {"e": e, "seq_lens": torch.tensor([6]), "grid_sizes": torch.tensor([[3, 1, 2]]), "freqs": _freqs(generator), "context": context,
             "context_lens": None, "block_mask": None, "kv_cache": {}, "crossattn_cache": {}}
    return _shrunk.differs(lambda: type(block).forward(small, x.clone(), **given), lambda: _block(small, False, x.clone(), **given))


def _try_head(head):
    (x, e), generator = _shrunk.draws((1, 6, _shrunk.CHANNELS), (1, 3, 1, _shrunk.CHANNELS))
    small = _shrunk.shrunk(head, head.dim, head.head.out_features, generator)
    return _shrunk.differs(lambda: type(head).forward(small, x.clone(), e), lambda: _head(small, False, x.clone(), e))


def _clip(call, attention, blocks):
    """Runs blocks of two frames over a cache of six, twice each as a denoiser does. Returns all results and the cache."""
    shape = (1, 6 * 2, _shrunk.HEADS, _shrunk.HEAD_DIM)
    cache = {"k": torch.zeros(shape), "v": torch.zeros(shape), **{f"{name}_end_index": torch.zeros(1, dtype=torch.long) for name in ("local", "global")}}
    generator = torch.Generator("cpu").manual_seed(1)
    freqs, results = _freqs(generator), []
    for i, x in enumerate(blocks):
        for scale in (1.0, 0.5):
            results.append(call(attention, x * scale, torch.tensor([4]), torch.tensor([[2, 1, 2]]), freqs, None, cache, 4 * i))
    return *results, cache["k"], cache["v"], cache["local_end_index"]


def _try_self_attention(attention):
    blocks, generator = _shrunk.draws(*[(1, 4, _shrunk.CHANNELS)] * 5)
    small = _shrunk.shrunk(attention, attention.dim, attention.dim, generator)
    small.max_attention_size = 12
    if small.local_attn_size != -1:
        small.local_attn_size = 6
    blocks = blocks if small.local_attn_size != -1 else blocks[:3]  # without a window the cache has to hold all
    with _plain_attention(type(attention)):
        return _shrunk.differs(lambda: _clip(type(attention).forward, small, blocks),
                               lambda: _clip(lambda module, *args: _self_attention(module, False, *args), small, blocks))


def _try_cross_attention(attention):
    (x, context), generator = _shrunk.draws((1, 6, _shrunk.CHANNELS), (1, 5, _shrunk.CHANNELS))
    small = _shrunk.shrunk(attention, attention.dim, attention.dim, generator)

    def twice(call):
        cache = {"is_init": False}
        return call(small, x, context, None, cache), call(small, x + 1, context, None, cache), cache["k"], cache["v"]

    with _plain_attention(type(attention)):
        return _shrunk.differs(lambda: twice(type(attention).forward), lambda: twice(lambda module, *args: _cross_attention(module, False, *args)))


def modules():
    return [module for name, module in list(sys.modules.items()) if name.endswith(_END) and hasattr(module, "CausalWanAttentionBlock")]


def rules():
    found = {}
    for module in modules():
        crosses = getattr(module, "WAN_CROSSATTENTION_CLASSES", {}).get("t2v_cross_attn")
        known = {"CausalWanAttentionBlock": ("a whole block", _block, _try_block), "CausalHead": ("norm with modulation", _head, _try_head),
                 "CausalWanSelfAttention": ("attention with its cache", _self_attention, _try_self_attention)}
        for name, (op, call, attempt) in known.items():
            cls = getattr(module, name, None)
            if isinstance(cls, type):
                found[cls] = Rule(op, call, _shrunk.tried_once(attempt), _norms)
        if isinstance(crosses, type) and "crossattn_cache" in inspect.signature(crosses.forward).parameters:
            found[crosses] = Rule("attention with its cache", _cross_attention, _shrunk.tried_once(_try_cross_attention))
    return found


def _norms(module):
    own = (getattr(module, name, None) for name in ("norm", "norm1", "norm2", "norm3"))
    return [norm for norm in own if isinstance(norm, nn.LayerNorm) and bare(norm)]
