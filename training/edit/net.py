"""The networks of models/sprites under the names that diffusers and transformers give their parameters, with VACE's control blocks beside the
transformer. ../dit.py runs them, so the training machine needs neither diffusers nor transformers.

    Text(folder)       the text encoder, for dit.context
    Edit(folder)       the transformer; `hints(control)` is what dit.denoise takes, and `save` writes the folder of diffusers'
                       WanVACETransformer3DModel in two files, of which only the control blocks' is new

`python3 net.py` compares Edit with diffusers in float32."""
import json
import os
import sys
from types import SimpleNamespace

import torch
from safetensors.torch import load_file, save_file
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import dit  # noqa: E402
from layers import Rms  # noqa: E402

MODEL = os.path.join(HERE, "..", "..", "models", "sprites")
LAYERS, CHANNELS = (0, 2), 96  # the blocks after which the two control blocks add; kept 16, changed 16, mask 64
CONFIG, INDEX, WEIGHTS = "config.json", "diffusion_pytorch_model.safetensors.index.json", "diffusion_pytorch_model.safetensors"
SHARDS = [f"diffusion_pytorch_model-0000{i}-of-00002.safetensors" for i in (1, 2)]  # the plain model's, the control blocks'


# ------------------------------------------------------------------------------------------- text encoder
class TextBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, inner, flat = c["d_model"], c["num_heads"] * c["d_kv"], dict(bias=False)
        norm = lambda: SimpleNorm(d, c["layer_norm_epsilon"])
        attention, dense = nn.Module(), nn.Module()
        attention.SelfAttention, attention.layer_norm = nn.Module(), norm()
        for name in "qkv":
            setattr(attention.SelfAttention, name, nn.Linear(d, inner, **flat))
        attention.SelfAttention.o = nn.Linear(inner, d, **flat)
        attention.SelfAttention.relative_attention_bias = nn.Embedding(c["relative_attention_num_buckets"], c["num_heads"])
        dense.DenseReluDense, dense.layer_norm = nn.Module(), norm()
        for name, a, b in (("wi_0", d, c["d_ff"]), ("wi_1", d, c["d_ff"]), ("wo", c["d_ff"], d)):
            setattr(dense.DenseReluDense, name, nn.Linear(a, b, **flat))
        self.layer = nn.ModuleList([attention, dense])


class SimpleNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(width)), eps


class Text(nn.Module):
    def __init__(self, folder):
        super().__init__()
        with open(os.path.join(folder, CONFIG)) as f:
            c = json.load(f)
        self.config = SimpleNamespace(num_heads=c["num_heads"], d_kv=c["d_kv"])
        self.shared, self.encoder = nn.Embedding(c["vocab_size"], c["d_model"]), nn.Module()
        self.encoder.block = nn.ModuleList(TextBlock(c) for _ in range(c["num_layers"]))
        self.encoder.final_layer_norm = SimpleNorm(c["d_model"], c["layer_norm_epsilon"])
        self.load_state_dict({k: v.float() for k, v in load_file(os.path.join(folder, "model.safetensors")).items()})
        self.requires_grad_(False)

    def get_input_embeddings(self):
        return self.shared


# ------------------------------------------------------------------------------------------- transformer
class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.norm_q, self.norm_k = heads, Rms(d), Rms(d)
        self.to_q, self.to_k, self.to_v = (nn.Linear(d, d) for _ in range(3))
        self.to_out = nn.ModuleList([nn.Linear(d, d)])


