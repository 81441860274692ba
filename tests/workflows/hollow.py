"""Writes the files of ComfyUI's Wan templates in their true shapes and without values, so that a graph can be imported and planned:

    python tests/workflows/hollow.py FOLDER --comfyui COMFYUI --spiece models/sprites/tokenizer/spiece.model

FOLDER becomes the folder `models` of a ComfyUI, with `input` beside it. The names and shapes of the tensors are those that ComfyUI's own
modules state on torch's device `meta`. A file takes a few hundred kilobytes on a disk with holes, and looks as large as the real one.
"""

import argparse
import json
import pathlib
import struct
import sys

import torch

KINDS = {torch.float16: "F16", torch.float32: "F32", torch.uint8: "U8"}

# name of a file: in_dim, dim, ffn_dim, layers, out_dim, whether it has CLIP's branch, whether that has positions for two pictures
T2V_14B, I2V_14B = (16, 5120, 13824, 40, 16, False, False), (36, 5120, 13824, 40, 16, False, False)
TRANSFORMERS = {
    "wan2.1_t2v_1.3B_fp16": (16, 1536, 8960, 30, 16, False, False),
    "wan2.1_i2v_480p_14B_fp16": (36, 5120, 13824, 40, 16, True, False),
    "wan2.1_flf2v_720p_14B_fp16": (36, 5120, 13824, 40, 16, True, True),
    "wan2.2_ti2v_5B_fp16": (48, 3072, 14336, 30, 48, False, False),
    "wan2.2_fun_inpaint_5B_bf16": (100, 3072, 14336, 30, 48, False, False),
    "wan2.2_t2v_high_noise_14B_fp8_scaled": T2V_14B,
    "wan2.2_t2v_low_noise_14B_fp8_scaled": T2V_14B,
    "wan2.2_i2v_high_noise_14B_fp8_scaled": I2V_14B,
    "wan2.2_i2v_low_noise_14B_fp8_scaled": I2V_14B,
    "wan2.2_fun_inpaint_high_noise_14B_fp8_scaled": I2V_14B,
    "wan2.2_fun_inpaint_low_noise_14B_fp8_scaled": I2V_14B,
}
VACE = {  # name: a transformer as above, and how many control blocks it has
    "wan2.1_vace_1.3B_fp16": ((16, 1536, 8960, 30, 16, False, False), 15),
    "wan2.1_vace_14B_fp16": (T2V_14B, 8),
}
LORAS = {  # name: rank; each has one pair for every layer of attention to itself
    "wan2.2_t2v_lightx2v_4steps_lora_v1.1_high_noise": 64,
    "wan2.2_t2v_lightx2v_4steps_lora_v1.1_low_noise": 64,
    "wan2.2_i2v_lightx2v_4steps_lora_v1_high_noise": 64,
    "wan2.2_i2v_lightx2v_4steps_lora_v1_low_noise": 64,
    "Wan21_CausVid_14B_T2V_lora_rank32": 32,
}
PICTURES = ("start_image.png", "end_image.png", "flux_dev_example.png")


def write(path, tensors, values=None):
    """tensors: names with (dtype, shape); values: bytes of those that are not holes."""
    header, offset, places = {}, 0, {}
    for name, (dtype, shape) in tensors.items():
        count = torch.Size(shape).numel() * torch.empty(0, dtype=dtype).element_size()
        header[name] = {"dtype": KINDS[dtype], "shape": list(shape), "data_offsets": [offset, offset + count]}
        places[name], offset = offset, offset + count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)
        for name, data in (values or {}).items():
            file.seek(8 + len(text) + places[name])
            file.write(data)


def shapes(module, dtype):
    return {name: (dtype, tuple(t.shape)) for name, t in module.state_dict().items()}


def transformer(kind, control_blocks=0):
    import comfy.ldm.wan.model
    import comfy.ops
    model, more = comfy.ldm.wan.model.WanModel, {}
    if control_blocks:
        model, more = comfy.ldm.wan.model.VaceWanModel, {"vace_layers": control_blocks, "vace_in_dim": 96}
    in_dim, dim, ffn, layers, out_dim, clip, positions = kind
    return model(model_type="i2v" if clip else "t2v", in_dim=in_dim, dim=dim, ffn_dim=ffn, num_layers=layers, out_dim=out_dim,
                 num_heads=dim // 128, flf_pos_embed_token_number=514 if positions else None, device="meta",
                 dtype=torch.float16, operations=comfy.ops.disable_weight_init, **more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--comfyui", required=True)
    parser.add_argument("--spiece", type=pathlib.Path, required=True)
    args = parser.parse_args()
    sys.path.insert(0, args.comfyui)
    sys.argv = [sys.argv[0], "--cpu"]  # ComfyUI reads it
    import comfy.options
    comfy.options.enable_args_parsing()
    import comfy.ldm.wan.vae
    import comfy.ldm.wan.vae2_2
    from PIL import Image
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection, UMT5Config, UMT5EncoderModel

    for name, kind in TRANSFORMERS.items():
        write(args.folder / "diffusion_models" / f"{name}.safetensors", shapes(transformer(kind), torch.float16))
    for name, (kind, blocks) in VACE.items():
        write(args.folder / "diffusion_models" / f"{name}.safetensors", shapes(transformer(kind, blocks), torch.float16))
    for name, rank in LORAS.items():
        pairs = {}
        for layer in range(40):
            for matrix in "qkvo":
                key = f"diffusion_model.blocks.{layer}.self_attn.{matrix}."
                pairs |= {key + "lora_down.weight": (torch.float16, (rank, 5120)), key + "lora_up.weight": (torch.float16, (5120, rank))}
        write(args.folder / "loras" / f"{name}.safetensors", pairs)
    times = [False, True, True]
    with torch.device("meta"):
        vaes = {"wan_2.1_vae": comfy.ldm.wan.vae.WanVAE(dim=96, z_dim=16, temperal_downsample=times),
                "wan2.2_vae": comfy.ldm.wan.vae2_2.WanVAE(z_dim=48, temperal_downsample=times)}
        text = json.loads((pathlib.Path(args.comfyui) / "comfy/text_encoders/umt5_config_xxl.json").read_text())
        encoder = UMT5EncoderModel(UMT5Config(**{k: v for k, v in text.items() if k not in ("model_type", "dense_act_fn", "is_gated_act")},
                                              feed_forward_proj="gated-gelu"))
        look = json.loads((pathlib.Path(args.comfyui) / "comfy/clip_vision_config_h.json").read_text())
        vision = CLIPVisionModelWithProjection(CLIPVisionConfig(**{k: v for k, v in look.items() if k != "torch_dtype"}))
    for name, module in vaes.items():
        write(args.folder / "vae" / f"{name}.safetensors", shapes(module, torch.float16))
    tokenizer = args.spiece.read_bytes()
    tensors = {k: v for k, v in shapes(encoder, torch.float16).items() if k != "encoder.embed_tokens.weight"}
    for name in ("umt5_xxl_fp8_e4m3fn_scaled", "umt5_xxl_fp16"):
        write(args.folder / "text_encoders" / f"{name}.safetensors", tensors | {"spiece_model": (torch.uint8, (len(tokenizer),))},
              {"spiece_model": tokenizer})
    write(args.folder / "clip_vision" / "clip_vision_h.safetensors", shapes(vision, torch.float16))
    pictures = args.folder.parent / "input"
    pictures.mkdir(exist_ok=True)
    for name in PICTURES:
        Image.new("RGB", (64, 64), (200, 120, 40)).save(pictures / name)


if __name__ == "__main__":
    main()
