"""Tests of the nodes for ComfyUI: the values that a model gives before the node, with it and after it. ComfyUI and WanVideoWrapper are replaced by
stubs, or with --comfyui FOLDER a checkout of ComfyUI is used."""

import copy
import gc
import importlib.util
import pathlib
import subprocess
import sys
import textwrap
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tachyscope

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "python" / "comfyui"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="a package without its sources")


class Injection:
    def __init__(self, inject, eject):
        self.inject, self.eject = inject, eject


class Patcher:
    """Behaves like ComfyUI's ModelPatcher: clones share the model, and a clone's injections are in it while that clone is loaded."""

    def __init__(self, model):
        self.model, self.injections, self.attachments, self.model_options = model, {}, {}, {"transformer_options": {}}
        self.is_injected = False

    def clone(self):
        other = type(self)(self.model)
        other.injections = {key: list(value) for key, value in self.injections.items()}
        other.attachments, other.model_options = dict(self.attachments), copy.deepcopy(self.model_options)
        other.is_injected = self.is_injected
        return other

    def set_injections(self, key, injections):
        self.injections[key] = injections

    def remove_injections(self, key):
        self.injections.pop(key, None)

    def set_attachments(self, key, attachment):
        self.attachments[key] = attachment

    def remove_attachments(self, key):
        self.attachments.pop(key, None)

    def patch_model(self):
        if self.is_injected:
            self.detach()
        for injection in sum(self.injections.values(), []):
            injection.inject(self)
            self.is_injected = True

    def detach(self):
        if self.is_injected:
            for injection in sum(self.injections.values(), []):
                injection.eject(self)
        self.is_injected = False


class CastLayerNorm(nn.LayerNorm):
    """Norms of ComfyUI bring their weights to the input's dtype and apply functions to them."""

    __qualname__ = __name__ = "LayerNorm"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.weight_function, self.bias_function = [], []

    def forward(self, *args):
        x, weight = args[0], self.weight
        if weight is not None:
            weight = weight.to(x.dtype)
            for function in self.weight_function:
                weight = function(weight)
        return F.layer_norm(x, self.normalized_shape, weight, None if self.bias is None else self.bias.to(x.dtype), self.eps)


