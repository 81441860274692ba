"""Makes quantized_*.safetensors beside itself: weights quantised as ComfyUI, LightX2V and musubi-tuner store them, and in
quantized_*_values.safetensors the float32 values that they stand for.

    python make_quantized.py     (torch 2.11.0, safetensors, comfy-kitchen 0.2.40 for mxfp8 and nvfp4; seed 11)

mxfp8 and nvfp4 are quantised and dequantised by comfy-kitchen's eager backend, on a CPU; the others by torch.
"""
import json
from pathlib import Path

import torch
from comfy_kitchen.backends.eager import quantization as kitchen
from safetensors.torch import save_file

HERE = Path(__file__).parent
torch.manual_seed(11)
torch.set_num_threads(1)


def marker(**about):
    return torch.tensor(list(json.dumps(about).encode()), dtype=torch.uint8)


def fp8(w, scale, dtype=torch.float8_e4m3fn):
    q = (w / scale).clamp(-448, 448).to(dtype)
    return q, q.float() * scale


def comfy():
    """One layer of each format with its marker."""
    out, values = {}, {}

    def add(layer, stored, meant, **about):
        out[f"{layer}.comfy_quant"] = marker(**about)
        out.update({f"{layer}.{k}": v for k, v in stored.items()})
        values[f"{layer}.weight"] = meant

    w, s = torch.randn(6, 8), torch.tensor(0.013)
    q, meant = fp8(w, s)
    add("e4m3", {"weight": q, "weight_scale": s, "input_scale": torch.tensor(0.5)}, meant, format="float8_e4m3fn")
    q, meant = fp8(w, s, torch.float8_e5m2)
    add("e5m2", {"weight": q, "weight_scale": s.reshape(1)}, meant, format="float8_e5m2", full_precision_matrix_mult=True)
    q, s = kitchen.quantize_int8_tensorwise(w)
    add("int8", {"weight": q, "weight_scale": s}, q.float() * s, format="int8_tensorwise")
    q, s = kitchen.quantize_int8_rowwise(w)
    add("int8_rows", {"weight": q, "weight_scale": s}, q.float() * s, format="int8_tensorwise")

    w = torch.randn(136, 160)  # more than a tile of 128 rows and 4 columns of scales
    q, s = kitchen.quantize_mxfp8(w * torch.logspace(-3, 3, 136)[:, None])
    add("mxfp8", {"weight": q, "weight_scale": s}, kitchen.dequantize_mxfp8(q, s, torch.float32), format="mxfp8")
    w = torch.randn(144, 80)
    total = w.abs().max() / (448 * 6)
    q, s = kitchen.quantize_nvfp4(w, total)
    meant = kitchen.dequantize_nvfp4(q, total, s, torch.float32)
    add("nvfp4", {"weight": q, "weight_scale": s, "weight_scale_2": total}, meant, format="nvfp4")
    columns = torch.rand(80).to(torch.bfloat16)
    add("nvfp4_awq", {"weight": q, "weight_scale": s, "weight_scale_2": total, "pre_quant_scale": columns},
        meant * columns.float(), format="nvfp4")
    out["plain.weight"], out["e4m3.bias"] = torch.randn(3), torch.randn(6)
    write("comfy", out, values)


def old():
    """Original names after ComfyUI's prefix, with scales for a tensor, a row and blocks of a row."""
    out, values = {"model.diffusion_model.scaled_fp8": torch.zeros(2, dtype=torch.float8_e4m3fn)}, {}
    block = "model.diffusion_model.blocks.0."
    scales = {"self_attn.q": torch.tensor(0.02), "self_attn.k": torch.rand(6, 1) + 0.01, "self_attn.v": torch.rand(6) + 0.01,
              "ffn.0": torch.rand(6, 4, 1) + 0.01, "ffn.2": (torch.rand(6, 2, 1) + 0.01).to(torch.bfloat16)}
    for name, scale in scales.items():
        q = torch.randn(6, 8).mul(40).to(torch.float8_e4m3fn)
        groups = scale.float().reshape(6, -1, 1) if scale.numel() > 1 else scale
        meant = (q.float().reshape(6, groups.shape[1] if scale.numel() > 1 else 1, -1) * groups).reshape(6, 8)
        out[f"{block}{name}.weight"], out[f"{block}{name}.scale_weight"] = q, scale
        out[f"{block}{name}.scale_input"] = torch.ones(1)
        values[f"{block}{name}.weight"] = meant
    out[block + "self_attn.o.weight"] = torch.randn(6, 8).to(torch.bfloat16)  # not quantised
    out[block + "norm3.weight"] = torch.ones(8).to(torch.float8_e4m3fn)  # a vector in 8 bits, which has no scale
    out[block + "modulation"] = torch.randn(1, 6, 8)
    write("old", out, values)


def lightx2v():
    out, values = {}, {}
    for name, q in {"int8": torch.randint(-128, 128, (5, 8), dtype=torch.int8), "e4m3": torch.randn(5, 8).mul(100).to(torch.float8_e4m3fn)}.items():
        scale = torch.rand(5, 1) / 100
        q.view(torch.int8)[0, 0] = -128 if name == "int8" else 5
        out[f"{name}.weight"], out[f"{name}.weight_scale"] = q, scale
        values[f"{name}.weight"] = q.float() * scale
    write("lightx2v", out, values)


def in_header():
    q, meant = fp8(torch.randn(6, 8), torch.tensor(0.013))
    tensors = {"model.diffusion_model.a.weight": q, "model.diffusion_model.a.weight_scale": torch.tensor(0.013)}
    layers = {"a": {"format": "float8_e4m3fn"}}  # without the prefix, as some converters write it
    write("header", tensors, {"model.diffusion_model.a.weight": meant},
          {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": layers})})


def write(name, tensors, values, metadata=None):
    save_file({k: v.clone(memory_format=torch.contiguous_format) for k, v in tensors.items()}, HERE / f"quantized_{name}.safetensors", metadata)
    save_file({k: v.float().contiguous() for k, v in values.items()}, HERE / f"quantized_{name}_values.safetensors")


if __name__ == "__main__":
    comfy()
    old()
    lightx2v()
    in_header()
