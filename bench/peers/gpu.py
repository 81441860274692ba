"""Compares with PyTorch on a GPU: runs diffusers' forward and ours, of a Wan transformer or VAE of true shape with random weights, on the same GPU in
the same run, and gives times, peak memory, and errors against the float32 reference.

    python3 bench/peers/gpu.py OURS_GPU --what dit-1.3b|dit-14b|dit-fast|decode|encode [--size 480p|720p|704p|small|fast] [--vae 2.1|2.2] [--compile [--no-eager]] [--reference]
        [--layers N] [--sparse 0.3,0.5] [--plan]

--compile compiles the transformer by compile_repeated_blocks, and a VAE by torch.compile with channels-last
weights. --size 704p is 121x704x1280, the size of Wan 2.2's TI2V-5B, for its VAE (--vae 2.2). --layers N runs
only N of a transformer's blocks. --plan runs nothing, and prints the memory that ours would take.

--residual LIST runs ours with each of f32, low (the residual stream has the activations' dtype), int8 (low,
with attention in 8 bits), fp8 (low, with the blocks' linear layers in e4m3), fp8-int8, fp8-f32 (fp8 with the
residual stream in float32) and tf32 (with --dtype f32: linear layers in TF32). --fp8 also runs diffusers'
compiled transformer with the same layers by torch._scaled_mm, with a scale for each row of weights and of
activations, quantised in the compiled graph, like torchao's per-row dynamic quantisation.

--adapters 1x64,8x64 also runs ours with random low-rank adapters beside every linear layer of the blocks,
applied at run time. --stored gguf:Q4_0,fp8 also runs ours from a file of each form (`tachyscope convert`),
whose weights stay in that form on the GPU.

--sparse SHARES also runs a transformer's forward pass with block-sparse attention, which keeps these shares
of the blocks of keys, by each chooser. Its error against dense attention says nothing of a trained model,
since weights are random. --json FILE writes the figures (ms, GiB, errors). OURS_GPU is
build/bench/peers/ours_gpu. Weights go to a temporary folder (2.6 GB for 1.3B, 28 GB for 14B)."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import torch

SIZES = {"480p": (21, 60, 104), "720p": (21, 90, 160), "704p": (31, 88, 160), "small": (5, 30, 52), "fast": (9, 16, 16)}
SHAPES = {"dit-1.3b": dict(num_attention_heads=12, ffn_dim=8960, num_layers=30), "dit-14b": dict(num_attention_heads=40, ffn_dim=13824, num_layers=40),
          "dit-fast": dict(num_attention_heads=3, ffn_dim=1024, num_layers=6)}

WAN22_VAE = dict(base_dim=160, decoder_base_dim=256, z_dim=48, is_residual=True, in_channels=12, out_channels=12, patch_size=2, scale_factor_spatial=16,
                 latents_mean=[0.0] * 48, latents_std=[1.0] * 48)


FIGURES = {}  # the figures for --json, which are written as they come
ABOUT, JSON = {}, []  # what they are of, and the file


def write_figures():
    for file in JSON:
        file.write_text(json.dumps({**ABOUT, "torch": torch.__version__, **FIGURES}, indent=1) + "\n")


def note_ours(text, residual=""):
    """Notes the figures in ours_gpu's line: the time of the replayed graph if there is one."""
    key = "ours" if not residual or "ours_ms" not in FIGURES else f"ours_{residual}"
    if found := re.search(r"median ([\d.]+) ms", text):
        FIGURES[f"{key}_ms"] = float(found.group(1))
    if found := re.search(r"graph of (\d+) nodes ([\d.]+) ms", text):
        FIGURES[f"{key}_nodes"], FIGURES[f"{key}_eager_ms"], FIGURES[f"{key}_ms"] = int(found.group(1)), FIGURES[f"{key}_ms"], float(found.group(2))
    if found := re.search(r"peak ([\d.]+) GiB", text):
        FIGURES[f"{key}_gib"] = float(found.group(1))
    if found := re.search(r"attention and GEMM calls alone ([\d.]+) ms", text):
        FIGURES[f"{key}_calls_alone_ms"] = float(found.group(1))
    if found := re.search(r"nodes: (\d+) kernels", text):
        FIGURES[f"{key}_kernels"] = int(found.group(1))
    if residual:
        FIGURES[f"{key}_residual"] = residual
    write_figures()


