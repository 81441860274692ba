"""Tests the package as a kernel for Hugging Face's `kernels` (tools/make_hub_kernel): the hub's requirements, each layer compared with the module
that it stands for, and the kernel together with the package in one process. Where `kernels` is installed it loads the kernel and puts the layers in;
elsewhere the same is done here by hand."""

import ast
import importlib.util
import inspect
import json
import os
import pathlib
import subprocess
import sys
import types

import pytest
import torch
from torch import nn

import tachyscope

kernels = importlib.import_module("kernels") if importlib.util.find_spec("kernels") else None
ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.cpu
WITH_KERNELS = pytest.mark.skipif(kernels is None, reason="kernels is not installed")


def lay_out(folder, *package):
    done = subprocess.run([sys.executable, ROOT / "tools/make_hub_kernel", folder, *package], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next((folder / "build").iterdir())


@pytest.fixture(scope="module")
def variant(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("kernel"))


@pytest.fixture(scope="module")
def kernel(variant):
    if kernels is not None:
        return kernels.get_local_kernel(variant.parents[1], backend="cpu")
    name = json.loads((variant / "metadata.json").read_text())["id"]
    spec = importlib.util.spec_from_file_location(name, variant / "__init__.py")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def test_layout(variant):
    facts = json.loads((variant / "metadata.json").read_text())
    assert facts["name"] == "tachyscope" and facts["backend"] == {"type": "cpu"} and facts["license"] == "Apache-2.0"
    assert facts["id"].isidentifier() and variant.name.startswith("torch-stable-abi210-cpu-")
    files = {str(p.relative_to(variant)) for p in variant.rglob("*.*") if p.name != "metadata.json" and p.suffix != ".pyc"}
    assert set(facts["digest"]["files"]) == files


@WITH_KERNELS
def test_kernels_reads_it(variant):
    """`kernels` reads build.toml with its own reader and agrees with our digests."""
    from kernels._rust import Build, Digest, DigestAlgorithm

    assert [str(b) for b in Build.open(ROOT / "python/hub").general.backends] == ["cpu", "cuda"]
    facts = json.loads((variant / "metadata.json").read_text())
    assert Digest.hash_variant(DigestAlgorithm.SHA256, variant).files == facts["digest"]["files"]


def test_functions(kernel):
    """Everything in `tachyscope.ops` is listed in the kernel's __all__, from which kernel-builder writes the card."""
    functions = {name for name, f in vars(tachyscope.ops).items() if inspect.isfunction(f) and not name.startswith("_")}
    assert set(kernel.__all__) == functions | {"layers", "set_threads", "threads"}
    assert all(hasattr(kernel, name) for name in kernel.__all__)


def test_python(variant):
    """Python 3.9 understands the kernel's code, which imports nothing but the standard library, torch and itself."""
    for path in variant.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 9))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
            for name in names:
                assert name.split(".")[0] in {"torch", "numpy", *sys.stdlib_module_names}, f"{path}: {name}"


