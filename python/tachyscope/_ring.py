"""`tachyscope.ring_kv_cache`: the keys and values of a stream's last frames, at fixed addresses."""

import operator

import torch


def ring_kv_cache(layers, window, frame_tokens, heads, head_dim, *, dtype=torch.bfloat16, device=None):
    """Returns a `RingKVCache` for a causal video model: `window` frames of `frame_tokens` tokens in each of `layers`.
    Its memory, 2 · layers · window · frame_tokens · heads · head_dim values, is allocated once, by this call."""
    sizes = dict(layers=layers, window=window, frame_tokens=frame_tokens, heads=heads, head_dim=head_dim)
    for name, value in sizes.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"ring_kv_cache: expected {name} to be an integer above 0, got {value!r}")
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"ring_kv_cache: expected dtype to be a dtype of floats, such as torch.bfloat16, got {dtype!r}")
    return RingKVCache(sizes, dtype, device)


class RingKVCache:
    """keys and values: [layers][W · Lf, H, D] with W frames of Lf tokens. Frame f is in slot f % W and overwrites the
    frame that was there before; a block of frames may wrap around the end. The addresses never change.

    Attention does not depend on the order of keys, whose positions are applied before they are written. So a full ring
    is plain keys and values, and so is its prefix while it fills. There are no gradients through it."""

    def __init__(self, sizes, dtype, device):
        self.window, self.frame_tokens = sizes["window"], sizes["frame_tokens"]
        shape = (sizes["layers"], self.window * self.frame_tokens, sizes["heads"], sizes["head_dim"])
        self.keys, self.values = (torch.zeros(shape, dtype=dtype, device=device) for _ in range(2))
        self._frames = [0] * sizes["layers"]  # how many have been written in each layer

    def write(self, layer, frame, k, v):
        """Writes a block of whole frames, the first of which has the absolute number `frame`: k and v [n · Lf, H, D],
        optionally with a leading dim of one sample. A block that is in the window may be written again, as each
        denoising step does. Frames may not be skipped, and they may not be older than the window."""
        self._expect_layer(layer)
        k, v = (self._block(name, t) for name, t in (("k", k), ("v", v)))
        count = len(k) // self.frame_tokens
        if len(k) != len(v):
            raise ValueError(f"ring_kv_cache: expected v of {len(k)} tokens as k, got {len(v)}")
        seen = self._frames[layer]
        if not hasattr(frame, "__index__") or not max(0, seen - self.window) <= operator.index(frame) <= seen:
            raise ValueError(f"ring_kv_cache: expected frame from {max(0, seen - self.window)} to {seen}, got {frame}")
        first = frame % self.window
        straight = min(count, self.window - first) * self.frame_tokens
        begin = first * self.frame_tokens
        for ring, block in ((self.keys[layer], k), (self.values[layer], v)):
            ring[begin:begin + straight].copy_(block[:straight])
            ring[:len(k) - straight].copy_(block[straight:])
        self._frames[layer] = max(seen, frame + count)

    def read(self, layer):
        """Returns keys and values of all frames in the window, [1, tokens, H, D] for `ops.attention`, as views without
        copies. They are in the order of slots, which is that of time until the ring is full."""
        tokens = self.frames(layer) * self.frame_tokens
        return self.keys[layer, :tokens].unsqueeze(0), self.values[layer, :tokens].unsqueeze(0)

    def frames(self, layer=0):
        """Returns how many frames the window holds: at most W."""
        self._expect_layer(layer)
        return min(self._frames[layer], self.window)

    def next_frame(self, layer=0):
        """Returns the number of the first frame that has not been written."""
        self._expect_layer(layer)
        return self._frames[layer]

    def reset(self):
        """Forgets all frames. The memory stays allocated."""
        self._frames = [0] * len(self._frames)

    def bytes(self):
        """Returns the number of bytes of keys and values together."""
        return 2 * self.keys.numel() * self.keys.element_size()

    def _expect_layer(self, layer):
        if not hasattr(layer, "__index__") or not 0 <= layer < len(self._frames):
            raise IndexError(f"ring_kv_cache: expected layer from 0 to {len(self._frames) - 1}, got {layer!r}")

    def _block(self, name, t):
        """Returns the tokens [n, H, D] of a block, after checks."""
        if not isinstance(t, torch.Tensor):
            raise TypeError(f"ring_kv_cache: expected {name} to be a tensor of torch, got {type(t).__name__}")
        ring = self.keys
        tokens = t[0] if t.dim() == 4 and len(t) == 1 else t
        good = tokens.dim() == 3 and tokens.shape[1:] == ring.shape[2:] and len(tokens) and len(tokens) % self.frame_tokens == 0
        if not good or len(tokens) > ring.shape[1]:
            raise ValueError(f"ring_kv_cache: expected {name} [1 to {self.window} frames of {self.frame_tokens}, {ring.shape[2]}, "
                             f"{ring.shape[3]}], got {list(t.shape)}")
        if t.dtype != ring.dtype or t.device != ring.device:
            raise ValueError(f"ring_kv_cache: expected {name} {ring.dtype} on {ring.device}, got {t.dtype} on {t.device}")
        return tokens.detach()
