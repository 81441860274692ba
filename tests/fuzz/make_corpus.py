"""Makes the seeds of the fuzz targets: the smallest valid file of each kind, and a few unusual ones.

    python tests/fuzz/make_corpus.py        (torch 2.11.0, safetensors, gguf 0.19.0, sentencepiece 0.2, pillow, numpy; seed 0)

Files named crash-* and by a hash are not made here: fuzzing found them.
"""

import base64
import hmac
import io
import json
import pathlib
import pickle
import struct
import sys
import tempfile
import zipfile
import zlib

import gguf
import numpy as np
import sentencepiece
import torch
from PIL import Image, PngImagePlugin
from safetensors.torch import save

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"


def put(target, name, data):
    path = HERE / "corpus" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def weights():
    torch.manual_seed(0)
    tiny = {"a": torch.randn(2, 3), "b.weight": torch.zeros(4, dtype=torch.bfloat16)}
    kinds = [torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
    put("safetensors", "tiny", save(tiny, {"format": "pt"}))
    put("safetensors", "dtypes", save({str(k): torch.zeros(3, dtype=k) for k in kinds} | {"empty": torch.zeros(0, 2)}))
    unread = [torch.uint16, torch.uint32, torch.uint64, torch.complex64]
    put("safetensors", "unread", save({str(k): torch.zeros(3, dtype=k) for k in unread}))
    names = {
        "dit": ["model.diffusion_model.blocks.0.self_attn.q.weight", "model.diffusion_model.head.head.weight",
                "model.diffusion_model.img_emb.proj.0.weight", "model.diffusion_model.time_projection.1.weight"],
        "umt5": ["blocks.0.attn.q.weight", "blocks.0.pos_embedding.embedding.weight", "token_embedding.weight",
                 "blocks.0.ffn.gate.0.weight"],
        "vae": ["decoder.conv1.weight", "decoder.middle.0.residual.0.gamma", "decoder.upsamples.0.residual.2.weight",
                "encoder.downsamples.2.resample.1.weight", "conv2.weight"],
    }
    for kind, keys in names.items():
        put("safetensors", kind, save({k: torch.zeros(1) for k in keys}))

    q, mlp = "diffusion_model.blocks.0.self_attn.q", "transformer.blocks.0.ffn.net.0.proj"
    pair = {f"{q}.lora_down.weight": torch.ones(2, 24), f"{q}.lora_up.weight": torch.ones(24, 2)}
    adapters = {
        "pair": pair | {f"{q}.alpha": torch.tensor(4.0), f"{q}.dora_scale": torch.ones(24, 1)},
        "mid": {"patch_embedding.lora_down.weight": torch.ones(2, 4, 1, 1, 1), "patch_embedding.lora_up.weight": torch.ones(24, 3, 1, 1, 1),
                "patch_embedding.lora_mid.weight": torch.ones(3, 2, 1, 2, 2)},
        "loha": {f"{mlp}.hada_w{i}_{x}": torch.ones(*((40, 2) if x == "a" else (2, 24))) for i in (1, 2) for x in "ab"},
        "lokr": {f"{mlp}.lokr_w1": torch.ones(4, 4), f"{mlp}.lokr_w2_a": torch.ones(10, 2), f"{mlp}.lokr_w2_b": torch.ones(2, 6)},
        "glora": {f"{mlp}.{x}.weight": torch.ones(*shape) for x, shape in
                  {"a1": (24, 2), "a2": (2, 24), "b1": (40, 2), "b2": (2, 24)}.items()},
        "deltas": {f"{q}.diff_b": torch.ones(24), "blocks.0.diff_m": torch.ones(1, 6, 24), "head.head.set_weight": torch.ones(16, 24)},
    }
    for name, tensors in adapters.items():
        put("adapter", name, save(tensors))
    put("adapter", "metadata", save(pair, {"lora_adapter_metadata": json.dumps({"transformer.lora_alpha": 3, "transformer.use_rslora": True,
                                                                              "transformer.alpha_pattern": {"q": 2}})}))
    put("adapter", "patterns", save(pair, {"lora_adapter_metadata": json.dumps({"r": 2, "alpha_pattern": {"^blocks\\.[0-9]+\\.(attn1|ffn).*": 4,
                                                                              "(a+)+b": 1}, "rank_pattern": {"(?P<x>t)(?=o).{1,3}": 3}})}))
    put("adapter", "codes", save({key: value for name, tensor in pair.items() for key, value in
                                  {name: tensor.to(torch.float8_e4m3fn), name.replace(".weight", ".scale_weight"): torch.tensor(0.5)}.items()}))
    put("adapter", "doubles", save({name: tensor.double() for name, tensor in pair.items()}))

    mark = lambda **about: torch.tensor(list(json.dumps(about).encode()), dtype=torch.uint8)
    fp8, one = torch.ones(2, 32).to(torch.float8_e4m3fn), torch.tensor(0.5)
    quantized = {
        "old": {"scaled_fp8": torch.zeros(2).to(torch.float8_e4m3fn), "model.diffusion_model.a.weight": fp8,
                "model.diffusion_model.a.scale_weight": one, "model.diffusion_model.a.scale_input": torch.ones(1)},
        "rows": {"a.weight": fp8.to(torch.float32).to(torch.int8), "a.weight_scale": torch.ones(2, 1)},
        "blocks": {"a.weight": fp8, "a.scale_weight": torch.ones(2, 4, 1)},
        "mxfp8": {"a.weight": fp8, "a.weight_scale": torch.full((128, 4), 127, dtype=torch.uint8), "a.comfy_quant": mark(format="mxfp8")},
        "nvfp4": {"a.weight": torch.full((2, 8), 0x35, dtype=torch.uint8), "a.weight_scale": torch.ones(128, 4).to(torch.float8_e4m3fn),
                  "a.weight_scale_2": one, "a.pre_quant_scale": torch.ones(16), "a.comfy_quant": mark(format="nvfp4")},
    }
    for name, tensors in quantized.items():
        put("quantized", name, save(tensors))
    about = {"_quantization_metadata": json.dumps({"layers": {"a": {"format": "float8_e4m3fn"}}})}
    put("quantized", "header", save({"a.weight": fp8, "a.weight_scale": one}, about))

    def sharded(index, shard):
        text = json.dumps(index).encode()
        return struct.pack("<H", len(text)) + text + shard

    map_ = {"a": "a.safetensors", "b.weight": "a.safetensors", "w": "b.safetensors"}
    put("sharded", "two", sharded({"metadata": {"total_size": 1}, "weight_map": map_}, save(tiny)))
    put("sharded", "outside", sharded({"weight_map": {"a": "../a.safetensors"}}, save(tiny)))
    put("sharded", "missing", sharded({"weight_map": {"c": "a.safetensors"}}, save(tiny)))

    def pth(obj, **more):
        out = io.BytesIO()
        torch.save(obj, out, **more)
        return out.getvalue()

    shared = torch.randn(4)
    objects = {
        "tiny": tiny,
        "wrapped": {"epoch": 3, "lr": 0.5, "state_dict": tiny, "names": ["x", ("y", None, True)]},
        "views": {"v": shared[1:3], "t": torch.zeros(2, 3).t(), "p": torch.nn.Parameter(torch.zeros(2)), "s": shared},
    }
    for name, obj in objects.items():
        data = pth(obj)
        put("torch_zip", name, data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entry = next(n for n in archive.namelist() if n.endswith("data.pkl"))
            put("pickle", name, archive.read(entry))
    put("torch_zip", "protocol4", pth(tiny, pickle_protocol=4))
    for checkpoint in ("dmd", "lightning", "module", "ema"):
        data = (GOLDEN / f"weights/checkpoint_{checkpoint}.pth").read_bytes()
        put("torch_zip", checkpoint, data)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            put("pickle", checkpoint, archive.read(f"checkpoint_{checkpoint}/data.pkl"))
    put("pickle", "protocol5", pickle.dumps({"a": [1, 2.5, "x", None, (1,), 1 << 70], 1: {2, 3}}, protocol=5))
    put("pickle", "protocol0", pickle.dumps({"a": [1, 2.5, "x", (1, 2, 3, 4)], "b": -7}, protocol=0))
    put("pickle", "global", pickle.dumps(print, protocol=2))


def ggufs():
    kinds = [gguf.GGMLQuantizationType[name] for name in
             ("F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S "
              "IQ1_S IQ1_M TQ1_0 TQ2_0 NVFP4").split()]

    def written(fill):
        with tempfile.TemporaryDirectory() as folder:
            writer = gguf.GGUFWriter(folder + "/f", "wan")
            fill(writer)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            return pathlib.Path(folder, "f").read_bytes()

    def blocks(writer):
        for kind in kinds:
            values, size = gguf.constants.GGML_QUANT_SIZES[kind]
            writer.add_tensor(f"{kind.name}.weight", np.arange(size * (2 if values == 1 else 1), dtype=np.uint8)[None], raw_dtype=kind)
        writer.add_array("comfy.gguf.orig_shape.Q8_0.weight", [2, 4, 2, 2])

    def keys(writer):
        writer.add_custom_alignment(64)
        writer.add_bool("b", True)
        writer.add_float64("f", 0.5)
        writer.add_uint64("u", 2**64 - 1)
        writer.add_array("nested", [[1, 2], [3]])
        writer.add_tensor("patch_embedding.weight", np.zeros((6, 1, 2, 2), np.float32))
        writer.add_tensor("patch_embedding.bias", np.zeros(2, np.float32))
        writer.add_tensor("blocks.0.self_attn.q.weight", np.zeros((2, 2), np.float32))

    def text_encoder(writer):
        pieces = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2), ("\u2581a", -1.0, 1), ("\u2581", -2.0, 1), ("red", -3.0, 1)]
        writer.add_tokenizer_model("t5")
        writer.add_token_list([p for p, _, _ in pieces])
        writer.add_token_scores([s for _, s, _ in pieces])
        writer.add_token_types([t for _, _, t in pieces])
        writer.add_add_space_prefix(True)
        writer.add_remove_extra_whitespaces(True)
        writer.add_eos_token_id(1)
        writer.add_pad_token_id(0)
        writer.add_tensor("token_embd.weight", np.zeros((6, 2), np.float32))
        writer.add_tensor("enc.blk.0.attn_q.weight", np.zeros((2, 2), np.float16))

    def part(writer):
        writer.add_uint16("split.no", 0)
        writer.add_uint16("split.count", 3)
        writer.add_int32("split.tensors.count", 1)
        writer.add_tensor("head.head.bias", np.zeros(2, np.float32))

    for fill in (blocks, keys, text_encoder, part):
        put("gguf", fill.__name__, written(fill))


