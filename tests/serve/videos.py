#!/usr/bin/env python3
"""Videos as inputs: sent as parts of a form and as data URLs, refused by their fields with nothing left behind, planned without being sent again, and
kept by the job over a kill of the server and the loss of its spool. No answer and no file that is handed out names a folder of the server.

    videos.py BUILD [--short]      --short leaves out the table in PostgreSQL"""

import argparse
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import sys
import tempfile
import time
import uuid

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from models import vace_model  # noqa: E402
from server import Server, options_of_table  # noqa: E402
from site_under_test import png  # noqa: E402

TINY = {"size": "32x32", "num_frames": 5, "num_inference_steps": 4, "seed": 3, "encode_speed": "ultrafast"}


def mask(value):
    """Returns a picture of one colour, without a library of pictures."""
    return png(16, 16, value)


def form(fields):
    """Returns body and headers of a multipart form. Bytes are files, and lists of bytes several of one name."""
    boundary, body = uuid.uuid4().hex, b""
    for name, value in fields.items():
        for one in value if isinstance(value, list) else [value]:
            head = f'Content-Disposition: form-data; name="{name}"'
            if isinstance(one, bytes):
                head += '; filename="../../a film.mp4"\r\nContent-Type: application/octet-stream'
            body += f"--{boundary}\r\n{head}\r\n\r\n".encode() + (one if isinstance(one, bytes) else str(one).encode()) + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def post(server, fields, path="/v1/videos"):
    """Sends a form, and expects that the answer tells nothing of the server's folders."""
    body, headers = form({"prompt": "a blue square"} | TINY | fields)
    answer = server.ask("POST", path, body, headers)
    assert str(server.files).encode() not in answer.body and b"spool" not in answer.body and b"upload-" not in answer.body, answer.body
    return answer


