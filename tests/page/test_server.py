"""Tests a world's page within the server: /world/world of tachyscope-serve with the world that ships, with and without keys."""

import json
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import Page

PROGRAM = pathlib.Path(os.environ["DRAWN_WORLD"]).parents[2] / "tachyscope-serve"
ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="tachyscope-serve is not built here")


@pytest.fixture
def server(tmp_path):
    processes = []

    def start(*options):
        command = [PROGRAM, "--port", "0", "--json", "--device", "cpu", "--files", tmp_path / "files", *options]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT))
        return json.loads(processes[-1].stdout.readline())["url"] + "world/world"

    yield start
    for process in processes:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def run(page):
    """Waits until the world runs, which takes longer than a drawn one."""
    page.wait(lambda: page.state() == "running", "the world runs", 120)
    drawn = page.drawn()
    page.wait(lambda: page.drawn() > drawn, "a frame is drawn", 60)


def colours(page):
    return page.page.evaluate("""() => {
      const view = document.getElementById('view');
      return new Set(view.getContext('2d').getImageData(0, 0, view.width, view.height).data).size;
    }""")


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_world_that_ships_is_played(server, page, slash):
    page.page.goto(server() + slash)
    run(page)
    assert colours(page) > 50, "it shows a picture"
    page.page.keyboard.down("d")
    page.wait(lambda: page.page.evaluate("window.worldPage.latencies.length") > 0, "a picture follows the key", 60)
    page.page.keyboard.up("d")


def test_a_second_visitor_waits(server, page, context):
    url = server()
    page.page.goto(url)
    run(page)
    second = Page(context.new_page())
    second.page.goto(url)
    assert "One visitor at a time" in second.page.content()
    page.page.close()
    second.wait(lambda: second.state() == "running", "the second one has the world", 120)
    assert not second.errors
    page.errors.clear()


def test_with_keys_the_page_asks_for_one(server, page, tmp_path):
    keys = tmp_path / "keys"
    key = subprocess.run([PROGRAM, "--keys", keys, "--new-key", "alice"], capture_output=True, text=True, check=True).stdout.strip()
    page.page.goto(server("--keys", keys))
    page.wait_state("key")
    page.page.fill("#key", "tk-wrong")
    page.page.press("#key", "Enter")
    page.wait(lambda: "not a key" in page.page.text_content("#cover-text"), "a wrong key is refused")
    page.page.fill("#key", key)
    page.page.press("#key", "Enter")
    run(page)
    page.page.click("#record")
    page.wait(lambda: page.page.evaluate("document.getElementById('record').classList.contains('on')"), "it records")
    drawn = page.drawn()
    page.wait(lambda: page.drawn() > drawn + 12, "frames are drawn", 60)
    page.page.click("#record")
    page.page.wait_for_selector("#download:not([hidden])")
    with page.page.expect_download() as download:
        page.page.click("#download")
    assert pathlib.Path(download.value.path()).read_bytes()[4:8] == b"ftyp"
    page.page.reload()
    run(page)  # the tab keeps the key