def conversions():
    """Whole transformers of 8 channels in several forms, each after a first byte that chooses what it is converted to (targets/convert.cpp)."""
    torch.manual_seed(0)
    width, ffn, text = 8, 160, 6  # 160: rows of whole blocks in a matrix large enough to be quantised
    tensors = {}

    def linear(name, out, inputs):
        tensors[name + ".weight"], tensors[name + ".bias"] = torch.randn(out, inputs), torch.zeros(out)

    tensors["patch_embedding.weight"], tensors["patch_embedding.bias"] = torch.randn(width, 16, 1, 2, 2), torch.zeros(width)
    for name, shape in {"text_embedding.0": (width, text), "text_embedding.2": (width, width), "time_embedding.0": (width, 4),
                        "time_embedding.2": (width, width), "time_projection.1": (6 * width, width), "head.head": (64, width)}.items():
        linear(name, *shape)
    tensors["head.modulation"] = torch.zeros(1, 2, width)
    for part in ("self_attn", "cross_attn"):
        for layer in "qkvo":
            linear(f"blocks.0.{part}.{layer}", width, width)
        for norm in ("norm_q", "norm_k"):
            tensors[f"blocks.0.{part}.{norm}.weight"] = torch.ones(width)
    tensors["blocks.0.norm3.weight"], tensors["blocks.0.norm3.bias"] = torch.ones(width), torch.zeros(width)
    linear("blocks.0.ffn.0", ffn, width)
    linear("blocks.0.ffn.2", width, ffn)
    tensors["blocks.0.modulation"] = torch.zeros(1, 6, width)
    config = json.dumps({"_class_name": "WanModel", "model_type": "t2v", "dim": width, "ffn_dim": ffn, "freq_dim": 4, "in_dim": 16,
                         "out_dim": 16, "num_heads": 1, "num_layers": 1, "text_len": 512, "eps": 1e-6, "text_dim": text})
    plain = {name: t.to(torch.bfloat16) for name, t in tensors.items()}
    for form, name in enumerate(("single", "fp8", "int8", "q8_0", "q4_1", "f16", "diffusers")):
        put("convert", name, bytes([form]) + save(plain, {"config": config}))
    for layer in ("blocks.0.self_attn.q", "blocks.0.ffn.2"):
        plain[layer + ".weight"], plain[layer + ".scale_weight"] = plain[layer + ".weight"].to(torch.float8_e4m3fn), torch.ones(())
    put("convert", "from_fp8", bytes([3]) + save(plain | {"scaled_fp8": torch.zeros(2).to(torch.float8_e4m3fn)}, {"config": config}))


