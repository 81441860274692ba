"""Does each of the twelve things that people want of such a page as a new user would, from the first page on, and counts the clicks. The numbers are
those of the table in bench/notes/page.md: whoever makes one of them longer has to say so there.

A click is a press of the mouse, a file that is dropped or chosen, and a field that is gone into to type in; a choice of a list is two."""

import pathlib
import re

import pytest

from conftest import BUILD, QUICK, SLOW
from server import Server
from test_make import picture, safetensors

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTE = ROOT / "bench/notes/page.md"
LORA = {"transformer.blocks.0.attn1.to_q.lora_A.weight": [4, 384], "transformer.blocks.0.attn1.to_q.lora_B.weight": [384, 4]}


def counted():
    """Returns the table's clicks by the number of the wish: {"1": 1, "2 edit": 4, …}."""
    return {row[1]: int(row[2]) for row in re.finditer(r"^\| (\d+[^|]*?) +\|[^|]*\| +(\d+) +\|$", NOTE.read_text(), re.M)}


class Hand:
    """A visitor, whose clicks are counted."""

    def __init__(self, app, server):
        self.app, self.page, self.server, self.clicks = app, app.page, server, 0
        self.begin()

    def begin(self):
        self.app.open(self.server, "")
        self.page.wait_for_selector("make-view[data-ready]")
        self.clicks = 0

    def click(self, selector, **more):
        self.page.click(selector, **more)
        self.clicks += 1

    def type(self, selector, text):
        self.page.fill(selector, text)
        self.clicks += 1

    def choose(self, selector, value):
        self.page.select_option(selector, value)
        self.clicks += 2

    def give(self, selector, *files):
        self.page.set_input_files(selector, list(files))
        self.clicks += 1

    def send(self):
        """Presses "Make the video", and returns the new jobs."""
        before = ids(self.server)
        self.app.wait(lambda: self.page.is_enabled(".send"), "the button is there to press")
        self.click(".send")
        return self.app.wait(lambda: [id for id in ids(self.server) if id not in before], "it is in the queue")

    def done(self, wish):
        assert self.clicks == counted()[wish], f"{wish} took {self.clicks} clicks"


def ids(server):
    return [video["id"] for video in server.ask("GET", "/v1/videos?limit=100").json["data"]]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    loras = tmp_path_factory.mktemp("loras")
    safetensors(loras / "film.safetensors", {"modelspec.title": "Old film", "modelspec.trigger_phrase": "sepia"}, LORA)
    tiny = ROOT / "tests/golden/image_pipeline"
    with Server(BUILD, "--lora-dir", loras, "--model", f"sprites={ROOT / 'models/sprites'}", "--model", f"may={tiny / 'ti2v'}",
                "--model", f"both={tiny / 'flf2v_clip'}") as server:
        yield server.wait_ready()


@pytest.fixture
def hand(app, home):
    yield Hand(app, home)
    for id in ids(home):
        home.ask("DELETE", f"/v1/videos/{id}")


def busy(server):
    """Gives the server a job that does not end by itself, so that others wait."""
    return server.create(prompt="the long one", **SLOW)["id"]


def job(prompt):
    return f'.job:has(.prompt:text-is("{prompt}"))'


def test_0_a_first_video(hand):
    assert hand.server.video(hand.send()[0])["prompt"] == "a red circle moves right"
    hand.done("0")


def test_1_a_queue_that_accepts_while_it_runs(hand):
    busy(hand.server)
    assert hand.server.video(hand.send()[0])["status"] == "queued"
    hand.done("1")


def test_2_edit_move_copy_delete(hand):
    busy(hand.server)
    for prompt in ("a", "b"):
        hand.server.create(prompt=prompt, **QUICK)
    hand.click("nav a[href='#/queue']")
    hand.page.wait_for_selector(job("b"))
    hand.click(f"{job('a')} [data-do=edit]")
    hand.type(".edit textarea >> nth=0", "c")
    hand.click(".edit [type=submit]")
    hand.page.wait_for_selector(job("c"))
    hand.done("2 edit")
    hand.clicks = 0
    hand.click(f"{job('b')} [title='Move up']")
    hand.app.wait(lambda: hand.page.locator(".waiting .prompt").all_inner_texts() == ["b", "c"], "it is moved")
    hand.done("2 move")
    hand.clicks = 0
    hand.click(f"{job('c')} [data-do=remove]")
    hand.click("dialog >> text=/^Remove$/")
    hand.page.wait_for_selector(job("c"), state="detached")
    hand.done("2 delete")
    hand.clicks = 0
    hand.click(f"{job('b')} [data-do=copy]")
    hand.page.wait_for_selector("make-view[data-ready]")
    assert hand.page.input_value("#make-prompt") == "b"
    hand.done("2 copy")


def test_3_the_queue_outlives_a_restart_and_a_reload(hand):
    server = hand.server
    busy(server)
    waits = server.create(prompt="it waits", **QUICK)["id"]
    hand.app.expected += ["ERR_", "503"]
    server.kill()
    server.start(server.port)
    server.wait_ready()
    hand.page.reload()
    assert server.video(waits)["status"] == "queued"
    hand.page.wait_for_selector("#waiting:not([hidden])")
    assert hand.page.inner_text("#waiting") == "2"
    hand.done("3")


def test_4_one_setting_over_many_prompts(hand):
    hand.type("#make-prompt", "a red circle\na blue square\na green star")
    hand.click("#many-prompts")
    hand.send()
    hand.app.wait(lambda: len(ids(hand.server)) == 3, "all three are in the queue")
    hand.done("4")


