"""Runs the scripts of examples/python with --tiny in float32: they replace what they say, and the results stay the same."""

import json
import os
import pathlib
import runpy
import subprocess
import sys

import pytest
import torch

import tachyscope
from conftest import DEVICE, no_default_device

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Runs a script as a program would, in this process, and gives its record and what it printed."""
    threads, cudnn = (torch.get_num_threads(), tachyscope.threads()), torch.backends.cudnn
    flags = cudnn.benchmark, cudnn.allow_tf32  # benchmark_vae sets these
    torch.set_num_threads(1)
    tachyscope.set_threads(1)
    monkeypatch.syspath_prepend(str(FOLDER))

    def call(name, *arguments):
        record = tmp_path / "record.json"
        options = ["--tiny", "--device", DEVICE, "--dtype", "float32", "--json", str(record)]
        monkeypatch.setattr(sys, "argv", [name, *options, *arguments])
        with no_default_device():
            runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return json.loads(record.read_text()), capsys.readouterr().out

    yield call
    torch.set_num_threads(threads[0])
    tachyscope.set_threads(threads[1])
    cudnn.benchmark, cudnn.allow_tf32 = flags
    sys.modules.pop("common", None)


def check_video(facts, runs):
    assert facts["dtype"] == "float32" and facts["device_name"]
    assert len(facts["runs"]) == runs and all(r["iterations_per_second"] > 0 for r in facts["runs"])


@pytest.mark.parametrize("way, replaced", [([], 20), (["--by-hand"], 4)])
def test_ltx(run, way, replaced):
    facts, text = run("ltx_kernel_injection_example", *way)
    check_video(facts, 2)
    assert facts["replaced"] == replaced and facts["restored"] is True
    assert 0 < facts["difference"] < 1e-5, "other kernels, the same latents"
    assert "plain: " in text and "with kernels: " in text


@pytest.mark.parametrize("way, replaced", [([], 11), (["--by-hand"], 5)])
def test_transformers(run, way, replaced):
    facts, _ = run("transformers_injection_example", *way)
    assert facts["replaced"] == replaced and facts["same_tokens"] is True
    assert 0 < facts["difference"] < 1e-5
    assert all(r["prefill_seconds"] > 0 and r["tokens_per_second"] > 0 for r in facts["runs"])


def test_benchmark(run):
    facts, text = run("benchmark_example")
    check_video(facts, 2)
    assert [r["replaced"] for r in facts["runs"]] == [0, 20]
    assert 0 < facts["difference"] < 1e-5 and "as fast with kernels" in text
    assert run("benchmark_example", "--no-optimized-kernels")[0]["runs"][0]["replaced"] == 0


@pytest.mark.parametrize("family", ["ltx", "wan"])
def test_benchmark_of_a_batch(run, family, monkeypatch):
    """Three videos go through the transformer at once, and the record says so."""
    from diffusers import LTXVideoTransformer3DModel, WanTransformer3DModel

    model, seen = {"ltx": LTXVideoTransformer3DModel, "wan": WanTransformer3DModel}[family], []
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda self, hidden_states, *args, **more: seen.append(len(hidden_states)) or
                        forward(self, hidden_states, *args, **more))
    facts, text = run("benchmark_example", "--batch-size", "3", "--family", family)
    check_video(facts, 2)
    assert set(seen) == {6 if family == "ltx" else 3}, "LTX-Video's pipeline guides in one pass"
    assert facts["batch_size"] == 3 and [r["videos"] for r in facts["runs"]] == [3, 3]
    for record in facts["runs"]:
        assert record["seconds_per_step_and_video"] == pytest.approx(record["seconds_per_step"] / 3)
    assert 0 < facts["difference"] < 1e-5 and "batch 3" in text and "for each of 3 videos" in text


@pytest.mark.parametrize("script", ["benchmark_example", "generate_video", "ltx_kernel_injection_example"])
@pytest.mark.parametrize("size", ["0", "-1", "1.5", "two", ""])
def test_refused_batch_sizes(run, script, size, capsys):
    with pytest.raises(SystemExit) as stop:
        run(script, f"--batch-size={size}")
    assert stop.value.code == 2
    assert f"argument --batch-size: expected a whole number of at least 1, got {size}" in capsys.readouterr().err


def test_benchmark_compiled(run):
    """The script runs with kernels and torch.compile together."""
    facts, text = run("benchmark_example", "--use-optimized-kernels", "--compile", "--compile-backend", "aot_eager",
                      "--family", "wan")
    check_video(facts, 1)
    assert facts["runs"][0]["replaced"] == 22 and "with kernels and compiled: " in text


def test_rmsnorm(run):
    facts, _ = run("benchmark_rmsnorm")
    assert len(facts["runs"]) == 2
    for record in facts["runs"]:
        assert set(record["seconds"]) == {"composed", "torch", "tachyscope"}
        assert record["error"]["tachyscope"] < 1e-6


def test_attention(run):
    facts, text = run("benchmark_attention", "--causal")
    assert [record["tokens"] for record in facts["runs"]] == [16, 32]
    for record in facts["runs"]:
        assert all(record["seconds"].values()) and max(record["error"].values()) < (1e-6 if DEVICE == "cpu" else 5e-6)
    assert "x eager" in text


def test_vae(run):
    facts, _ = run("benchmark_vae")
    e4m3 = DEVICE == "cpu" or torch.cuda.get_device_capability() >= (8, 9)
    assert len(facts["runs"]) == 6 + e4m3
    for record in facts["runs"]:
        assert all(record["seconds"].values())
        assert max(record["apart"]) < (5e-2 if "mixed" in record["name"] else 1e-5), record


def test_some_ways_of_the_vae(run):
    facts, _ = run("benchmark_vae", "--ways", "ours, mixed, channels")
    assert [record["name"] for record in facts["runs"]] == ["PyTorch, float32", "ours, mixed, channels last"]


def test_a_step_of_fine_tuning(monkeypatch, tmp_path):
    """bench/peers/fine_tuning.py on a model of a few parameters: it fails where losses of ours are farther from torch's than two roundings."""
    peers = FOLDER.parents[1] / "bench/peers"
    monkeypatch.syspath_prepend(str(peers))
    record = tmp_path / "record.json"
    monkeypatch.setattr(sys, "argv", ["fine_tuning", "--tiny", "--steps", "4", "--device", DEVICE, "--json", str(record)])
    with no_default_device():
        runpy.run_path(str(peers / "fine_tuning.py"), run_name="__main__")
    runs = json.loads(record.read_text())["runs"]
    assert [r["variant"] for r in runs] == ["torch", "torch, nudged", "ours", "ours, ops.lora"] and all(r["ms"] > 0 for r in runs)
    assert all(abs(r["losses"][0] - runs[0]["losses"][0]) < 1e-2 and len(r["losses"]) == 4 for r in runs)
    sys.modules.pop("python_models", None)