def configs():
    files = ["model/model_index.json", "model/generation_config.json", "model/scheduler/scheduler_config.json",
             "model/transformer/config.json", "model/text_encoder/config.json", "model/vae/config.json",
             "original/config.json"]
    for i, name in enumerate(files):
        put("model_config", name.replace("/", "-")[:-5], bytes([i]) + (GOLDEN / "pipeline" / name).read_bytes())
    put("model_config", "original-generation", bytes([7]) + (GOLDEN / "pipeline/model/generation_config.json").read_bytes())
    put("model_config", "python-numbers", b"\2" + json.dumps({"_class_name": "DPMSolverMultistepScheduler", "lambda_min_clipped": -float("inf"),
                                                              "flow_shift": 3.0, "x": float("nan")}).encode())
    settings = {"tachyscope": "0.1.0", "prompt": "a cat", "seed": 18446744073709551615, "rng": "cuda",
                "rng_multiprocessors": 132, "max_sequence_length": 512, "negative_prompt": "ugly", "width": 32,
                "height": 16, "num_frames": 5, "fps": 16.0, "num_inference_steps": 2, "guidance_scale": 4.0,
                "flow_shift": 3.0, "sampler": "unipc", "grid": "diffusers", "sinusoid": "original", "model": "m",
                "init_latents": "l.safetensors"}
    put("settings", "all", b"\0" + json.dumps(settings).encode())
    put("settings", "few", b'\0{"tachyscope":"0","prompt":""}')
    picture = Image.fromarray(np.zeros((2, 2, 3), np.uint8))
    text = PngImagePlugin.PngInfo()
    text.add_itxt("Comment", json.dumps({"tachyscope": "0", "prompt": "é"}), zip=True)
    out = io.BytesIO()
    picture.save(out, "png", pnginfo=text)
    put("settings", "png", b"\1" + out.getvalue())
    out = io.BytesIO()
    picture.save(out, "gif", comment=json.dumps({"tachyscope": "0", "prompt": "a"}))
    put("settings", "gif", b"\1" + out.getvalue())
    about = {"format": "tachyscope run state 1", "step": "3", "settings": json.dumps(settings), "model": "0", "output": "a.mp4"}
    state = {"latents": torch.zeros(6), "solver.0": torch.ones(6), "generator": torch.zeros(9, dtype=torch.uint8)}
    put("settings", "state", b"\2" + save(state, about))
    put("settings", "latents", b"\3" + save({"latents": torch.zeros(1, 2, 1, 2, 2)}))
    put("settings", "embeds", b"\3" + save({"image_embeds": torch.zeros(2, 3, dtype=torch.bfloat16)}))


