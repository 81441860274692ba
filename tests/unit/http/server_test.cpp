// Requests over loopback sockets, as bytes: what is found, connections that stay open, bodies of every kind,
// errors, and the end of the server.
#include "server_case.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class HttpRequests : public HttpServerTest {};

TEST_F(HttpRequests, AReplyHasItsHeaders) {
  start();
  EXPECT_THAT(server_->url(), StartsWith("http://127.0.0.1:"));
  const RawReply reply = get("/hello");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "hello");
  EXPECT_THAT(reply.head, AllOf(HasSubstr("Content-Length: 5\r\n"), HasSubstr("Content-Type: text/plain"),
                                HasSubstr("X-Content-Type-Options: nosniff\r\n"), HasSubstr("Date: "),
                                HasSubstr("Cache-Control: no-store\r\n"), Not(HasSubstr("Connection:"))));
  EXPECT_THAT(answered(), ElementsAre("GET /hello 200"));
}

TEST_F(HttpRequests, TheHandlerSeesWhatWasSent) {
  http::Request seen;
  add("GET", "/videos/{id}/content", [&](http::Request& r) {
    seen = r;
    return http::text_reply(200, "");
  });
  start();
  EXPECT_EQ(get("/videos/a%20b/content?variant=video&x=%C3%A9+1&x=2",
                "x-Some: thing\r\nAuthorization: Bearer k\r\n")
                .status,
            200);
  EXPECT_EQ(seen.method, "GET");
  EXPECT_EQ(seen.path, "/videos/a b/content");
  EXPECT_THAT(seen.captures, ElementsAre("a b"));
  ASSERT_TRUE(seen.asked("x"));
  EXPECT_EQ(*seen.asked("x"), "é 1");
  EXPECT_EQ(seen.asked("y"), nullptr);
  EXPECT_EQ(seen.header("X-SOME"), "thing");
  EXPECT_EQ(seen.header("authorization"), "Bearer k");
  EXPECT_EQ(seen.body_kind, http::Request::Body::none);
  EXPECT_EQ(seen.peer, "127.0.0.1");
  EXPECT_TRUE(seen.loopback);
}

// While every thread of the lane waits, what is in memory is answered all the same.
TEST_F(HttpRequests, WhatIsInMemoryIsAnsweredWithoutALane) {
  std::atomic<int> handled{0};
  http::Route route{.method = "GET", .pattern = "/known/{id}", .handler = [&](http::Request& r) {
                      ++handled;
                      return http::text_reply(200, "looked up " + r.captures.at(0));
                    }};
  route.at_once = [](http::Request& r) -> std::optional<http::Reply> {
    if (r.captures.at(0) == "broken") throw std::runtime_error("the handler will say it");
    if (r.captures.at(0) != "one") return std::nullopt;
    return http::text_reply(200, "known");
  };
  router_.add(route);
  options_.quick_threads = 1;
  start();
  EXPECT_EQ(get("/known/two").body, "looked up two");
  EXPECT_EQ(get("/known/broken").body, "looked up broken");
  EXPECT_EQ(handled, 2);
  RawClient waits(port_);
  waits.send(head("GET", "/wait"));
  ASSERT_TRUE(turnstile_.wait_for(1));
  const RawReply reply = get("/known/one");
  EXPECT_EQ(reply.body, "known");
  EXPECT_EQ(handled, 2);
  EXPECT_THAT(answered(), Contains("GET /known/{id} 200"));
  RawClient client(port_);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.ask(head("GET", "/known/one")).body, "known");
  client.send(head("HEAD", "/known/one"));
  EXPECT_EQ(client.reply(true).header("Content-Length"), "5");
  EXPECT_EQ(client.ask(head("GET", "/known/one")).body, "known") << "a body followed the head";
}

