"""Makes golden files of transformers that were trained with sparse attention (src/models/wan/branches/trained), from diffusers'
WanTransformer3DModel in float64 whose self-attention tests/reference/trained_sparse.py replaces.

    python tests/golden/wan/make_trained.py [--fastvideo FOLDER] [--turbodiffusion FOLDER]      (torch 2.11.0, diffusers 0.42.1, safetensors)

    <case>/config.json, diffusion_pytorch_model.safetensors   a small random transformer with the layers of the attention
    <case>.safetensors    its inputs and sample, as make.py's; beside them sample_dense (attention to all keys, without the layers), and
                          share: the share of the blocks that a block attends to

With a folder of FastVideo's or TurboDiffusion's sources, their own functions are run on the CPU, their Triton kernels replaced by PyTorch, and must
agree with trained_sparse.py in float32 and float64.
"""

import argparse
import ast
import math
import pathlib
import random
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from diffusers import WanTransformer3DModel

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "reference"))
import random_models as rm  # noqa: E402
import trained_sparse  # noqa: E402
from precision import error, float64  # noqa: E402

torch.set_num_threads(1)
SMALL = dict(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=4, text_dim=12, freq_dim=256,
             ffn_dim=30, num_layers=2, cross_attn_norm=True, eps=1e-6)
# case: kind, grid of tokens, share of the blocks
CASES = {"vsa": ("cubes", (5, 6, 7), 0.3), "vsa_whole": ("cubes", (4, 8, 4), 0.5), "sla": ("linear", (5, 8, 9), 0.4)}


def make(name, seed):
    kind, grid, share = CASES[name]
    rng = random.Random(seed)
    torch.manual_seed(rng.randrange(2**31))
    model = rm._randomise(WanTransformer3DModel(**SMALL), rng)
    layers = trained_sparse.layers_for(kind, model, seed)
    folder = HERE / name
    model.save_pretrained(folder)
    trained_sparse.add_to_file(folder, kind, layers)
    torch.manual_seed(seed)
    lengths = (5, 1)
    inputs = {"hidden_states": torch.randn(2, 4, grid[0], 2 * grid[1], 2 * grid[2]), "encoder_hidden_states": torch.randn(2, 512, 12),
              "timestep": torch.tensor([937.25, 3.0])}
    for b, n in enumerate(lengths):
        inputs["encoder_hidden_states"][b, n:] = 0
    attention = trained_sparse.KINDS[kind][0](model, layers, share, grid)
    with torch.no_grad():
        with attention:
            single = model(**inputs).sample
        model.double(), layers.double()
        wide = {k: v.double() if k != "timestep" else v for k, v in inputs.items()}
        with float64():
            with attention:
                sample = model(**wide).sample
            dense = model(**wide).sample
    assert attention.calls == 4 and attention.closest > trained_sparse.CLOSE, (attention.calls, attention.closest)
    assert error(dense, sample) > 1e-3
    e = error(single, sample)
    golden = {**inputs, "sample": sample.float(), "sample_dense": dense.float(), "share": torch.tensor([share])}
    save_file({k: v.contiguous() for k, v in golden.items()}, HERE / f"{name}.safetensors",
              {"reference_float32_error": repr(e), "text_rows": ",".join(map(str, lengths))})
    print(f"{name}: {attention.keep} of {attention.count} blocks, float32 error {e:.2e}, closest choice {attention.closest:.3f}, "
          f"dense attention differs by {error(dense, sample):.2e}")