class WanRMSNorm(nn.Module):
    """A norm as in WanVideoWrapper, which rounds twice and has an option for long sequences."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.randn(dim))

    def forward(self, x, num_chunks=1):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype) * self.weight


class OddRMSNorm(WanRMSNorm):
    """A norm that does not compute what its name says."""

    def forward(self, x):
        return super().forward(x) * (1 + self.weight)


class Transformer(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.norms = nn.ModuleList([CastLayerNorm(dim), CastLayerNorm(dim, elementwise_affine=False), WanRMSNorm(dim),
                                    OddRMSNorm(dim)])
        self.ffn = nn.Sequential(nn.Linear(dim, 64), nn.GELU(approximate="tanh"), nn.Linear(64, dim))

    def forward(self, x):
        for norm in self.norms:
            x = x + norm(x)
        return x + self.ffn(x)


@pytest.fixture
def nodes(monkeypatch, request):
    if not request.config.getoption("--comfyui"):
        comfy, extension = types.ModuleType("comfy"), types.ModuleType("comfy.patcher_extension")
        extension.PatcherInjection = Injection
        monkeypatch.setitem(sys.modules, "comfy", comfy)
        monkeypatch.setitem(sys.modules, "comfy.patcher_extension", extension)
    spec = importlib.util.spec_from_file_location("comfyui_tachyscope", FOLDER / "__init__.py",
                                                  submodule_search_locations=[str(FOLDER)])
    package = importlib.util.module_from_spec(spec)
    for name in ("comfyui_tachyscope", "comfyui_tachyscope.nodes", "comfyui_tachyscope.attention", "comfyui_tachyscope.kernels"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "comfyui_tachyscope", package)
    spec.loader.exec_module(package)
    return package


def make(dtype=torch.float32):
    torch.manual_seed(0)
    model = nn.Module()
    model.diffusion_model = Transformer().eval().requires_grad_(False).to(dtype)
    return Patcher(model), torch.randn(2, 7, 48).to(dtype)


def run(patcher, x):
    with torch.no_grad():
        return patcher.model.diffusion_model(x)


def own_forwards(patcher):
    return [name for name, module in patcher.model.named_modules() if "forward" in module.__dict__]


def test_interface(nodes):
    assert set(nodes.NODE_CLASS_MAPPINGS) == set(nodes.NODE_DISPLAY_NAME_MAPPINGS)
    assert len(nodes.NODE_CLASS_MAPPINGS) == 11
    for name, cls in nodes.NODE_CLASS_MAPPINGS.items():
        assert cls.CATEGORY == "Tachyscope" and cls.DESCRIPTION and hasattr(cls, cls.FUNCTION), name
    for cls in (nodes.NODE_CLASS_MAPPINGS["TachyscopeModel"], nodes.NODE_CLASS_MAPPINGS["TachyscopeWanVideoModel"]):
        kind, = cls.RETURN_TYPES
        assert cls.INPUT_TYPES()["required"]["model"] == (kind,)
        levels, options = cls.INPUT_TYPES()["required"]["level"]
        assert options["default"] == "safe" and callable(getattr(cls(), cls.FUNCTION))
        assert cls.CATEGORY == "Tachyscope"
        for level in levels:
            tachyscope.optimize(nn.GELU(), level, verbose=False)


def node(nodes, name, model, level="safe"):
    cls = nodes.NODE_CLASS_MAPPINGS[name]
    result, = getattr(cls(), cls.FUNCTION)(model=model, level=level)
    return result


def test_clone_while_loaded(nodes):
    model, x = make()
    before = run(model, x)
    ours = node(nodes, "TachyscopeModel", model)
    assert ours is not model and ours.model is model.model and not model.injections
    assert own_forwards(model) == []
    ours.patch_model()
    assert len(own_forwards(ours)) == 4, "two LayerNorms, an RMSNorm, a GELU; the odd one keeps its own"
    torch.testing.assert_close(run(ours, x), before)
    ours.detach()
    assert own_forwards(model) == []
    assert torch.equal(run(model, x), before)


def test_a_clone_of_the_loaded_clone(nodes):
    """When another node follows, ComfyUI unloads the first clone and loads the second, which was copied while the first was injected."""
    model, x = make()
    ours = node(nodes, "TachyscopeModel", model)
    ours.patch_model()
    later = ours.clone()
    none = node(nodes, "TachyscopeModel", ours, "none")
    ours.detach()
    later.patch_model()
    assert len(own_forwards(later)) == 4
    later.detach()
    none.patch_model()
    assert own_forwards(none) == []


@pytest.mark.parametrize("level", ["safe", "aggressive"])
def test_bfloat16(nodes, level):
    """At level safe the norms round as the module does: nearly all values have the same bits."""
    model, x = make(torch.bfloat16)
    norm = model.model.diffusion_model.norms[2]
    theirs = norm(x)
    ours = node(nodes, "TachyscopeModel", model, level)
    ours.patch_model()
    same = (norm(x) == theirs).float().mean().item()
    assert norm(x).dtype == torch.bfloat16
    assert same > 0.99 if level == "safe" else 0.5 < same < 0.99, same


def test_what_the_module_would_convert(nodes):
    """Weights of another dtype, and weights with functions such as a LoRA's, are left to the module's own code."""
    model, x = make()
    norm = model.model.diffusion_model.norms[0]
    ours = node(nodes, "TachyscopeModel", model)
    ours.patch_model()
    norm.weight_function.append(lambda weight: weight * 3)
    assert torch.equal(norm(x), type(norm).forward(norm, x))
    norm.weight_function.clear()
    assert torch.equal(norm(x.bfloat16()), type(norm).forward(norm, x.bfloat16()))
    chunks = model.model.diffusion_model.norms[2]
    assert torch.equal(chunks(x, num_chunks=2), type(chunks).forward(chunks, x, num_chunks=2))


def test_wrapper(nodes):
    """WanVideoWrapper's samplers use the transformer without loading the patcher. It is restored when the last clone is gone."""
    model, x = make()
    before = run(model, x)
    ours = node(nodes, "TachyscopeWanVideoModel", model)
    assert len(own_forwards(ours)) == 4
    torch.testing.assert_close(run(ours, x), before)
    again = node(nodes, "TachyscopeWanVideoModel", ours, "aggressive")
    later = again.clone()
    del ours, again
    gc.collect()
    assert len(own_forwards(later)) == 4
    del later
    gc.collect()
    assert own_forwards(model) == []
    assert torch.equal(run(model, x), before)


