"""Buffers at fixed addresses for the blocks of a transformer, as CUDA graphs need them."""

import enum

import torch


class BufferType(enum.Enum):
    BLOCK_INPUT = "block_input"
    BLOCK_OUTPUT = "block_output"
    ATTENTION_WORKSPACE = "attention_workspace"
    FFN_WORKSPACE = "ffn_workspace"


class CUDAGraphMemoryPool:
    """Buffers [max_batch, max_seq_len, …], allocated once: a graph that was captured with them finds them at the same
    place.

    The output of block i is the input of block i + 1. With double buffering (the default) two buffers alternate;
    without it, every block has its own. The workspaces, [.., 3 · hidden_dim] for q, k and v and [.., ffn_dim], belong
    to whichever block runs. With `bypass`, get_buffer returns a new tensor at each call and keeps nothing, to find out
    whether an error comes from memory that is used twice. ffn_dim is 4 · hidden_dim if it is not given. Nothing here
    needs a GPU."""

    def __init__(self, max_batch, max_seq_len, hidden_dim, num_blocks, device, *, dtype=torch.bfloat16, ffn_dim=None,
                 double_buffering=True, bypass=False):
        for name, value in (("max_batch", max_batch), ("max_seq_len", max_seq_len), ("hidden_dim", hidden_dim),
                            ("num_blocks", num_blocks), ("ffn_dim", ffn_dim)):
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"CUDAGraphMemoryPool: expected {name} to be an integer above 0, got {value!r}")
        self.num_blocks, self.device, self.dtype = num_blocks, torch.device(device), dtype
        self.double_buffering, self.bypass = double_buffering, bypass
        rows = (max_batch, max_seq_len)
        self._states, self._attention = (*rows, hidden_dim), (*rows, 3 * hidden_dim)
        self._ffn = (*rows, 4 * hidden_dim if ffn_dim is None else ffn_dim)
        self._buffers = None

    def allocate(self):
        """Allocates the memory. A second call changes nothing, so that addresses stay the same. Returns the pool."""
        if self._buffers is None and not self.bypass:
            count = 2 if self.double_buffering else self.num_blocks + 1
            shapes = [self._states] * count + [self._attention, self._ffn]
            self._buffers = [self._new(shape) for shape in shapes]
        return self

    def release(self):
        """Releases the memory, once nobody else holds the tensors."""
        self._buffers = None

    def get_buffer(self, buffer_type, block_idx=0):
        """Returns the buffer of a block. Before `allocate` that is an error, unless the pool is bypassed."""
        buffer_type = BufferType(buffer_type)
        if not 0 <= block_idx < self.num_blocks:
            raise IndexError(f"get_buffer: expected block_idx in [0, {self.num_blocks - 1}], got {block_idx}")
        work = {BufferType.ATTENTION_WORKSPACE: (-2, self._attention), BufferType.FFN_WORKSPACE: (-1, self._ffn)}
        place = block_idx + (buffer_type is BufferType.BLOCK_OUTPUT)
        index, shape = work.get(buffer_type, (place % 2 if self.double_buffering else place, self._states))
        if self.bypass:
            return self._new(shape)
        if self._buffers is None:
            raise RuntimeError("get_buffer: expected allocate() to have been called before")
        return self._buffers[index]

    def bytes(self):
        """Returns the number of bytes that are allocated now."""
        return sum(t.numel() * t.element_size() for t in self._buffers or [])

    def _new(self, shape):
        return torch.empty(shape, dtype=self.dtype, device=self.device)


def create_pool_for_wan_model(model, max_batch=1, max_seq_len=32760, device=None, **options):
    """Returns an allocated pool with the sizes of a Wan transformer. `model` has a config (diffusers') or is a dict
    with num_layers, num_attention_heads, attention_head_dim and ffn_dim. The device and dtype are the model's,
    unless they are given; further options are the pool's. 32,760 tokens are 81 frames of 480x832."""
    config = model if isinstance(model, dict) else getattr(model, "config", None)
    names = ("num_layers", "num_attention_heads", "attention_head_dim", "ffn_dim")
    missing = list(names) if config is None else [name for name in names if name not in config]
    if missing:
        raise ValueError(f"create_pool_for_wan_model: expected a model whose config has {', '.join(missing)}, got {type(model).__name__}")
    layers, heads, head_dim, ffn_dim = (config[name] for name in names)
    parameter = None if isinstance(model, dict) else next(model.parameters(), None)
    if parameter is not None:
        options.setdefault("dtype", parameter.dtype)
    if device is None:
        device = torch.get_default_device() if parameter is None else parameter.device
    options.setdefault("ffn_dim", ffn_dim)
    return CUDAGraphMemoryPool(max_batch, max_seq_len, heads * head_dim, layers, device, **options).allocate()


def test_memory_pool():
    """Says whether a small pool on the default device keeps its addresses, alternates its buffers, and can be bypassed."""
    sizes = (2, 8, 16, 3, torch.get_default_device())
    pool = CUDAGraphMemoryPool(*sizes).allocate()
    first = pool.get_buffer(BufferType.BLOCK_INPUT)
    right = pool.allocate().get_buffer(BufferType.BLOCK_INPUT, 2).data_ptr() == first.data_ptr()
    right &= pool.get_buffer(BufferType.BLOCK_OUTPUT, 0).data_ptr() == pool.get_buffer(BufferType.BLOCK_INPUT, 1).data_ptr()
    right &= pool.get_buffer(BufferType.BLOCK_OUTPUT, 0).data_ptr() != first.data_ptr()
    single = CUDAGraphMemoryPool(*sizes, double_buffering=False).allocate()
    right &= len({single.get_buffer(BufferType.BLOCK_INPUT, i).data_ptr() for i in range(3)}) == 3
    bypassed = CUDAGraphMemoryPool(*sizes, bypass=True).allocate()
    pair = [bypassed.get_buffer(BufferType.FFN_WORKSPACE) for _ in range(2)]
    return right and pair[0].data_ptr() != pair[1].data_ptr() and bypassed.bytes() == 0
