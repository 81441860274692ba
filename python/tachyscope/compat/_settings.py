"""Settings for a transformer, as an alternative to the arguments of `tachyscope.optimize`."""

import dataclasses
import enum
import weakref

import torch

from .. import enable_torch
from . import _switches

_NORMS = ("rms_norm", "layer_norm", "add_norm", "ada_layer_norm", "group_norm", "group_norm_silu", "group_norm_mish")
_ATTENTION = ("rope and attention", "attention")
_last = None  # (weak reference to the transformer, its report, the config) of the last optimize_transformer


class OptimizationLevel(enum.Enum):
    """The levels of `tachyscope.optimize`."""

    NONE = "none"
    SAFE = "safe"
    AGGRESSIVE = "aggressive"
    EXTREME = "extreme"


@dataclasses.dataclass
class OptimizationConfig:
    """Tells `optimize_transformer` what to replace. If blocks are not replaced as a whole, their norms are
    replaced one by one. If attention is not replaced, the model's own is used, torch's
    scaled_dot_product_attention. use_torch_compile calls transformer.compile(). Fields that are None come
    from the environment (WAN_ENABLE_FUSED_BLOCK; WAN_FORCE_SDPA, inverted; WAN_TORCH_COMPILE); if that says
    nothing, they are True, True and False. use_fp8 and use_cuda_graphs are refused: 8 bits are what the level
    EXTREME is for, and a graph needs example inputs, which `tachyscope.graph` takes."""

    level: OptimizationLevel = OptimizationLevel.SAFE
    enable_fused_block: bool | None = None
    enable_fused_attention: bool | None = None
    enable_fused_norms: bool = True
    enable_fused_activations: bool = True
    use_torch_compile: bool | None = None
    use_fp8: bool = False
    use_cuda_graphs: bool = False

    def __post_init__(self):
        self.level = OptimizationLevel(str(getattr(self.level, "value", self.level)).lower())
        if self.use_fp8:
            raise ValueError("OptimizationConfig: use_fp8 cannot be honoured by itself; at level EXTREME linear layers multiply in e4m3 on a GPU that can")
        if self.use_cuda_graphs:
            raise ValueError("OptimizationConfig: use_cuda_graphs cannot be honoured without example inputs; call tachyscope.graph")

    def wants(self, op):
        """Says whether modules that `tachyscope.optimize` computes by `op` should be replaced."""
        if op == "a whole block":
            asked = self.enable_fused_block
            return (_switches.env_switch("WAN_ENABLE_FUSED_BLOCK") if asked is None else asked) is not False
        if op in _ATTENTION:
            asked = self.enable_fused_attention
            return _switches.env_switch("WAN_FORCE_SDPA") is not True if asked is None else asked
        return self.enable_fused_norms if op in _NORMS else self.enable_fused_activations

    def compiles(self):
        """Says whether transformer.compile() should be called."""
        asked = self.use_torch_compile
        return _switches.env_switch("WAN_TORCH_COMPILE") is True if asked is None else asked


def quick_setup_for_a100():
    """Returns level aggressive. The kernels themselves adapt to the GPU, so there is nothing else to set."""
    return OptimizationConfig(level=OptimizationLevel.AGGRESSIVE)


def quick_setup_for_l4():
    """Returns level aggressive, the same as for an A100."""
    return OptimizationConfig(level=OptimizationLevel.AGGRESSIVE)


def quick_setup_auto():
    """Returns level aggressive on a GPU of compute capability 8.0 or more, and safe elsewhere."""
    recent = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    return OptimizationConfig(level=OptimizationLevel.AGGRESSIVE if recent else OptimizationLevel.SAFE)


def optimize_transformer(transformer, config=None, model_config=None):
    """Calls `tachyscope.optimize` with a config, by default that of `quick_setup_auto`. Returns the transformer itself.

    model_config is only compared with the transformer's own config: an entry that differs, or that the transformer does
    not have, is an error."""
    global _last
    config = quick_setup_auto() if config is None else config
    if not isinstance(config, OptimizationConfig):
        raise TypeError(f"optimize_transformer: expected config to be an OptimizationConfig, got {type(config).__name__}")
    config = dataclasses.replace(config)  # this repeats the checks, since fields may have been set
    _compare(transformer, model_config)
    _switches.warn()
    enable_torch()
    from .. import _optimize

    report = _optimize.run(transformer, config.level.value, config.wants)
    if config.compiles():
        transformer.compile()
    _last = weakref.ref(transformer), report, config
    return transformer


def _compare(transformer, model_config):
    own = getattr(transformer, "config", None)
    for name, value in dict(model_config or {}).items():
        if own is None or name not in own:
            raise ValueError(f"optimize_transformer: expected model_config to hold only what the config of {type(transformer).__name__} has, got {name}")
        if own[name] != value:
            raise ValueError(f"optimize_transformer: expected model_config's {name} to be {own[name]!r} like the transformer's, got {value!r}")


def _in_place():
    """Returns (name, class, op) for modules that the last optimize_transformer replaced and nobody has restored."""
    transformer = _last[0]() if _last is not None else None
    if transformer is None:
        return []
    from .. import _rules

    modules = dict(transformer.named_modules())
    return [entry for entry in _last[1].replaced if _rules.replaced(modules.get(entry[0]))]


def get_active_optimizations():
    """Returns the names of the ops that the transformer of the last `optimize_transformer` runs, sorted; [] before the
    first call, or after `tachyscope.restore`."""
    return sorted({op for _, _, op in _in_place()})


def get_optimization_summary():
    """Returns what the last `optimize_transformer` did and how much of it is still in place, as a dict of texts,
    numbers and lists for JSON. "without_effect" has the wrapper's environment variables that are set but do not
    count here, and why."""
    ignored = _switches.asked_in_vain()
    if _last is None:
        return {"level": "none", "replaced": 0, "active": [], "left": [], "config": {}, "without_effect": ignored}
    _, report, config = _last
    fields = {**dataclasses.asdict(config), "level": config.level.value}
    left = [{"module": name, "class": kind, "why": why} for name, kind, why in report.left]
    return {"level": report.level, "replaced": len(_in_place()), "active": get_active_optimizations(), "left": left, "config": fields,
            "without_effect": ignored}
