"""Whole blocks of diffusers' SD3 transformer (JointTransformerBlock, with a second attention in SD3.5), like FLUX's
double ones. For text and image: adaptive norm, joint attention, gated residual add with the modulated norm after it,
feed-forward, gated residual add. In the last block the text ends at attention."""

from diffusers.models import attention

from ._adaptive import GATES_IN_FLOAT32, added_norm, gated, idle
from ._rules import Rule, _plain, takes


def _half(x, attended, gate, norm, ffn, parts, twice):
    """The part after attention, for the image or the text. `parts`: shift, scale and the last gate."""
    shift, scale, ffn_gate = parts
    normed, x = added_norm(x, attended, norm, twice, gate, scale, shift)
    return gated(x, ffn(normed), ffn_gate, twice)


def _block(block, twice, hidden_states, encoder_hidden_states, temb, joint_attention_kwargs=None):
    x, text, kwargs = hidden_states, encoder_hidden_states, joint_attention_kwargs or {}
    if not takes(x, text) or block._chunk_size is not None:
        return _plain(block, x, text, temb, joint_attention_kwargs)
    # torch.compile makes tuples of starred names, so nothing is popped from them.
    again = again_gate = None
    if block.use_dual_attention:
        normed, gate, shift, scale, ffn_gate, again, again_gate = block.norm1(x, emb=temb)
        again_gate = again_gate[:, None]
    else:
        normed, gate, shift, scale, ffn_gate = block.norm1(x, emb=temb)
    gate, *parts = (t[:, None] for t in (gate, shift, scale, ffn_gate))
    if block.context_pre_only:
        normed_text = block.norm1_context(text, temb)
    else:
        normed_text, *rest = block.norm1_context(text, emb=temb)
        text_gate, *text_parts = (t[:, None] for t in rest)
    attended, attended_text = block.attn(hidden_states=normed, encoder_hidden_states=normed_text, **kwargs)
    if again is not None:
        x = gated(x, attended, gate, twice)
        attended, gate = block.attn2(hidden_states=again, **kwargs), again_gate
    x = _half(x, attended, gate, block.norm2, block.ff, parts, twice)
    if block.context_pre_only:
        return None, x
    return _half(text, attended_text, text_gate, block.norm2_context, block.ff_context, text_parts, twice), x


def _inside(block):
    return idle(*(norm for norm in (block.norm2, block.norm2_context) if norm is not None))


def rules():
    return {attention.JointTransformerBlock: Rule("a whole block", _block, inside=_inside, safe=GATES_IN_FLOAT32)}