def texts():
    tiny = json.loads((GOLDEN / "pipeline/model/tokenizer/tokenizer.json").read_text())
    put("tokenizer_json", "tiny", json.dumps(tiny, ensure_ascii=False))
    shipped = json.loads((HERE.parents[1] / "models/sprites/tokenizer/tokenizer.json").read_text())
    shipped["model"]["vocab"] = shipped["model"]["vocab"][:40]
    shipped["added_tokens"] = shipped["added_tokens"][:6]
    put("tokenizer_json", "shipped", json.dumps(shipped, ensure_ascii=False))
    tiny["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
        {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}, {"type": "Prepend", "prepend": "▁"}]}
    put("tokenizer_json", "normalizers", json.dumps(tiny, ensure_ascii=False))

    with tempfile.TemporaryDirectory() as folder:
        lines = ["a red circle moves right", "a blue square moves left over hills", "two cats 123", "红色的猫 é"]
        text = pathlib.Path(folder, "text")
        text.write_text("\n".join(lines * 20))
        for name, rule in (("identity", "identity"), ("nfkc", "nmt_nfkc_cf")):
            sentencepiece.SentencePieceTrainer.train(
                input=str(text), model_prefix=folder + "/m", vocab_size=48, model_type="unigram", pad_id=0, eos_id=1,
                unk_id=2, bos_id=-1, normalization_rule_name=rule, hard_vocab_limit=False, minloglevel=2)
            data = pathlib.Path(folder, "m.model").read_bytes()
            if len(data) < 20_000:
                put("spiece", name, data)
            else:  # without the character map, which alone takes 240 KB
                put("spiece", name, cut_charsmap(data))
    for kind in json.loads((GOLDEN / "text/spiece.json").read_text()):
        put("spiece", kind["name"].replace(",", "").replace(" ", "_"), base64.b64decode(kind["model"]))

    prompts = {"plain": "a red circle moves right", "html": "&amp;lt;b&amp;gt; &#x41; &#65; &copy &nosuch; &notit;",
               "quotes": "“curly” ‘quotes’ … ﬁ ligature — dash", "wide": "ｆｕｌｌ　ｗｉｄｔｈ カタカナ ｶﾀｶﾅ",
               "marks": "e\u0301 \u200b\ufeff\u202e \x1b[31mred\x1b[0m \u2028 \r\n \x00 x", "mojibake": "cafÃ© â€œxâ€\x9d",
               "cjk": "红色的猫在跳舞 🎈 👩‍👩‍👧", "surrogates": "a"}
    for name, text in prompts.items():
        put("prompt", name, text)
    put("prompt", "surrogates", b"\xed\xa0\xbd\xed\xb2\xa9 \xc3\xad\xc2\xa0")


