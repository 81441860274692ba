"""Linear layers of diffusers' Wan transformer in fp8, on any device: e4m3 codes with a scale for each row of the weight and of the
activations, and products of the codes in float32. The results are those of torch._scaled_mm by rows, but for the
order of its sums."""
import torch


def rounded(x):
    """Returns codes (as float32) and scales of x's rows."""
    wide = x.float()
    scale = (wide.abs().amax(-1, keepdim=True) / 448).clamp(min=2.0**-126)
    return (wide / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float(), scale


class Fp8Linear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        codes, scale = rounded(linear.weight.detach())
        self.codes, self.scale = codes, scale.flatten()  # not buffers, so that changing the model's dtype leaves them alone
        self.bias = linear.bias

    def forward(self, x):
        codes, scale = rounded(x)
        y = codes @ self.codes.t() * (scale * self.scale)
        return (y if self.bias is None else y + self.bias.float()).to(x.dtype)


def round_layers(model):
    """Rounds in place the layers that `--math fp8` rounds: q, k, v and the output of self-attention, q and the output of attention over the
    text, both of the feed-forward, in each block."""
    for block in model.blocks:
        for parent, name in [(block.attn1, "to_q"), (block.attn1, "to_k"), (block.attn1, "to_v"), (block.attn1.to_out, "0"),
                             (block.attn2, "to_q"), (block.attn2.to_out, "0"), (block.ffn.net[0], "proj"), (block.ffn.net, "2")]:
            setattr(parent, name, Fp8Linear(getattr(parent, name)))
