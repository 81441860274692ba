"""The ops beside the eager functions of comfy-kitchen, the kernels of ComfyUI's authors, on the same inputs.

The bound is the one of the op runner: with R their function in float64 and L the same in the dtype that is tried, a result y of ours passes
if max|y − R| ≤ 2 · max|L − R| + 2 ulp(max|R|), and so for the root of the mean square. In 8 bits R is what is to be computed, without codes.

Their rules are ours but for these, and each test says which it meets:
- Layout. Positions are matrices ((cos, −sin), (sin, cos)) for each pair in a dim of their own, which broadcast; ours are two tables.
- Norms before positions are of each head. `qk_norm_rope` takes all channels of a token, so here heads are tokens.
- Rounding. Norm, modulation, positions and bias round one after the other; ours round once.
- 8 bits. Scales are rounded to the values' dtype and values are divided in it, so in 16 bits a code may be another one; a row of zeros has
  the scale 1e-30, ours 1. In e4m3 they have one scale for a tensor and multiply by its reciprocal; ours has one for each row and divides.
"""

import importlib.util

import pytest
import torch
import torch.nn.functional as F

from tachyscope import ops

pytestmark = pytest.mark.skipif(importlib.util.find_spec("comfy_kitchen") is None, reason="comfy-kitchen is not installed (tests/python/run does it)")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


@pytest.fixture(scope="module")
def kitchen():
    """Their functions of torch's operations, also on a GPU, where the package would pick kernels. The import takes seconds."""
    from comfy_kitchen.backends import eager
    return eager


def drawn(dtype, *shapes):
    generator = torch.Generator("cpu").manual_seed(sum(map(sum, shapes)))
    made = [torch.randn(shape, generator=generator, device="cpu").to(dtype) for shape in shapes]
    return [t.to(torch.get_default_device()) for t in made]


def within(ours, working, right):
    """Checks one result, or one for each of several."""
    if isinstance(ours, tuple):
        return [within(*each) for each in zip(ours, working, right, strict=True)]
    assert ours.dtype == working.dtype and ours.shape == working.shape == right.shape
    top = right.abs().max()
    ulp = (torch.finfo(ours.dtype).eps * 2.0 ** torch.floor(torch.log2(top))).item()
    error, allowed = ours.double() - right, working.double() - right
    assert error.abs().max() <= 2 * allowed.abs().max() + 2 * ulp
    assert error.square().mean().sqrt() <= 2 * allowed.square().mean().sqrt() + 2 * ulp


def beside(ours, theirs, *given):
    """Checks a call of ours with tensors against theirs."""
    within(ours(*given), theirs(*given), theirs(*(t.double() for t in given)))


def tables(tokens, pairs):
    angles = torch.outer(torch.arange(tokens, dtype=torch.float64), 10000.0 ** -(torch.arange(pairs, dtype=torch.float64) / pairs))
    return angles.cos(), angles.sin()


def matrices(cos, sin, x):
    """The positions as theirs takes them, beside x [batch, tokens, heads, head dim]: in float32, as ComfyUI makes them, or in x's float64."""
    both = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    return both[None, :, None].to(torch.promote_types(x.dtype, torch.float32))


HEADS = pytest.mark.parametrize("shape", [(1, 5, 1, 2), (2, 33, 3, 12), (1, 130, 2, 128), (2, 7, 5, 66)], ids=str)


