"""Small random models of diffusers and transformers, each with inputs. `optimize` is tested on them."""

import copy

import torch
from torch import nn


def wan():
    from diffusers import WanTransformer3DModel
    model = WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4,
                                  out_channels=4, text_dim=16, freq_dim=16, ffn_dim=32, num_layers=2, cross_attn_norm=True)
    return model, dict(hidden_states=torch.randn(1, 4, 2, 6, 6), timestep=torch.tensor([3]),
                       encoder_hidden_states=torch.randn(1, 5, 16))


def ltx():
    from diffusers import LTXVideoTransformer3DModel
    model = LTXVideoTransformer3DModel(in_channels=4, out_channels=4, num_attention_heads=2, attention_head_dim=12,
                                       cross_attention_dim=24, num_layers=2, caption_channels=16)
    return model, dict(hidden_states=torch.randn(1, 12, 4), encoder_hidden_states=torch.randn(1, 5, 16),
                       timestep=torch.tensor([3]), encoder_attention_mask=torch.ones(1, 5), num_frames=3, height=2, width=2)


def flux():
    from diffusers import FluxTransformer2DModel
    model = FluxTransformer2DModel(in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
                                   num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32,
                                   axes_dims_rope=(4, 4, 8))
    return model, dict(hidden_states=torch.randn(1, 6, 4), encoder_hidden_states=torch.randn(1, 5, 32),
                       pooled_projections=torch.randn(1, 32), timestep=torch.tensor([0.5]), img_ids=torch.zeros(6, 3),
                       txt_ids=torch.zeros(5, 3), guidance=None)


def sd3():
    from diffusers import SD3Transformer2DModel
    model = SD3Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8,
                                  num_attention_heads=4, caption_projection_dim=32, joint_attention_dim=32,
                                  pooled_projection_dim=64, out_channels=4, qk_norm="rms_norm", pos_embed_max_size=8)
    return model, dict(hidden_states=torch.randn(1, 4, 8, 8), encoder_hidden_states=torch.randn(1, 5, 32),
                       pooled_projections=torch.randn(1, 64), timestep=torch.tensor([3]))


def sdxl():
    from diffusers import UNet2DConditionModel
    model = UNet2DConditionModel(block_out_channels=(32, 64), layers_per_block=1, sample_size=16, in_channels=4,
                                 out_channels=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                                 up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), attention_head_dim=(2, 4),
                                 use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=8,
                                 transformer_layers_per_block=(1, 2), projection_class_embeddings_input_dim=80,
                                 cross_attention_dim=64)
    return model, dict(sample=torch.randn(1, 4, 16, 16), timestep=torch.tensor(3), encoder_hidden_states=torch.randn(1, 5, 64),
                       added_cond_kwargs={"text_embeds": torch.randn(1, 32), "time_ids": torch.randn(1, 6)})


def pixart():
    from diffusers import PixArtTransformer2DModel
    model = PixArtTransformer2DModel(sample_size=8, num_layers=1, patch_size=2, attention_head_dim=8, num_attention_heads=3,
                                     caption_channels=32, in_channels=4, cross_attention_dim=24, out_channels=8,
                                     norm_num_groups=None, use_additional_conditions=False)
    return model, dict(hidden_states=torch.randn(1, 4, 8, 8), encoder_hidden_states=torch.randn(1, 5, 32),
                       timestep=torch.tensor([3]), added_cond_kwargs={"resolution": None, "aspect_ratio": None})


def dit():
    from diffusers import DiTTransformer2DModel
    model = DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=1, sample_size=8,
                                  out_channels=4, num_embeds_ada_norm=10)
    return model, dict(hidden_states=torch.randn(1, 4, 8, 8), timestep=torch.tensor([3]), class_labels=torch.tensor([1]))


def vae():
    from diffusers import AutoencoderKL
    model = AutoencoderKL(block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, latent_channels=4, sample_size=8,
                          down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2)
    return model, dict(sample=torch.randn(1, 3, 8, 8))


def language_model(name, config="Config", **options):
    def make():
        import transformers
        sizes = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, pad_token_id=0, bos_token_id=1,
                     eos_token_id=2)
        sizes |= options or dict(intermediate_size=48, num_key_value_heads=2, head_dim=8)
        model = getattr(transformers, name + "ForCausalLM")(getattr(transformers, name + config)(**sizes))
        return model, dict(input_ids=torch.arange(9)[None], use_cache=False)

    return make


MODELS = {
    "Wan": wan, "LTX-Video": ltx, "FLUX": flux, "SD3": sd3, "SDXL": sdxl, "PixArt": pixart, "DiT": dit,
    "VAE": vae,
    "LLaMA": language_model("Llama"), "Mistral": language_model("Mistral"), "Qwen2": language_model("Qwen2"),
    "Qwen3": language_model("Qwen3"), "Falcon": language_model("Falcon", ffn_hidden_size=48), "Gemma": language_model("Gemma"),
    "Gemma2": language_model("Gemma2"), "Gemma3": language_model("Gemma3", "TextConfig"),
}


def make(name, dtype=torch.float32, seed=0):
    torch.manual_seed(seed)
    model, inputs = MODELS[name]()
    for parameter in model.parameters():  # norms begin with ones or zeros, which would hide a forgotten weight
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.3)
    cast = {key: t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t for key, t in inputs.items()}
    return model.eval().to(dtype), cast


def near(model, bound):
    """Returns the bound on a float32 difference for this model. On a GPU it is four times as large for models with convolutions other than the patch
    embedding, since cuDNN's algorithms, such as Winograd's, err a few times more than plain sums."""
    convolves = any(isinstance(m, (nn.Conv2d, nn.Conv3d)) and m.kernel_size != m.stride for m in model.modules())
    return 4 * bound if convolves and next(model.parameters()).is_cuda else bound


def exact(model, inputs):
    """Returns the result of a plain model in float64."""
    def wide(value):
        if isinstance(value, dict):
            return {key: wide(t) for key, t in value.items()}
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return run(copy.deepcopy(model).double(), wide(inputs))


def as_near(model, after, before, right, least):
    """Says whether our float32 result is within three times the error of the model's own one, or within the least bound, as a share of the largest value.
    How far the model's own one is off depends on the CPU."""
    return (after - right).abs().max() <= max(3 * (before - right).abs().max(), near(model, least) * right.abs().max())


def run(model, inputs):
    with torch.no_grad():
        result = model(**inputs)
    return result.logits if hasattr(result, "logits") else result.sample
