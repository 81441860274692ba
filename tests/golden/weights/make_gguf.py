"""Makes blocks.gguf and blocks.safetensors, for tests/unit/weights/gguf_test.cpp (gguf 0.19.0, numpy 2; seed 7).

    python make_gguf.py            # writes beside itself

blocks.gguf holds a tensor "TYPE.weight" [4, 256] (or with one block per row) of every type that the reader decodes: row 0 has
all bits off, row 1 all bits on, the others are random, each with scales that are finite. blocks.safetensors holds what
gguf.quants.dequantize computes from them, float32. They also cover plain types, an unusual alignment, keys of every kind, a shape restored by its
key, a type that is not decoded, and tensors under the names of a transformer and of a text encoder.

split/ holds a small file whole, and as the package's writer splits it.
"""

import pathlib

import gguf
import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as T
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent

# Where the float16 scales of a block lie; MXFP4's scale is any byte: the scale is finite, but its products may not be. IQ1_M's scale is spread over
# four words, so a bit of its exponent is cleared.
SCALES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2],
    T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [],
    T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0], T.IQ1_S: [0], T.IQ1_M: [], T.TQ1_0: [52], T.TQ2_0: [64],
}


def finite_half(rng, extreme=None):
    """Draws any finite float16, subnormals and both signs included."""
    bits = rng.integers(0, 65536) if extreme is None else extreme
    if bits >> 10 & 31 == 31:
        bits ^= 1 << 10
    return np.array([bits], np.uint16).view(np.uint8)


def random_blocks(rng, kind, rows, blocks):
    """Returns rows of random blocks, except that the first row has all bits off and the second all bits on."""
    size = GGML_QUANT_SIZES[kind][1]
    out = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    out[0], out[1] = 0, 255
    for row in range(rows):
        for block in range(blocks):
            for at in SCALES[kind]:
                out[row, block, at:at + 2] = finite_half(rng, {0: 0, 1: 0xFFFF}.get(row))
    if kind == T.IQ1_M:
        out[..., 55] &= 0xBF
    return out.reshape(rows, blocks * size)


def plain(writer, expected, rng):
    def add(name, values, raw_dtype=None, raw=None):
        writer.add_tensor(name, values if raw is None else raw, raw_dtype=raw_dtype)
        expected[name] = values.astype(np.float32)

    add("f32.weight", rng.standard_normal((2, 3, 2, 2)).astype(np.float32))
    add("f16.weight", rng.standard_normal((3, 5)).astype(np.float16))
    bits = rng.integers(0, 0x7F80, (2, 6), dtype=np.uint16)
    add("bf16.weight", (bits.astype(np.uint32) << 16).view(np.float32), raw_dtype=T.BF16, raw=bits.view(np.uint8))
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.float64):
        add(f"{np.dtype(dtype).name}", np.array([-3, 0, 7], dtype))


def split(rng):
    folder = HERE / "split"
    folder.mkdir(exist_ok=True)
    raw = random_blocks(rng, T.Q8_0, 9, 2)
    for name, options in (("whole.gguf", {}), ("m.gguf", {"split_max_tensors": 2})):
        writer = gguf.GGUFWriter(folder / name, "wan", **options)
        writer.add_array("comfy.gguf.orig_shape.restored.weight", [64, 3, 3])
        for i in range(4):
            writer.add_tensor(f"t{i}", np.arange(8, dtype=np.float32) + i)
        writer.add_tensor("restored.weight", raw, raw_dtype=T.Q8_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def main():
    rng = np.random.default_rng(7)
    writer = gguf.GGUFWriter(HERE / "blocks.gguf", "wan")
    writer.add_custom_alignment(64)
    expected = {}
    for kind in SCALES:
        values = GGML_QUANT_SIZES[kind][0]
        raw = random_blocks(rng, kind, 4, 256 // values if values < 256 else 1)
        name = f"{kind.name.lower()}.weight"
        writer.add_tensor(name, raw, raw_dtype=kind)
        expected[name] = gguf.quants.dequantize(raw, kind)
    plain(writer, expected, rng)

    # A converter has split this tensor: its rows of 36 values are not whole blocks.
    raw = random_blocks(rng, T.Q4_0, 9, 8)
    writer.add_tensor("restored.weight", raw, raw_dtype=T.Q4_0)
    writer.add_array("comfy.gguf.orig_shape.restored.weight", [64, 4, 3, 3])
    expected["restored.weight"] = gguf.quants.dequantize(raw, T.Q4_0).reshape(64, 4, 3, 3)
    raw = random_blocks(rng, T.Q8_0, 2, 1)
    writer.add_tensor("line", raw.reshape(-1), raw_dtype=T.Q8_0)
    expected["line"] = gguf.quants.dequantize(raw.reshape(-1), T.Q8_0)
    writer.add_tensor("other", np.zeros((1, 36), np.uint8), raw_dtype=T.NVFP4)

    writer.add_string("test.string", "x \u00e9")
    writer.add_bool("test.bool", True)
    writer.add_uint8("test.u8", 255)
    writer.add_int8("test.i8", -1)
    writer.add_uint16("test.u16", 65535)
    writer.add_int16("test.i16", -2)
    writer.add_uint32("test.u32", 2**32 - 1)
    writer.add_int32("test.i32", -3)
    writer.add_uint64("test.u64", 2**64 - 1)
    writer.add_key_value("test.i64", -4, gguf.GGUFValueType.INT64)
    writer.add_float32("test.f32", 0.5)
    writer.add_float64("test.f64", -0.25)
    writer.add_array("test.integers", [1, -2, 3])
    writer.add_array("test.floats", [0.5, -0.5])
    writer.add_array("test.strings", ["a", "", "\u00e9"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, HERE / "blocks.safetensors")
    split(rng)


if __name__ == "__main__":
    main()