@DTYPES
@HEADS
@pytest.mark.parametrize("halves", [False, True], ids=["neighbours", "halves"])
def test_rope(kitchen, shape, dtype, halves):
    cos, sin = tables(shape[1], shape[3] // 2)
    turn = kitchen.apply_rope_split_half1 if halves else kitchen.apply_rope1
    beside(lambda x: ops.rope(x, cos.float(), sin.float(), halves=halves), lambda x: turn(x, matrices(cos, sin, x)), *drawn(dtype, shape))


@DTYPES
@HEADS
def test_rms_rope(kitchen, shape, dtype):
    """Each head is a token of ours with its own norm. Theirs rounds between norm and positions."""
    batch, tokens, heads, size = shape
    cos, sin = tables(tokens, size // 2)

    def ours(q, k, q_weight, k_weight):
        each = [table.float().repeat_interleave(heads, 0) for table in (cos, sin)]
        results = ops.qk_norm_rope(*(t.flatten(1, 2) for t in (q, k)), q_weight, k_weight, *each, 1, 1e-6)
        return tuple(t.reshape(shape) for t in results)

    beside(ours, lambda q, k, *weights: kitchen.rms_rope(q, k, matrices(cos, sin, q), *weights, 1e-6), *drawn(dtype, shape, shape, (size,), (size,)))


@DTYPES
def test_rms_rope_of_halves(kitchen, dtype):
    """Ours has no function for it: norm and positions are two, and round twice as theirs."""
    shape = (2, 33, 3, 24)
    cos, sin = tables(33, 12)

    def ours(q, k, q_weight, k_weight):
        return tuple(ops.rope(ops.rms_norm(t, weight, 1e-6), cos.float(), sin.float(), halves=True) for t, weight in ((q, q_weight), (k, k_weight)))

    beside(ours, lambda q, k, *weights: kitchen.rms_rope_split_half(q, k, matrices(cos, sin, q), *weights, 1e-6),
           *drawn(dtype, shape, shape, (24,), (24,)))


NORMS = {
    "adaln": lambda their: (lambda x, u, scale, shift, gate, weight: ops.ada_layer_norm(x, scale, shift, eps=1e-5),
                            lambda x, u, scale, shift, gate, weight: their.adaln(x, scale, shift, 1e-5)),
    "rms_adaln": lambda their: (lambda x, u, scale, shift, gate, weight: ops.rms_modulate(x, scale, shift, eps=1e-5),
                                lambda x, u, scale, shift, gate, weight: their.rms_adaln(x, scale, shift, 1e-5)),
    # The sum before the norm is torch's on their side.
    "a sum, adaln": lambda their: (lambda x, u, scale, shift, gate, weight: ops.add_norm(x, u, norm="layer", gate=gate, scale=scale, shift=shift, eps=1e-6),
                                   lambda x, u, scale, shift, gate, weight: (their.adaln(x + gate * u, scale, shift, 1e-6), x + gate * u)),
    "a sum, rms_adaln": lambda their: (lambda x, u, scale, shift, gate, weight: ops.add_norm(x, u, gate=gate, scale=scale, shift=shift, eps=1e-6),
                                       lambda x, u, scale, shift, gate, weight: (their.rms_adaln(x + gate * u, scale, shift, 1e-6), x + gate * u)),
    "rms_gated_residual": lambda their: (lambda x, u, scale, shift, gate, weight: ops.gated_residual(x, ops.rms_norm(u, weight, 1e-5), gate),
                                         lambda x, u, scale, shift, gate, weight: their.rms_gated_residual(u, weight, x, gate, 1e-5)),
}


@DTYPES
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape, modulation", [((3, 5, 77), (3, 1, 77)), ((2, 17, 130), (2, 17, 130)), ((1, 9, 1536), (1, 1, 1536)), ((4, 3, 2), (2,))], ids=str)
def test_norms(kitchen, name, shape, modulation, dtype):
    beside(*NORMS[name](kitchen), *drawn(dtype, shape, shape, modulation, modulation, modulation, shape[-1:]))


@DTYPES
@pytest.mark.parametrize("shape, groups", [((1, 8, 3, 5, 7), 4), ((2, 33, 2, 4, 3), 3)], ids=str)
def test_group_norm_of_frames(kitchen, shape, groups, dtype):
    """Theirs takes clips and normalises each frame; with no padding it is `group_norm_silu` of the frames."""
    def ours(x, weight, bias):
        y = ops.group_norm_silu(x.transpose(1, 2).flatten(0, 1), groups, weight, bias, 1e-6)
        return y.unflatten(0, (shape[0], shape[2])).transpose(1, 2)

    beside(ours, lambda x, weight, bias: kitchen.group_norm_silu_pad3d(x, weight, bias, groups, 1e-6, [0] * 5, True), *drawn(dtype, shape, shape[1:2], shape[1:2]))


@pytest.mark.parametrize("shape", [(5, 7), (48, 64), (33, 130), (1, 1536)], ids=str)
def test_codes_of_rows(kitchen, shape):
    """In float32 scales and codes are the same; in bfloat16 the scales are, ours are rounded as in float32, and theirs are at most one off."""
    weight, = drawn(torch.float32, shape)
    codes, scales = ops.codes_of(weight)
    theirs, their_scales = kitchen.quantize_int8_rowwise(weight)
    assert torch.equal(scales, their_scales[:, 0]) and torch.equal(codes, theirs)
    weight = weight.bfloat16()
    codes, scales = ops.codes_of(weight)
    theirs, their_scales = kitchen.quantize_int8_rowwise(weight)
    assert torch.equal(scales, their_scales[:, 0]) and (codes.int() - theirs.int()).abs().max() <= 1
    assert torch.equal(codes, kitchen.quantize_int8_rowwise(weight.float())[0])


def test_codes_of_zeros(kitchen):
    codes, scales = ops.codes_of(torch.zeros(1, 8))
    theirs, their_scales = kitchen.quantize_int8_rowwise(torch.zeros(1, 8))
    assert not codes.any() and not theirs.any() and scales == 1 and their_scales == torch.tensor(1e-30)


@DTYPES
@pytest.mark.parametrize("channels", [7, 64, 1537])
def test_e4m3(kitchen, channels, dtype):
    """A weight of one row has one scale in both."""
    weight, = drawn(dtype, (1, channels))
    codes, scales = ops.codes_of(weight, "float8_e4m3fn")
    theirs = kitchen.quantize_per_tensor_fp8(weight, scales[0])
    assert codes.dtype == theirs.dtype
    again = (codes.float() * scales[:, None]).to(dtype)
    within(again, kitchen.dequantize_per_tensor_fp8(theirs, scales[0], dtype), weight.double())


LAYERS = pytest.mark.parametrize("tokens, size, out", [(1, 16, 8), (33, 64, 48), (5, 77, 33), (130, 256, 130)])


def layer(dtype, tokens, size, out):
    x, weight, bias = drawn(dtype, (2, tokens, size), (out, size), (out,))
    return x, weight, bias, *ops.codes_of(weight)


@DTYPES
@LAYERS
def test_int8_linear(kitchen, tokens, size, out, dtype):
    """One scale for each token, found in the call, and one for each output channel."""
    x, weight, bias, codes, scales = layer(dtype, tokens, size, out)
    ours, theirs = ops.scaled_linear(x, codes, scales, bias), kitchen.int8_linear(x, codes, scales, bias, out_dtype=dtype)
    within(ours, theirs, F.linear(x.double(), weight.double(), bias.double()))
    if dtype == torch.float32 and not x.is_cuda:  # the same codes, so the same sums: only the scales' products round
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5 * theirs.abs().max().item())


@DTYPES
@LAYERS
def test_int8_mlp(kitchen, tokens, size, out, dtype):
    """Ours applies GELU behind the first product, before it is rounded; theirs to what the second one reads."""
    x, weight, bias, codes, scales = layer(dtype, tokens, size, out)
    down, down_bias = drawn(dtype, (size, out), (size,))
    down_codes, down_scales = ops.codes_of(down)
    ours = ops.scaled_linear(ops.scaled_linear(x, codes, scales, bias, activation="gelu_tanh"), down_codes, down_scales, down_bias)
    theirs = kitchen.int8_linear(kitchen.int8_linear(x, codes, scales, bias, out_dtype=dtype), down_codes, down_scales, down_bias, out_dtype=dtype,
                                 input_act="gelu_tanh")
    right = F.linear(F.gelu(F.linear(x.double(), weight.double(), bias.double()), approximate="tanh"), down.double(), down_bias.double())
    within(ours, theirs, right)


@DTYPES
@LAYERS
def test_int8_linear_between(kitchen, tokens, size, out, dtype):
    """Modulated input and a gated residual: theirs are part of the call, ours the ops before and behind it. Their norm has a weight and no shift."""
    x, weight, bias, codes, scales = layer(dtype, tokens, size, out)
    norm, scale, residual, gate = drawn(dtype, (size,), (size,), (2, tokens, out), (out,))
    given = ops.rms_modulate(x, scale, torch.zeros_like(scale), norm, 1e-6)
    theirs = kitchen.int8_linear_rms_modulated(x, norm, 1e-6, scale, codes, scales, bias, dtype)
    right = F.rms_norm(x.double(), (size,), norm.double(), 1e-6) * (1 + scale.double())
    within(ops.scaled_linear(given, codes, scales, bias), theirs, F.linear(right, weight.double(), bias.double()))
    ours = ops.gated_residual(residual, ops.scaled_linear(x, codes, scales, bias), gate)
    theirs = kitchen.int8_linear(x, codes, scales, bias, dtype, residual=residual, residual_scale=gate)
    within(ours, theirs, residual.double() + gate.double() * F.linear(x.double(), weight.double(), bias.double()))
