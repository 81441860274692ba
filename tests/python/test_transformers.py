"""Tests tokens and logits of transformers' language models with our attention and decoder layers."""

import pytest
import torch

import small_models
import tachyscope
from test_optimize import CountedCalls

WINDOW = 4  # the window of Mistral and Gemma 2 and 3, shorter than a prompt
LLAMA = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8)
FALCON = dict(vocab_size=64, hidden_size=32, ffn_hidden_size=48, num_hidden_layers=3, num_attention_heads=4)
MODELS = {
    "LLaMA": ("Llama", "Config", LLAMA),
    "Mistral": ("Mistral", "Config", LLAMA | dict(sliding_window=WINDOW)),
    "Qwen2": ("Qwen2", "Config", LLAMA),
    "Qwen3": ("Qwen3", "Config", LLAMA),
    "Gemma": ("Gemma", "Config", LLAMA),
    "Gemma2": ("Gemma2", "Config", LLAMA | dict(sliding_window=WINDOW)),
    "Gemma3": ("Gemma3", "TextConfig", LLAMA | dict(sliding_window=WINDOW, sliding_window_pattern=2)),
    "Falcon": ("Falcon", "Config", FALCON),
    "Falcon, older": ("Falcon", "Config", FALCON | dict(multi_query=False, parallel_attn=False, bias=True)),
    "Falcon, newer": ("Falcon", "Config", FALCON | dict(new_decoder_architecture=True, num_kv_heads=2)),
    "Falcon with ALiBi": ("Falcon", "Config", FALCON | dict(alibi=True)),
    "Mixtral": ("Mixtral", "Config", LLAMA | dict(sliding_window=WINDOW, num_local_experts=4, num_experts_per_tok=2)),
    "Qwen3 with experts": ("Qwen3Moe", "Config", LLAMA | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)),
    "Granite": ("Granite", "Config", LLAMA),
    "Jais2": ("Jais2", "Config", LLAMA),  # LayerNorm with LLaMA's layer
}
ROUTED = ("Mixtral", "Qwen3 with experts")  # rounding may change the choice of experts, in transformers' own code as well
NO_ADD_NORM = ("Falcon", "Falcon, newer", "Falcon with ALiBi", "Mixtral", "Granite")  # they have other layers, or parallel branches


def make(name, dtype=torch.float32):
    """Makes a model whose scores differ so much between keys that an extra key or a wrong position changes its tokens."""
    torch.manual_seed(3)
    kind, config, options = MODELS[name]
    model, _ = small_models.language_model(kind, config, **options)()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() == 1:
                torch.nn.init.normal_(p, mean=p.mean().item(), std=0.3)
            elif any(part in key for part in ("q_proj", "k_proj", "query_key_value")):
                p.mul_(10)
    return model.eval().to(dtype)


def prompts():
    """Returns three rows, two of which are padded on the left."""
    torch.manual_seed(4)
    ids, mask = torch.randint(3, 64, (3, 11)), torch.ones(3, 11, dtype=torch.long)
    for row, count in ((0, 5), (1, 1)):
        ids[row, :count] = 0
        mask[row, :count] = 0
    return ids, mask


def generate(model, **options):
    """Returns greedy tokens. On a GPU transformers would compile a model with a static cache by itself; here it does so only if asked."""
    ids, mask = prompts()
    options = {"disable_compile": "compile_config" not in options} | options
    return model.generate(ids, attention_mask=mask, max_new_tokens=14, min_new_tokens=14, do_sample=False, **options)


def logits(model, ids, mask=None, **options):
    with torch.no_grad():
        return model(ids, attention_mask=mask, **options).logits


def expect_near(after, before, bound=2e-5):
    assert (after - before).abs().max() <= bound * before.abs().max()


