"""Cases of the ops with the results of PyTorch, diffusers and transformers: small random shapes, different in each call.

A case is {"op", "options", "inputs": {name: tensor}, "outputs": {name: (expected, bound)}}. Expected values come from
float64 (the bound on the error max|y - R| / max|R| is three times the reference's float32 error, and at least FLOOR32);
float64 inputs have the bound FLOOR64; bound 0 means equal bytes. make_ops.py stores some of them as golden values,
tests/reference/ops.py draws fresh ones."""

import math
import random

import numpy as np
import torch
import torch.nn.functional as F
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution
from diffusers.models.embeddings import apply_rotary_emb, get_1d_rotary_pos_embed
from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

import lab

FLOOR32, FLOOR64 = 1e-6, 1e-11
ACTS = {"none": lambda x: x, "silu": F.silu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "gelu_erf": F.gelu,
        "mish": F.mish}
EPS = float(np.float32(1e-6))


def error(y, reference):
    top = reference.double().abs().max().item()
    return (y.double() - reference.double()).abs().max().item() / (top or 1.0)


def case(op, options, inputs, function):
    """function(inputs) -> {output: tensor}, run in float64 and float32 on the same (float32) inputs."""
    with torch.no_grad():
        wide = function({k: v.double() if v.is_floating_point() else v for k, v in inputs.items()})
        narrow = function(inputs)
    return {"op": op, "options": options, "inputs": inputs,
            "outputs": {k: (wide[k], max(3 * error(narrow[k], wide[k]), FLOOR32)) for k in wide}}


def gradient_case(op, options, inputs, function, names, renamed=None, extra=None, dtype=torch.float64):
    """names: {input: name of its gradient}; function(inputs) -> {output: tensor}, whose gradients are inputs too."""
    def run(real):
        given = {k: v.to(real) if v.is_floating_point() else v for k, v in inputs.items()}
        leaves = {k: v.clone().requires_grad_(k in names) for k, v in given.items()}
        results = function(leaves)
        upstream = {k: torch.randn(v.shape, generator=torch.Generator().manual_seed(7)).to(real) for k, v in results.items()}
        sum((results[k] * upstream[k]).sum() for k in results).backward()
        given.update({"d" + k: v for k, v in upstream.items()})
        if extra:
            given.update({k: v.detach() for k, v in extra(leaves, results).items()})
        return given, {name: leaves[k].grad for k, name in names.items()}

    wide_in, wide = run(torch.float64)
    given = {k: (v.to(dtype) if v.is_floating_point() else v) for k, v in wide_in.items()}
    if renamed:
        given = {renamed.get(k, k): v for k, v in given.items() if renamed.get(k, k)}
    if dtype == torch.float64:
        return {"op": op, "options": options, "inputs": given, "outputs": {k: (v, FLOOR64) for k, v in wide.items()}}
    narrow = run(torch.float32)[1]
    return {"op": op, "options": options, "inputs": given,
            "outputs": {k: (v, max(3 * error(narrow[k], v), 3 * FLOOR32)) for k, v in wide.items()}}


def layer_norm(x, eps=EPS):
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def rms_norm(x, eps=EPS):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def rotate(x, cos, sin, halves=False):
    """x [B, L, H, D], tables [L, D/2]."""
    if halves:
        return apply_rotary_pos_emb(x, x, torch.cat([cos, cos], -1)[None], torch.cat([sin, sin], -1)[None], unsqueeze_dim=2)[0]
    wide = (cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1))
    # diffusers' own helper rotates in float32, so for float64 the same formula is written out here
    if x.dtype == torch.float32 and not x.requires_grad:
        return apply_rotary_emb(x, wide, sequence_dim=1)
    pairs = x.unflatten(-1, (-1, 2))
    turned = torch.stack([-pairs[..., 1], pairs[..., 0]], -1).flatten(-2)
    return x * wide[0][:, None] + turned * wide[1][:, None]


def softmax_attention(t, scale, causal, offset):
    q, k, v = (t[n].transpose(1, 2) for n in "qkv")
    scores = q @ k.transpose(-1, -2) * scale
    if "bias" in t:
        scores = scores + t["bias"]
    if "key_bias" in t:
        scores = scores + t["key_bias"][:, None, None]
    if causal:
        i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None]
        scores = scores.masked_fill(j > i + offset, -math.inf)
    return torch.nan_to_num(scores.softmax(-1), nan=0.0) @ v, torch.logsumexp(scores, -1)


