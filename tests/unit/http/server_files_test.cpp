// Files over sockets: whole, in ranges, known ones, and what may happen to a file meanwhile.
#include "server_case.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

class HttpFiles : public HttpServerTest {
 protected:
  HttpFiles() {
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 31 + i / 251);
    path_ = write_file("video.mp4", content_);
    add("GET", "/video", [this](http::Request&) {
      return http::Reply{.headers = {{"Content-Type", "video/mp4"}}, .body = http::FileBody{path_, "\"v1\""}};
    });
  }
  std::string content_ = std::string(2'000'003, '\0');
  std::filesystem::path path_;
};

TEST_F(HttpFiles, AFileArrivesWhole) {
  start();
  RawClient client(port_);
  const RawReply reply = client.ask(head("GET", "/video"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.body == content_);
  EXPECT_EQ(reply.header("ETag"), "\"v1\"");
  EXPECT_EQ(reply.header("Accept-Ranges"), "bytes");
  EXPECT_EQ(reply.header("Content-Type"), "video/mp4");
  EXPECT_EQ(reply.header("Cache-Control"), "no-cache");
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello");
}

TEST_F(HttpFiles, RangesOfIt) {
  start();
  RawClient client(port_);
  const auto part = [&](const char* range) {
    return client.ask(head("GET", "/video", fmt::format("Range: {}\r\n", range)));
  };
  const RawReply middle = part("bytes=1000-1999");
  EXPECT_EQ(middle.status, 206);
  EXPECT_EQ(middle.header("Content-Range"), "bytes 1000-1999/2000003");
  EXPECT_EQ(middle.header("Content-Length"), "1000");
  EXPECT_TRUE(middle.body == content_.substr(1000, 1000));
  EXPECT_TRUE(part("bytes=-300000").body == content_.substr(content_.size() - 300'000));
  EXPECT_TRUE(part("bytes=1999999-").body == content_.substr(1'999'999));
  const RawReply none = part("bytes=2000003-");
  EXPECT_EQ(none.status, 416);
  EXPECT_EQ(none.header("Content-Range"), "bytes */2000003");
  EXPECT_EQ(client.ask(head("GET", "/video", "Range: bytes=0-9\r\nIf-Range: \"v0\"\r\n")).status, 200);
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello");
}

TEST_F(HttpFiles, HeadAndKnownOnes) {
  start();
  RawClient client(port_);
  client.send(head("HEAD", "/video", "Range: bytes=0-9\r\n"));
  const RawReply reply = client.reply(true);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("Content-Length"), "2000003");
  client.send(head("GET", "/video", "If-None-Match: W/\"v1\"\r\n"));
  const RawReply known = client.reply(true);
  EXPECT_EQ(known.status, 304);
  EXPECT_EQ(known.header("ETag"), "\"v1\"");
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello") << "neither had a content";
}

TEST_F(HttpFiles, EmptyAndMissingOnes) {
  start();
  write_file("video.mp4", "");
  RawClient client(port_);
  EXPECT_EQ(client.ask(head("GET", "/video")).status, 200);
  EXPECT_EQ(client.ask(head("GET", "/video", "Range: bytes=0-\r\n")).status, 416);
  std::filesystem::remove(path_);
  EXPECT_EQ(client.ask(head("GET", "/video")).status, 404);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(client.ask(head("GET", "/video")).status, 500);
}

TEST_F(HttpFiles, AFileThatIsReplacedOrRemovedIsSentToItsEnd) {
  start();
  RawClient client(port_, 4096);
  client.send(head("GET", "/video"));
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr(" 200 "));
  std::filesystem::remove(path_);
  write_file("video.mp4", "other");
  EXPECT_TRUE(client.read_bytes(content_.size()) == content_);
}

TEST_F(HttpFiles, AFileThatIsCutShortEndsTheConnection) {
  content_.resize(30'000'000);
  write_file("video.mp4", content_);
  start();
  RawClient client(port_, 4096);
  client.send(head("GET", "/video"));
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("Content-Length: 30000000"));
  std::filesystem::resize_file(path_, 1000);
  EXPECT_LT(client.read_all().size(), 30'000'000u) << "and no bytes of something else";
  EXPECT_EQ(get("/hello").status, 200);
}

TEST_F(HttpFiles, ManyAtOnce) {
  start();
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.emplace_back(port_);
    clients.back().send(head("GET", "/video"));
  }
  for (auto& client : clients) EXPECT_TRUE(client.reply().body == content_);
}

}  // namespace
}  // namespace tachy::test
