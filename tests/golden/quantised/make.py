"""Makes golden files of quantised models: small random models, their weights dequantised to float32 by the gguf package or torch, and the results of
the reference's models with those weights in float64.

    python tests/golden/quantised/make.py     (torch 2.11.0, diffusers 0.42.1, transformers 5.23.0, gguf 0.19.0, peft 0.21.2, safetensors)

    dit_gguf, dit_scaled   a Wan transformer under the original names: blocks of GGUF, a type a layer (those of 256 values in ffn.2);
                           8-bit values with scales of a tensor, of rows and of blocks of rows, as ComfyUI, musubi-tuner and LightX2V
                           name them
    t5_gguf, t5_scaled     a umT5 text encoder likewise, its table of tokens too
    <case>/                the config and the weights
    <case>.safetensors     inputs and outputs as in tests/golden/wan and tests/golden/umt5, and the error of the reference's own float32
    dit_gguf_lora.safetensors, dit_scaled_lora.safetensors   pairs for all matrices of the blocks; with them merged by diffusers into
                           the float32 values the sample is sample_lora
"""

import json
import pathlib
import random
import sys

import numpy as np
import torch
from diffusers.loaders import WanLoraLoaderMixin
from gguf import GGMLQuantizationType as T
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import gguf_files  # noqa: E402
import layouts  # noqa: E402
import loras  # noqa: E402
import random_models as rm  # noqa: E402
from precision import error, float64  # noqa: E402

torch.set_num_threads(1)

DIT = dict(num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4, text_dim=32, ffn_dim=256, num_layers=2)
T5 = dict(vocab_size=64, d_model=32, d_kv=16, d_ff=256, num_layers=2, num_heads=2)
NARROW = [T.Q8_0, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.IQ4_NL]  # blocks of 32 values, which fit rows of 32
WIDE = {"wan": [T.Q4_K, T.Q6_K], "t5encoder": [T.Q5_K, T.Q3_K]}  # blocks of 256 values


def as_gguf(tensors, kept, folder, architecture, names=lambda name: name):
    """Writes all matrices except `kept` as blocks of alternating types; returns the values that they stand for."""
    narrow, wide = iter(NARROW * 20), iter(WIDE[architecture])

    def kind_of(name, w):
        if w.ndim != 2 or kept(name):
            return None
        return next(wide if w.shape[1] == 256 else narrow)

    stored, meant = gguf_files.quantised(tensors, kind_of, np.random.default_rng(5))
    gguf_files.write(folder / "model.gguf", architecture, {names(name): value for name, value in stored.items()})
    return meant


def as_scaled(tensors, kept, folder, prefix=""):
    """Writes all matrices except `kept` as 8-bit values in alternating ways; returns the values that they stand for."""
    marker = lambda text: torch.tensor(list(json.dumps({"format": text}).encode()), dtype=torch.uint8)  # noqa: E731
    stored, meant, count = {}, {}, 0
    for name, w in tensors.items():
        layer = prefix + name.removesuffix(".weight")
        if w.ndim != 2 or kept(name):
            stored[prefix + name] = meant[name] = w
            continue
        way, count = count % 5, count + 1
        blocks = 4 if way == 2 else 1
        parts = w.reshape(w.shape[0], blocks, -1)
        most = 57344 if way == 4 else 127 if way in (1, 3) else 448
        scale = (parts.abs().amax(-1, keepdim=True) if way in (1, 2) else w.abs().max()) / most
        codes = parts / scale
        codes = torch.round(codes).to(torch.int8) if most == 127 else codes.to(torch.float8_e5m2 if way == 4 else torch.float8_e4m3fn)
        stored[layer + ".weight"], meant[name] = codes.reshape(w.shape), (codes.float() * scale).reshape(w.shape)
        if way in (0, 2):  # ComfyUI's first kind, or musubi-tuner's blocks
            stored[layer + ".scale_weight"] = scale.reshape(1) if way == 0 else scale
        elif way == 1:  # LightX2V's rows
            stored[layer + ".weight_scale"] = scale.reshape(-1, 1)
        else:  # ComfyUI's newer kinds
            stored[layer + ".weight_scale"] = scale.reshape(())
            stored[layer + ".comfy_quant"] = marker("float8_e5m2" if way == 4 else "int8_tensorwise")
    save_file({k: v.contiguous() for k, v in stored.items()}, folder / "model.safetensors")
    return meant


