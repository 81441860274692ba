"""Stand-ins for the modules of a running ComfyUI that our engine nodes meet (0.3.64), in code of our own: model_management with its list
of loaded models, the progress bar, the button "cancel", and the folders."""

import types
import weakref

import torch


class Interrupted(Exception):
    """comfy.model_management.InterruptProcessingException."""


class Host:
    """One ComfyUI. `free` is the memory of its device in bytes; `bars` has each call of a progress bar."""

    def __init__(self, folder, free=1 << 40):
        self.folder, self.free, self.cancelled, self.bars, self.loaded = folder, free, False, [], []

    def modules(self):
        management, utils, folders = (types.ModuleType(n) for n in ("comfy.model_management", "comfy.utils", "folder_paths"))
        management.get_torch_device = lambda: torch.device("cpu")
        management.load_models_gpu, management.free_memory = self.load, self.free_memory
        management.throw_exception_if_processing_interrupted = self.throw
        management.InterruptProcessingException = Interrupted
        host = self

        class ProgressBar:
            def __init__(self, total, node_id=None):
                self.total, self.current = total, 0

            def update_absolute(self, value, total=None, preview=None):
                self.total, self.current = total or self.total, value
                host.bars.append((value, self.total, preview))

            def update(self, value):
                self.update_absolute(self.current + value)

        utils.ProgressBar = ProgressBar
        folders.models_dir = str(self.folder)
        folders.get_full_path = lambda kind, name: str(self.folder / kind / name) if (self.folder / kind / name).is_file() else None
        comfy = types.ModuleType("comfy")
        comfy.model_management, comfy.utils = management, utils
        return {"comfy": comfy, "comfy.model_management": management, "comfy.utils": utils, "folder_paths": folders}

    def throw(self):
        if self.cancelled:
            self.cancelled = False
            raise Interrupted

    def load(self, models):
        """Frees what the models need, and then loads them: model_management's load_models_gpu."""
        for model in models:
            assert model.model_patches_models() == [] and model.parent is None
            known = [m for m in self.loaded if m() is model]
            needed = model.model_size() - model.loaded_size() if known else model.model_size()
            self.free_memory(needed, model.load_device, keep=[model])
            weakref.finalize(model.model, lambda: None)
            self.free -= model.partially_load(model.load_device, 1e32, force_patch_weights=False)
            if not known:
                self.loaded.append(weakref.ref(model))

    def free_memory(self, needed, device, keep=()):
        for held in list(self.loaded):
            model = held()
            if model is None:
                self.loaded.remove(held)
            elif self.free < needed and model not in keep and model.load_device == device:
                size = model.loaded_size()
                model.detach(True)
                self.free += size - model.loaded_size()
                self.loaded.remove(held)