def test_ops(run):
    facts, text = run("benchmark_ops")
    names = [record["name"] for record in facts["runs"]]
    assert len(names) == 20 and all(record["agrees"] for record in facts["runs"]) and "DIFFERS" not in text
    assert all(min(record["seconds"].values()) > 0 for record in facts["runs"])
    assert [r["name"] for r in run("benchmark_ops", "--op", "lora")[0]["runs"]] == ["lora of one", "lora of four"]


@pytest.mark.parametrize("more", [[], ["--use-amp", "--compile", "--compile-backend", "aot_eager"]], ids=["", "mixed, compiled"])
def test_train_vae(run, more, tmp_path):
    torch.compiler.reset()
    facts, text = run("train_vae_example", *more, "--output", str(tmp_path / "vae.pt"))
    check_video(facts, 2)
    theirs, ours = (r["losses"] for r in facts["runs"])
    assert len(theirs) == 6 and facts["difference"] == pytest.approx(max(abs(a - b) for a, b in zip(theirs, ours)) / max(theirs))
    assert abs(theirs[0] - ours[0]) < (1e-2 if more else 1e-5), "one step's loss"
    assert facts["difference"] < 2e-2, "Adam makes whole steps of the smallest gradients, so roundings grow"
    assert "the loss curves are" in text
    weights = torch.load(tmp_path / "vae.pt", weights_only=True)
    tachyscope.vae.create_wan2_1_vae(16, base=4).load_state_dict(weights)