def attention_cases(rng):
    b, h, d, lq = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 40), rng.randint(2, 40)
    lk = rng.randint(lq, 60)
    scale = float(np.float32(d ** -0.5))
    t = {"q": torch.randn(b, lq, h, d), "k": torch.randn(b, lk, h, d), "v": torch.randn(b, lk, h, d)}
    heads = lambda x: x.transpose(1, 2)

    def library(causal):  # PyTorch's own masks: upper left, and lower right for a cache
        def run(t):
            from torch.nn.attention.bias import causal_lower_right
            mask = causal_lower_right(lq, lk) if causal == "right" else None
            out = F.scaled_dot_product_attention(heads(t["q"]), heads(t["k"]), heads(t["v"]), scale=scale,
                                                 attn_mask=mask, is_causal=causal == "left")
            offset = lk - lq if causal == "right" else 0
            return {"out": heads(out), "lse": softmax_attention(t, scale, True, offset)[1]}
        return run

    yield case("attention", {"scale": scale, "causal": True}, t, library("left"))
    yield case("attention", {"scale": scale, "causal": True, "causal_offset": lk - lq}, t, library("right"))
    biased = dict(t, bias=torch.randn(h, lq, lk), key_bias=torch.where(torch.rand(b, lk) < 0.3, -math.inf, 0.0))
    biased["key_bias"][:, 0] = 0.5
    for causal, offset in ((False, 0), (True, rng.randint(0, lk))):
        both = lambda t: dict(zip(("out", "lse"), softmax_attention(t, scale, causal, offset)))
        options = {"scale": scale, "causal": causal, "causal_offset": offset}
        yield case("attention", options, biased, lambda t: dict(both(t), out=heads(both(t)["out"])))
        extra = lambda leaves, results: {"out": results["out"], "lse": softmax_attention(leaves, scale, causal, offset)[1]}
        for dtype in (torch.float64, torch.float32):
            yield gradient_case("attention_backward", options, biased, lambda t: {"out": heads(both(t)["out"])},
                                {"q": "dq", "k": "dk", "v": "dv"}, extra=extra, dtype=dtype)


def rope_cases(rng):
    d, length, first = 2 * rng.randint(1, 40), rng.randint(1, 30), rng.randint(0, 9)
    theta = rng.choice([10000.0, 500000.0])
    tables = lambda positions: [t.float() for t in get_1d_rotary_pos_embed(
        d, positions, theta, use_real=True, repeat_interleave_real=True, freqs_dtype=torch.float64)]
    for reverse in (False, True):
        positions = torch.arange(first, first + length, dtype=torch.float64).numpy()
        cos, sin = tables(positions[::-1].copy() if reverse else positions)
        yield {"op": "rope_table", "options": {"length": length, "head_dim": d, "theta": theta, "first": first, "reverse": reverse},
               "inputs": {}, "outputs": {"cos": (cos[:, ::2], 1e-7), "sin": (sin[:, ::2], 1e-7)}}
    grid, d3 = [rng.randint(1, 6) for _ in range(3)], 2 * rng.randint(3, 64)
    cos, sin = WanRotaryPosEmbed(d3, (1, 1, 1), 64)(torch.zeros(1, 1, *grid))
    flip = lambda t: t.reshape(*grid, d3).flip(0).reshape(-1, d3)[:, ::2].float()
    yield {"op": "rope_table", "options": {"grid": grid, "head_dim": d3, "reverse": True}, "inputs": {},
           "outputs": {"cos": (flip(cos), 1e-7), "sin": (flip(sin), 1e-7)}}
    b, h = rng.randint(1, 2), rng.randint(1, 3)
    cos, sin = (t[:, ::2].contiguous() for t in tables(torch.arange(length).numpy()))
    t = {"x": torch.randn(b, length, h, d), "cos": cos, "sin": sin}
    for halves in (False, True):
        function = lambda t: {"y": rotate(t["x"], t["cos"], t["sin"], halves)}
        yield case("rope", {"halves": halves}, t, function)
        yield gradient_case("rope_backward", {"halves": halves}, t, function, {"x": "dx"}, renamed={"x": None})
    heads, c = h, h * d
    for tabled in (True, False):
        t = {"x": torch.randn(b, length, c), "weight": torch.randn(c)}
        if tabled:
            t.update(cos=cos, sin=sin)

        def qk(t):
            y = rms_norm(t["x"]) * t["weight"]
            return {"y": rotate(y.unflatten(-1, (heads, d)), t["cos"], t["sin"]).flatten(-2) if "cos" in t else y}
        yield gradient_case("qk_norm_rope_backward", {"heads": heads, "eps": EPS}, t, qk, {"x": "dx", "weight": "dweight"})


