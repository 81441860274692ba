"""Makes the tiny image-to-video model of tests/golden talk: an audio branch of random values in a file like InfiniteTalk's, and a voice."""

import array
import json
import math
import random
import struct
import wave

from processes import ROOT

MODEL = ROOT / "tests/golden/image_pipeline/i2v"
EARS = ROOT / "tests/golden/wav2vec2/base"
PHOTO = ROOT / "tests/golden/image_pipeline/first.png"
EMBEDS = ROOT / "tests/golden/image_pipeline/embeds.safetensors"
HIDDEN, TOKENS = 12, 4


def shapes():
    """Yields (name, dims) of the branch's tensors."""
    body = json.loads((MODEL / "transformer/config.json").read_text())
    ears = json.loads((EARS / "config.json").read_text())
    dim, width = body["num_attention_heads"] * body["attention_head_dim"], ears["hidden_size"]
    row = ears["num_hidden_layers"] * width
    linears = [("audio_proj.proj1", 5 * row, HIDDEN), ("audio_proj.proj1_vf", 8 * row, HIDDEN), ("audio_proj.proj2", HIDDEN, HIDDEN),
               ("audio_proj.proj3", HIDDEN, TOKENS * width)]
    norms = [("audio_proj.norm", width)]
    for i in range(body["num_layers"]):
        block = f"blocks.{i}."
        norms.append((block + "norm_x", dim))
        linears += [(block + "audio_cross_attn.q_linear", dim, dim), (block + "audio_cross_attn.kv_linear", width, 2 * dim),
                    (block + "audio_cross_attn.proj", dim, dim)]
    for name, into, out in linears:
        yield name + ".weight", [out, into]
        yield name + ".bias", [out]
    for name, size in norms:
        yield name + ".weight", [size]
        yield name + ".bias", [size]


def write_branch(path):
    draw = random.Random(7)
    header, data = {}, b""
    for name, dims in shapes():
        count = math.prod(dims)
        scale = 1.5 / math.sqrt(dims[1]) if len(dims) == 2 else 0.1
        middle = 1 if len(dims) == 1 and "norm" in name and name.endswith("weight") else 0
        values = array.array("f", (middle + scale * draw.gauss(0, 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": dims, "data_offsets": [len(data), len(data) + 4 * count]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_voice(path, seconds):
    draw = random.Random(11)
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16000)
        out.writeframes(array.array("h", (int(6000 * math.sin(i / 9) + draw.gauss(0, 900)) for i in range(int(16000 * seconds)))).tobytes())


def words(folder, seconds, *more):
    """Returns the options of a talking photo of this length; its files are put into the folder."""
    branch, voice = folder / "infinitetalk.safetensors", folder / "voice.wav"
    write_branch(branch)
    write_voice(voice, seconds)
    return ["a person is talking", "--image", str(PHOTO), "--image-embeds", str(EMBEDS), "--speech", str(voice), "--infinitetalk", str(branch), "--audio-encoder", str(EARS),
            "--size", "32x16", "--window-frames", "9", "--motion-frames", "5", "--steps", "2", "--guidance", "3", "--audio-guidance", "2",
            "--seed", "3", "--device", "cpu", "-t", "1", *more]