def test_5_settings_from_a_video_that_is_dropped(hand):
    id = hand.server.wait(hand.server.create(prompt="a green star", **QUICK)["id"])["id"]
    content = hand.server.ask("GET", f"/v1/videos/{id}/content").body
    hand.page.evaluate("""bytes => {
      const data = new DataTransfer();
      data.items.add(new File([new Uint8Array(bytes)], 'star.mp4', {type: 'video/mp4'}));
      document.querySelector('h1').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
    }""", list(content))
    hand.clicks += 1
    hand.app.wait(lambda: hand.page.input_value("#make-prompt") == "a green star", "the settings are in the form")
    hand.done("5")


def test_6_previews_that_can_be_enlarged(hand):
    busy(hand.server)
    hand.click("nav a[href='#/queue']")
    hand.page.wait_for_selector(".running canvas:not([hidden])", timeout=60000)
    hand.click(".preview")
    hand.page.wait_for_selector("dialog canvas:not([hidden])")
    assert len(set(hand.app.pixels("dialog canvas"))) > 4
    hand.done("6")


def test_7_go_on_and_join_from_any_frame(hand):
    server = hand.server
    source, other = (server.wait(server.create(prompt=prompt, model="may", **QUICK)["id"])["id"] for prompt in ("the beginning", "another"))
    hand.click("nav a[href='#/gallery']")
    hand.click(f".card[data-id='{source}'] .shot")
    hand.page.wait_for_selector("video-player .told", state="hidden")
    for _ in range(2):
        hand.click("[aria-label='One frame on (.)']")
    hand.click("#go-on")
    hand.page.wait_for_selector("make-view[data-ready]")
    video = server.wait(hand.send()[0])
    assert (video["extended_from_video_id"], video["extended_from_frame"]) == (source, 2)
    hand.done("7 go on")
    hand.begin()
    hand.click("nav a[href='#/gallery']")
    hand.click(f".card[data-id='{source}'] .shot")
    hand.page.wait_for_selector("video-player .told", state="hidden")
    hand.click("[aria-label='One frame on (.)']")
    hand.click("#join-here")
    hand.choose("#join-next", other)
    before = ids(server)
    hand.click("dialog [type=submit]")
    id = hand.app.wait(lambda: [id for id in ids(server) if id not in before], "it is in the queue")[0]
    assert server.wait(id)["num_frames"] == 2 + QUICK["num_frames"]
    hand.done("7 join")


def test_8_an_end_frame_and_prompts_for_segments(hand):
    hand.click("#tab-picture")
    hand.choose("#make-model", "both")
    hand.give("#make-input_reference", picture("begin.png", 200, 0, 0))
    hand.give("#make-last_image", picture("end.png", 0, 0, 200))
    settings = hand.server.video(hand.send()[0])["settings"]
    assert settings["last_image"]["file"] == "end.png"
    hand.done("8 end frame")
    hand.page.evaluate("sessionStorage.clear(), localStorage.clear()")
    hand.page.reload()
    hand.begin()
    hand.click("summary:has-text('Parts with prompts of their own')")
    hand.click("text=Add a part")
    hand.type("[aria-label='Prompt of part 2']", "a blue square moves left")
    hand.send()
    hand.app.wait(lambda: len(ids(hand.server)) == 4, "both parts and their join are in the queue")
    hand.done("8 segments")


def test_9_a_lora(hand):
    hand.click("summary:has-text('LoRAs')")
    hand.click(".found button")
    hand.click("text=+ sepia")
    settings = hand.server.video(hand.send()[0])["settings"]
    assert [lora["name"] for lora in settings["loras"]] == ["film"] and "sepia" in settings["prompt"]
    hand.done("9")


def test_10_presets_and_saved_defaults(hand):
    hand.type("#make-num_inference_steps", "7")
    hand.type("[aria-label='Name of a preset to save']", "seven")
    hand.click("text='Save'")
    hand.app.wait_text("Saved as seven", ".note")
    hand.done("10 save")
    hand.page.evaluate("sessionStorage.clear(), localStorage.clear()")
    hand.page.reload()
    hand.begin()
    hand.choose("#make-preset", "seven")
    hand.app.wait(lambda: hand.page.input_value("#make-num_inference_steps") == "7", "the preset is in the form")
    hand.done("10 use")
    hand.clicks = 0
    hand.click("text=Save as default")
    hand.app.wait_text("Every new draft begins with these settings", ".note")
    hand.done("10 default")
    for name in ("seven", "default"):
        hand.server.ask("DELETE", f"/v1/presets/{name}")


def test_11_pause_and_stop_and_keep(hand):
    server = hand.server
    id = server.create(prompt="many frames", size="256x256", num_frames=97, num_inference_steps=1)["id"]
    hand.click("nav a[href='#/queue']")
    hand.click(".running [data-do=keep]", timeout=240000)  # its one step takes long where much else runs
    video = server.wait(id, 240)
    assert video["status"] == "completed" and video["num_frames"] < 97
    hand.done("11 stop and keep")
    hand.begin()
    id = busy(server)
    hand.click("nav a[href='#/queue']")
    hand.click("text=Pause", timeout=60000)
    hand.app.wait(lambda: server.video(id)["paused"], "it is held")
    hand.done("11 pause")


def test_12_an_honest_position_and_end(hand):
    busy(hand.server)
    for prompt in ("a", "b"):
        hand.server.create(prompt=prompt, **QUICK)
    hand.click("nav a[href='#/queue']")
    hand.app.wait_text("Next in line · ready in about", f"{job('a')}")
    hand.app.wait_text("2nd in line · ready in about", f"{job('b')}")
    hand.done("12")
