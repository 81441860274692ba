"""Makes the adapters of tests/unit/adapters: a small model, adapters of it as their trainers write them, and the weights
with each adapter merged in.

Everything here comes from the reference libraries: torch 2.11.0, diffusers 0.42.1 (WanTransformer3DModel, its converters of
other trainers' files, fuse_lora), peft 0.21.2 (merge_and_unload). Seed 7. Where no library reads a file (deltas of norms and
modulations), torch adds what the file says.

    python make.py            # writes beside itself

base.safetensors holds the model; NAME.safetensors or NAME/ holds an adapter, and NAME.merged.safetensors the tensors that it changes.
"""
import json
import shutil
from pathlib import Path

import torch
from diffusers import WanTransformer3DModel
from diffusers.loaders import WanLoraLoaderMixin
from peft import LoHaConfig, LoKrConfig, LoraConfig, get_peft_model
from safetensors.torch import save_file

HERE = Path(__file__).parent
TARGETS = ["attn1.to_q", "attn1.to_k", "attn1.to_v", "attn1.to_out.0", "attn2.add_k_proj", "attn2.add_v_proj", "ffn.net.0.proj", "ffn.net.2"]
ORIGINAL = {"attn1.to_q": "self_attn.q", "attn1.to_k": "self_attn.k", "attn1.to_v": "self_attn.v",
            "attn1.to_out.0": "self_attn.o", "attn2.add_k_proj": "cross_attn.k_img", "attn2.add_v_proj": "cross_attn.v_img", "ffn.net.0.proj": "ffn.0", "ffn.net.2": "ffn.2"}
torch.set_num_threads(1)
torch.manual_seed(7)


def make_model(state=None):
    model = WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4,
                                  out_channels=4, text_dim=16, freq_dim=16, ffn_dim=40, num_layers=1, image_dim=8,
                                  added_kv_proj_dim=24, pos_embed_seq_len=None).float()
    if state is None:
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.2)
    else:
        model.load_state_dict(state)
    return model


def save_changed(name, base, merged):
    changed = {k: v.detach().clone().contiguous() for k, v in merged.items() if k in base and not torch.equal(v, base[k])}
    assert changed, name
    save_file(changed, HERE / f"{name}.merged.safetensors")


def randomise(model):
    """Fills the adapter with random values: PEFT begins with zeros, which would hide every error."""
    for name, p in model.named_parameters():
        if any(piece in name for piece in ("lora_", "hada_", "lokr_")):
            with torch.no_grad():
                p.copy_(torch.randn_like(p).abs() + 0.5 if "magnitude" in name else torch.randn_like(p) * 0.3)


def peft_folder(name, base, config):
    model = get_peft_model(make_model(base), config)
    randomise(model)
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    json.loads((folder / "adapter_config.json").read_text())
    save_changed(name, base, model.merge_and_unload().state_dict())


def pairs(rank, base, targets=TARGETS):
    out = {}
    for target in targets:
        rows, columns = base[f"blocks.0.{target}.weight"].shape
        out[target] = (torch.randn(rank, columns) * 0.3, torch.randn(rows, rank) * 0.3)
    return out


def fused(base, state, scale, **metadata):
    """Returns the weights that diffusers makes from any trainer's file: converted, loaded and fused at this scale."""
    converted = WanLoraLoaderMixin.lora_state_dict(dict(state))
    model = make_model(base)
    model.load_lora_adapter(converted, adapter_name="a", prefix="transformer", **metadata)
    model.fuse_lora(lora_scale=scale)
    merged = {k.replace(".base_layer", ""): v for k, v in model.state_dict().items() if "lora_" not in k}
    return merged


