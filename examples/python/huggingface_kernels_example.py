"""Uses the package as a kernel for Hugging Face's `kernels` (0.17): tools/make_hub_kernel lays it out in a folder, get_local_kernel loads it, and
kernelize puts it into a LLaMA.

    pip install kernels==0.17.2
    python huggingface_kernels_example.py --tiny        # a small random LLaMA on a CPU
    python huggingface_kernels_example.py --model FOLDER --device cpu

A kernel registers its operations with torch under a name of its own, so the package could be imported beside it.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import torch

import common

MAKE_HUB_KERNEL = pathlib.Path(__file__).resolve().parents[2] / "tools/make_hub_kernel"


def load_model(args):
    if not args.tiny:
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(args.model, dtype=common.DTYPES[args.dtype]).to(args.device).eval()
    from transformers import LlamaConfig, LlamaForCausalLM

    args.tokens, args.repeats = 16, 2
    config = LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2)
    return LlamaForCausalLM(config).to(args.device, common.DTYPES[args.dtype]).eval()


@torch.no_grad()
def measure(name, model, tokens, args, records):
    times = []
    for _ in range(args.repeats + 2):
        start = time.perf_counter()
        logits = model(tokens, use_cache=False).logits
        times.append(time.perf_counter() - start)
    best = min(times[2:])
    print(f"{name}: {best * 1000:.2f} ms for {tokens.shape[1]} tokens, {1 / best:.2f} it/s")
    records.append({"name": name, "seconds": best, "iterations_per_second": 1 / best})
    return logits


class Layer:
    """Tells kernelize where to find a layer. `kernels` has LocalLayerRepository for this, which asks for the GPU's
    variant whenever torch was built with CUDA."""

    def __init__(self, kernel, layer_name):
        self.kernel, self.layer_name = kernel, layer_name

    def load(self):
        return getattr(self.kernel.layers, self.layer_name)


def put_in(model, kernel):
    """Maps every norm with LLaMA's code to the kernel's layer. transformers marks its classes only for the versions of
    `kernels` that it knows (5.23: from 0.18.2), so the class is marked here if it did not."""
    from kernels import Mode, kernelize, replace_kernel_forward_from_hub, use_kernel_mapping
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    if not hasattr(LlamaRMSNorm, "kernel_layer_name"):
        replace_kernel_forward_from_hub(LlamaRMSNorm, "RMSNorm")
    with use_kernel_mapping({"RMSNorm": {"cpu": Layer(kernel, "LlamaRMSNorm")}}, inherit_mapping=False):
        kernelize(model, mode=Mode.INFERENCE, device="cpu")
    return [name for name, module in model.named_modules() if isinstance(module, LlamaRMSNorm) and "forward" in module.__dict__]


def main():
    parser = common.options(__doc__.splitlines()[0], video=False)
    parser.set_defaults(device="cpu")
    parser.add_argument("--model", default="meta-llama/Llama-3.2-1B", help="a folder or a name on the hub, of LLaMA's kind")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    args = common.parse(parser)
    if args.device != "cpu":
        parser.error("--device: this example lays out the kernel for the CPU")
    from kernels import get_local_kernel

    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.executable, MAKE_HUB_KERNEL, name], check=True)
        kernel = get_local_kernel(pathlib.Path(name), backend="cpu")
        x, weight = torch.randn(4, 64), torch.randn(64)
        error = common.difference(torch.nn.functional.rms_norm(x.double(), (64,), weight.double(), 1e-6),
                                  kernel.rms_norm(x, weight, 1e-6))
        print(f"{kernel.__name__} loaded; its rms_norm differs from torch's in float64 by {error:.1e}")

        model, records = load_model(args), []
        tokens = torch.randint(3, model.config.vocab_size, (1, args.tokens))
        before = measure("plain", model, tokens, args, records)
        replaced = put_in(model, kernel)
        print(f"kernelize replaced {len(replaced)} norms: {', '.join(replaced[:3])} …")
        after = measure("with the kernel", model, tokens, args, records)
        difference = common.difference(before, after)
        print(f"{records[0]['seconds'] / records[1]['seconds']:.3f}x as fast; the logits differ by {difference:.2e}")
        common.write(args, records, replaced=len(replaced), difference=difference, error=error)


if __name__ == "__main__":
    main()
