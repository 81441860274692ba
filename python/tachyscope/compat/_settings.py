"""Settings for a transformer, in place of the arguments of `tachyscope.optimize`."""

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
    """What `optimize_transformer` replaces. Without whole blocks their norms are replaced one by one; without fused attention it
    is the model's own, which is torch's scaled_dot_product_attention. use_torch_compile calls transformer.compile(). What is None is
    what the environment says (WAN_ENABLE_FUSED_BLOCK; WAN_FORCE_SDPA, the other way round; WAN_TORCH_COMPILE), and where that
    says nothing True, True and False.
    use_fp8 and use_cuda_graphs are refused: there are no fp8 kernels in this package, and a graph needs example inputs,
    which `tachyscope.graph` takes."""

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
            raise ValueError("OptimizationConfig: use_fp8 cannot be honoured, there are no fp8 kernels in this package")
        if self.use_cuda_graphs:
            raise ValueError("OptimizationConfig: use_cuda_graphs cannot be honoured without example inputs; call tachyscope.graph")

    def wants(self, op):
        """Whether modules that `tachyscope.optimize` computes by `op` are to be replaced."""
        if op == "a whole block":
            asked = self.enable_fused_block
            return (_switches.env_switch("WAN_ENABLE_FUSED_BLOCK") if asked is None else asked) is not False
        if op in _ATTENTION:
            asked = self.enable_fused_attention
            return _switches.env_switch("WAN_FORCE_SDPA") is not True if asked is None else asked
        return self.enable_fused_norms if op in _NORMS else self.enable_fused_activations

    def compiles(self):
        """Whether transformer.compile() is to be called."""
        asked = self.use_torch_compile
        return _switches.env_switch("WAN_TORCH_COMPILE") is True if asked is None else asked


def quick_setup_for_a100():
    """Level aggressive. The kernels choose by the GPU themselves, so there is nothing else to set."""
    return OptimizationConfig(level=OptimizationLevel.AGGRESSIVE)


def quick_setup_for_l4():
    """Level aggressive, the same as for an A100."""
    return OptimizationConfig(level=OptimizationLevel.AGGRESSIVE)


def quick_setup_auto():
    """Level aggressive on a GPU of compute capability 8.0 or more, safe elsewhere."""
    recent = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    return OptimizationConfig(level=OptimizationLevel.AGGRESSIVE if recent else OptimizationLevel.SAFE)


def optimize_transformer(transformer, config=None, model_config=None):
    """`tachyscope.optimize` by a config, that of `quick_setup_auto` where none is given. Returns the transformer itself.

    model_config is compared with the transformer's own config: an entry that says otherwise, or that the transformer does
    not have, is an error. Nothing is taken from it."""
    global _last
    config = quick_setup_auto() if config is None else config
    if not isinstance(config, OptimizationConfig):
        raise TypeError(f"optimize_transformer: expected config to be an OptimizationConfig, got {type(config).__name__}")
    config = dataclasses.replace(config)  # which checks it again, since its fields may have been set
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
    """(name, class, op) of what the last optimize_transformer replaced and nobody has restored."""
    transformer = _last[0]() if _last is not None else None
    if transformer is None:
        return []
    from .. import _rules

    modules = dict(transformer.named_modules())
    return [entry for entry in _last[1].replaced if _rules.replaced(modules.get(entry[0]))]


def get_active_optimizations():
    """The names of the ops that the transformer of the last `optimize_transformer` runs, sorted; [] before a first one, or
    after `tachyscope.restore`."""
    return sorted({op for _, _, op in _in_place()})


def get_optimization_summary():
    """What the last `optimize_transformer` did and what of it is in place, as a dict of texts, numbers and lists for JSON.
    "without_effect" has the wrapper's environment variables that are set and do not count here, and why."""
    ignored = _switches.asked_in_vain()
    if _last is None:
        return {"level": "none", "replaced": 0, "active": [], "left": [], "config": {}, "without_effect": ignored}
    _, report, config = _last
    fields = {**dataclasses.asdict(config), "level": config.level.value}
    left = [{"module": name, "class": kind, "why": why} for name, kind, why in report.left]
    return {"level": report.level, "replaced": len(_in_place()), "active": get_active_optimizations(), "left": left, "config": fields,
            "without_effect": ignored}