def text_files():
    prompts = "# a comment\r\na red <lora:fur:0.8> cat<lora:|high_noise|light:-1e-1><lora:fur:+.5>\r一只狐狸🦊\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32", "gbk"):
        put("text_file", encoding, prompts.encode(encoding, "replace"))
    put("text_file", "utf-16-be", b"\xfe\xff" + prompts.encode("utf-16-be"))
    put("text_file", "tags", "<lora:x><lora:x:abc><lora::1><LORA:x:1><lora:|low_noise|x:1><lo<lora:x:1>ra:y:1>")
    put("text_file", "json", '\ufeff{"fps": 10,\r\n "actions": [{"frames": 9, "keys": ["W"], "mouse": [0, 0.5]}]}')
    for name, text in {"comma": '{"a": [1, 2,],}', "quotes": "{'a': “b”}", "comment": '{"a": 1 // c\n}', "path": '{"a": "C:\\m"}',
                       "python": '{"a": None, "b": NaN}', "cut": '{"a": {"b": "c'}.items():
        put("text_file", name, text)


def cut_charsmap(data):
    """Replaces field 2 (precompiled_charsmap) of the protobuf's field 3 (normalizer_spec) by an empty one."""
    def varint(b, i):
        n = shift = 0
        while True:
            n |= (b[i] & 127) << shift
            shift, i = shift + 7, i + 1
            if b[i - 1] < 128:
                return n, i

    def encode(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])

    def fields(b):
        i = 0
        while i < len(b):
            start = i
            key, i = varint(b, i)
            kind = key & 7
            if kind == 0:
                _, i = varint(b, i)
            elif kind == 5:
                i += 4
            elif kind == 1:
                i += 8
            else:
                n, i = varint(b, i)
                yield key >> 3, b[start:i + n], b[i:i + n]
                i += n
                continue
            yield key >> 3, b[start:i], None

    out = b""
    for number, whole, body in fields(data):
        if number == 3:
            kept = b"".join(w for n, w, _ in fields(body) if n != 2)
            whole = bytes([3 << 3 | 2]) + encode(len(kept)) + kept
        out += whole
    return out


