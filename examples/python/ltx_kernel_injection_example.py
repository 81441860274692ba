"""LTX-Video of diffusers with Tachyscope's kernels: runs the same seed before and after, and shows both speeds and how
far the latents differ.

    python ltx_kernel_injection_example.py                  # downloads Lightricks/LTX-Video
    python ltx_kernel_injection_example.py --tiny           # a small random model, in seconds on a CPU
    python ltx_kernel_injection_example.py --by-hand        # only the norms, put in by the functions below
"""

import types

import torch
from diffusers.models.normalization import RMSNorm

import common
import tachyscope
from tachyscope import ops


def inject_rms_norms(model, level):
    """Shows how to put a kernel into a model by hand, where `tachyscope.optimize` has no rule. Three things are easy to
    miss:

        - diffusers' RMSNorms have no weight in LTX-Video's blocks; if there is one it is read when the module is called, since
          offloading moves it. The norms of queries and keys are torch.nn.RMSNorm and stay as they are here.
        - diffusers rounds the normalised values before it multiplies by the weight; `round_twice` does the same.
        - A module keeps its class: only `forward` of this one object changes, and `del module.forward` undoes it."""

    def forward(self, x):
        if self.weight is not None and self.weight.dtype != x.dtype:
            return RMSNorm.forward(self, x)
        return ops.rms_norm(x, self.weight, self.eps, round_twice=level == "safe")

    count = 0
    for module in model.modules():
        if type(module) is RMSNorm and module.bias is None:
            module.forward = types.MethodType(forward, module)
            count += 1
    return count


def eject_rms_norms(model):
    for module in model.modules():
        if type(module) is RMSNorm and "forward" in module.__dict__:
            del module.forward


def show(model):
    """Shows the transformer's parts, as far as they matter for the kernels."""
    norms = [module for module in model.modules() if type(module) is RMSNorm]
    plain = sum(module.weight is None for module in norms)
    print(f"{type(model).__name__}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters, "
          f"{len(norms)} RMSNorms of diffusers, {plain} of them without a weight")


def main():
    parser = common.options(__doc__.splitlines()[0])
    parser.add_argument("--model", default="Lightricks/LTX-Video", help="a folder or a name on the hub")
    parser.add_argument("--by-hand", action="store_true", help="replaces the RMSNorms alone")
    args = common.parse(parser)
    pipe, prompt = common.load(args, common.tiny_ltx)
    show(pipe.transformer)

    records = []
    before = common.measure("plain", pipe, prompt, args, records)
    if args.by_hand:
        replaced = inject_rms_norms(pipe.transformer, args.level)
        print(f"{replaced} RMSNorms replaced")
    else:
        report = tachyscope.optimize(pipe.transformer, args.level)
        replaced = len(report.replaced)
    after = common.measure("with kernels", pipe, prompt, args, records)

    difference = common.difference(before, after)
    ratio = records[0]["seconds_per_step"] / records[1]["seconds_per_step"]
    print(f"{ratio:.3f}x as fast; the latents differ by {difference:.2e}")

    if args.by_hand:
        eject_rms_norms(pipe.transformer)
    else:
        tachyscope.restore(pipe.transformer)
    again, _ = common.generate(pipe, prompt, args)
    restored = torch.equal(again, before)
    print("restored: the same bits as before" if restored else "after restoring, the latents differ from before")
    common.write(args, records, replaced=replaced, difference=difference, ratio=ratio, restored=restored)


if __name__ == "__main__":
    main()
