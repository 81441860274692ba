"""Tests the gallery: hundreds of finished videos that scroll smoothly, what can be done with one, and what is said of one that is not there any more."""

import json
import time

import pytest

from access import check_colours, check_names, check_phone
from conftest import QUICK
from stock import edit

SMOOTH_MS = 50  # of the page's own thread, in one piece


def cards(app):
    return app.page.locator(".card").count()


def open_gallery(app, server):
    app.open(server, "#/gallery")
    app.page.wait_for_selector(".card .shot img")
    return app


def tasks_of(trace):
    """Returns the milliseconds of processor time that each task of the pages' main threads took, by Chromium's trace."""
    events = json.loads(trace)["traceEvents"]
    main = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"}
    return [event["tdur"] / 1000 for event in events if event["name"].endswith("RunTask") and "tdur" in event and (event["pid"], event["tid"]) in main]


def scroll_down(app, until):
    app.page.mouse.move(500, 500)
    last = time.monotonic() + 90
    while not until():
        assert time.monotonic() < last, f"only {cards(app)} cards"
        app.page.mouse.wheel(0, 1200)
        app.page.wait_for_timeout(16)


def test_500_finished_videos_scroll_smoothly(app, stocked, browser):
    server, ids = stocked(500)
    open_gallery(app, server)
    browser.start_tracing(page=app.page, categories=["toplevel", "__metadata"])
    scroll_down(app, lambda: cards(app) == 500)
    scroll_down(app, lambda: app.page.evaluate("scrollY + innerHeight >= document.body.scrollHeight - 2"))
    app.wait(lambda: app.page.locator(".card").last.locator("img").count(), "the last one has its picture")
    tasks = tasks_of(browser.stop_tracing())
    assert len(tasks) > 500, "the trace has what the page did"
    assert max(tasks) < SMOOTH_MS, f"a task took {max(tasks):.0f} ms"
    print(f"{len(tasks)} tasks, the longest of {max(tasks):.1f} ms")
    assert app.page.locator(".card").last.get_attribute("data-id") == ids[0], "the oldest comes last"
    assert "These are all 500 videos." in app.page.inner_text(".told-below")


def test_a_trace_tells_of_a_long_task(app, site, browser):
    app.open(site, "#/queue")
    browser.start_tracing(page=app.page, categories=["toplevel", "__metadata"])
    app.page.evaluate("new Promise(done => setTimeout(() => { let sum = 0; for (let i = 0; i < 4e8; ++i) sum += i % 7; done(sum); }, 100))")
    app.page.wait_for_timeout(300)
    assert max(tasks_of(browser.stop_tracing())) > SMOOTH_MS


def test_only_pictures_near_the_screen_are_fetched(app, stocked):
    server, ids = stocked(120)
    open_gallery(app, server)
    app.page.wait_for_timeout(500)
    def fetched():
        return {url for url in app.requests if "variant=thumbnail" in url}
    first = fetched()
    assert 3 <= len(first) < 60, len(first)
    assert not any(ids[0] in url for url in first)
    scroll_down(app, lambda: len(fetched()) > len(first))


def test_the_list_is_where_it_was_left(app, stocked):
    server, _ = stocked(120)
    open_gallery(app, server)
    scroll_down(app, lambda: cards(app) >= 80)
    app.page.wait_for_timeout(100)
    before = app.page.evaluate("scrollY")
    assert before > 500
    app.page.evaluate("document.querySelectorAll('.card')[60].querySelector('a').click()")
    app.page.wait_for_selector("video-player")
    app.page.go_back()
    app.page.wait_for_selector(".card")
    app.wait(lambda: abs(app.page.evaluate("scrollY") - before) < 50, "it is where it was left")


@pytest.fixture
def three(site):
    """Three finished videos on the shared server, which the test may remove."""
    ids = [site.create(prompt=f"number {number} of three", **QUICK | {"seed": number})["id"] for number in range(3)]
    for id in ids:
        site.wait(id)
    yield ids
    for id in ids:
        site.ask("DELETE", f"/v1/videos/{id}")


def card(app, id):
    return app.page.locator(f".card[data-id='{id}']")


def test_a_video_is_removed_by_two_clicks(app, site, three):
    open_gallery(app, site)
    card(app, three[1]).get_by_role("button", name="Remove").click()
    app.page.get_by_role("dialog").get_by_role("button", name="No").click()
    assert card(app, three[1]).count() == 1
    card(app, three[1]).get_by_role("button", name="Remove").click()
    app.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    card(app, three[1]).wait_for(state="detached")
    assert site.ask("GET", f"/v1/videos/{three[1]}").status == 404
    assert card(app, three[0]).count() == card(app, three[2]).count() == 1


def test_a_video_is_saved_by_one_click(app, site, three):
    open_gallery(app, site)
    with app.page.expect_download() as saved:
        card(app, three[0]).get_by_role("button", name="Download").click()
    with open(saved.value.path(), "rb") as file:
        assert file.read() == site.ask("GET", f"/v1/videos/{three[0]}/content").body