def images():
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (6, 9, 3), dtype=np.uint8)
    rgb = Image.fromarray(x)

    def save_as(name, image, kind, **more):
        out = io.BytesIO()
        image.save(out, kind, **more)
        put("image", name, out.getvalue())

    text = PngImagePlugin.PngInfo()
    text.add_itxt("Comment", '{"a": 1}', zip=True)
    text.add_text("Comment", "plain")
    text.add_text("Comment", "zipped", zip=True)
    exif = Image.Exif()
    exif[0x0112] = 6
    save_as("rgb.png", rgb, "png", pnginfo=text)
    save_as("gray.png", rgb.convert("L"), "png")
    save_as("bits.png", rgb.convert("1"), "png")
    save_as("palette.png", rgb.quantize(7), "png")
    save_as("alpha.png", rgb.convert("RGBA"), "png")
    save_as("wide.png", Image.fromarray((x[:, :, 0].astype(np.uint16) << 7)), "png")
    save_as("420.jpg", rgb, "jpeg", quality=50, subsampling=2, exif=exif)
    save_as("444.jpg", rgb, "jpeg", quality=50, subsampling=0, progressive=True)
    save_as("gray.jpg", rgb.convert("L"), "jpeg")
    save_as("lossy.webp", rgb, "webp", quality=30, exif=exif)
    save_as("lossless.webp", rgb, "webp", lossless=True)
    save_as("alpha.webp", rgb.convert("RGBA"), "webp", quality=30)
    save_as("still.gif", rgb.quantize(7), "gif", comment=b"c" * 300)
    # This is a picture of 16384 x 16384 in a few bytes.
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    put("image", "bomb.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 16384, 6000, 8, 2, 0, 0, 0)) +
        chunk(b"IDAT", zlib.compress(bytes(5000))) + chunk(b"IEND", b""))


def golden_lines(target, source, chosen, before=b""):
    """Reads the files that tests/golden/media stores as lines of hex digits."""
    for line in (GOLDEN / "media" / source).read_text().splitlines():
        name, digits = line.split()[:2]
        if name in chosen:
            put(target, name, before + bytes.fromhex(digits))