TEST_F(HttpRequests, AConnectionServesOneRequestAfterTheOther) {
  start();
  RawClient client(port_);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello");
  EXPECT_EQ(client.ask(post("/echo", "text/plain", "again")).body, "again");
  const RawReply last = client.ask(head("GET", "/hello", "Connection: close\r\n"));
  EXPECT_EQ(last.header("Connection"), "close");
  EXPECT_TRUE(client.ends(1));
}

TEST_F(HttpRequests, RequestsThatComeTogetherAreAnsweredInOrder) {
  start();
  RawClient client(port_);
  client.send("\r\n" + post("/echo", "text/plain", "one") + head("GET", "/hello") + "\r\n" +
              post("/echo", "text/plain", "two") + head("GET", "/nothing") + head("GET", "/hello"));
  EXPECT_EQ(client.reply().body, "one");
  EXPECT_EQ(client.reply().body, "hello");
  EXPECT_EQ(client.reply().body, "two");
  EXPECT_EQ(client.reply().status, 404);
  EXPECT_EQ(client.reply().body, "hello");
}

TEST_F(HttpRequests, TheOlderVersionIsSpoken) {
  start();
  RawClient once(port_);
  once.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_THAT(once.read_all(),
              AllOf(HasSubstr(" 200 "), HasSubstr("Connection: close"), testing::EndsWith("hello")));
  RawClient stays(port_);
  for (int i = 0; i < 2; ++i) {
    const RawReply reply = stays.ask("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(reply.body, "hello");
    EXPECT_EQ(reply.header("Connection"), "keep-alive");
  }
}

TEST_F(HttpRequests, HeadIsGetWithoutTheContent) {
  start();
  RawClient client(port_);
  client.send(head("HEAD", "/hello"));
  const RawReply reply = client.reply(true);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("Content-Length"), "5");
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello") << "nothing came in between";
  client.send(head("HEAD", "/echo"));
  EXPECT_EQ(client.reply(true).status, 405);
}

TEST_F(HttpRequests, WhatIsNotThereIsSaid) {
  start();
  for (const char* target :
       {"/", "/hello/", "/hell", "/hello/x", "/../hello", "/%2e%2e/hello", "//hello", "/%zz", "/%00"})
    EXPECT_EQ(get(target).status, 404) << target;
  const RawReply reply = ask(head("DELETE", "/hello"));
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.header("Allow"), "GET, HEAD");
  EXPECT_EQ(get("/echo").header("Allow"), "POST");
  EXPECT_EQ(get("/hello?x=%zz").status, 400);
}

TEST_F(HttpRequests, BodiesComeInChunks) {
  start();
  RawClient client(port_);
  const std::string begin =
      head("POST", "/echo", "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n");
  EXPECT_EQ(client.ask(begin + "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n").body, "abcde");
  EXPECT_EQ(client.ask(begin + "0\r\n\r\n").body, "") << "on the same connection";
  // Byte by byte, and with a trailer.
  for (const char c : begin + "1\r\na\r\n0A\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n") client.send({&c, 1});
  EXPECT_EQ(client.reply().body, "a0123456789");
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello");
  EXPECT_EQ(ask(begin + "x\r\nabc\r\n").status, 400);
  EXPECT_EQ(ask(begin + "3\r\nabcd\r\n0\r\n\r\n").status, 400);
}