@pytest.mark.parametrize("suffix", ["npy", "gif"])
def test_generate_video(run, tmp_path, suffix):
    path = tmp_path / f"video.{suffix}"
    facts, text = run("generate_video", "--compare" if suffix == "npy" else "--no-optimized-kernels", "--output", str(path))
    check_video(facts, 2 if suffix == "npy" else 1)
    assert path.stat().st_size > 0 and "9 frames of 32x32" in text
    if suffix == "npy":
        import numpy
        assert numpy.load(path).shape == (9, 32, 32, 3) and 0 <= facts["difference"] < 1e-4 and facts["replaced"] > 22


def test_generate_videos(run, tmp_path):
    """A batch gives one file for each video. The first has the frames of a batch of one; the second differs."""
    import numpy

    run("generate_video", "--output", str(tmp_path / "one.npy"))
    facts, text = run("generate_video", "--compare", "--batch-size", "2", "--output", str(tmp_path / "clip.npy"))
    check_video(facts, 2)
    assert facts["batch_size"] == 2 and 0 <= facts["difference"] < 1e-4 and "s for 2 videos" in text
    assert {path.name for path in tmp_path.glob("*.npy")} == {"one.npy", "clip-1.npy", "clip-2.npy"}
    alone, first, second = (numpy.load(tmp_path / f"{name}.npy") for name in ("one", "clip-1", "clip-2"))
    assert first.shape == second.shape == alone.shape == (9, 32, 32, 3)
    assert abs(first - alone).max() < 1e-4 and abs(second - first).max() > 1e-2


def test_defaults(monkeypatch):
    """The defaults are the sizes that people know from other scripts of this kind."""
    monkeypatch.syspath_prepend(str(FOLDER))
    common = runpy.run_path(str(FOLDER / "common.py"))
    args = common["options"]("").parse_args([])
    assert (args.num_frames, args.height, args.width, args.steps, args.warmup_iterations) == (161, 512, 768, 50, 2)
    assert args.batch_size == 1


@pytest.mark.cpu
def test_huggingface_kernels(tmp_path):
    """Runs the example in a process of its own, since the class of transformers stays marked for
    kernelize."""
    pytest.importorskip("kernels")
    record = tmp_path / "record.json"
    subprocess.run([sys.executable, FOLDER / "huggingface_kernels_example.py", "--tiny", "--json", record], check=True)
    facts = json.loads(record.read_text())
    assert facts["replaced"] == 5 and facts["error"] < 1e-6
    assert 0 < facts["difference"] < 1e-5, "other kernels, the same logits"


def get_kernel_example(tmp_path, *arguments):
    """Runs the example in a process of its own, since `kernels` reads LOCAL_KERNELS only once, and without a network."""
    record = tmp_path / "record.json"
    done = subprocess.run([sys.executable, FOLDER / "get_kernel_example.py", "--tiny", "--dtype", "float32", "--json", record, *arguments],
                          capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path)})
    return done, json.loads(record.read_text()) if done.returncode == 0 else None


@pytest.mark.cpu
def test_get_kernel(tmp_path):
    pytest.importorskip("kernels")
    done, facts = get_kernel_example(tmp_path)
    assert done.returncode == 0, done.stderr
    assert facts["found"] is True and "loaded as _tachyscope_cpu_" in done.stdout and "from torch-stable-abi" in done.stdout
    assert 0 < facts["difference"] < 1e-6, "another kernel, the same values"
    assert [r["name"] for r in facts["runs"]] == ["PyTorch", "the kernel"]
    assert all(r["iterations_per_second"] > 0 for r in facts["runs"]) and " it/s" in done.stdout


@pytest.mark.cpu
def test_no_kernel(tmp_path):
    """If there is no build for this machine, PyTorch's function stands in. A wrong folder is an error, and so is a kernel that the hub does not
    deliver."""
    pytest.importorskip("kernels")
    (tmp_path / "build" / "torch-stable-abi210-cpu-riscv64-linux").mkdir(parents=True)
    done, facts = get_kernel_example(tmp_path, "--local", tmp_path)
    assert done.returncode == 0, done.stderr
    assert facts["found"] is False and facts["difference"] == 0 and "has no build for this machine" in done.stdout
    done, _ = get_kernel_example(tmp_path, "--local", tmp_path / "nothing")
    assert done.returncode == 2 and "--local: expected a folder, got" in done.stderr
    done, _ = get_kernel_example(tmp_path, "--hub")
    assert done.returncode == 1 and "is not available in the local cache" in done.stderr and "Traceback" not in done.stderr
