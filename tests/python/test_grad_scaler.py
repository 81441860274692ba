"""Training in mixed precision with torch.amp.GradScaler, with our kernels and without: the same scales, the same skipped steps, and losses as near as
one rounding leaves them. On a GPU the region is in float16; on a CPU, where torch has both, also in bfloat16.

The blocks of an optimized model, the VAE and the functions of `ops` compute inside of autocast."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import small_models
import tachyscope
from conftest import DEVICE
from tachyscope import ops
from test_optimize import CountedCalls

REGIONS = [torch.float16] + [torch.bfloat16] * (DEVICE == "cpu")
STEPS, BROKEN = 8, 5


def of_diffusers(name):
    def make(ours):
        model, inputs = small_models.make(name)
        if ours:
            assert tachyscope.optimize(model, "aggressive", verbose=False).replaced
        x, target = inputs.pop("hidden_states"), torch.randn((1, 4, 2, 6, 6) if name == "Wan" else (1, 12, 4))
        return model, x, lambda x: F.mse_loss(model(hidden_states=x, **inputs).sample.float(), target)

    return make


def vae(ours):
    model = tachyscope.vae.WanVAE(4, 4, blocks=1, kernels=ours).to_channels_last()
    x, noise = torch.rand(1, 3, 16, 16) * 2 - 1, torch.randn(1, 4, 2, 2)  # a picture; convolutions in float16 are slow on a CPU

    def loss(given):
        reconstruction, kl = model(given, return_loss=True, noise=noise)
        return (reconstruction - x).abs().mean() + 1e-3 * kl

    return model, x, loss


class Block(nn.Module):
    """A block of a transformer with an adapter, by our functions or by torch's."""

    def __init__(self, ours, size=64, heads=4, tokens=12):
        super().__init__()
        self.ours, self.heads = ours, heads
        self.qkv, self.up, self.down = nn.Linear(size, 3 * size), nn.Linear(size, 4 * size), nn.Linear(2 * size, size)
        self.q_norm, self.k_norm, self.modulation = (nn.Parameter(torch.randn(shape) * 0.1 + 1) for shape in (size, size, (4, size)))
        self.a, self.b = nn.Parameter(torch.randn(8, size) * 0.1), nn.Parameter(torch.randn(size, 8) * 0.1)
        angles = torch.outer(torch.arange(tokens).float(), 100.0 ** -torch.linspace(0, 1, size // heads // 2))
        self.cos, self.sin = angles.cos(), angles.sin()

    def turned(self, x, weight):
        x = F.rms_norm(x, x.shape[-1:], weight.to(x.dtype), 1e-6).unflatten(-1, (self.heads, -1, 2))
        a, b, cos, sin = *x.unbind(-1), self.cos[:, None], self.sin[:, None]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)

    def forward(self, x):
        scale, shift, scale2, shift2 = self.modulation
        if self.ours:
            q, k, v = self.qkv(ops.ada_layer_norm(x, scale, shift)).chunk(3, -1)
            q, k = ops.qk_norm_rope(q, k, self.q_norm, self.k_norm, self.cos, self.sin, self.heads)
            y = ops.attention(q, k, v.unflatten(-1, (self.heads, -1)), own_backward=True).flatten(2)
            y, x = ops.add_norm(x, y.to(x.dtype), norm="layer", scale=scale2, shift=shift2)
            return x + self.down(ops.swiglu(*self.up(y).chunk(2, -1))) + ops.lora(y, self.a, self.b, 0.5)
        q, k, v = self.qkv(F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift).chunk(3, -1)
        q, k = self.turned(q, self.q_norm), self.turned(k, self.k_norm)
        x = x + F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v.unflatten(-1, (self.heads, -1))))).transpose(1, 2).flatten(2)
        y = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale2) + shift2
        gate, up = self.up(y).chunk(2, -1)
        return x + self.down(F.silu(gate) * up) + 0.5 * F.linear(F.linear(y, self.a), self.b)


def functions(ours):
    model, x, target = Block(ours), torch.randn(2, 12, 64), torch.randn(2, 12, 64)
    return model, x, lambda x: F.mse_loss(model(x).float(), target)


MAKE = {"Wan": of_diffusers("Wan"), "LTX-Video": of_diffusers("LTX-Video"), "VAE": vae, "ops": functions}