def elementwise_cases(rng):
    m, c = rng.randint(1, 9), rng.randint(1, 90)
    x = torch.cat([torch.randn(40 + c) * 3, torch.linspace(-30, 30, 41), torch.tensor([0.0, -80.0, 100.0])])
    for name, act in ACTS.items():
        t = {"x": x}
        if name == "mish":
            yield case("activation", {"act": name}, t, lambda t: {"y": act(t["x"])})
            w = {"x": torch.randn(m, c), "weight": torch.randn(7, c), "bias": torch.randn(7)}
            yield case("gemm", {"act": name}, w, lambda t: {"y": act(F.linear(t["x"], t["weight"], t["bias"]))})
        yield gradient_case("activation_backward", {"act": name}, t, lambda t: {"y": act(t["x"])}, {"x": "dx"})
        t = {"a": torch.randn(m, c) * 2, "b": torch.randn(m, c)}
        function = lambda t: {"y": act(t["a"]) * t["b"]}
        if name in ("silu", "gelu_erf"):  # SwiGLU, GEGLU
            yield case("glu", {"act": name}, t, function)
        for dtype in (torch.float64, torch.float32):
            yield gradient_case("glu_backward", {"act": name}, t, function, {"a": "da", "b": "db"}, dtype=dtype)

    t = {"mean": torch.randn(m, c), "logvar": torch.randn(m, c) * 15, "noise": torch.randn(m, c)}
    t["logvar"][0, 0] = 25

    def draw(t):
        if t["mean"].dtype == torch.float32 and not t["mean"].requires_grad:  # diffusers' own class, with the noise that it would draw
            d = DiagonalGaussianDistribution(torch.cat([t["mean"][None], t["logvar"][None]], 1))
            return d.mean[0] + d.std[0] * t["noise"]
        return t["mean"] + torch.exp(0.5 * t["logvar"].clamp(-30, 20)) * t["noise"]
    yield case("reparameterize", {}, t, lambda t: {"z": draw(t)})
    t = dict(t, center=torch.randn(m), factor=torch.rand(m) + 0.5)
    function = lambda t: {"z": (draw(t) - t["center"][:, None]) * t["factor"][:, None]}
    yield case("reparameterize", {}, t, function)
    yield gradient_case("reparameterize_backward", {}, t, function, {"mean": "dmean", "logvar": "dlogvar"},
                        renamed={"mean": None, "center": None})


