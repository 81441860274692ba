"""Tests the player: steps from frame to frame, going on and joining from any frame, and continued videos that are shown from their beginning."""

import json
import pathlib
import sqlite3

import pytest

from conftest import QUICK, distance

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRAMES = 9
MOVING = {"size": "64x64", "num_frames": FRAMES, "num_inference_steps": 6}
SAME = 3  # levels of 255 that the same picture may differ by when it was encoded again


@pytest.fixture(scope="module")
def pair(site):
    """Two finished videos of one size; the second one says that it continues the first from its frame 3, as one does that a model has made of it."""
    ids = [site.create(prompt=prompt, seed=seed, **MOVING)["id"] for prompt, seed in (("a red circle moves right", 7), ("a blue square moves left", 8))]
    for id in ids:
        site.wait(id)
    database = sqlite3.connect(site.files / "tachyscope.db")
    with database:
        request = "(SELECT seq FROM jobs WHERE id = ?)"
        text = json.loads(database.execute(f"SELECT request FROM job_texts WHERE seq = {request}", (ids[1],)).fetchone()[0])
        text["made_from"] = {"extension": ids[0], "from_frame": 3}
        database.execute(f"UPDATE job_texts SET request = ? WHERE seq = {request}", (json.dumps(text), ids[1]))
    database.close()
    return ids


def open_video(app, server, id):
    app.open(server, f"#/gallery/{id}")
    app.page.wait_for_selector("video-player .told", state="hidden")
    return app


def frame(app):
    return int(app.page.inner_text("video-transport output").split()[0])


def shown(app):
    return app.pixels("video-reel video:not([hidden])", 16)


def newest(server):
    return server.ask("GET", "/v1/videos?limit=1").json["first_id"]


def go_to(app, number):
    app.page.evaluate("n => document.querySelector('video-transport').seek(n)", number)
    app.wait(lambda: frame(app) == number, f"frame {number}")


def all_frames(app):
    """Steps through the video by its key, and returns the picture of each frame."""
    app.page.keyboard.press("Home")
    app.wait(lambda: frame(app) == 0, "the first frame")
    app.page.evaluate("document.querySelector('video-transport').seek(0)")
    pictures = [shown(app)]
    last = int(app.page.inner_text("video-transport output").split()[2])
    for number in range(1, last + 1):
        app.page.keyboard.press(".")
        app.wait(lambda: frame(app) == number, f"frame {number}")
        app.page.evaluate("document.querySelector('video-reel').seeking")
        pictures.append(shown(app))
    return pictures


def test_keys_step_from_frame_to_frame(app, site, pair):
    open_video(app, site, pair[0])
    pictures = all_frames(app)
    assert len(pictures) == FRAMES
    assert all(distance(one, other) > 0.02 for one, other in zip(pictures, pictures[1:])), "each step shows another picture"
    app.page.keyboard.press(".")
    assert frame(app) == FRAMES - 1, "there is nothing behind the last frame"
    for number in range(FRAMES - 2, -1, -1):
        app.page.keyboard.press(",")
        app.wait(lambda: frame(app) == number, f"back to {number}")
    app.page.evaluate("document.querySelector('video-reel').seeking")
    assert shown(app) == pictures[0], "the way back shows the same pictures"
    app.page.keyboard.press("End")
    app.wait(lambda: frame(app) == FRAMES - 1, "the last frame")


def test_many_steps_at_once_end_at_the_right_frame(app, site, pair):
    open_video(app, site, pair[0])
    pictures = all_frames(app)
    app.page.keyboard.press("Home")
    for _ in range(6):
        app.page.keyboard.press(".")
    app.wait(lambda: frame(app) == 6, "six steps")
    app.page.evaluate("document.querySelector('video-reel').seeking")
    assert shown(app) == pictures[6]


def test_it_plays_to_its_end_and_again_and_again(app, site, pair):
    open_video(app, site, pair[0])
    app.page.keyboard.press(" ")
    app.wait(lambda: frame(app) > 1, "it plays")
    app.wait(lambda: frame(app) == FRAMES - 1 and app.page.get_by_role("button", name="Play (space)").count(), "it stops at its end")
    app.page.get_by_label("Again and again").check()
    app.page.get_by_role("button", name="Play (space)").click()
    app.wait(lambda: frame(app) > 4, "it plays")
    app.wait(lambda: frame(app) < 4, "it begins again")
    app.page.get_by_role("button", name="Stop (space)").click()
    still = frame(app)
    app.page.wait_for_timeout(300)
    assert frame(app) == still


