// Tests requests: who is let in, what is found, and how large and how slow they may be. Hostile requests are
// sent as bytes.
#include "client.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class PageRequests : public ServerTest {};

TEST_F(PageRequests, ThePageAndItsFilesAreThere) {
  open();
  EXPECT_THAT(server_->url(), testing::StartsWith("http://127.0.0.1:"));
  const Reply page = get("/");
  EXPECT_EQ(page.status, 200u);
  EXPECT_THAT(page.body, AllOf(HasSubstr("<canvas"), HasSubstr("\"main.js\"")));
  EXPECT_THAT(page.head,
              AllOf(HasSubstr("Content-Security-Policy"), HasSubstr("nosniff"), HasSubstr("no-store")));
  for (const char* name : {"/main.js", "/page.css", "/connection.js", "/playback.js", "/inputs.js",
                           "/graph.js", "/busy.js", "/key.js"})
    EXPECT_EQ(get(name).status, 200u) << name;
  EXPECT_THAT(get("/state").body, HasSubstr("\"busy\":false"));
}

TEST_F(PageRequests, NoPathOfARequestNamesAFile) {
  open();
  for (const char* target : {"/nothing", "/../etc/passwd", "//etc/passwd", "/page/index.html", "/index.html",
                             "/%2e%2e/x", "/main.js/", "/recording",
                             "/recording?id=", "/recording?id=../../etc/passwd", "/recording?id=/etc/passwd"})
    EXPECT_EQ(get(target).status, 404u) << target;
  EXPECT_EQ(request(port_, "DELETE", "/").status, 405u);
  EXPECT_EQ(request(port_, "POST", "/", {}, "x").status, 405u);
  EXPECT_EQ(get("/picture").status, 405u);
  EXPECT_EQ(get("/socket").status, 426u);
}

TEST_F(PageRequests, ForeignNamesAndOriginsAreRefused) {
  open();
  const Reply rebound = get("/", {{"Host", "evil.example:" + std::to_string(port_)}});
  EXPECT_EQ(rebound.status, 403u);
  EXPECT_THAT(rebound.body, HasSubstr("does not answer to that name"));
  EXPECT_EQ(request(port_, "GET", "/", {{"Host", ""}}).status, 403u);
  EXPECT_EQ(get("/state", {{"Origin", "http://evil.example"}}).status, 403u);
  EXPECT_EQ(request(port_, "POST", "/picture", {{"Origin", "http://evil.example"}}, "x").status, 403u);
  EXPECT_EQ(request(port_, "POST", "/picture", {{"Origin", ""}}, "x").status, 403u);
  Visitor visitor;
  EXPECT_EQ(visitor.open(port_, "", "http://evil.example"), 403u);
  EXPECT_EQ(visitor.open(port_, "", "null"), 403u);
  EXPECT_EQ(visitor.open(port_, "", "", "evil.example"), 403u);
  EXPECT_EQ(visitor.open(port_), 101u);
}

TEST_F(PageRequests, ATokenIsNeededWhereOneIsGiven) {
  options_.token = "abcdefgh-123";
  open();
  EXPECT_THAT(server_->url(), testing::EndsWith("/?token=abcdefgh-123"));
  EXPECT_EQ(get("/").status, 403u);
  EXPECT_THAT(get("/?token=wrong").body, HasSubstr("A token is needed"));
  EXPECT_EQ(get("/state").status, 403u);
  EXPECT_EQ(get("/?token=abcdefgh-123").status, 200u);
  EXPECT_EQ(get("/main.js").status, 200u) << "scripts hold nothing of anybody's";
  Visitor visitor;
  EXPECT_EQ(visitor.open(port_), 403u);
  EXPECT_EQ(visitor.open(port_, "?token=abcdefgh-12"), 403u);
  EXPECT_EQ(visitor.open(port_, "?token=abcdefgh-123"), 101u);
}

TEST_F(PageRequests, BeyondThisMachineATokenIsMade) {
  options_.host = "0.0.0.0";
  open();
  const std::string url = server_->url();
  ASSERT_THAT(url, HasSubstr("/?token="));
  EXPECT_EQ(get("/").status, 403u);
  EXPECT_EQ(get(url.substr(url.find("/?"))).status, 200u);
}

