"""What the openai client needs of a server of videos: create, retrieve, poll, list, delete, remix, content, errors."""

import asyncio
import re
import time

import openai

from server import ROOT
from site_under_test import checks_of, png, upload

STATUSES = ("queued", "in_progress", "completed", "failed")


def create_answers_a_video(site):
    video = site.small_job()
    assert video.object == "video" and video.id, video
    assert video.status in ("queued", "in_progress"), video.status
    assert video.error is None, video.error


def created_at_is_a_time_in_seconds(site):
    assert abs(site.small_job().created_at - time.time()) < 30


def progress_is_a_whole_number(site):
    video = site.small_job()
    assert type(video.progress) is int and 0 <= video.progress <= 100, video.progress


def seconds_are_text_and_size_is_width_x_height(site):
    video = site.small_job()
    assert isinstance(video.seconds, str) and float(video.seconds) > 0, video.seconds
    assert re.fullmatch(r"\d+x\d+", video.size), video.size


def the_prompt_comes_back(site):
    assert site.small_job("café, 日本, \"quotes\" & more").prompt == "café, 日本, \"quotes\" & more"


def the_model_is_named(site):
    video = site.small_job()
    assert site.small_job(model=video.model).model == video.model


def retrieve_gives_the_same_job(site):
    video = site.small_job()
    again = site.videos.retrieve(video.id)
    assert (again.id, again.created_at, again.prompt, again.model) == (video.id, video.created_at, video.prompt, video.model)


def retrieve_of_an_unknown_id_is_not_found(site):
    error = site.refused(openai.NotFoundError, lambda: site.once.videos.retrieve("video_0"), code="not_found")
    assert error.type == "not_found_error", error.type


def create_and_poll_ends_completed(site):
    video = site.videos.create_and_poll(prompt="a red circle", extra_body=site.small)
    site.made.append(video.id)
    assert video.status == "completed", video


def poll_sees_no_other_status(site):
    video, seen = site.small_job(), []
    while not seen or seen[-1] in ("queued", "in_progress"):
        seen.append(site.videos.retrieve(video.id).status)
        time.sleep(0.02)
    assert set(seen) <= set(STATUSES) and seen[-1] == "completed", seen
    assert [s for i, s in enumerate(seen) if i == 0 or s != seen[i - 1]] in (
        ["queued", "in_progress", "completed"], ["in_progress", "completed"], ["queued", "completed"], ["completed"]), seen


def progress_never_goes_back(site):
    video, seen = site.small_job(extra={"num_frames": 33, "num_inference_steps": 24}), [0]
    while (now := site.videos.retrieve(video.id)).status in ("queued", "in_progress"):
        seen.append(now.progress)
        time.sleep(0.02)
    seen.append(now.progress)
    assert seen == sorted(seen) and seen[-1] == 100, seen
    assert len(set(seen) - {0, 100}) >= 3, f"nothing between 0 and 100: {sorted(set(seen))}"


def the_server_says_when_to_poll(site):
    video = site.long_job()
    wait = int(site.videos.with_raw_response.retrieve(video.id).headers["openai-poll-after-ms"])
    assert 500 <= wait <= 5000, wait
    site.videos.delete(video.id)


def a_completed_job_says_when(site):
    video = site.done()
    assert video.completed_at and video.completed_at >= video.created_at and video.progress == 100


def content_is_an_mp4(site):
    data = site.content(site.done().id)
    assert data[4:8] == b"ftyp", data[:16]


def content_has_its_media_type(site):
    response = site.once.videos.download_content(site.done().id)
    assert response.response.headers["content-type"].startswith("video/mp4"), response.response.headers
    assert int(response.response.headers["content-length"]) == len(response.read())


def content_can_be_streamed(site):
    with site.once.videos.with_streaming_response.download_content(site.done().id) as response:
        data = b"".join(response.iter_bytes(1000))
    assert data == site.content(site.done().id)


def content_can_be_written_to_a_file(site):
    import tempfile
    with tempfile.NamedTemporaryFile() as file:
        site.once.videos.download_content(site.done().id).write_to_file(file.name)
        assert file.read() == site.content(site.done().id)