def functions_of(file, names, scope):
    """Runs the definitions of these names in a source file, and nothing else of it, in `scope`."""
    tree = ast.parse(file.read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", None) in names]
    assert len(tree.body) == len(names), (file, names)
    exec(compile(tree, str(file), "exec"), scope)
    return [scope[name] for name in names]


def block_mean(x, sizes, most):
    parts = x.unflatten(2, (len(sizes), most)).sum(3)
    return parts / sizes[:, None].to(x.dtype)


def check_fastvideo(folder):
    import functools
    scope = {"torch": torch, "math": math, "functools": functools, "VSA_TILE_SIZE": (4, 4, 4)}
    python = folder / "fastvideo-kernel" / "python" / "fastvideo_kernel"
    order, sizes_of, non_pad = functions_of(python / "vsa_utils.py", ["get_tile_partition_indices", "construct_variable_block_sizes", "get_non_pad_index"],
                                            scope)
    keep_of, = functions_of(folder / "fastvideo" / "attention" / "backends" / "video_sparse_attn.py", ["compute_topk"], scope)
    for name in ("vsa", "vsa_whole"):
        _, grid, share = CASES[name]
        sizes = sizes_of(grid, tuple(math.ceil(n / 4) for n in grid), torch.device("cpu"))
        index, slots = order(grid, (4, 4, 4), torch.device("cpu")), non_pad(sizes, 64)
        torch.manual_seed(3)
        for dtype in (torch.float32, torch.float64):
            q, k, v, gate = (torch.randn(2, math.prod(grid), 3, 8, dtype=dtype) for _ in range(4))

            def tiled(x):
                out = torch.zeros(2, 64 * len(sizes), 3, 8, dtype=dtype)
                out[:, slots] = x[:, index]
                return out.transpose(1, 2)

            def listed(q, k, v, mask, sizes):  # their Triton kernel's result
                valid = (torch.arange(64)[None] < sizes[:, None]).flatten()
                seen = mask.repeat_interleave(64, 2).repeat_interleave(64, 3) & valid
                return (F.scaled_dot_product_attention(q, k, v, attn_mask=seen),)

            scope.update(fused_block_mean=block_mean, block_sparse_attn=listed,
                         fused_topk_mask=lambda s, n: torch.zeros_like(s, dtype=torch.bool).scatter_(-1, s.topk(n, -1).indices, True))
            theirs, = functions_of(python / "ops.py", ["video_sparse_attn"], scope)
            keep = keep_of(1 - share, len(sizes))
            out = theirs(*(tiled(x) for x in (q, k, v)), sizes, sizes, keep, (4, 4, 4), tiled(gate)).transpose(1, 2)[:, slots][:, torch.argsort(index)]
            dit = type("Dit", (), {"blocks": []})
            mine = trained_sparse.Cubes(dit, [lambda u: u.flatten(2)], share, grid)
            mine.index, mine.u = 0, gate
            assert mine.keep == keep
            e = error(mine.attend(q, k, v), out)
            print(f"{name}: FastVideo's video_sparse_attn in {dtype} differs by {e:.1e}")
            assert e < (1e-5 if dtype == torch.float32 else 1e-12)


def check_turbodiffusion(folder):
    source = folder / "turbodiffusion" / "SLA"
    scope = {"torch": torch, "nn": torch.nn, "F": F}

    def mean_pool(x, size):
        parts = [p.mean(2) for p in x.split(size, 2)]
        return torch.stack(parts, 2)

    class Attention:  # their Triton kernel's result
        @staticmethod
        def apply(q, k, v, seen, lut, topk, rows, columns):
            tokens = q.shape[2]
            mask = seen.bool().repeat_interleave(rows, 2)[:, :, :tokens].repeat_interleave(columns, 3)[..., :tokens]
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    scope.update(mean_pool=mean_pool, _attention=Attention)
    functions_of(source / "utils.py", ["get_block_map"], scope)
    sla, = functions_of(source / "core.py", ["SparseLinearAttention"], scope)
    _, grid, share = CASES["sla"]
    torch.manual_seed(5)
    module = sla(head_dim=8, topk=share, BLKQ=128, BLKK=64)
    torch.nn.init.normal_(module.proj_l.weight), torch.nn.init.normal_(module.proj_l.bias)
    for dtype in (torch.float32, torch.float64):
        module.to(dtype).dtype = dtype  # theirs computes in bfloat16
        q, k, v = (torch.randn(2, math.prod(grid), 3, 8, dtype=dtype) for _ in range(3))
        with torch.no_grad():
            out = module(q, k, v)
            mine = trained_sparse.Linear(type("Dit", (), {"blocks": []}), [module.proj_l], share, grid)
            mine.index, mine.u = 0, None
            e = error(mine.attend(q, k, v), out)
        print(f"sla: TurboDiffusion's SparseLinearAttention in {dtype} differs by {e:.1e}")
        assert e < (1e-5 if dtype == torch.float32 else 1e-12)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fastvideo", type=pathlib.Path)
    parser.add_argument("--turbodiffusion", type=pathlib.Path)
    args = parser.parse_args()
    if args.fastvideo:
        check_fastvideo(args.fastvideo)
    if args.turbodiffusion:
        check_turbodiffusion(args.turbodiffusion)
    for seed, name in enumerate(CASES):
        make(name, seed + 31)


main()
