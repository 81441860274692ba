"""Tests what the other tests stand on: servers that are full of videos, and a tab that tells of errors."""

import pytest

from access import check_colours, check_names, check_order, check_phone
from conftest import App


def test_a_stocked_server_lists_and_sends_its_videos(stocked):
    server, ids = stocked(120)
    page = server.ask("GET", "/v1/videos?limit=100").json
    assert [video["id"] for video in page["data"]] == ids[:-101:-1] and page["has_more"]
    assert {video["status"] for video in page["data"]} == {"completed"}
    for id in ids[1], ids[-1]:
        assert server.ask("GET", f"/v1/videos/{id}/content?variant=thumbnail").body[:2] == b"\xff\xd8"
        assert server.ask("GET", f"/v1/videos/{id}/content").body[4:8] == b"ftyp"


@pytest.mark.parametrize("script", ["console.error('bad')", "setTimeout(() => nothing.there, 0)", "new Image().src = 'http://127.0.0.1:9/'"])
def test_a_tab_tells_of_errors_and_of_requests_elsewhere(site, context, script):
    tab = App(context.new_page())
    tab.base = site.base
    tab.page.goto(site.base + "/health")
    tab.check()
    tab.page.evaluate(script)
    tab.wait(lambda: tab.errors or len(tab.requests) > 1, "the tab tells")
    with pytest.raises(AssertionError):
        tab.check()


FAULTS = {
    "a control without a name": ("document.querySelector('main').append(document.createElement('button'))", check_names),
    "a heading out of order": ("document.querySelector('main').append(Object.assign(document.createElement('h4'), {textContent: 'too low'}))", check_names),
    "an id that is there twice": ("for (let i = 0; i < 2; ++i) document.querySelector('main').append(Object.assign(document.createElement('p'), {id: 'twice'}))", check_names),
    "pale text": ("document.querySelector('main label').style.color = '#888'", check_colours),
    "text that is as dark as the ground": ("document.querySelector('main').style.color = '#000'", check_colours),
    "a pale hint": ("const all = new CSSStyleSheet(); all.replaceSync('::placeholder { color: #777 }'); document.adoptedStyleSheets = [all]", check_colours),
    "something wide": ("document.querySelector('h1').style.width = '500px'", check_phone),
    "a tiny button": ("Object.assign(document.querySelector('main button').style, {minHeight: 0, height: '12px'})", check_phone),
    "no ring": ("document.querySelector('main input').style.outline = 'none'", check_order),
    "another order": ("document.querySelector('main button').tabIndex = 5", check_order),
    "something that lies over it": ("Object.assign(document.querySelector('header').style, {position: 'fixed', inset: 0})", check_order),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_serves_not_everybody_is_found(app, site, fault):
    mutate, check = FAULTS[fault]
    more = ["queue"] if check is check_names else []
    app.open(site, "#/queue").page.wait_for_selector("#add-prompt")
    check(app, *more)
    app.page.evaluate(mutate)
    with pytest.raises(AssertionError):
        check(app, *more)
