"""The queue as a person uses it: adding while it runs, editing, moving, stopping, previews, and what goes wrong."""

import json
import os
import sqlite3
import statistics
import uuid

import pytest

from conftest import QUICK, SLOW, distance

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
HTML = "<b>bold</b> <img src=x onerror=\"document.title='hit'\"> & \"quotes\""


def waiting(app):
    return app.page.eval_on_selector_all(".waiting .prompt", "all => all.map(one => one.textContent)")


def entry(app, prompt):
    """Returns the selector of the entry with this prompt."""
    return f'.job:has(.prompt:text-is("{prompt}"))'


def do(app, prompt, what):
    app.page.click(f"{entry(app, prompt)} [data-do={what}]")


@pytest.fixture
def busy(fresh):
    """A server that is busy with a long job, so that others wait."""
    server = fresh()
    server.create(prompt="the long one", **SLOW)
    return server


def queued(server, *prompts):
    return [server.create(prompt=prompt, **QUICK)["id"] for prompt in prompts]


def line_of(server):
    return [video["prompt"] for video in server.ask("GET", "/v1/videos?status=active").json["data"]][1:]


def test_a_prompt_is_added_while_another_video_is_made(busy, app):
    app.open(busy, "#/queue").wait_text("the long one", "#being-made-section")
    app.page.fill("#add-prompt", HTML)
    app.page.press("#add-prompt", "Enter")
    app.wait_text("<b>bold</b>", ".waiting .prompt")
    assert app.page.input_value("#add-prompt") == ""
    assert waiting(app) == [HTML] and app.page.query_selector(".waiting .prompt b, .waiting img[src=x]") is None
    assert app.page.title() == "Queue – Tachyscope"
    app.wait_text("Next in line · ready in about", ".waiting .state")
    assert "it is the next one" not in app.page.inner_text(".waiting .state"), "the place is said once"
    assert line_of(busy) == [HTML]


def test_a_waiting_job_is_edited_copied_and_removed(busy, app):
    first, second = queued(busy, "to change", "to remove")
    app.open(busy, "#/queue").wait_text("to change")
    do(app, "to change", "edit")
    app.page.fill(f"#prompt-{first}", HTML)
    app.page.fill(f"#seed-{first}", "41")
    app.page.fill(f"#num_frames-{first}", "4")
    app.page.click(".edit [type=submit]")
    app.wait(lambda: app.page.get_attribute(f"#num_frames-{first}", "aria-invalid") == "true", "the wrong field is marked")
    assert "num_frames" in app.page.inner_text(f"#num_frames-{first}-fault")
    assert app.page.evaluate("document.activeElement.id") == f"num_frames-{first}"
    app.page.fill(f"#num_frames-{first}", "9")
    app.page.click(".edit [type=submit]")
    app.wait(lambda: HTML in waiting(app), "the new prompt is shown")
    video = busy.video(first)
    assert (video["prompt"], video["seed"], video["num_frames"]) == (HTML, 41, 9)
    do(app, "to remove", "remove")
    app.page.click("dialog >> text=No")
    assert "to remove" in waiting(app)
    do(app, "to remove", "remove")
    app.page.click("dialog >> text=/^Remove$/")
    app.wait(lambda: "to remove" not in waiting(app), "the entry goes")
    assert busy.ask("GET", f"/v1/videos/{second}").status == 404
    app.page.click(".waiting [data-do=copy]")
    app.wait(lambda: app.page.evaluate("location.hash") == "#/make", "the form is shown")
    app.expected.append("422")


