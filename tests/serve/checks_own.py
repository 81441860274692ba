"""What this server has beside the interface of OpenAI's: more fields, cancel, pause, plan, events, presets, join."""

import hashlib
import json
import time

import openai

from site_under_test import Missed, checks_of


def _events(site, id, last=None):
    """Returns the events of a job, as (number, type, data), when the stream has ended."""
    answer = site.ask("GET", f"/v1/videos/{id}/events", headers={"Last-Event-ID": str(last)} if last is not None else {})
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream"), answer.headers
    events = []
    for block in answer.body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields:
            events.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return events


def _post(site, id, what, body=None):
    return site.ask("POST", f"/v1/videos/{id}/{what}", body)


def fields_of_generate_are_reachable(site):
    video = site.once.videos.poll(site.small_job(extra={"guidance_scale": 2.5, "flow_shift": 4, "negative_prompt": "blue", "fps": 8}).id)
    assert video.status == "completed", video
    settings = site.ask("GET", f"/v1/videos/{video.id}").json["settings"]
    assert float(settings["guidance_scale"]) == 2.5 and settings["negative_prompt"] == "blue", settings
    assert abs(float(video.seconds) - 5 / 8) < 0.01, video.seconds


def extra_params_are_the_same_table(site):
    video = site.once.videos.create(prompt="x", extra_body={"extra_params": {"num_frames": 9, "num_inference_steps": 1}})
    site.made.append(video.id)
    assert site.ask("GET", f"/v1/videos/{video.id}").json["num_frames"] == 9


def a_field_given_twice_is_refused(site):
    site.refused(openai.BadRequestError, lambda: site.small_job(extra={"extra_params": {"num_frames": 9}}))


def seconds_beside_num_frames_are_refused(site):
    site.refused(openai.BadRequestError, lambda: site.small_job(seconds="1"), code="invalid_value")


def an_unknown_lora_is_refused(site):
    for loras in ([{"name": "none", "strength": 1}], {"name": "none"}, '[{"name": "none"}]'):
        site.refused(openai.BadRequestError, lambda: site.small_job(extra={"loras": loras}), code="invalid_value")


def a_lora_is_no_path(site):
    for name in ("../../etc/passwd", "/etc/passwd", "a/b"):
        site.refused(openai.BadRequestError, lambda: site.small_job(extra={"loras": [{"name": name, "strength": 1}]}), code="invalid_value")


def a_size_off_the_grid_names_the_nearest(site):
    error = site.refused(openai.UnprocessableEntityError, lambda: site.small_job(size="100x100"), code="over_limit")
    nearest = error.body["nearest"]
    assert nearest["size"] in ("96x96", "112x112", "96x112", "112x96"), nearest
    assert nearest["size"] in error.body["message"], error.body
    site.small_job(size=nearest["size"])


def a_video_that_is_too_large_names_what_fits(site):
    error = site.refused(openai.UnprocessableEntityError, lambda: site.small_job(size="8192x8192", extra={"num_frames": 161}), code="over_limit")
    assert error.body["nearest"], error.body


def a_drawn_seed_is_kept(site):
    videos = [site.once.videos.create(prompt="x", extra_body={"num_frames": 1, "num_inference_steps": 1}) for _ in range(2)]
    site.made += [video.id for video in videos]
    seeds = [site.ask("GET", f"/v1/videos/{video.id}").json["seed"] for video in videos]
    assert all(isinstance(seed, int) for seed in seeds) and seeds[0] != seeds[1], seeds


def the_same_seed_gives_the_same_file(site):
    again = site.once.videos.poll(site.small_job().id)
    one, two = (hashlib.sha256(site.content(id)).hexdigest() for id in (site.done().id, again.id))
    assert one == two


def an_idempotency_key_gives_one_video(site):
    headers = {"Idempotency-Key": f"check-{time.time()}"}
    one, two = (site.small_job(extra_headers=headers) for _ in range(2))
    assert one.id == two.id
    site.refused(openai.UnprocessableEntityError, lambda: site.small_job("another", extra_headers=headers), code="idempotency_mismatch")


