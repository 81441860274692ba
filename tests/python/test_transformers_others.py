"""Models of transformers other than language models like LLaMA: encoders, models with pictures, other rotary positions."""

import pytest
import torch
import transformers

import tachyscope
from test_optimize import CountedCalls
from test_transformers import generate, prompts
from test_transformers_attention import functions


def test_encoders_keep_theirs():
    """In BERT only norms and activations are replaced."""
    config = transformers.BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=48)
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()
    ids, mask = prompts()
    with torch.no_grad():
        before = model(ids, attention_mask=mask).last_hidden_state
        report = tachyscope.optimize(model, verbose=False)
        with CountedCalls() as calls:
            after = model(ids, attention_mask=mask).last_hidden_state
    assert report.counts() == {"LayerNorm": 5, "GELUActivation": 2} and set(calls.ops) == {"layer_norm", "activation"}
    assert model.config._attn_implementation == "sdpa"
    torch.testing.assert_close(after, before)


def encoder(kind):
    """Returns a small model that is not a decoder, and a call of it."""
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
    torch.manual_seed(0)
    ids, mask = prompts()
    if kind == "ViT":
        model = transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=16, patch_size=8)).eval()
        pixels = torch.randn(2, 3, 16, 16)
        return model, lambda: model(pixels).last_hidden_state
    if kind == "T5":
        model = transformers.T5Model(transformers.T5Config(vocab_size=64, d_model=32, d_ff=48, d_kv=8, num_layers=2, num_heads=4))
        model.eval()
        return model, lambda: model(ids, attention_mask=mask, decoder_input_ids=ids.flip(1)).last_hidden_state
    cls, more = {"BERT": (transformers.BertModel, {}), "EuroBERT": (transformers.EuroBertModel, dict(pad_token_id=0))}[kind]
    model = cls(cls.config_class(vocab_size=64, **sizes, **more)).eval()
    return model, lambda: model(ids, attention_mask=mask).last_hidden_state[mask.bool()]


@pytest.mark.parametrize("kind", ["BERT", "ViT", "T5", "EuroBERT"])
def test_models_that_see_both_ways(kind):
    """The user chooses our attention by hand. T5's position biases are left to transformers' function."""
    functions()
    model, call = encoder(kind)
    with torch.no_grad():
        before = call()
        model.set_attn_implementation("tachyscope")
        with CountedCalls() as calls:
            after = call()
    assert dict(calls.ops) == ({} if kind == "T5" else {"attention": 2})
    torch.testing.assert_close(after, before)


def test_encoder_with_attention_as_llamas():
    model, call = encoder("EuroBERT")
    with torch.no_grad():
        before = call()
        report = tachyscope.optimize(model, verbose=False)
        with CountedCalls() as calls:
            after = call()
    assert report.counts()["EuroBertAttention"] == report.counts()["EuroBertDecoderLayer"] == 2
    assert calls.ops["attention"] == calls.ops["add_norm"] == 2
    torch.testing.assert_close(after, before)


def test_parts_of_a_model_with_pictures():
    """The language model's config names our attention; those of the picture encoder and of the whole model stay as they are."""
    text = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, head_dim=8, sliding_window=4)
    vision = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=8)
    torch.manual_seed(0)
    config = transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    model = transformers.Gemma3ForConditionalGeneration(config).eval()
    before = generate(model)
    tachyscope.optimize(model, verbose=False)
    chosen = [c._attn_implementation for c in (model.config, model.config.text_config, model.config.vision_config)]
    assert chosen == ["sdpa", "tachyscope", "sdpa"]
    with CountedCalls() as calls:
        assert torch.equal(generate(model), before)
    assert calls.ops["attention"] == 2 * 14
    tachyscope.restore(model)
    assert model.config.text_config._attn_implementation == "sdpa"


def test_other_rotary_positions_are_left():
    """Helium's attention has LLaMA's code, but its rotary positions rotate pairs of neighbouring values."""
    config = transformers.HeliumConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, head_dim=8,
                                       num_attention_heads=4, num_key_value_heads=2)
    model = transformers.HeliumForCausalLM(config).eval()
    report = tachyscope.optimize(model, verbose=False)
    assert ("model.layers.0.self_attn", "HeliumAttention", "its rotary positions are not LLaMA's") in report.left
    assert model.config._attn_implementation == "sdpa"