TEST_F(HttpRequests, NoTwoServersCanDisagreeAboutTheEndOfARequest) {
  start();
  const auto status = [&](std::string_view headers, std::string_view version = "1.1") {
    return ask(fmt::format("POST /echo HTTP/{}\r\nHost: localhost\r\n{}\r\n0\r\n\r\n", version, headers))
        .status;
  };
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\n"), 200);
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
  EXPECT_EQ(status("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(status("Content-Length: 5\r\nContent-Length: 6\r\n"), 400);
  EXPECT_EQ(status("Content-Length: +5\r\n"), 400);
  EXPECT_EQ(status("Content-Length: 99999999999999999999\r\n"), 400);
  EXPECT_EQ(status("Transfer-Encoding: gzip\r\n"), 400);
  EXPECT_EQ(status("Transfer-Encoding: gzip, chunked\r\n"), 400);
  EXPECT_EQ(status("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n"), 400);
  EXPECT_EQ(status("Transfer-Encoding: xchunked\r\n"), 400);
  EXPECT_EQ(status("Transfer-Encoding: chunked\r\n", "1.0"), 400);
  EXPECT_EQ(status("Transfer-Encoding : chunked\r\n"), 400);
  EXPECT_EQ(status("Host: other\r\n"), 400);
  EXPECT_EQ(ask("GET /hello HTTP/1.1\r\n\r\n").status, 400) << "no Host";
  EXPECT_EQ(ask("GET http://localhost/hello HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 400);
  EXPECT_EQ(ask("\x16\x03\x01 hello\r\n\r\n").status, 400);
  EXPECT_EQ(ask("GET /hello HTTP/2.0\r\nHost: localhost\r\n\r\n").status, 400);
}

TEST_F(HttpRequests, TypesOfBodies) {
  start();
  for (const char* type : {"application/json", "application/json; charset=utf-8", "application/problem+json",
                           "text/plain", "TEXT/x"})
    EXPECT_EQ(ask(post("/echo", type, "{}")).status, 200) << type;
  for (const char* type : {"application/octet-stream", "application/x-www-form-urlencoded", "image/png",
                           "multipart/mixed; boundary=x"})
    EXPECT_EQ(ask(post("/echo", type, "{}")).status, 415) << type;
  EXPECT_EQ(ask(head("POST", "/echo", "Content-Length: 2\r\n") + "{}").body, "{}")
      << "without a type it is a text";
  EXPECT_EQ(ask(head("POST", "/echo", "Content-Length: 2\r\nContent-Encoding: gzip\r\n") + "{}").status, 415);
  EXPECT_EQ(ask(post("/form", "multipart/form-data", "x")).status, 400) << "without a boundary";
  EXPECT_EQ(ask(head("GET", "/hello", "Content-Type: application/octet-stream\r\n")).status, 200)
      << "no body";
}

TEST_F(HttpRequests, TheBodyIsAskedForWhenItIsExpected) {
  start();
  RawClient client(port_);
  client.send(head("POST", "/echo", "Content-Length: 4\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("body");
  EXPECT_EQ(client.reply().body, "body");
  client.send(head("POST", "/nothing", "Content-Length: 4\r\nExpect: 100-continue\r\n"));
  EXPECT_EQ(client.reply().status, 404) << "and no 100 before it";
}

TEST_F(HttpRequests, AnExceptionOfAHandlerIsAReply) {
  add("GET", "/wrong",
      [](http::Request&) -> http::Reply { fail(ErrorCode::invalid_argument, "`size`: too small"); });
  add("GET", "/secret", [](http::Request&) -> http::Reply { throw std::runtime_error("the password is x"); });
  add("GET", "/odd", [](http::Request&) -> http::Reply { throw 7; });
  start();
  RawClient client(port_);
  const RawReply reply = client.ask(head("GET", "/wrong"));
  EXPECT_EQ(reply.status, 500);
  EXPECT_THAT(reply.body, HasSubstr("`size`"));
  EXPECT_THAT(client.ask(head("GET", "/secret")).body, Not(HasSubstr("password")));
  EXPECT_EQ(client.ask(head("GET", "/odd")).status, 500);
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello");
}

TEST_F(HttpRequests, ErrorsAreSaidByTheOwnersWords) {
  options_.on_error = [](int status, const std::exception* error, const http::Request& request) {
    return http::json_reply(error ? 422 : status,
                            fmt::format("{} {}", request.path, error ? error->what() : "-"));
  };
  add("GET", "/wrong", [](http::Request&) -> http::Reply { fail(ErrorCode::invalid_argument, "bad"); });
  start();
  EXPECT_EQ(get("/wrong").body, "/wrong bad");
  EXPECT_EQ(get("/wrong").status, 422);
  EXPECT_EQ(get("/none").body, "/none -");
  EXPECT_EQ(get("/none").status, 404);
}

TEST_F(HttpRequests, AHandlersHeaderCannotBeginAnother) {
  add("GET", "/odd", [](http::Request&) {
    http::Reply reply = http::text_reply(200, "x");
    reply.headers.emplace_back("X-Name", "a\r\nSet-Cookie: b");
    reply.headers.emplace_back("Content-Length", "1000");
    return reply;
  });
  start();
  const RawReply reply = get("/odd");
  EXPECT_EQ(reply.header("Set-Cookie"), "");
  EXPECT_EQ(reply.header("X-Name"), "a  Set-Cookie: b");
  EXPECT_EQ(reply.body, "x");
}

TEST_F(HttpRequests, TheGateRefusesBeforeTheBodyIsRead) {
  std::atomic<int> handled = 0;
  add("POST", "/closed", [&](http::Request& r) {
    ++handled;
    return http::text_reply(200, r.caller.key);
  });
  options_.gate = [](http::Request& request, const http::Route* route) -> std::optional<http::Reply> {
    if (request.header("Authorization") == "Bearer k") {
      request.caller.key = "somebody";
      return std::nullopt;
    }
    return http::text_reply(route ? 401 : 403, "no");
  };
  start();
  RawClient client(port_);
  client.send(head("POST", "/closed", "Content-Length: 100000\r\n"));
  EXPECT_EQ(client.reply().status, 401);
  EXPECT_EQ(get("/none").status, 403);
  EXPECT_EQ(handled, 0);
  EXPECT_EQ(ask(head("POST", "/closed", "Authorization: Bearer k\r\n")).body, "somebody");
}

TEST_F(HttpRequests, ALongTextArrivesWhole) {
  std::string text(3'000'001, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  add("GET", "/long", [&](http::Request&) { return http::text_reply(200, text); });
  start();
  RawClient client(port_);
  EXPECT_TRUE(client.ask(head("GET", "/long")).body == text);
  EXPECT_TRUE(client.ask(post("/echo", "text/plain", text)).body == text);
}

TEST_F(HttpRequests, TextsWithAnETagAreSentOnce) {
  add("GET", "/page.js", [&](http::Request&) {
    http::Reply reply = http::text_reply(200, "script");
    reply.headers.emplace_back("ETag", "\"1\"");
    return reply;
  });
  start();
  RawClient client(port_);
  EXPECT_EQ(client.ask(head("GET", "/page.js", "If-None-Match: \"0\"\r\n")).body, "script");
  client.send(head("GET", "/page.js", "If-None-Match: \"0\", \"1\"\r\n"));
  const RawReply reply = client.reply(true);
  EXPECT_EQ(reply.status, 304);
  EXPECT_EQ(reply.header("ETag"), "\"1\"");
  EXPECT_EQ(reply.header("Content-Length"), "");
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello");
}

TEST_F(HttpRequests, OptionsThatAreWrongAreSaid) {
  const auto refused = [&](const http::ServerOptions& options) -> std::string {
    try {
      http::Server server(router_, options);
    } catch (const Error& e) {
      return fmt::format("{}: {}", to_string(e.code()), e.message());
    }
    return "accepted";
  };
  http::ServerOptions options = options_;
  options.port = 70000;
  EXPECT_THAT(refused(options), AllOf(HasSubstr("invalid"), HasSubstr("`port`: expected 0 (any) to 65535")));
  options.port = 0, options.host = "no.such.name.invalid";
  EXPECT_THAT(refused(options), HasSubstr("no.such.name.invalid"));
  options.host = "a b";
  EXPECT_THAT(refused(options), HasSubstr("`host`"));
  start();
  options = options_, options.port = port_;
  EXPECT_THAT(refused(options), AllOf(StartsWith("input/output"), HasSubstr("cannot listen"),
                                      HasSubstr(std::to_string(port_))));
}

}  // namespace
}  // namespace tachy::test
