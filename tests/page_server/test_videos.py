"""Tests the places for videos, masks and references, as somebody clicks through them: they are shown for the models that take them, and what is chosen
there is what the server gets."""

import pytest

from conftest import BUILD, QUICK
from server import Server
from test_make import REFUSED, Maker, picture

from models import vace_model


@pytest.fixture(scope="session")
def films(tmp_path_factory):
    """A server with a model that can change videos and one that follows them, and a film that was made there."""
    folder = tmp_path_factory.mktemp("films")
    words = ["--model", f"sprites={BUILD / '../models/sprites'}", "--model", f"vace={vace_model(folder / 'vace')}"]
    with Server(BUILD, *words) as server:
        server.wait_ready()
        id = server.wait(server.create(**QUICK)["id"])["id"]
        film = folder / "a film.mp4"
        film.write_bytes(server.ask("GET", f"/v1/videos/{id}/content").body)
        yield server, film


@pytest.fixture
def make(app, films):
    maker = Maker(app, films[0])
    maker.page.click("#make-videos summary")
    return maker


def test_a_video_is_changed_and_asked_about_without_being_sent_again(make, films):
    make.app.expected = [REFUSED]
    plans = []
    make.page.on("request", lambda request: plans.append(request.post_data_buffer or b"") if request.url.endswith("/plan") else None)
    for name in ("control_video", "reference"):
        assert not make.page.is_visible(f"#make-{name}"), "sprites follows nothing"
    make.page.set_input_files("#make-video", str(films[1]))
    make.page.wait_for_selector("video[aria-label='a film.mp4']")
    make.quick()
    make.fill(strength="0.5")
    make.plan("of memory")
    make.app.wait(lambda: plans and b'"frames":5' in plans[-1], "the film is known")
    plans.clear()
    make.page.fill("#make-num_frames", "81")
    make.app.wait_text("81 are needed", "#fault-video")
    assert make.fault("video").startswith("The video has 5 frames"), make.fault("video")
    assert make.page.is_disabled(".send")
    assert plans and all(b'"frames":5' in body for body in plans), "the film is not sent again for a plan"
    make.page.fill("#make-num_frames", "5")
    make.plan("of memory")
    job = make.send()[0]
    assert job["settings"]["video"]["file"] == "a film.mp4" and float(job["settings"]["strength"]) == 0.5, job
    assert make.server.wait(job["id"])["status"] == "completed"
    make.page.click("text=Empty the form")
    make.app.wait(lambda: not make.page.query_selector("video[aria-label='a film.mp4']"), "the form is empty")
    make.page.click("text=Use these settings")
    make.page.wait_for_selector("video[aria-label='a film.mp4']")
    assert make.page.input_value("#make-strength") == "0.5"


def test_what_is_no_mask_is_said_at_its_place(make, films):
    make.app.expected = [REFUSED]
    make.page.set_input_files("#make-video", str(films[1]))
    make.page.set_input_files("#make-mask_video", picture("grey.png", 128, 128, 128))
    make.app.wait_text("is not a mask", "#fault-mask_video")
    assert make.page.is_disabled(".send")
    make.page.set_input_files("#make-mask_video", picture("white.png", 255, 255, 255))
    make.app.wait(lambda: not make.fault("mask_video"), "a mask is taken")


def test_vace_follows_a_film_in_a_painted_mask_and_looks_at_pictures(make, films):
    make.page.select_option("#make-model", "vace")
    for name in ("control_video", "mask_video", "reference", "video"):
        make.page.wait_for_selector(f"#make-{name}")
    assert make.page.is_disabled("text=Paint a mask")
    make.page.set_input_files("#make-control_video", str(films[1]))
    make.page.click("text=Paint a mask")
    make.page.wait_for_selector("dialog canvas:focus")
    make.page.click("text=Use this")
    make.app.wait_text("Made anew: nothing is painted yet.", "dialog")
    make.page.focus("dialog canvas")
    make.page.keyboard.press("Space")
    make.page.click("text=Use this")
    make.page.wait_for_selector("img[alt='mask.png']")
    make.app.wait(lambda: make.page.eval_on_selector("img[alt='mask.png']", "img => img.naturalWidth") == 32, "the mask has the film's size")
    shades = make.app.pixels("img[alt='mask.png']", 16)
    assert (0, 0, 0) in shades and (255, 255, 255) in shades, shades
    make.page.set_input_files("#make-reference", [picture("one.png", 200, 10, 10), picture("two.png", 10, 10, 200)])
    make.quick()
    make.plan("of memory")
    job = make.send()[0]
    shown = job["settings"]
    assert (shown["control_video"]["file"], shown["mask_video"]["file"]) == ("a film.mp4", "mask.png"), shown
    assert (shown["reference"]["file"], shown["reference_2"]["file"]) == ("one.png", "two.png"), shown
    assert make.server.wait(job["id"])["status"] == "completed"
