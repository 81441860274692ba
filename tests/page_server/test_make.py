"""Tests the view that makes videos, as somebody clicks through it: what it asks of the server, and what it says."""

import io
import json
import math
import os
import pathlib
import struct
import time
import wave
import zlib

import pytest

from conftest import BUILD, QUICK, App, distance
from server import Server
from test_frame import keyed  # noqa: F401, a fixture

ROOT = pathlib.Path(__file__).resolve().parents[2]
TALKER = ROOT / "models" / "talker" / "example"
REFUSED = "the server responded with a status of"  # the console's line for an answer that is an error


def png(*rows):
    """Returns a PNG whose rows are lists of (red, green, blue)."""
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    data = b"".join(b"\0" + b"".join(bytes(colour) for colour in row) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def coloured(red, green, blue):
    return png(*[[(red, green, blue)] * 32] * 32)


def picture(name, red, green, blue):
    return {"name": name, "mimeType": "image/png", "buffer": coloured(red, green, blue)}


def safetensors(path, metadata, tensors):
    """Writes float32 tensors of zeros."""
    header, at = {"__metadata__": metadata}, 0
    for name, shape in tensors.items():
        size = 4 * shape[0] * shape[1]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


class Maker:
    """The view in a tab, with short names for what a person does there."""

    def __init__(self, app, server):
        self.app, self.page, self.server = app, app.page, server
        app.open(server, "#/make")
        self.page.wait_for_selector("make-view[data-ready]")

    def fill(self, **fields):
        for name, value in fields.items():
            self.page.fill(f"#make-{name}", str(value))

    def size(self, size):
        for side, value in zip(("Width", "Height"), size.split("x")):
            self.page.fill(f"[aria-label='{side} in pixels']", value)
            self.page.keyboard.press("Enter")

    def quick(self):
        """Asks for a video of about a second."""
        self.size(QUICK["size"])
        self.fill(num_frames=QUICK["num_frames"], num_inference_steps=QUICK["num_inference_steps"])

    def plan(self, text, seconds=15):
        self.app.wait_text(text, "#plan", seconds)

    def jobs(self):
        return self.server.ask("GET", "/v1/videos?limit=100&order=asc").json["data"]

    def send(self, count=1):
        """Presses the button, and returns the jobs that this has made."""
        before = {job["id"] for job in self.jobs()}
        self.app.wait(lambda: self.page.is_enabled(".send"), "the button is there to press")
        self.page.click(".send")
        return self.app.wait(lambda: len(made := [job for job in self.jobs() if job["id"] not in before]) >= count and made, f"{count} jobs")

    def fault(self, name):
        return self.page.inner_text(f"#fault-{name}")

    def drop(self, selector, name, kind, content):
        """Drops a file from outside onto an element."""
        self.page.evaluate("""([selector, name, kind, bytes]) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], name, {type: kind}));
          const init = {dataTransfer: data, bubbles: true, cancelable: true};
          const to = document.querySelector(selector);
          to.dispatchEvent(new DragEvent('dragover', init));
          to.dispatchEvent(new DragEvent('drop', init));
        }""", [selector, name, kind, list(content)])


@pytest.fixture(scope="session")
def painters():
    """A server with tiny models of random weights that begin with pictures: one that may, one that must and may end with one, one that must do both."""
    models = {"may": "ti2v", "must": "i2v22", "both": "flf2v_clip"}
    words = [word for name, folder in models.items() for word in ("--model", f"{name}={ROOT / 'tests/golden/image_pipeline' / folder}")]
    with Server(BUILD, *words) as server:
        yield server.wait_ready()


@pytest.fixture
def make(app, site):
    return Maker(app, site)


def test_a_first_visit_makes_a_video_with_one_click(make):
    make.page.click(".send")
    make.page.wait_for_selector(".made video", timeout=150000)
    make.app.wait(lambda: make.page.eval_on_selector(".made video", "video => video.readyState") >= 2, "the video plays")
    red = [colour for colour in make.app.pixels(".made video", 32) if colour[0] > 150 and colour[1] < 90 and colour[2] < 90]
    assert len(red) > 20, "a red circle is seen"
    assert "Ready: 128×128" in make.page.inner_text(".made")


def test_seconds_frames_and_rate_are_bound(make):
    make.page.fill("#make-seconds", "3")
    assert make.page.input_value("#make-num_frames") == "49"
    assert "49 frames at 16 a second are 3.06 s" in make.page.inner_text("#length-note")
    make.fill(fps=8)
    assert make.page.input_value("#make-num_frames") == "25"
    make.page.fill("#make-num_frames", "17")
    make.page.click("h1")
    assert make.page.input_value("#make-seconds") == "2.13"
    make.quick()
    job = make.send()[0]
    assert (job["num_frames"], job["fps"], job["size"]) == (5, 8, "32x32")


def test_a_seed_is_drawn_and_kept(make):
    make.quick()
    make.page.click("text=Draw")
    drawn = make.page.input_value("#make-seed")
    assert drawn.isdigit()
    assert make.send()[0]["seed"] == int(drawn)
    make.app.wait(lambda: make.page.input_value("#make-seed") == "", "a seed that is not kept goes")
    make.page.check("#keep-seed")
    seed = make.send()[0]["seed"]
    make.app.wait(lambda: make.page.input_value("#make-seed") == str(seed), "the server's seed stays")
    assert make.send()[0]["seed"] == seed
    make.page.fill("#make-count", "3")
    assert sorted(job["seed"] for job in make.send(3)) == [seed, seed + 1, seed + 2]


def test_tabs_fit_the_models_and_say_what_is_missing(make):
    tab = make.page.locator("#tab-picture")
    make.app.wait(lambda: tab.get_attribute("aria-disabled") == "true", "no model here begins with a picture")
    tab.click(force=True)
    make.app.wait_text("No model of this server begins with a picture", "#tab-reason")
    make.page.focus("#tab-text")
    make.page.keyboard.press("ArrowLeft")
    make.app.wait(lambda: make.page.get_attribute("#tab-talk", "aria-selected") == "true", "the talking photo is chosen by keys")
    assert make.page.input_value("#make-model") == "talker"
    make.plan("A photo of who talks is needed")
    make.page.click(".send")
    assert make.fault("input_reference") == "A photo of who talks is needed."
    make.page.select_option("#make-model", "sprites")
    make.app.wait(lambda: make.page.get_attribute("#tab-text", "aria-selected") == "true", "a model that knows text alone")


def test_a_photo_talks_with_a_recorded_voice_and_a_cropped_face(make):
    # A tone stands in for the microphone.
    make.page.evaluate("""() => {
      navigator.mediaDevices.getUserMedia = async () => {
        const context = new AudioContext(), tone = context.createOscillator(), out = context.createMediaStreamDestination();
        tone.connect(out);
        tone.start();
        return out.stream;
      };
    }""")
    make.page.click("#tab-talk")
    left_red = png(*[[(200, 20, 20)] * 60 + [(20, 20, 200)] * 60] * 60)
    make.page.set_input_files("#make-input_reference", {"name": "two.png", "mimeType": "image/png", "buffer": left_red})
    make.page.click("[aria-label='Crop two.png']")
    make.page.wait_for_selector("dialog canvas:focus")
    for _ in range(12):
        make.page.keyboard.press("Shift+ArrowRight")
    make.page.click("text=Use this part")
    make.page.wait_for_selector("img[alt='two-cropped.png']")
    make.app.wait(lambda: make.page.eval_on_selector("img[alt='two-cropped.png']", "img => img.naturalWidth") == 60, "the square half")
    assert all(blue > 150 > red for red, _, blue in make.app.pixels("img[alt='two-cropped.png']"))
    make.page.click("text=Record")
    make.app.wait(lambda: float(make.page.inner_text(".drop .time").split()[0]) > 1, "a second is recorded")
    make.page.click("text=Stop and use")
    make.page.wait_for_selector("audio[aria-label='voice.wav']")
    make.size("64x64")
    make.fill(num_inference_steps=1)
    make.plan("of memory")
    job = make.send()[0]
    assert job["model"] == "talker" and 24 < job["num_frames"] < 100
    assert make.server.wait(job["id"])["status"] == "completed"
    make.page.click("text=Empty the form")
    make.app.wait(lambda: not make.page.query_selector("audio"), "the form is empty")
    make.page.click("text=Use these settings")
    make.page.wait_for_selector("audio[aria-label='voice.wav']")
    make.page.wait_for_selector("img[alt='two-cropped.png']")
    assert make.page.input_value("#make-num_inference_steps") == "1"


def test_two_people_are_painted_on_their_photo(make):
    """By the mouse and by keys; what was painted is what the server gets, and goes when the photo does."""
    make.app.expected = [REFUSED]
    make.page.click("#tab-talk")
    make.page.set_input_files("#make-input_reference", str(TALKER / "photo.png"))
    make.page.set_input_files("#make-audio_reference", str(TALKER / "speech.wav"))
    make.page.click("summary:has-text('Two people')")
    make.page.set_input_files("#make-audio_reference_2", str(TALKER / "speech.wav"))
    make.page.click("text=Paint who is where")
    make.page.wait_for_selector("dialog canvas:focus")
    make.page.click("text=Use these")
    make.app.wait_text("First person: nothing is painted yet.", "dialog")
    box = make.page.locator("dialog canvas").bounding_box()
    at = lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])  # noqa: E731
    make.page.fill("#brush", "40")
    make.page.mouse.move(*at(0.2, 0.3))
    make.page.mouse.down()
    make.page.mouse.move(*at(0.25, 0.7), steps=3)
    make.page.mouse.up()
    before = make.app.pixels("dialog canvas", 16)
    make.page.check("dialog >> text=Second person")
    make.page.focus("dialog canvas")
    for _ in range(5):
        make.page.keyboard.press("Shift+ArrowRight")
    for key in ["Space"] + ["Shift+ArrowUp"] * 2 + ["Space"]:
        make.page.keyboard.press(key)
    assert distance(make.app.pixels("dialog canvas", 16), before) > 0.2, "it is seen"
    make.page.click("text=Use these")
    make.app.wait_text("Both are painted on the photo.", "make-view")
    make.size("64x64")
    make.fill(num_inference_steps=1)
    make.plan("of memory")
    job = make.send()[0]
    shape = make.page.evaluate("""async ids => {
      const pictures = await Promise.all(ids.map(async path => createImageBitmap(await (await fetch(path)).blob())));
      const seen = pictures.map(picture => {
        const canvas = new OffscreenCanvas(picture.width, picture.height), context = canvas.getContext('2d');
        context.drawImage(picture, 0, 0);
        const data = context.getImageData(0, 0, picture.width, picture.height).data;
        const light = (x, y) => data[4 * (Math.round(y * picture.height) * picture.width + Math.round(x * picture.width))];
        return [picture.width, picture.height, light(0.25, 0.5), light(0.8, 0.5), light(0.5, 0.95)];
      });
      return seen;
    }""", [f"/v1/videos/{job['id']}/inputs/{name}" for name in ("speaker_mask", "speaker_mask_2")])
    photo = make.page.eval_on_selector("img[alt='photo.png']", "img => [img.naturalWidth, img.naturalHeight]")
    assert shape == [[*photo, 255, 0, 0], [*photo, 0, 255, 0]]
    make.server.ask("DELETE", f"/v1/videos/{job['id']}")
    make.page.reload()
    make.page.wait_for_selector("make-view[data-ready]")
    make.page.click("summary:has-text('Two people')")
    make.app.wait_text("Both are painted on the photo.", "make-view")
    make.page.set_input_files("#make-input_reference", picture("other.png", 1, 2, 3))
    make.page.click("[aria-label='Remove photo.png']")
    make.app.wait_text("The first person is on the left, and the second one on the right", "make-view")


