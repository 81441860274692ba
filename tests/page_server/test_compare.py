"""Tests the comparison of two videos: in step, under a wipe and as their difference, and the settings in which they differ."""

import pytest

from conftest import distance


@pytest.fixture(scope="module")
def two(site):
    """Two finished videos that differ in seed, level and length."""
    ids = [site.create(prompt="a red circle moves right", num_inference_steps=4, size="64x64", seed=seed, level=level, num_frames=frames)["id"]
           for seed, level, frames in ((1, "safe", 9), (2, "aggressive", 13))]
    for id in ids:
        assert site.wait(id)["status"] == "completed"
    return ids


def open_both(app, site, ids):
    app.open(site, f"#/compare/{'/'.join(ids)}")
    app.page.wait_for_selector("#summary")
    app.wait(lambda: not app.page.locator(".stage .told:visible").count(), "both are there")
    return app


def frames(app):
    """Returns the numbers of the frames that the two players show, by the times at which they are."""
    return app.page.eval_on_selector_all("video-reel video", "players => players.map(player => Math.floor(player.currentTime * 16))")


def picture(app, name, count=16):
    return app.pixels(f".film[data-name={name}] video", count)


def test_both_step_together(app, site, two):
    open_both(app, site, two)
    assert frames(app) == [0, 0]
    assert distance(picture(app, "A"), picture(app, "B")) > 1
    first = picture(app, "A"), picture(app, "B")
    for number in range(1, 6):
        app.page.keyboard.press(".")
        app.wait(lambda: frames(app) == [number, number], f"both are at frame {number}")
    assert distance(picture(app, "A"), first[0]) > 0.02 and distance(picture(app, "B"), first[1]) > 0.02
    app.page.keyboard.press(",")
    app.wait(lambda: frames(app) == [4, 4], "both go back")
    app.page.keyboard.press("End")
    app.wait(lambda: frames(app) == [8, 12], "the shorter one stays at its last frame")
    assert "stays at its last frame (8)" in app.page.inner_text("#summary")


def test_both_play_together(app, site, two):
    open_both(app, site, two)
    app.page.select_option("video-transport select", "0.25")
    app.page.keyboard.press(" ")
    app.wait(lambda: min(frames(app)) >= 2, "they play")
    apart = []
    while max(now := frames(app)) < 7:
        apart.append(abs(now[0] - now[1]))
        app.page.wait_for_timeout(50)
    assert apart and sorted(apart)[len(apart) // 2] <= 1 and max(apart) <= 3, apart
    app.page.keyboard.press(" ")
    app.wait(lambda: (now := frames(app))[0] == now[1], "they stop at the same frame")


def test_differences_of_settings_are_marked(app, site, two):
    open_both(app, site, two)
    marked = app.page.eval_on_selector_all("tr.differs", "rows => rows.map(row => row.dataset.name)")
    assert marked[:2] == ["level", "seed"] and "num_frames" in marked and "prompt" not in marked, marked
    assert app.page.locator("tr[data-name=seed] td").all_inner_texts() == ["1", "2"]
    assert app.page.locator("tr[data-name=level] td").all_inner_texts() == ["safe", "aggressive"]
    def colour(name):
        return app.page.eval_on_selector(f"tr[data-name={name}] td", "cell => getComputedStyle(cell).backgroundColor")
    assert colour("seed") != colour("prompt")
    assert "differs" in app.page.locator("tr[data-name=seed] th").text_content(), "colour is not all that tells"
    assert f"{len(marked)} settings differ." in app.page.inner_text("#summary")
    app.page.check("#only-differences")
    assert app.page.locator("tr[data-name=prompt]").is_hidden() and app.page.locator("tr[data-name=seed]").is_visible()


def test_the_wipe_shows_as_much_of_each_as_it_says(app, site, two):
    open_both(app, site, two)
    app.page.keyboard.press(".")
    app.page.get_by_label("Wipe", exact=True).check()
    whole = {}
    for name, percent in (("A", 100), ("B", 0)):
        app.page.evaluate("percent => document.querySelector('compare-view').setWipe(percent)", percent)
        whole[name] = app.seen(".stage", 16)
    assert distance(whole["A"], whole["B"]) > 1
    slider = app.page.get_by_label("Wipe: how much of A is seen")
    slider.focus()
    app.page.keyboard.press("Home")
    for _ in range(50):
        app.page.keyboard.press("ArrowRight")
    assert slider.input_value() == "50"
    half = app.seen(".stage", 16)
    rows = [half[16 * y:16 * y + 16] for y in range(16)]
    left = [colour for row in rows for colour in row[4:7]]
    right = [colour for row in rows for colour in row[9:12]]
    def columns(name, first, last):
        return [colour for y in range(16) for colour in whole[name][16 * y + first:16 * y + last]]
    assert distance(left, columns("A", 4, 7)) < 1 and distance(right, columns("B", 9, 12)) < 1
    assert distance(left, columns("B", 4, 7)) > 1 or distance(right, columns("A", 9, 12)) > 1
    box = app.page.locator(".stage").bounding_box()
    app.page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 50)
    app.page.mouse.down()
    app.page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 60, steps=4)
    app.page.mouse.up()
    assert abs(int(slider.input_value()) - 80) <= 1, "the picture is wiped by the mouse, too"


def test_the_difference_of_a_video_with_itself_is_black(app, site, two):
    open_both(app, site, [two[0], two[0]])
    assert app.page.inner_text("#summary").startswith("All settings are the same.")
    app.page.get_by_label("Difference").check()
    same = app.seen(".stage", 16)
    middle = [same[16 * y + x] for y in range(4, 12) for x in range(6, 10)]
    assert max(max(colour) for colour in middle) < 12, middle
    open_both(app, site, two)
    app.page.get_by_label("Difference").check()
    other = app.seen(".stage", 16)
    assert max(max(other[16 * y + x]) for y in range(4, 12) for x in range(6, 10)) > 60


def test_two_are_ticked_and_compared_by_three_clicks(app, site, two):
    app.open(site, "#/gallery")
    for id in two:
        app.page.locator(f".card[data-id='{id}'] input").check()
    app.page.click("#compare")
    app.page.wait_for_selector("#summary")
    assert app.page.evaluate("location.hash") == f"#/compare/{two[0]}/{two[1]}"


def test_one_that_is_gone_is_said_and_the_other_is_shown(app, site, two):
    app.expected += ["404"]
    app.open(site, f"#/compare/video_{'0' * 32}/{two[0]}")
    app.wait_text("There is no such video, or it was removed.", ".film[data-name=A]")
    app.wait_text("One of the two is not there.", "#summary")
    app.page.keyboard.press(".")
    app.wait(lambda: frames(app) == [1], "the other one steps")
