"""Tests tachyscope.ray on two nodes of one machine with the model that ships: actors, a service over HTTP, and a table of 12
prompts, of which one node is killed half-way."""

import json
import os
import pathlib
import socket
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-ray makes an environment with it")
import tachyscope  # noqa: E402
from ray import cluster_utils  # noqa: E402
from tachyscope.ray import actor, map_prompts, serve_app  # noqa: E402

SPRITES = str(pathlib.Path(__file__).resolve().parents[2] / "models" / "sprites")
SHORT = dict(frames=9, steps=4, size=(64, 48))
PROMPTS = [{"prompt": f"a {colour} circle moves {to}", "seed": seed, "name": f"{colour}-{to}", "row": seed}
           for seed, (colour, to) in enumerate((colour, to) for colour in ("red", "green", "blue") for to in ("left", "right", "up", "down"))]


@pytest.fixture(scope="module")
def engine():
    """One process that makes the same."""
    with tachyscope.Engine(SPRITES, device="cpu", threads=1) as made:
        yield made


@pytest.fixture(scope="module")
def cluster():
    node = dict(num_cpus=1, object_store_memory=80 << 20)
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    made.second = made.add_node(**node)
    ray.init(address=made.address, log_to_driver=False, logging_level="error")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.wait_for_min_actors_s = 120  # a busy machine may start one so late that the other has made everything
    yield made
    ray.shutdown()
    made.shutdown()


def test_an_actor(cluster, engine):
    want = engine.generate("a red circle", seed=3, **SHORT)
    there = actor(SPRITES, num_cpus=0.5)
    got = ray.get(there.generate.remote("a red circle", seed=3, **SHORT))
    assert np.array_equal(got.frames, want.frames) and got.settings == want.settings and got.fps == want.fps
    assert ray.get(there.plan.remote("a red circle", **SHORT)).bytes > 0
    events = [ray.get(event) for event in there.stream.options(num_returns="streaming").remote("a red circle", seed=3, **SHORT)]
    assert np.array_equal(np.stack([e.image for e in events if isinstance(e, tachyscope.Frame)]), want.frames)
    with pytest.raises(tachyscope.ArgumentError) as caught:
        ray.get(there.generate.remote("x", steps=0))
    assert caught.value.field == "steps" and caught.value.code == 2
    long = there.generate.remote("a red circle", steps=1000, frames=81)
    time.sleep(0.5)
    ray.cancel(long)
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(long, timeout=60)
    assert np.array_equal(ray.get(there.generate.remote("a red circle", seed=3, **SHORT), timeout=60).frames, want.frames)
    ray.kill(there)
    with pytest.raises(ray.exceptions.ActorDiedError, match="no-such-model"):
        ray.get(actor("/no-such-model", num_cpus=0.5).plan.remote("x"))


def answer(url, body, **more):
    request = urllib.request.Request(url, body if isinstance(body, bytes) else json.dumps(body).encode(), **more)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.headers["content-type"], reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], json.loads(error.read())["error"]


def test_a_service(cluster, engine, tmp_path):
    from ray import serve
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    handle = serve.run(serve_app(SPRITES, num_cpus=0.5), route_prefix="/videos")
    url = f"http://127.0.0.1:{port}/videos"
    asked = {"prompt": "a red circle", "seed": 3, "frames": 9, "steps": 4, "width": 64, "height": 48}
    engine.generate("a red circle", seed=3, **SHORT).save(tmp_path / "want.mp4")
    status, kind, video = answer(url, asked)
    assert (status, kind) == (200, "video/mp4") and video == (tmp_path / "want.mp4").read_bytes()
    for body, field in (({**asked, "steps": 0}, "steps"), ({**asked, "stepz": 1}, "stepz"), ({"seed": 1}, "prompt"), (b"{", "body"),
                        ({**asked, "image": "/etc/passwd"}, "image"), ({**asked, "loras": ["/etc/passwd"]}, "loras"),
                        ({**asked, "format": "exe"}, "format")):
        status, _, error = answer(url, body)
        assert status == 400 and error["field"] == field, (body, error)
    assert answer(url, None, method="GET")[0] == 405
    assert handle.generate.remote("a red circle", seed=3, **SHORT).result().settings["seed"] == 3
    # A client that goes away does not keep the engine.
    body = json.dumps({**asked, "steps": 1000, "frames": 81}).encode()
    with socket.create_connection(("127.0.0.1", port)) as gone:
        gone.sendall(b"POST /videos HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(1)
    began = time.monotonic()
    assert answer(url, asked)[2] == video and time.monotonic() - began < 60
    serve.shutdown()


def test_a_table_of_which_a_node_dies(cluster, engine, tmp_path):
    out = tmp_path / "videos"
    done = map_prompts(PROMPTS, out, model=SPRITES, actors=2, carry=["row"], **SHORT)
    first = {}

    def kill():
        """Waits until half of all is there."""
        while len(list(out.glob("*.json")) if out.exists() else []) < 6:
            time.sleep(0.01)
        first.update({path.name: path.stat().st_mtime_ns for path in out.glob("*.json")})
        cluster.remove_node(cluster.second, allow_graceful=False)
    killer = threading.Thread(target=kill)
    killer.start()
    rows = done.take_all()
    killer.join()
    assert 6 <= len(first) < 12, "the node was killed in the middle"
    names = sorted(f"{row['name']}.{ending}" for row in PROMPTS for ending in ("mp4", "json"))
    assert sorted(os.listdir(out)) == names, "nothing is lost, and nothing else is left"
    assert sorted(row["row"] for row in rows) == list(range(12)), "each row is told of once"
    # Where what the dead node told was lost, another one has found the files.
    by_second = [row for row in rows if row["node"] == cluster.second.node_id or not row["made"]]
    assert 0 < len(by_second) < 12, "both nodes have made some"
    assert {name: (out / name).stat().st_mtime_ns for name in first} == first, "what was finished is not made again"
    with tachyscope.Engine(SPRITES, device="cpu", threads=2) as other:
        for row in PROMPTS:
            other.generate(row["prompt"], seed=row["seed"], **SHORT).save(tmp_path / "one.mp4")
            assert (out / f"{row['name']}.mp4").read_bytes() == (tmp_path / "one.mp4").read_bytes()
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    again = map_prompts(PROMPTS, out, model=SPRITES, actors=1, carry=["row"], **SHORT).take_all()
    assert not [row for row in again if row["made"]] and len(again) == 12
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
