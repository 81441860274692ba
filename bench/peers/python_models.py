#!/usr/bin/env python3
"""Times one forward pass of models of diffusers and transformers, at their sizes with random weights: as they are, with `tachyscope.optimize`, and
with torch.compile. All variants alternate in one run.

    PYTHONPATH=BUILD/python bench/peers/python_models.py [--model wan ltx llama] [--no-compile] [--variants NAME…] [--parts] [--kernels] [--tiny] [--json FILE]

wan    Wan 2.1 1.3B, 81x480x832, batch 1          ltx    LTX-Video 2B, 49 frames of 512x768, batch 2 (guidance)
llama  LLaMA 3 8B: 4,096 tokens at once, and one token behind 4,096 (each variant with its own cache, 32 tokens a round)
The compiled variants compile a model's repeated blocks (diffusers' compile_repeated_blocks); their first call is not counted, and where
it takes longer than --compile-seconds the variant is left out. If a model fails, the others still get their figures.
"""
import argparse
import copy
import gc
import json
import signal
import time
import traceback

import torch

import tachyscope

VARIANTS = ["eager", "safe", "aggressive", "compiled", "aggressive, compiled", "extreme"]
PARTS = {  # parts of Wan at level aggressive, each alone; the ops are those that the report names
    "norms alone": lambda op: op in ("rms_norm", "layer_norm"),
    "activations alone": lambda op: op in ("gelu", "silu"),
    "attention alone": lambda op: "attention" in op,
    "blocks alone": lambda op: "block" in op,
}


def wan(tiny):
    from diffusers import WanTransformer3DModel

    sizes = dict(num_attention_heads=12, attention_head_dim=128, ffn_dim=8960, num_layers=30, cross_attn_norm=True)
    frames, height, width = 21, 60, 104
    if tiny:
        sizes |= dict(num_attention_heads=2, attention_head_dim=12, ffn_dim=32, num_layers=2, text_dim=16)
        frames, height, width = 2, 6, 6
    model = WanTransformer3DModel(**sizes)
    text = model.config.text_dim
    return model, lambda dtype: dict(hidden_states=torch.randn(1, 16, frames, height, width, dtype=dtype),
                                     timestep=torch.tensor([500]), encoder_hidden_states=torch.randn(1, 512, text, dtype=dtype))


def ltx(tiny, layers=None):
    from diffusers import LTXVideoTransformer3DModel

    sizes, grid = {}, dict(num_frames=7, height=16, width=24)
    if tiny:
        sizes = dict(in_channels=8, out_channels=8, num_attention_heads=2, attention_head_dim=12, cross_attention_dim=24,
                     num_layers=2, caption_channels=16)
        grid = dict(num_frames=2, height=2, width=3)
    model = LTXVideoTransformer3DModel(**sizes | ({} if layers is None else {"num_layers": layers}))
    tokens, config = grid["num_frames"] * grid["height"] * grid["width"], model.config
    return model, lambda dtype: dict(hidden_states=torch.randn(2, tokens, config.in_channels, dtype=dtype),
                                     encoder_hidden_states=torch.randn(2, 128, config.caption_channels, dtype=dtype),
                                     timestep=torch.tensor([500, 500]), encoder_attention_mask=torch.ones(2, 128), **grid)


def llama(tiny):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = dict(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                 num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0)
    if tiny:
        sizes |= dict(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                      num_key_value_heads=2)
    tokens = 64 if tiny else 4096
    return LlamaForCausalLM(LlamaConfig(**sizes)), lambda dtype: dict(input_ids=torch.arange(tokens)[None] % sizes["vocab_size"])


def as_published(model):
    """Keeps in float32 the parameters that diffusers' from_pretrained keeps in float32."""
    kept = set(getattr(model, "_keep_in_fp32_modules", None) or ())
    for name, parameter in model.named_parameters():
        if kept & set(name.split(".")):
            parameter.data = parameter.data.float()
    return model.eval()


def variant(model, name):
    """Returns a copy of the model changed as this variant says."""
    model = copy.deepcopy(model)
    if name in PARTS:
        from tachyscope import _optimize

        _optimize.run(model, "aggressive", PARTS[name])
        return model
    level = next((level for level in ("safe", "aggressive", "extreme") if level in name), None)
    if level:
        report = tachyscope.optimize(model, level, verbose=False)
        print(f"{name}: {len(report.replaced)} modules replaced, {len(report.left)} left", flush=True)
    if "compiled" in name:
        model.compile_repeated_blocks(fullgraph=True)
    return model


def milliseconds(call, device):
    if device == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1000


class Overdue(BaseException):
    """A time limit was exceeded. This is not an Exception, which torch would take for an error in the code that it compiles."""


def first_call(call, limit):
    """Returns the call's result and its seconds. A compilation that takes longer than the limit is ended by a signal, because nothing else can end it."""
    def end(*_):
        raise Overdue

    before, begin = signal.signal(signal.SIGALRM, end), time.perf_counter()
    signal.setitimer(signal.ITIMER_REAL, limit, 1)  # repeated, because an exception that is raised in a destructor is ignored
    try:
        result = call()
        result.float().norm().item()  # waits for the device
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return result, time.perf_counter() - begin


