#!/usr/bin/env python3
"""Tests bench/gpu_all on a build folder of stand-ins: figures are read, and a part that fails, crashes, hangs or is missing is recorded while the
others continue.

    gpu_all_test.py PATH_OF_GPU_ALL"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

GPU_ALL = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(GPU_ALL.parent))
import gpu_parts  # noqa: E402


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def check_readers(folder):
    """Figures as the scripts of bench/peers write them."""
    forms = {"what": "dit-1.3b", "compiled_ms": 525.6, "compiled_fp8_ms": 498.0, "ours_ms": 345.2, "ours_eager_ms": 340.0, "ours_calls_alone_ms": 300.0, "ours_residual": "int8",
             "ours_fp8-int8_ms": 308.4, "ours_fp8-int8_eager_ms": 305.0, "ours_fp8-int8_residual": "fp8-int8", "sparse_ms": {"top-k 0.3": 233.1}}
    requests = {"1.3b-480": {"cold": {"whole": 2.67}, "warm": {"whole": 1.594}}, "vsa-14b": {"step": 3.368}}
    worlds = {"mg2": {"fps": 106.6}, "sf": {"failed": "left out: 3 s are left"}}
    for name, value in (("forms", forms), ("decode", {"ours_ms": 276.3, "ours_gib": 2.1}), ("requests", requests), ("worlds", worlds), ("attention", {"gpu": "a GPU", "tflops": [{}, {}]})):
        (folder / f"{name}.json").write_text(json.dumps(value))
    ok, _, text = gpu_parts.read_forms("forms.json")("", folder)
    assert ok and text == "int8 345.2 ms, fp8-int8 308.4 ms, sparse top-k 0.3 233.1 ms, diffusers compiled 525.6 ms, diffusers compiled_fp8 498.0 ms", text
    assert gpu_parts.read_forms("decode.json")("", folder)[::2] == (True, "8 bits 276.3 ms")
    (folder / "forms.json").write_text(json.dumps({"what": "dit-14b", "size": "480p", "480p": {"ours_ms": 2139.0, "ours_residual": "int8"}}))
    assert gpu_parts.read_forms("forms.json")("", folder)[::2] == (True, "int8 2139.0 ms")
    assert gpu_parts.read_requests("requests.json")("", folder)[::2] == (True, "1.3b-480 1.594 s, vsa-14b 10.104 s")
    assert gpu_parts.read_worlds("", folder)[::2] == (False, "mg2 106.6 frames a second, sf failed")
    assert gpu_parts.read_rates("", folder)[::2] == (True, "2 shapes")
    requests["14b-480"] = {"failed": "no room"}
    (folder / "requests.json").write_text(json.dumps(requests))
    assert gpu_parts.read_requests("requests.json")("", folder)[::2] == (False, "1.3b-480 1.594 s, vsa-14b 10.104 s, 14b-480 failed")


def module():
    loader = importlib.machinery.SourceFileLoader("gpu_all", str(GPU_ALL))
    gpu_all = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_all", loader))
    loader.exec_module(gpu_all)
    return gpu_all


def check_late(gpu_all, folder):
    """Where a part runs out of time, the report keeps the figures that it has written."""
    report = {"what": "decode", "ours_ms": 276.3}
    command = ["sh", "-c", f"echo '{json.dumps(report)}' > {folder}/late.json; exec sleep 60"]
    result = gpu_all.run_part(gpu_parts.Part("forms late", command, 1, gpu_parts.read_forms("late.json")), folder, 9)
    assert result["result"] == "failed" and result["figures"] == report and result["text"].endswith("until then: 8 bits 276.3 ms"), result


def check_cards(gpu_all):
    """Three cards share the parts: of those that write models one runs at a time, the checks are one part, and racecheck follows with all cards."""
    part = lambda name, **more: gpu_parts.Part(name, ["true"], 9, None, **more)
    alone = [part("short", usual=1), part("race", endings=[["a"], ["b"]], usual=300), part("pace", quiet=True, usual=300), part("long", usual=200),
             *(part(f"write {i}", writes=True, usual=i) for i in range(4))]
    lock, now, seen = threading.Lock(), set(), []

    def run(what, cards):
        name = "checks" if isinstance(what, list) else what.name
        with lock:
            now.add(name)
            seen.append((name, cards, set(now)))
        time.sleep(0.05)
        with lock:
            now.remove(name)
    checks, order = [part("doctor"), part("validate")], ["write 3", "write 2", "write 1", "write 0", "long", "checks", "short", "pace", "race"]
    gpu_all.run_on_cards(checks, alone, ["4"], run, run)
    assert [name for name, _, _ in seen] == order, seen
    seen.clear()
    gpu_all.run_on_cards(checks, alone, ["4", "5", "6"], run, run)
    names = [name for name, _, _ in seen]
    assert sorted(names) == sorted(order) and [name for name in names if "write" in name] == order[:4], seen
    assert all(sum("write" in name for name in beside) <= 1 for _, _, beside in seen), seen
    assert [(name, cards, beside) for name, cards, beside in seen[-2:]] == [("pace", ["4"], {"pace"}), ("race", ["4", "5", "6"], {"race"})], seen


def main():
    check_cards(module())
    with tempfile.TemporaryDirectory() as name:
        check_readers(pathlib.Path(name))
        check_late(module(), pathlib.Path(name))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build = folder / "build"
        ops = build / "tests/unit/ops/op_runner"
        program(ops, '[ "$1" = --list ] && { echo gemm; echo rope; echo gemm; exit 0; }\ncase "$*" in *f16*) [ "${*#*bf16}" = "$*" ] && { echo "FAILED  ref gemm:1:x max 2"; echo "9 passed, 1 skipped, 1 failed"; exit 1; } ;; *f32*) kill -SEGV $$ ;; esac\n'
                     'echo "12 passed, 3 skipped, 0 failed"\n')
        program(build / "tests/unit/inspect/inspect_gpu_test", '# OnGpu\necho "[       OK ] OnGpu.A (1 ms)"\nexec sleep 30\n')
        program(build / "tests/unit/base/base_test", "exit 1\n")  # this test has nothing to do on a GPU
        doctor = {"gpu": {"name": "a GPU"}, "ops": [{"op": "gemm", "implementation": "cublaslt", "self_test": "ok"}]}
        checks = {"checks": [{"kind": "frame", "name": "f", "result": "ok", "psnr": 50.5, "detail": ""},
                             {"kind": "stage", "name": "s", "result": "ok", "max": 1e-3, "mean": 1e-4, "bound": 1e-2, "detail": "acceptance of 0.01 and 0.001: met"}]}
        program(folder / "bin/compute-sanitizer", 'echo "no device"; exit 1\n')
        race = ('case "$*" in *rope:*) echo "op_runner: --op: no case matches" >&2; echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"; exit 2 ;; esac\n'
                'echo "========= Error: Race reported between Write access at void tachy::norm<float, 4>(tachy::Args<float>)+0x1b0 and Read access at void tachy::norm<float, 4>(tachy::Args<float>)+0x2c0 [8 hazards]"\n'
                'echo "3 passed, 0 skipped, 0 failed"; echo "========= RACECHECK SUMMARY: 1 hazards displayed (1 errors, 0 warnings)"\n')
        report = {"lines": [{"id": "model:step 1x1x1", "median_us": 1500}], "gpu": {"copy_gb_per_s": 4000, "matmul_gflops": 700000}}
        program(build / "tachyscope", f"case \"$1\" in doctor) echo '{json.dumps(doctor)}' ;; validate) echo '{json.dumps(checks)}' ;; bench) for last; do :; done; echo '{json.dumps(report)}' > \"$last\" ;; esac\n")
        out = folder / "out/all.json"
        skip = ["racecheck", "peers decode", "peers encode", "peers norms", "peers backward", "peers dit-14b"]
        command = [sys.executable, str(GPU_ALL), str(build), "--out", str(out), "--budget", "6", "--commit", "abc", "--skip", *skip]
        plan = subprocess.run([*command, "--plan"], capture_output=True, text=True)
        assert plan.returncode == 1 and "ours_gpu" in plan.stdout and not out.exists(), plan.stdout
        programs = subprocess.run([*command, "--programs"], capture_output=True, text=True).stdout.split()
        assert programs == sorted(map(str, (ops, build / "tests/unit/inspect/inspect_gpu_test", build / "tachyscope"))), programs
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})
        assert done.returncode == 1, done.stdout + done.stderr
        baseline = json.loads(out.read_text())
        parts = {part["name"]: part for part in baseline["parts"]}
        expected = {"ops bf16": "ok", "ops f16": "failed", "ops f32": "failed", "ops bf16, group norms of real size": "ok", "ops bf16, products of real size": "ok", "judge": "left out", "tests inspect_gpu_test": "failed",
                    "memcheck": "not here", "doctor": "ok", "validate bf16": "ok", "validate f32": "ok", "bench": "left out", "repetitions": "left out", "peers dit-1.3b 480p": "left out"}
        assert {name: part["result"] for name, part in parts.items()} == expected, done.stdout
        assert parts["ops f16"]["figures"]["failures"], parts["ops f16"]
        assert "signal" in parts["ops f32"]["text"] or "summary" in parts["ops f32"]["text"], parts["ops f32"]
        assert "out of time" in parts["tests inspect_gpu_test"]["text"], parts
        assert parts["validate bf16"]["figures"]["lowest_psnr"] == 50.5 and parts["validate bf16"]["figures"]["acceptance_met"] == ["s"]
        assert baseline["commit"] == "abc" and baseline["date"].endswith("UTC")
        assert str(folder) not in out.read_text(), "no paths of this machine"
        done = subprocess.run([*command[:-1 - len(skip)], "--budget", "60", "--budget", "200", "--only", "bench", "peers dit-1.3b"], capture_output=True, text=True)
        parts = {part["name"]: part for part in json.loads(out.read_text())["parts"]}
        assert parts["bench"]["result"] == "ok" and parts["bench"]["figures"] == report, done.stdout
        assert parts["peers dit-1.3b 480p"]["result"] == "failed" and "ours_gpu" in parts["peers dit-1.3b 480p"]["text"], parts
        # With several cards the checks share one, and each part says where it ran.
        (folder / "cards").mkdir()
        noted = f"echo $CUDA_VISIBLE_DEVICES > {folder}/cards/$1\n"
        program(build / "tachyscope", noted + (build / "tachyscope").read_text().split("\n", 1)[1])
        done = subprocess.run([*command[:-1 - len(skip)], "--budget", "200", "--cards", "3", "--only", "bench", "doctor", "validate", "peers dit-1.3b"], capture_output=True, text=True,
                              env={key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"})
        parts = {part["name"]: part for part in json.loads(out.read_text())["parts"]}
        assert {name: part["result"] for name, part in parts.items()} == {"doctor": "ok", "validate bf16": "ok", "validate f32": "ok", "bench": "ok", "peers dit-1.3b 480p": "failed"}, done.stdout
        assert parts["doctor"]["card"] == parts["validate bf16"]["card"] and {parts["bench"]["card"], parts["doctor"]["card"], parts["peers dit-1.3b 480p"]["card"]} <= {"0", "1", "2"}, parts
        assert (folder / "cards/doctor").read_text().strip() == parts["doctor"]["card"] and (folder / "cards/bench").read_text().strip() == parts["bench"]["card"]
        # --rest runs what is not there or failed.
        rest = subprocess.run([*command[:-1 - len(skip)], "--budget", "200", "--rest", "--set", "stages", "whole", "--only", "bench", "doctor", "peers dit-1.3b", "encoder"], capture_output=True, text=True)
        after = {part["name"]: part for part in json.loads(out.read_text())["parts"]}
        assert {name: part["result"] for name, part in after.items()} == {**{name: part["result"] for name, part in parts.items()}, "encoder's pace": "failed"}, rest.stdout
        assert after["bench"] == parts["bench"] and [line.split("] ")[1].split(":")[0] for line in rest.stdout.splitlines() if "s] " in line] == ["peers dit-1.3b 480p", "encoder's pace"], rest.stdout
        refused = subprocess.run([*command[:-1 - len(skip)], "--cards", "3"], capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": "4,6"})
        assert refused.returncode == 2 and "2 can be used here (got 3)" in refused.stderr, refused.stderr
        stored = folder / "out/stored.json"
        stored.write_text(out.read_text())
        program(folder / "bin/compute-sanitizer", race)
        raced = subprocess.run([*command[:-1 - len(skip)], "--budget", "60", "--only", "racecheck"], capture_output=True, text=True, env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})
        part = json.loads(out.read_text())["parts"][0]
        assert part["result"] == "failed" and part["figures"]["reports"] == 1 and part["figures"]["cases_passed"] == 3, (part, raced.stdout)
        assert part["figures"]["kernels"] == ["tachy::norm"] and "Write access" in part["figures"]["samples"][0], part
        # Races in the libraries' own kernels pass; if one of ours is among them they fail.
        theirs = race.replace("tachy::norm", "cudnn_sdpa").replace("tachy::", "")
        for text, expected in ((theirs, "ok"), (theirs.replace("Read access at void cudnn_sdpa", "Read access at void tachy::norm"), "failed")):
            program(folder / "bin/compute-sanitizer", text)
            subprocess.run([*command[:-1 - len(skip)], "--budget", "60", "--only", "racecheck"], capture_output=True, text=True, env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})
            part = json.loads(out.read_text())["parts"][0]
            assert part["result"] == expected and part["figures"]["reports"] == 1 and ("libraries" in part["text"]) == (expected == "ok"), part
        # Where one op runs out of time, the report keeps what the tool said of the others.
        program(folder / "bin/compute-sanitizer", 'case "$*" in *rope:*) exec sleep 60 ;; esac\necho "3 passed"; echo "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"\n')
        subprocess.run([*command[:-1 - len(skip)], "--budget", "18", "--only", "racecheck"], capture_output=True, text=True, env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})
        part = json.loads(out.read_text())["parts"][0]
        assert part["result"] == "failed" and part["text"].startswith("1 of 2 ran out of time") and part["figures"]["late"] == ["op rope:"], part
        assert part["figures"]["cases_passed"] == 3 and list(part["figures"]["slowest_s"]) == ["op gemm:"], part
        # A later run is compared with this one: the stand-in's `compare` reports its one line as slower.
        verdict = {"lines": [{"id": "model:step 1x1x1", "verdict": "slower", "before_us": 1500, "after_us": 1800, "change": 0.2}]}
        program(build / "tachyscope", (build / "tachyscope").read_text().split("\n", 1)[1].replace("bench)", f"compare) echo '{json.dumps(verdict)}' ;; bench)", 1))
        later = subprocess.run([*command[:-1 - len(skip)], "--budget", "60", "--only", "bench", "--compare", str(stored)], capture_output=True, text=True)
        assert "slower  model:step 1x1x1: 1500.0 -> 1800.0 us (+20.0 %)" in later.stdout and later.returncode == 0, later.stdout + later.stderr
        assert [line.split()[0] for line in done.stdout.rstrip().splitlines()[-2:]] == ["failed", "ok"], "the table comes last"
        # A run that is ended keeps what it has, and leaves nothing running.
        program(folder / "hangs", f"echo $$ >> {folder}/hanging; exec sleep 60\n")
        program(build / "tests/unit/inspect/inspect_gpu_test", f"# OnGpu\ntouch $TMPDIR/model; echo $TMPDIR > {folder}/temporary\nexec {folder}/hangs\n")
        for cards in ("1", "2"):
            (folder / "hanging").unlink(missing_ok=True)
            ended = subprocess.Popen([*command[:-1 - len(skip)], "--budget", "200", "--cards", cards, "--only", "doctor", "tests inspect"], stdout=subprocess.PIPE, text=True)
            assert "doctor: ok" in ended.stdout.readline(), cards
            while not (folder / "hanging").exists() or not (folder / "hanging").read_text().endswith("\n"):
                time.sleep(0.05)
            begin = time.time()
            ended.send_signal(signal.SIGTERM)
            assert ended.wait(timeout=20) == 128 + signal.SIGTERM and time.time() - begin < 10, cards
            assert not pathlib.Path("/proc", (folder / "hanging").read_text().strip()).exists(), cards
            assert [part["name"] for part in json.loads(out.read_text())["parts"]] == ["doctor"], cards
            assert not pathlib.Path((folder / "temporary").read_text().strip()).exists(), cards


main()
print("gpu_all: as expected")
