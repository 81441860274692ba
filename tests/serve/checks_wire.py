"""What the client does not show: ranges, ETags, methods, media types, foreign pages, bodies that are malformed."""

import json
import urllib.parse

from site_under_test import checks_of


def _content(site, headers=None, method="GET"):
    return site.ask(method, f"/v1/videos/{site.done().id}/content", headers=headers)


def a_range_is_a_part_of_the_file(site):
    whole = site.content(site.done().id)
    for given, part in (("bytes=0-99", whole[:100]), ("bytes=100-", whole[100:]), ("bytes=-10", whole[-10:]), ("bytes=5-5", whole[5:6]),
                        ("bytes=0-999999999", whole)):
        answer = _content(site, {"Range": given})
        assert answer.status == 206 and answer.body == part, (given, answer.status, len(answer.body))
        assert answer.headers["content-range"].endswith(f"/{len(whole)}"), answer.headers


def a_range_behind_the_end_is_refused(site):
    site.expect(_content(site, {"Range": "bytes=999999999-"}), 416, "invalid_range")


def an_etag_saves_a_second_download(site):
    tag = _content(site).headers["etag"]
    answer = _content(site, {"If-None-Match": tag})
    assert answer.status == 304 and answer.body == b"", answer.status
    assert _content(site, {"If-None-Match": '"other"'}).status == 200
    assert _content(site, {"Range": "bytes=0-9", "If-Range": tag}).status == 206
    assert _content(site, {"Range": "bytes=0-9", "If-Range": '"other"'}).status == 200


def head_has_the_headers_alone(site):
    answer = _content(site, method="HEAD")
    assert answer.status == 200 and answer.body == b"" and int(answer.headers["content-length"]) == len(site.content(site.done().id))


def an_unknown_variant_is_refused(site):
    site.expect(site.ask("GET", f"/v1/videos/{site.done().id}/content?variant=gif"), 400, "invalid_value")


def an_unknown_path_is_not_found(site):
    site.expect(site.ask("GET", "/v1/nothing"), 404, "not_found")


def another_method_is_not_allowed(site):
    answer = site.expect(site.ask("PUT", "/v1/videos"), 405, "method_not_allowed")
    assert "POST" in answer.headers["allow"], answer.headers


def another_media_type_is_refused(site):
    site.expect(site.ask("POST", "/v1/videos", b"<a/>", {"Content-Type": "application/xml"}), 415, "unsupported_media_type")


def malformed_bodies_are_refused(site):
    kind = {"Content-Type": "application/json"}
    for body in (b"{", b"[]", b'"x"', b"null", b'{"prompt": "\xff"}', b'{"prompt": "a", "prompt": "b"}', b"[" * 100_000):
        site.expect(site.ask("POST", "/v1/videos", body, kind), 400)
    for body in (b"", b"--x", b"--x\r\n\r\n", b"--x\r\nContent-Disposition: form-data\r\n\r\nx\r\n--x--\r\n"):
        site.expect(site.ask("POST", "/v1/videos", body, {"Content-Type": "multipart/form-data; boundary=x"}), 400)


def a_missing_prompt_is_named(site):
    answer = site.expect(site.ask("POST", "/v1/videos", {"size": "64x64"}), 400, "missing_parameter")
    assert answer.json["error"]["param"] == "prompt"


def a_long_prompt_is_refused(site):
    site.expect(site.ask("POST", "/v1/videos", {"prompt": "x" * 100_001}), 400)


def lists_by_columns_need_equal_counts(site):
    def form(*fields):
        parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields]
        return "".join(parts) + "--b--\r\n"
    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    two_and_one = form(("prompt", "x"), ("loras[][name]", "a"), ("loras[][name]", "b"), ("loras[][strength]", "1"))
    site.expect(site.ask("POST", "/v1/videos", two_and_one, kind), 400)


def a_thousand_parts_are_too_many(site):
    parts = "".join(f'--b\r\nContent-Disposition: form-data; name="f{n}"\r\n\r\nx\r\n' for n in range(1500)) + "--b--\r\n"
    site.expect(site.ask("POST", "/v1/videos", parts, {"Content-Type": "multipart/form-data; boundary=b"}), 413, "too_large")


def a_foreign_origin_is_refused(site):
    for origin in ("null", "http://evil.example", urllib.parse.urlsplit(site.url).netloc):
        for method, path in (("GET", "/v1/videos"), ("POST", "/v1/videos"), ("GET", "/health")):
            site.expect(site.ask(method, path, {} if method == "POST" else None, {"Origin": origin}), 403, "forbidden_origin")
    assert site.ask("GET", "/v1/videos", headers={"Origin": site.url}).status == 200


def a_foreign_host_is_refused(site):
    site.expect(site.ask("GET", "/v1/videos", headers={"Host": "evil.example"}), 403, "forbidden_host")


def no_cookies_are_set(site):
    for answer in (site.ask("GET", "/v1/videos"), site.ask("GET", "/health"), _content(site)):
        assert "set-cookie" not in answer.headers


def strange_ids_are_not_found(site):
    for id in ("..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "video_%00", "a" * 5000, "%ff", "video_" + "0" * 31, "VIDEO_" + "0" * 32):
        answer = site.ask("GET", f"/v1/videos/{id}")
        assert answer.status in (400, 404, 414, 431), (id[:20], answer.status)


def errors_are_json_with_four_fields(site):
    for answer in (site.ask("GET", "/v1/videos/video_0"), site.ask("GET", "/nothing"), site.ask("DELETE", "/v1/videos")):
        assert answer.headers["content-type"].startswith("application/json")
        assert set(json.loads(answer.body)["error"]) >= {"message", "type", "param", "code"}


CHECKS = checks_of(globals())