def cancel_stops_within_a_second_and_may_be_repeated(site):
    took = []
    while not took or (min(took) > 1 and len(took) < 5):  # a busy machine makes some slow, and a slow server all of them
        id = site.long_job().id
        while site.videos.retrieve(id).status == "queued":
            time.sleep(0.02)
        begin = time.monotonic()
        site.expect(_post(site, id, "cancel"), 200)
        while (video := site.videos.retrieve(id)).status != "failed":
            assert time.monotonic() - begin < 20, video
            time.sleep(0.02)
        took.append(time.monotonic() - begin)
        assert video.error.code == "cancelled", video.error
    assert min(took) <= 1, took
    again = site.expect(_post(site, id, "cancel"), 200).json
    assert again["status"] == "failed" and again["error"]["code"] == "cancelled"
    site.refused(openai.NotFoundError, lambda: site.once.videos.download_content(id), code="job_failed")


def a_completed_job_cannot_be_cancelled(site):
    site.expect(_post(site, site.done().id, "cancel"), 400, "not_cancellable")


def pause_and_continue_give_the_same_bits(site):
    extra = {"num_frames": 33, "num_inference_steps": 12}
    plain, held = site.small_job(extra=extra).id, site.small_job(extra=extra).id
    site.videos.poll(plain)
    while site.videos.retrieve(held).status == "queued":
        time.sleep(0.02)
    site.expect(_post(site, held, "pause"), 200)
    until = time.monotonic() + 20
    while not (video := site.ask("GET", f"/v1/videos/{held}").json)["paused"]:
        assert time.monotonic() < until and video["status"] != "completed", video
        time.sleep(0.02)
    assert video["status"] == "queued", video
    site.expect(_post(site, held, "continue"), 200)
    assert site.videos.poll(held).status == "completed"
    assert site.content(plain) == site.content(held)


def a_queued_job_can_be_changed_and_moved(site):
    first = site.long_job().id
    one, two = site.small_job("one").id, site.small_job("two").id
    changed = site.expect(site.ask("PATCH", f"/v1/videos/{two}", {"prompt": "three", "before": one}), 200).json
    assert changed["prompt"] == "three", changed
    site.videos.delete(first)
    ends = [site.once.videos.poll(id) for id in (two, one)]
    assert [video.status for video in ends] == ["completed"] * 2
    started = [site.ask("GET", f"/v1/videos/{id}").json for id in (two, one)]
    assert started[0]["started_at"] <= started[1]["started_at"]
    site.expect(site.ask("PATCH", f"/v1/videos/{one}", {"prompt": "x"}), 400)


def a_plan_says_what_a_job_takes(site):
    body = {"prompt": "x"} | site.small
    plan = site.expect(site.ask("POST", "/v1/videos/plan", body), 200).json
    assert plan["fits"] is True and plan["seconds"] > 0 and plan["host_bytes"] > 0, plan
    assert set(plan) >= {"gpu_bytes", "host_bytes", "seconds", "seconds_to_preview", "queue_position", "fits", "reason", "nearest"}, plan
    large = site.expect(site.ask("POST", "/v1/videos/plan", body | {"size": "8192x8192", "num_frames": 161}), 200).json
    assert large["fits"] is False and large["nearest"] and large["reason"], large


def events_run_from_queued_to_done(site):
    id = site.small_job().id
    events = _events(site, id)
    types = [type for _, type, _ in events]
    assert types[0] == "queued" and types[-1] == "done" and "progress" in types, types
    assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
    progress = [data for _, type, data in events if type == "progress"]
    assert all(set(data) >= {"stage", "done", "total", "eta_seconds"} for data in progress), progress[0]


def events_are_replayed_and_resumed(site):
    id = site.done().id
    events = _events(site, id)
    assert _events(site, id) == events
    assert _events(site, id, last=events[1][0]) == events[2:]


def a_preview_is_a_picture_when_its_event_comes(site):
    id = site.small_job(extra={"num_frames": 33, "num_inference_steps": 30}).id
    previews = [data for _, type, data in _events(site, id) if type == "preview"]
    assert previews, "no preview"
    for data in previews[-2:]:
        answer = site.ask("GET", data["url"])
        assert answer.status == 200 and answer.body[:3] == b"\xff\xd8\xff", answer.status


