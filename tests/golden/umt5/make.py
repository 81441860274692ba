"""Makes golden files of the umT5 text encoder, from transformers' UMT5EncoderModel in float64.

    python tests/golden/umt5/make.py        (torch 2.11.0, transformers 5.23.0, diffusers 0.42.1, safetensors)

    <case>/config.json, model.safetensors   a small random encoder as save_pretrained writes it (bf16: rounded weights)
    <case>.safetensors                      input_ids, attention_mask, last_hidden_state; metadata: the reference's own
                                            float32 error
    buckets.json                            the reference's bucket of every relative position from -300 to 300
"""

import json
import pathlib
import random
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers.models.umt5.modeling_umt5 import UMT5Attention

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import random_models as rm  # noqa: E402
from precision import error, float64  # noqa: E402

torch.set_num_threads(1)

# case: dtype of the file, lengths of the batch (the longest is the tensor's), config
CASES = {
    "masked": (torch.float32, (13, 5), dict(vocab_size=97, d_model=40, d_kv=8, d_ff=54, num_layers=2, num_heads=3)),
    "far": (torch.bfloat16, (141,), dict(vocab_size=256, d_model=24, d_kv=16, d_ff=40, num_layers=2, num_heads=2)),
}


def make(name, seed):
    dtype, lengths, config = CASES[name]
    model = rm.text_encoder(random.Random(seed), **config)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.to(dtype))
    folder = HERE / name
    model.save_pretrained(folder)
    if dtype != torch.float32:
        file = folder / "model.safetensors"
        save_file({k: v.to(dtype) for k, v in load_file(file).items()}, file)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()

    torch.manual_seed(seed)
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, n in enumerate(lengths):
        ids[row, :n], mask[row, :n] = torch.randint(3, config["vocab_size"], (n,)), 1
    with torch.no_grad():
        r32 = model(ids, mask).last_hidden_state
        with float64():
            r64 = model.double()(ids, mask).last_hidden_state
    assert r64.dtype == torch.float64
    e = error(r32, r64)
    save_file({"input_ids": ids, "attention_mask": mask, "last_hidden_state": r64.float()}, HERE / f"{name}.safetensors",
              {"reference_float32_error": repr(e)})
    print(name, f"{e:.2e}")


for i, name in enumerate(CASES):
    make(name, 20 + i)
positions = torch.arange(-300, 301)
buckets = {f"{n}/{d}": UMT5Attention._relative_position_bucket(
    type("Attention", (), {"is_decoder": False, "relative_attention_num_buckets": n, "relative_attention_max_distance": d})(),
    positions).tolist() for n, d in ((32, 128), (16, 64), (40, 200))}
(HERE / "buckets.json").write_text(json.dumps({"first": -300, "buckets": buckets}, separators=(",", ":")) + "\n")
