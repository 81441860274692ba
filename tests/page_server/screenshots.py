"""Takes the pictures of docs/server.md: the page with real videos of the model that ships, on a server of its own.

    tests/page_server/run BUILD screenshots [NAME …]     writes docs/pictures/NAME.webp, each of at most 80 kB

Somebody should look at them afterwards; nothing here can tell whether they are good."""

import base64
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))

from playwright.sync_api import sync_playwright  # noqa: E402
from server import ROOT, Server  # noqa: E402

BUILD = pathlib.Path(os.environ["TACHY_BUILD"])
PICTURES = ROOT / "docs/pictures"
MOST_BYTES = 80_000
PROMPTS = ["a red circle moves right over hills at day", "a yellow star jumps over the sea at night", "a green triangle moves up in front of mountains",
           "a purple square moves left over a grid", "a blue ring moves down over the city at night", "an orange heart spins in the desert at day"]


class Studio:
    """A server with some videos, and a browser that looks at its page."""

    def __init__(self, server, browser):
        self.server, self.browser = server, browser
        self.ids = [server.wait(server.create(prompt=prompt, num_frames=33, num_inference_steps=20, seed=seed)["id"], 600)["id"]
                    for seed, prompt in enumerate(PROMPTS, 1)]
        self.other = server.wait(server.create(prompt=PROMPTS[0], num_frames=33, num_inference_steps=6, seed=21, level="aggressive")["id"], 600)["id"]

    def page(self, route, width=1100, height=780, dark=False):
        page = self.browser.new_page(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
        page.goto(f"{self.server.base}/#/{route}")
        page.wait_for_selector("main > *")
        return page

    def take(self, page, name):
        """Saves what the page shows as WebP, which the browser makes."""
        page.wait_for_timeout(500)
        shot = base64.b64encode(page.screenshot()).decode()
        made = page.evaluate("""async shot => {
          const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(shot), c => c.charCodeAt(0))]));
          const canvas = new OffscreenCanvas(picture.width, picture.height);
          canvas.getContext('2d').drawImage(picture, 0, 0);
          const bytes = new Uint8Array(await (await canvas.convertToBlob({type: 'image/webp', quality: 0.85})).arrayBuffer());
          return btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ''));
        }""", shot)
        file = PICTURES / f"{name}.webp"
        file.write_bytes(base64.b64decode(made))
        assert file.stat().st_size <= MOST_BYTES, f"{file} has {file.stat().st_size} bytes"
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size} bytes")
        page.close()


def make(studio):
    page = studio.page("make", height=900)
    page.wait_for_selector("make-view[data-ready]")
    page.locator("make-view textarea").first.fill(PROMPTS[0])
    page.get_by_role("button", name="Make the video").click()
    page.wait_for_selector(".made video", timeout=120000)
    studio.take(page, "make")


def queue(studio):
    jobs = [studio.server.create(prompt=prompt, num_frames=49, num_inference_steps=30)["id"] for prompt in PROMPTS[1:5]]
    page = studio.page("queue")
    page.wait_for_selector(".running .state:text-matches('Step 1[2-9] of')", timeout=240000)
    studio.take(page, "queue")
    phone(studio)
    for id in jobs:
        studio.server.ask("DELETE", f"/v1/videos/{id}")


def phone(studio):
    page = studio.page("queue", 390, 780, dark=True)
    page.wait_for_selector("canvas.live:not([hidden])", timeout=120000)
    page.wait_for_timeout(1500)
    studio.take(page, "phone")


def gallery(studio):
    page = studio.page("gallery")
    page.locator(".shot img").nth(6).wait_for()
    for id in (studio.ids[0], studio.other):
        page.locator(f".card[data-id='{id}'] input").check()
    studio.take(page, "gallery")


def video(studio):
    page = studio.page(f"gallery/{studio.ids[0]}", height=1000)
    page.wait_for_selector("video-player .told", state="hidden")
    page.evaluate("document.querySelector('video-transport').seek(20)")
    studio.take(page, "video")


def compare(studio):
    page = studio.page(f"compare/{studio.ids[0]}/{studio.other}", height=1120)
    page.wait_for_selector("#summary")
    page.evaluate("document.querySelector('video-transport').seek(16)")
    page.check("#only-differences")
    studio.take(page, "compare")


SCENES = {"make": make, "queue": queue, "gallery": gallery, "video": video, "compare": compare}


def main(names):
    PICTURES.mkdir(exist_ok=True)
    with Server(BUILD) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["TACHY_BROWSER"], args=["--no-sandbox"])
        studio = Studio(server.wait_ready(), browser)
        for name in names or SCENES:
            SCENES[name](studio)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
