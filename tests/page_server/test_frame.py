"""The frame of the page: how fast it is there, who may see it, whether it serves keyboards, readers and phones, and that it can stay open."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import QUICK, SLOW

ROOT = pathlib.Path(__file__).resolve().parents[2]
VIEWS = ["make", "queue", "gallery", "worlds", "keys"]
KEY = re.compile(r"tk-[\w-]{43}")
# Each visible text has its colour, the nearest background that is not clear, and whether it is large. A control that cannot be used may be pale.
TEXTS = """() => {
  const rgb = text => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const at = node.parentElement, text = node.textContent.trim();
    if (!text || !at.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) || at.closest(':disabled, .skip, option, [aria-disabled=true]')) continue;
    const box = at.getBoundingClientRect(), style = getComputedStyle(at);
    if (!box.width || !box.height) continue;
    let back = at;
    while (back && rgb(getComputedStyle(back).backgroundColor)[3] < 1) back = back.parentElement;
    const size = parseFloat(style.fontSize);
    found.push({text: text.slice(0, 40), ink: rgb(style.color), back: rgb(getComputedStyle(back ?? document.body).backgroundColor),
                large: size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700)});
  }
  return found;
}"""


def luminance(colour):
    parts = [one / 255 for one in colour[:3]]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture(scope="module")
def lively():
    """A server with a job under way, one that waits, one that is ready and one that has failed."""
    from conftest import BUILD, Server

    with Server(BUILD) as server:
        server.wait_ready()
        server.wait(server.create(prompt="ready", **QUICK)["id"])
        stopped = server.create(prompt="stopped", **SLOW)["id"]
        server.ask("POST", f"/v1/videos/{stopped}/cancel")
        server.create(prompt="the long one", **SLOW)
        server.create(prompt="waits", **QUICK)
        yield server


@pytest.fixture
def keyed(fresh, tmp_path):
    """A server with keys, and the keys of alice, and of root who sees all."""
    from conftest import BUILD

    keys = {}
    file = tmp_path / "keys"
    for name in ("alice", "root"):
        done = subprocess.run([BUILD / "tachyscope-serve", "--keys", file, "--new-key", name], capture_output=True, text=True, check=True, cwd=ROOT)
        keys[name] = KEY.search(done.stdout)[0]
    file.write_text(re.sub(r"(?m)^(root .*)$", r"\1 admin priority", file.read_text()))
    file.chmod(0o600)
    return fresh("--keys", str(file)), keys


def test_types():
    done = subprocess.run(["tsc", "-p", ROOT / "src/web_page"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_first_paint_is_fast_and_small(site, app):
    times, sizes = [], []
    for _ in range(3):
        app.open(site, "#/queue").page.wait_for_selector("queue-view h1")
        app.wait(lambda: app.page.evaluate("performance.getEntriesByType('paint').length"), "something is painted")
        times.append(app.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        app.page.goto("about:blank")
    for view in VIEWS:
        fresh = app.page.context.browser.new_context()
        page = fresh.new_page()
        page.goto(f"{site.base}/#/{view}")
        page.wait_for_selector("main h1")
        sizes.append(page.evaluate("""() => [performance.getEntriesByType('navigation')[0], ...performance.getEntriesByType('resource')]
            .filter(one => !new URL(one.name).pathname.startsWith('/v1/')).reduce((sum, one) => sum + one.encodedBodySize, 0)"""))
        fresh.close()
    print("first paint after", [round(one) for one in times], "ms; bytes of each first view:", dict(zip(VIEWS, sizes)))
    assert min(times) <= 300, times
    assert 10_000 < max(sizes) <= 150_000, sizes


def test_what_is_known_is_not_sent_again(site):
    index = site.ask("GET", "/")
    for path in ["/"] + [f"/{name}" for name in re.findall(r'(?:href|src)="(page/[^"]+)"', index.body.decode())]:
        answer = site.ask("GET", path)
        assert answer.status == 200 and "default-src 'none'" in answer.headers["content-security-policy"]
        again = site.ask("GET", path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status, again.body) == (304, b""), path
        assert site.ask("GET", path, headers={"Host": "elsewhere.example"}).status == 403


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_for_everybody(lively, app, view):
    """Colours in the dark and in the light, roles and names, headings in order, and phones."""
    app.open(lively, f"#/{view}").page.wait_for_selector(f"{view}-view h1")
    app.page.wait_for_timeout(300)
    check_names(app, view)
    for scheme in "dark", "light":
        app.page.emulate_media(color_scheme=scheme)
        texts = app.page.evaluate(TEXTS)
        pale = [(text["text"], round(contrast(text["ink"], text["back"]), 2)) for text in texts
                if contrast(text["ink"], text["back"]) < (3 if text["large"] else 4.5)]
        assert not pale, (scheme, pale)
        assert len(texts) > 6, "there was something to look at"
        assert (luminance(texts[0]["back"]) < 0.2) == (scheme == "dark")
        check_edges(app)
    for width in 412, 320:
        app.page.set_viewport_size({"width": width, "height": 700})
        app.page.wait_for_timeout(50)
        assert app.page.evaluate("document.scrollingElement.scrollWidth") <= width, f"it does not fit a phone of {width} pixels"
        small = app.page.eval_on_selector_all("main button", """all => all.filter(one => one.checkVisibility()).map(one => [one.textContent || one.title, one.getBoundingClientRect()])
          .filter(([, box]) => box.width && (box.width < 24 || box.height < 24)).map(([text]) => text)""")
        assert not small, f"too small for a finger: {small}"


def check_edges(app):
    colours = app.page.evaluate("""() => Object.fromEntries(['accent', 'line', 'ground', 'panel'].map(name => {
      const probe = document.body.appendChild(document.createElement('i'));
      probe.style.color = `var(--${name})`;
      const colour = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number);
      probe.remove();
      return [name, colour];
    }))""")
    for back in "ground", "panel":
        assert contrast(colours["accent"], colours[back]) >= 3, "the ring around what has the focus"
        assert contrast(colours["line"], colours[back]) >= 3, "the edges of what can be filled in"


NAMED = {"button", "link", "textbox", "combobox", "checkbox", "radio", "slider", "spinbutton", "searchbox", "tab", "dialog", "progressbar", "ProgressIndicator", "image",
         "switch", "listbox"}


def check_names(app, view):
    session = app.page.context.new_cdp_session(app.page)
    nodes = [node for node in session.send("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
    roles = [node["role"]["value"] for node in nodes]
    nameless = [node["role"]["value"] for node in nodes if node["role"]["value"] in NAMED and not node.get("name", {}).get("value", "").strip()]
    assert not nameless, nameless
    assert roles.count("main") == 1 and "navigation" in roles and "banner" in roles, roles
    headings = app.page.eval_on_selector_all("main :is(h1,h2,h3,h4)", "all => all.filter(one => one.checkVisibility()).map(one => Number(one.tagName[1]))")
    assert headings.count(1) == 1 and headings[0] == 1, headings
    assert all(later - earlier <= 1 for earlier, later in zip(headings, headings[1:])), headings
    assert app.page.get_attribute("nav [aria-current=page]", "href") == f"#/{view}"
    twice = app.page.evaluate("() => { const all = [...document.querySelectorAll('[id]')].map(one => one.id); return all.filter((id, i) => all.indexOf(id) !== i); }")
    assert not twice, f"ids that are there twice: {twice}"
    assert app.page.get_attribute("html", "lang") == "en"
    assert app.page.get_attribute("#notices", "role") == "status" and app.page.get_attribute("#away", "role") == "alert"


def test_the_keyboard_reaches_everything_in_the_order_of_the_page(lively, app):
    app.open(lively, "#/queue").page.wait_for_selector(".waiting")
    app.page.wait_for_selector(".ended")
    app.page.evaluate("() => { let at = 0; for (const one of document.querySelectorAll('a, button, input, textarea, select')) one.dataset.order = at++; }")
    wanted = app.page.eval_on_selector_all("a, button, input, textarea, select", "all => all.filter(one => one.checkVisibility() && !one.disabled).map(one => Number(one.dataset.order))")
    visited = []
    for _ in range(len(wanted)):
        app.page.keyboard.press("Tab")
        order, ring, box = app.page.evaluate("""() => { const at = document.activeElement, box = at.getBoundingClientRect();
          return [Number(at.dataset.order), getComputedStyle(at).outlineStyle, [box.left, box.top, box.right, box.bottom]]; }""")
        visited.append(order)
        assert ring != "none", "it is shown where the focus is"
        assert box[2] > 0 and box[3] > 0 and box[1] < 900 and box[0] < 1100, "and that is on the screen"
    assert visited == wanted, (visited, wanted)
    app.page.keyboard.press("Tab")
    app.page.reload()
    app.page.wait_for_selector(".waiting")
    app.page.keyboard.press("Tab")
    assert app.page.evaluate("document.activeElement.className") == "skip"
    app.page.keyboard.press("Enter")
    assert app.page.evaluate("document.activeElement.id") == "view" and app.page.query_selector("queue-view"), "the way past the header leads to the view"
    app.page.focus("nav a[href='#/keys']")
    app.page.keyboard.press("Enter")
    app.wait_text("This server has no keys", "keys-view")
    assert app.page.evaluate("document.activeElement.id") == "view", "the focus is in the new view"


def test_the_page_asks_for_a_key_in_place(keyed, app):
    server, keys = keyed
    assert server.ask("PUT", "/v1/presets/default", QUICK, {"Authorization": f"Bearer {keys['alice']}"}).status == 200
    app.expected.append("401")
    app.open(server, "#/queue").page.wait_for_selector("#key-form")
    assert app.page.evaluate("document.activeElement.id") == "key"
    app.page.fill("#key", "tk-wrong")
    app.page.keyboard.press("Enter")
    app.wait_text("This is not a key of this server", "#key-form")
    app.page.fill("#key", keys["alice"])
    app.page.keyboard.press("Enter")
    app.page.wait_for_selector("queue-view h1")
    app.page.fill("#add-prompt", "by alice")
    app.page.keyboard.press("Enter")
    app.wait_text("Ready", ".ended .state", 30)
    app.wait(lambda: app.page.eval_on_selector_all(".ended .thumb img", "all => all[0]?.naturalWidth"), "its thumbnail is shown")
    app.go("#/keys")
    app.wait_text("Your key is “alice”", "keys-view")
    app.wait_text("only your own videos", "keys-view")
    assert "root" not in app.page.inner_text("main")
    assert keys["alice"] not in app.page.content()
    app.page.reload()
    app.wait_text("Your key is “alice”", "keys-view")
    app.page.click("text=Use another key")
    app.page.wait_for_selector("#key-form")
    app.page.fill("#key", keys["root"])
    app.page.keyboard.press("Enter")
    app.wait_text("Who has a key", "keys-view")
    rows = app.page.eval_on_selector_all("keys-view tbody tr", "rows => rows.map(row => [...row.children].map(one => one.textContent))")
    assert rows == [["alice", "only their own videos", "no"], ["root", "the videos of all", "yes"]]
    app.go("#/queue")
    app.wait_text("by alice", "main")


def test_worlds_are_linked_with_their_state(site, app):
    app.open(site, "#/worlds").wait_text("Free", "worlds-view")
    app.page.click("text=Enter “world”")
    app.wait(lambda: app.page.url.startswith(f"{site.base}/world/world"), "the world's page is shown")
    app.page.goto("about:blank")


def heap(session):
    for _ in range(2):
        session.send("HeapProfiler.collectGarbage")
    return session.send("Runtime.getHeapUsage")["usedSize"]


def test_it_can_stay_open(lively, app):
    """The page asks 250 times, in seconds, while a job goes on and its previews come. TACHY_PAGE_TURNS=7200 is two hours of them."""
    session = app.page.context.new_cdp_session(app.page)
    app.open(lively, "#/queue").page.wait_for_selector(".running")
    app.page.evaluate("page.store.asker.faster = 1000")
    turns = lambda: app.page.evaluate("page.store.asker.turn")  # noqa: E731
    app.wait(lambda: turns() > 100, "the page is warm", 60)
    before, nodes, begun = heap(session), app.page.evaluate("document.querySelectorAll('*').length"), turns()
    more = int(os.environ.get("TACHY_PAGE_TURNS", "250"))
    app.wait(lambda: turns() > begun + more, "it asks and asks", 60 + more / 5)
    after = heap(session)
    print(f"heap after {begun} questions {before / 1e6:.2f} MB, after {turns()} {after / 1e6:.2f} MB")
    assert after < before + 300_000, (before, after)
    assert app.page.evaluate("document.querySelectorAll('*').length") < nodes + 20
