"""Gives the tests real servers, one browser for all, and the page as a person sees it.

`site` is a server that all tests of a run share: a test leaves no job behind that is not over. `fresh` starts servers for one test alone, with
options, keys or files of their own. `app` is a tab; at its end there may be no error in its console, and no request of it went elsewhere."""

import base64
import os
import pathlib
import sys
import time

import pytest
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))

from server import Server  # noqa: E402
from stock import fill  # noqa: E402

BUILD = pathlib.Path(os.environ["TACHY_BUILD"])
QUICK = {"size": "32x32", "num_frames": 5, "num_inference_steps": 2}  # a job of about a second
SLOW = {"num_frames": 65, "num_inference_steps": 500}  # a job that runs until it is stopped: minutes on any machine


@pytest.fixture(scope="session")
def browser():
    # A browser whose processes may not make name spaces (a container's root) runs without a sandbox. It opens only our own pages.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["TACHY_BROWSER"], args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site():
    with Server(BUILD) as server:
        yield server.wait_ready()


@pytest.fixture
def fresh():
    """Returns a function that starts a server: fresh(*options, files=None)."""
    servers = []

    def start(*options, **more):
        servers.append(Server(BUILD, *options, **more))
        return servers[-1].wait_ready()

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def stocked():
    """Returns a function that gives a server with at least so many finished videos, the same one each time: stocked(500) is (server, ids), the newest
    video last."""
    server = Server(BUILD)
    source = server.wait_ready().wait(server.create(prompt="the first of all", **QUICK)["id"])["id"]
    assert server.ask("GET", f"/v1/videos/{source}/content?variant=thumbnail").status == 200
    ids = [source]

    def with_videos(count):
        if len(ids) < count:
            server.end()
            ids.extend(fill(server.files, source, count - len(ids)))
            server.start()
            server.wait_ready()
        return server, list(ids)

    yield with_videos
    server.close()


def distance(some, others):
    """Returns how far two lists of colours are apart, in levels of 255 on average."""
    assert len(some) == len(others)
    return sum(abs(a - b) for one, other in zip(some, others) for a, b in zip(one, other)) / (3 * len(some))


@pytest.fixture
def context(browser):
    context = browser.new_context(viewport={"width": 1100, "height": 900}, accept_downloads=True)
    context.set_default_timeout(15000)
    yield context
    context.close()


class App:
    """A tab with the page. What its console says is kept; a test that provokes an answer of the server which is an error names it in `expected`."""

    def __init__(self, page):
        self.page, self.base = page, None
        self.errors, self.requests, self.expected = [], [], []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: self.errors.append(f"{line.text} {line.location}") if line.type == "error" else None)
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, server, route="#/make"):
        """Opens a route of a server's page, and waits until its view is there."""
        self.base = server.base
        self.page.goto(f"{server.base}/{route}")
        self.page.wait_for_selector("main > *")
        return self

    def go(self, route):
        self.page.evaluate("route => { location.hash = route; }", route)

    def wait(self, condition, what, seconds=15):
        """Waits until the condition holds, and returns its value."""
        until = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < until, f"waited {seconds} s in vain: {what}; errors {self.errors}"
            self.page.wait_for_timeout(20)
        return value

    def wait_text(self, text, where="body", seconds=15):
        self.wait(lambda: text in (self.page.inner_text(where) if self.page.query_selector(where) else ""), f"{where} says {text!r}", seconds)

    def pixels(self, selector, count=8):
        """Returns the colours of a picture, a video or a canvas on a grid of count x count points, as a list of (red, green, blue)."""
        return [tuple(colour) for colour in self.page.eval_on_selector(selector, """(shown, count) => {
          const canvas = new OffscreenCanvas(count, count), context = canvas.getContext('2d');
          context.drawImage(shown, 0, 0, count, count);
          const data = context.getImageData(0, 0, count, count).data;
          return Array.from({length: count * count}, (_, i) => [...data.slice(4 * i, 4 * i + 3)]);
        }""", count)]

    def seen(self, selector, count=8):
        """Returns the colours of an element as it is on the screen, with all that lies over it, as pixels() does."""
        shot = base64.b64encode(self.page.locator(selector).first.screenshot()).decode()
        return [tuple(colour) for colour in self.page.evaluate("""async ([shot, count]) => {
          const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(shot), c => c.charCodeAt(0))]));
          const canvas = new OffscreenCanvas(count, count), context = canvas.getContext('2d');
          context.drawImage(picture, 0, 0, count, count);
          const data = context.getImageData(0, 0, count, count).data;
          return Array.from({length: count * count}, (_, i) => [...data.slice(4 * i, 4 * i + 3)]);
        }""", [shot, count])]

    def check(self):
        """Fails if the tab had an error that was not expected, or asked another site for something."""
        unexpected = [error for error in self.errors if not any(text in error for text in self.expected)]
        assert not unexpected, unexpected
        elsewhere = [url for url in self.requests if not url.startswith((self.base or "", "data:", "blob:"))]
        assert not elsewhere, elsewhere


@pytest.fixture
def tabs(context):
    """Returns a function that opens another tab of the same browser."""
    opened = []

    def open_tab():
        opened.append(App(context.new_page()))
        return opened[-1]

    yield open_tab
    for tab in opened:
        tab.check()


@pytest.fixture
def app(tabs):
    return tabs()