def norm_cases(rng):
    # Rows of two values are left out: cancellation leaves their gradient without any accuracy to compare.
    m, c = rng.randint(1, 9), rng.randint(5, 90)
    x, weight, bias = torch.randn(m, c) * 2 + rng.choice([0, 3]), torch.randn(c), torch.randn(c)
    t = {"x": x, "weight": weight}
    for dtype in (torch.float64, torch.float32):
        yield gradient_case("rmsnorm_backward", {"eps": EPS}, t, lambda t: {"y": rms_norm(t["x"]) * t["weight"]},
                            {"x": "dx", "weight": "dweight"}, dtype=dtype)
    row = torch.randint(0, 3, (m,), dtype=torch.int32)
    t = {"x": x, "weight": weight, "bias": bias, "scale": torch.randn(3, c), "shift": torch.randn(3, c), "row": row}

    def modulate(t):
        n = layer_norm(t["x"]) * t.get("weight", 1) + t.get("bias", 0)
        return {"y": n * (1 + t["scale"][row.long()]) + t["shift"][row.long()] if "scale" in t else n}
    names = {"x": "dx", "weight": "dweight", "bias": "dbias", "scale": "dscale", "shift": "dshift"}
    for keep in (("x", "weight", "bias"), ("x", "scale", "shift"), tuple(names)):
        some = {k: v for k, v in t.items() if k in keep or k == "row" and "scale" in keep}
        yield gradient_case("layernorm_modulate_backward", {"eps": EPS}, some, modulate, {k: names[k] for k in keep},
                            renamed={"shift": None})
    for kind, norm in (("rms", rms_norm), ("layer", layer_norm)):
        t = {"x": x, "u": torch.randn(m, c), "weight": weight, "bias": bias}
        function = lambda t: {"sum": t["x"] + t["u"], "y": norm(t["x"] + t["u"]) * t["weight"] + t["bias"]}
        yield case("add_norm", {"kind": kind, "eps": EPS}, t, function)
        yield gradient_case("add_norm_backward", {"kind": kind, "eps": EPS}, t, function,
                            {"x": "dx", "weight": "dweight", "bias": "dbias"}, renamed={"x": None, "u": None, "bias": None},
                            extra=lambda leaves, results: {"sum": results["sum"]})
    groups, n, p = rng.randint(1, 5), rng.randint(1, 3), rng.randint(5, 40)
    width = groups * rng.randint(1, 20)
    for act in ("none", "silu", "mish"):
        t = {"x": torch.randn(n, p, width) + rng.choice([0, 5]), "weight": torch.randn(width), "bias": torch.randn(width)}
        function = lambda t: {"y": ACTS[act](F.group_norm(t["x"].transpose(1, 2), groups, t["weight"], t["bias"], EPS)).transpose(1, 2)}
        yield case("group_norm", {"groups": groups, "act": act, "eps": EPS}, t, function)
        yield gradient_case("group_norm_backward", {"groups": groups, "act": act, "eps": EPS}, t, function,
                            {"x": "dx", "weight": "dweight", "bias": "dbias"})
    for silu in (True, False):
        t = {"x": torch.randn(p, c), "gamma": torch.randn(c)}
        t["x"][0] = 0
        norm = lambda t: F.normalize(t["x"], dim=1) * c ** 0.5 * t["gamma"]
        made = gradient_case("channel_norm_backward", {"silu": silu}, t, lambda t: {"y": F.silu(norm(t)) if silu else norm(t)},
                             {"x": "dx", "gamma": "dgamma"})
        # The gradient at the zero position is divided by 1e-12 and would dominate the scale of the error, so this position gets no gradient.
        made["inputs"]["dy"][0] = 0
        made["outputs"]["dx"][0][0] = 0
        yield made