@pytest.mark.parametrize("cache", ["dynamic", "static", "none"])
@pytest.mark.parametrize("name", MODELS)
def test_greedy_tokens(name, cache):
    if cache == "static" and "ALiBi" in name:
        pytest.skip("transformers itself makes no ALiBi of a static cache's mask")
    options = {"use_cache": False} if cache == "none" else {"cache_implementation": cache}
    model = make(name)
    before = generate(model, **options)
    tachyscope.optimize(model, verbose=False)
    with CountedCalls() as calls:
        after = generate(model, **options)
    assert torch.equal(after, before)
    layers, tokens = 3, 14
    assert calls.ops["attention"] == (0 if name == "Gemma2" else layers * tokens), "Gemma 2 caps its scores"
    assert calls.ops["rope"] == (0 if "ALiBi" in name else 2 * layers * tokens)
    assert calls.ops["add_norm"] == (0 if name in NO_ADD_NORM else layers * tokens)


@pytest.mark.parametrize("name", MODELS)
def test_logits(name):
    """Compares the logits of a padded batch, and of a prompt given to a cache in three parts."""
    from transformers import DynamicCache

    model = make(name)
    ids, mask = prompts()

    def all_logits():
        cache, parts = DynamicCache(config=model.config), []
        for begin, end in ((0, 6), (6, 10), (10, 11)):
            parts.append(logits(model, ids[2:, begin:end], past_key_values=cache))
        seen = mask.bool()
        return logits(model, ids, mask, use_cache=False)[seen], logits(model, ids[2:], use_cache=False), torch.cat(parts, 1)

    before = all_logits()
    tachyscope.optimize(model, verbose=False)
    after = all_logits()
    for ours, theirs in zip(after, before):
        expect_near(ours, theirs)
    expect_near(after[2], after[1])
    tachyscope.restore(model)
    assert all(torch.equal(now, then) for now, then in zip(all_logits(), before))


@pytest.mark.parametrize("level", ["safe", "aggressive"])
@pytest.mark.parametrize("name", [name for name in MODELS if name not in ROUTED])
def test_bfloat16(name, level):
    """The error against the model in float32 is at most a quarter larger than that of the model itself in
    bfloat16."""
    model = make(name, torch.bfloat16)
    ids, mask = prompts()
    theirs = logits(model, ids, mask, use_cache=False)
    tachyscope.optimize(model, level, verbose=False)
    with CountedCalls() as calls:
        ours = logits(model, ids, mask, use_cache=False)
    assert ("rope" in calls.ops) == (level == "aggressive" and "ALiBi" not in name)
    tachyscope.restore(model)
    exact = logits(model.float(), ids, mask, use_cache=False)

    def error(result):
        return (result.float() - exact)[mask.bool()].square().mean().sqrt().item()

    assert ours.dtype == torch.bfloat16
    assert error(ours) <= 1.25 * error(theirs), (error(ours), error(theirs))


@pytest.mark.parametrize("name", ["LLaMA", "Gemma3", "Falcon"])
def test_positions_of_each_row(name):
    model = make(name)
    ids = torch.randint(3, 64, (2, 7))
    positions = torch.stack([torch.arange(7), 5 + 3 * torch.arange(7)])
    before = logits(model, ids, position_ids=positions)
    tachyscope.optimize(model, verbose=False)
    expect_near(logits(model, ids, position_ids=positions), before)


def test_roundings_at_safe():
    """With 16-bit values the sum equals the module's bit for bit. The normalised values are rounded before
    the weight is applied, as in the module."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    from tachyscope import _transformers
    norm = LlamaRMSNorm(64).bfloat16()
    torch.nn.init.normal_(norm.weight)
    x, u = torch.randn(40, 64, dtype=torch.bfloat16), torch.randn(40, 64, dtype=torch.bfloat16)
    theirs = norm(x + u)
    same = {}
    for twice in (True, False):
        normed, h = _transformers._llama_sum(norm, twice, x, u)
        assert torch.equal(h, x + u) and normed.dtype == torch.bfloat16
        same[twice] = (normed == theirs).float().mean()
    assert same[True] > 0.999 > 0.9 > same[False]
