"""A rank that fails ends all ranks soon, each with the reason; the state stays, and any number of ranks goes on from it to the same file."""

import signal
import time

import talk_model
from processes import CLIP, MODEL, Ranks, run_alone
from same_file import all_well, same


def until(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def words_of(steps, output):
    words = [w for w in CLIP]
    words[words.index("--steps") + 1] = str(steps)
    return words + ["--state-every", "0", "-o", output]


def begin(binary, folder, ranks, steps=1000):
    """Starts a run that is long enough to be disturbed on a quick machine, and waits until it has a state."""
    run = Ranks(binary, folder, ranks, words_of(steps, "a.mp4"))
    until(lambda: (folder / "a.mp4.resume").exists() or run.processes[0].poll() is not None)
    time.sleep(0.1)
    assert all(p.poll() is None for p in run.processes), run.wait()
    return run


def ended_soon(run, codes):
    """Waits for all ranks, and returns what became of them; each had five seconds."""
    at = time.monotonic()
    done = run.wait()
    assert time.monotonic() - at < 5, (time.monotonic() - at, done)
    for rank, d in enumerate(done):
        assert d.code in codes[rank], (rank, done)
    return done


def goes_on(binary, folder, ranks, steps=1000):
    """Resumes with another number of ranks, and compares with a run that nothing disturbed."""
    assert (folder / "a.mp4.resume").exists()
    done = Ranks(binary, folder, ranks, words_of(steps, "a.mp4") + ["--resume"]).wait(120)
    all_well(done)
    assert "continuing after step" in done[0].out, done
    run_alone(binary, folder, words_of(steps, "whole.mp4"))
    same(folder, "a.mp4", "whole.mp4")


def a_killed_rank(binary, folder):
    run = begin(binary, folder, 4)
    run.kill(2)
    done = ended_soon(run, {0: (9,), 1: (9,), 2: (-9,), 3: (9,)})
    for rank in (0, 1, 3):
        assert "rank 2 (on " in done[rank].err and "has ended without a word" in done[rank].err, done
    goes_on(binary, folder, 2)


def a_killed_rank_of_a_talking_photo(binary, folder):
    """The state has the frames that the window takes over."""
    words = talk_model.words(folder, 2, "--state-every", "0", "--steps", "40")
    model = {"model": talk_model.MODEL}
    run = Ranks(binary, folder, 3, words + ["-o", "a.mp4"], each=lambda r: model)
    until(lambda: (folder / "a.mp4.resume").exists() or run.processes[0].poll() is not None)
    time.sleep(0.5)
    run.kill(1)
    ended_soon(run, {0: (9,), 1: (-9,), 2: (9,)})
    done = Ranks(binary, folder, 2, words + ["-o", "a.mp4", "--resume"], each=lambda r: model).wait(120)
    all_well(done)
    assert "continuing after window" in done[0].out, done
    run_alone(binary, folder, words + ["-o", "whole.mp4"], talk_model.MODEL)
    same(folder, "a.mp4", "whole.mp4")


def a_killed_first_rank(binary, folder):
    run = begin(binary, folder, 3)
    run.kill(0)
    done = ended_soon(run, {0: (-9,), 1: (9,), 2: (9,)})
    assert all("rank 0 (on " in d.err for d in done[1:]), done
    goes_on(binary, folder, 1)


def a_stopped_rank(binary, folder):
    run = begin(binary, folder, 3)
    run.kill(0, signal.SIGINT)
    ended_soon(run, {0: (130,), 1: (9, 130), 2: (9, 130)})
    assert not (folder / "a.mp4").exists()
    goes_on(binary, folder, 3)


def a_rank_without_its_model(binary, folder):
    done = Ranks(binary, folder, 3, CLIP + ["-o", "a.mp4"], each=lambda r: {"model": "gone" if r == 2 else MODEL}).wait()
    assert all(d.code == 3 and "gone: no such folder" in d.err and d.seconds < 20 for d in done), done
    assert all("rank 2 (on " in d.err for d in done[:2]), done
    assert not list(folder.iterdir())