def quantize_cases(rng):
    m, c = rng.randint(2, 40), rng.randint(2, 90)
    kinds = {"e4m3": (torch.float8_e4m3fn, 448.0), "e5m2": (torch.float8_e5m2, 57344.0), "i8": (torch.int8, 127.0)}
    blocks = [(0, 0), (1, 0), (1, rng.randint(1, c)), (rng.randint(1, m), rng.randint(1, c))]

    def expand(scale, br, bc):
        return scale.repeat_interleave(br, 0)[:m].repeat_interleave(bc, 1)[:, :c]

    def codes(x, scale, dtype, top):  # PyTorch's cast
        v = (x / scale).clamp(-top, top)
        if dtype == torch.int8:
            return torch.nan_to_num(v.round(), nan=0.0).to(torch.int8).view(torch.uint8)
        q = v.to(dtype).view(torch.uint8)
        return torch.where(v.isnan(), torch.tensor(0x7F, dtype=torch.uint8), q)

    for name, (dtype, top) in kinds.items():
        for rows, columns in blocks:
            br, bc = rows or m, columns or c
            x = torch.randn(m, c) * torch.exp(torch.randn(m, 1) * 3)
            x[0] = 0
            x[1] = (torch.arange(c) - c // 2) * 0.5  # ties
            amax = torch.stack([torch.stack([s.abs().max() for s in band.split(bc, 1)]) for band in x.split(br, 0)])
            scale = torch.where(amax == 0, torch.tensor(1.0), (amax / top).clamp_min(2.0 ** -126))
            q = codes(x, expand(scale, br, bc), dtype, top)
            options = {"type": name, "block_rows": rows, "block_columns": columns}
            yield {"op": "quantize", "options": options, "inputs": {"x": x}, "outputs": {"q": (q, 0), "scale": (scale, 0)}}
            y = q.view(dtype).float() * expand(scale, br, bc)
            yield {"op": "dequantize", "options": options, "inputs": {"q": q, "scale": scale}, "outputs": {"y": (y, 0)}}
        # With a given scale of 1, the values are every tie of the format, both ends of its range, NaN and Inf.
        values = torch.arange(256, dtype=torch.uint8).view(dtype).float()
        values = values[values.isfinite()].sort().values
        x = torch.cat([values, (values[1:] + values[:-1]) / 2, torch.nextafter(values, torch.tensor(math.inf)),
                       torch.tensor([1e30, -1e30, math.inf, -math.inf, math.nan, top * 1.07, 1e-40, -1e-40])])[None]
        yield {"op": "quantize", "options": {"type": name}, "inputs": {"x": x, "scale": torch.ones(1, 1)},
               "outputs": {"q": (codes(x, torch.ones(1, 1), dtype, top), 0)}}


def gated_cases(rng):
    m, c, rows = rng.randint(1, 9), rng.randint(1, 90), rng.randint(1, 4)
    t = {"x": torch.randn(m, c), "u": torch.randn(m, c), "gate": torch.randn(rows, c),
         "row": torch.randint(0, rows, (m,), dtype=torch.int32)}
    names = {"x": "dx", "u": "du", "gate": "dgate"}

    def gated(t):
        if "gate" not in t:
            return {"y": t["x"] + t["u"]}
        return {"y": t["x"] + t["gate"][t["row"].long() if "row" in t else 0] * t["u"]}
    for keep in (("x", "u"), ("x", "u", "gate"), tuple(t)):
        for dtype in (torch.float64, torch.float32):
            yield gradient_case("gated_residual_backward", {}, {k: t[k] for k in keep}, gated,
                                {k: names[k] for k in keep if k in names}, renamed={"x": None}, dtype=dtype)


def lora_cases(rng):
    m, k, out, rank, n = rng.randint(1, 9), rng.randint(1, 90), rng.randint(1, 60), rng.randint(1, 20), rng.randint(1, 4)
    t = {"x": torch.randn(m, k), "a": torch.randn(n, rank, k), "b": torch.randn(n, out, rank), "scales": torch.randn(n),
         "index": torch.randint(-1, n, (m,), dtype=torch.int32)}
    names = {"x": "dx", "a": "da", "b": "db", "scales": "dscales"}

    def adapted(t):
        each = torch.einsum("mk,irk,ior->imo", t["x"], t["a"], t["b"]) * t["scales"][:, None, None]
        if "index" not in t:
            return {"y": each.sum(0) + t.get("y0", 0)}
        i = t["index"].long()
        return {"y": each[i.clamp_min(0), torch.arange(m)] * (i >= 0)[:, None] + t.get("y0", 0)}
    for keep in (("x", "a", "b", "scales"), tuple(t)):
        some = {key: t[key] for key in keep}
        yield case("lora", {}, some, adapted)
        yield case("lora", {}, dict(some, y0=torch.randn(m, out)), adapted)
        for dtype in (torch.float64, torch.float32):
            yield gradient_case("lora_backward", {}, some, adapted, names, dtype=dtype)


def scaled_gemm_cases(rng):
    m, n, k = rng.randint(1, 9), rng.randint(1, 60), rng.randint(1, 90)
    codes = {"i8": lambda *shape: torch.randint(-128, 128, shape).to(torch.int8),
             "e4m3": lambda *shape: (torch.randn(*shape) * 60).to(torch.float8_e4m3fn)}
    for name, make in codes.items():
        x, weight = make(m, k), make(n, k)
        t = {"x": x.view(torch.uint8), "x_scale": (torch.rand(m) + 0.5) * 2 ** -9, "weight": weight.view(torch.uint8),
             "weight_scale": (torch.rand(n) + 0.5) * 2 ** -9, "bias": torch.randn(n), "addend": torch.randn(m, n)}

        def product(t):
            real = t["x_scale"].dtype
            values = [t[part].view(x.dtype).to(real) * t[part + "_scale"][:, None] for part in ("x", "weight")]
            return {"y": ACTS[act](F.linear(*values, t.get("bias")) + t.get("addend", 0))}
        for act, keep in (("none", ("x", "x_scale", "weight", "weight_scale")), ("gelu_tanh", tuple(t)), ("silu", tuple(t)[:-1])):
            yield case("scaled_gemm", {"type": name, "act": act}, {key: t[key] for key in keep}, product)


def color_cases(rng):
    for scale, strength in ((0.3, 1.0), (0.5, 0.4)):
        h, w = rng.randint(2, 90), rng.randint(2, 90)
        t = {"frames": scale * torch.randn(rng.randint(1, 3), h, w, 3) + 0.1, "picture": 0.4 * torch.randn(h, w, 3) - 0.1}
        yield case("match_colors", {"strength": strength}, t, lambda t: {"y": lab.match_colors(t["frames"], t["picture"], strength)})


def region_rope_cases(rng):
    tokens, heads, d, pairs = rng.randint(1, 90), rng.randint(1, 5), rng.randint(3, 9), rng.randint(1, 70)
    t = {"shares": 0.5 + 0.2 * torch.randn(tokens, heads, max(d, 3)), "sizes": torch.tensor([4.0, 5.0, 4.5])}

    def places(t):  # InfiniteTalk's, from its description: tests/reference/infinitetalk.py compares it with the original
        looks = t["shares"][..., :3].mean(1) / t["sizes"]
        low, high = looks.amin(0), looks.amax(0)
        line = (looks - low) / (high - low + 1e-8) * 4 + torch.tensor([0, 20, 0])
        line[:, 2] = 12
        place = line.gather(1, looks.argmax(1, keepdim=True))
        angle = place * 10000.0 ** (-torch.arange(pairs, dtype=place.dtype) / pairs)
        return {"cos": angle.cos(), "sin": angle.sin()}
    # Places are up to 24, where half a unit of float32 is 1e-6, and of few tokens its one run may round all of them well.
    made = case("region_rope", {"pairs": pairs}, t, places)
    yield dict(made, outputs={k: (y, max(bound, 3 * FLOOR32)) for k, (y, bound) in made["outputs"].items()})


def merge_softmax_cases(rng):
    """Attention to some keys and attention to the others, which together give attention to all of them."""
    b, h, d, lq, lk = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 40), rng.randint(1, 20), rng.randint(2, 60)
    scale = float(np.float32(d ** -0.5))
    q, k, v = torch.randn(b, lq, h, d), 3 * torch.randn(b, lk, h, d), torch.randn(b, lk, h, d)
    cut = rng.randint(1, lk - 1)
    # There may be a part without a single key, first or second or both.
    for first, second in ((cut, lk), (0, lk), (lk, lk), (0, 0)):
        parts = {}
        for name, some in (("x", slice(0, first)), ("y0", slice(first, second))):
            t = {"q": q, "k": k[:, some], "v": v[:, some]}
            wide = softmax_attention({n: x.double() for n, x in t.items()}, scale, False, 0)
            parts[name], parts[name + "_lse"] = wide[0].transpose(1, 2).float().contiguous(), wide[1].float()

        def whole(given):
            real = given["x"].dtype
            t = {"q": q.to(real), "k": k[:, :second].to(real), "v": v[:, :second].to(real)}
            heads = lambda n: t[n].transpose(1, 2)
            out = F.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"), scale=scale)
            return {"y": out.transpose(1, 2), "y_lse": softmax_attention(t, scale, False, 0)[1]}

        options = {"x_keys": first, "y_keys": second - first}
        if second == 0:
            yield {"op": "merge_softmax", "options": options, "inputs": parts,
                   "outputs": {"y": (torch.zeros_like(parts["x"]), 0.0), "y_lse": (torch.full_like(parts["x_lse"], -math.inf), 0.0)}}
            continue
        # Both parts were rounded to float32 before they are merged.
        made = case("merge_softmax", options, parts, whole)
        yield dict(made, outputs={k: (y, max(bound, 3 * FLOOR32)) for k, (y, bound) in made["outputs"].items()})


