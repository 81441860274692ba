"""The networks of the talking-photo model, under the names of the original Wan and InfiniteTalk repositories.

    Denoiser     Wan 2.1 image-to-video with InfiniteTalk's audio branch: [noise 16 | mask 4 | photo 16] latents, text, CLIP, speech
    ears         transformers' Wav2Vec2Model at 25 Hz, its states 1 to the last
    eyes         transformers' CLIPVisionModel, its last state but one
    reader       transformers' UMT5EncoderModel, run by ../dit.py's encode_text

The forward passes are written for training: residuals in float32, products in autocast's dtype, the text's rows of padding as one key.
`python3 net.py` compares them with diffusers' transformer and with the audio branch in InfiniteTalk's description.
"""
import json
import math
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from layers import CLIP_MEAN, CLIP_STD, Head, ImageEmbedding, Rms, condition, waves

SIZE, LATENT, FPS = 128, 16, 25
WINDOW, MOTION = 33, 9                      # pixel frames of a window, and how many of them come from the one before
FRAMES, KEPT = (WINDOW - 1) // 4 + 1, (MOTION - 1) // 4 + 1  # the same in latent frames
RATE = 16000
WIDTH, HEADS, LAYERS, FFN, TEXT, IMAGE, FREQ = 256, 2, 6, 768, 128, 128, 256
SPEECH, STATES, HIDDEN, TOKENS = 128, 4, 192, 8              # the audio branch: width and states of the ears, width and tokens of the projection
CONTEXT = 512                                                # rows of text at inference, zero after the caption's


# ------------------------------------------------------------------------------------------- the denoiser
def heads(x):
    return x.unflatten(-1, (-1, 128)).transpose(-3, -2)


def plain(x):
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


class SelfAttention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.norm_q, self.norm_k = Rms(d), Rms(d)

    def forward(self, x, rope):
        q, k, v = self.norm_q(self.q(x)), self.norm_k(self.k(x)), self.v(x)
        q, k = (rotate(heads(t), *rope).to(v.dtype) for t in (q, k))
        return self.o(F.scaled_dot_product_attention(q, k, heads(v)).transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    """Attention of one query with two softmaxes, over the text and over the picture, whose results are added."""

    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v, self.o, self.k_img, self.v_img = (nn.Linear(d, d) for _ in range(6))
        self.norm_q, self.norm_k, self.norm_k_img = Rms(d), Rms(d), Rms(d)

    def forward(self, x, text, bias, picture):
        v, v_img = heads(self.v(text)), heads(self.v_img(picture))
        q = heads(self.norm_q(self.q(x))).to(v.dtype)
        k, k_img = heads(self.norm_k(self.k(text))).to(v.dtype), heads(self.norm_k_img(self.k_img(picture))).to(v.dtype)
        scores = (q @ k.transpose(2, 3)).float() / math.sqrt(128) + bias[:, None, None]
        y = scores.softmax(-1).to(v.dtype) @ v + F.scaled_dot_product_attention(q, k_img, v_img)
        return self.o(y.transpose(1, 2).flatten(2))


class AudioAttention(nn.Module):
    """Attention of each latent frame to its own tokens, without rope, gate, or norms of queries and keys."""

    def __init__(self, d, width):
        super().__init__()
        self.q_linear, self.kv_linear, self.proj = nn.Linear(d, d), nn.Linear(width, 2 * d), nn.Linear(d, d)

    def forward(self, x, tokens):
        b, t = tokens.shape[:2]
        q = heads(self.q_linear(x).unflatten(1, (t, -1)).flatten(0, 1))
        k, v = (heads(part) for part in self.kv_linear(tokens).flatten(0, 1).chunk(2, -1))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).unflatten(0, (b, t)).flatten(1, 2))


class Block(nn.Module):
    def __init__(self, d, ffn, speech):
        super().__init__()
        self.modulation = nn.Parameter(torch.randn(1, 6, d) / d**0.5)
        self.self_attn, self.cross_attn, self.audio_cross_attn = SelfAttention(d), CrossAttention(d), AudioAttention(d, speech)
        self.norm3, self.norm_x = nn.LayerNorm(d, 1e-6), nn.LayerNorm(d, 1e-6)
        self.ffn = nn.Sequential(nn.Linear(d, ffn), nn.GELU(approximate="tanh"), nn.Linear(ffn, d))

    def forward(self, h, mod, rope, text, bias, picture, speech):
        s1, c1, g1, s2, c2, g2 = (self.modulation + mod.float()).chunk(6, 1)
        h = h + self.self_attn(plain(h) * (1 + c1) + s1, rope).float() * g1
        h = h + self.cross_attn(self.norm3(h), text, bias, picture).float()
        h = h + self.audio_cross_attn(self.norm_x(h), speech).float()
        return h + self.ffn(plain(h) * (1 + c2) + s2).float() * g2