def test_wrapper_weights_that_come_later(nodes):
    """The wrapper fills in the weights when it samples."""
    model, x = make()
    before, state = run(model, x), {k: t.clone() for k, t in model.model.state_dict().items()}
    model.model.to("meta")
    ours = node(nodes, "TachyscopeWanVideoModel", model)
    assert len(own_forwards(ours)) == 4
    model.model.load_state_dict(state, assign=True)
    torch.testing.assert_close(run(ours, x), before)


def test_real_comfyui(nodes, request, monkeypatch):
    """Uses ComfyUI's own ModelPatcher and a small Wan model made with ComfyUI's code: blocks, attention through its seam, norms."""
    folder = request.config.getoption("--comfyui")
    if not folder:
        pytest.skip("no --comfyui FOLDER")
    from comfy import model_patcher, ops
    from comfy.ldm.wan.model import WanModel

    torch.manual_seed(0)
    model = nn.Module()
    model.diffusion_model = WanModel(dim=48, num_heads=2, ffn_dim=64, num_layers=2, freq_dim=16, text_dim=16, in_dim=4,
                                     out_dim=4, dtype=torch.float32, device="cpu", operations=ops.disable_weight_init)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.eval().requires_grad_(False)
    patcher = model_patcher.ModelPatcher(model, torch.device("cpu"), torch.device("cpu"))
    inputs = torch.randn(1, 4, 2, 6, 6), torch.tensor([3]), torch.randn(1, 5, 16)

    def result(loaded):
        loaded.patch_model()
        with torch.no_grad():
            return loaded.model.diffusion_model(*inputs, transformer_options=loaded.model_options["transformer_options"])

    before = result(patcher.clone())
    ours = node(nodes, "TachyscopeModel", patcher)
    seam, calls = sys.modules["comfyui_tachyscope.attention"].ops, []
    monkeypatch.setattr(seam, "attention", lambda *args, attend=seam.attention, **options: calls.append(1) or attend(*args, **options))
    torch.testing.assert_close(result(ours), before, rtol=1e-4, atol=1e-5)
    assert len(calls) == 4, "two blocks with two attentions each"
    assert len(own_forwards(ours)) == 2 * (2 + 4 + 1) + 4, own_forwards(ours)
    ours.detach(unpatch_all=False)
    assert own_forwards(patcher) == []
    assert torch.equal(result(patcher), before)


def test_a_script_that_ends_with_the_nodes_loaded():
    """Nothing is restored while Python shuts down, when modules can no longer be imported."""
    script = f"""
        import importlib.util, sys, types, torch
        from torch import nn

        comfy, extension = types.ModuleType("comfy"), types.ModuleType("comfy.patcher_extension")
        extension.PatcherInjection = lambda inject, eject: types.SimpleNamespace(inject=inject, eject=eject)
        sys.modules |= {{"comfy": comfy, "comfy.patcher_extension": extension}}
        spec = importlib.util.spec_from_file_location("ours", {str(FOLDER / "__init__.py")!r}, submodule_search_locations=[{str(FOLDER)!r}])
        sys.modules["ours"] = ours = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(ours)

        class Patcher:
            def __init__(self, model):
                self.model, self.injections, self.model_options = model, [], {{"transformer_options": {{}}}}
            def clone(self):
                return Patcher(self.model)
            def set_injections(self, key, injections):
                self.injections = injections
            def set_attachments(self, key, attachment):
                self.attachment = attachment
            def remove_injections(self, key):
                pass
            remove_attachments = remove_injections

        kept = []
        for node in (ours.NODE_CLASS_MAPPINGS["TachyscopeModel"], ours.NODE_CLASS_MAPPINGS["TachyscopeWanVideoModel"]):
            model = nn.Module()
            model.diffusion_model = nn.Sequential(nn.LayerNorm(8), nn.GELU())
            (patcher,) = node().apply(Patcher(model), "safe")
            for injection in patcher.injections:
                injection.inject(patcher)
            assert any("forward" in vars(module) for module in model.modules())
            kept.append(patcher)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
