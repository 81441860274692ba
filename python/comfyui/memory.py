"""What ComfyUI's model_management sees of an engine: something of a certain size that it can load and unload."""

import torch


class _Model:
    """model_management prints this class's name and keeps a weak reference to it."""


class Held:
    """Behaves like ComfyUI's ModelPatcher of one device. Before a run the engine's plan says how many bytes it takes, ComfyUI frees
    as much of what others hold, and when somebody else needs memory it calls `detach`, which closes the engine unless it is
    computing. `close` is called without arguments."""

    parent = None

    def __init__(self, device, close):
        self.load_device, self.offload_device = torch.device(device), torch.device("cpu")
        self.model, self._close = _Model(), close
        self.size, self.loaded, self.busy = 0, 0, False

    def model_size(self):
        return self.size

    def loaded_size(self):
        return self.loaded

    def current_loaded_device(self):
        return self.load_device if self.loaded else self.offload_device

    def model_dtype(self):
        return torch.float32

    def model_patches_models(self):
        return []

    def model_patches_to(self, to):
        pass

    def lowvram_patch_counter(self):
        return 0

    def is_clone(self, other):
        return other is self

    def partially_load(self, device_to, extra_memory=0, force_patch_weights=False):
        """The engine takes what its plan says, all at once."""
        gained, self.loaded = self.size - self.loaded, self.size
        return gained

    def partially_unload(self, device_to, memory_to_free=0):
        return 0  # it is closed whole, by detach

    def detach(self, unpatch_all=True):
        """Gives all memory back. An engine that computes keeps it: ComfyUI runs one node at a time, so nobody waits for it."""
        if not self.busy:
            self.loaded = 0
            self._close()
        return self.model
