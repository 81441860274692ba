"""Compares GGUF files with the gguf package, on new random values each time: blocks of every type, bit for bit; a text
encoder's tokenizer among its keys; and the model that ships, whose parts in GGUF must make the frames of the
same parts that the gguf package has dequantised into safetensors."""

import json
import pathlib
import subprocess
import sys

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from gguf.constants import GGML_QUANT_SIZES
from safetensors.numpy import load_file as load_numpy
from safetensors.torch import load_file, save_file

import layouts
import single_files

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden/weights"))
import make_gguf  # noqa: E402

_QUANTISED_BY_PACKAGE = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0]
_KEPT = ("patch_embedding", "text_embedding", "time_embedding", "time_projection", "head")


def write(path, architecture, tensors, fill=lambda writer: None):
    """Writes tensors {name: (values as a NumPy array, type or None)}."""
    writer = gguf.GGUFWriter(path, architecture)
    fill(writer)
    for name, (raw, kind) in tensors.items():
        writer.add_tensor(name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compare_blocks(ctx, dump):
    rng = np.random.default_rng(ctx.rng.randrange(2**32))
    stored, expected = {}, {}
    for kind in make_gguf.SCALES:
        for i in range(3):
            rows, blocks = int(rng.integers(2, 40)), int(rng.integers(1, 9))
            raw = make_gguf.random_blocks(rng, kind, rows, blocks)
            if i == 2 and kind in _QUANTISED_BY_PACKAGE:
                values = rng.standard_normal((rows, blocks * GGML_QUANT_SIZES[kind][0])).astype(np.float32)
                raw = gguf.quants.quantize(values, kind)
            stored[f"{kind.name}.{i}"] = (raw, kind)
            with np.errstate(over="ignore"):
                expected[f"{kind.name}.{i}"] = gguf.quants.dequantize(raw, kind)
    path, out = ctx.folder / "blocks.gguf", ctx.folder / "blocks.safetensors"
    write(path, "wan", stored)
    subprocess.run([dump, path, out], check=True)
    got = load_numpy(out)
    for kind in make_gguf.SCALES:
        names = [name for name in expected if name.split(".")[0] == kind.name]
        wrong = sum(int((got[n].view(np.uint32) != expected[n].view(np.uint32)).sum()) for n in names)
        count = sum(expected[n].size for n in names)
        ctx.report(f"gguf {kind.name.lower()}: values of {count} whose bits differ", float(wrong), 0.0)


def llama_name(name):
    """Returns llama.cpp's name for Hugging Face's name of a text encoder's tensor."""
    for a, b in [("shared.weight", "token_embd.weight"), ("encoder.final_layer_norm", "enc.output_norm"),
                 ("encoder.block.", "enc.blk."), (".layer.0.layer_norm", ".attn_norm"), (".layer.1.layer_norm", ".ffn_norm"),
                 (".layer.0.SelfAttention.relative_attention_bias", ".attn_rel_b"), (".layer.0.SelfAttention.", ".attn_"),
                 (".layer.1.DenseReluDense.wi_0", ".ffn_gate"), (".layer.1.DenseReluDense.wi_1", ".ffn_up"),
                 (".layer.1.DenseReluDense.wo", ".ffn_down")]:
        name = name.replace(a, b)
    return name


def tokenizer_keys(spiece):
    """Returns the keys that llama.cpp's converter writes for a spiece.model."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(spiece)

    def fill(writer):
        writer.add_tokenizer_model("t5")
        writer.add_token_list([p.piece.encode() for p in model.pieces])
        writer.add_token_scores([p.score for p in model.pieces])
        writer.add_token_types([int(p.type) for p in model.pieces])
        writer.add_add_space_prefix(model.normalizer_spec.add_dummy_prefix)
        writer.add_remove_extra_whitespaces(model.normalizer_spec.remove_extra_whitespaces)
        if model.normalizer_spec.precompiled_charsmap:
            writer.add_precompiled_charsmap(model.normalizer_spec.precompiled_charsmap)
        writer.add_eos_token_id(model.trainer_spec.eos_id)
        writer.add_pad_token_id(model.trainer_spec.pad_id)

    return fill


def some_blocks(rng, kind, rows, width):
    """Makes random blocks of a type that the package cannot quantise, with scales that make values as large as a layer's."""
    raw = make_gguf.random_blocks(rng, kind, rows, width // GGML_QUANT_SIZES[kind][0])
    blocks = raw.reshape(-1, GGML_QUANT_SIZES[kind][1])

    def scaled(scale):
        for at in make_gguf.SCALES[kind]:
            blocks[:, at:at + 2] = np.array([scale], np.float16).view(np.uint8)
        return gguf.quants.dequantize(raw, kind)

    scaled(1e-3 / np.sqrt(width * np.mean(np.square(scaled(1e-3)))))
    return raw


def quantised(tensors, kind_of, rng):
    """Returns the tensors as GGUF stores them, and the values that they stand for, float32 if they were quantised."""
    stored, meant = {}, {}
    for name, w in tensors.items():
        kind = kind_of(name, w)
        if kind is None:
            plain = w.float() if w.ndim == 1 or w.numel() <= 1024 or "modulation" in name else w
            raw = plain.view(torch.uint8).numpy() if plain.dtype == torch.bfloat16 else plain.numpy()
            stored[name], meant[name] = (raw, T.BF16 if plain.dtype == torch.bfloat16 else None), plain
            continue
        if kind in _QUANTISED_BY_PACKAGE:
            raw = gguf.quants.quantize(w.float().numpy(), kind)
        else:
            raw = some_blocks(rng, kind, *w.shape)
        stored[name], meant[name] = (raw, kind), torch.from_numpy(gguf.quants.dequantize(raw, kind))
    return stored, meant


def compare_tokens(ctx, encoder, folder):
    words = ["a", "red", "cat", "moves", "the", "ＡＢＣ", "“quoted”", "红色", "圆形，", "ﬁsh", "x\u0301", "🙂", "e\u3000f", "½", "  ", "\t"]
    out, wrong = ctx.folder / "ids.safetensors", 0
    for _ in range(25):
        text = ctx.rng.choice([" ", ""]).join(ctx.rng.choice(words) for _ in range(ctx.rng.randint(1, 30)))
        ids = []
        for model in (encoder, folder / "tokenizer/spiece.model"):
            ctx.run("stage", "tokenize", "--model", model, f"--prompt={text}", "--out", out)
            ids.append(load_file(out)["input_ids"].tolist())
        if ids[0] != ids[1]:
            wrong += 1
            print("    differs:", json.dumps(text, ensure_ascii=False))
    ctx.report("gguf tokenizer: texts of 25 whose ids are not those of spiece.model", float(wrong), 0.0)


def compare_model(ctx, model):
    rng = np.random.default_rng(ctx.rng.randrange(2**32))
    dit = {layouts._rename(k, layouts._DIT): v for k, v in load_file(next((model / "transformer").glob("*.safetensors"))).items()}
    t5 = load_file(next((model / "text_encoder").glob("*.safetensors")))
    folder = ctx.folder / "gguf"
    folder.mkdir()
    tokenizer = (model / "tokenizer/spiece.model").read_bytes()

    def text_kind(name, w):
        return T.Q8_0 if w.ndim == 2 and "relative_attention_bias" not in name else None

    stored, meant = quantised(t5, text_kind, rng)
    stored = {llama_name(name): value for name, value in stored.items()}
    write(folder / "t5.gguf", "t5encoder", stored, tokenizer_keys(tokenizer))
    save_file({k: v.contiguous() for k, v in meant.items()} | {"spiece_model": single_files.carried_tokenizer(model)},
              folder / "t5.safetensors")
    compare_tokens(ctx, folder / "t5.gguf", model)

    mixes = {  # the type of ffn.2 (1024 columns), of v, and of the others (384 columns: no blocks of 256)
        "Q8_0": (T.Q8_0, T.Q8_0, T.Q8_0), "Q4_0": (T.Q4_1, T.Q5_1, T.Q4_0), "Q4_K": (T.Q4_K, T.Q5_0, T.IQ4_NL),
        "Q6_K": (T.Q6_K, T.Q8_0, T.Q5_1), "Q5_K": (T.Q5_K, T.Q8_0, T.Q5_0),
        "Q3_K": (T.Q3_K, T.Q8_0, T.Q4_0), "Q2_K": (T.Q2_K, T.Q8_0, T.Q4_0), "IQ4_XS": (T.IQ4_XS, T.Q8_0, T.Q4_0),
    }
    for label, (ffn, v, others) in mixes.items():

        def kind_of(name, w):
            if w.ndim != 2 or name.split(".")[0] in _KEPT:
                return None
            return ffn if name.endswith("ffn.2.weight") else v if name.endswith(".v.weight") else others

        stored, meant = quantised(dit, kind_of, rng)
        if label != "Q8_0":  # folded, as tools limited to four dimensions write it
            raw, kind = stored["patch_embedding.weight"]
            extents = [384 * 16, 1, 2, 2] if label == "Q4_0" else [384, 64]
            stored["patch_embedding.weight"] = (raw.reshape(*extents[:-1], -1), kind)
        write(folder / f"dit-{label}.gguf", "wan", stored)
        save_file({k: t.contiguous() for k, t in meant.items()}, folder / f"dit-{label}.safetensors")
        pictures = {}
        for ending in ("gguf", "safetensors"):
            out = ctx.folder / f"gguf-{label}-{ending}"
            ctx.run("generate", *single_files._RUN, "-n", "blurred", "-m", folder / f"dit-{label}.{ending}", "--vae", model,
                    "--text-encoder", folder / f"t5.{ending}", "-o", f"{out}/")
            pictures[ending] = single_files.pixels([p.read_bytes() for p in sorted(out.glob("*.png"))])
        same = len(pictures["gguf"]) == 5 and pictures["gguf"] == pictures["safetensors"]
        ctx.report(f"gguf {label}: frames of what the package dequantises", 0.0 if same else 1.0, 0.5)
    told = json.loads(ctx.run("info", folder / "dit-Q4_K.gguf", "--json"))["components"][0]
    ctx.report("gguf: info says container and types",
               0.0 if told["container"] == "GGUF" and any(t.startswith("q4_k (6") for t in told["dtypes"]) else 1.0, 0.5)


def compare(ctx):
    dump = pathlib.Path(ctx.binary).parent / "tests/unit/weights/dump_weights"
    if dump.exists():
        compare_blocks(ctx, dump)
    else:
        print(f"left out: {dump} is not built")
    model = ctx.repo / "models/sprites"
    if (model / "model_index.json").exists():
        compare_model(ctx, model)
    else:
        print("left out: the shipped model is not here")
