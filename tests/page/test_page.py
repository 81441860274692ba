"""Tests the page as a visitor uses it, judged by its canvas."""

import random
import struct
import time
import zlib

from conftest import Page, Path


def png(path, red, green, blue, side=16):
    row = b"\0" + bytes([red, green, blue]) * side
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(row * side)) + chunk(b"IEND", b""))
    return path


def test_a_held_key_moves_the_world(serve, page):
    page.open(serve().url)
    assert not page.lit("D")
    before = page.square()
    page.page.keyboard.down("d")
    page.wait(lambda: page.lit("D"), "D is lit")
    page.wait(lambda: page.square()[0] > before[0] + 20, "the square moves right")
    assert abs(page.square()[1] - before[1]) < 2
    page.page.keyboard.down("w")
    page.wait(lambda: page.lit("D") and page.lit("W"), "both are held")
    page.page.keyboard.up("d")
    page.page.keyboard.up("w")
    page.wait(lambda: not page.lit("D") and not page.lit("W"), "both are released")
    still = page.square()
    time.sleep(0.7)
    assert page.square() == still


def test_arrows_and_the_mouse_look_round(serve, page):
    page.open(serve().url)
    page.page.keyboard.down("ArrowRight")
    page.wait(lambda: 0.05 < page.yaw() < 0.15, "one step to the right")
    page.page.keyboard.up("ArrowRight")
    page.wait(lambda: page.yaw() == 0, "released")
    box = page.page.locator("#view").bounding_box()
    page.page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 200 + box["width"] / 4, box["y"] + 200, steps=5)
    page.wait(lambda: 0.15 < page.yaw() < 0.25, "two steps to the right")
    page.page.mouse.up()
    page.wait(lambda: page.yaw() == 0, "released")