def cut(rng, tokens, most):
    """Returns the ends of blocks of random sizes up to `most`."""
    ends = []
    while not ends or ends[-1] < tokens:
        ends.append(min(tokens, (ends[-1] if ends else 0) + rng.randint(1, most)))
    return ends


def spans(ends):
    return list(zip([0] + ends[:-1], ends))


def listed_cases(rng):
    """Attention over lists of blocks that are cut to sizes of their own, and attention between such blocks."""
    for batch in (1, 2):
        h, d, lq, lk = rng.randint(1, 3), rng.randint(1, 20), rng.randint(3, 60), rng.randint(3, 60)
        q, k, v = torch.randn(batch, lq, h, d), torch.randn(batch, lk, h, d), torch.randn(batch, lk, h, d)
        queries, keys, scale = cut(rng, lq, 9), cut(rng, lk, 9), 1 / math.sqrt(d)
        rows, columns = len(queries), len(keys)
        keep = rng.randint(1, columns)
        lists = torch.stack([torch.randperm(columns)[:keep] for _ in range(batch * h * rows)]).view(batch, h, rows, keep).to(torch.int32)
        cuts = {"query_ends": torch.tensor(queries, dtype=torch.int32), "key_ends": torch.tensor(keys, dtype=torch.int32)}

        def masked(t):
            seen = torch.zeros(batch, h, rows, columns, dtype=torch.bool).scatter_(-1, lists.long(), True)
            block_q = torch.repeat_interleave(torch.arange(rows), torch.tensor([e - s for s, e in spans(queries)]))
            block_k = torch.repeat_interleave(torch.arange(columns), torch.tensor([e - s for s, e in spans(keys)]))
            mask = seen[:, :, block_q][..., block_k]
            scores = torch.einsum("bqhd,bkhd->bhqk", t["q"], t["k"]) * scale
            scores = scores.masked_fill(~mask, -math.inf)
            return {"out": torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), t["v"]), "lse": scores.logsumexp(-1)}

        made = case("listed_attention", {"scale": scale, "most": 9}, {"q": q, "k": k, "v": v}, masked)
        made["inputs"] = {**made["inputs"], **cuts, "indices": lists, "counts": torch.full((batch, h, rows), keep, dtype=torch.int32)}
        yield made

        def coarse(t):
            mean = lambda x, ends: torch.stack([x[:, s:e].mean(1) for s, e in spans(ends)], 2)  # [B, H, blocks, D]
            scores = mean(t["q"], queries) @ mean(t["k"], keys).transpose(-1, -2) * scale
            out = (scores.softmax(-1) @ mean(t["v"], keys)).transpose(1, 2).contiguous()
            return {"out": out, "scores": scores}

        made = case("coarse_attention", {"scale": scale, "most": 9, "keep": keep}, {"q": q, "k": k, "v": v}, coarse)
        best = made["outputs"].pop("scores")[0].topk(keep, -1).indices.sort(-1).values.to(torch.int32)
        made["inputs"].update(cuts)
        made["outputs"]["indices"] = (best, 0)
        yield made