def test_a_continued_video_is_shown_from_its_beginning(app, site, pair):
    open_video(app, site, pair[0])
    first = all_frames(app)
    open_video(app, site, pair[1])
    app.page.wait_for_selector("#from-the-beginning")
    joined = all_frames(app)
    assert len(joined) == 4 + FRAMES - 1, "frames 0 to 3 of the first, and all but the first of the second"
    assert joined[:4] == first[:4]
    app.page.uncheck("#from-the-beginning")
    app.wait(lambda: "/ 8" in app.page.inner_text("video-transport output"), "it is shown alone")
    app.page.wait_for_selector("video-player .told", state="hidden")
    alone = all_frames(app)
    assert joined[4:] == alone[1:]
    app.page.check("#from-the-beginning")
    app.wait(lambda: "/ 11" in app.page.inner_text("video-transport output"), "it is shown with the first part")
    go_to(app, 2)
    app.page.get_by_role("button", name="Play (space)").click()
    app.wait(lambda: frame(app) > 5, "it plays over the seam")
    app.page.get_by_role("button", name="Stop (space)").click()
    before = newest(site)
    app.page.click("#save-as-one")
    id = app.wait(lambda: newest(site) != before and newest(site), "the joined video is in the queue")
    assert site.wait(id)["num_frames"] == 12
    open_video(app, site, id)
    saved = all_frames(app)
    assert [distance(one, other) < SAME for one, other in zip(saved, joined)] == [True] * 12
    site.ask("DELETE", f"/v1/videos/{id}")


def test_two_videos_are_joined_from_any_frame(app, site, pair):
    open_video(app, site, pair[0])
    first = all_frames(app)
    open_video(app, site, pair[1])
    app.page.uncheck("#from-the-beginning")
    app.wait(lambda: "/ 8" in app.page.inner_text("video-transport output"), "it is shown alone")
    app.page.wait_for_selector("video-player .told", state="hidden")
    second = all_frames(app)
    go_to(app, 4)
    app.page.click("#join-here")
    assert app.page.input_value("#join-last") == "4"
    app.page.fill("#join-first", "6")
    app.page.select_option("#join-next", pair[0])
    app.page.fill("#join-next-first", "5")
    app.page.get_by_role("dialog").get_by_role("button", name="Join").click()
    app.wait_text("The first frame comes after the last one.", "dialog")
    app.page.fill("#join-first", "1")
    before = newest(site)
    app.page.get_by_role("dialog").get_by_role("button", name="Join").click()
    id = app.wait(lambda: newest(site) != before and newest(site), "the joined video is in the queue")
    assert site.wait(id)["num_frames"] == 4 + 4
    open_video(app, site, id)
    assert [distance(one, other) < SAME for one, other in zip(all_frames(app), second[1:5] + first[5:])] == [True] * 8
    site.ask("DELETE", f"/v1/videos/{id}")


def test_a_video_is_continued_from_the_frame_that_is_shown(app, fresh):
    server = fresh("--model", f"may={ROOT / 'tests/golden/image_pipeline/ti2v'}")
    source = server.wait(server.create(prompt="the beginning", **QUICK)["id"])["id"]
    open_video(app, server, source)
    go_to(app, 2)
    app.page.evaluate("document.querySelector('video-reel').seeking")
    begin = shown(app)
    app.page.click("#go-on")
    app.page.wait_for_selector("make-view[data-ready]")
    app.wait_text("It goes on from frame 2 of “the beginning”", "make-view")
    app.wait(lambda: app.page.is_enabled(".send"), "it can be asked for")
    app.page.click(".send")
    video = server.wait(app.wait(lambda: newest(server) != source and newest(server), "it is in the queue"))
    assert (video["status"], video["extended_from_video_id"], video["extended_from_frame"]) == ("completed", source, 2), video
    app.page.evaluate("path => { const picture = new Image(); picture.id = 'begin'; picture.src = path; document.body.append(picture); return picture.decode(); }",
                      f"/v1/videos/{video['id']}/inputs/input_reference")
    assert distance(app.pixels("#begin", 16), begin) < SAME, "it began with the picture that was shown"
    open_video(app, server, video["id"])
    app.wait(lambda: f"/ {3 + QUICK['num_frames'] - 2}" in app.page.inner_text("video-transport output"), "it is shown from the beginning")
    go_to(app, 2)
    app.page.evaluate("document.querySelector('video-reel').seeking")
    assert distance(shown(app), begin) < SAME, "the first part is shown up to that frame"


def test_it_says_that_it_was_removed_elsewhere_while_it_plays(app, site):
    id = site.wait(site.create(prompt="it will be removed", **MOVING)["id"])["id"]
    open_video(app, site, id)
    app.page.get_by_label("Again and again").check()
    app.page.get_by_role("button", name="Play (space)").click()
    app.expected += ["404"]
    content = site.ask("GET", f"/v1/videos/{id}/content").body
    site.ask("DELETE", f"/v1/videos/{id}")
    app.wait_text("This video was removed elsewhere.", "video-detail")
    app.wait(lambda: frame(app) > 4, "it goes on playing")
    with app.page.expect_download() as saved:
        app.page.get_by_role("button", name="Save the file").click()
    with open(saved.value.path(), "rb") as file:
        assert file.read() == content, "nothing is lost"
