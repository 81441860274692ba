#!/usr/bin/env python3
"""Makes videos with several processes that exchange by NCCL, and compares them with those of one process: ranks that are killed or
stopped, resuming, a wrong secret and missing variables, too.

    tests/ranks/on_gpu.py BUILD [--cards N] [--large MODEL] [-k WORD]

Without --cards all ranks share one GPU. NCCL refuses that on one host, so NCCL_HOSTID makes each rank a host, and they exchange through
sockets. --cards N: each rank takes a card of its own, up to N. --large: also times passes of this model of true shape."""

import array
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import talk_model  # noqa: E402
from processes import MODEL, ROOT, Ranks, clean_environment, free_port, run_alone  # noqa: E402,F401

SPRITES = pathlib.Path(os.environ.get("TACHY_MODEL_DIR", ROOT / "models")) / "sprites"
TINY = ["a red cat", "--size", "32x16", "--frames", "5", "--steps", "4", "--seed", "3", "--device", "cuda"]
CLIP = ["a red circle moves right", "--seed", "3", "--device", "cuda", "--steps", "6"]
CARDS = 0


def hosts(more=None):
    """What differs between ranks: each is a host of its own, or has a card of its own."""

    def of(rank):
        alone = {"NCCL_HOSTID": f"host{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"}
        out = {"environment": {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": CARDS or 1} | ({} if CARDS else alone)}
        for key, value in (more(rank) if more else {}).items():
            out[key] = out[key] | value if key == "environment" else value
        return out

    return of


def latents_of(path):
    """Returns the values of the only tensor of a .safetensors file."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    (tensor,) = [v for k, v in json.loads(content[8 : 8 + length]).items() if k != "__metadata__"]
    assert tensor["dtype"] == "F32", tensor
    first, end = tensor["data_offsets"]
    return array.array("f", content[8 + length + first : 8 + length + end])


def apart(folder, one, other):
    """Says whether files and latents are the same, and otherwise by how much of their RMS the latents differ."""
    a, b = (latents_of(folder / f"{name}.safetensors") for name in (one, other))
    assert len(a) == len(b) and all(x == x for x in a)
    rms = (sum(x * x for x in a) / len(a)) ** 0.5
    error = (sum((x - y) ** 2 for x, y in zip(a, b)) / len(a)) ** 0.5
    files = (folder / f"{one}.mp4").read_bytes() == (folder / f"{other}.mp4").read_bytes()
    assert error < 0.05 * rms, f"the latents differ by {error / rms:.3g} of their RMS"
    return f"latents {'equal' if a.tobytes() == b.tobytes() else f'differ by {error / rms:.2g} of their RMS'}, files {'equal' if files else 'differ'}"


def all_well(done):
    assert all(d.code == 0 for d in done), done


def outputs(name):
    return ["-o", f"{name}.mp4", "--save-latents", f"{name}.safetensors"]


def divided(name, model, words, ranks, more=(), environment=None):
    """Returns a case: `ranks` processes against one."""

    def case(binary, folder):
        run_alone(binary, folder, words + outputs("one"), model, environment)
        begin = time.monotonic()
        done = Ranks(binary, folder, ranks, words + list(more) + outputs("several"), environment, hosts(lambda rank: {"model": model})).wait(60)
        all_well(done)
        memory = [line for d in done for line in d.err.splitlines() if "NCCL" in line][:1]
        return f"{apart(folder, 'one', 'several')}; {time.monotonic() - begin:.1f} s{'; ' + memory[0] if memory else ''}"

    case.__name__ = name
    return case


def talking_photo(binary, folder):
    words = [w for w in talk_model.words(folder, 0.8)]
    words[words.index("--device") + 1] = "cuda"
    return divided("talk", talk_model.MODEL, words, 2)(binary, folder)


def until(what, seconds=40):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


LONG = CLIP[:-1] + ["400", "--guidance", "1", "--state-every", "0"]


def disturbed(name, rank, how, codes):
    """Returns a case: a rank is killed or stopped, the others end soon, and one process goes on from the state."""

    def case(binary, folder):
        ranks = 2
        run = Ranks(binary, folder, ranks, LONG + ["-o", "a.mp4"], None, hosts(lambda rank: {"model": SPRITES}))
        until(lambda: (folder / "a.mp4.resume").exists() or run.processes[0].poll() is not None)
        time.sleep(0.5)
        assert all(p.poll() is None for p in run.processes), run.wait()
        at = time.monotonic()
        run.kill(rank, how)
        done = run.wait(80)
        took = time.monotonic() - at
        assert took < 5, (took, done)
        assert all(d.code in codes for r, d in enumerate(done) if r != rank), done
        other = done[1 - rank]
        assert f"rank {rank} (on " in other.err, other
        run_alone(binary, folder, LONG + outputs("a") + ["--resume"], SPRITES)
        run_alone(binary, folder, LONG + outputs("whole"), SPRITES)
        return f"ended after {took:.2f} s: {other.err.strip().splitlines()[-1]}; resumed by one process: {apart(folder, 'a', 'whole')}"

    case.__name__ = name
    return case


def another_secret(binary, folder):
    secrets = ("a secret of these ranks", "another secret than theirs")
    done = Ranks(binary, folder, 2, TINY + ["-o", "a.mp4"], {"TACHY_RANK_SECONDS": 3}, hosts(lambda rank: {"environment": {"TACHY_RANK_SECRET": secrets[rank]}})).wait()
    assert all(d.code not in (0, None) for d in done), done
    assert "TACHY_RANK_SECRET is not the same for both" in done[1].err, done
    return f"{max(d.seconds for d in done):.1f} s: {done[0].err.strip()}"


def no_address(binary, folder):
    done = Ranks(binary, folder, 1, TINY + ["-o", "a.mp4"], None, lambda rank: {"environment": {"WORLD_SIZE": 4, "MASTER_ADDR": ""}}).wait()
    assert done[0].code == 2 and "MASTER_ADDR is not set" in done[0].err, done
    return done[0].err.strip()


def one_card_twice(binary, folder):
    """NCCL itself refuses two ranks of a host on one card."""
    if CARDS:
        return "not with several cards"
    done = Ranks(binary, folder, 2, TINY + ["-o", "a.mp4"], None, lambda rank: {"environment": {"NCCL_SOCKET_IFNAME": "lo"}}).wait()
    assert all(d.code == 9 and d.seconds < 20 for d in done), done
    return f"{max(d.seconds for d in done):.1f} s: {done[0].err.strip().splitlines()[-1]}"


def a_ring(binary, folder):
    done = Ranks(binary, folder, 2, TINY + ["--parallel", "ring=2", "-o", "a.mp4"], None, hosts()).wait()
    assert all(d.code == 5 for d in done), done
    return done[0].err.strip()


def true_shape(model):
    def case(binary, folder):
        words = ["a cat", "--size", "832x480", "--frames", "33", "--steps", "4", "--seed", "3", "--guidance", "1", "--level", "aggressive", "--device", "cuda"]
        return divided("large", pathlib.Path(model), words, 2, environment={"TACHY_LOG": "ranks"})(binary, folder)

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


def tried(case, binary):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tachyscope-ranks-"))
    begin = time.monotonic()
    try:
        told = case(binary, folder)
        row = ("ok", told)
    except Exception as e:
        traceback.print_exc()
        row = ("FAILED", str(e)[:1500])
    shutil.rmtree(folder, ignore_errors=True)
    out = (case.__name__, row[0], f"{time.monotonic() - begin:.1f}", row[1])
    print(*out, sep=" | ", flush=True)
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
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        rows = list(pool.map(lambda case: tried(case, binary), together))
    rows += [tried(case, binary) for case in alone]
    print("\n| case | | s | |\n| --- | --- | --- | --- |")
    for row in rows:
        print("|", " | ".join(row).replace("\n", " "), "|")
    failed = sum(row[1] != "ok" for row in rows)
    print(f"tests/ranks/on_gpu.py: {len(rows)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