def linear_attention_cases(rng):
    b, h, d, lq, lk = rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 20), rng.randint(1, 40), rng.randint(1, 40)
    scale = rng.choice([1.0, 0.37])

    def function(t):
        phi_q, phi_k = (t["q"] * scale).softmax(-1), t["k"].softmax(-1)
        sums = torch.einsum("blhc,blhd->bhcd", phi_k, t["v"])
        below = 1e-5 + torch.einsum("blhc,bhc->blh", phi_q, phi_k.sum(1))
        return {"out": torch.einsum("blhc,bhcd->blhd", phi_q, sums) / below[..., None]}

    yield case("linear_attention", {"q_scale": scale},
               {"q": torch.randn(b, lq, h, d) * 2, "k": torch.randn(b, lk, h, d) * 2, "v": torch.randn(b, lk, h, d)}, function)


class Sizes(random.Random):
    limit = 1000

    def randint(self, low, high):
        return super().randint(low, max(low, min(high, self.limit)))


def all_cases(seed, largest=1000):
    rng = Sizes(seed)
    rng.limit = largest
    torch.manual_seed(seed)
    for group in (attention_cases, rope_cases, elementwise_cases, norm_cases, quantize_cases, gated_cases, lora_cases, scaled_gemm_cases,
                  color_cases, region_rope_cases, merge_softmax_cases, listed_cases,
                  linear_attention_cases):
        yield from group(rng)
