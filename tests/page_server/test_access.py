"""What opens within a view serves everybody, too: each dialog, the form with all of its parts, entries that are edited, the player, the comparison and
the keys. The views as they are at first are looked at in test_frame.py, the parts of the gallery in test_gallery.py."""

import pytest

from access import check_colours, check_dialog, check_names, check_order, check_phone
from conftest import QUICK
from test_frame import keyed, lively  # noqa: F401, fixtures
from test_make import TALKER, Maker


def focus_and_press(app, selector, key="Enter"):
    app.page.locator(selector).first.focus()
    return lambda: app.page.keyboard.press(key)


def dialog_of(app, selector):
    """Looks at the dialog that a control opens by the keyboard."""
    press = focus_and_press(app, selector)
    check_dialog(app, press=press)


@pytest.fixture(scope="module")
def two(site):
    prompts = "one of two", "a_word_without_an_end_" * 5
    ids = [site.create(prompt=prompt, **QUICK | {"seed": seed})["id"] for seed, prompt in enumerate(prompts)]
    for id in ids:
        site.wait(id)
    yield ids
    for id in ids:
        site.ask("DELETE", f"/v1/videos/{id}")


@pytest.mark.parametrize("mode", ["text", "talk"])
def test_the_whole_form(app, site, mode):
    """With everything that it can open: the parts, the LoRAs, the second person, every other setting, and files that were given."""
    make = Maker(app, site)
    make.page.click(f"#tab-{mode}")
    if mode == "talk":
        make.page.set_input_files("#make-input_reference", str(TALKER / "photo.png"))
        make.page.set_input_files("#make-audio_reference", str(TALKER / "speech.wav"))
        make.page.wait_for_selector("audio")
    for summary in make.page.query_selector_all("make-view summary"):
        if summary.is_visible():
            summary.click()
    make.page.wait_for_selector("#make-dtype")
    make.plan("of memory")
    check_names(app, "make")
    check_colours(app)
    check_phone(app)
    assert check_order(app) > 40
    app.page.set_viewport_size({"width": 360, "height": 700})
    check_order(app)


def test_the_dialog_that_crops(app, site):
    make = Maker(app, site)
    make.page.click("#tab-talk")
    make.page.set_input_files("#make-input_reference", str(TALKER / "photo.png"))
    make.page.wait_for_selector("[aria-label='Crop photo.png']")
    dialog_of(app, "[aria-label='Crop photo.png']")


def test_the_dialog_that_paints_masks(app, site):
    make = Maker(app, site)
    make.page.click("#tab-talk")
    make.page.set_input_files("#make-input_reference", str(TALKER / "photo.png"))
    make.page.set_input_files("#make-audio_reference", str(TALKER / "speech.wav"))
    make.page.click("summary:has-text('Two people')")
    make.page.set_input_files("#make-audio_reference_2", str(TALKER / "speech.wav"))
    dialog_of(app, "button:has-text('Paint who is where')")


def test_the_dialogs_of_a_video(app, site, two):
    app.open(site, f"#/gallery/{two[0]}").page.wait_for_selector("tr[data-name=sampler]")
    app.page.wait_for_selector("video-player .told", state="hidden")
    assert check_order(app) > 8
    dialog_of(app, "#join-here")
    dialog_of(app, "video-detail button:text-is('Remove')")


@pytest.mark.parametrize("way", ["Side by side", "Wipe", "Difference"])
def test_the_comparison(app, site, two, way):
    app.open(site, f"#/compare/{two[0]}/{two[1]}").page.wait_for_selector("#summary")
    app.wait(lambda: not app.page.locator(".stage .told:visible").count(), "both are there")
    app.page.get_by_label(way, exact=True).check()
    check_names(app, "gallery")
    check_colours(app)
    check_phone(app)
    assert check_order(app) > 8


def test_an_entry_that_is_edited_and_the_dialogs_of_the_queue(app, lively):  # noqa: F811
    app.open(lively, "#/queue").page.wait_for_selector(".waiting")
    app.page.wait_for_selector(".running canvas:not([hidden])", timeout=60000)
    dialog_of(app, ".preview")
    dialog_of(app, ".waiting [data-do=remove]")
    app.page.click(".waiting [data-do=edit]")
    app.page.wait_for_selector(".edit")
    check_names(app, "queue")
    check_colours(app)
    check_phone(app)


def test_the_gallery_by_keys(app, site, two):
    app.open(site, "#/gallery").page.wait_for_selector(".card img")
    assert check_order(app) > 8


def test_the_question_for_a_key_and_the_keys(app, keyed):  # noqa: F811
    server, keys = keyed
    app.expected.append("401")
    app.open(server, "#/keys").page.wait_for_selector("#key-form")
    app.page.fill("#key", "tk-wrong")
    app.page.keyboard.press("Enter")
    app.wait_text("This is not a key of this server", "#key-form")
    check_names(app, "keys")
    check_colours(app)
    check_phone(app)
    assert check_order(app) == 3
    app.page.fill("#key", keys["root"])
    app.page.keyboard.press("Enter")
    app.wait_text("Who has a key", "keys-view")
    check_names(app, "keys")
    check_colours(app)
    check_phone(app)
    check_order(app)


def test_a_server_that_is_away_is_seen_and_told(app, fresh):
    server = fresh()
    app.open(server, "#/queue").page.wait_for_selector("queue-view h1")
    app.expected += ["ERR_", "503"]
    server.kill()
    app.wait_text("The server does not answer", "#away")
    check_names(app, "queue")
    check_colours(app)
    check_phone(app)