class AudioProj(nn.Module):
    def __init__(self, states, width, hidden, tokens):
        super().__init__()
        self.proj1, self.proj1_vf = nn.Linear(5 * states * width, hidden), nn.Linear(8 * states * width, hidden)
        self.proj2, self.proj3 = nn.Linear(hidden, hidden), nn.Linear(hidden, tokens * width)
        self.norm = nn.LayerNorm(width, 1e-5)
        self.tokens = tokens

    def forward(self, first, others):
        """first [B, 5·states·width], others [B, T - 1, 8·states·width] → [B, T, tokens, width]"""
        h = torch.relu(torch.cat([self.proj1(first)[:, None], self.proj1_vf(others)], 1))
        return self.norm(self.proj3(torch.relu(self.proj2(h))).unflatten(-1, (self.tokens, -1)))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        d = WIDTH
        self.patch_embedding = nn.Conv3d(36, d, (1, 2, 2), (1, 2, 2))
        self.text_embedding = nn.Sequential(nn.Linear(TEXT, d), nn.GELU(approximate="tanh"), nn.Linear(d, d))
        self.time_embedding = nn.Sequential(nn.Linear(FREQ, d), nn.SiLU(), nn.Linear(d, d))
        self.time_projection = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))
        self.img_emb = ImageEmbedding(IMAGE, d)
        self.blocks = nn.ModuleList(Block(d, FFN, SPEECH) for _ in range(LAYERS))
        self.head = Head(d, 16)
        self.audio_proj = AudioProj(STATES, SPEECH, HIDDEN, TOKENS)
        with torch.no_grad():
            for p in (*self.time_projection.parameters(), *self.head.head.parameters()):
                p.zero_()

    def forward(self, x, t, text, bias, picture, first, others):
        """Returns the velocity [B, 16, T, H, W] of x [B, 36, T, H, W] at times t [B] (0..1000). text [B, R, TEXT] with score biases [B, R],
        picture [B, 257, IMAGE], the speech rows of AudioProj."""
        b, _, f, hh, ww = x.shape
        rope = rope_of(f, hh // 2, ww // 2, x.device)
        patches = x.view(b, -1, f, hh // 2, 2, ww // 2, 2).permute(0, 2, 3, 5, 1, 4, 6).reshape(b, f * hh * ww // 4, -1)
        h = F.linear(patches, self.patch_embedding.weight.flatten(1), self.patch_embedding.bias).float()
        e = self.time_embedding(waves(t, FREQ)).float()
        mod = self.time_projection(e).unflatten(1, (6, -1))
        text, picture, speech = self.text_embedding(text), self.img_emb.proj(picture), self.audio_proj(first, others)
        for block in self.blocks:
            h = block(h, mod, rope, text, bias, picture, speech)
        shift, scale = (self.head.modulation + e[:, None]).chunk(2, 1)
        y = self.head.head(plain(h) * (1 + scale) + shift)
        return y.view(b, f, hh // 2, ww // 2, 2, 2, -1).permute(0, 6, 1, 2, 4, 3, 5).reshape(b, -1, f, hh, ww).float()


def rope_of(f, h, w, device):
    """Returns cos and sin [1, 1, f·h·w, 128] of the positions in time (44 values), height and width (42 each), for neighbouring pairs; and the
    matrix that makes (-x1, x0, -x3, x2, …) of x."""
    angle = lambda n, d: torch.arange(n, device=device, dtype=torch.float32)[:, None] * 10000 ** (-torch.arange(0, d, 2, device=device, dtype=torch.float32) / d)
    t, y, x = angle(f, 44), angle(h, 42), angle(w, 42)
    a = torch.cat([t[:, None, None].expand(f, h, w, 22), y[None, :, None].expand(f, h, w, 21), x[None, None].expand(f, h, w, 21)], -1)
    a = a.reshape(1, 1, f * h * w, 64).repeat_interleave(2, -1)
    i = torch.arange(128, device=device)
    return a.cos(), a.sin(), (i[:, None] == (i ^ 1)[None]) * torch.where(i % 2 == 1, 1.0, -1.0)


def rotate(x, cos, sin, swap):
    return x * cos + (x @ swap.to(x.dtype)) * sin


# ------------------------------------------------------------------------------------------- speech rows
def rows_of(start, first, last):
    """Returns row numbers [B, 5] and [B, FRAMES - 1, 8] of windows that begin at row start [B], clamped to their clips' rows first … last [B]."""
    dev = start.device
    a = start[:, None] + torch.arange(-2, 3, device=dev)
    i = torch.arange(1, FRAMES, device=dev)
    b = start[:, None, None] + (4 * i[:, None] - 5 + torch.arange(8, device=dev))[None]
    clamp = lambda x, n: torch.minimum(torch.maximum(x, first.view(-1, *[1] * n)), last.view(-1, *[1] * n))
    return clamp(a, 1), clamp(b, 2)


def speech_of(states, rows):
    """Returns (first [B, 5·…], others [B, FRAMES - 1, 8·…]) of states [N, STATES, SPEECH] at rows_of's numbers."""
    first, others = rows
    return states[first].flatten(1), states[others].flatten(2)


# ------------------------------------------------------------------------------------------- ears, eyes, reader
def build_ears():
    from transformers import Wav2Vec2Config, Wav2Vec2Model
    return Wav2Vec2Model(Wav2Vec2Config(
        vocab_size=32, hidden_size=SPEECH, num_hidden_layers=STATES, num_attention_heads=2, intermediate_size=256, conv_dim=[64] * 7,
        conv_kernel=[10, 3, 3, 3, 3, 2, 2], conv_stride=[5, 2, 2, 2, 2, 2, 2], num_feat_extract_layers=7, num_conv_pos_embeddings=64,
        num_conv_pos_embedding_groups=16, hidden_dropout=0.0, attention_dropout=0.0, feat_proj_dropout=0.0, activation_dropout=0.0,
        layerdrop=0.0, mask_time_prob=0.0, attn_implementation="sdpa")).eval()


def hear(ears, samples, frames):
    """Returns states 1 to the last [B, frames, STATES, SPEECH] of samples [B, n], of zero mean and unit variance; the convolutions' vectors are
    resampled to the video's rate before the transformer."""
    v = ears.feature_extractor(samples)
    v = F.interpolate(v, size=frames, mode="linear", align_corners=True)
    h = ears.feature_projection(v.transpose(1, 2))
    h = h[0] if isinstance(h, tuple) else h
    h = ears.encoder.layer_norm(h + ears.encoder.pos_conv_embed(h))
    states = []
    for layer in ears.encoder.layers:
        h = layer(h)
        h = h[0] if isinstance(h, tuple) else h
        states.append(h)
    return torch.stack(states, 2)


def standard(samples):
    """Normalises to zero mean and unit variance over the last dimension, like Wav2Vec2FeatureExtractor."""
    return (samples - samples.mean(-1, keepdim=True)) / torch.sqrt(samples.var(-1, keepdim=True, unbiased=False) + 1e-5)


def build_eyes():
    from transformers import CLIPVisionConfig, CLIPVisionModel
    return CLIPVisionModel(CLIPVisionConfig(hidden_size=IMAGE, intermediate_size=256, num_hidden_layers=4, num_attention_heads=2, image_size=224,
                                            patch_size=14, hidden_act="gelu", projection_dim=IMAGE)).eval()


def look(eyes, photos):
    """Returns rows [B, 257, IMAGE] of photos [B, 3, H, W] in -1..1, which are squashed to 224 pixels as in the original repository."""
    x = F.interpolate(photos.float(), size=(224, 224), mode="bicubic", align_corners=False) * 0.5 + 0.5
    mean, std = (torch.tensor(v, device=x.device).view(1, 3, 1, 1) for v in (CLIP_MEAN, CLIP_STD))
    return eyes(pixel_values=(x - mean) / std, output_hidden_states=True).hidden_states[-2]


def reader_config(vocab):
    return dict(vocab_size=vocab, d_model=TEXT, d_kv=64, num_heads=2, d_ff=256, num_layers=2, dropout_rate=0.0, feed_forward_proj="gated-gelu",
                relative_attention_num_buckets=32, relative_attention_max_distance=128, layer_norm_epsilon=1e-6, is_encoder_decoder=False,
                use_cache=False, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, tie_word_embeddings=True)


def build_reader(vocab):
    from transformers import UMT5Config, UMT5EncoderModel
    return UMT5EncoderModel(UMT5Config(**reader_config(vocab))).eval()


def read(reader, ids):
    """Returns context rows [B, L + 1, TEXT] and score biases [B, L + 1] of token ids [B, L] (0 is padding); the last row stands for all rows of
    zeros."""
    import dit
    mask = ids != 0
    rows = F.pad(dit.encode_text(reader, ids, mask), (0, 0, 0, 1))
    return rows, torch.cat([torch.where(mask, 0.0, -1e4), torch.log((CONTEXT - mask.sum(1, keepdim=True)).float())], 1)


# ------------------------------------------------------------------------------------------- the window loop
def shifted(steps, shift, grid="multitalk"):
    """Returns noise levels [steps + 1]: InfiniteTalk's grid (whose last step is almost zero), or evenly spaced ones."""
    u = torch.linspace(1000, 1, steps, dtype=torch.float64) / 1000 if grid == "multitalk" else torch.linspace(1, 0, steps + 1, dtype=torch.float64)[:-1]
    return (shift * u / (1 + (shift - 1) * u)).tolist() + [0.0]


@torch.no_grad()
def talk(net, y, motion, noise, sigmas, text, bias, picture, speech):
    """Makes one window's latents by Euler steps; the first frames are `motion` [B, 16, m, H, W] before and after every step."""
    m = motion.shape[2]
    x, c = noise.clone(), condition(y)
    x[:, :, :m] = motion
    for s, s_next in zip(sigmas[:-1], sigmas[1:]):
        v = net(torch.cat([x, c], 1), x.new_full((len(x),), 1000 * s), text, bias, picture, *speech)
        x = x + (s_next - s) * v
        x[:, :, :m] = motion
    return x


# ------------------------------------------------------------------------------------------- files
def is_branch(name):
    return name.startswith("audio_proj.") or ".norm_x." in name or ".audio_cross_attn." in name


def wan_config():
    return {"_class_name": "WanModel", "_diffusers_version": "0.33.0", "model_type": "i2v", "dim": WIDTH, "num_heads": HEADS, "num_layers": LAYERS,
            "ffn_dim": FFN, "freq_dim": FREQ, "in_dim": 36, "out_dim": 16, "text_dim": TEXT, "text_len": CONTEXT, "eps": 1e-6}


def save_denoiser(net, folder):
    """Saves the transformer and InfiniteTalk's branch as two files in bfloat16."""
    from safetensors.torch import save_file
    state = {k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in net.state_dict().items()}
    os.makedirs(folder, exist_ok=True)
    save_file({k: v for k, v in state.items() if not is_branch(k)}, os.path.join(folder, "diffusion_pytorch_model.safetensors"))
    save_file({k: v for k, v in state.items() if is_branch(k)}, os.path.join(folder, "infinitetalk.safetensors"))
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(wan_config(), f, indent=2)
        f.write("\n")


def load_denoiser(folder):
    from safetensors.torch import load_file
    net = Denoiser()
    net.load_state_dict({k: v.float() for name in ("diffusion_pytorch_model", "infinitetalk")
                         for k, v in load_file(os.path.join(folder, f"{name}.safetensors")).items()})
    return net


# ------------------------------------------------------------------------------------------- check
def check():
    """Compares with diffusers' transformer and the branch of tests/reference/infinitetalk.py in float32."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "reference"))
    import infinitetalk
    from diffusers import WanTransformer3DModel
    from diffusers.loaders.single_file_utils import convert_wan_transformer_to_diffusers
    torch.manual_seed(0)
    net = Denoiser().eval()
    with torch.no_grad():
        for p in net.parameters():
            if p.abs().max() == 0:
                p.normal_(std=0.05)
    base = WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=HEADS, attention_head_dim=128, in_channels=36, out_channels=16, text_dim=TEXT,
                                 freq_dim=FREQ, ffn_dim=FFN, num_layers=LAYERS, cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6,
                                 image_dim=IMAGE, added_kv_proj_dim=WIDTH)
    base.load_state_dict(convert_wan_transformer_to_diffusers({k: v for k, v in net.state_dict().items() if not is_branch(k)}))
    model = infinitetalk.Talker(base, STATES, SPEECH, HIDDEN, TOKENS).eval()
    branch = {k: v for k, v in net.state_dict().items() if is_branch(k)}
    model.audio_proj.load_state_dict({k.removeprefix("audio_proj."): v for k, v in branch.items() if k.startswith("audio_proj.")})
    for i in range(LAYERS):
        for part, name in ((model.norms[i], f"blocks.{i}.norm_x."), (model.attentions[i], f"blocks.{i}.audio_cross_attn.")):
            part.load_state_dict({k.removeprefix(name): v for k, v in branch.items() if k.startswith(name)})
    clip, start = torch.randn(50, STATES, SPEECH), 20
    x, t, rows = torch.randn(1, 36, FRAMES, 8, 12), torch.tensor([523.0]), torch.randn(1, 11, TEXT)
    picture = torch.randn(1, 257, IMAGE)
    bias = torch.cat([torch.zeros(1, 11), torch.full((1, 1), math.log(CONTEXT - 11))], 1)
    with torch.no_grad():
        want = model(clip[None], start, hidden_states=x, timestep=t, encoder_hidden_states=F.pad(rows, (0, 0, 0, CONTEXT - 11)),
                     encoder_hidden_states_image=picture)
        n = torch.tensor([start]), torch.tensor([0]), torch.tensor([49])
        got = net(x, t, F.pad(rows, (0, 0, 0, 1)), bias, picture, *speech_of(clip, rows_of(*n)))
    worst = float((got - want).abs().max() / want.abs().max())
    print(f"denoiser {worst:.1e}, {sum(p.numel() for p in net.parameters()) / 1e6:.2f} M parameters")
    assert worst < 1e-4
    return worst


if __name__ == "__main__":
    check()