def test_libraries(variant):
    """Our libraries find everything they need in their own folder, except glibc and GCC's runtime."""
    for library in variant.glob("lib*tachy*.so"):
        said = subprocess.run(["ldd", library], capture_output=True, text=True, env={"PATH": os.environ["PATH"]}).stdout
        outside = [line.split()[0] for line in said.splitlines() if "=>" in line and f"=> {variant}/" not in line]
        usual = ("libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "libdl.so", "libpthread.so", "librt.so")
        assert "=>" in said and all(name.startswith(usual) for name in outside), said


def test_beside_the_package(kernel, variant):
    """The kernel has its own names in torch, its own library and its own threads, and gives the same bits as the package."""
    x, weight = torch.randn(3, 5, 17), torch.randn(17)
    assert torch.equal(kernel.rms_norm(x, weight), tachyscope.ops.rms_norm(x, weight))
    mine = getattr(torch.ops, json.loads((variant / "metadata.json").read_text())["id"])
    assert torch.equal(mine.rms_norm(x, weight, 1e-6, False), torch.ops.tachyscope.rms_norm(x, weight, 1e-6, False))
    assert mine.rms_norm is not torch.ops.tachyscope.rms_norm
    loaded = {line.split()[-1] for line in open("/proc/self/maps") if "tachy" in line}
    assert len([name for name in loaded if pathlib.Path(name).name.startswith(("libtachy_", "libtachyscope_ops"))]) == 2
    before = tachyscope.threads()
    try:
        kernel.set_threads(before + 1)
        assert kernel.threads() == before + 1 and tachyscope.threads() == before
    finally:
        kernel.set_threads(0)
    with pytest.raises(ValueError, match="set_threads: expected 0 to 1024, got -1"):
        kernel.set_threads(-1)
    with pytest.raises(TypeError, match="rms_norm: expected a tensor of torch first, got list"):
        kernel.rms_norm([1.0])


def test_other_builds(variant, tmp_path):
    """The same files give the same name, and different files give a different one."""
    package = pathlib.Path(tachyscope.__file__).parent
    assert json.loads((lay_out(tmp_path / "same") / "metadata.json").read_text()) == json.loads((variant / "metadata.json").read_text())
    changed = tmp_path / "tachyscope"
    changed.mkdir()
    for path in package.iterdir():
        if path.name != "__pycache__":
            (changed / path.name).symlink_to(path)
    (changed / "ops.py").unlink()
    (changed / "ops.py").write_text((package / "ops.py").read_text() + "\n")
    facts = json.loads((lay_out(tmp_path / "other", changed) / "metadata.json").read_text())
    assert facts["id"] != json.loads((variant / "metadata.json").read_text())["id"]


def all_layers(kernel):
    return [cls for _, cls in inspect.getmembers(kernel.layers, inspect.isclass) if issubclass(cls, nn.Module)]


def test_layers_are_pure(kernel):
    known = {name for name, _ in inspect.getmembers(nn.Module)}
    assert len(all_layers(kernel)) == 15
    for cls in all_layers(kernel):
        own = {name for name, _ in inspect.getmembers(cls)} - known
        assert cls.__init__ is nn.Module.__init__ and own <= {"can_torch_compile", "has_backward"}, cls


class Plain(nn.Module):
    """Makes a module from a function of tensors, for layers that stand for no library class."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def modules():
    """Returns for each layer's name a module that the layer stands for. The last dim is 24."""
    import diffusers.models.activations
    import diffusers.models.normalization
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
    from transformers.models.llama.modeling_llama import LlamaConfig, LlamaMLP, LlamaRMSNorm

    F, diffusion = nn.functional, diffusers.models.normalization
    halves = lambda function: Plain(lambda x: function(*x.chunk(2, -1)))  # noqa: E731
    yield "LlamaRMSNorm", LlamaRMSNorm(24)
    yield "GemmaRMSNorm", GemmaRMSNorm(24)
    yield "DiffusersRMSNorm", diffusion.RMSNorm(24, 1e-6, bias=True)
    yield "DiffusersRMSNorm", diffusion.RMSNorm(24, 1e-6, elementwise_affine=False)
    yield "RMSNorm", nn.RMSNorm(24)
    yield "RMSNorm", nn.RMSNorm((2, 24), elementwise_affine=False, eps=1e-3)
    yield "LayerNorm", nn.LayerNorm(24)
    yield "LayerNorm", nn.LayerNorm((2, 24), bias=False)
    yield "LayerNorm", diffusion.FP32LayerNorm(24)
    yield "Silu", nn.SiLU()
    yield "Mish", nn.Mish()
    yield "Gelu", nn.GELU()
    yield "GeluTanh", nn.GELU("tanh")
    yield "SiluAndMul", halves(lambda gate, up: F.silu(gate) * up)
    yield "MulAndSilu", halves(lambda up, gate: F.silu(gate) * up)
    yield "GeluAndMul", halves(lambda gate, up: F.gelu(gate) * up)
    yield "GeluTanhAndMul", halves(lambda gate, up: F.gelu(gate, approximate="tanh") * up)
    yield "SwiGLUMLP", LlamaMLP(LlamaConfig(hidden_size=24, intermediate_size=40, num_attention_heads=4))
    yield "GEGLU", diffusers.models.activations.GEGLU(24, 16)


def put_in(module, layer, name):
    """Calls kernelize if there is one, and otherwise does the same by hand."""
    if kernels is None:
        module.forward = types.MethodType(layer.forward, module)
        return

    class Repository:
        layer_name = name

        def load(self):
            return layer

    cls = type(type(module).__name__, (type(module),), {})  # a class of its own is marked, so that other modules stay as they are
    module.__class__ = cls
    kernels.replace_kernel_forward_from_hub(cls, name)
    with kernels.use_kernel_mapping({name: {"cpu": Repository()}}, inherit_mapping=False):
        kernels.kernelize(module, mode=kernels.Mode.TRAINING | kernels.Mode.TORCH_COMPILE, device="cpu", use_fallback=False)
    assert module.forward.__func__ is layer.forward


# In the last two the weights' dtype differs from that of the values.
DTYPES = [(torch.float32,) * 2, (torch.bfloat16,) * 2, (torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)]


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch warns that it has no fused kernel for the two dtypes
@pytest.mark.parametrize("dtype, weights", DTYPES, ids=str)
def test_layers(kernel, dtype, weights):
    torch.manual_seed(0)
    seen = set()
    for name, module in modules():
        seen.add(name)
        for parameter in module.parameters():
            nn.init.normal_(parameter)
        module.to(weights)
        x = torch.randn(3, 2, 24, dtype=dtype)
        try:
            expected = module(x)
        except RuntimeError:  # torch refuses the two dtypes
            assert dtype != weights
            continue
        put_in(module, getattr(kernel.layers, name), name)
        y = module(x)
        assert y.dtype == expected.dtype and y.shape == expected.shape, name
        narrow = torch.bfloat16 in (y.dtype, dtype, weights)
        assert (y - expected).abs().max() <= (1.6e-2 if narrow else 2e-6) * (expected.abs().max() + 1), name
    assert seen == {cls.__name__ for cls in all_layers(kernel)}


def test_llama_rounds_as_it_does(kernel):
    """In bfloat16 the norm's values are rounded twice; rounding once would give different bits."""
    torch.manual_seed(0)
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    module = LlamaRMSNorm(64).bfloat16()
    nn.init.normal_(module.weight)
    x = torch.randn(64, 64).bfloat16()
    expected, once = module(x), kernel.rms_norm(x, module.weight)
    put_in(module, kernel.layers.LlamaRMSNorm, "RMSNorm")
    assert (module(x) != expected).float().mean() < 1e-3 < (once != expected).float().mean()


def test_gradients_and_compile(kernel):
    x = torch.randn(4, 24, requires_grad=True)
    layer = kernel.layers.SiluAndMul()
    gate, up = x.chunk(2, -1)
    expected, = torch.autograd.grad((nn.functional.silu(gate) * up).square().sum(), x)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for call in (layer, compiled):
        mine, = torch.autograd.grad(call(x).square().sum(), x)
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)