def main():
    base = make_model().state_dict()
    save_file({k: v.contiguous() for k, v in base.items()}, HERE / "base.safetensors")

    common = dict(target_modules=TARGETS)
    peft_folder("peft", base, LoraConfig(r=4, lora_alpha=8, alpha_pattern={"to_k": 2}, rank_pattern={"to_v": 2}, **common))
    peft_folder("rslora", base, LoraConfig(r=4, lora_alpha=3, use_rslora=True, **common))
    peft_folder("dora", base, LoraConfig(r=4, lora_alpha=4, use_dora=True, **common))
    peft_folder("lora_bias", base, LoraConfig(r=4, lora_alpha=2, lora_bias=True, **common))
    peft_folder("loha", base, LoHaConfig(r=3, alpha=6, **common))
    peft_folder("lokr", base, LoKrConfig(r=2, alpha=1, **common))
    peft_folder("lokr_both", base, LoKrConfig(r=1, alpha=2, decompose_both=True, **common))

    low = pairs(4, base)
    original = {}
    for target, (a, b) in low.items():
        stem = f"diffusion_model.blocks.0.{ORIGINAL[target]}"
        original[f"{stem}.lora_down.weight"], original[f"{stem}.lora_up.weight"] = a, b
        original[f"{stem}.alpha"] = torch.tensor(6.0)
    save_file(original, HERE / "original.safetensors")
    merged = fused(base, original, 0.75)
    save_changed("original", base, merged)

    underscored = {}
    cross = {f"attn2.{ours}": f"cross_attn.{theirs}" for ours, theirs in zip(["to_q", "to_k", "to_v", "to_out.0"], "qkvo")}
    every = {**ORIGINAL, **cross}  # diffusers' converter needs all of them
    for target, (a, b) in pairs(2, base, every).items():
        stem = "lora_unet_blocks_0_" + every[target].replace(".", "_")
        underscored[f"{stem}.lora_down.weight"], underscored[f"{stem}.lora_up.weight"] = a, b
        underscored[f"{stem}.alpha"] = torch.tensor(1.0)
    save_file(underscored, HERE / "underscored.safetensors")
    save_changed("underscored", base, fused(base, underscored, 1.0))

    plain = {}
    for target, (a, b) in pairs(3, base).items():
        stem = f"transformer.blocks.0.{target}"
        plain[f"{stem}.lora_A.weight"], plain[f"{stem}.lora_B.weight"] = a, b
    metadata = {f"transformer.{k}": v for k, v in {"r": 3, "lora_alpha": 9, "target_modules": TARGETS}.items()}
    save_file(plain, HERE / "diffusers.safetensors",
              metadata={"format": "pt", "lora_adapter_metadata": json.dumps(metadata)})
    save_changed("diffusers", base, fused(base, plain, 0.75, metadata=metadata))

    # Deltas, as LightX2V writes them, are applied with strength 0.5. Half of the layers also have a pair, without alpha.
    deltas, expected = {}, {k: v.clone() for k, v in base.items()}
    names = {"self_attn.norm_q.diff": "attn1.norm_q.weight", "norm3.diff": "norm2.weight", "norm3.diff_b": "norm2.bias",
             "self_attn.q.diff_b": "attn1.to_q.bias", "diff_m": "scale_shift_table", "cross_attn.q.diff": "attn2.to_q.weight"}
    for key, tensor in names.items():
        value = torch.randn_like(base[f"blocks.0.{tensor}"]) * 0.1
        deltas[f"diffusion_model.blocks.0.{key}"] = value
        expected[f"blocks.0.{tensor}"] += 0.5 * value
    for key, tensor in {"head.head.diff": "proj_out.weight", "head.diff_m": "scale_shift_table", "patch_embedding.diff": "patch_embedding.weight",
                        "patch_embedding.diff_b": "patch_embedding.bias"}.items():
        value = torch.randn_like(base[tensor]) * 0.1
        deltas[f"diffusion_model.{key}"] = value
        expected[tensor] += 0.5 * value
    a, b = low["attn1.to_q"]
    deltas["diffusion_model.blocks.0.self_attn.q.lora_A.default.weight"], deltas["diffusion_model.blocks.0.self_attn.q.lora_B.default.weight"] = a, b
    expected["blocks.0.attn1.to_q.weight"] += 0.5 * (b @ a)
    deltas["diffusion_model.blocks.0.self_attn.norm_k.diff"] = torch.zeros(24)
    save_file(deltas, HERE / "deltas.safetensors")
    save_changed("deltas", base, expected)


if __name__ == "__main__":
    main()