def odd_media():
    golden_lines("image", "upright.txt", {
        "png-6", "png-behind", "png-profile-zTXt", "png-profile-tEXt-behind", "png-xmp-packed", "exif-rational", "exif-behind-far", "webp-6",
        "webp-xmp-and-exif", "rgb16-png", "palette-alpha-png", "animated-webp", "animated-alpha-webp", "animated-part-webp", "animated-png",
        "animated-gif", "interlaced-gif", "part-transparent-gif"})
    golden_lines("sound", "odd_sounds.txt", {
        "rf64-pcm_16", "bw64", "w64-float", "au-ulaw", "au-float", "aiff-pcm_24", "aiff-little-pcm_16", "caf-pcm_16", "wavex-float",
        "placeholder-7ffff000", "placeholder-00000000", "list-behind", "list-without-padding", "two-data", "rf64-zero", "w64-ones"}, b"\0")
    golden_lines("video", "turned_videos.txt", {"turned90.mp4", "turned180mirrored.mov", "turned90.mkv", "turned90mirrored.mkv"})


def sounds():
    """Each seed is a choice (rate, pieces), then a file of 0.1 to 0.5 seconds. The wav files are written here; the others are those that the reader's
    tests read."""
    t = np.arange(4000) / 8000
    samples = (0.3 * np.sin(2 * np.pi * 220 * t) * np.exp(-2 * t)).astype(np.float32)

    def wav(kind, bits, channels, values, rate=8000, told=None):
        data = values.tobytes()
        block = bits // 8 * channels
        fmt = struct.pack("<HHIIHH", kind, channels, rate, rate * block, block, bits)
        told = len(data) if told is None else told
        return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", 16) + fmt + b"data" + struct.pack("<I", told) + data

    short = samples[:800]
    plain = wav(1, 16, 1, (samples * 32767).astype("<i2"))
    put("sound", "s16.wav", b"\0" + plain)
    put("sound", "u8.wav", b"\1" + wav(1, 8, 2, np.repeat((short * 127 + 128).astype(np.uint8), 2)))
    put("sound", "f32.wav", b"\x82" + wav(3, 32, 1, short))
    put("sound", "f64.wav", b"\3" + wav(3, 64, 1, short.astype("<f8"), rate=16000))
    put("sound", "alaw.wav", b"\0" + wav(6, 8, 1, (short * 127 + 128).astype(np.uint8)))
    put("sound", "pipe.wav", b"\0" + wav(1, 16, 1, (short * 32767).astype("<i2"), told=2**32 - 1))
    put("sound", "not-finite.wav", b"\0" + wav(3, 32, 1, np.float32([0, np.nan, np.inf, 1e30])))
    for i, name in enumerate(("stereo.flac", "mono.mp3", "opus.ogg", "vorbis.ogg", "aac.m4a", "track.webm")):
        put("sound", name, bytes([i]) + (GOLDEN / "media" / f"read_{name}").read_bytes())


def messages():
    put("page_message", "input", b'\0{"type":"input","keys":["W","D"],"mouse":[-0.1,1],"stamp":7}')
    put("page_message", "start", b'\2{"type":"start","seed":18446744073709551615,"prompt":"a \\u00e9 cat"}')
    put("page_message", "others", b'\0{"type":"record","on":true}')
    put("page_message", "seen", b'\0{"type":"seen","sequence":41}')
    put("page_message", "twice", b'\0{"type":"stop","type":"reset"}')
    put("page_message", "host", b"\1[::1]:8190")
    put("page_message", "origin", b"\1http://localhost")
    put("page_message", "query", b"\1/picture?session=x&token=abcdefgh")