def note_peer(key, ms):
    FIGURES[f"{key}_ms"], FIGURES[f"{key}_gib"] = ms, torch.cuda.max_memory_allocated() / 2**30
    write_figures()


def timed(work, repeats):
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        out = work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    times.sort()
    return times[len(times) // 2], out


def errors(name, y, r):
    y, r = y.double().flatten(), r.double().flatten()
    FIGURES.setdefault("errors", {}).setdefault(name, {"max": ((y - r).abs().max() / r.abs().max()).item(), "rms": ((y - r).norm() / r.norm()).item()})
    print(f"  {name}: max|y-R|/max|R| {((y - r).abs().max() / r.abs().max()).item():.3e}, relative rms {((y - r).norm() / r.norm()).item():.3e}", flush=True)


def floats(path, shape):
    return torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.float32).reshape(shape)


def dit_options(args):
    options = dict(attention_head_dim=128, in_channels=16, out_channels=16, text_dim=4096, freq_dim=256, cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6,
                   **SHAPES[args.what])
    if args.layers:
        options["num_layers"] = args.layers
    return options


def plan_dit(args, folder):
    """Writes a checkpoint as a sparse file without weights, which is enough for planning."""
    from diffusers import WanTransformer3DModel
    with torch.device("meta"):
        model = WanTransformer3DModel(**dit_options(args))
    header, at = {}, 0
    for name, value in model.state_dict().items():
        header[name] = {"dtype": "BF16", "shape": list(value.shape), "data_offsets": [at, at + 2 * value.numel()]}
        at += 2 * value.numel()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model").mkdir()
    model.save_config(folder / "model")
    with open(folder / "model/diffusion_pytorch_model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    for residual in args.residual.split(","):
        done = subprocess.run([args.ours, "plan", str(folder / "model"), args.dtype, *map(str, SIZES[args.size]), "77", "637", "-", "-", "-", "1", residual], capture_output=True, text=True)
        print(f"{args.what} {args.size}, residual {residual}:", done.stdout.strip(), done.stderr.strip()[-2000:], flush=True)


class Fp8Linear(torch.nn.Module):
    """A linear layer whose operands are rounded to e4m3, with a scale for each row."""

    def __init__(self, linear):
        super().__init__()
        weight, scale = self.rounded(linear.weight.detach())
        self.register_buffer("weight8", weight.t())  # column major, as _scaled_mm needs it
        self.register_buffer("scale", scale.t())
        self.bias = linear.bias

    @staticmethod
    def rounded(x):
        scale = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-12) / 448
        return (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        codes, scale = self.rounded(rows)
        y = torch._scaled_mm(codes, self.weight8, scale_a=scale, scale_b=self.scale, bias=self.bias, out_dtype=x.dtype, use_fast_accum=True)
        return y.view(*x.shape[:-1], -1)


def to_fp8(model):
    """Replaces the layers that --math fp8 rounds, in place. Returns their number."""
    count = 0
    for block in model.blocks:
        for parent, name in [(block.attn1, "to_q"), (block.attn1, "to_k"), (block.attn1, "to_v"), (block.attn1.to_out, "0"), (block.attn2, "to_q"),
                             (block.attn2.to_out, "0"), (block.ffn.net[0], "proj"), (block.ffn.net, "2")]:
            linear = getattr(parent, name) if not name.isdigit() else parent[int(name)]
            if name.isdigit():
                parent[int(name)] = Fp8Linear(linear)
            else:
                setattr(parent, name, Fp8Linear(linear))
            count += 1
    return count


def dit_inputs(args, folder):
    """Makes latents, text and timestep of a forward pass at args.size, on the GPU, and in files for our side."""
    t, h, w = SIZES[args.size]
    x = torch.randn(1, 16, t, h, w, device="cuda")
    text = torch.zeros(1, 512, 4096, device="cuda")
    text[:, :77] = torch.randn(1, 77, 4096, device="cuda") * 0.3
    text = text.bfloat16().float()
    x = x.bfloat16().float()
    (folder / "x.bin").write_bytes(x.cpu().numpy().tobytes())
    (folder / "text.bin").write_bytes(text[0, :77].contiguous().cpu().numpy().tobytes())
    return x, torch.tensor([637], device="cuda"), text


def run_dit(args, folder):
    from diffusers import WanTransformer3DModel
    torch.manual_seed(1)
    start = time.time()
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = WanTransformer3DModel(**dit_options(args))
        torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder / "model", max_shard_size="100GB")
    print(f"{args.what}: made and saved in {time.time() - start:.0f} s", flush=True)
    if args.ours_only:
        del model
        torch.cuda.empty_cache()
        by_size = {}
        for args.size in args.size.split(","):
            dit_inputs(args, folder)
            torch.cuda.empty_cache()
            FIGURES.clear()
            ours_dit(args, folder, {})
            by_size[args.size] = dict(FIGURES)
        FIGURES.clear()
        return FIGURES.update(by_size)
    x, when, text = dit_inputs(args, folder)
    results = peer_dit(args, folder, model, x, when, text)
    del model
    torch.cuda.empty_cache()
    ours_dit(args, folder, results)