def strength_at(samples, rate, hertz):
    """Returns how strong a tone of this frequency is, as its amplitude in levels of 32768."""
    angle = 2 * math.pi * hertz / rate
    parts = [sum(value * part(angle * i) for i, value in enumerate(samples)) for part in (math.cos, math.sin)]
    return 2 * math.hypot(*parts) / len(samples)


def test_a_microphone_is_recorded_and_a_photo_says_it(browser, site, tmp_path):
    """Chromium's own device for tests stands in for the microphone, and hears a tone of 440 Hz: all behind it is as with a real one."""
    with wave.open(str(tmp_path / "tone.wav"), "wb") as out:
        out.setnchannels(1), out.setsampwidth(2), out.setframerate(48000)
        out.writeframes(b"".join(struct.pack("<h", round(12000 * math.sin(2 * math.pi * 440 * i / 48000))) for i in range(96000)))
    devices = ["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream", f"--use-file-for-fake-audio-capture={tmp_path / 'tone.wav'}"]
    hearing = browser.browser_type.launch(executable_path=os.environ["TACHY_BROWSER"], args=["--no-sandbox", *devices])
    try:
        make = Maker(App(hearing.new_context(permissions=["microphone"]).new_page()), site)
        make.page.click("#tab-talk")
        make.page.set_input_files("#make-input_reference", str(TALKER / "photo.png"))
        make.page.click("text=Record")
        make.app.wait(lambda: float(make.page.inner_text(".drop .time").split()[0]) > 1, "a second is recorded")
        make.page.click("text=Stop and use")
        make.page.wait_for_selector("audio[aria-label='voice.wav']")
        make.size("64x64")
        make.fill(num_inference_steps=1)
        make.plan("of memory")
        job = make.send()[0]
        assert job["model"] == "talker" and site.wait(job["id"])["status"] == "completed"
        make.app.check()
    finally:
        hearing.close()
    heard = site.ask("GET", f"/v1/videos/{job['id']}/inputs/audio_reference").body
    with wave.open(io.BytesIO(heard)) as sound:
        rate, width, channels = sound.getframerate(), sound.getsampwidth(), sound.getnchannels()
        data = sound.readframes(sound.getnframes())
    assert (width, channels) == (2, 1)
    samples = struct.unpack(f"<{len(data) // 2}h", data)
    assert 1 < len(samples) / rate < 10
    middle = samples[len(samples) // 2:][:rate // 4]
    assert strength_at(middle, rate, 440) > 1000, "the tone is heard"
    assert strength_at(middle, rate, 440) > 10 * strength_at(middle, rate, 620), "and no other one"


def test_an_end_frame_is_sent_where_the_model_takes_one(make):
    make.page.click("#tab-talk")
    make.page.set_input_files("#make-input_reference", str(TALKER / "photo.png"))
    make.page.set_input_files("#make-last_image", picture("end.png", 0, 200, 0))
    make.page.wait_for_selector("img[alt='end.png']")
    sound = io.BytesIO()
    with wave.open(sound, "wb") as out:
        out.setnchannels(1), out.setsampwidth(2), out.setframerate(16000), out.writeframes(bytes(range(256)) * 125)
    make.page.set_input_files("#make-audio_reference", {"name": "a.wav", "mimeType": "audio/wav", "buffer": sound.getvalue()})
    make.fill(num_inference_steps=1)
    make.plan("of memory")
    settings = make.send()[0]["settings"]
    assert settings["last_image"]["file"] == "end.png" and settings["audio_reference"]["file"] == "a.wav"
    assert make.page.is_disabled("text=Add a part"), "a talking photo is one part"


def joined_of(make, before=()):
    """Waits for a joined video that is ready, and returns it with its parts."""
    joined = make.app.wait(lambda: [job for job in make.jobs() if job["kind"] == "join" and job["status"] == "completed" and job["id"] not in before],
                           "the parts are joined", 30)[-1]
    return joined, [make.server.video(one["id"] if isinstance(one, dict) else one) for one in joined["settings"]["videos"]]


def test_parts_with_prompts_of_their_own_become_one_video(make):
    make.quick()
    make.page.click("text=Parts with prompts of their own")
    assert "sprites cannot begin with a picture, so the parts are cuts" in make.page.inner_text("#parts-note")
    make.page.click("text=Add a part")
    make.page.fill("[aria-label='Prompt of part 2']", "a blue square moves left")
    assert make.page.inner_text(".send") == "Make the video of 2 parts"
    jobs = make.send(3)
    assert [job["kind"] for job in jobs] == ["video", "video", "join"], "all of it is in the queue at once"
    joined, made = joined_of(make)
    assert joined["num_frames"] == 2 * QUICK["num_frames"]
    assert [job["prompt"] for job in made] == ["a red circle moves right", "a blue square moves left"]


def test_parts_go_on_from_the_last_picture_without_the_page_and_over_a_restart(app, fresh):
    server = fresh("--model", f"may={ROOT / 'tests/golden/image_pipeline/ti2v'}")
    make = Maker(app, server)
    make.quick()
    make.page.click("text=Parts with prompts of their own")
    assert "Each part goes on from the last picture of the one before" in make.page.inner_text("#parts-note")
    for part in 2, 3:
        make.page.click("text=Add a part")
        make.page.fill(f"[aria-label='Prompt of part {part}']", f"part {part}")
    jobs = make.send(4)
    assert [job["waits_for"] for job in jobs[1:]] == [[jobs[0]["id"]], [jobs[1]["id"]], [job["id"] for job in jobs[:3]]] or jobs[0]["status"] == "completed"
    make.page.goto("about:blank")  # nobody looks any more
    port = server.port
    server.end()
    server.start(port)
    server.wait_ready()
    joined, parts = joined_of(make)
    assert [part["id"] for part in parts] == [job["id"] for job in jobs[:3]] and [part["prompt"] for part in parts][1:] == ["part 2", "part 3"]
    assert [part["extended_from_video_id"] for part in parts] == [None, parts[0]["id"], parts[1]["id"]]
    assert joined["num_frames"] == 3 * QUICK["num_frames"] - 2, "the picture from which a part goes on is shown once"
    # The part has begun with the picture that one gets who goes on when the video before is there.
    given = lambda id: server.ask("GET", f"/v1/videos/{id}/inputs/input_reference").body  # noqa: E731
    later = server.ask("POST", "/v1/videos/extensions", QUICK | {"prompt": "later", "video": {"id": parts[0]["id"]}}).json
    assert parts[1]["settings"]["input_reference"] == later["settings"]["input_reference"]
    assert given(parts[1]["id"]) == given(later["id"])


def test_a_part_that_is_not_made_ends_those_that_wait_for_it(make):
    make.app.expected = [REFUSED]
    make.fill(num_inference_steps=1000)
    make.page.click("text=Parts with prompts of their own")
    make.page.click("text=Add a part")
    make.page.fill("[aria-label='Prompt of part 2']", "<b>the second</b>")
    jobs = make.send(3)
    make.app.go("#/queue")
    make.app.wait_text("it waits for the videos that it is made of", "main")
    make.server.ask("POST", f"/v1/videos/{jobs[1]['id']}/cancel")
    ended = make.server.wait(jobs[2]["id"])
    assert (ended["status"], ended["error"]["code"]) == ("failed", "source_failed")
    make.app.wait_text(f"the video {jobs[1]['id']} that this one is made from was cancelled", "main")
    for job in jobs:
        make.server.ask("DELETE", f"/v1/videos/{job['id']}")


def test_parts_that_find_the_queue_full_are_sent_later(app, fresh):
    server = fresh("--queue", "2")
    make = Maker(app, server)
    app.expected = [REFUSED]
    make.fill(num_inference_steps=1000)
    make.page.click("text=Parts with prompts of their own")
    for part in 2, 3, 4:
        make.page.click("text=Add a part")
        make.page.fill(f"[aria-label='Prompt of part {part}']", f"part {part}")
    make.send(2)
    make.app.wait_text("of 4 parts are in the queue, and the others wait here", ".make .right")
    assert make.page.inner_text(".send") == "Send the other parts"
    for job in make.jobs():
        server.ask("POST", f"/v1/videos/{job['id']}/cancel")
    before = len(make.jobs())
    make.app.wait(lambda: make.page.is_enabled(".send"), "it can be pressed again")
    make.page.click(".send")
    make.app.wait(lambda: len(make.jobs()) > before, "the next part is taken, and none twice")
    assert [job["prompt"] for job in make.jobs() if job["kind"] == "video"][1:] == [f"part {part}" for part in range(2, len(make.jobs()) + 1)]


def test_a_picture_at_the_beginning_and_one_at_the_end(app, painters):
    make = Maker(app, painters)
    make.page.click("#tab-picture")
    make.page.set_input_files("#make-input_reference", picture("begin.png", 200, 0, 0))
    assert make.page.is_disabled("#make-last_image")
    assert "may takes no end frame" in make.page.inner_text(".drop:has(#make-last_image)")
    make.page.select_option("#make-model", "both")
    make.plan("This model goes from one picture to another and needs both")
    make.page.set_input_files("#make-last_image", picture("end.png", 0, 0, 200))
    make.quick()
    make.plan("of memory")
    job = make.send()[0]
    assert (job["model"], job["settings"]["input_reference"]["file"], job["settings"]["last_image"]["file"]) == ("both", "begin.png", "end.png")
    make.page.select_option("#make-model", "must")
    make.plan("of memory")
    assert make.page.is_enabled("#make-last_image")
    second = make.send()[0]
    assert [make.server.wait(one["id"])["status"] for one in (job, second)] == ["completed"] * 2


def test_a_video_goes_on_from_one_of_its_pictures(app, painters):
    source = painters.wait(painters.create(prompt="the beginning", **QUICK)["id"])
    make = Maker(app, painters)
    make.page.evaluate("id => sessionStorage.setItem('draft', JSON.stringify({model: 'may', prompt: 'it goes on', video: {id}, from_frame: 2, num_frames: 5, size: '32x32', steps: 1}))",
                       source["id"])
    make.page.reload()
    make.page.wait_for_selector("make-view[data-ready]")
    make.app.wait_text("It goes on from frame 2 of “the beginning”", ".from")
    make.plan("of memory")
    job = make.send()[0]
    assert (job["extended_from_video_id"], job["extended_from_frame"]) == (source["id"], 2)


def test_many_prompts_and_a_queue_that_is_full(app, fresh):
    server = fresh("--queue", "3")
    make = Maker(app, server)
    app.expected = [REFUSED]
    make.fill(num_inference_steps=1000, prompt="\n".join(f"a circle, number {i}" for i in range(6)))
    make.page.check("#many-prompts")
    assert make.page.inner_text(".send") == "Make 6 videos"
    make.send(3)
    make.app.wait_text("wait here", ".make .right")
    taken = len(make.jobs())
    assert taken in (3, 4), "one is being made, three wait"
    text = make.page.inner_text(".make .right")
    assert f"{taken} of 6 are in the queue, and the other {6 - taken} wait here" in text and "There may be room in" in text
    assert make.page.inner_text(".send") == f"Send the other {6 - taken}"
    ids = [job["id"] for job in make.jobs()]
    make.page.reload()
    make.page.wait_for_selector("make-view[data-ready]")
    make.page.click(".send")
    app.wait_text(f"{taken} of 6 are in the queue, and the other {6 - taken} wait here", ".make .right")
    assert [job["id"] for job in make.jobs()] == ids, "after a reload nothing is made twice"
    for id in ids:
        server.ask("DELETE", f"/v1/videos/{id}")
    make.page.click(".send")
    app.wait(lambda: len(make.jobs()) == 6 - taken, "the others are in the queue")
    app.wait_text("All 6 were put into the queue", ".note")
    assert [job["prompt"] for job in make.jobs()] == [f"a circle, number {i}" for i in range(taken, 6)]


def test_one_setting_over_many_pictures(make):
    make.page.click("#tab-talk")
    make.page.set_input_files("#make-input_reference", [picture(f"{name}.png", 0, 0, 90 + 60 * i) for i, name in enumerate("abc")])
    make.page.set_input_files("#make-audio_reference", str(TALKER / "speech.wav"))
    make.fill(num_inference_steps=1, num_frames=5)
    assert make.page.inner_text(".send") == "Make 3 videos"
    jobs = make.send(3)
    assert sorted(job["settings"]["input_reference"]["file"] for job in jobs) == ["a.png", "b.png", "c.png"]
    for job in jobs:
        make.server.ask("DELETE", f"/v1/videos/{job['id']}")


def test_a_dropped_video_brings_its_settings_back(make):
    fields = QUICK | {"prompt": "<img src=x onerror=alert(1)> a star", "seed": 77, "guidance_scale": 2.5, "crf": 30}
    done = make.server.wait(make.server.create(**fields)["id"])
    video = make.server.ask("GET", f"/v1/videos/{done['id']}/content").body
    before = make.page.input_value("#make-prompt")
    make.drop("h1", "star.mp4", "video/mp4", video)
    make.app.wait_text("The settings of star.mp4 are in the form", ".note")
    values = {name: make.page.input_value(f"#make-{name}") for name in ("prompt", "seed", "guidance_scale", "num_frames", "num_inference_steps")}
    assert values == {"prompt": fields["prompt"], "seed": "77", "guidance_scale": "2.5", "num_frames": "5", "num_inference_steps": "2"}
    again = make.server.wait(make.send()[0]["id"])
    assert make.server.ask("GET", f"/v1/videos/{again['id']}/content").body == video, "it is the same video to the bit"
    assert make.page.query_selector("img[src=x]") is None, "a prompt is text"
    make.page.click(".note >> text=See the queue")
    make.app.go("#/make")
    make.page.wait_for_selector("make-view[data-ready]")
    make.drop("h1", "star.mp4", "video/mp4", video)
    make.fill(prompt=before)
    make.app.wait_text("star.mp4 are in the form", ".note")
    make.page.click("text=Undo")
    assert make.page.input_value("#make-seed") == "77"


def test_paths_in_settings_are_left_out(make):
    make.app.expected = [REFUSED]
    sent = []
    make.page.on("request", lambda request: sent.append(request.post_data_buffer or b"") if request.url.endswith("/plan") else None)
    settings = {"tachyscope": "0.1.0", "prompt": "a fox", "model": "/home/me/models/sprites/", "image": "/home/me/fox.png", "image_sha256": "0" * 64, "num_frames": 9,
                "width": 64, "height": 32, "loras": ["/home/me/film.safetensors:0.8@high", "ink"], "text_encoder": "/home/me/text", "device": "cuda", "seed": 3,
                "environment": {"TMPDIR": "/home/me"}, "encoding": {"format": "mp4", "crf": 20, "path": "/home/me"}, "__proto__": "/home/me"}
    make.drop("h1", "fox.json", "application/json", json.dumps(settings).encode())
    make.app.wait_text("The settings of fox.json are in the form. Its files are not in it: choose the image again.", ".note")
    assert make.page.input_value("#make-prompt") == "a fox" and make.page.input_value("[aria-label='Width in pixels']") == "64"
    make.app.wait(lambda: "There is no LoRA" in make.fault("loras"), "the server has no such LoRA")
    draft = make.page.evaluate("sessionStorage.getItem('tachyscope-draft')")
    assert json.loads(draft)["loras"] == [{"name": "film", "strength": 0.8, "expert": "high"}, {"name": "ink"}]
    assert json.loads(draft)["values"] == {"prompt": "a fox", "num_frames": "9", "size": "64x32", "seed": "3", "crf": "20"}
    assert sent and not any(b"/home/me" in body for body in sent) and "/home/me" not in draft


def test_files_of_wrong_kinds_are_said_in_place(make):
    make.drop("h1", "holiday.mp4", "video/mp4", b"\0\0\0\x18ftypisom" + bytes(200))
    make.app.wait_text("holiday.mp4 holds no settings", ".note")
    make.drop("h1", "cat.json", "application/json", b"[1, 2")
    make.app.wait_text("cat.json holds no settings", ".note")
    make.drop("h1", "notes.txt", "text/plain", b"x")
    make.app.wait_text("notes.txt is nothing that can be used here", ".note")
    make.page.click("#tab-talk")
    make.drop(".drop:has(#make-input_reference)", "song.mp3", "audio/mpeg", b"x")
    assert "song.mp3 is no picture" in make.fault("input_reference")
    make.drop(".drop:has(#make-audio_reference)", "cat.png", "image/png", coloured(1, 2, 3))
    assert "cat.png is no sound" in make.fault("audio_reference")
    make.drop(".drop:has(#make-input_reference)", "broken.png", "image/png", b"no picture")
    make.app.wait_text("broken.png cannot be shown", "#fault-input_reference")
    make.page.click("text=Record")
    make.app.wait_text("microphone", "#fault-audio_reference")


def test_a_hostile_mp4_ends_in_words(make):
    """Cuts a video at each length of its end and changes bytes of its boxes: the reader says that there is nothing, or finds the settings."""
    done = make.server.wait(make.server.create(**QUICK)["id"])
    video = make.server.ask("GET", f"/v1/videos/{done['id']}/content").body
    moov = video.index(b"moov") - 4
    words = make.page.evaluate("""async ([bytes, moov]) => {
      const {settingsIn, NoSettings} = await import('/page/mp4_settings.js');
      const whole = new Uint8Array(bytes), said = {found: 0, none: 0};
      const read = async data => {
        try {
          await settingsIn(new File([data], 'a.mp4', {type: 'video/mp4'}));
          ++said.found;
        } catch (fault) {
          if (!(fault instanceof NoSettings)) throw fault;
          ++said.none;
        }
      };
      for (let length = 0; length < whole.length; length += 97) await read(whole.slice(0, length));
      for (let at = moov; at < whole.length; at += 53)
        for (const value of [0, 1, 255]) {
          const changed = whole.slice();
          changed[at] = value;
          await read(changed);
        }
      await read(whole);
      return said;
    }""", [list(video), moov])
    assert words["found"] >= 1 and words["none"] > 10


def test_a_lora_is_picked_by_its_words(app, fresh, tmp_path):
    tensors = {"transformer.blocks.0.attn1.to_q.lora_A.weight": [4, 384], "transformer.blocks.0.attn1.to_q.lora_B.weight": [384, 4]}
    safetensors(tmp_path / "film.safetensors", {"modelspec.title": "Old film", "modelspec.trigger_phrase": "sepia, grainy"}, tensors)
    safetensors(tmp_path / "ink.safetensors", {}, tensors)
    (tmp_path / "ink.json").write_text(json.dumps({"notes": "Black ink on <b>paper</b>.", "trigger_words": ["ink drawing"], "preferred weight": 0.6}))
    (tmp_path / "film.preview.png").write_bytes(coloured(180, 120, 40))
    make = Maker(app, fresh("--lora-dir", str(tmp_path)))
    app.expected = [REFUSED]
    make.quick()
    make.page.click("summary:has-text('LoRAs')")
    make.app.wait_text("Old film (film)", ".found")
    make.app.wait(lambda: make.page.eval_on_selector(".found .lora-picture", "img => img.naturalWidth") == 32, "its picture is shown")
    assert make.app.pixels(".found .lora-picture", 2) == [(180, 120, 40)] * 4
    assert len(make.page.query_selector_all(".lora-picture")) == 1, "the other one has no picture"
    make.page.fill("[aria-label='Search for a LoRA']", "paper")
    make.app.wait(lambda: "Old film" not in make.page.inner_text(".found"), "the search leaves one")
    assert "Black ink on <b>paper</b>." in make.page.inner_text(".found")
    make.page.click(".found button")
    assert make.page.input_value("[aria-label='Strength of ink']") == "0.6"
    make.page.fill("[aria-label='Strength of ink']", "0.8")
    make.page.click("text=+ ink drawing")
    assert make.page.input_value("#make-prompt").endswith(", ink drawing")
    make.plan("of memory")
    settings = make.send()[0]["settings"]
    assert settings["loras"] == [{"name": "ink", "strength": 0.8}]
    assert not make.page.query_selector("[aria-label='Expert of ink']"), "this model has no experts"
    make.page.evaluate("document.querySelector('make-view').form.model.experts = 2")
    make.page.click("[aria-label='Remove ink']")
    make.page.fill("[aria-label='Search for a LoRA']", "")
    make.page.click(".found button:has-text('film')")
    make.page.select_option("[aria-label='Expert of film']", "high")
    draft = json.loads(make.page.evaluate("sessionStorage.getItem('tachyscope-draft')"))
    assert draft["loras"] == [{"name": "film", "expert": "high"}]


def test_presets_are_saved_and_one_is_the_default(app, tabs, fresh):
    server = fresh()
    make = Maker(app, server)
    app.expected = [REFUSED]
    make.fill(num_inference_steps=7, guidance_scale=2)
    make.page.fill("[aria-label='Name of a preset to save']", "quick")
    make.page.click("text='Save'")
    make.app.wait_text("Saved as quick", ".note")
    make.fill(num_inference_steps=9)
    make.page.click("text=Save as default")
    make.app.wait_text("Every new draft begins with these settings", ".note")
    make.page.select_option("#make-preset", "quick")
    make.app.wait(lambda: make.page.input_value("#make-num_inference_steps") == "7", "the preset is in the form")
    make.page.click("text=Undo")
    assert make.page.input_value("#make-num_inference_steps") == "9"
    make.page.fill("#make-num_inference_steps", "20000")
    make.page.fill("[aria-label='Name of a preset to save']", "bad")
    make.page.click("text='Save'")
    make.app.wait_text("steps", "#fault-preset")
    make.page.evaluate("localStorage.clear(), sessionStorage.clear()")
    other = Maker(tabs(), server)
    assert other.page.input_value("#make-num_inference_steps") == "9"
    assert other.page.input_value("#make-prompt") == "a red circle moves right"


def test_what_memory_cannot_hold_is_refused_beforehand_and_the_nearest_is_one_click(make):
    make.fill(num_frames=4001)
    make.size("16000x16000")
    make.page.wait_for_selector("#plan .nearest", timeout=20000)
    assert make.page.is_disabled(".send")
    assert "need far more memory than there is" in make.page.inner_text("#unfit")
    assert make.page.inner_text("#plan .nearest").startswith("Use ")
    make.page.click("#plan .nearest")
    make.plan("of memory", 20)
    make.app.wait(lambda: make.page.is_enabled(".send"), "the nearest fits")
    assert make.page.input_value("#make-num_frames") != "4001"


def test_sizes_that_do_not_fit_are_greyed_with_the_reason(app, fresh):
    make = Maker(app, fresh("--max-pixel-frames", str(160 * 160 * 33)))
    app.expected = [REFUSED]
    app.wait(lambda: make.page.is_disabled("input[value='256x256']"), "a size that is too large is greyed")
    assert "are more than the 844800 pixels" in make.page.get_attribute(".chip:has([value='256x256'])", "title")
    assert make.page.is_enabled("input[value='64x64']")
    make.page.click(".chip:has([value='64x64'])")
    make.fill(num_frames=33)
    make.plan("of memory")
    make.size("256x256")
    make.page.wait_for_selector("#plan .nearest")
    assert make.page.is_disabled(".send")


def test_an_unfinished_draft_survives_a_reload(make):
    make.page.click("#tab-talk")
    make.fill(prompt="a person sings\nloudly", num_inference_steps=3)
    make.page.set_input_files("#make-input_reference", picture("face.png", 10, 220, 10))
    make.page.wait_for_selector("img[alt='face.png']")
    make.page.wait_for_timeout(200)
    make.page.reload()
    make.page.wait_for_selector("make-view[data-ready]")
    assert make.page.get_attribute("#tab-talk", "aria-selected") == "true"
    assert make.page.input_value("#make-prompt") == "a person sings\nloudly"
    assert make.page.input_value("#make-num_inference_steps") == "3"
    make.page.wait_for_selector("img[alt='face.png']")
    assert all(green > 200 for _, green, _ in make.app.pixels("img[alt='face.png']"))


def test_errors_stand_at_their_fields(make):
    make.app.expected = [REFUSED]
    make.fill(num_inference_steps=5000)
    make.app.wait(lambda: make.fault("num_inference_steps").startswith("Expected a whole number (1 to 1000)"), "the range is said")
    assert make.page.is_disabled(".send")
    make.fill(num_inference_steps=2)
    make.app.wait(lambda: make.page.is_enabled(".send") and not make.fault("num_inference_steps"), "it is mended")
    make.page.click("text=Every other setting")
    make.page.fill("[aria-label='Find a setting']", "low-noise expert")
    make.page.wait_for_selector("#make-guidance_scale_2")
    assert make.page.is_hidden("#make-dtype")
    make.fill(guidance_scale_2=3)
    make.app.wait(lambda: "one transformer" in make.fault("guidance_scale_2"), "the model's own word")
    make.fill(guidance_scale_2="", prompt="  ")
    make.app.wait(lambda: make.page.is_enabled(".send"), "it is mended, too")
    make.page.click(".send")
    assert make.fault("prompt") == "Say what the video should show."
    assert make.page.evaluate("document.activeElement.id") == "make-prompt"


def test_a_draft_from_another_view_is_taken_over(make):
    make.page.evaluate("""() => sessionStorage.setItem('draft', JSON.stringify(
      {model: 'sprites', prompt: 'a green star', frames: 9, steps: 4, seed: 5, video: {id: 'video_1'}, from_frame: 2}))""")
    make.page.reload()
    make.page.wait_for_selector("make-view[data-ready]")
    assert [make.page.input_value(f"#make-{name}") for name in ("prompt", "num_frames", "num_inference_steps", "seed")] == ["a green star", "9", "4", "5"]
    assert "It goes on from frame 2 of video_1" in make.page.inner_text(".from")
    make.plan("sprites begins with no picture, so it cannot go on from another video")
    assert make.page.is_disabled(".send")
    make.page.click("text=Begin anew")
    make.plan("of memory")
    assert make.page.is_enabled(".send")


def test_who_needs_a_key_makes_and_sees_a_video_with_it(app, keyed):  # noqa: F811
    server, keys = keyed
    app.expected = [REFUSED]
    app.open(server, "#/make")
    app.page.fill("#key", keys["alice"])
    app.page.keyboard.press("Enter")
    app.page.wait_for_selector("make-view[data-ready]")
    for field in "num_frames", "num_inference_steps":
        app.page.fill(f"#make-{field}", str(QUICK[field]))
    app.wait_text("of memory", "#plan")
    app.page.click(".send")
    app.page.wait_for_selector(".made video")
    app.wait(lambda: app.page.eval_on_selector(".made video", "video => video.readyState") >= 2, "the video comes by a signed link")


def test_a_line_that_breaks_loses_nothing(make, context):
    make.app.expected = ["ERR_INTERNET_DISCONNECTED"]
    make.quick()
    make.plan("of memory")
    before = len(make.jobs())
    context.set_offline(True)
    make.page.click(".send")
    make.app.wait(lambda: any("/v1/videos" in error for error in make.app.errors), "the request does not get through")
    context.set_offline(False)
    make.app.wait(lambda: len(make.jobs()) == before + 1, "it is sent again, and makes one video")
    make.app.wait_text("It was put into the queue", ".note")


def test_everything_has_a_name_and_is_reached_by_keys(make):
    make.page.click("#tab-talk")
    for summary in make.page.query_selector_all("make-view summary"):
        if summary.is_visible():
            summary.click()
    make.page.wait_for_selector("#make-dtype")
    nameless = """() => [...document.querySelectorAll('make-view :is(input, select, textarea, button)')]
      .filter(one => one.checkVisibility() && !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
      .map(one => one.outerHTML)"""
    assert not make.page.evaluate(nameless)
    make.page.click("#tab-text")
    make.page.click("#make-videos summary")
    make.page.wait_for_selector("#make-video")
    assert not make.page.evaluate(nameless)
    make.page.click("#make-videos summary")
    make.quick()
    make.plan("of memory")
    make.page.focus("#make-prompt")
    for _ in range(120):
        make.page.keyboard.press("Tab")
        if make.page.evaluate("document.activeElement.classList.contains('send')"):
            break
    before = len(make.jobs())
    make.page.keyboard.press("Enter")
    make.app.wait(lambda: len(make.jobs()) == before + 1, "the button was pressed by a key")
    assert make.page.get_attribute("#make-num_frames", "aria-describedby") == "fault-num_frames"