def test_fingers_and_a_gamepad(serve, browser):
    context = browser.new_context(viewport={"width": 800, "height": 900}, has_touch=True, is_mobile=True)
    page = Page(context.new_page())
    page.open(serve().url)
    box = page.page.locator("#pads button[data-key=A]").bounding_box()
    touch = context.new_cdp_session(page.page)
    at = [{"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}]
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": at})
    page.wait(lambda: page.lit("A"), "A is held by a finger")
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait(lambda: not page.lit("A"), "the finger is gone")
    page.page.evaluate("""() => {
      window.pad = {connected: true, axes: [0, -1, 0, 0], buttons: []};
      navigator.getGamepads = () => [window.pad];
    }""")
    page.wait(lambda: page.lit("W"), "the left stick is W")
    page.page.evaluate("window.pad.axes = [0, 0, 1, 0]")
    page.wait(lambda: not page.lit("W") and 0.15 < page.yaw() < 0.25, "the right stick looks round")
    page.page.evaluate("window.pad.connected = false")
    page.wait(lambda: page.yaw() == 0, "the gamepad is gone")
    assert not page.errors
    context.close()


def test_the_focus_lost_nothing_is_held(serve, page):
    page.open(serve().url)
    page.page.keyboard.down("w")
    page.wait(lambda: page.lit("W"), "W is lit")
    page.page.evaluate("window.dispatchEvent(new Event('blur'))")
    page.wait(lambda: not page.lit("W"), "W is released")


def test_a_key_is_released_whatever_else_is_held(serve, page):
    page.open(serve().url)
    for other in ("Control", "Alt", "Meta"):
        page.page.keyboard.down("w")
        page.wait(lambda: page.lit("W"), "W is lit")
        page.page.keyboard.down(other)
        page.page.keyboard.up("w")
        page.wait(lambda: not page.lit("W"), f"W is released while {other} is held")
        page.page.keyboard.up(other)
    # While Command is held, a Mac does not tell the page when a letter is released.
    page.page.keyboard.down("d")
    page.wait(lambda: page.lit("D"), "D is lit")
    page.page.keyboard.down("Meta")
    page.page.keyboard.up("Meta")
    page.wait(lambda: not page.lit("D"), "D is released with Command")


def test_a_gamepad_holds_nothing_without_the_focus(serve, page):
    page.open(serve().url)
    page.page.evaluate("""() => {
      window.pad = {connected: true, axes: [0, -1, 0, 0], buttons: []};
      navigator.getGamepads = () => [window.pad];
    }""")
    page.wait(lambda: page.lit("W"), "the left stick is W")
    page.page.evaluate("window.dispatchEvent(new Event('blur'))")
    page.wait(lambda: not page.lit("W"), "W is released")
    time.sleep(0.7)
    assert not page.lit("W"), "and stays so"
    page.page.evaluate("window.dispatchEvent(new Event('focus'))")
    page.wait(lambda: page.lit("W"), "the stick counts again")


def test_text_that_is_typed_is_no_key(serve, page):
    page.open(serve().url)
    page.page.locator("#seed").focus()
    page.page.keyboard.down("w")
    time.sleep(0.8)
    assert not page.lit("W")


def test_a_cut_socket_is_opened_again(serve, page):
    server = serve()
    page.open(server.url)
    page.page.evaluate("window.worldPage.connection.socket.close()")
    page.wait_state("running")
    server.stop()
    page.wait_state("cut")
    assert "connecting again" in page.page.inner_text("#cover-text")
    serve(port=server.port)
    page.wait_state("running")
    page.page.keyboard.down("a")
    page.wait(lambda: page.lit("A"), "keys count again")


def test_a_path_that_is_gone_without_a_word(serve, page):
    server = serve(alive_seconds=0.5, stalled_seconds=2)
    path = Path(server.port)
    page.open(f"http://127.0.0.1:{path.port}/")
    page.page.click("#record")
    page.wait(lambda: page.page.inner_text("#record") == "Stop recording", "it records")
    path.cut()
    page.wait(lambda: page.state() in ("cut", "busy", "connecting"), "it is noticed")
    page.wait_state("running")
    assert page.page.inner_text("#record") == "Record", "the recording went with the visit"


def test_a_world_that_is_slow_is_not_taken_for_gone(serve, page):
    page.open(serve(alive_seconds=0.6, block_seconds=6).url)
    states = page.page.evaluate("""() => new Promise((done) => {
      const seen = new Set(), timer = setInterval(() => seen.add(window.worldPage.state), 20);
      setTimeout(() => { clearInterval(timer); done([...seen]); }, 2500);
    })""")
    assert states == ["running"], "though no frame came"


def test_a_reload_goes_on(serve, page):
    page.open(serve().url)
    page.page.keyboard.down("s")
    page.wait(lambda: page.lit("S"), "S is lit")
    for _ in range(3):
        assert page.page.reload().status == 200
        page.wait_state("running")
    assert not page.lit("S")


def test_two_tabs(serve, context, page):
    server = serve()
    page.open(server.url)
    other = Page(context.new_page())
    assert other.page.goto(server.url).status == 503
    assert "One visitor at a time" in other.page.inner_text("#busy")
    drawn = page.drawn()
    page.wait(lambda: page.drawn() > drawn + 5, "the first goes on")
    page.page.close()
    other.wait_state("running")  # it connects by itself
    # Here another page takes the world of this one.
    third = Page(context.new_page())
    other.page.evaluate("() => { const c = window.worldPage.connection; c.again = c.open; c.open = () => {}; c.socket.close(); }")
    third.open(server.url)
    other.page.evaluate("() => { const c = window.worldPage.connection; c.open = c.again; c.open(); }")
    other.wait_state("busy")
    third.page.close()
    other.wait_state("running")


def test_a_slow_reader_sees_the_newest(serve, page):
    page.open(serve(fps=48).url)
    page.page.evaluate("""() => { const until = performance.now() + 2000; while (performance.now() < until); }""")
    page.wait(lambda: int(page.page.inner_text("#dropped")) > 20, "frames were dropped")
    took = []
    while not took or (min(took) >= 1.5 and len(took) < 5):  # a busy machine makes some late, and frames that wait all of them
        page.page.keyboard.down("d")
        begin = time.monotonic()
        page.wait(lambda: page.lit("D"), "D is lit")
        took.append(time.monotonic() - begin)
        page.page.keyboard.up("d")
        page.wait(lambda: not page.lit("D"), "D is released")
    assert min(took) < 1.5, f"what is seen is old: {took}"
    assert page.state() == "running"


def test_a_recording_is_downloaded(serve, page):
    page.open(serve().url)
    page.page.click("#record")
    page.wait(lambda: "on" in (page.page.get_attribute("#record", "class") or ""), "it records")
    drawn = page.drawn()
    page.wait(lambda: page.drawn() > drawn + 15, "frames are drawn")
    page.page.click("#record")
    page.page.wait_for_selector("#download", state="visible")
    frames = int(page.page.inner_text("#download").split("(")[1].split()[0])
    assert 12 <= frames <= 80
    with page.page.expect_download() as download:
        page.page.click("#download")
    data = open(download.value.path(), "rb").read()
    assert data[4:8] == b"ftyp" and len(data) > 500


def test_a_picture_of_ones_own(serve, page, tmp_path):
    page.open(serve(picture=0).url, state="waiting")
    page.page.set_input_files("#picture", png(tmp_path / "red.png", 180, 20, 20))
    page.wait_state("running")
    red, green, blue = page.pixel(150, 90)
    assert red > 140 and green < 60 and blue < 60
    (tmp_path / "large.png").write_bytes(bytes(9 << 20))
    page.page.set_input_files("#picture", tmp_path / "large.png")
    page.wait(lambda: "too large" in page.page.inner_text("#note"), "it is too large")
    (tmp_path / "text.png").write_text("no picture")
    page.page.set_input_files("#picture", tmp_path / "text.png")
    page.wait_state("error")
    assert "picture" in page.page.inner_text("#cover-text")
    page.page.click("#reset")
    page.wait_state("running")


def test_a_block_that_is_not_finite(serve, page):
    page.open(serve().url)
    page.page.fill("#seed", "13")
    page.page.click("#start", force=True)
    page.wait_state("error")
    assert "not finite" in page.page.inner_text("#cover-text")
    page.page.fill("#seed", "1")
    page.page.click("#start")
    page.wait_state("running")
    page.page.click("#stop")
    page.wait_state("stopped")
    page.page.click("#start")
    page.wait_state("running")


def test_a_seed_that_nobody_changed_is_the_servers(serve, page):
    """The seed stays exact although JavaScript has no 64-bit integers."""
    page.page.add_init_script("""
      window.sent = [];
      const send = WebSocket.prototype.send;
      WebSocket.prototype.send = function (text) { window.sent.push(JSON.parse(text)); send.call(this, text); };
    """)
    page.open(serve(seed=18446744073709551615).url)
    starts = lambda: page.page.evaluate("window.sent.filter((m) => m.type === 'start')")
    assert starts() == [{"type": "start"}]
    page.page.fill("#seed", "5")
    page.page.click("#start")
    page.page.click("#start")
    assert starts()[1:] == [{"type": "start", "seed": 5}] * 2


def test_who_presses_nothing_is_told_so(serve, page):
    page.open(serve(idle_seconds=3).url)
    page.wait_state("closed")
    assert "nothing was pressed for 3 seconds" in page.page.inner_text("#cover-text")
    page.page.click("#again")
    page.wait_state("running")


def test_a_token_is_needed(serve, page):
    server = serve(token="abcdefgh-123")
    assert page.page.goto(server.url.split("?")[0]).status == 403
    assert "token" in page.page.inner_text("#refused")
    page.open(server.url)
    page.page.click("#record")
    time.sleep(0.5)
    page.page.click("#record")
    page.page.wait_for_selector("#download", state="visible")
    with page.page.expect_download() as download:
        page.page.click("#download")
    assert download.value.path().stat().st_size > 500


def test_figures_and_keys_in_time(serve, page):
    """With 12 frames a second and blocks of four, the key's block begins within a third of a second. A machine that is held up spoils a round now
    and then, and a page that is late spoils each of them."""
    page.open(serve().url)
    draw, most = random.Random(7), []
    while not most or (most[-1] > 650 and len(most) < 3):
        before = len(page.page.evaluate("window.worldPage.latencies"))
        for n in range(16):
            time.sleep(draw.uniform(0.3, 0.7))
            page.page.keyboard.down("d") if n % 2 == 0 else page.page.keyboard.up("d")
        page.wait(lambda: len(page.page.evaluate("window.worldPage.latencies")) >= before + 15, "each is measured")
        latencies = sorted(page.page.evaluate("window.worldPage.latencies")[before:])
        most.append(latencies[-1])
        print(f"key to canvas: median {latencies[len(latencies) // 2]:.0f} ms, most {latencies[-1]:.0f} ms")
        assert latencies[0] > 0, latencies
    assert most[-1] <= 650, most
    page.wait(lambda: 9 <= int(page.page.inner_text("#fps")) <= 15, "about 12 frames a second")
    assert page.page.inner_text("#latency").endswith(" ms")
    colours = page.page.evaluate("""() => {
      const graph = document.getElementById('graph'), data = graph.getContext('2d').getImageData(0, 0, graph.width, graph.height).data;
      let blue = 0, orange = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 128) data[i + 2] > data[i] ? ++blue : ++orange;
      return [blue, orange];
    }""")
    assert min(colours) > 20, "both lines are drawn"
