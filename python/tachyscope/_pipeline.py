"""The engine in the shape of diffusers' WanPipeline, for programs that change one line. Fields have diffusers' names, and what is left out comes from the
model's own defaults."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

from . import _inputs
from ._generate import Engine
from ._result import Progress

_REFUSED = {"prompt_embeds": "the engine encodes prompts itself; give the prompt (Engine's text_cache keeps what was encoded)",
            "negative_prompt_embeds": "the engine encodes prompts itself; give negative_prompt",
            "attention_kwargs": "the engine's attention takes none; give attention, sparse_attention or loras"}
_OUTPUTS = {"np": "numpy", "pil": "pil", "pt": "torch", "latent": "latents"}


@dataclasses.dataclass(frozen=True)
class WanPipelineOutput:
    """The frames of all videos: [videos, frames, height, width, 3] from 0 to 1 (output_type "np"), the same as a tensor
    [videos, frames, 3, height, width] ("pt"), lists of Pillow pictures ("pil"), or latents ("latent"). `results` are the
    engine's own."""
    frames: Any
    results: list[Any]


class _NoTensors(dict[str, Any]):
    """What a callback gets in place of tensors: it is empty, and says so to those who look for one."""

    def __missing__(self, name: str) -> Any:
        raise _inputs.wrong("callback_on_step_end_tensor_inputs", f"the engine hands out no tensors between steps, so there is no {name!r}")


class TachyscopeWanPipeline:
    """from_pretrained(folder)(prompt=…, num_frames=…).frames, as with diffusers' WanPipeline and
    WanImageToVideoPipeline. callback_on_step_end(pipe, step, None, {}) is called after each step; it gets neither the
    timestep nor tensors, and has to return nothing or an empty dictionary. An error that it raises ends the run."""

    def __init__(self, engine: Engine):
        self.engine = engine

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str], **options: Any) -> TachyscopeWanPipeline:
        """Opens a folder in diffusers' layout (or what else Engine opens) with Engine's options. torch_dtype is the dtype
        of each call that names none."""
        dtype = str(options.pop("torch_dtype", "")).removeprefix("torch.")
        known = {"": None, "None": None, "float32": "f32", "bfloat16": "bf16", "float16": "f16"}
        if dtype not in known:
            raise _inputs.wrong("torch_dtype", f"expected float32, bfloat16 or float16, got {dtype}")
        out = cls(Engine(folder, **options))
        out._dtype = known[dtype]
        return out

    _dtype: str | None = None

    def __call__(self, prompt: Any = None, negative_prompt: str | None = None, *, output_type: str = "np", num_videos_per_prompt: int = 1,
                 generator: Any = None, latents: Any = None, return_dict: bool = True, callback_on_step_end: Any = None,
                 callback_on_step_end_tensor_inputs: Any = ("latents",), **fields: Any) -> Any:
        if not isinstance(output_type, str) or output_type not in _OUTPUTS:
            raise _inputs.wrong("output_type", f"expected np, pil, pt or latent, got {output_type!r}")
        if prompt is None:
            raise _inputs.wrong("prompt", "it is needed")
        for name, why in _REFUSED.items():
            if fields.pop(name, None) is not None:
                raise _inputs.wrong(name, why)
        if self._dtype is not None:
            fields.setdefault("dtype", self._dtype)
        if negative_prompt is not None:  # without one, the model's own stays
            fields["negative_prompt"] = negative_prompt
        if latents is not None:
            fields["init_latents"] = latents
        if generator is not None:
            if "seed" in fields:
                raise _inputs.wrong("seed", "it is given twice, by generator too")
            if not hasattr(generator, "initial_seed") or not hasattr(generator, "device"):
                raise _inputs.wrong_type("generator", "one torch.Generator", generator)
            fields |= {"seed": generator.initial_seed(), "rng": generator.device.type}
        first = fields.pop("seed", None)
        count = int(_inputs.setting("num_videos_per_prompt", "int", num_videos_per_prompt)[0][1])
        if count < 1:
            raise _inputs.wrong("num_videos_per_prompt", f"expected 1 or more, got {count}")
        start = 0 if first is None or isinstance(first, (list, tuple, range)) else int(_inputs.setting("seed", "int", first)[0][1])
        seeds = first if isinstance(first, (list, tuple, range)) else range(start, start + count)
        watch = self._steps(callback_on_step_end, callback_on_step_end_tensor_inputs)
        results = self.engine._generate(list(prompt) if isinstance(prompt, (list, tuple)) else prompt, _OUTPUTS[output_type],
                                        {**fields, "seed": seeds}, watch)
        frames = self._frames(results, output_type)
        return WanPipelineOutput(frames, results) if return_dict else (frames,)

    def _steps(self, callback: Any, tensors: Any) -> Any:
        """Returns a function that turns progress into calls of a callback."""
        if callback is None:
            return None
        if not callable(callback):
            raise _inputs.wrong_type("callback_on_step_end", "a function", callback)
        if tensors is not None and tensors not in ((), [], ("latents",), ["latents"]):  # diffusers' default counts as none
            raise _inputs.wrong("callback_on_step_end_tensor_inputs", f"the engine hands out no tensors between steps, got {tensors}")

        def watch(progress: Progress) -> None:
            if progress.stage == "denoise" and progress.done > 0 and callback(self, progress.done - 1, None, _NoTensors()):
                raise _inputs.wrong("callback_on_step_end", "the engine takes no tensors back: return nothing")
        return watch

    @staticmethod
    def _frames(results: list[Any], output_type: str) -> Any:
        import numpy as np
        if output_type == "pil":
            return [result.frames for result in results]
        if output_type == "latent":
            import torch
            return torch.from_numpy(np.stack([result.latents for result in results]))
        if output_type == "pt":  # on the GPU that made them
            import torch
            return torch.stack([result.frames for result in results]).permute(0, 1, 4, 2, 3).float().div(255).contiguous()
        return np.stack([result.frames for result in results]).astype(np.float32) / np.float32(255)

    def to(self, device: Any) -> TachyscopeWanPipeline:
        """Refuses what it cannot do: the engine's device is chosen by from_pretrained(folder, device=…)."""
        raise _inputs.wrong("device", "give it to from_pretrained: the engine opens the model there")
