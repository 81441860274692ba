"""The attention that is registered with transformers: its results beside those of sdpa, which configs get it, and how they are saved and restored."""

import copy
import pickle

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import tachyscope
from test_optimize import CountedCalls
from test_transformers import expect_near, generate, logits, make, prompts


def functions():
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    tachyscope.optimize(torch.nn.SiLU(), verbose=False)  # this registers our attention
    return ALL_ATTENTION_FUNCTIONS["tachyscope"], sdpa_attention_forward


class Module(torch.nn.Module):
    """A module with the attributes that the functions read."""

    def __init__(self, groups=1, is_causal=True):
        super().__init__()
        self.num_key_value_groups, self.is_causal = groups, is_causal


def tensors(queries, keys, heads=4, key_heads=2, batch=2, dtype=torch.float32):
    torch.manual_seed(1)
    shapes = (batch, heads, queries, 16), (batch, key_heads, keys, 16), (batch, key_heads, keys, 16)
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def mask_of(kind, queries, keys):
    torch.manual_seed(2)
    seen = torch.rand(2, 1, queries, keys) > 0.4
    seen[..., 0] = True
    return {"none": None, "bools": seen, "numbers": torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min),
            "expanded": seen[:1].expand(2, -1, -1, -1), "keys": seen[:, :, :1].expand(-1, -1, queries, -1),
            "heads": torch.randn(2, 4, queries, keys)}[kind]


@pytest.mark.parametrize("kind", ["none", "bools", "numbers", "expanded", "keys", "heads"])
@pytest.mark.parametrize("queries, keys", [(7, 7), (1, 9), (3, 9)])
@pytest.mark.parametrize("causal", [True, False])
def test_as_sdpa(kind, queries, keys, causal):
    """3 queries with 9 keys and no mask occur with a static cache that was empty."""
    ours, theirs = functions()
    arguments = Module(2, causal), *tensors(queries, keys), mask_of(kind, queries, keys)
    with CountedCalls() as calls:
        result, weights = ours(*arguments, scaling=0.3)
    assert calls.ops["attention"] == 1 and weights is None
    torch.testing.assert_close(result, theirs(*arguments, scaling=0.3)[0])
    explicit, _ = ours(*arguments, is_causal=not causal)
    torch.testing.assert_close(explicit, theirs(*arguments, is_causal=not causal)[0])


def test_what_goes_to_transformers():
    ours, theirs = functions()
    q, k, v = tensors(5, 5, key_heads=4)
    bias = torch.randn(1, 4, 5, 5)
    calls = {
        "dropout": (Module(), (q, k, v, None), dict(dropout=0.5)),
        "a bias": (Module(), (q, k, v, None), dict(position_bias=bias)),
        "longer values": (Module(), (q, k, torch.cat([v, v], -1), None), {}),
        "float64": (Module(), (q.double(), k.double(), v.double(), None), {}),
        "one key of a mask": (Module(), (q, k, v, torch.ones(2, 1, 5, 1, dtype=torch.bool)), {}),
    }
    for words, (module, arguments, options) in calls.items():
        with sdpa_kernel(SDPBackend.MATH), CountedCalls() as calls:  # torch's other GPU kernels refuse some of these masks
            torch.manual_seed(0)
            expected, _ = theirs(module, *arguments, **options)
            torch.manual_seed(0)
            result, _ = ours(module, *arguments, **options)
        assert torch.equal(result, expected) and not calls.ops, words
    with torch.autocast(q.device.type, torch.bfloat16), CountedCalls() as calls:
        assert ours(Module(), q, k, v, None)[0].dtype == torch.bfloat16 and not calls.ops


def test_mask_is_made_once():
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    functions()
    make_mask = ALL_MASK_ATTENTION_FUNCTIONS["tachyscope"]
    here = dict(batch_size=3, q_length=5, kv_length=5, device=torch.get_default_device())
    assert make_mask(**here) is None
    mask = make_mask(**here, allow_is_causal_skip=False, dtype=torch.bfloat16)
    assert mask.shape == (3, 1, 5, 5) and mask.dtype == torch.float32 and mask.stride(0) == 0
    assert torch.equal(mask[1, 0] == 0, torch.ones(5, 5).tril().bool()) and mask.min() == float("-inf")


