"""Describes the results of each op from its arguments alone: one function for each op, with the op's name."""

import torch


def _like(t):
    return torch.empty_like(t, memory_format=torch.contiguous_format)


def _gradient(t, like, parameters):
    """Describes the gradient of a parameter, which is empty if there is no parameter or none is wanted."""
    return _like(t) if t is not None and parameters else like.new_empty((0,), dtype=torch.float32)


def _channels(x):
    """Describes a result laid out like x: contiguous, or with channels last if x is stored only in that form."""
    last = [0, *range(2, x.dim()), 1]
    if x.is_contiguous() or not x.permute(last).is_contiguous():
        return _like(x)
    back = [0, x.dim() - 1, *range(1, x.dim() - 1)]
    return x.new_empty([x.shape[i] for i in last]).permute(back)


def rms_norm(x, weight, eps, round_twice):
    return _like(x)


def rms_norm_backward(dy, x, weight, eps, parameters):
    return _like(x), _gradient(weight, x, parameters)


def rms_modulate(x, scale, shift, weight, eps):
    return _like(x)


def rms_modulate_backward(dy, x, scale, weight, eps, parameters):
    return _like(x), _gradient(scale, x, parameters), _gradient(scale, x, parameters), _gradient(weight, x, parameters)


def layer_norm(x, weight, bias, scale, shift, eps):
    return _like(x)


def layer_norm_backward(dy, x, weight, bias, scale, eps, parameters):
    return _like(x), _gradient(weight, x, parameters), _gradient(bias, x, parameters), _gradient(scale, x, parameters), _gradient(scale, x, parameters)


def add_norm(x, u, gate, weight, bias, scale, shift, kind, eps, round_twice):
    return _like(u), _like(x)


def add_norm_backward(dy, dsum, sum, weight, bias, kind, eps, parameters):
    return _like(sum), _gradient(weight, sum, parameters), _gradient(bias, sum, parameters)


def gated_residual(x, u, gate):
    return _like(x)


def gated_residual_backward(dy, u, gate, parameters):
    return _like(u), _gradient(gate, dy, parameters)


def activation(x, kind):
    return _like(x)


def activation_backward(dy, x, kind):
    return _like(x)


def glu(gate, up, kind, round_twice):
    return _like(gate)


def glu_backward(dy, gate, up, kind):
    return _like(gate), _like(gate)


def qk_norm_rope(q, k, q_weight, k_weight, cos, sin, heads, eps):
    shape = (*q.shape[:2], heads, q.shape[2] // heads)
    return q.new_empty(shape), q.new_empty(shape)


def qk_norm_rope_backward(dq, dk, q, k, q_weight, k_weight, cos, sin, heads, eps, parameters):
    return _like(q), _like(q), _gradient(q_weight, q, parameters), _gradient(k_weight, q, parameters)


def rope(x, cos, sin, halves, back):
    return _like(x)


def rope_1d(x, theta, first, reverse_time, halves, back):
    return _like(x)


def rope_3d(x, frames, rows, columns, theta, reverse_time, halves, back):
    return _like(x)


def channel_norm(x, gamma, silu):
    return _channels(x)


def channel_norm_backward(dy, x, gamma, silu, parameters):
    return _channels(x), _gradient(gamma, x, parameters)


def group_norm(x, groups, weight, bias, eps, act):
    return _channels(x)


def group_norm_backward(dy, x, groups, weight, bias, eps, act, parameters):
    return _channels(x), _gradient(weight, x, parameters), _gradient(bias, x, parameters)


def attention(q, k, v, mask, scale, causal, causal_offset, window):
    return _like(q)


def attention_lse(q, k, v, mask, scale, causal, causal_offset):
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    return _like(q), q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=wide)


def attention_coarse(q, k, v, mask, scale, causal, causal_offset, eight_bits, blocks):
    return _like(q)


def attention_backward(q, k, v, mask, scale, causal, causal_offset, dout, out, lse):
    return _like(q), _like(k), _like(k)


def lora(x, a, b, scales, index):
    return x.new_empty((*x.shape[:-1], b.shape[-2]))


def linear(x, weight, bias, gate, residual, act):
    return x.new_empty((*x.shape[:-1], weight.shape[0])) if residual is None else _like(residual)


def scaled_linear(x, codes, scales, bias, act, e4m3):
    return x.new_empty((*x.shape[:-1], codes.shape[0]))


def _frames(x, channels, dtype):
    """Describes frames [frames, channels, height, width] that lie with channels last."""
    return x.new_empty((x.shape[0], *x.shape[2:], channels), dtype=dtype).permute(0, 3, 1, 2)


def channel_norm_codes(x, gamma, scale, silu, e4m3):
    return _frames(x, x.shape[1], torch.int8)


def scaled_conv3d(x, codes, scales, bias, residual, gamma, frames, next_scale, silu, e4m3):
    dtype = torch.int8 if gamma is not None else torch.bfloat16 if residual is None else residual.dtype
    return _frames(x, codes.shape[0], dtype)


def reparameterize(mean, logvar, noise):
    return _like(mean)


def reparameterize_backward(dz, logvar, noise):
    return _like(logvar), _like(logvar)
