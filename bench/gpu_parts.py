"""The parts of bench/gpu_all: their commands, and what is read from their output."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Part:
    """One command, or the command with each of `endings`, some at the same time. It takes `usual` seconds on an H200, at most `limit`.
    `read(stdout, folder)` gives (ok or None, figures, one line for the table)."""

    def __init__(self, name, command, limit, read, group="", needs=None, optional=False, endings=None, usual=0, quiet=False, writes=False):
        self.name, self.command, self.limit, self.read, self.group = name, [str(word) for word in command], limit, read, group
        self.endings, self.usual = endings or [[]], usual
        self.optional = optional  # a tool that a machine may lack
        self.quiet = quiet  # it measures the host, which must do nothing else
        self.writes = writes  # it writes large models before it begins
        self.needs = needs or self.command[:1]

    def missing(self):
        return [need for need in self.needs if not (shutil.which(need) or pathlib.Path(need).exists())]


def read_op_runner(out, _):
    found = re.search(r"(\d+) passed, (\d+) skipped, (\d+) failed", out)
    if not found:
        return False, {}, "no summary"
    passed, skipped, failed = map(int, found.groups())
    failures = [line.split(None, 1)[1] for line in out.splitlines() if line.startswith("FAILED")]
    figures = {"passed": passed, "skipped": skipped, "failed": failed, "failures": failures[:20]}
    return failed == 0 and passed > 0, figures, f"{passed} passed, {failed} failed, {skipped} not for this case"


def read_gtest(out, _):
    passed, failed = len(re.findall(r"^\[       OK \]", out, re.M)), sorted(set(re.findall(r"^\[  FAILED  \] ([\w/.]+)", out, re.M)))
    skipped = len(re.findall(r"^\[  SKIPPED \] .*\(\d+ ms\)", out, re.M))
    return not failed and passed > 0, {"passed": passed, "skipped": skipped, "failed": failed}, f"{passed} passed, {len(failed)} failed, {skipped} skipped"


def read_sanitizer(out, _):
    counts = [int(count) for pair in re.findall(r"ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards?", out) for count in pair if count]
    passed = sum(int(count) for count in re.findall(r"(\d+) passed", out))
    # "Race reported between Write access at void tachy::kernel<…>(…)+0x1b0 and Read access at …", "… at 0x1b0 in kernel(…)"
    names = re.findall(r" at ((?:void )?[A-Za-z_][^\n+]*)\+0x", out) + re.findall(r" at 0x[0-9a-f]+ in ([^\n]+)", out)
    kernels = sorted({re.sub(r"<.*|\(.*|.*:(?=\w+\()", "", name.replace("void ", "")) for name in names})
    lines = [line[:300] for line in out.splitlines() if re.search(r"Race reported|Invalid __|Potential ", line)]
    ours = [kernel for kernel in kernels if kernel.startswith("tachy::")]
    samples = [line for kernel in ours for line in [line for line in lines if kernel in line][:3]] or lines[:6]
    figures = {"reports": sum(counts) if counts else None, "cases_passed": passed, "kernels": kernels, "samples": samples}
    if not counts:
        return False, figures, "no summary: the tool does not work here"
    # cuDNN's own kernels pass data in ways that the tool does not know. If a report names one of our kernels, the part fails.
    libraries = sum(counts) > 0 and bool(kernels) and "tachy::" not in out
    text = f"{sum(counts)} reports over {passed} checks" + (": in kernels of the libraries only" if libraries else f": {', '.join(ours or kernels)}" if kernels else "")
    return (sum(counts) == 0 or libraries) and passed > 0, figures, text


def json_of(out):
    if "{" not in out:
        raise ValueError(f"no JSON: {(out.strip().splitlines() or ['no output'])[-1]}")
    return json.loads(out[out.index("{"):])


def read_doctor(out, _):
    report = json_of(out)
    failed = [op["op"] for op in report["ops"] if op["self_test"] != "ok"]
    figures = {"gpu": report["gpu"], "self_test_seconds": report.get("self_test_seconds"), "uses": {op["op"]: op["implementation"] for op in report["ops"]}, "failed": failed}
    return not failed, figures, f"{len(report['ops'])} ops, {len(failed)} fail; {report['gpu']['name']}"


def read_validate(out, _):
    checks = json_of(out)["checks"]
    failed = [check["name"] for check in checks if check["result"] == "failed"]
    psnr = [check["psnr"] for check in checks if "psnr" in check]
    met = [check for check in checks if "acceptance" in check["detail"]]
    figures = {"checks": len(checks), "failed": failed, "lowest_psnr": min(psnr, default=None),
               "stages": {check["name"]: {"max": check["max"], "mean": check["mean"], "bound": check["bound"]} for check in checks if check["kind"] in ("stage", "latents")},
               "acceptance_met": [check["name"] for check in met if "not met" not in check["detail"]],
               "acceptance_not_met": [check["name"] for check in met if "not met" in check["detail"]]}
    lowest = f", frames from {figures['lowest_psnr']:.1f} dB" if psnr else ""
    return not failed, figures, f"{len(checks) - len(failed)} of {len(checks)} checks{lowest}"


def read_bench(_, folder):
    report = json.loads((folder / "bench.json").read_text())
    step = next((line for line in report["lines"] if line["id"].startswith("model:step")), None)
    gpu = report["gpu"]
    text = f"{len(report['lines'])} lines; copy {gpu['copy_gb_per_s'] / 1000:.2f} TB/s, product {gpu['matmul_gflops'] / 1000:.0f} TFLOP/s"
    if step:
        text += f", step {step['median_us'] / 1000:.2f} ms"
    return bool(report["lines"]), report, text


def peers_reader(file):
    def read(_, folder):
        figures = json.loads((folder / file).read_text())
        ours, best = figures.get("ours_ms"), figures.get("compiled_ms") or figures.get("eager_ms")
        if not ours:
            return False, figures, "no time of ours"
        return True, figures, f"ours {ours:.1f} ms, diffusers {best:.1f} ms ({'compiled' if figures.get('compiled_ms') else 'eager'}): {best / ours:.2f}x"
    return read


def read_norms(_, folder):
    us = json.loads((folder / "norms.json").read_text())["us"]
    ratios = [min(time for peer, time in row.items() if peer != "ours") / row["ours"] for row in us.values()]
    return True, us, f"{len(ratios)} shapes, the best peer's time over ours {min(ratios):.2f} to {max(ratios):.2f}"


def read_pace(_, folder):
    rows = json.loads((folder / "pace.json").read_text())
    worst = {content: max(row["after_last_s"] for row in rows if row["content"] == content) for content in ("film", "noise")}
    good = all(row["same_bytes"] and row["after_last_s"] <= row["asked_s"] for row in rows)
    return good, rows, f"complete after the last frame: film up to {worst['film']:.2f} s, noise {worst['noise']:.2f} s"


def whole_reader(row):
    def read(_, folder):
        figures = json.loads((folder / f"whole-{row}.json").read_text())[row]
        ours = min(run["whole_s"] for run in figures["ours"])
        peer = figures.get("diffusers")
        text = f"ours {ours:.1f} s" + (f", diffusers {peer['warm_s']:.1f} s warm with export, {peer['cold_s']:.1f} s cold" if peer else "")
        return True, figures, text
    return read


def make_whole_parts(build, folder):
    parts = []
    pace = build / "bench/lab/lab_encode_pace"
    shipped = ROOT / "models/sprites/transformer/diffusion_pytorch_model.safetensors"  # makes the film
    parts.append(Part("encoder's pace", [sys.executable, ROOT / "bench/peers/encode.py", build, "--rounds", "2", "--json", folder / "pace.json"], 120, read_pace, needs=[pace, shipped], usual=25, quiet=True))
    models = folder / "models"  # the text encoder is made once
    for row, limit, usual in (("1.3b", 260, 130), ("5b", 260, 130)):
        command = [sys.executable, ROOT / "bench/peers/whole.py", build / "tachyscope", "--rows", row, "--models", models, "--json", folder / f"whole-{row}.json"]
        parts.append(Part(f"whole {row}", command, limit, whole_reader(row), needs=[build / "tachyscope"], usual=usual, writes=True))
    for name, what, size, more, limit, usual in (("decode 704p, Wan 2.2", "decode", "704p", ["--vae", "2.2"], 300, 200), ("decode 480p compiled", "decode", "480p", [], 240, 130)):
        file = f"{name.split(',')[0].replace(' ', '-')}.json"
        command = [sys.executable, ROOT / "bench/peers/gpu.py", build / "bench/peers/ours_gpu", "--what", what, "--size", size, "--compile", "--repeats", "3", "--json", folder / file, *more]
        parts.append(Part(f"peers {name}", command, limit, peers_reader(file), needs=[build / "bench/peers/ours_gpu"], usual=usual))
    return parts


def read_backward(out, _):
    times = {name: float(value) / (1 if unit == "us" else 1e-3) for name, value, unit in re.findall(r"^(.+?):? ([\d.]+) (us|ms), [\d.]+ T", out, re.M)}
    return bool(times), {"torch_us": times}, f"{len(times)} of torch's backward passes timed; ours are bench's lines *_backward"


def read_judge(out, _):
    found = re.search(r"^engine: (\{.*\}) (\d+) s$", out, re.M)
    if not found:
        return False, {}, "no score"
    table = json.loads(found.group(1))
    return "0 failed" in out, table, f"{table['all']:.2f} % of all attributes right"


def read_repetitions(_, folder):
    figures = json.loads((folder / "repetitions.json").read_text())
    text = f"{figures['repetitions']} in {figures['processes']} processes, {figures['different']} differ, {figures['verified']} verified, {figures['traced']} traced"
    return figures["failed"] == 0 and figures["repetitions"] > 0, figures, text


def make_parts(build, folder, budget):
    ops, tachyscope = build / "tests/unit/ops/op_runner", build / "tachyscope"
    parts = []
    for dtype in ("bf16", "f16", "f32"):
        command = [ops, "--device", "cuda", "--dtype", dtype, "--kinds", "tiny,odd", "--modes", "ref,bitwise,canary,capture", "--summary"]
        parts.append(Part(f"ops {dtype}", command, 90, read_op_runner, "checks"))
    command = [ops, "--device", "cuda", "--dtype", "bf16", "--kinds", "real", "--modes", "ref", "--op", "group_norm:", "--summary"]
    parts.append(Part("ops bf16, group norms of real size", command, 60, read_op_runner, "checks"))  # tiny cases miss its shared-memory ring
    command = [ops, "--device", "cuda", "--dtype", "bf16", "--kinds", "real,video", "--modes", "ref,capture", "--op", "gemm:", "--summary"]
    parts.append(Part("ops bf16, products of real size", command, 90, read_op_runner, "checks"))
    for test in sorted(build.glob("tests/unit/*/*_test")):
        if b"OnGpu" in test.read_bytes():
            alone = test.name == "gpu_run_test"  # it fills the GPU's memory, and launches thousands of blocks
            parts.append(Part(f"tests {test.name}", [test, "--gtest_filter=*OnGpu*"], 150 if alone else 120, read_gtest, "" if alone else "checks", usual=90 if alone else 0))
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    cases = words_of([str(ops), "--cases"]).split("\n")
    names = dict.fromkeys(words_of([str(ops), "--list"]).split("\n"))
    counts = {op: sum(case.startswith(f"{op}:") for case in cases) for op in names if re.fullmatch(r"[a-z0-9_]+", op)}
    by_op = []  # about 20 cases go into one process; ops with the most cases begin first, since attention's take longest
    for op, count in sorted(counts.items(), key=lambda pair: -pair[1]):
        shares = 1 + count // 20
        by_op += [["--op", f"{op}:", *(["--share", f"{i}/{shares}"] if shares > 1 else [])] for i in range(shares)]
    for tool in ("memcheck", "racecheck"):
        command = [sanitizer, "--tool", tool, ops, "--device", "cuda", "--dtype", "bf16", "--kinds", "tiny", "--modes", "canary", "--summary"]
        if tool == "racecheck":  # far slower than memcheck; almost every kernel has smaller cases. It cannot judge the libraries' own kernels
            command += ["--max-mflop", "200", "--without", "cudnn,cudnn_any,cublaslt"]
        # Beside racecheck everything else takes three times as long.
        parts.append(Part(tool, command, 300, read_sanitizer, "checks" if tool == "memcheck" else "", optional=True, endings=by_op, usual=150))
    parts.append(Part("doctor", [tachyscope, "doctor", "--device", "cuda", "--json"], 120, read_doctor, "checks"))
    for dtype in ("bf16", "f32"):
        command = [tachyscope, "validate", "--device", "cuda", "--models-only", "--dtype", dtype, "--json"]
        parts.append(Part(f"validate {dtype}", command, 60, read_validate, "checks"))
    deep, short = ("dit-14b", "480p", ["--compile", "--repeats", "3", "--residual", "f32,low"], 300, 190), ("dit-14b", "480p", ["--compile", "--repeats", "3", "--residual", "low", "--layers", "8"], 80, 50)
    small = ("dit-1.3b", "480p", ["--compile", "--residual", "f32,low"], 110, 70)
    peers = [small, ("decode", "480p", [], 60, 30), ("encode", "480p", [], 50, 25), ("encode", "704p", ["--vae", "2.2"], 80, 40), deep if budget >= 400 else short, ("decode", "720p", [], 80, 50)]
    timed = []
    for what, size, more, limit, usual in peers:
        file = f"{what}-{size}.json"
        command = [sys.executable, ROOT / "bench/peers/gpu.py", build / "bench/peers/ours_gpu", "--what", what, "--size", size, "--json", folder / file, *more]
        name = f"peers {what} {size}" + (", 8 of 40 blocks" if "--layers" in more else "")
        timed.append(Part(name, command, limit, peers_reader(file), needs=[build / "bench/peers/ours_gpu"], usual=usual))
    timed.insert(2, Part("bench", [tachyscope, "bench", "--device", "cuda", "--seconds", "0.02", "-o", folder / "bench.json"], 180, read_bench, usual=60))
    norms = [sys.executable, ROOT / "bench/peers/norms.py", ops, "--compile", "--json", folder / "norms.json"]
    repetitions = [sys.executable, ROOT / "bench/peers/repetitions.py", build, "--reps", 24, "--processes", 3, "--layers", 4, "--trace", 4, "--verify", 4, "--json", folder / "repetitions.json"]
    parts.append(Part("repetitions", repetitions, 220, read_repetitions, needs=[build / "bench/lab/repeat"], usual=130))  # 14B's width; 3.3 GB on disk
    timed.insert(3, Part("peers norms", norms, 80, read_norms, usual=45))
    backward = [sys.executable, ROOT / "bench/peers/backward.py"]
    timed.insert(-1, Part("peers backward", backward, 60, read_backward, usual=30))
    clips = build / "bench/peers/clips"
    judge = [sys.executable, ROOT / "tests/reference/judge.py", clips, "--clips", "cuda", "--dtype", "bf16"]
    timed.insert(0, Part("judge", judge, 90, read_judge, needs=[clips, ROOT / "models/sprites/heldout.json"], usual=45))
    parts += timed
    return parts


def words_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def read_forms(file):
    """Reads times of one transformer in several forms, or of a VAE in 8 bits."""
    def read(_, folder):
        figures = json.loads((folder / file).read_text())
        figures = figures.get(figures.get("size"), figures)  # a transformer's with --ours-only has figures for each size
        ours = {figures.get(f"{key[:-3]}_residual") or "8 bits": value for key, value in figures.items() if re.fullmatch(r"ours(_[a-z0-9-]+)?_ms", key) and not re.search(r"eager|alone", key)}
        sparse = {f"sparse {name}": value for name, value in figures.get("sparse_ms", {}).items()}
        peers = {f"diffusers {name}": figures[f"{name}_ms"] for name in ("compiled", "compiled_fp8") if f"{name}_ms" in figures}
        return bool(ours), figures, ", ".join(f"{name} {ms:.1f} ms" for name, ms in {**ours, **sparse, **peers}.items())
    return read


def read_requests(file):
    def read(_, folder):
        rows = json.loads((folder / file).read_text())
        failed = [row for row, figures in rows.items() if "failed" in figures]
        whole = {row: figures["warm"]["whole"] if "warm" in figures else 3 * figures["step"] for row, figures in rows.items() if row not in failed}
        text = ", ".join([*(f"{row} {seconds:.3f} s" for row, seconds in whole.items()), *(f"{row} failed" for row in failed)])
        return bool(whole) and not failed, rows, text
    return read


def read_rates(_, folder):
    rows = json.loads((folder / "attention.json").read_text())
    return bool(rows["tflops"]), rows, f"{len(rows['tflops'])} shapes"


def read_worlds(_, folder):
    rows = json.loads((folder / "worlds.json").read_text())
    failed = [row for row, figures in rows.items() if "failed" in figures]
    text = ", ".join([*(f"{row} {figures['fps']:.1f} frames a second" for row, figures in rows.items() if "fps" in figures), *(f"{row} failed" for row in failed)])
    return bool(rows) and not failed, rows, text


def make_table_parts(build, folder):
    """What docs/speed.md shows besides the stages and the whole runs."""
    tachyscope, ours = build / "tachyscope", build / "bench/peers/ours_gpu"
    parts = []

    def forms(name, limit, usual, *words):
        file = f"forms-{len(parts)}.json"
        command = [sys.executable, ROOT / "bench/peers/gpu.py", ours, *words, "--json", folder / file]
        parts.append(Part(f"forms {name}", command, limit, read_forms(file), needs=[ours], usual=usual))

    def requests(name, limit, usual, count, *rows):
        file = f"requests-{len(parts)}.json"
        command = [sys.executable, ROOT / "bench/peers/whole_requests.py", tachyscope, "--requests", count, "--tidy", "--json", folder / file, "--rows", *rows]
        parts.append(Part(f"requests {name}", command, limit, read_requests(file), needs=[tachyscope], usual=usual, writes=True))

    requests("1.3b", 120, 25, 3, "1.3b-480", "1.3b-vsa")
    requests("14b", 300, 130, 3, "14b-480", "14b-720")
    requests("5b", 120, 60, 3, "5b-704")
    requests("talk", 330, 240, 2, "talk-512", "talk-1024")
    requests("a14b", 180, 40, 3, "a14b-480")
    requests("vsa 14b", 180, 40, 2, "vsa-14b")
    for what, size, more in (("decode", "480p", []), ("decode", "720p", []), ("decode", "704p", ["--vae", "2.2"]), ("encode", "480p", []), ("encode", "704p", ["--vae", "2.2"])):
        forms(f"{what} {size}, 8 bits", 90, 40, "--what", what, "--size", size, "--dtype", "fp8", "--ours-only", "--repeats", "3", *more)
    eight = ["--compile", "--fp8", "--no-eager", "--repeats", "3", "--residual"]
    forms("dit-1.3b 480p", 220, 150, "--what", "dit-1.3b", "--size", "480p", "--sparse", "0.5,0.3", *eight, "int8,fp8,fp8-int8,low")
    for size, residuals, limit, usual in (("480p", "int8,fp8,fp8-int8", 250, 130), ("720p", "low,int8,fp8-int8", 400, 320)):  # with compiled peers far more
        forms(f"dit-14b {size}", limit, usual, "--what", "dit-14b", "--size", size, "--ours-only", "--repeats", "2", "--residual", residuals)
    flash = build / "bench/lab/lab_flash90"
    parts.append(Part("attention", [sys.executable, ROOT / "bench/peers/attention.py", build, "--json", folder / "attention.json"], 180, read_rates, needs=[flash], optional=True, usual=90))  # `all` has no lab_flash90
    worlds = [sys.executable, ROOT / "bench/peers/world.py", tachyscope, "--rows", "mg2", "sf", "sf-clip", "--seconds", "280", "--models", folder / "worlds", "--json", folder / "worlds.json"]
    parts.append(Part("worlds", worlds, 300, read_worlds, needs=[tachyscope], usual=220, writes=True))
    return parts