def a_cancelled_job_ends_its_events(site):
    id = site.long_job().id
    _post(site, id, "cancel")
    number, type, data = _events(site, id)[-1]
    assert type == "failed" and data["error"]["code"] == "cancelled", (number, type, data)


def presets_are_saved_and_used(site):
    name = "check-preset"
    site.expect(site.ask("PUT", f"/v1/presets/{name}", {"num_frames": 9, "num_inference_steps": 1}), 200)
    assert name in [preset["id"] for preset in site.expect(site.ask("GET", "/v1/presets"), 200).json["data"]]
    video = site.once.videos.create(prompt="x", extra_body={"preset": name})
    site.made.append(video.id)
    assert site.ask("GET", f"/v1/videos/{video.id}").json["num_frames"] == 9
    site.expect(site.ask("DELETE", f"/v1/presets/{name}"), 200)
    site.refused(openai.BadRequestError, lambda: site.once.videos.create(prompt="x", extra_body={"preset": name}), code="invalid_value")


def videos_are_joined(site):
    ids = [site.done().id, site.once.videos.poll(site.small_job("another").id).id]
    made = site.expect(site.ask("POST", "/v1/videos/join", {"videos": ids}), 200).json
    site.made.append(made["id"])
    video = site.once.videos.poll(made["id"])
    assert video.status == "completed", video
    assert abs(float(video.seconds) - 2 * float(site.done().seconds)) < 0.02, video.seconds
    assert site.content(video.id)[4:8] == b"ftyp"


def videos_are_joined_that_are_not_there_yet(site):
    before = site.long_job().id  # so that neither of them ends too soon
    ids = [site.small_job("the first part").id, site.small_job("the second part").id]
    made = site.expect(site.ask("POST", "/v1/videos/join", {"videos": [ids[0], {"id": ids[1], "first_frame": 1}]}), 200).json
    site.made.append(made["id"])
    assert made["status"] == "queued" and set(made["waits_for"]) == set(ids), made
    site.videos.delete(before)
    video = site.once.videos.poll(made["id"])
    assert video.status == "completed" and [site.ask("GET", f"/v1/videos/{id}").json["status"] for id in ids] == ["completed"] * 2, video
    assert site.ask("GET", f"/v1/videos/{made['id']}").json["waits_for"] == []


def a_job_fails_with_the_one_that_it_waits_for(site):
    first = site.long_job().id
    made = site.expect(site.ask("POST", "/v1/videos/join", {"videos": [first, first]}), 200).json
    site.made.append(made["id"])
    site.expect(site.ask("DELETE", f"/v1/videos/{first}"), 200)
    video = site.once.videos.poll(made["id"])
    assert video.status == "failed" and video.error.code == "source_failed" and first in video.error.message, video


def health_and_readiness(site):
    assert site.ask("GET", "/health").status == 200 and site.ask("GET", "/ready").status == 200


def metrics_are_prometheus_text(site):
    site.done()
    answer = site.ask("GET", "/metrics")
    assert answer.status == 200 and b"# TYPE" in answer.body and b"/v1/videos" in answer.body, answer.body[:200]


def the_description_is_openapi(site):
    paths = site.expect(site.ask("GET", "/openapi.json"), 200).json
    assert paths["openapi"].startswith("3.1") and "/v1/videos/{id}/content" in paths["paths"], list(paths["paths"])


def loras_are_listed(site):
    assert isinstance(site.expect(site.ask("GET", "/v1/loras"), 200).json["data"], list)


def a_json_body_is_typed(site):
    video = site.expect(site.ask("POST", "/v1/videos", {"prompt": "x"} | site.small), 200).json
    site.made.append(video["id"])
    answer = site.ask("POST", "/v1/videos", {"prompt": 5})
    site.expect(answer, 400)
    if answer.json["error"]["param"] != "prompt":
        raise Missed(answer.body)


CHECKS = checks_of(globals())