@pytest.mark.parametrize("name", ["LLaMA", "Gemma3"])
def test_config(name, tmp_path):
    """Our name is never saved, not even by pickle. After restore the config is as it was; a second
    optimize and restore change nothing."""
    model = make(name)
    model.save_pretrained(tmp_path)  # this call itself adds to the config
    plain = copy.deepcopy(model)
    fields, text = copy.deepcopy(vars(model.config)), model.config.to_json_string()
    report = tachyscope.optimize(model, verbose=False)
    assert {op for _, kind, op in report.replaced if "Attention" in kind} == {"rope and attention (rope where it is float32)"}
    assert model.config._attn_implementation == "tachyscope" and model.config.to_json_string() == text
    model.save_pretrained(tmp_path)
    assert "tachyscope" not in (tmp_path / "config.json").read_text()
    assert type(model).from_pretrained(tmp_path).config._attn_implementation == "sdpa"
    loaded = pickle.loads(pickle.dumps(model))  # the copy has no kernels
    with CountedCalls() as calls:
        assert loaded.config._attn_implementation == "sdpa" and torch.equal(generate(loaded), generate(plain))
    assert not calls.ops
    tachyscope.optimize(loaded, verbose=False)
    assert loaded.config._attn_implementation == "tachyscope"
    tachyscope.optimize(model, "aggressive", verbose=False)
    assert tachyscope.restore(model) == tachyscope.restore(loaded) == len(report.replaced)
    assert vars(model.config) == fields and model.config.to_json_string() == text
    assert not [key for module in model.modules() for key in vars(module) if "tachyscope" in key]
    assert torch.equal(generate(model), generate(plain))


def test_the_users_choice_counts():
    """Eager attention stays if the user asked for it before or after optimize, and so does any later choice. Only norms, layers and rope are ours
    then."""
    model = make("LLaMA")
    model.set_attn_implementation("eager")
    tokens = generate(model)
    report = tachyscope.optimize(model, verbose=False)
    assert {op for _, kind, op in report.replaced if "Attention" in kind} == {"rope, attention is eager (rope where it is float32)"}
    with CountedCalls() as calls:
        assert torch.equal(generate(model), tokens)
    assert "attention" not in calls.ops and calls.ops["rope"] > 0
    tachyscope.restore(model)
    assert model.config._attn_implementation == "eager"

    model.set_attn_implementation("sdpa")
    tachyscope.optimize(model, verbose=False)
    for chosen in ("eager", "sdpa"):
        model.set_attn_implementation(chosen)
        with CountedCalls() as calls:
            assert torch.equal(generate(model), tokens)
        assert "attention" not in calls.ops
        model.set_attn_implementation("tachyscope")
    model.set_attn_implementation("eager")
    tachyscope.restore(model)
    assert model.config._attn_implementation == "eager"


def test_name_chosen_by_the_user():
    """A name that the user chose works without optimize, and restore does not take it back."""
    functions()
    model = make("Qwen3")
    tokens = generate(model)
    model.set_attn_implementation("tachyscope")
    with CountedCalls() as calls:
        assert torch.equal(generate(model), tokens)
    assert set(calls.ops) == {"attention"}
    tachyscope.optimize(model, verbose=False)
    tachyscope.restore(model)
    assert model.config._attn_implementation == "tachyscope"


def test_capped_scores():
    """Gemma 2 runs its own function under our name, with its own mask, and gives the same bits. `optimize`
    leaves it the function that it had, even if that is sdpa, which in transformers 5.17 ignores the caps."""
    functions()
    model = make("Gemma2")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                p.mul_(6)  # now the scores are large enough for the caps to change them
    ids, mask = prompts()
    chosen, plain = model.config._attn_implementation, logits(model, ids, mask)
    tachyscope.optimize(model, verbose=False)
    assert model.config._attn_implementation == chosen
    expect_near(logits(model, ids, mask), plain)
    tachyscope.restore(model)
    model.set_attn_implementation("eager")
    capped = logits(model, ids, mask)
    model.set_attn_implementation("tachyscope")
    with CountedCalls() as calls:
        assert torch.equal(logits(model, ids, mask), capped)
    assert not calls.ops
    model.config.attn_logit_softcapping = None
    for layer in model.model.layers:
        layer.self_attn.attn_logit_softcapping = None
    apart = (logits(model, ids, mask) - capped)[mask.bool()].abs().max()
    assert apart > 1e-2 * capped.abs().max(), "no score was near the caps"
