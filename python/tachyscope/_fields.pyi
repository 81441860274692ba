# The types of the fields of requests and engines, written by tools/make_python_fields.
from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

Path = PathLike[str]
Picture = str | Path | Any
Sound = str | Path | tuple[Any, int] | dict[str, Any]
Tensor = str | Path | Any

REQUEST: tuple[tuple[str, str, str, str], ...]
ENGINE: tuple[tuple[str, str, str, str], ...]

class RequestFields(TypedDict, total=False):
    negative_prompt: str
    image_fit: Literal["stretch", "crop"]
    clip_preparation: Literal["processor", "original"]
    width: int
    height: int
    frames: int
    fps: float
    strength: float
    vace_strength: str
    outpaint: str
    keep: str
    preset: Literal["lightx2v-4", "lightx2v-8", "lightning-4", "fastwan-3", "causvid-9", "rcm-4", "self-forcing-4",
        "causvid", "accvid-10", "talk-4", "talk-3"]
    steps: int
    guidance: float
    guidance_2: float
    high_noise_steps: int
    shift: float
    sampler: str
    grid: str
    sinusoid: Literal["diffusers", "original"]
    rng: Literal["cpu", "cuda"]
    rng_multiprocessors: int
    max_text_tokens: int
    audio_guidance: float
    motion_frames: int
    recipe: Literal["infinitetalk", "wrapper"]
    color_correction: float
    speakers: Literal["together", "one-after-the-other", "para", "add"]
    speaker_boxes: Sequence[str | Sequence[int]]
    windows: Literal["none", "static", "uniform", "looped", "infinitetalk", "even"]
    window_frames: int
    window_overlap: int
    window_stride: int
    window_mask: Literal["linear", "pyramid"]
    free_noise: Literal["on", "off"]
    riflex: int
    block: int
    block_window: int
    loras: str | Path | Sequence[str | Path]
    lora_mode: Literal["auto", "merge", "runtime"]
    lora_unmatched: Literal["warn", "error"]
    level: Literal["none", "safe", "aggressive", "extreme"]
    dtype: str
    without: str | Path | Sequence[str | Path]
    residual: str
    attention: Literal["auto", "bf16", "int8"]
    int8_keys: Literal["auto", "all"]
    math: Literal["auto", "bf16", "fp8", "int8", "tf32"]
    vae_math: Literal["auto", "activations", "fp8", "int8"]
    step_cache: float
    step_cache_kind: Literal["rate", "easycache", "teacache", "magcache", "taylorseer"]
    sparse_attention: float
    sparse_chooser: Literal["top-k", "sliding-tile", "trained"]
    sparse_dense_steps: int
    init_latents: Tensor
    image: Picture
    last_image: Picture
    video: str | Path
    control_video: str | Path
    mask_video: str | Path
    reference: Picture
    reference_2: Picture
    reference_3: Picture
    reference_4: Picture
    image_embeds: Tensor
    speech: Sound
    speech_2: Sound
    speaker_mask: Picture
    speaker_mask_2: Picture
    size: tuple[int, int]
    audio: Sound | Sequence[Sound]

class EngineFields(TypedDict, total=False):
    threads: int
    ranks: int
    gpus: str
    parallel: str
    weights: Literal["auto", "packed", "mapped", "read"]
    keep_loaded: bool
    device: str
    graphs: bool
    arena: bool
    max_vram: int | str
    text_cache: str
    verify_upload: bool
    text_encoder: str
    vae: str
    image_encoder: str
    tokenizer: str
    transformer_2: str
    infinitetalk: str
    audio_encoder: str
    idle_seconds: int
