"""Tests what the other tests stand on: servers that are full of videos, and a tab that tells of errors."""

import pytest

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
