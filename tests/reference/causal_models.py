"""Small random causal models, their files in the published form, and inputs of a rollout, for golden values and fresh comparisons."""

import json

import causal
import torch
from safetensors.torch import save_file

TEXT_GIVEN, TEXT_ROWS = 5, 512  # rows of text without and with the zeros after them


def causal_model(gen, **sizes):
    """Makes a model without zero weights, so that a missing part shows, and whose output is about as large as its input."""
    model = causal.CausalWan(**sizes)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=gen)
            if name.endswith("modulation"):
                p.copy_(0.3 * noise)
            elif p.ndim == 1:
                p.copy_(1 + 0.2 * noise if name.endswith("weight") else 0.1 * noise)
            elif name == "head.head.weight" or "proj_mouse" in name or "proj_keyboard" in name:
                p.copy_(noise * (1.5 / p.shape[1] ** 0.5))
            else:
                p.copy_(noise / p[0].numel() ** 0.5)
    return model.eval()


def original_config(model, window=-1, sinks=0):
    """Returns the config.json of a model, in the form of the published ones."""
    blocks = [i for i, b in enumerate(model.blocks) if hasattr(b, "action_model")]
    dim = model.patch_embedding.out_channels
    config = {"_class_name": "CausalWanModel", "model_type": "t2v" if model.text_dim else "i2v", "dim": dim, "ffn_dim": model.blocks[0].ffn[0].out_features,
              "freq_dim": model.freq_dim, "in_dim": model.patch_embedding.in_channels, "out_dim": model.out_channels, "num_heads": model.heads,
              "num_layers": len(model.blocks), "local_attn_size": window, "sink_size": sinks, "eps": 1e-6, "text_len": TEXT_ROWS}
    if model.text_dim:
        config["text_dim"] = model.text_dim
    config["cross_attn_norm"] = True
    if blocks:
        a = model.blocks[blocks[0]].action_model
        config["action_config"] = {
            "blocks": blocks, "enable_keyboard": True, "enable_mouse": hasattr(a, "t_qkv"), "heads_num": a.heads, "hidden_size": a.keyboard_embed[2].out_features,
            "img_hidden_size": dim, "keyboard_dim_in": a.keyboard_embed[0].in_features, "keyboard_hidden_dim": a.mouse_attn_q.out_features,
            "patch_size": [1, 2, 2], "qk_norm": True, "qkv_bias": False, "rope_dim_list": [8, 28, 28], "rope_theta": 256, "vae_time_compression_ratio": 4,
            "windows_size": 3}
        if hasattr(a, "t_qkv"):
            past = (a.mouse_mlp[0].in_features - dim) // 12
            config["action_config"] |= {"mouse_dim_in": past, "mouse_hidden_dim": a.t_qkv.in_features, "mouse_qk_dim_list": [8, 28, 28]}
    return config


def save(model, folder, window=-1, sinks=0, bf16=False, prefix="", name="diffusion_pytorch_model.safetensors"):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(original_config(model, window, sinks), indent=1) + "\n")
    save_file({prefix + k: v.to(torch.bfloat16 if bf16 else torch.float32).contiguous() for k, v in model.state_dict().items()}, folder / name)


def shifted(shift, steps):
    """Returns the shifted timesteps, which are fractional, and the sigmas of a list of steps, in float32 arithmetic."""
    s = torch.tensor(steps, dtype=torch.float32)
    sigmas = shift * s / (1 + (shift - 1) * s)
    return [float(t) for t in sigmas * 1000], [float(s) for s in sigmas]


def rollout_inputs(gen, model, blocks, steps, height, width, given=0, text_rows=TEXT_GIVEN):
    """given: the number of latent frames, at the beginning of `blocks`, that are inputs and not made."""
    channels, total = model.out_channels, sum(blocks)

    def random(*shape):
        return torch.randn(shape, generator=gen)

    inputs = {"noise": random(channels, total - given, height, width)}
    if steps > 1:
        inputs["fresh"] = random(steps - 1, channels, total - given, height, width)
    if model.text_dim:
        inputs["context"] = torch.cat([random(text_rows, model.text_dim), torch.zeros(TEXT_ROWS - text_rows, model.text_dim)])
    else:
        inputs["context"] = random(7, model.img_emb.proj[1].in_features)
    if given:
        inputs["given"] = random(channels, given, height, width)
    if model.patch_embedding.in_channels > channels:
        inputs["condition"] = random(model.patch_embedding.in_channels - channels, total, height, width)
    action = next((b.action_model for b in model.blocks if hasattr(b, "action_model")), None)
    if action is not None:
        inputs["keyboard"] = (random(4 * total - 3, action.keyboard_embed[0].in_features) > 0).float()
        if hasattr(action, "t_qkv"):
            inputs["mouse"] = random(4 * total - 3, (action.mouse_mlp[0].in_features - model.patch_embedding.out_channels) // 12)
    return inputs


def reaction(model, inputs, timesteps, sigmas, window, blocks):
    """Returns the relative change of the last forward pass's velocities when no key is pressed and the mouse
    rests."""
    if "keyboard" not in inputs:
        return 0.0
    with torch.no_grad():
        wide = {k: v.double() for k, v in inputs.items()}
        still = wide | {k: wide[k] * 0 for k in ("keyboard", "mouse") if k in wide}
        a, b = (causal.rollout(model.double(), timesteps=timesteps, sigmas=sigmas, window=causal.Window(window), blocks=blocks, **i)[1][-1]
                for i in (wide, still))
    return ((a - b).norm() / a.norm()).item()
