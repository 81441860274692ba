// Which bytes of a file answer a request, and the heads of replies.
#include "http/file_range.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "http/reply_head.h"

namespace tachy::http {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string header_of(const FileAnswer& answer, std::string_view name) {
  for (const auto& [key, value] : answer.headers)
    if (key == name) return value;
  return "";
}

FileAnswer ask(Pairs headers, uint64_t size = 1000, std::string method = "GET",
               std::string_view etag = "\"e\"") {
  Request request;
  request.method = std::move(method);
  request.headers = std::move(headers);
  return answer_file(request, size, etag);
}

// "status from+bytes"
std::string range(const std::string& text, uint64_t size = 1000) {
  const FileAnswer answer = ask({{"Range", text}}, size);
  return fmt::format("{} {}+{}", answer.status, answer.from, answer.bytes);
}

TEST(FileRangeTest, OneRangeIsServed) {
  EXPECT_EQ(range("bytes=0-0"), "206 0+1");
  EXPECT_EQ(range("bytes=0-"), "206 0+1000");
  EXPECT_EQ(range("bytes=10-19"), "206 10+10");
  EXPECT_EQ(range("BYTES = 10-19"), "206 10+10");
  EXPECT_EQ(range("bytes=999-"), "206 999+1");
  EXPECT_EQ(range("bytes=990-5000"), "206 990+10");
  EXPECT_EQ(range("bytes=0-99999999999999999999999"), "206 0+1000");
  EXPECT_EQ(range("bytes=0-18446744073709551615"), "206 0+1000");
  EXPECT_EQ(range("bytes=-1"), "206 999+1");
  EXPECT_EQ(range("bytes=-1000"), "206 0+1000");
  EXPECT_EQ(range("bytes=-99999999999999999999999"), "206 0+1000");
  EXPECT_EQ(header_of(ask({{"Range", "bytes=10-19"}}), "Content-Range"), "bytes 10-19/1000");
  EXPECT_EQ(header_of(ask({}), "Accept-Ranges"), "bytes");
  EXPECT_EQ(header_of(ask({}), "ETag"), "\"e\"");
}

TEST(FileRangeTest, RangesWithoutABytesAreRefused) {
  for (const char* text : {"bytes=1000-", "bytes=1000-1001", "bytes=99999999999999999999999-", "bytes=-0"})
    EXPECT_EQ(range(text), "416 0+0") << text;
  EXPECT_EQ(range("bytes=0-", 0), "416 0+0");
  EXPECT_EQ(range("bytes=-5", 0), "416 0+0");
  EXPECT_EQ(header_of(ask({{"Range", "bytes=1000-"}}), "Content-Range"), "bytes */1000");
}

TEST(FileRangeTest, OthersGetTheWholeFile) {
  for (const char* text :
       {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-4", "bytes=1-2,4-5", "items=0-1",
        "bytes=1-2-3", "bytes=--1", "bytes=0x1-2", "bytes=+1-2", "bytes=1 - 2", "bytes=1-x"})
    EXPECT_EQ(range(text), "200 0+1000") << text;
  EXPECT_EQ(ask({{"Range", "bytes=0-1"}}, 1000, "HEAD").status, 200) << "HEAD knows no ranges";
}

TEST(FileRangeTest, ARangeOfTheSameFileAlone) {
  const auto status = [](const char* condition, std::string_view etag = "\"e\"") {
    return ask({{"Range", "bytes=0-1"}, {"If-Range", condition}}, 1000, "GET", etag).status;
  };
  EXPECT_EQ(status("\"e\""), 206);
  EXPECT_EQ(status("\"other\""), 200);
  EXPECT_EQ(status("W/\"e\""), 200);
  EXPECT_EQ(status("W/\"e\"", "W/\"e\""), 200) << "weak ones never fit";
  EXPECT_EQ(status("Fri, 27 Nov 2026 12:00:00 GMT"), 200);
  EXPECT_EQ(status("\"e\"", ""), 200);
}

TEST(FileRangeTest, AKnownFileIsNotSentAgain) {
  const auto status = [](const char* known, std::string_view etag = "\"e\"") {
    return ask({{"If-None-Match", known}, {"Range", "bytes=0-1"}}, 1000, "GET", etag).status;
  };
  EXPECT_EQ(status("\"e\""), 304);
  EXPECT_EQ(status("W/\"e\""), 304);
  EXPECT_EQ(status("\"a\" , \"e\""), 304);
  EXPECT_EQ(status("*"), 304);
  EXPECT_EQ(status("\"a\""), 206);
  EXPECT_EQ(status("e"), 206);
  EXPECT_EQ(status("\"\"", ""), 206);
}

TEST(ReplyHeadTest, WhatEveryReplyHas) {
  const std::string head = reply_head(404, {{"Content-Type", "text/plain"}}, {.length = 7});
  EXPECT_THAT(head,
              AllOf(StartsWith("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n"),
                    HasSubstr("\r\nContent-Length: 7\r\n"), HasSubstr("\r\nCache-Control: no-store\r\n"),
                    HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"), EndsWith("\r\n\r\n"),
                    Not(HasSubstr("Connection"))));
  EXPECT_THAT(head,
              testing::ContainsRegex("\r\nDate: [A-Z][a-z][a-z], [0-9][0-9] [A-Z][a-z][a-z] 20[0-9][0-9] "
                                     "[0-9][0-9]:[0-9][0-9]:[0-9][0-9] GMT\r\n"));
}

TEST(ReplyHeadTest, TheOwnersHeadersStandExceptThoseOfTheConnection) {
  const std::string head = reply_head(200,
                                      {{"cache-control", "max-age=60"},
                                       {"content-length", "9"},
                                       {"Connection", "upgrade"},
                                       {"Transfer-Encoding", "gzip"},
                                       {"Date", "never"}},
                                      {.length = 7, .keep_alive = false});
  EXPECT_THAT(head, AllOf(HasSubstr("cache-control: max-age=60\r\n"), Not(HasSubstr("no-store")),
                          Not(HasSubstr(": 9\r\n")), Not(HasSubstr("upgrade")), Not(HasSubstr("gzip")),
                          Not(HasSubstr("never")), HasSubstr("Connection: close\r\n")));
  EXPECT_THAT(reply_head(200, {{"ETag", "\"1\""}}, {}), HasSubstr("Cache-Control: no-cache\r\n"));
  EXPECT_THAT(reply_head(299, {}, {.chunked = true}),
              AllOf(StartsWith("HTTP/1.1 299 "), HasSubstr("Transfer-Encoding: chunked"),
                    Not(HasSubstr("Content-Length"))));
}

}  // namespace
}  // namespace tachy::http