def the_thumbnail_is_a_picture(site):
    data = site.content(site.done().id, variant="thumbnail")
    assert data[:3] == b"\xff\xd8\xff" or data[:4] in (b"RIFF", b"\x89PNG"), data[:16]


def the_spritesheet_is_a_picture(site):
    data = site.content(site.done().id, variant="spritesheet")
    assert data[:3] == b"\xff\xd8\xff" or data[:4] in (b"RIFF", b"\x89PNG"), data[:16]


def content_before_the_end_is_not_ready_and_is_not_asked_again(site):
    video = site.long_job()
    error = site.refused(openai.NotFoundError, lambda: site.videos.download_content(video.id), code="not_ready")
    assert error.response.request.headers["x-stainless-retry-count"] == "0", "the client has tried again"
    assert error.response.headers.get("x-should-retry") == "false"
    site.videos.delete(video.id)


def list_has_what_was_made(site):
    one, two = site.small_job().id, site.small_job().id
    page = site.videos.list()
    assert [video.id for video in page.data[:2]] == [two, one], "the newest is not the first"
    assert page.object == "list"


def list_goes_over_pages(site):
    made = [site.small_job().id for _ in range(5)]
    page = site.videos.list(limit=2)
    assert len(page.data) == 2 and page.has_more and page.last_id == page.data[-1].id and page.has_next_page()
    seen = []
    for video in page:
        seen.append(video.id)
        if len(seen) > 500:
            break
    assert len(seen) == len(set(seen)), "a video came twice"
    assert seen[:5] == made[::-1], (seen[:5], made)


def list_after_an_id_begins_behind_it(site):
    made = [site.small_job().id for _ in range(3)]
    page = site.videos.list(after=made[2], limit=1)
    assert page.data[0].id == made[1]


def list_in_ascending_order(site):
    site.small_job(), site.small_job()
    times = [video.created_at for video in site.videos.list(order="asc", limit=100).data]
    assert times == sorted(times)


def list_after_an_unknown_id_is_not_found(site):
    site.refused(openai.NotFoundError, lambda: site.once.videos.list(after="video_0"))


def list_refuses_limits_out_of_range(site):
    for limit in (0, 101, -1):
        site.refused(openai.BadRequestError, lambda: site.once.videos.list(limit=limit), param="limit")


def delete_says_so_and_the_job_is_gone(site):
    video = site.small_job()
    site.videos.poll(video.id)
    deleted = site.once.videos.delete(video.id)
    assert deleted.deleted is True and deleted.id == video.id and deleted.object == "video.deleted", deleted
    site.refused(openai.NotFoundError, lambda: site.once.videos.retrieve(video.id))
    site.refused(openai.NotFoundError, lambda: site.once.videos.download_content(video.id))
    site.refused(openai.NotFoundError, lambda: site.once.videos.delete(video.id))


def delete_of_a_running_job_stops_it(site):
    video = site.long_job()
    while site.videos.retrieve(video.id).status == "queued":
        time.sleep(0.05)
    site.once.videos.delete(video.id)
    site.refused(openai.NotFoundError, lambda: site.once.videos.retrieve(video.id))
    begin = time.monotonic()
    site.videos.poll(site.small_job().id)
    assert time.monotonic() - begin < 20, "the next job has waited for one that was deleted"


def remix_is_a_new_job_of_the_old_one(site):
    old = site.done()
    new = site.once.videos.remix(old.id, prompt="a green triangle")
    site.made.append(new.id)
    assert new.id != old.id and new.remixed_from_video_id == old.id and new.prompt == "a green triangle"
    assert (new.size, new.seconds) == (old.size, old.seconds)
    assert site.videos.poll(new.id).status == "completed"


def remix_of_an_unknown_job_is_not_found(site):
    site.refused(openai.NotFoundError, lambda: site.once.videos.remix("video_0", prompt="x"))


def characters_are_refused_as_an_error(site):
    call = lambda: site.once.videos.create_character(name="Ada", video=upload(site.content(site.done().id), "v.mp4", "video/mp4"))  # noqa: E731
    site.refused(openai.BadRequestError, call, code="unsupported")


