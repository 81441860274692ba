"""A language model of transformers with Tachyscope's kernels: prefill and decoding before and after, and the tokens of
both.

    python transformers_injection_example.py --model meta-llama/Llama-3.1-8B
    python transformers_injection_example.py --tiny         # a small random LLaMA, in seconds on a CPU
"""

import time
import types

import torch

import common
import tachyscope
from tachyscope import ops


def tiny_model():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(vocab_size=128, hidden_size=64, intermediate_size=96, num_hidden_layers=2, pad_token_id=0,
                                        num_attention_heads=4, num_key_value_heads=2, bos_token_id=1, eos_token_id=2))


def load(args):
    """Returns the model and the tokens of its prompt."""
    dtype = common.DTYPES[args.dtype]
    if args.tiny:
        args.prompt_tokens, args.new_tokens, args.repeats = 16, 8, 2
        model = tiny_model().to(args.device, dtype).eval()
    else:
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype).to(args.device).eval()
    tokens = torch.randint(3, model.config.vocab_size, (args.batch_size, args.prompt_tokens), device=args.device)
    return model, tokens


def seconds(function, args):
    """Returns the best time of some calls, after two that warm up."""
    best = float("inf")
    for i in range(args.repeats + 2):
        common.synchronize(args.device)
        start = time.perf_counter()
        function()
        common.synchronize(args.device)
        if i >= 2:
            best = min(best, time.perf_counter() - start)
    return best


@torch.no_grad()
def measure(name, model, tokens, args, records):
    prefill = seconds(lambda: model(tokens, use_cache=False), args)

    def decode():
        return model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=args.new_tokens,
                              min_new_tokens=args.new_tokens, do_sample=False)

    pace = args.new_tokens / seconds(decode, args)
    print(f"{name}: prefill of {tokens.shape[1]} tokens {prefill * 1000:.2f} ms, "
          f"generation with its prefill {pace:.1f} tokens/s")
    records.append({"name": name, "prefill_seconds": prefill, "tokens_per_second": pace})
    return decode(), model(tokens, use_cache=False).logits


def inject_by_hand(model):
    """Shows how to put a kernel into a model by hand: a forward for each module whose class has the parts that the
    kernel needs. transformers calls a norm's epsilon `variance_epsilon`; its norms round before the weight, so
    `round_twice`."""

    def forward(self, x):
        return ops.rms_norm(x, self.weight, self.variance_epsilon, round_twice=True)

    norms = [m for m in model.modules() if type(m).__name__.endswith("RMSNorm") and hasattr(m, "variance_epsilon")]
    for module in norms:
        module.forward = types.MethodType(forward, module)
    print(f"{len(norms)} norms replaced by hand")
    return len(norms)


def main():
    parser = common.options(__doc__.splitlines()[0], video=False)
    parser.add_argument("--model", default="meta-llama/Llama-3.1-8B", help="a folder or a name on the hub")
    parser.add_argument("--batch-size", type=common.count, default=1)
    parser.add_argument("--prompt-tokens", type=int, default=1024)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--by-hand", action="store_true", help="replaces LLaMA's norms alone, by the function above")
    args = common.parse(parser)
    model, prompt = load(args)

    records = []
    tokens, logits = measure("plain", model, prompt, args, records)
    if args.by_hand:
        replaced = inject_by_hand(model)
    else:
        replaced = len(tachyscope.optimize(model, args.level).replaced)
    our_tokens, our_logits = measure("with kernels", model, prompt, args, records)

    same = torch.equal(tokens, our_tokens)
    difference = common.difference(logits, our_logits)
    prefill = records[0]["prefill_seconds"] / records[1]["prefill_seconds"]
    decode = records[1]["tokens_per_second"] / records[0]["tokens_per_second"]
    print(f"prefill {prefill:.3f}x, generation {decode:.3f}x as fast; the logits differ by {difference:.2e}; "
          f"the greedy tokens are {'the same' if same else 'different'}")
    common.write(args, records, replaced=replaced, difference=difference, same_tokens=same)


if __name__ == "__main__":
    main()
