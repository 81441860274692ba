"""Gradients where the saved tensors are not simply at hand: gradient checkpointing of both kinds, activations kept elsewhere, and a second
derivative. Each autograd function of the package is tested, and models of diffusers as they are fine-tuned."""

import re

import pytest
import torch
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import small_models
import tachyscope
from head_cases import CASES
from tachyscope.compat import wan_kernels
from test_gradients import leaves, public_call

EVERY = pytest.mark.parametrize("case", [case for case in CASES if case.grads], ids=lambda case: case.name)


class _ReadOnce(saved_tensors_hooks):
    """Lets every saved tensor be read back once, as with activations that are freed when they come back from a disk."""

    def __init__(self):
        def unpack(box):
            assert box, "a saved tensor was read twice"
            return box.pop()

        super().__init__(lambda t: [t.detach().clone()], unpack)


def plainly(call, *tensors):
    return call(*tensors)


def with_hooks(hooks):
    def way(call, *tensors):
        with hooks():
            return call(*tensors)

    return way


WAYS = {
    "reentrant": lambda call, *tensors: checkpoint(call, *tensors, use_reentrant=True),
    "non-reentrant": lambda call, *tensors: checkpoint(call, *tensors, use_reentrant=False),
    "on the CPU": with_hooks(save_on_cpu),
    "read once": with_hooks(_ReadOnce),
}


def gradients(call, given, names, way):
    results = way(call, *given)
    results = results if isinstance(results, tuple) else (results,)
    sum((r.float() * torch.linspace(-1, 1, r.numel()).view(r.shape)).sum() for r in results).backward()
    return [t.grad for t, name in zip(given, names) if t.requires_grad]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("called", ["function", "public op"])
@EVERY
def test_every_op(case, called, way):
    names = list(case.inputs)

    def call(*tensors):
        given = dict(zip(names, tensors))
        return case.ours(**given) if called == "function" else public_call(case, given)

    expected = gradients(call, list(leaves(case, torch.float32).values()), names, plainly)
    got = gradients(call, list(leaves(case, torch.float32).values()), names, WAYS[way])
    for a, b in zip(got, expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("way", WAYS)
def test_swiglu_function(way):
    given = [torch.randn(3, 7).requires_grad_() for _ in range(2)]
    again = [t.detach().clone().requires_grad_() for t in given]
    call = wan_kernels.FusedSwiGLUFunction.apply
    expected = gradients(call, given, "gu", plainly)
    for a, b in zip(gradients(call, again, "gu", WAYS[way]), expected, strict=True):
        assert torch.equal(a, b)


# The gradients of these are made of operations that have gradients themselves.
DIFFERENTIABLE = ("rope", "lora")
REFUSED = r"_backward.*(has no gradient|not implemented)"


def second(call, given, wanted, i):
    """Returns the derivatives of |gradient i|² by all inputs."""
    results = call(**given)
    results = results if isinstance(results, tuple) else (results,)
    inputs = [given[name] for name in wanted]
    gradient = torch.autograd.grad(sum(r.pow(3).sum() for r in results), inputs, create_graph=True)[i]
    return torch.autograd.grad(gradient.square().sum(), inputs, materialize_grads=True, allow_unused=True)


@pytest.mark.parametrize("called", ["function", "public op"])
@EVERY
def test_second_derivatives(case, called):
    """They are right, or they are refused by a text that names the op."""
    def ours(**given):
        results = case.ours(**given) if called == "function" else public_call(case, given)
        return results[0] if case.op == "attention_lse" and called == "public op" else results

    refused = 0
    for i in range(len(case.grads)):
        try:
            got = second(ours, leaves(case, torch.float32), case.grads, i)
        except (NotImplementedError, RuntimeError) as error:
            assert re.search(REFUSED, str(error)), error
            refused += 1
            continue
        for a, b in zip(got, second(case.theirs, leaves(case, torch.float32), case.grads, i), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * max(1.0, b.abs().max().item()))
    products = case.op == "linear" and not re.search("gelu|silu|mish", case.name)  # torch's, without an activation of ours
    sum_alone = case.op == "gated_residual" and "gate" not in case.inputs
    assert refused == 0 if products or sum_alone or case.op.startswith(DIFFERENTIABLE) else refused > 0


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("level", ["safe", "aggressive"])
@pytest.mark.parametrize("name", ["LTX-Video", "Wan", "FLUX", "SD3"])
def test_fine_tuning(name, level, reentrant):
    """The gradients of a model with checkpointed blocks are those without checkpoints, and near those of its own code."""
    model, inputs = small_models.make(name)
    inputs = {key: t.requires_grad_() if key == "hidden_states" else t for key, t in inputs.items()}
    model.train()

    def run():
        model.zero_grad()
        model(**inputs).sample.square().mean().backward()
        return {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}

    own = run()
    tachyscope.optimize(model, level, verbose=False)
    ours = run()
    model.enable_gradient_checkpointing(lambda call, *args: checkpoint(call, *args, use_reentrant=reentrant))
    again = run()
    assert own.keys() == ours.keys() == again.keys()
    for key, gradient in own.items():
        # A reentrant checkpoint adds up the gradients of what several blocks read in another order.
        same = (ours[key] - again[key]).abs().max() <= 3e-5 * ours[key].abs().max() if reentrant else torch.equal(ours[key], again[key])
        assert same, key
        assert (ours[key] - gradient).abs().max() <= 3e-4 * max(gradient.abs().max(), 1e-3), key