def peer_dit(args, folder, model, x, when, text):
    """Times diffusers' forward pass in each requested way. Returns the outputs by name."""
    from diffusers import WanTransformer3DModel
    with torch.no_grad():
        model.set_attention_backend("_native_cudnn")
        call = lambda: model(x.bfloat16(), when, text.bfloat16(), return_dict=False)[0]
        call()
        if not (args.compile and args.no_eager):
            torch.cuda.reset_peak_memory_stats()
            ms, low = timed(call, args.repeats)
            note_peer("eager", ms)
            print(f"  diffusers eager, cuDNN attention: {ms:.1f} ms, peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)
        if args.compile:
            start = time.time()
            model.compile_repeated_blocks(fullgraph=True)
            call()
            print(f"  compiled in {time.time() - start:.0f} s", flush=True)
            torch.cuda.reset_peak_memory_stats()
            call()
            ms, low = timed(call, args.repeats)
            note_peer("compiled", ms)
            print(f"  diffusers compile_repeated_blocks, cuDNN attention: {ms:.1f} ms, peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)
        out = {"diffusers bf16": low.float().cpu()}
        if args.fp8:
            start = time.time()
            rounded = to_fp8(model)
            model.compile_repeated_blocks(fullgraph=True)
            call()
            call()
            print(f"  {rounded} layers in fp8, compiled in {time.time() - start:.0f} s", flush=True)
            torch.cuda.reset_peak_memory_stats()
            ms, low = timed(call, args.repeats)
            note_peer("compiled_fp8", ms)
            print(f"  diffusers compiled, fp8 by row, cuDNN attention: {ms:.1f} ms, peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)
            out["diffusers fp8"] = low.float().cpu()
        if args.reference:
            model.to("cpu")
            torch.cuda.empty_cache()
            torch.backends.cuda.matmul.allow_tf32 = False
            model = WanTransformer3DModel.from_pretrained(folder / "model", torch_dtype=torch.float32).to("cuda")
            model.set_attention_backend("native")
            out["float32"] = model(x, when, text, return_dict=False)[0].cpu()
    return out


def ours_dit(args, folder, peers):
    """Times our forward pass in each mode, and computes the errors of all."""
    t, h, w = SIZES[args.size]
    reference = next((name for name in ("float32", "diffusers bf16") if name in peers), None)
    for name in [name for name in peers if reference == "float32" and name != reference]:
        errors(f"{name} against float32", peers[name], peers[reference])
    for residual in args.residual.split(","):
        done = subprocess.run([args.ours, "dit", str(folder / "model"), args.dtype, str(t), str(h), str(w), "77", "637", str(folder / "x.bin"), str(folder / "text.bin"),
                               str(folder / "out.bin"), str(args.repeats), residual], capture_output=True, text=True)
        print(f"  ours, {args.size}, residual {residual}:", done.stdout.strip().replace("\n", "\n    "), done.stderr.strip()[-2000:], flush=True)
        if done.returncode:
            continue
        note_ours(done.stdout, residual)
        if reference:
            errors(f"ours {residual} against {reference}", floats(folder / "out.bin", peers[reference].shape), peers[reference])
    for which in filter(None, args.adapters.split(",")):
        for residual in args.residual.split(","):
            done = subprocess.run([args.ours, "dit", str(folder / "model"), args.dtype, str(t), str(h), str(w), "77", "637", str(folder / "x.bin"), str(folder / "text.bin"),
                                   str(folder / "adapted.bin"), str(args.repeats), residual, "adapters", which], capture_output=True, text=True)
            print(f"  ours, {args.size}, residual {residual}, adapters {which}:", done.stdout.strip().replace("\n", "\n    "), done.stderr.strip()[-2000:], flush=True)
            if done.returncode == 0:
                note_ours(done.stdout, f"{residual} {which}")
    for form in filter(None, args.stored.split(",")):
        file = folder / ("stored.gguf" if form.startswith("gguf") else "stored.safetensors")
        program = pathlib.Path(args.ours).parents[2] / "tachyscope"
        done = subprocess.run([program, "convert", folder / "model", file, "--to", form, "--overwrite"], capture_output=True, text=True)
        if done.returncode:
            print(f"  {form}: not converted: {done.stderr.strip()[-2000:]}", flush=True)
            continue
        residual = args.residual.split(",")[0]
        done = subprocess.run([args.ours, "dit", str(file), args.dtype, str(t), str(h), str(w), "77", "637", str(folder / "x.bin"), str(folder / "text.bin"),
                               str(folder / "stored.bin"), str(args.repeats), residual], capture_output=True, text=True)
        print(f"  ours, {args.size}, residual {residual}, {form}:", done.stdout.strip().replace("\n", "\n    "), done.stderr.strip()[-2000:], flush=True)
        file.unlink()
        if done.returncode == 0:
            note_ours(done.stdout, form)
            if reference:
                errors(f"ours {form} against {reference}", floats(folder / "stored.bin", peers[reference].shape), peers[reference])
    for share in filter(None, args.sparse.split(",")):
        for chooser in ("top-k", "sliding-tile"):
            done = subprocess.run([args.ours, "dit", str(folder / "model"), args.dtype, str(t), str(h), str(w), "77", "637", str(folder / "x.bin"),
                                   str(folder / "text.bin"), str(folder / "sparse.bin"), str(args.repeats), residual, share, chooser], capture_output=True, text=True)
            print(f"  ours, residual {residual}, {chooser} {share}:", done.stdout.strip().replace("\n", "\n    "), done.stderr.strip()[-2000:], flush=True)
            if done.returncode == 0 and (found := re.search(r"median ([\d.]+) ms", done.stdout)):
                FIGURES.setdefault("sparse_ms", {})[f"{chooser} {share}"] = float(found.group(1))


def compiled_vae(model, x, decode, name, repeats):
    """Sets up diffusers' VAE in its fastest form: channels-last weights, and the decoder (encoder) of a latent frame compiled."""
    for module in model.modules():
        if isinstance(module, torch.nn.Conv3d):
            module.to(memory_format=torch.channels_last_3d)
        elif isinstance(module, torch.nn.Conv2d):
            module.to(memory_format=torch.channels_last)
    x = x.to(memory_format=torch.channels_last_3d)
    start = time.time()
    if decode:
        model.decoder = torch.compile(model.decoder, dynamic=False)
    else:
        model.encoder = torch.compile(model.encoder, dynamic=False)
    call = (lambda: model.decode(x, return_dict=False)[0]) if decode else (lambda: model.encode(x).latent_dist.mean)
    call()
    call()
    print(f"  compiled in {time.time() - start:.0f} s", flush=True)
    torch.cuda.reset_peak_memory_stats()
    ms, _ = timed(call, min(repeats, 3))
    note_peer("compiled", ms)
    print(f"{name} {ms:.1f} ms, peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)


def peers_vae(args, folder, model, x, shape):
    """Times diffusers' VAE. Returns what it gives in bf16, and with --reference in float32 or else None."""
    decode = args.what == "decode"
    torch.backends.cudnn.benchmark = True
    with torch.no_grad():
        call = (lambda: model.decode(x, return_dict=False)[0]) if decode else (lambda: model.encode(x).latent_dist.mean)
        call()
        torch.cuda.reset_peak_memory_stats()
        eager, low = timed(call, 2)
        note_peer("eager", eager)
        print(f"Wan{args.vae} {args.what} {shape}: diffusers eager bf16 {eager:.1f} ms, peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB", flush=True)
        low = low.float().cpu()
        if args.compile:
            compiled_vae(model, x, decode, "  diffusers compiled, channels-last weights, bf16", args.repeats)
        reference = None
        if args.reference:
            if args.compile:  # this undoes the compilation of the layers
                model = AutoencoderKLWan.from_pretrained(folder / "model").to("cuda")
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
            torch.backends.cudnn.benchmark = False
            model.float()
            x = x.float()
            reference = call().cpu()
    return low, reference


def run_vae(args, folder):
    from diffusers import AutoencoderKLWan
    torch.manual_seed(2)
    t, h, w = SIZES[args.size]
    options = WAN22_VAE if args.vae == "2.2" else {}
    z, stride = options.get("z_dim", 16), options.get("scale_factor_spatial", 8)
    h, w = h * 8 // stride, w * 8 // stride  # the picture keeps its size
    model = AutoencoderKLWan(**options).to("cuda", torch.bfloat16)
    model.save_pretrained(folder / "model")
    model.requires_grad_(False)
    decode = args.what == "decode"
    if decode:
        x = torch.randn(1, z, t, h, w, device="cuda").bfloat16()
        (folder / "x.bin").write_bytes(x[0].float().cpu().numpy().tobytes())
    else:
        x = (torch.rand(1, 3, 4 * t - 3, h * stride, w * stride, device="cuda") * 2 - 1).bfloat16()
        (folder / "x.bin").write_bytes(x[0].float().permute(1, 2, 3, 0).contiguous().cpu().numpy().tobytes())
    low, reference = (None, None) if args.ours_only else peers_vae(args, folder, model, x, f"{4 * t - 3}x{h * stride}x{w * stride}")
    del model
    torch.cuda.empty_cache()
    size = [t, h, w] if decode else [4 * t - 3, h * stride, w * stride]
    done = subprocess.run([args.ours, args.what, str(folder / "model"), args.dtype, *map(str, size), str(folder / "x.bin"), str(folder / "out.bin"), str(args.repeats), str(args.chunk), *(["profile"] if args.profile else [])],
                          capture_output=True, text=True)
    print("  ours:", done.stdout.strip(), done.stderr.strip()[-2000:], flush=True)
    if done.returncode == 0:
        note_ours(done.stdout)
        if low is None:
            return
        if decode:
            ours = floats(folder / "out.bin", (4 * t - 3, h * stride, w * stride, 3)).permute(3, 0, 1, 2)[None]
        else:
            ours = floats(folder / "out.bin", low.shape)
        if reference is not None:
            errors("diffusers bf16 against float32", low, reference)
            errors("ours against float32", ours, reference)
        else:
            errors("ours against diffusers bf16", ours, low)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("--what", default="dit-1.3b")
    parser.add_argument("--size", default="480p", help=f"{', '.join(SIZES)}; several of a transformer with --ours-only")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--vae", default="2.1", choices=["2.1", "2.2"])
    parser.add_argument("--residual", default="f32")
    parser.add_argument("--chunk", type=int, default=2, help="latent frames that the VAE takes at a time (default 2, as a plan for one GPU with room)")
    parser.add_argument("--profile", action="store_true", help="where our VAE's time goes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--fp8", action="store_true", help="with --compile: also with linear layers in fp8")
    parser.add_argument("--ours-only", action="store_true", help="diffusers only makes the model; nothing is compared")
    parser.add_argument("--no-eager", action="store_true", help="with --compile: only the compiled transformer is timed")
    parser.add_argument("--layers", type=int, default=0, help="only so many blocks (0: the model's)")
    parser.add_argument("--stored", default="", help="forms of `tachyscope convert`: also the transformer from such a file (gguf:Q4_0,fp8)")
    parser.add_argument("--adapters", default="", help="COUNTxRANK,…: also with so many adapters beside every linear layer of the blocks, at run time")
    parser.add_argument("--sparse", default="", help="shares of the blocks of keys, for block-sparse forwards")
    parser.add_argument("--plan", action="store_true", help="only the memory ours would take")
    parser.add_argument("--reference", action="store_true", help="also the float32 reference: errors of both against it")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here")
    args = parser.parse_args()
    sizes = args.size.split(",")
    if any(size not in SIZES for size in sizes) or (len(sizes) > 1 and not args.ours_only):
        parser.error(f"--size: expected one of {', '.join(SIZES)} (several of a transformer with --ours-only), got {args.size}")
    ABOUT.update(what=args.what, size=sizes[-1], dtype=args.dtype)
    JSON.extend(filter(None, [args.json]))
    with tempfile.TemporaryDirectory() as folder:
        (plan_dit if args.plan else run_dit if args.what.startswith("dit") else run_vae)(args, pathlib.Path(folder))
    write_figures()


if __name__ == "__main__":
    sys.exit(main())
