#!/usr/bin/env python3
"""Makes videos with several processes that exchange by NCCL, and compares them with those of one process: ranks that are killed or
stopped, resuming, a wrong secret and missing variables, too.

    tests/ranks/on_gpu.py BUILD [--cards N] [--large MODEL] [--details FILE] [-k WORD]

Without --cards all ranks share one GPU. NCCL refuses that on one host, so NCCL_HOSTID makes each rank a host, and they exchange through
sockets. --cards N: the first N ranks are of one host and take a card each, and so do the next N, which are of another host by that variable.
--large: also times steps of this model of true shape. --details: what failed, in full."""

import concurrent.futures
import os
import pathlib
import shutil
import signal
import statistics
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import talk_model  # noqa: E402
from measured import apart, processes_of_cards, step_seconds, until  # noqa: E402
from processes import MODEL, ROOT, Ranks, run_alone  # noqa: E402

SPRITES = pathlib.Path(os.environ.get("TACHY_MODEL_DIR", ROOT / "models")) / "sprites"
TINY = ["a red cat", "--size", "32x16", "--frames", "5", "--steps", "4", "--seed", "3", "--device", "cuda"]
CLIP = ["a red circle moves right", "--seed", "3", "--device", "cuda", "--steps", "6"]
CARDS = 0
LENGTH = 300  # of what a row tells


def hosts(ranks, more=None):
    """What differs between ranks: which host each is of, and its place there."""

    def of(rank):
        each = CARDS or 1
        host, place = divmod(rank, each)
        out = {"environment": {"LOCAL_RANK": place, "LOCAL_WORLD_SIZE": min(each, ranks - host * each)}}
        if ranks > each:
            out["environment"] |= {"NCCL_HOSTID": f"host{host}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"}
        for key, value in (more(rank) if more else {}).items():
            out[key] = out[key] | value if key == "environment" else value
        return out

    return of


def all_well(done):
    assert all(d.code == 0 for d in done), done


def outputs(name):
    return ["-o", f"{name}.mp4", "--save-latents", f"{name}.safetensors"]


def divided(name, model, words, ranks, more=(), environment=None):
    """Returns a case: `ranks` processes against one."""

    def case(binary, folder):
        run_alone(binary, folder, words + outputs("one"), model, environment)
        begin = time.monotonic()
        done = Ranks(binary, folder, ranks, words + list(more) + outputs("several"), environment, hosts(ranks, lambda rank: {"model": model})).wait(60)
        all_well(done)
        memory = [line for d in done for line in d.err.splitlines() if "NCCL" in line][:1]
        return f"{apart(folder, 'one', 'several')}; {time.monotonic() - begin:.1f} s{'; ' + memory[0] if memory else ''}"

    case.__name__ = name
    return case


def talking_photo(binary, folder):
    words = list(talk_model.words(folder, 0.8))
    words[words.index("--device") + 1] = "cuda"
    return divided("talk", talk_model.MODEL, words, 2)(binary, folder)


LONG = CLIP[:-1] + ["300", "--guidance", "1", "--state-every", "0"]


def going_on(binary, folder, ranks):
    """Resumes a run with one process, or where that has other bits with as many as before, makes it once more, and returns who did it."""
    try:
        run_alone(binary, folder, LONG + outputs("a") + ["--resume"], SPRITES)
        run_alone(binary, folder, LONG + outputs("whole"), SPRITES)
        return "one process"
    except AssertionError as e:
        if "belongs to a different run: parallel" not in str(e):
            raise
    for words in (outputs("a") + ["--resume"], outputs("whole")):
        all_well(Ranks(binary, folder, ranks, LONG + words, None, hosts(ranks, lambda rank: {"model": SPRITES})).wait(60))
    return f"{ranks} processes, since one has other bits"


def disturbed(name, rank, how, codes):
    """Returns a case: a rank is killed or stopped, the others end soon, and the run goes on from the state."""

    def case(binary, folder):
        run = Ranks(binary, folder, 2, LONG + ["-o", "a.mp4"], None, hosts(2, lambda rank: {"model": SPRITES}))
        until(lambda: (folder / "a.mp4.resume").exists() or run.processes[0].poll() is not None)
        time.sleep(0.3)
        assert all(p.poll() is None for p in run.processes), run.wait()
        on_cards = processes_of_cards()
        at = time.monotonic()
        run.kill(rank, how)
        done, took = run.wait(80), time.monotonic() - at
        assert took < 5, (took, done)
        assert all(d.code in codes for r, d in enumerate(done) if r != rank), done
        other = done[1 - rank]
        assert f"rank {rank} (on " in other.err, other
        by = going_on(binary, folder, 2)
        return f"ended after {took:.2f} s; resumed by {by}: {apart(folder, 'a', 'whole')}; {on_cards}; {other.err.strip().splitlines()[-1]}"

    case.__name__ = name
    return case


def another_secret(binary, folder):
    secrets = ("a secret of these ranks", "another secret than theirs")
    done = Ranks(binary, folder, 2, TINY + ["-o", "a.mp4"], {"TACHY_RANK_SECONDS": 3}, hosts(2, lambda rank: {"environment": {"TACHY_RANK_SECRET": secrets[rank]}})).wait()
    assert all(d.code not in (0, None) for d in done), done
    assert "TACHY_RANK_SECRET is not the same for both" in done[1].err, done
    return f"{max(d.seconds for d in done):.1f} s: {done[0].err.strip()}"


def no_address(binary, folder):
    done = Ranks(binary, folder, 1, TINY + ["-o", "a.mp4"], None, lambda rank: {"environment": {"WORLD_SIZE": 4, "MASTER_ADDR": ""}}).wait()
    assert done[0].code == 2 and "MASTER_ADDR is not set" in done[0].err, done
    return done[0].err.strip()