def test_settings_go_into_the_form_by_one_click(app, site, three):
    open_gallery(app, site)
    card(app, three[2]).get_by_role("button", name="Copy the settings").click()
    app.page.wait_for_selector("make-view")
    app.wait(lambda: app.page.locator("make-view textarea").first.input_value() == "number 2 of three", "the form has the prompt")
    values = app.page.evaluate("document.querySelector('make-view').form.draft.values")
    assert values["size"] == "32x32" and values["seed"] == "2", values


def test_new_and_removed_videos_come_and_go_by_themselves(app, site, three):
    open_gallery(app, site)
    app.page.evaluate("page.store.asker.faster = 10")
    assert card(app, three[0]).count() == 1
    app.expected += ["404"]
    site.ask("DELETE", f"/v1/videos/{three[0]}")
    card(app, three[0]).wait_for(state="detached")
    id = site.wait(site.create(prompt="a late one", **QUICK)["id"])["id"]
    card(app, id).wait_for()
    assert app.page.locator(".card").first.get_attribute("data-id") == id
    site.ask("DELETE", f"/v1/videos/{id}")


def test_prompts_are_texts(app, site):
    prompt = "<img src=x onerror=document.title='injected'> & <b>bold</b> \u202e\"'"
    id = site.wait(site.create(prompt=prompt, **QUICK)["id"])["id"]
    open_gallery(app, site)
    assert card(app, id).locator(".title").inner_text() == prompt
    card(app, id).locator("a").click()
    app.wait(lambda: app.page.locator("h1").inner_text() == prompt, "the heading is the prompt")
    assert app.page.locator("main b, h1 img").count() == 0 and "injected" not in app.page.title()
    site.ask("DELETE", f"/v1/videos/{id}")


def test_a_half_broken_thumbnail_is_said_in_place(app, site, three):
    picture = site.files / "jobs" / three[0] / "thumbnail.jpg"
    whole = picture.read_bytes()
    picture.write_bytes(whole[:len(whole) // 2])
    open_gallery(app, site)
    card(app, three[0]).get_by_text("The picture is damaged.").wait_for()
    card(app, three[1]).locator("img").wait_for()


def test_an_expired_video_is_said_in_place(app, fresh):
    server = fresh()
    ids = [server.wait(server.create(**QUICK)["id"])["id"] for _ in range(2)]
    server.end()
    edit(server.files, ids[0], expires_ms=1000 * int(time.time()) + 500)
    server.start()
    server.wait_ready()
    time.sleep(0.6)
    app.expected += ["410", "404"]
    app.open(server, f"#/gallery/{ids[0]}")
    app.wait(lambda: any(text in app.page.inner_text("main") for text in ("not kept any longer", "was removed")), "it is said")
    app.go("#/gallery")
    card(app, ids[1]).locator("img").wait_for()


def test_a_file_that_is_gone_is_said_in_place(app, site, three):
    (site.files / "jobs" / three[0] / "video.mp4").unlink()
    app.expected += ["410"]
    app.open(site, f"#/gallery/{three[0]}")
    app.wait_text("The file of this video is not kept any longer. Its settings are still here.", "video-player")
    assert app.page.locator("tr[data-name=prompt] td").inner_text() == "number 0 of three"
    assert app.page.locator("video-transport button").first.is_disabled()


def test_a_damaged_file_is_said_in_place(app, site, three):
    (site.files / "jobs" / three[0] / "video.mp4").write_bytes(b"no video at all" * 100)
    app.open(site, f"#/gallery/{three[0]}")
    app.wait_text("This file cannot be played", "video-player")


def test_an_unknown_video_is_said_in_place(app, site):
    app.expected += ["404"]
    app.open(site, "#/gallery/video_00000000000000000000000000000000")
    app.wait_text("There is no such video, or it was removed.", "main")


def test_every_setting_is_shown(app, site, three):
    app.open(site, f"#/gallery/{three[1]}")
    rows = {"seed": "1", "size": "32x32", "num_frames": "5", "num_inference_steps": "2", "sampler": "unipc", "level": "safe"}
    for name, text in rows.items():
        app.page.wait_for_selector(f"tr[data-name={name}]")
        assert app.page.locator(f"tr[data-name={name}] td").inner_text() == text, name
    assert app.page.locator("tr[data-name=output], tr[data-name=width]").count() == 0


def test_each_part_of_the_gallery_is_for_everybody(app, site, three):
    """Names, headings, colours in the dark and in the light, and phones."""
    for route, there in (("#/gallery", ".card img"), (f"#/gallery/{three[0]}", "tr[data-name=sampler]"), (f"#/compare/{three[0]}/{three[1]}", "#summary")):
        app.page.set_viewport_size({"width": 1100, "height": 900})
        app.open(site, route)
        app.page.wait_for_selector(there)
        check_names(app, "gallery")
        check_colours(app)
        check_phone(app)