class Gelu(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.proj = nn.Linear(a, b)

    def forward(self, x):
        return nn.functional.gelu(self.proj(x), approximate="tanh")


class Block(nn.Module):
    """A block of the transformer; with `control` one of VACE's, the first of which has `proj_in`."""

    def __init__(self, d, heads, ffn, control=False, first=False):
        super().__init__()
        self.attn1, self.attn2, self.norm2 = Attention(d, heads), Attention(d, heads), nn.LayerNorm(d, eps=1e-6)
        self.ffn = nn.Module()
        self.ffn.net = nn.ModuleList([Gelu(d, ffn), nn.Identity(), nn.Linear(ffn, d)])
        self.scale_shift_table = nn.Parameter(torch.randn(1, 6, d) / d**0.5)
        if first:
            self.proj_in = nn.Linear(d, d)
        if control:
            self.proj_out = nn.Linear(d, d)


def pair(a, b, d):
    m = nn.Module()
    m.linear_1, m.linear_2 = nn.Linear(a, d), nn.Linear(b, d)
    return m


class Edit(nn.Module):
    def __init__(self, folder=None, branch=None):
        """folder: a diffusers folder of the plain model's transformer. branch: control blocks to go on with; without them those begin as copies of
        the blocks beside which they stand, and add nothing."""
        super().__init__()
        folder = folder or os.path.join(MODEL, "transformer")
        with open(os.path.join(folder, CONFIG)) as f:
            c = self.plain_config = json.load(f)
        heads, ffn = c["num_attention_heads"], c["ffn_dim"]
        d = heads * c["attention_head_dim"]
        conv = lambda channels: nn.Conv3d(channels, d, (1, 2, 2), (1, 2, 2))
        self.patch_embedding, self.condition_embedder = conv(c["in_channels"]), nn.Module()
        e = self.condition_embedder
        e.time_embedder, e.time_proj, e.text_embedder = pair(c["freq_dim"], d, d), nn.Linear(d, 6 * d), pair(c["text_dim"], d, d)
        self.blocks = nn.ModuleList(Block(d, heads, ffn) for _ in range(c["num_layers"]))
        self.proj_out = nn.Linear(d, 4 * c["out_channels"])
        self.scale_shift_table = nn.Parameter(torch.randn(1, 2, d) / d**0.5)
        self.load_state_dict({k: v.float() for k, v in load_file(os.path.join(folder, WEIGHTS)).items()})
        self.requires_grad_(False)
        self.vace_patch_embedding = conv(CHANNELS)
        self.vace_blocks = nn.ModuleList(Block(d, heads, ffn, True, i == 0) for i in range(len(LAYERS)))
        if branch:
            missing = self.load_state_dict({k: v.float() for k, v in load_file(branch).items()}, strict=False)
            assert not missing.unexpected_keys and not any(k.startswith("vace") for k in missing.missing_keys), missing
            return
        with torch.no_grad():
            for block, layer in zip(self.vace_blocks, LAYERS):
                block.load_state_dict(self.blocks[layer].state_dict(), strict=False)
                block.proj_out.weight.zero_()
                block.proj_out.bias.zero_()

    def branch(self):
        """Returns the modules that are trained."""
        return [self.vace_patch_embedding, self.vace_blocks]

    def rope(self, x):
        """Returns cosines and sines, [1, tokens, 1, 128] each, of latents x [B, C, T, H, W]."""
        f, hh, ww = x.shape[2], x.shape[3] // 2, x.shape[4] // 2
        angles = []
        for n, width, shape in ((f, 44, (f, 1, 1)), (hh, 42, (1, hh, 1)), (ww, 42, (1, 1, ww))):
            freq = 10000.0 ** (-torch.arange(0, width, 2, device=x.device, dtype=torch.float32) / width)
            a = (torch.arange(n, device=x.device, dtype=torch.float32)[:, None] * freq).repeat_interleave(2, 1)
            angles.append(a.view(*shape, width).expand(f, hh, ww, width))
        a = torch.cat(angles, -1).reshape(1, f * hh * ww, 1, 128)
        return a.cos(), a.sin()

    def hints(self, control):
        """Returns what dit.denoise adds for control latents [B, 96, T, H, W], as WanVACETransformer3DModel does with scales of one."""
        def values(h, ctx, bias, mod, rope):
            c, added = dit.patched(self.vace_patch_embedding, control), {}
            for block, layer in zip(self.vace_blocks, LAYERS):
                if hasattr(block, "proj_in"):
                    c = block.proj_in(c).float() + h
                c = dit._block(block, c, ctx, bias, mod, rope)
                added[layer] = block.proj_out(c).float()
            return added
        return values


def denoise(model, x, t, rows, bias, control):
    return dit.denoise(model, x, t, rows, bias, hints=model.hints(control))


def write(path, text):
    with open(path + ".part", "w") as f:
        f.write(text + "\n")
    os.replace(path + ".part", path)


def save(model, branch, folder, plain=None):
    """Writes diffusers' folder. branch: the trained modules as `branch()` returns them, for instance averaged. plain: what the first file is a link
    to; without it only what is new is written."""
    os.makedirs(folder, exist_ok=True)
    tensors = {f"{name}.{k}": v.detach().to("cpu", torch.bfloat16).contiguous()
               for name, part in zip(("vace_patch_embedding", "vace_blocks"), branch) for k, v in part.state_dict().items()}
    path = os.path.join(folder, SHARDS[1])
    save_file(tensors, path + ".part", {"format": "pt"})
    os.chmod(path + ".part", 0o644)
    os.replace(path + ".part", path)
    old = [k for k in model.state_dict() if not k.startswith("vace_")]
    sizes = sum(2 * model.state_dict()[k].numel() for k in old) + sum(2 * v.numel() for v in tensors.values())
    names = {k: SHARDS[0] for k in old} | {k: SHARDS[1] for k in tensors}
    write(os.path.join(folder, INDEX), json.dumps({"metadata": {"total_size": sizes}, "weight_map": dict(sorted(names.items()))}, indent=1))
    config = {k: v for k, v in model.plain_config.items() if k != "_class_name"}
    write(os.path.join(folder, CONFIG), json.dumps({"_class_name": "WanVACETransformer3DModel", **config, "vace_in_channels": CHANNELS,
                                                    "vace_layers": list(LAYERS)}, indent=2))
    if plain:
        link = os.path.join(folder, SHARDS[0])
        if not os.path.lexists(link):
            os.symlink(os.path.relpath(os.path.realpath(plain), os.path.realpath(folder)), link)


def check():
    import tempfile

    from diffusers import WanVACETransformer3DModel
    from transformers import UMT5EncoderModel
    torch.manual_seed(0)
    model, text = Edit().eval(), Text(os.path.join(MODEL, "text_encoder"))
    with torch.no_grad():
        for p in model.vace_blocks.parameters():
            if p.abs().max() == 0:
                torch.nn.init.normal_(p, std=0.05)
        for part in model.branch():
            for p in part.parameters():
                p.copy_(p.bfloat16().float())
    with tempfile.TemporaryDirectory() as folder:
        save(model, model.branch(), folder, os.path.join(MODEL, "transformer", WEIGHTS))
        theirs = WanVACETransformer3DModel.from_pretrained(folder, torch_dtype=torch.float32)
    te = UMT5EncoderModel.from_pretrained(os.path.join(MODEL, "text_encoder"), dtype=torch.float32).eval()
    ids = torch.zeros(2, dit.MAX_TOKENS, dtype=torch.long)
    ids[0, :5], ids[1, :30] = torch.tensor([9, 8, 7, 6, 1]), torch.randint(3, 900, (30,))
    x, t, control = torch.randn(2, 16, 3, 8, 12), torch.tensor([999.0, 123.0]), torch.randn(2, CHANNELS, 3, 8, 12)
    with torch.no_grad():
        full = nn.functional.pad(ids, (0, dit.CONTEXT - dit.MAX_TOKENS))
        states = te(full, (full != 0).long()).last_hidden_state * (full != 0)[..., None]
        want = theirs(x, t, states, control_hidden_states=control, return_dict=False)[0]
        rows, bias = dit.context(text, ids)
        e1 = float((rows[:, :-1] - states[:, :dit.MAX_TOKENS]).abs().max() / states.abs().max())
        e2 = float((denoise(model, x, t, rows, bias, control) - want).abs().max() / want.abs().max())
        plain = float((dit.denoise(model, x, t, rows, bias) - want).abs().max() / want.abs().max())
    print(f"text encoder {e1:.1e}, denoiser {e2:.1e}; the control changes {plain:.1e}")
    assert e1 < 1e-5 and e2 < 1e-4 < plain


if __name__ == "__main__":
    check()