TEST_F(PageRequests, OptionsThatAreWrongAreSaid) {
  const auto refused = [&](serve::PageOptions options, ErrorCode code) -> std::string {
    try {
      DrawnWorld world;
      serve::PageServer server(world, options);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.message();
      return e.message();
    }
    return "accepted";
  };
  EXPECT_THAT(refused({.port = 70000}, ErrorCode::invalid_argument),
              HasSubstr("`port`: expected 0 (any) to 65535"));
  EXPECT_THAT(refused({.host = "", .port = 0}, ErrorCode::invalid_argument), HasSubstr("`host`"));
  EXPECT_THAT(refused({.port = 0, .token = "short"}, ErrorCode::invalid_argument), HasSubstr("`token`"));
  EXPECT_THAT(refused({.host = "no.such.name.invalid", .port = 0}, ErrorCode::invalid_argument),
              HasSubstr("no.such.name.invalid"));
  open();
  EXPECT_THAT(refused({.port = port_}, ErrorCode::io),
              AllOf(HasSubstr("cannot listen"), HasSubstr(std::to_string(port_))));
}

TEST_F(PageRequests, WhatIsTooLargeOrNoRequestIsRefused) {
  open();
  EXPECT_EQ(get("/", {{"X", std::string(20000, 'x')}}).status, 431u);
  EXPECT_EQ(get("/" + std::string(20000, 'x')).status, 431u);
  std::string many = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 5000; ++i) many += "a: b\r\n";
  EXPECT_THAT(send_raw(port_, many + "\r\n"), HasSubstr("431 "));
  EXPECT_EQ(request(port_, "POST", "/picture", {{"Content-Length", "8388609"}}).status, 413u);
  EXPECT_EQ(request(port_, "POST", "/picture", {{"Content-Length", "99999999999999999999"}}).status, 400u);
  EXPECT_THAT(send_raw(port_, "\x16\x03\x01 hello\r\n\r\n"), HasSubstr(" 400 "));
  EXPECT_THAT(send_raw(port_, "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              HasSubstr(" 400 "));
  EXPECT_EQ(get("/").status, 200u);
}

TEST_F(PageRequests, SlowAndManyConnectionsAreClosed) {
  options_.play.limits.request = std::chrono::seconds(2);
  options_.play.limits.connections = 4;
  open();
  asio::io_context io;
  std::vector<tcp::socket> slow;
  for (int i = 0; i < 4; ++i) {
    slow.emplace_back(io).connect(here(port_));
    asio::write(slow.back(), asio::buffer(std::string("GET / HT")));
  }
  EXPECT_EQ(get("/").status, 0u) << "four are open";
  char byte;
  for (auto& socket : slow) {
    beast::error_code error;
    socket.read_some(asio::buffer(&byte, 1), error);
    EXPECT_TRUE(error) << "closed without a word";
  }
  EXPECT_EQ(get("/").status, 200u);
}

TEST_F(PageRequests, UploadsNeedAVisitAndAPicture) {
  open();
  EXPECT_EQ(request(port_, "POST", "/picture?session=", {}, "x").status, 403u);
  Visitor visitor;
  const std::string session = start(visitor)["session"];
  EXPECT_EQ(request(port_, "POST", "/picture?session=other", {}, "x").status, 403u);
  EXPECT_EQ(request(port_, "POST", "/picture?session=" + session, {}, "").status, 400u);
  EXPECT_EQ(request(port_, "POST", "/picture?session=" + session, {}, "no picture").status, 202u);
  const auto error = visitor.event("state", "error");
  ASSERT_TRUE(error);
  EXPECT_THAT((*error)["text"].get<std::string>(), HasSubstr("the picture"));
  std::ifstream file(std::string(TACHY_SOURCE_DIR) + "/tests/golden/image_pipeline/first.png",
                     std::ios::binary);
  const std::string png{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(request(port_, "POST", "/picture?session=" + session, {}, png).status, 202u);
  EXPECT_TRUE(visitor.event("state", "running"));
  EXPECT_TRUE(visitor.frame());
  // The body comes in chunks of any size, and their number is not known beforehand.
  std::string chunks =
      "POST /picture?session=" + session +
      " HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 9; ++i) chunks += "100000\r\n" + std::string(1 << 20, 'x') + "\r\n";
  EXPECT_THAT(send_raw(port_, chunks + "0\r\n\r\n"), testing::AnyOf(HasSubstr(" 413 "), testing::IsEmpty()));
  EXPECT_TRUE(visitor.frame()) << "the world goes on";
}

// Embeddings replace the world's image encoder, and there are none for a visitor's picture.
TEST_F(PageRequests, AWorldThatCannotLookAtPicturesTakesNone) {
  describe_ = [](WorldInfo& info) { info.no_image_encoder = "there is none"; };
  open();
  Visitor visitor;
  const auto hello = start(visitor);
  EXPECT_EQ(hello["takes_image"], false);
  const Reply reply =
      request(port_, "POST", "/picture?session=" + hello["session"].get<std::string>(), {}, "picture");
  EXPECT_EQ(reply.status, 409u);
  EXPECT_THAT(reply.body, HasSubstr("cannot take another picture"));
  EXPECT_TRUE(visitor.frame()) << "the walk goes on";
}

}  // namespace
}  // namespace tachy::test
