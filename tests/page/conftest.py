"""Gives each test a drawn world, and all tests one browser."""

import os
import socket
import subprocess
import threading
import time

import pytest
from playwright.sync_api import Error, sync_playwright


class Server:
    """Runs tests/page/drawn_world.cpp; options become its name=value arguments."""

    def __init__(self, **options):
        words = [f"{name}={value}" for name, value in options.items()]
        self.process = subprocess.Popen([os.environ["DRAWN_WORLD"], *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://"), "drawn_world did not start"
        self.port = int(self.url.split(":")[2].split("/")[0])

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(20) == 0

    def resident_kb(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


class Path:
    """A connection to a server that can be cut silently: the data on the way is lost, and neither side sees an end. New connections get through."""

    def __init__(self, to):
        self.to, self.cuts = to, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def cut(self):
        self.cuts += 1

    def accept(self):
        while True:
            one, _ = self.listener.accept()
            other = socket.create_connection(("127.0.0.1", self.to))
            for source, sink in ((one, other), (other, one)):
                threading.Thread(target=self.carry, args=(source, sink, self.cuts), daemon=True).start()

    def carry(self, source, sink, cuts):
        try:
            while data := source.recv(65536):
                if self.cuts == cuts:
                    sink.sendall(data)
            if self.cuts == cuts:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.fixture
def serve():
    servers = []

    def start(**options):
        servers.append(Server(**options))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture(scope="session")
def browser():
    # A browser whose processes may not make name spaces (a container's root) runs without a sandbox. It opens only our own pages.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["TACHY_BROWSER"], args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser):
    context = browser.new_context(viewport={"width": 900, "height": 1000})
    context.set_default_timeout(15000)
    yield context
    context.close()


class Page:
    """The page as a person sees it: its canvas, its messages, its buttons."""

    def __init__(self, page):
        self.page = page
        self.errors = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, url, state="running"):
        self.page.goto(url)
        self.wait_state(state)
        return self

    def state(self):
        try:
            return self.page.evaluate("window.worldPage?.state")
        except Error as error:
            if "context was destroyed" not in str(error):
                raise
            return None  # the page is just loading another one

    def wait_state(self, state):
        self.wait(lambda: self.state() == state, f"state {state}", 15)
        if state == "running":
            drawn = self.drawn()
            self.wait(lambda: self.drawn() > drawn, "a frame is drawn")

    def drawn(self):
        return self.page.evaluate("window.worldPage.drawn")

    def pixel(self, x, y):
        return self.page.evaluate("([x, y]) => [...document.getElementById('view').getContext('2d').getImageData(x, y, 1, 1).data]", [x, y])[:3]

    def lit(self, key):
        """Returns whether the world shows that key as held."""
        red, green, blue = self.pixel({"W": 4, "S": 14, "A": 24, "D": 34}[key], 4)
        return red > 180 and green > 150 and blue < 100

    def yaw(self):
        """Returns the length of the mouse's bar, in the units of the message."""
        return self.page.evaluate("""() => {
          const row = document.getElementById('view').getContext('2d').getImageData(80, 4, 80, 1).data;
          let n = 0;
          while (n < 80 && row[4 * n] < 100 && row[4 * n + 1] > 170 && row[4 * n + 2] > 170) ++n;
          return n / 80;
        }""")

    def square(self):
        """Returns where the middle of the white square is."""
        return self.page.evaluate("""() => {
          const view = document.getElementById('view'), data = view.getContext('2d').getImageData(0, 0, view.width, view.height).data;
          let n = 0, x = 0, y = 0;
          for (let i = 0; i < data.length; i += 4)
            if (data[i] > 200 && data[i + 1] > 200 && data[i + 2] > 200) n += 1, x += (i / 4) % view.width, y += Math.floor(i / 4 / view.width);
          return n ? [x / n, y / n] : null;
        }""")

    def wait(self, condition, what, seconds=10):
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, f"waited {seconds} s in vain: {what}; errors {self.errors}"
            time.sleep(0.02)


@pytest.fixture
def page(context):
    page = Page(context.new_page())
    yield page
    assert not page.errors