def forms():
    def part(disposition, content, more=""):
        return f"--b\r\nContent-Disposition: form-data; {disposition}\r\n{more}\r\n".encode() + content + b"\r\n"

    text, file = part('name="prompt"', "é, a cat\r\n--".encode()), 'name="input_reference"; filename="a \\"b.png"'
    png = part(file, b"\r\n\r\n--\0\r\n--a\r\n-", "Content-Type: image/png\r\n")
    put("multipart", "mixed", b"\x06" + text + png + part('name="loras[][name]"', b"") + b"--b--\r\n")
    put("multipart", "preamble", b"\0before\r\n" + text + b"--b-- \r\nafter")
    put("multipart", "many", b"\1" + 4 * part("name=x", b"y") + b"--b--")
    put("multipart", "long", b"\x09" + part("name=x", 30 * b"y") + b"--b--")
    put("multipart", "encoded", b"\x02" + part("name=x", b"eA==", "Content-Transfer-Encoding: base64\r\n") + b"--b--")
    put("multipart", "unended", b"\x04" + text + b"--b\r\n")
    put("multipart", "twice", b"\x04" + part("name=x; name=y", b"") + b"--b--")
    put("multipart", "range", b"\0bytes=-5")
    put("multipart", "path", b"\0/v1/videos/%2e%2e/a?b=c%20d&e")


def greetings():
    challenge, number = b"TACHYRK1" + 32 * b"n", 32 * b"m"
    unproved = b"TACHYRK1" + number + struct.pack("<3I", 1, 0, 4)
    proof = hmac.digest(b"another secret than theirs", b"tachyscope asks" + challenge[8:] + unproved, "sha256")
    put("rank_greeting", "answer", b"\0" + unproved + proof)
    put("rank_greeting", "other_version", b"\0TACHYRK2" + (unproved + proof)[8:])
    put("rank_greeting", "reply", b"\1" + challenge + struct.pack("<I", 0) + proof)
    put("rank_greeting", "refusal", b"\1" + challenge + struct.pack("<I", 2) + proof)
    put("rank_greeting", "header", b"\2FRAM" + struct.pack("<IQ", 1, 1 << 40))
    put("rank_greeting", "last", b"\2FRAM" + struct.pack("<IQ", 4, 20))


def form(*parts):
    """A form with the boundary b: each part is (name, content) or (name, content, filename)."""
    text = b""
    for name, content, *filename in parts:
        file = b'; filename="%s"' % filename[0].encode() if filename else b""
        text += b'--b\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % (name.encode(), file, content)
    return text + b"--b--\r\n"


def requests():
    put("request_body", "json", b'\0{"prompt":"a cat","seed":18446744073709551615,"size":"64x32","fps":16,"seconds":"4","without":["cfg"]}')
    put("request_body", "nested", b'\0{"prompt":"a \\u00e9","extra_params":{"frames":9,"free_noise":true},"preset":"mine","crf":20}')
    put("request_body", "remix", b'\2{"prompt":"a dog","width":48,"seed":null}')
    put("request_body", "loras", b'\0{"prompt":"a","lora":"[{\\"name\\":\\"film\\",\\"strength\\":0.5,\\"expert\\":\\"high\\"}]"}')
    put("request_body", "form", b"\1" + form(("prompt", b"5"), ("num_frames", b"17"), ("without[]", b"cfg"), ("free_noise", b"true")))
    put("request_body", "columns", b"\1" + form(("prompt", b"a"), ("loras[][name]", b"x"), ("loras[][strength]", b"1")))
    put("request_body", "objects", b"\3" + form(("extra_params[frames]", b"9"), ("input_reference[image_url]", b"data:image/png;base64,iVBORw0KGgo=")))
    put("request_body", "file", b"\1" + form(("prompt", b"a"), ("input_reference", (HERE / "corpus/image/bits.png").read_bytes(), "../cat.png")))
    put("request_body", "talk", b"\1" + form(("prompt", b"a"), ("speaker_boxes[]", b"0,0,4,4"), ("audio_reference", b"RIFF\0\0\0\0WAVE", "a.wav")))


def workflows():
    sys.path.insert(0, str(HERE.parent / "workflows"))
    import graphs
    for name, graph in graphs.graphs().items():
        put("workflow", name, graphs.text(graph))


if __name__ == "__main__":
    weights()
    ggufs()
    conversions()
    configs()
    texts()
    text_files()
    images()
    sounds()
    odd_media()
    messages()
    forms()
    greetings()
    requests()
    workflows()