def data_url(data, kind="video/mp4"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def finished(server, answer):
    """Returns the file of an accepted video when it is completed, and expects that it names no folder of the server."""
    assert answer.status == 200, answer.body
    video = server.wait(answer.json["id"])
    assert video["status"] == "completed", video
    content = server.ask("GET", f"/v1/videos/{video['id']}/content").body
    for place in (str(server.files), "inputs/", "upload-", "/tmp/"):
        assert place.encode() not in content, place
    assert place_free(json.dumps(video)), video
    return content


def place_free(text):
    return "/tmp/" not in text and "upload-" not in text


def refused(answer, param, *words, status=400):
    assert answer.status == status and answer.json["error"]["param"] == param, (param, answer.status, answer.body)
    for word in words:
        assert word in answer.json["error"]["message"], (word, answer.body)


def left(server):
    """Returns the files of the spool, and the folders of jobs."""
    spool = [path for path in server.files.rglob("*") if path.is_file() and "spool" in str(path)]
    return len(spool), len(list((server.files / "jobs").iterdir()))


def sent_in_every_form(server, film):
    part = finished(server, post(server, {"video": film, "strength": 0.5}))
    body = {"prompt": "a blue square", "video": data_url(film), "strength": 0.5} | TINY
    for value in (data_url(film), {"video_url": data_url(film)}):
        assert finished(server, server.ask("POST", "/v1/videos", body | {"video": value})) == part, "a data URL gives the same bits as a part"
    assert finished(server, post(server, {"video": film, "strength": 1})) != part
    plain = server.wait(post(server, {"video": film, "strength": 0.5, "mask_video": mask(255)}).json["id"])
    shown = plain["settings"]
    assert shown["video"] == {"file": "a film.mp4", "sha256": hashlib.sha256(film).hexdigest()} and "mask_video" in shown, shown
    again = server.ask("GET", f"/v1/videos/{plain['id']}/inputs/video")
    assert again.body == film and again.headers["content-type"] == "video/mp4", again.headers
    print("ok      a part, a data URL and an object give the same bits, and the job keeps what it was sent", flush=True)


def wrong_ones_leave_nothing(server, film):
    before = left(server)
    for value in ("/etc/passwd", "file:///etc/passwd", str(server.files / "jobs"), "f_%04d.png", "http://127.0.0.1:1/a.mp4", "data:video/mp4;base64,AAAA", "{}"):
        refused(post(server, {"video": value}), "video")
    for value in ({"path": "/etc/passwd"}, {"file": 0}, {"width": 32, "height": 32, "frames": 5, "fps": 16}, {"image_url": data_url(film)}, 5, [], True):
        refused(server.ask("POST", "/v1/videos", {"prompt": "x", "video": value}), "video")
    for data, word in ((b"", "empty"), (b"no video", "expected a video"), (film[:200], ""), (b"#EXTM3U\nfile:///etc/passwd\n", "expected a video"),
                       (b"ffconcat version 1.0\nfile /etc/passwd\n", "expected a video"), (b"RIFF", "")):
        refused(post(server, {"video": data}), "video", word)
    refused(post(server, {"video": film, "mask_video": mask(128)}), "mask_video", "not a mask")
    refused(post(server, {"video": film, "mask_video": b"black"}), "mask_video")
    refused(post(server, {"video": film, "num_frames": 9}), "video", "5 frames", "9 are needed")
    refused(post(server, {"video": film, "strength": 2}), "strength")
    refused(post(server, {"strength": 0.5}), "strength", "`video`")
    refused(post(server, {"control_video": film}), "control_video", "VACE")
    refused(post(server, {"reference": mask(0)}), "reference", "VACE")
    takes = server.ask("GET", "/v1/models/talker?open=true").json["takes"]
    assert (takes["video"], takes["control_video"], takes["mask_video"]) == ("no", "no", "no"), takes
    assert left(server) == before, (before, left(server))
    print("ok      what cannot be used is refused by its field, and leaves nothing", flush=True)


def planned_without_sending(server, film):
    plan = post(server, {"video": film, "num_frames": 5}, "/v1/videos/plan").json
    assert plan["fits"] and plan["videos"] == {"video": {"width": 32, "height": 32, "fps": 16.0, "frames": 5}}, plan
    facts = {"video": json.dumps(plan["videos"]["video"])}
    again = post(server, facts, "/v1/videos/plan").json
    assert (again["host_bytes"], again["videos"]) == (plan["host_bytes"], plan["videos"]), (plan, again)
    without = post(server, {}, "/v1/videos/plan").json
    assert without["host_bytes"] >= 0 and without["videos"] == {}, without
    longer = json.dumps(plan["videos"]["video"] | {"frames": 50, "fps": 32, "width": 64})
    said = post(server, {"video": longer}, "/v1/videos/plan").json
    assert any("stretched to 32x32" in line and "32 frames a second to 16" in line for line in said["warnings"]), said
    refused(post(server, {"video": longer, "num_frames": 81}, "/v1/videos/plan"), "video", "81 are needed")
    refused(post(server, {"video": '{"frames": 5}'}, "/v1/videos/plan"), "video", "width")
    refused(post(server, {"video": '{"frames": 1e9, "width": 32, "height": 32, "fps": 16}'}, "/v1/videos/plan"), "video")
    print("ok      a plan tells what a video is, and is asked again by that", flush=True)


def kept_over_a_kill(server, film):
    """The server is killed while such a job waits, and its spool is emptied: the job then has the bits that it would have had."""
    fields = {"video": film, "strength": 0.75, "mask_video": mask(255)}
    bits = finished(server, post(server, fields))
    first = server.create(num_frames=65, num_inference_steps=200)["id"]
    waiting = post(server, fields).json["id"]
    assert server.video(waiting)["status"] == "queued"
    server.kill()
    for path in server.files.rglob("*"):
        if path.is_file() and "spool" in str(path):
            path.unlink()
    server.start()
    server.wait_ready()
    assert server.ask("DELETE", f"/v1/videos/{first}").status == 200
    assert server.wait(waiting)["status"] == "completed", server.video(waiting)
    assert server.ask("GET", f"/v1/videos/{waiting}/content").body == bits
    print("ok      a job's videos outlive the server and its spool", flush=True)


def follows_and_looks(server, film):
    """VACE: a control, a mask and references, as a list of parts and of data URLs, and one by one."""
    vace = {"model": "vace"}
    takes = server.ask("GET", "/v1/models/vace?open=true").json["takes"]
    assert {takes[name] for name in ("video", "control_video", "mask_video", "reference")} == {"optional"}, takes
    pictures = [mask(40), mask(200)]
    both = finished(server, post(server, vace | {"control_video": film, "mask_video": mask(255), "reference[]": pictures}))
    body = {"prompt": "a blue square", "control_video": data_url(film), "mask_video": data_url(mask(255), "image/png")} | TINY | vace
    listed = {"reference": [data_url(one, "image/png") for one in pictures]}
    assert finished(server, server.ask("POST", "/v1/videos", body | listed)) == both
    single = {"reference": listed["reference"][0], "reference_2": listed["reference"][1]}
    answer = server.ask("POST", "/v1/videos", body | single)
    assert finished(server, answer) == both
    remix = server.ask("POST", f"/v1/videos/{answer.json['id']}/remix", {"prompt": "a blue square"})
    assert set(remix.json["settings"]) >= {"control_video", "mask_video", "reference", "reference_2"}, remix.body
    assert finished(server, remix) == both
    one = server.ask("POST", f"/v1/videos/{answer.json['id']}/remix", {"prompt": "a blue square", "reference": listed["reference"][0], "mask_video": None})
    assert {"mask_video", "reference_2"}.isdisjoint(one.json["settings"]) and finished(server, one) != both, one.body
    refused(post(server, vace | {"reference[]": [mask(0)] * 5}), "reference", "1 to 4")
    refused(post(server, vace | {"reference[]": pictures, "reference_2": mask(0)}), "reference", "reference_2")
    refused(post(server, vace | {"reference_2": mask(0)}), "reference_2", "no picture before it")
    refused(post(server, vace | {"video": film, "reference": mask(0)}), "video", "reference")
    print("ok      VACE follows a control and a mask, and looks at several references", flush=True)


def changed_as_a_whole(server, film, id):
    """The address for edits takes a video of this server by its id, or a file."""
    by_file = finished(server, post(server, {"video": film, "strength": 0.5}, "/v1/videos/edits"))
    body = {"prompt": "a blue square", "video": {"id": id}, "strength": 0.5} | TINY
    assert finished(server, server.ask("POST", "/v1/videos/edits", body)) == by_file
    assert server.ask("POST", "/v1/videos/edits", body | {"video": {"id": "video_none"}}).status == 404
    refused(server.ask("POST", "/v1/videos/edits", {"prompt": "x"}), "video")
    print("ok      a video of this server is changed by its id", flush=True)


def run(build, database, checks):
    with contextlib.ExitStack() as last:
        folder = last.enter_context(tempfile.TemporaryDirectory(prefix="tachyscope-vace-"))
        options = last.enter_context(options_of_table(database))
        models = ["sprites=" + str(build / "../models/sprites"), "talker=" + str(build / "../models/talker"), f"vace={vace_model(folder + '/vace')}"]
        words = [word for model in models for word in ("--model", model)]
        server = last.enter_context(Server(build, *words, *options)).wait_ready()
        id = server.create(**TINY)["id"]
        assert server.wait(id)["status"] == "completed"
        film = server.ask("GET", f"/v1/videos/{id}/content").body
        for check in checks:
            check(server, film, id) if check is changed_as_a_whole else check(server, film)
        server.end()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build")
    options.add_argument("--short", action="store_true")
    options = options.parse_args()
    build, begin = pathlib.Path(options.build).resolve(), time.monotonic()
    run(build, False, [sent_in_every_form, wrong_ones_leave_nothing, planned_without_sending, follows_and_looks, changed_as_a_whole, kept_over_a_kill])
    if not options.short:
        run(build, True, [kept_over_a_kill, follows_and_looks])
    print(f"{time.monotonic() - begin:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
