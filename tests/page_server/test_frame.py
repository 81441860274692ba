"""The frame of the page: how fast it is there, who may see it, whether it serves keyboards, readers and phones, and that it can stay open."""

import os
import pathlib
import re
import subprocess

import pytest

from access import check_colours, check_names, check_phone
from conftest import QUICK, SLOW

ROOT = pathlib.Path(__file__).resolve().parents[2]
VIEWS = ["make", "queue", "gallery", "worlds", "keys"]
KEY = re.compile(r"tk-[\w-]{43}")


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
    while not times or (min(times) > 300 and len(times) < 10):  # other programs may take the processors for a while
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


def test_the_policy_keeps_out_what_is_not_the_servers(site, app):
    """Each rule of it, by an attempt: a script in the page, one of a text, a style, another site, a frame, a form, HTML made of a text."""
    policy = dict(rule.strip().partition(" ")[::2] for rule in site.ask("GET", "/").headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert {policy[name] for name in ("form-action", "frame-ancestors", "base-uri", "trusted-types")} == {"'none'"}
    assert not any(word in rule for rule in policy.values() for word in ("unsafe", "*", "http"))
    app.open(site, "#/queue")
    app.expected += ["Content Security Policy", "TrustedHTML", "TrustedScript"]
    hit = app.page.evaluate("""async () => {
      const broken = [], tried = [];
      addEventListener('securitypolicyviolation', event => broken.push(event.effectiveDirective));
      const attempt = async (name, act) => {
        await new Promise(done => setTimeout(done, 20));  // what is run by the test's own call is free of the policy
        const before = broken.length;
        let thrown = false;
        try { await act(); } catch { thrown = true; }
        for (let i = 0; i < 100 && !thrown && broken.length === before; ++i) await new Promise(done => setTimeout(done, 20));
        if (!thrown && broken.length === before) tried.push(name);
      };
      const add = (tag, values) => document.body.appendChild(Object.assign(document.createElement(tag), values));
      await attempt('a script in the page', () => add('script', {text: 'window.hit = 1'}));
      await attempt('a text as a script', () => eval('window.hit = 1'));
      await attempt('a handler', () => add('i', {}).setAttribute('onclick', 'window.hit = 1'));
      await attempt('HTML of a text', () => { add('i', {}).innerHTML = '<b>x</b>'; });
      await attempt('a style in the page', () => add('style', {textContent: 'body { display: none }'}));
      await attempt('another site', () => fetch('http://127.0.0.1:9/'));
      await attempt('a picture of another site', () => add('img', {src: 'http://127.0.0.1:9/x.png'}));
      await attempt('a frame', () => add('iframe', {src: '/'}));
      await attempt('a form', () => add('form', {action: '/', method: 'post'}).submit());
      return [tried, window.hit ?? 0];
    }""")
    assert hit == [[], 0], hit
    app.requests = [url for url in app.requests if "127.0.0.1:9/" not in url]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_for_everybody(lively, app, view):
    """Colours in the dark and in the light, roles and names, headings in order, and phones."""
    app.open(lively, f"#/{view}").page.wait_for_selector(f"{view}-view h1")
    app.page.wait_for_timeout(300)
    check_names(app, view)
    check_colours(app)
    check_phone(app)


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


def heap(app, session):
    """Returns the bytes of the page's heap while it asks for nothing: an answer that is just being read, or a collection that another program puts off,
    would count otherwise. It is collected until two looks agree."""
    app.page.evaluate("async () => { page.store.asker.held = true; await page.store.asker.asking; }")
    looks = [0]
    while len(looks) < 3 or abs(looks[-1] - looks[-2]) > 20_000:
        assert len(looks) < 30, f"the heap does not come to rest: {looks}"
        app.page.wait_for_timeout(200)
        for _ in range(2):
            session.send("HeapProfiler.collectGarbage")
        looks.append(session.send("Runtime.getHeapUsage")["usedSize"])
    app.page.evaluate("() => { page.store.asker.held = false; void page.store.asker.refresh(); }")
    return looks[-1]


def test_it_can_stay_open(lively, app):
    """The page asks 250 times, in seconds, while a job goes on and its previews come. TACHY_PAGE_TURNS=7200 is two hours of them."""
    session = app.page.context.new_cdp_session(app.page)
    app.open(lively, "#/queue").page.wait_for_selector(".running")
    app.page.evaluate("page.store.asker.faster = 1000")
    turns = lambda: app.page.evaluate("page.store.asker.turn")  # noqa: E731
    app.wait(lambda: turns() > 100, "the page is warm", 60)
    before, nodes, begun = heap(app, session), app.page.evaluate("document.querySelectorAll('*').length"), turns()
    more = int(os.environ.get("TACHY_PAGE_TURNS", "250"))
    app.wait(lambda: turns() > begun + more, "it asks and asks", 60 + more / 5)
    after = heap(app, session)
    print(f"heap after {begun} questions {before / 1e6:.2f} MB, after {turns()} {after / 1e6:.2f} MB")
    assert after < before + 300_000, (before, after)
    assert app.page.evaluate("document.querySelectorAll('*').length") < nodes + 20