def talking(server):
    """Returns the fields of a form with the talker's own photo and speech."""
    boundary, example = uuid.uuid4().hex, os.path.join(ROOT, "models", "talker", "example")
    fields = {"prompt": "a person talks and nods", "model": "talker", "num_frames": "33", "num_inference_steps": "20"}
    parts = [(f'Content-Disposition: form-data; name="{name}"\r\n\r\n', value.encode()) for name, value in fields.items()]
    for name, file, kind in (("input_reference", "photo.png", "image/png"), ("audio_reference", "speech.wav", "audio/wav")):
        with open(os.path.join(example, file), "rb") as source:
            parts.append((f'Content-Disposition: form-data; name="{name}"; filename="{file}"\r\nContent-Type: {kind}\r\n\r\n', source.read()))
    body = b"".join(f"--{boundary}\r\n{head}".encode() + value + b"\r\n" for head, value in parts) + f"--{boundary}--\r\n".encode()
    return server.ask("POST", "/v1/videos", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"}).json["id"]


def test_a_waiting_job_shows_the_picture_that_it_was_given(busy, app):
    talking(busy)
    app.open(busy, "#/queue").page.wait_for_selector(".waiting .thumb img")
    app.wait(lambda: app.page.eval_on_selector(".waiting .thumb img", "image => image.naturalWidth"), "the picture is there")
    assert len(set(app.pixels(".waiting .thumb img"))) > 4, "the picture is the photo, and not an empty box"


def test_jobs_are_moved_by_keyboard_and_by_dragging(busy, app):
    queued(busy, "a", "b", "c", "d")
    app.open(busy, "#/queue").wait(lambda: waiting(app) == ["a", "b", "c", "d"], "four wait")
    grip = f"{entry(app, 'd')} .grip"
    app.page.focus(grip)
    app.page.keyboard.press("ArrowUp")
    app.page.keyboard.press("ArrowUp")
    app.wait(lambda: waiting(app) == ["a", "d", "b", "c"], "two places up")
    app.wait_text("2nd in line now", "#notices")
    assert app.page.evaluate("document.activeElement.closest('.job').textContent").startswith("32x32d"), "the focus goes along"
    app.page.keyboard.press("Home")
    app.wait(lambda: waiting(app) == ["d", "a", "b", "c"], "to the head")
    app.page.click(f"{entry(app, 'd')} [title='Move down']")
    app.wait(lambda: waiting(app) == ["a", "d", "b", "c"], "one down")
    drag(app, "c", "a", 0.2)
    app.wait(lambda: waiting(app) == ["c", "a", "d", "b"], "dragged to the head")
    drag(app, "c", "b", 0.9)
    app.wait(lambda: waiting(app) == ["a", "d", "b", "c"], "dragged to the end")
    assert line_of(busy) == ["a", "d", "b", "c"]
    drag(app, "c", "a", 0.2, drop=False)
    assert waiting(app) == line_of(busy) == ["a", "d", "b", "c"], "Escape gives up"


def drag(app, prompt, onto, part, drop=True):
    box = app.page.locator(f"{entry(app, prompt)} .grip").bounding_box()
    target = app.page.locator(entry(app, onto)).bounding_box()
    mouse = app.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse.down()
    mouse.move(box["x"] + 10, target["y"] + target["height"] / 2, steps=5)
    mouse.move(box["x"] + 10, target["y"] + part * target["height"], steps=3)
    assert app.page.query_selector(".dragging") and app.page.query_selector(".drop-before, .drop-end")
    if not drop:
        app.page.keyboard.press("Escape")
    mouse.up()


def test_the_queue_outlives_a_reload_and_a_restart(busy, app):
    queued(busy, "a", "b")
    app.open(busy, "#/queue").wait(lambda: waiting(app) == ["a", "b"], "two wait")
    app.page.reload()
    app.wait(lambda: waiting(app) == ["a", "b"], "two wait after a reload")
    do(app, "b", "edit")
    app.page.locator(".edit textarea").first.fill("typed, but not saved")
    busy.kill()
    app.wait_text("The server does not answer", "#away")
    app.page.click(".edit [type=submit]")
    app.wait_text("stays here", ".edit")
    assert waiting(app) == ["a", "b"], "what was known is still shown"
    busy.start(busy.port)
    app.wait(lambda: not app.page.is_visible("#away"), "the server is back", 30)
    app.wait_text("The server is back", "#notices")
    app.page.click(".edit [type=submit]")
    app.wait(lambda: waiting(app) == ["a", "typed, but not saved"], "it is saved now")
    app.expected += ["ERR_CONNECTION", "ERR_INCOMPLETE", "ERR_EMPTY", "503"]


def test_previews_come_at_once_and_can_be_enlarged(fresh, app):
    server = fresh()
    app.open(server, "#/queue")
    app.page.evaluate("""() => {
      window.seen = {};
      new MutationObserver(all => {
        for (const {target} of all) if (target.tagName === 'CANVAS' && target.dataset.path)
          requestAnimationFrame(() => { window.seen[target.dataset.path] ??= Date.now(); });
      }).observe(document.body, {subtree: true, attributes: true, attributeFilter: ['data-path']});
    }""")
    id = server.create(prompt="the long one", **SLOW)["id"]
    app.page.wait_for_selector(".running canvas:not([hidden])")
    first = app.page.get_attribute(".running canvas", "data-path")
    assert len(set(app.pixels(".running canvas"))) > 8, "the preview is a picture"
    app.page.click(".preview")
    app.page.wait_for_selector("dialog canvas:not([hidden])")
    assert app.page.eval_on_selector("dialog canvas", "canvas => canvas.getBoundingClientRect().width") > 500
    assert len(set(app.pixels("dialog canvas"))) > 8
    app.wait(lambda: app.page.get_attribute("dialog canvas", "data-path") != first, "the large one follows", 30)
    app.page.keyboard.press("Escape")
    assert app.page.evaluate("document.activeElement.className") == "preview", "the focus is back"
    app.wait(lambda: len(app.page.evaluate("window.seen")) > 4, "more previews come", 60)
    late = []  # without the first one, which may be older than this page's knowledge of the job
    seen = app.page.evaluate("window.seen")
    seen.pop(first)
    for path, shown in seen.items():
        file = server.files / "jobs" / id / f"preview-{path.rsplit('/', 1)[1]}.jpg"
        if file.exists():
            late.append(shown / 1000 - file.stat().st_mtime)
    print("seconds from a preview's file to the screen:", [round(one, 3) for one in late])
    assert len(late) >= 3 and statistics.median(late) < 0.3, late


def test_a_job_is_held_stopped_and_kept(fresh, app):
    server = fresh()
    id = server.create(prompt="the long one", **SLOW)["id"]
    app.open(server, "#/queue").page.wait_for_selector(".running .preview canvas:not([hidden])", timeout=30000)
    app.page.click("text=Pause")
    app.wait_text("On hold", ".waiting .state")
    assert server.video(id)["paused"]
    do(app, "the long one", "hold")
    app.page.wait_for_selector(".running")
    app.wait_text("Step ", ".running .state")
    app.page.click("text=Stop and delete")
    app.page.click("dialog >> text=/^Remove$/")
    app.wait(lambda: not app.page.query_selector(".running"), "it goes")
    assert server.ask("GET", f"/v1/videos/{id}").status == 404
    app.expected.append("404")


def test_stop_and_keep_makes_a_video_of_what_is_there(fresh, app):
    server = fresh()
    id = server.create(prompt="many frames", size="256x256", num_frames=97, num_inference_steps=1)["id"]
    app.open(server, "#/queue").page.wait_for_selector(".running")
    assert app.page.is_disabled(".running [data-do=keep]"), "there is no frame yet"
    app.page.click(".running [data-do=keep]", timeout=240000)  # as soon as it can be clicked
    app.wait_text("Ready", ".ended .state", 60)
    video = server.video(id)
    assert video["status"] == "completed" and 0 < video["num_frames"] < 97
    app.wait(lambda: app.page.eval_on_selector_all(".ended .thumb img", "all => all[0]?.naturalWidth"), "its thumbnail is shown")


def test_two_tabs_that_edit_the_same_job(busy, tabs):
    id, = queued(busy, "as it was")
    one, other = tabs(), tabs()
    for tab, prompt in ((one, "by one"), (other, "by the other")):
        tab.open(busy, "#/queue").wait_text("as it was")
        do(tab, "as it was", "edit")
        tab.page.fill(f"#prompt-{id}", prompt)
    one.page.click(".edit [type=submit]")
    one.wait(lambda: waiting(one) == ["by one"], "the first one is saved")
    other.wait(lambda: waiting(other) == ["by one"], "the other tab sees it")
    assert other.page.input_value(f"#prompt-{id}") == "by the other", "what is being typed stays"
    other.page.click(".edit [type=submit]")
    other.wait_text("changed elsewhere", ".edit")
    other.wait_text("Prompt is now: by one", ".edit")
    assert busy.video(id)["prompt"] == "by one"
    other.page.click("text=Save mine over it")
    other.wait(lambda: waiting(other) == ["by the other"], "the other one is saved")
    assert busy.video(id)["prompt"] == "by the other"
    other.expected.append("412")


def test_many_tabs_leave_the_browser_connections_for_what_is_clicked(busy, tabs):
    queued(busy, "waits")
    many = [tabs().open(busy, "#/queue") for _ in range(5)]
    for tab in many:
        tab.wait_text("the long one", ".running")
    for number, tab in enumerate(many):
        tab.page.fill("#add-prompt", f"of tab {number}")
        tab.page.keyboard.press("Enter")
    for number, tab in enumerate(many):
        tab.wait(lambda: f"of tab {number}" in waiting(tab), "it is added", 10)
    many[0].wait(lambda: len(waiting(many[0])) == 6, "the first one sees all of them")


def test_what_was_typed_outlives_the_job(busy, app):
    first, second = queued(busy, "to be removed", "to begin")
    app.open(busy, "#/queue").wait_text("to begin")
    do(app, "to be removed", "edit")
    app.page.fill(f"#prompt-{first}", "kept over a reload")
    app.page.reload()
    app.wait_text("to begin")
    assert app.page.input_value(f"#prompt-{first}") == "kept over a reload"
    assert busy.ask("DELETE", f"/v1/videos/{first}").status == 200
    app.wait_text("does not wait any more", "#not-saved-section")
    assert app.page.input_value(f"#prompt-{first}") == "kept over a reload"
    app.page.click("text=Make another one with this")
    app.wait(lambda: app.page.evaluate("location.hash") == "#/make", "the form is shown")
    assert busy.video(second)["status"] == "queued"
    app.expected.append("404")


def test_a_full_queue_is_said_in_place_and_the_prompt_stays(fresh, app):
    server = fresh("--queue", "1")
    server.create(prompt="the long one", **SLOW)
    app.open(server, "#/queue").page.wait_for_selector(".running")
    for prompt in ("fits", "too much"):
        app.page.fill("#add-prompt", prompt)
        app.page.click(".add button")
        app.wait(lambda: not app.page.is_disabled(".add button"), "the server has answered")
    app.wait_text("The queue is full. Your prompt stays here", ".add")
    assert app.page.input_value("#add-prompt") == "too much" and waiting(app) == ["fits"]
    app.expected.append("429")


def test_an_expired_video_says_so(fresh, app):
    server = fresh()
    id = server.wait(server.create(**QUICK)["id"])["id"]
    with sqlite3.connect(server.files / "tachyscope.db") as table:
        table.execute("UPDATE jobs SET expires_ms = 1000 WHERE id = ?", (id,))
    app.open(server, "#/queue").wait_text("not kept any longer", ".ended .state")
    app.expected.append("410")


def test_an_end_that_does_not_jump(site, app):
    app.open(site, "#/queue")
    shown = app.page.evaluate("""async () => {
      const {Eta} = await import('/page/eta.js');
      const eta = new Eta(), shown = [];
      let now = 0;
      // A job of 100 s, whose estimates are wrong by up to half in turn.
      for (let second = 0; second < 100; ++second, now += 1000) {
        eta.update((100 - second) * (1 + 0.5 * Math.sin(second * 2.4)), now);
        shown.push(eta.left(now));
      }
      const before = eta.left(now);
      for (let i = 0; i < 3; ++i) eta.update(600, now);  // something has happened: an honest end is shown soon
      return {shown, before, after: eta.left(now), none: (eta.update(null, now), eta.left(now))};
    }""")
    rises = [later - earlier for earlier, later in zip(shown["shown"], shown["shown"][1:])]
    assert max(rises) < 1 and sum(rise > 0 for rise in rises) < 10, rises
    assert all(abs(left - (100 - second)) < 5 for second, left in enumerate(shown["shown"])), shown["shown"]
    assert shown["before"] < 3 and shown["after"] == pytest.approx(600) and shown["none"] is None


def test_a_video_that_others_make_appears_by_itself(site, app):
    app.open(site, "#/queue")
    prompt = f"made elsewhere {json.dumps('x')}"
    id = site.create(prompt=prompt, **QUICK)["id"]
    app.wait_text(prompt, "main")
    app.wait_text("Ready", f'.ended[data-id="{id}"] .state', 30)


@pytest.mark.parametrize("model", ["sprites", "talker"])
def test_a_preview_has_the_colours_of_its_video(site, app, model):
    """The first picture of the last preview beside the first frame of the file, each on a grid of 8 x 8 points."""
    id = talking(site) if model == "talker" else site.create(prompt="a red circle moves right over hills at day", num_frames=17, num_inference_steps=30, seed=1)["id"]
    video = site.wait(id)
    assert video["status"] == "completed", video
    last = max((site.files / "jobs" / id).glob("preview-*.jpg"), key=lambda path: int(path.stem.split("-")[1]))
    app.open(site, f"#/gallery/{id}")
    app.page.wait_for_selector("video-player .told", state="hidden")
    app.page.evaluate("document.querySelector('video-transport').seek(0)")
    film = app.pixels("video-reel video:not([hidden])")
    app.page.evaluate("""async path => {
      const strip = new Image();
      strip.src = path;
      await strip.decode();
      const canvas = document.createElement('canvas');
      canvas.id = 'first', canvas.width = canvas.height = strip.naturalHeight;
      canvas.getContext('2d').drawImage(strip, 0, 0);
      document.body.append(canvas);
    }""", f"/v1/videos/{id}/previews/{last.stem.split('-')[1]}")
    shown = app.pixels("#first")
    print(f"{model}: {last.stem}, {distance(shown, film):.1f} levels apart")
    assert distance(shown, film) < 30, (shown, film)
