#!/usr/bin/env python3
"""Times blocks of a causal model in PyTorch, as its original code makes them (tests/reference/causal_cached.py). bench/peers/world.py runs this.

    python3 bench/peers/world_torch.py FOLDER --shape universal [--compile] [--blocks 20] [--seconds 120] [--size 640x352] [--device cuda]

FOLDER is one made by bench/peers/world_model.py; its weights run in bf16 on a GPU. A block consists of the steps of the model's list, the pass at
timestep 0 that later blocks remember, decoding each latent frame in a stream (diffusers' VAE, whose caches are kept from block to block), and copying
the frames as bytes to the host. --compile compiles each layer of the transformer and the VAE's decoder by torch.compile, the latter with
channels-last weights. Attention is scaled_dot_product_attention, which prefers cuDNN's kernel. Prints a line of JSON: the seconds of each
block, until its first four frames, and of the preparation, and the peak memory."""
import argparse
import contextlib
import json
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "reference"), str(pathlib.Path(__file__).resolve().parent)]
import torch  # noqa: E402
import world_model  # noqa: E402

LISTS = {"universal": ([1000, 666, 333], 5, 3), "self-forcing": ([1000, 750, 500, 250], 5, 3)}  # timesteps, shift, latent frames of a block
SIZES = {"universal": (640, 352), "self-forcing": (832, 480)}


def load(folder, shape, device, dtype):
    import causal
    from diffusers import AutoencoderKLWan
    from safetensors import safe_open
    from safetensors.torch import load_file
    s = world_model.SHAPES[shape]
    a = s["actions"]
    with torch.device("meta"):
        model = causal.CausalWan(dim=s["dim"], heads=s["heads"], layers=s["layers"], ffn=s["ffn"], channels=36 if a else 16, out_channels=16, text_dim=s["text"],
                                 image_dim=s["image"], freq_dim=s["freq"], actions={k: v for k, v in a.items() if k != "blocks"} if a else None,
                                 action_blocks=a["blocks"] if a else ())
    file = folder / "transformer" / "diffusion_pytorch_model.safetensors" if s["text"] else folder / "diffusion_pytorch_model.safetensors"
    model.load_state_dict({k: v.to(dtype) for k, v in load_file(file, device=str(device)).items()}, assign=True)
    if s["text"]:
        config, file = json.loads((folder / "vae" / "config.json").read_text()), folder / "vae" / "diffusion_pytorch_model.safetensors"
    else:
        file = folder / "Wan2.1_VAE.safetensors"
        with safe_open(file, "pt") as f:
            config = json.loads(f.metadata()["config"])
    with torch.device(device):
        vae = AutoencoderKLWan.from_config({k: v for k, v in config.items() if k not in ("world_statistics",)})
    vae.load_state_dict(load_file(file, device=str(device)))
    return model.eval().requires_grad_(False), vae.to(dtype).eval().requires_grad_(False)


class Decoder:
    """Decodes latents into frames, block after block."""

    def __init__(self, vae):
        self.vae, self.first = vae, True
        c = vae.config
        self.mean, self.std = (torch.tensor(v, device=vae.device, dtype=vae.dtype).view(1, -1, 1, 1, 1) for v in (c.latents_mean, c.latents_std))
        vae.clear_cache()

    def __call__(self, latent):
        """Decodes [z, 1, h, w] into [4 or 1, H, W, 3] bytes on the host."""
        vae = self.vae
        vae._conv_idx = [0]
        x = vae.post_quant_conv(latent[None] * self.std + self.mean)
        video = vae.decoder(x, feat_cache=vae._feat_map, feat_idx=vae._conv_idx, **({"first_chunk": True} if self.first else {}))
        self.first = False
        return video[0].clamp(-1, 1).add(1).mul(127.5).round().to(torch.uint8).permute(1, 2, 3, 0).contiguous().cpu()


