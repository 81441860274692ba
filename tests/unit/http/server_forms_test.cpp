// Forms over sockets, and the files that they leave: hashed, bounded, and removed unless somebody keeps them.
#include <fstream>

#include "base/sha256.h"
#include "http/spool.h"
#include "server_case.h"

namespace tachy::test {
namespace {

using testing::HasSubstr;

std::string hash_of(const std::string& text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

class HttpForms : public HttpServerTest {
 protected:
  static std::string form(const std::string& body) {
    return post("/form", "multipart/form-data; boundary=\"b\"", body);
  }
  static std::string part(const std::string& disposition, const std::string& content) {
    return "--b\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + content + "\r\n";
  }
  // Waits until the spool has that many files: a connection that was cut off gives them up in a moment.
  bool spool_holds(size_t files) {
    for (int i = 0; i < 1000 && spooled() != files; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return spooled() == files;
  }
};

TEST_F(HttpForms, TextsAndFilesArrive) {
  start();
  std::string content(1'000'003, 'x');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + i / 300);
  RawClient client(port_);
  const RawReply reply = client.ask(
      form(part("name=\"prompt\"", "a cat") +
           part("name=\"input_reference\"; filename=\"../../x.png\"\r\nContent-Type: image/png", content) +
           part("name=\"b\"; filename=\"\xff\"", "") + "--b--\r\n"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, fmt::format("prompt=a cat\ninput_reference: ../../x.png image/png {} {}\nb:   0 {}\n",
                                    content.size(), hash_of(content), hash_of("")));
  EXPECT_TRUE(spool_holds(0));
  EXPECT_EQ(client.ask(head("GET", "/hello")).body, "hello");
}

TEST_F(HttpForms, AFormWithoutFilesAndInChunks) {
  start();
  const std::string body = part("name=\"prompt\"", "é") + "--b--";
  EXPECT_EQ(ask(form(body)).body, "prompt=é\n");
  std::string chunks = head(
      "POST", "/form", "Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n");
  for (const char c : body) chunks += std::string("1\r\n") + c + "\r\n";
  EXPECT_EQ(ask(chunks + "0\r\n\r\n").body, "prompt=é\n");
}

TEST_F(HttpForms, WhatIsMalformedIsRefused) {
  start();
  EXPECT_EQ(ask(form("--b\r\nX\r\n\r\n")).status, 400);
  EXPECT_THAT(ask(form("--b\r\nX\r\n\r\n")).body, HasSubstr("at byte 5"));
  EXPECT_EQ(ask(form(part("name=\"x\"; filename=\"y\"", "z"))).status, 400) << "its end is missing";
  EXPECT_THAT(ask(form(part("name=\"x\"", "\xff") + "--b--")).body, HasSubstr("`x`: expected UTF-8"));
  EXPECT_EQ(ask(form(part("name=\"\xff\"", "") + "--b--")).status, 400);
  EXPECT_TRUE(spool_holds(0));
  EXPECT_EQ(get("/hello").status, 200);
}

TEST_F(HttpForms, LimitsAreHeldWithoutReadingOn) {
  options_.limits.upload_bytes = 100'000;
  options_.limits.text_bytes = 1000;
  options_.limits.parts = 5;
  start();
  std::string many;
  for (int i = 0; i < 6; ++i) many += part("name=\"x\"", "");
  const RawReply refused = ask(form(many + "--b--"));
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.body, testing::HasSubstr("at most 5 "));
  EXPECT_EQ(ask(form(part("name=\"x\"", std::string(1001, 'x')) + "--b--")).status, 413);
  EXPECT_EQ(ask(form(part("name=\"x\"; filename=\"y\"", std::string(99'000, 'x')) + "--b--")).status, 200);
  // The length tells it before a byte has come, and an endless body without a length is cut off.
  EXPECT_EQ(ask(head("POST", "/form",
                     "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100001\r\n"))
                .status,
            413);
  RawClient endless(port_);
  endless.send(head("POST", "/form",
                    "Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n"));
  const std::string begin = part("name=\"x\"; filename=\"y\"", "");
  endless.send(fmt::format("{:x}\r\n{}\r\n", begin.size(), begin));
  for (int i = 0; i < 200 && endless.send("400\r\n" + std::string(1024, 'x') + "\r\n"); ++i) {
  }
  EXPECT_EQ(endless.reply().status, 413);
  EXPECT_TRUE(spool_holds(0));
}

TEST_F(HttpForms, AnUploadThatIsCutOffLeavesNothing) {
  start();
  {
    RawClient client(port_);
    client.send(
        head("POST", "/form", "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 90000\r\n") +
        part("name=\"x\"; filename=\"y\"", std::string(50'000, 'x')));
    EXPECT_TRUE(spool_holds(1));
  }
  EXPECT_TRUE(spool_holds(0));
}

TEST_F(HttpForms, AFileThatIsKeptStays) {
  std::shared_ptr<http::SpooledFile> held;
  add("POST", "/keep", [&](http::Request& r) {
    held = r.parts.at(0).file;
    held->keep(folder_ / "kept.png");
    return http::text_reply(200, held->path().filename().string());
  });
  start();
  EXPECT_EQ(
      ask(post("/keep", "multipart/form-data; boundary=b", part("name=x; filename=y", "content") + "--b--"))
          .body,
      "kept.png");
  stop();
  held.reset();
  std::ifstream file(folder_ / "kept.png");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "content");
  EXPECT_EQ(spooled(), 0u);
}

TEST_F(HttpForms, ASpoolThatCannotBeWrittenIsAnError) {
  start();
  std::filesystem::remove_all(options_.spool);
  EXPECT_EQ(ask(form(part("name=x; filename=y", "content") + "--b--")).status, 500);
  EXPECT_EQ(ask(form(part("name=x", "content") + "--b--")).status, 200) << "a text needs no disk";
}

TEST_F(HttpForms, TheSpoolIsEmptiedAtTheStart) {
  std::filesystem::create_directories(options_.spool / "folder");
  std::ofstream(options_.spool / "upload-1") << "left";
  http::Spool spool(options_.spool);
  EXPECT_FALSE(std::filesystem::exists(options_.spool / "upload-1"));
  EXPECT_TRUE(std::filesystem::exists(options_.spool / "folder")) << "it is not ours";
  auto writer = spool.begin("name", "type");
  writer.add("ab"), writer.add("c");
  EXPECT_EQ(spooled(), 2u);
  auto file = writer.finish();
  EXPECT_EQ(file->sha256, hash_of("abc"));
  EXPECT_EQ(file->bytes, 3u);
  EXPECT_THROW(file->keep(folder_ / "no" / "such" / "folder"), Error);
  file.reset();
  EXPECT_EQ(spooled(), 1u);
  std::ofstream(folder_ / "file") << "x";
  EXPECT_THROW(http::Spool(folder_ / "file"), Error);
}

}  // namespace
}  // namespace tachy::test
