"""What people do wrong, or to the page, in any of its views: files that are dropped beside their place, and prompts that are HTML. Servers that go away,
full queues, jobs that are gone and tabs that edit the same one are in test_queue.py, test_make.py, test_gallery.py and test_player.py."""

import pytest

from conftest import QUICK, SLOW
from test_frame import keyed  # noqa: F401, a fixture
from test_make import Maker, coloured

HTML = "<img src=x onerror=\"document.title='hit'\"><b>bold</b> <script>document.title='hit'</script> {{7*7}} &lt;i&gt; \u202e"


def drop(app, path, x, y):
    """Drops a file of the disk as a hand does it: the browser itself hands it to the page, and opens it if the page does not take it."""
    session = app.page.context.new_cdp_session(app.page)
    data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
    for kind in "dragEnter", "dragOver", "drop":
        session.send("Input.dispatchDragEvent", {"type": kind, "x": x, "y": y, "data": data})
    session.detach()


@pytest.fixture(scope="module")
def film(site, tmp_path_factory):
    """A finished video of a seed that nothing else has, as a file."""
    id = site.wait(site.create(prompt="a film", **QUICK | {"seed": 4711})["id"])["id"]
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    path.write_bytes(site.ask("GET", f"/v1/videos/{id}/content").body)
    yield path
    site.ask("DELETE", f"/v1/videos/{id}")


@pytest.mark.parametrize("view", ["make", "queue", "gallery", "worlds", "keys"])
def test_a_video_that_is_dropped_anywhere_brings_its_settings(app, site, film, view):
    app.open(site, f"#/{view}").page.wait_for_selector(f"{view}-view h1")
    if view == "make":
        app.page.wait_for_selector("make-view[data-ready]")
    drop(app, film, 700, 20)  # on the header, beside every place for files
    app.wait_text("The settings of film.mp4 are in the form", ".note")
    assert app.page.input_value("#make-seed") == "4711" and app.page.url == f"{site.base}/#/make"


def test_a_picture_finds_its_place_and_other_files_are_refused_in_words(app, site, tmp_path):
    (tmp_path / "notes.txt").write_text("words")
    (tmp_path / "cat.png").write_bytes(coloured(10, 200, 10))
    app.open(site, "#/queue").page.wait_for_selector("#add-prompt")
    app.page.fill("#add-prompt", "typed before")
    drop(app, tmp_path / "notes.txt", 500, 500)
    app.wait_text("notes.txt is nothing that can be used here", ".note")
    app.go("#/gallery")
    app.page.wait_for_selector("gallery-view h1")
    drop(app, tmp_path / "cat.png", 500, 500)
    app.page.wait_for_selector("img[alt='cat.png']")
    assert all(green > 150 for _, green, _ in app.pixels("img[alt='cat.png']"))


def test_a_picture_of_the_page_that_is_dragged_goes_nowhere(app, site, film):
    app.open(site, "#/gallery").page.wait_for_selector(".card img")
    box = app.page.locator(".card img").first.bounding_box()
    app.page.mouse.move(box["x"] + 20, box["y"] + 20)
    app.page.mouse.down()
    app.page.mouse.move(box["x"] + 60, box["y"] + 200, steps=5)
    app.page.mouse.up()
    app.page.wait_for_timeout(200)
    assert app.page.url == f"{site.base}/#/gallery" and app.page.query_selector("gallery-view")


def test_a_file_is_not_opened_where_a_key_is_asked_for(app, keyed, tmp_path):  # noqa: F811
    server, _ = keyed
    (tmp_path / "cat.png").write_bytes(coloured(1, 2, 3))
    app.expected.append("401")
    app.open(server, "#/make").page.wait_for_selector("#key-form")
    drop(app, tmp_path / "cat.png", 500, 500)
    app.wait_text("Files can be dropped here once the key is there.", "#notices")
    assert app.page.url == f"{server.base}/#/make" and app.page.query_selector("#key-form")


def check_text(app, selector):
    """The prompt is shown as it was typed, and nothing of it has become a part of the page."""
    app.wait(lambda: any(HTML in text for text in app.page.locator(selector).all_text_contents()), f"{selector} shows the prompt")
    assert app.page.locator("main b, main i, main script, dialog b, dialog script, img[src=x]").count() == 0
    assert "hit" not in app.page.title()


def test_a_prompt_that_is_html_is_text_in_every_view(app, fresh):
    server = fresh()
    made = [server.wait(server.create(prompt=HTML, **QUICK | {"seed": seed})["id"])["id"] for seed in (1, 2)]
    app.open(server, f"#/gallery/{made[0]}")
    check_text(app, "h1")
    check_text(app, "tr[data-name=prompt] td")
    app.page.click("#join-here")
    app.page.wait_for_selector("dialog option >> nth=1", state="attached")
    assert app.page.locator("dialog option").nth(1).text_content().startswith(HTML[:60])
    assert app.page.locator("dialog b, img[src=x]").count() == 0
    app.page.keyboard.press("Escape")
    app.page.click("video-detail button:text-is('Remove')")
    check_text(app, "dialog")
    app.page.keyboard.press("Escape")
    app.open(server, f"#/compare/{made[0]}/{made[1]}").page.wait_for_selector("#summary")
    check_text(app, "tr[data-name=prompt] td")
    make = Maker(app, server)
    make.fill(prompt=HTML)
    make.quick()
    make.page.fill("[aria-label='Name of a preset to save']", "<b>x</b>")
    make.page.click("text='Save'")
    app.wait(lambda: make.fault("preset") == "The name of a preset has no slash.", "the name is refused in place")
    make.send()
    app.page.wait_for_selector(".made video", timeout=60000)
    check_text(app, ".made")
    server.create(prompt=HTML, **SLOW)
    server.create(prompt=HTML, **QUICK)
    app.go("#/queue")
    for part in ".running .prompt", ".waiting .prompt", ".ended .prompt":
        check_text(app, part)
    app.page.click(".waiting [data-do=edit]")
    assert app.page.input_value(".edit textarea >> nth=0") == HTML