class Run:
    """Trains for some steps and keeps losses, scales, and which steps changed a parameter. With a number as `nudge` each value of the input is one unit of
    its last place in the region's dtype off, up or down, as the number decides; at step `broken` the loss is made infinite."""

    def __init__(self, name, region, ours=False, nudge=None, broken=None, first_scale=2.0 ** 10, steps=STEPS):
        torch.manual_seed(0)
        self.model, x, loss_of = MAKE[name](ours)
        if nudge is not None:
            signs = torch.randn(x.shape, device=x.device, generator=torch.Generator(x.device).manual_seed(nudge)).sign()
            x = x * (1 + torch.finfo(region).eps * signs)
        self.model.train()
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler(DEVICE, init_scale=first_scale, backoff_factor=0.125, growth_interval=3)
        self.losses, self.scales, self.taken = [], [], []
        for step in range(steps):
            optimizer.zero_grad()
            with torch.autocast(DEVICE, dtype=region):
                loss = loss_of(x)
            scaler.scale(loss * float("inf") if step == broken else loss).backward()
            before = [p.detach().clone() for p in self.model.parameters()]
            scaler.step(optimizer)
            scaler.update()
            self.losses.append(loss.item())
            self.taken.append(any(not torch.equal(p, old) for p, old in zip(self.model.parameters(), before)))
            self.scales.append(scaler.get_scale())


def most_apart(one, other):
    return max(abs(a - b) for a, b in zip(one.losses, other.losses, strict=True))


@pytest.mark.parametrize("region", REGIONS, ids=str)
@pytest.mark.parametrize("name", MAKE)
def test_losses_and_a_skipped_step(name, region):
    """The step with infinite gradients changes nothing and lowers the scale. The losses are within twice what they differ by when each value of the
    input is rounded otherwise, in any of eight ways: the VAE's loss has the gradient of an absolute value, and half of such ways turn a sign in some
    step, after which losses differ twenty times as much. On some CPUs bfloat16 rounds all of its losses to torch's."""
    plain, ours = (Run(name, region, ours, broken=BROKEN) for ours in (False, True))
    nudged = [Run(name, region, nudge=way, broken=BROKEN) for way in range(8)]
    with CountedCalls() as calls:
        Run(name, region, ours=True, steps=1)
    assert calls.ops, "our kernels did not run"
    assert ours.scales == plain.scales and ours.taken == plain.taken == [step != BROKEN for step in range(STEPS)]
    assert ours.scales[BROKEN] == 0.125 * ours.scales[BROKEN - 1] and ours.scales[2] == 2.0 ** 11
    assert plain.losses[-1] < plain.losses[0]
    assert [p.grad is None for p in ours.model.parameters()] == [p.grad is None for p in plain.model.parameters()]
    apart, spread = most_apart(ours, plain), max(most_apart(run, plain) for run in nudged)
    print(f"{name} {region}: losses {plain.losses[0]:.4f} to {plain.losses[-1]:.4f}, apart {apart:.1e}, spread {spread:.1e}")
    assert 0 < spread < 0.1 and apart <= 2 * spread


def first_that_overflows(name):
    """Returns the exponent of the lowest power of two with which torch's gradients overflow in the first step."""
    finite, overflows = 4, 36
    while overflows - finite > 1:
        middle = (finite + overflows) // 2
        if Run(name, torch.float16, first_scale=2.0 ** middle, steps=1).taken[0]:
            finite = middle
        else:
            overflows = middle
    return overflows


@pytest.mark.parametrize("name", MAKE)
def test_a_scale_that_is_too_large(name):
    """Gradients that overflow float16 within the backward pass are found in the same steps, until the scale is low enough. The scales are those of 5
    steps that overflow, with a factor of two to spare, and of 3 that do not, with the same: the VAE's loss has the gradient of an absolute value, so one
    rounding that turns a sign changes sums by several percent."""
    first_scale = 2.0 ** (first_that_overflows(name) + 1 + 4 * 3)
    plain, ours = (Run(name, torch.float16, ours, first_scale=first_scale) for ours in (False, True))
    assert ours.scales == plain.scales and ours.taken == plain.taken == [False] * 5 + [True] * 3