def put(model, values):
    own = model.state_dict()
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(value.reshape(own[name].shape))


def in_both(model, inputs, result):
    """Returns the model's results in float64, and its error in float32."""
    with torch.no_grad():
        r32 = result(model.float()(**inputs))
        with float64():
            wide = {k: v.double() if v.is_floating_point() and k != "timestep" else v for k, v in inputs.items()}
            r64 = result(model.double()(**wide))
    assert r64.dtype == torch.float64
    model.float()
    return r64.float().contiguous(), error(r32, r64)


def transformer(name, quantise, seed):
    rng = random.Random(seed)
    model = rm.transformer(rng, "t2v", **DIT)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    model.save_config(folder)
    back = {layouts._rename(k, layouts._DIT): k for k in model.state_dict()}
    original = {new: model.state_dict()[k] for new, k in back.items()}
    meant = quantise(original, lambda k: not k.startswith("blocks.") or "modulation" in k, folder)
    put(model, {back[k]: v.float() for k, v in meant.items()})

    torch.manual_seed(seed)
    inputs = {"hidden_states": torch.randn(2, 4, 3, 6, 10), "encoder_hidden_states": torch.randn(2, 512, DIT["text_dim"]),
              "timestep": torch.tensor([937.25, 3.0])}
    inputs["encoder_hidden_states"][0, 5:], inputs["encoder_hidden_states"][1, 1:] = 0, 0

    sample, e = in_both(model, inputs, lambda y: y.sample)
    pairs = loras.pairs(rng, model.state_dict(), 3, True)
    save_file(pairs, HERE / f"{name}_lora.safetensors")
    model.load_lora_adapter(WanLoraLoaderMixin.lora_state_dict(dict(pairs)), adapter_name="a", prefix="transformer")
    model.fuse_lora(lora_scale=0.5)
    model.unload_lora()
    with_lora, e_lora = in_both(model, inputs, lambda y: y.sample)
    inputs["encoder_hidden_states"] = inputs["encoder_hidden_states"][:, :5].contiguous()
    save_file({**inputs, "sample": sample, "sample_lora": with_lora}, HERE / f"{name}.safetensors",
              {"reference_float32_error": repr(max(e, e_lora)), "text_rows": "5,1", "total_rows": "512"})
    print(name, f"{e:.2e}, with an adapter {e_lora:.2e}; its effect {error(with_lora, sample):.2f}")


def text_encoder(name, quantise, seed):
    model = rm.text_encoder(random.Random(seed), **T5)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    model.config.save_pretrained(folder)
    state = {k: v for k, v in model.state_dict().items() if "embed_tokens" not in k}
    put(model, {k: v.float() for k, v in quantise(state, lambda k: "relative_attention_bias" in k, folder).items()})
    torch.manual_seed(seed)
    ids, mask = torch.zeros(2, 13, dtype=torch.int64), torch.zeros(2, 13, dtype=torch.int64)
    for row, n in enumerate((13, 5)):
        ids[row, :n], mask[row, :n] = torch.randint(3, T5["vocab_size"], (n,)), 1

    inputs = {"input_ids": ids, "attention_mask": mask}
    hidden, e = in_both(model, inputs, lambda y: y.last_hidden_state)
    save_file({**inputs, "last_hidden_state": hidden}, HERE / f"{name}.safetensors",
              {"reference_float32_error": repr(e)})
    print(name, f"{e:.2e}")


if __name__ == "__main__":
    transformer("dit_gguf", lambda *a: as_gguf(*a, "wan"), 60)
    transformer("dit_scaled", lambda *a: as_scaled(*a, "model.diffusion_model."), 61)
    text_encoder("t5_gguf", lambda *a: as_gguf(*a, "t5encoder", gguf_files.llama_name), 62)
    text_encoder("t5_scaled", as_scaled, 63)