def one_card_twice(binary, folder):
    """NCCL itself refuses two ranks of a host on one card."""
    done = Ranks(binary, folder, 2, TINY[:-1] + ["cuda:0", "-o", "a.mp4"], None, lambda rank: {"environment": {"NCCL_SOCKET_IFNAME": "lo"}}).wait()
    assert all(d.code == 9 and d.seconds < 20 for d in done), done
    return f"{max(d.seconds for d in done):.1f} s: {done[0].err.strip().splitlines()[-1]}"


def a_ring(binary, folder):
    done = Ranks(binary, folder, 2, TINY + ["--parallel", "ring=2", "-o", "a.mp4"], None, hosts(2)).wait()
    assert all(d.code == 5 for d in done), done
    return done[0].err.strip()


def true_shape(model):
    """Times a step of one process, of two, and with two cards of one process with both."""
    model = pathlib.Path(model)
    words = ["a cat", "--size", "832x480", "--frames", "81", "--steps", "4", "--seed", "3", "--guidance", "1", "--level", "aggressive", "--json"]

    def case(binary, folder):
        begin = time.monotonic()
        steps = {"one process": step_seconds(run_alone(binary, folder, words + ["--device", "cuda"] + outputs("one"), model))}
        print(f"true_shape, one process: {time.monotonic() - begin:.1f} s, steps {steps['one process']}", flush=True)
        begin = time.monotonic()
        done = Ranks(binary, folder, 2, words + ["--device", "cuda"] + outputs("two"), {"TACHY_LOG": "ranks"}, hosts(2, lambda rank: {"model": model})).wait(120)
        all_well(done)
        steps["two processes"] = step_seconds(done[0].out)
        print(f"true_shape, two processes: {time.monotonic() - begin:.1f} s, steps {steps['two processes']}", flush=True)
        told = [f"two processes: {apart(folder, 'one', 'two')}"]
        if CARDS > 1:
            steps["--gpus 2"] = step_seconds(run_alone(binary, folder, words + ["--gpus", "2"] + outputs("gpus"), model))
            told.append(f"--gpus 2: {apart(folder, 'one', 'gpus')}")
        middle = {name: statistics.median(some) for name, some in steps.items()}
        rates = [f"{name} {some:.4f} s a step ({middle['one process'] / some:.3f} times)" for name, some in middle.items()]
        return "; ".join(rates + told)

    case.__name__ = "true_shape"
    return case


def cases(large):
    log = {"TACHY_LOG": "ranks"}
    out = [
        divided("sprites_guidance", SPRITES, CLIP, 2, environment=log),
        divided("sprites_heads", SPRITES, CLIP, 2, ["--parallel", "ulysses=2"]),
        divided("sprites_rows", SPRITES, CLIP, 2, environment={"TACHY_RANK_DECODE": "rows"}),
        divided("sprites_three_ranks", SPRITES, CLIP + ["--guidance", "1"], 3),
        divided("tiny_two_ranks", MODEL, TINY, 2, ["--parallel", "ulysses=2"]),
        divided("tiny_four_ranks", MODEL, TINY, 4),
        divided("tiny_windows", MODEL, TINY + ["--windows", "static", "--window-frames", "17", "--window-overlap", "8", "--frames", "33"], 2),
        divided("tiny_blocks", MODEL, TINY + ["--frames", "17", "--block", "1"], 2),
        talking_photo,
        another_secret,
        no_address,
        one_card_twice,
        a_ring,
    ]
    alone = [disturbed("killed", 1, signal.SIGKILL, (9,)), disturbed("killed_first", 0, signal.SIGKILL, (9,)), disturbed("stopped", 1, signal.SIGINT, (9, 130))]
    return out, alone + ([true_shape(large)] if large else [])


def tried(case, binary, details):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tachyscope-ranks-"))
    begin = time.monotonic()
    try:
        told = case(binary, folder)
        row = ("ok", told)
    except Exception as e:
        if details:
            with open(details, "a") as file:
                print(case.__name__, traceback.format_exc(), sep="\n", file=file)
        row = ("FAILED", str(e) or repr(e))
    shutil.rmtree(folder, ignore_errors=True)
    out = (case.__name__, row[0], f"{time.monotonic() - begin:.1f}", " ".join(row[1].split())[:LENGTH])
    print(*(out if row[0] == "FAILED" else out[:3]), sep=" | ", flush=True)
    return out


def main():
    global CARDS
    words = sys.argv[1:]
    if not words or words[0].startswith("-"):
        print(__doc__)
        return 2

    def option(name, otherwise=""):
        return words[words.index(name) + 1] if name in words else otherwise

    CARDS = int(option("--cards", "0"))
    binary, only = str(pathlib.Path(words[0]).resolve() / "tachyscope"), option("-k")
    together, alone = ([c for c in some if only in c.__name__] for some in cases(option("--large")))
    rows = []

    def table():
        print("\n| case | | s | |\n| --- | --- | --- | --- |")
        for row in rows:
            print("|", " | ".join(row), "|")
        sys.stdout.flush()

    def out_of_time(*_):
        table()
        print(f"stopped after {len(rows)} of {len(together) + len(alone)} cases", flush=True)
        os._exit(1)

    signal.signal(signal.SIGTERM, out_of_time)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda case: rows.append(tried(case, binary, option("--details"))), together))
    for case in alone:
        rows.append(tried(case, binary, option("--details")))
    table()
    failed = sum(row[1] != "ok" for row in rows)
    print(f"tests/ranks/on_gpu.py: {len(rows)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