class World:
    def __init__(self, args, device, dtype):
        import causal_cached
        self.cached, self.args = causal_cached, args
        s = world_model.SHAPES[args.shape]
        self.model, self.vae = load(args.folder, args.shape, device, dtype)
        world = s.get("world", {})
        steps, shift, self.block = LISTS.get(args.shape) or (world["timesteps"], world["shift"], world["block"])
        width, height = args.size or SIZES.get(args.shape) or (world["width"], world["height"])
        sigma = [shift * t / 1000 / (1 + (shift - 1) * t / 1000) for t in steps]
        self.sigmas, self.timesteps = sigma, [1000 * v for v in sigma]
        self.h, self.w, self.device, self.dtype = height // 8, width // 8, device, dtype
        self.window, a = s["window"], s["actions"]
        self.caches = causal_cached.Caches(self.model, self.window, 0, self.h * self.w // 4, dtype, device)
        random = self.random
        self.caches.context = causal_cached.make_context(self.model, random(512, s["text"]) if s["text"] else random(257, s["image"]))
        self.condition = random(20, 1, self.h, self.w).expand(-1, self.block, -1, -1) if a else None
        self.keyboard, self.mouse = ((random(40000, 4) > 0).to(dtype), 0.1 * random(40000, 2)) if a else (None, None)
        self.decode, self.first, self.layer, self.complex = Decoder(self.vae), 0, causal_cached.layer, True

    def random(self, *shape):
        return torch.randn(*shape, device=self.device).to(self.dtype)

    def compile(self):
        torch._dynamo.config.cache_size_limit = 256
        self.layer, self.complex = torch.compile(self.cached.layer, dynamic=False), False
        for module in self.vae.decoder.modules():
            if isinstance(module, torch.nn.Conv3d):
                module.to(memory_format=torch.channels_last_3d)
            elif isinstance(module, torch.nn.Conv2d):
                module.to(memory_format=torch.channels_last)
        self.vae.decoder = torch.compile(self.vae.decoder, dynamic=False)

    def predict(self, x, t):
        if self.condition is not None:
            x = torch.cat([x, self.condition])
        return self.cached.forward(self.model, x, t, self.first, self.caches, self.mouse, self.keyboard, self.layer, self.complex)

    def next(self):
        """Returns (seconds until the first frames, seconds)."""
        begin, n = time.perf_counter(), self.block
        x = self.random(16, n, self.h, self.w)
        for i, t in enumerate(self.timesteps):
            v = self.predict(x, t)
            x = (x.double() - self.sigmas[i] * v.double()).to(self.dtype)
            if i + 1 < len(self.timesteps):
                x = ((1 - self.sigmas[i + 1]) * x + self.sigmas[i + 1] * self.random(*x.shape)).to(self.dtype)
        self.predict(x, 0.0)
        first = 0
        for i in range(n):
            self.decode(x[:, i: i + 1])
            first = first or time.perf_counter() - begin
        self.first += n
        return first, time.perf_counter() - begin


@contextlib.contextmanager
def attention(device):
    if device.type != "cuda":
        yield
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH], set_priority=True):
        yield


def run(args, begin):
    device = torch.device(args.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    torch.manual_seed(0)
    world = World(args, device, dtype)
    loaded = time.time() - begin
    fill = -(-world.window // world.block) + 1
    for i in range(fill):
        world.next()
        if args.compile and i + 2 == fill:  # from here on all shapes are those of a full window
            world.compile()
    for _ in range(2):  # warm up, so that compiling and the choices of libraries do not count in a block's time
        world.next()
        if time.time() - begin > args.seconds:
            raise TimeoutError(f"no time left after {time.time() - begin:.0f} s of making ready")
    ready, firsts, wholes = time.time() - begin, [], []
    while len(wholes) < args.blocks and (len(wholes) < 3 or time.time() - begin < args.seconds):
        first, whole = world.next()
        firsts.append(first), wholes.append(whole)
    frames = 4 * world.block
    return {"frames": frames, "seconds": wholes, "first_seconds": firsts, "loaded_s": round(loaded, 1), "ready_s": round(ready, 1), "torch": torch.__version__,
            "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2) if device.type == "cuda" else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shape", choices=world_model.SHAPES, default="universal")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=86400, help="no block begins later than this")
    parser.add_argument("--size", type=lambda text: tuple(map(int, text.split("x"))))
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    begin = time.time()
    with torch.no_grad(), attention(torch.device(args.device)):
        print(json.dumps(run(args, begin)))


if __name__ == "__main__":
    main()
