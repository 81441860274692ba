"""Reports are whole: in models of libraries that we know, each norm, activation, block, attention and MLP is replaced, is computed by a module
that was replaced, or is listed with the reason."""

import re

import pytest
import torch

import small_models
import tachyscope

KNOWN = re.compile(r"norm|gelu|silu|swiglu|block|attention|mlp|layer$", re.IGNORECASE)


def skyreels():
    from diffusers import SkyReelsV2Transformer3DModel
    return SkyReelsV2Transformer3DModel(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4,
                                        text_dim=16, freq_dim=16, ffn_dim=32, num_layers=2, cross_attn_norm=True)


def wan_vae():
    from diffusers import AutoencoderKLWan
    return AutoencoderKLWan(base_dim=8, z_dim=4, dim_mult=[1, 2, 2, 2], num_res_blocks=1, temperal_downsample=[False, True, True],
                            latents_mean=[0.0] * 4, latents_std=[1.0] * 4)


def phi3():
    import transformers
    sizes = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 pad_token_id=0, bos_token_id=1, eos_token_id=2)
    return transformers.Phi3ForCausalLM(transformers.Phi3Config(**sizes))


def inside_replaced(name, replaced):
    return any(name == outer or name.startswith(outer + ".") or outer == "" for outer in replaced)


MODELS = {"SkyReels V2": skyreels, "AutoencoderKLWan": wan_vae, "Phi-3": phi3} | {
    name: lambda name=name: small_models.make(name)[0] for name in small_models.MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_everything_is_told(name):
    model = MODELS[name]()
    report = tachyscope.optimize(model, verbose=False)
    told = {module for module, *_ in report.replaced + report.left}
    silent = [(module, type(part).__name__) for module, part in model.named_modules()
              if KNOWN.search(type(part).__name__) and module not in told and not inside_replaced(module, {m for m, *_ in report.replaced})]
    assert not silent
    assert all(why for _, _, why in report.left)
    tachyscope.restore(model)


def test_what_is_left_of_three_models():
    def left(make):
        report = tachyscope.optimize(make(), verbose=False)
        return {(kind, why) for _, kind, why in report.left}, str(report)

    parts = "its parts are looked at one by one"
    found, said = left(skyreels)
    assert found == {("SkyReelsV2TransformerBlock", parts), ("SkyReelsV2Attention", parts)}
    assert "6 left" in said and "left: 4 x SkyReelsV2Attention: " + parts in said
    found, said = left(wan_vae)
    why = "its channels lie first; our kernel takes them last, and would copy all values"
    assert {("WanRMS_norm", why), ("WanResidualBlock", parts), ("WanAttentionBlock", parts)} <= found
    assert re.search(r"left: \d+ x WanRMS_norm: ", said)
    found, _ = left(phi3)
    assert {("Phi3MLP", parts), ("Phi3Attention", parts)} <= found


def test_blocks_of_unknown_libraries_are_not_listed():
    class MyBlock(torch.nn.Module):
        pass

    assert tachyscope.optimize(MyBlock(), verbose=False).left == []
