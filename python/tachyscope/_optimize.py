"""`tachyscope.optimize` and `tachyscope.restore`: our kernels in place of a model's norms, activations, attention and
blocks.

A module keeps its class, its parameters and its place. It gets its own forward, which takes precedence over that of its
class. If accelerate or diffusers have put hooks in front (offloading), the forward behind the hooks is exchanged."""

import collections
import dataclasses
import re
import sys
import types

import torch

from . import _all_rules, _rules, _scaled

LEVELS = ("none", "safe", "aggressive", "extreme")
_MARK = _rules.MARK
_NAMES = re.compile(r"Norm|_norm|GELU|Gelu|GLU|SiLU|Silu|Mish")
# Other modules for which there are rules in some model of these libraries. One without a rule is listed in the report.
_FAMILIES = ("diffusers.", "transformers.", "comfy.")
_PARTS = re.compile(r"Block|Layer$|Attention|Attn|MLP|Mlp")


@dataclasses.dataclass
class Report:
    """The work of `optimize`: (name, class, op) for each module that it replaced, (name, class, why) for each that it
    left: of every library its norms and activations, of diffusers, transformers and ComfyUI its blocks, attention and
    MLPs, too."""

    level: str
    replaced: list = dataclasses.field(default_factory=list)
    left: list = dataclasses.field(default_factory=list)

    def counts(self):
        """Returns how many modules of each class were replaced."""
        return dict(collections.Counter(kind for _, kind, _ in self.replaced))

    def __str__(self):
        lines = [f"tachyscope: {len(self.replaced)} modules replaced at level {self.level}, {len(self.left)} left"]
        for title, entries in (("", self.replaced), ("left: ", self.left)):
            for (kind, words), count in collections.Counter((k, w) for _, k, w in entries).items():
                lines.append(f"  {title}{count} x {kind}: {words}")
        return "\n".join(lines)


def optimize(thing, level="safe", *, verbose=True):
    """Puts our kernels in place of the modules that they can replace in a model of diffusers or transformers, any torch
    module, or a pipeline (all its modules). Returns a `Report`, which it prints unless `verbose` is False.

    level "none": as `restore`. "safe": values are rounded where the modules round them. "aggressive": fused modules
    round once. "extreme": and the linear layers of repeated blocks multiply in 8 bits, which rounds weights and tokens to
    about 1 % (int8) or 3 % (e4m3) of their size. Modules that were replaced before are replaced again at the new level."""
    report = run(thing, level)
    if verbose:
        print(report)
    return report


def run(thing, level, wanted=lambda op: True, anew=True):
    """Does the work of `optimize` for the rules whose op is wanted. Without `anew`, modules that were replaced before
    stay as they are."""
    level = str(getattr(level, "value", level)).lower()
    if level not in LEVELS:
        raise ValueError(f"optimize: expected level to be one of {', '.join(LEVELS)}, got {level!r}")
    report = Report(level)
    modules = list(_modules("optimize", thing))
    if anew:
        restore(thing)
    if level != "none":
        rules, codes = (_asked(known, wanted) for known in _all_rules.known())
        inside = set()  # modules inside a replaced module, which it also replaces
        for name, module in modules:
            if id(module) not in inside:
                inside |= _consider(name, module, rules, codes, level, report)
    return report


def restore(thing):
    """Gives every module that `optimize` replaced its own forward again, with the same bits as before. Returns their
    number."""
    count, attention = 0, sys.modules.get(f"{__package__}._transformers_attention")
    for _, module in _modules("restore", thing):
        ours = module.__dict__.pop(_MARK, None)
        if ours is None:
            continue
        count += 1
        _scaled.forget(module)
        holder, name = _place(module)
        if holder.__dict__.get(name) is ours:
            if name == "forward" and holder is module:
                del module.forward
            else:  # the forward is behind a hook
                setattr(holder, name, types.MethodType(type(module).forward, module))
        if attention is not None:
            attention.end(module)
    return count


def _place(module):
    """Returns the object and the name of its attribute that hold the module's forward behind all hooks, accelerate's or
    diffusers'."""
    own = module.__dict__
    if "_hf_hook" in own and "_old_forward" in own:
        return module, "_old_forward"
    hooks = own["_diffusers_hook"]._fn_refs if "_diffusers_hook" in own else []
    if hooks:
        return hooks[0], "forward" if hooks[0].original_forward is None else "original_forward"
    return module, "forward"


def _modules(function, thing):
    """Yields (name, module) for all modules in a module or a pipeline, once each."""
    if isinstance(thing, torch.nn.Module):
        yield from thing.named_modules()
        return
    components = getattr(thing, "components", None)
    if not isinstance(components, dict):
        raise TypeError(f"{function}: expected a torch module or a pipeline with components, got {type(thing).__name__}")
    seen = set()
    for part, component in components.items():
        if not isinstance(component, torch.nn.Module):
            continue
        for name, module in component.named_modules(memo=seen):
            yield f"{part}.{name}" if name else part, module


def _asked(rules, wanted):
    """Returns the rules; those that are not wanted leave every module."""
    return {key: rule if wanted(rule.op) else _rules.Rule(rule.op, rule.call, lambda module: "it was not asked for", about=rule.about)
            for key, rule in rules.items()}


def _rule_of(module, rules, codes):
    for cls in type(module).__mro__:
        if "forward" in cls.__dict__:
            rule = rules.get(cls) or codes.get(_rules.code_of(module))
            return rule if rule is not None and rule.about(module) else None
    return None


def _consider(name, module, rules, codes, level, report):
    """Replaces the module if a rule fits. Returns the ids of modules inside that it also replaces."""
    kind = type(module).__name__
    rule = _rule_of(module, rules, codes) or (_scaled.rule_of(name, module) if level == "extreme" else None)
    holder, place = _place(module)
    own = holder.__dict__.get(place)
    why = None
    if rule is None:
        parts = next(module.children(), None) is not None
        why = "its parts are looked at one by one" if parts else "no rule for what it computes"
        of_family = type(module).__module__.startswith(_FAMILIES) and _PARTS.search(kind)
        if not _NAMES.search(kind) and not of_family:
            return set()
    elif own is not None and getattr(own, "__func__", None) is not type(module).forward:
        why = "something else has replaced its forward"
    else:
        why = rule.check(module)
    if why is not None:
        report.left.append((name, kind, why))
        return set()
    _replace(module, rule, level)
    report.replaced.append((name, kind, rule.words(module) + (rule.safe if level == "safe" else "")))
    return {id(part) for part in rule.inside(module)}


def _replace(module, rule, level):
    twice = level == "safe"
    call = rule.begin(module)

    def forward(self, *args, **kwargs):
        return call(self, twice, *args, **kwargs)

    ours = types.MethodType(forward, module)  # deepcopy then binds it to the copy
    module.__dict__[_MARK] = ours
    holder, name = _place(module)
    setattr(holder, name, ours)