def first_calls(calls, options):
    """Returns {name: (distance of the result from eager's, seconds)} for the variants whose first call succeeds."""
    found, theirs = {}, None
    for name, call in calls.items():
        try:
            result, seconds = first_call(call, options.compile_seconds if "compiled" in name else 600)
        except (Overdue, Exception) as error:
            if "compiled" not in name:
                raise
            print(f"{name} is left out: {type(error).__name__} {str(error).splitlines()[:1]}", flush=True)
            torch.compiler.reset()
            continue
        theirs = result if theirs is None else theirs
        found[name] = distance(result, theirs), seconds
    return found


def in_turns(calls, options):
    """Runs the calls alternating; returns {name: median of the rounds}."""
    for call in calls.values():
        call()
    times = {name: [] for name in calls}
    for _ in range(options.rounds):
        for name, call in calls.items():
            times[name].append(milliseconds(call, options.device))
    return {name: sorted(t)[len(t) // 2] for name, t in times.items()}


def print_kernels(name, call, rows=24):
    """Prints the GPU work of one call by kernel, and the time from the first kernel's start to the last one's end."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        call()
        torch.cuda.synchronize()
    spans = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    total = {}
    for span in spans:
        ms, count = total.get(span.name, (0, 0))
        total[span.name] = ms + span.time_range.elapsed_us() / 1000, count + 1
    whole = (max(s.time_range.end for s in spans) - min(s.time_range.start for s in spans)) / 1000
    print(f"\n{name}: {sum(ms for ms, _ in total.values()):.2f} ms of kernels in {whole:.2f} ms")
    for kernel, (ms, count) in sorted(total.items(), key=lambda item: -item[1][0])[:rows]:
        print(f"{ms:10.3f} ms{count:6}  {kernel[:150]}", flush=True)


def decoding(model, tokens, count=32):
    """Makes one token after the other following `tokens`; the cache is cut back before each round, so that all rounds are alike."""
    with torch.no_grad():
        cache = model(tokens, use_cache=True).past_key_values
    behind = tokens.shape[1]

    def call():
        if cache.get_seq_length() > behind:
            cache.crop(behind - cache.get_seq_length())  # a negative number removes that many tokens
        token = tokens[:, -1:]
        for _ in range(count):
            token = model(token, past_key_values=cache, use_cache=True).logits[:, -1:].argmax(-1)

    return call


def distance(one, other):
    return ((one.float() - other.float()).norm() / other.float().norm()).item()


@torch.no_grad()
def measure(name, options, records):
    torch.manual_seed(0)
    dtype = torch.float32 if options.tiny and options.device == "cpu" else torch.bfloat16
    make = {"wan": wan, "ltx": ltx, "llama": llama}[name]
    torch.set_default_dtype(dtype)
    with torch.device(options.device):
        model, inputs = make(options.tiny)
        model, given = as_published(model), inputs(dtype)
    torch.set_default_dtype(torch.float32)
    names = [v for v in VARIANTS if "compiled" not in v] if name == "llama" or options.no_compile else VARIANTS
    if options.parts and name == "wan":
        names = ["eager", *PARTS, *names[1:]]
    if options.variants:
        names = [v for v in names if v in options.variants]
    models = {v: variant(model, v) for v in names}

    def first_of(v):
        result = models[v](**given, **({"use_cache": False} if name == "llama" else {"return_dict": False}))
        return result.logits if name == "llama" else result[0]

    forward = {v: lambda v=v: first_of(v) for v in names}
    found = first_calls(forward, options)
    tables = {"forward": {v: forward[v] for v in found}}
    if options.kernels:
        for v in found:
            print_kernels(f"{name}, {v}", forward[v])
    if name == "llama":
        tables["32 tokens"] = {v: decoding(models[v], given["input_ids"]) for v in found}
    for what, calls in tables.items():
        times = in_turns(calls, options)
        print(f"\n{name}, {what}, {str(dtype)[6:]}: ms, times as fast as eager, distance of the result from eager's, seconds of the first call")
        for v, ms in times.items():
            apart, seconds = found[v]
            print(f"{v:24}{ms:10.2f}{times.get('eager', ms) / ms:8.3f}x{apart:12.1e}{seconds:8.1f}", flush=True)
            records.append({"model": name, "what": what, "variant": v, "ms": ms, "ratio": times.get("eager", ms) / ms, "apart": apart,
                            "first_call_s": seconds})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].replace("\n", " "))
    parser.add_argument("--model", nargs="+", default=["wan", "ltx", "llama"], choices=["wan", "ltx", "llama"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--compile-seconds", type=int, default=60, help="of the first call of a compiled variant at most")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, help="only these: a variant alone finds the GPU as cool as another program would")
    parser.add_argument("--parts", action="store_true", help="for Wan also norms, activations, attention and blocks, each alone")
    parser.add_argument("--kernels", action="store_true", help="print each variant's kernels of one forward pass (on a GPU)")
    parser.add_argument("--tiny", action="store_true", help="models of a few parameters, to try the script")
    parser.add_argument("--json", help="write the figures to this file as well")
    options = parser.parse_args()
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{machine}, torch {torch.__version__}")
    records, failed = [], []
    for name in options.model:
        begin = time.perf_counter()
        try:
            measure(name, options, records)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        torch.compiler.reset()
        gc.collect()  # a module and our replacement of its forward refer to each other
        print(f"{name}: {time.perf_counter() - begin:.0f} s in all", flush=True)
        if options.json:
            with open(options.json, "w") as file:
                json.dump({"machine": machine, "torch": torch.__version__, "times": records}, file, indent=1)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