def an_edit_works_or_is_refused_as_an_error(site):
    data = site.content(site.done().id)
    try:
        site.made.append(site.once.videos.edit(prompt="at night", video=upload(data, "v.mp4", "video/mp4")).id)
    except openai.BadRequestError as error:
        assert error.code == "unsupported", error


def an_extension_works_or_is_refused_as_an_error(site):
    try:
        site.made.append(site.once.videos.extend(prompt="it goes on", seconds="1", video=upload(site.content(site.done().id), "v.mp4", "video/mp4")).id)
    except openai.BadRequestError as error:
        assert error.code == "unsupported", error


def seconds_give_the_length(site):
    video = site.once.videos.create(prompt="a red circle", seconds="1", extra_body={"num_inference_steps": 1})
    site.made.append(video.id)
    assert 0.8 <= float(video.seconds) <= 1.2, video.seconds
    assert 0.8 <= float(site.videos.poll(video.id).seconds) <= 1.2


def the_size_is_kept(site):
    assert site.small_job(size="96x64").size == "96x64"


def seconds_that_are_none_are_refused(site):
    for text in ("abc", "-1", "0", "nan"):
        site.refused(openai.BadRequestError, lambda: site.once.videos.create(prompt="x", seconds=text), param="seconds")


def a_size_that_is_none_is_refused(site):
    for text in ("64by64", "64x", "0x0", "-64x64"):
        site.refused(openai.BadRequestError, lambda: site.once.videos.create(prompt="x", size=text), param="size")


def an_unknown_model_is_not_found(site):
    site.refused(openai.NotFoundError, lambda: site.once.videos.create(prompt="x", model="sora-9"), code="model_not_found")


def an_unknown_field_is_named(site):
    site.refused(openai.BadRequestError, lambda: site.once.videos.create(prompt="x", extra_body={"colour": "red"}), code="unknown_parameter", param="colour")


def an_empty_prompt_is_refused(site):
    site.refused(openai.BadRequestError, lambda: site.once.videos.create(prompt=""), param="prompt")


def a_prompt_of_digits_stays_text(site):
    assert site.small_job("5").prompt == "5"


def a_picture_is_taken_or_refused_as_an_error(site):
    call = lambda: site.small_job(input_reference=upload(png(64, 64), "a.png", "image/png"))  # noqa: E731
    try:
        call()
    except openai.BadRequestError as error:
        assert error.param == "input_reference" and error.body["message"], error


def a_file_that_is_no_picture_is_refused(site):
    site.refused(openai.BadRequestError, lambda: site.small_job(input_reference=upload(b"no picture", "a.png", "image/png")), param="input_reference")


def a_talking_photo_of_two_files(site):
    import base64
    folder = ROOT / "models/talker/example"
    sound = "data:audio/wav;base64," + base64.b64encode((folder / "speech.wav").read_bytes()).decode()
    photo = upload((folder / "photo.png").read_bytes(), "photo.png", "image/png")
    video = site.once.videos.create(prompt="a person talks", model="talker", input_reference=photo,
                                    extra_body={"audio_reference": sound, "num_frames": 9, "num_inference_steps": 1})
    site.made.append(video.id)
    assert site.videos.poll(video.id).status == "completed"


def the_async_client_works(site):
    async def run():
        async with openai.AsyncOpenAI(base_url=site.url + "/v1", api_key=site.key) as client:
            videos = await asyncio.gather(*(client.videos.create_and_poll(prompt=f"circle {n}", extra_body=site.small) for n in range(3)))
            data = (await client.videos.download_content(videos[0].id)).read()
            return videos, data, [video.id async for video in client.videos.list(limit=2)]
    videos, data, listed = asyncio.run(run())
    site.made += [video.id for video in videos]
    assert {video.status for video in videos} == {"completed"} and data[4:8] == b"ftyp"
    assert {video.id for video in videos} <= set(listed)


def models_are_listed(site):
    names = [model.id for model in site.client.models.list()]
    assert site.done().model in names, names


def errors_have_the_clients_fields(site):
    error = site.refused(openai.BadRequestError, lambda: site.once.videos.create(prompt="x", seconds="abc"))
    assert error.type == "invalid_request_error" and error.code and error.param == "seconds" and error.status_code == 400


CHECKS = checks_of(globals())
