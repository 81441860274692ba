// Forms, whole and cut into pieces of any size, as browsers and the openai client write them, and hostile
// ones.
#include "http/multipart.h"

#include <gmock/gmock.h>

#include <functional>
#include <random>
#include <vector>

#include "http/header_value.h"

namespace tachy::http {
namespace {

using namespace std::string_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Writes down what the reader finds.
class Notes : public PartSink {
 public:
  void begin(const PartHead& head) override {
    parts.push_back(head.name + (head.is_file ? "<" + head.filename + "|" + head.type + ">" : ""));
    parts.back() += "=";
  }
  void content(std::string_view bytes) override { parts.back() += bytes; }
  void end() override { parts.back() += "."; }
  std::vector<std::string> parts;
};

using Cut = std::function<size_t()>;

std::vector<std::string> read(const std::string& body, const Cut& cut, const MultipartLimits& limits = {},
                              std::string_view boundary = "b") {
  Notes notes;
  MultipartReader reader(boundary, limits, notes);
  for (size_t at = 0; at < body.size();) {
    const size_t size = std::min(body.size() - at, cut());
    reader.push(std::string_view(body).substr(at, size));
    at += size;
  }
  reader.finish();
  return notes.parts;
}

size_t whole() { return 1 << 30; }
size_t byte_by_byte() { return 1; }

std::string part(const std::string& header, const std::string& content) {
  return "--b\r\n" + header + "\r\n\r\n" + content + "\r\n";
}
std::string text(const std::string& name, const std::string& content) {
  return part("Content-Disposition: form-data; name=\"" + name + "\"", content);
}

// Returns the error's text, which is the same however the body is cut; "TooLarge: …" for a limit.
std::string refused(const std::string& body, const MultipartLimits& limits = {}) {
  std::string seen;
  for (const Cut& cut : {Cut(whole), Cut(byte_by_byte)}) {
    std::string here = "accepted";
    try {
      read(body, cut, limits);
    } catch (const TooLarge& e) {
      here = "TooLarge: " + e.message();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      here = e.message();
    }
    if (!seen.empty()) {
      EXPECT_EQ(here, seen) << "byte by byte";
    }
    seen = here;
  }
  return seen;
}

const std::string& mixed() {
  static const std::string body =
      "preamble\r\n" + text("prompt", "a cat\r\n--not the boundary\r\n-") + text("empty", "") +
      part(
          "content-disposition: form-data; name=input_reference; filename=\"a \\\"b\\\\c.png\"\r\n"
          "Content-Type: image/png",
          "\r\n\r\n--\0\r\n--a\r\n-\r\n--"s) +
      "--b \t\r\nX-Other: 1\r\nContent-Disposition: form-data; "
      "name=\"loras[][name]\"\r\n\r\né\r\n--b--\r\nepilogue --b";
  return body;
}

TEST(MultipartTest, PartsAreTheSameHoweverTheyCome) {
  const auto want = read(mixed(), whole);
  EXPECT_THAT(want, ElementsAre("prompt=a cat\r\n--not the boundary\r\n-.", "empty=.",
                                "input_reference<a \"b\\c.png|image/png>=\r\n\r\n--\0\r\n--a\r\n-\r\n--."s,
                                "loras[][name]=é."));
  EXPECT_EQ(read(mixed(), byte_by_byte), want);
  std::mt19937 random(7);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(read(mixed(), [&] { return 1 + random() % (1 + i); }), want);
  // Two pieces, cut at every place.
  for (size_t at = 1; at < mixed().size(); ++at) {
    bool first = true;
    EXPECT_EQ(read(mixed(), [&] { return std::exchange(first, false) ? at : mixed().size(); }), want) << at;
  }
}

TEST(MultipartTest, RandomContentComesThrough) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string content;
    // These are the bytes of which boundaries are made.
    while (content.size() < 300) content += "\r\n-bx"[random() % 5];
    if (content.find("\r\n--b") != content.npos) continue;
    EXPECT_THAT(read(text("x", content) + "--b--", [&] { return 1 + random() % 9; }),
                ElementsAre("x=" + content + "."));
  }
}

TEST(MultipartTest, FormsOfTheSmallestSize) {
  EXPECT_THAT(read("--b--", whole), ElementsAre());
  EXPECT_THAT(read("\r\n--b--\r\n", byte_by_byte), ElementsAre());
  EXPECT_THAT(read(text("", "") + "--b--", whole), ElementsAre("=."));
  EXPECT_THAT(read(part("Content-Disposition: form-data; name=\"f\"; filename=\"\"", "") + "--b--", whole),
              ElementsAre("f<|>=."));
  EXPECT_THAT(read(part("Content-Disposition: form-data; name=f; filename*=UTF-8''x", "y") + "--b--", whole),
              ElementsAre("f<|>=y."));
}

TEST(MultipartTest, BoundariesOfTheirKind) {
  const std::string longest(70, 'x');
  EXPECT_THAT(read("--" + longest + "--", byte_by_byte, {}, longest), ElementsAre());
  EXPECT_THAT(read("--a b?--", whole, {}, "a b?"), ElementsAre());
  Notes notes;
  for (const std::string& boundary : {std::string(), std::string(71, 'x'), std::string("a "),
                                      std::string("a\r\nb"), std::string("a\"b"), std::string("é"), "a\0b"s})
    EXPECT_THROW(MultipartReader(boundary, {}, notes), Error) << boundary;
}

TEST(MultipartTest, WhatIsMalformedIsSaidWithItsPlace) {
  EXPECT_THAT(refused(""), HasSubstr("ends before its last boundary at byte 0"));
  EXPECT_THAT(refused("no boundary"), HasSubstr("ends before its last boundary at byte 11"));
  EXPECT_THAT(refused(text("x", "y")), HasSubstr("ends before its last boundary"));
  EXPECT_THAT(refused(text("x", "y") + "--b-"), HasSubstr("ends before its last boundary"));
  EXPECT_THAT(refused(std::string(5000, 'x')), HasSubstr("no boundary was found"));
  EXPECT_THAT(refused("--bc\r\n"), HasSubstr("behind a boundary at byte 3"));
  EXPECT_THAT(refused("--b\n"), HasSubstr("behind a boundary at byte 3"));
  EXPECT_THAT(refused("--b\rx"), HasSubstr("behind a boundary at byte 3"));
  EXPECT_THAT(refused("--b-x"), HasSubstr("behind a boundary at byte 3"));
  EXPECT_THAT(refused("--b" + std::string(200, ' ') + "\r\n"), HasSubstr("line is too long"));
  EXPECT_THAT(refused("--b\r\n\r\nx\r\n--b--"), HasSubstr("a part has no header at byte 5"));
  for (const char* header :
       {"X", ": x", "X : y", "Content-Type: text/plain", "Content-Disposition: attachment; name=x",
        "Content-Disposition: form-data", "Content-Disposition: form-data; filename=x",
        "Content-Disposition: form-data; name=\"x", "Content-Disposition: form-data; name=x; name=y",
        "Content-Disposition: form-data; name=x\r\nContent-Disposition: form-data; name=y",
        "Content-Disposition: form-data;\r\n name=x", "Content-Disposition: form-data; name=\"a\nb\"",
        "Content-Disposition: form-data; name=\"a\x01\"", "Content-Disposition: form-data; name=x y\"z\"; q",
        "Content-Disposition: form-data; name=x\r\nContent-Transfer-Encoding: base64"})
    EXPECT_THAT(refused(part(header, "y") + "--b--"), AllOf(HasSubstr("multipart: "), HasSubstr("at byte 5")))
        << header;
  EXPECT_THAT(refused(part("Content-Disposition: form-data; name=\"a\0\""s, "y") + "--b--"),
              HasSubstr("control character"));
}

TEST(MultipartTest, EveryNumberHasALimit) {
  const MultipartLimits limits{
      .parts = 3, .name_bytes = 8, .header_bytes = 100, .text_bytes = 10, .bytes = 1000};
  EXPECT_EQ(refused(text("a", "") + text("b", "") + text("12345678", "1234567890") + "--b--", limits),
            "accepted");
  EXPECT_THAT(refused(text("a", "") + text("b", "") + text("c", "") + text("d", ""), limits),
              HasSubstr("TooLarge: the body has too many parts: at most 3"));
  EXPECT_THAT(refused(text("123456789", ""), limits), HasSubstr("TooLarge: the name of a part"));
  EXPECT_THAT(refused(part("Content-Disposition: form-data; name=a; filename=123456789", ""), limits),
              HasSubstr("TooLarge: the name of a part"));
  const std::string name = "Content-Disposition: form-data; name=a\r\nX: ";
  EXPECT_EQ(refused(part(name + std::string(100 - name.size(), 'x'), "y") + "--b--", limits), "accepted");
  EXPECT_THAT(refused(part(name + std::string(101 - name.size(), 'x'), "y") + "--b--", limits),
              HasSubstr("TooLarge: the header of a part"));
  EXPECT_THAT(refused("--b\r\nX: " + std::string(200, 'x'), limits),
              HasSubstr("TooLarge: the header of a part"));
  EXPECT_THAT(refused(text("a", "12345") + text("b", "123456") + "--b--", limits),
              HasSubstr("TooLarge: the texts of the body"));
  EXPECT_EQ(
      refused(part("Content-Disposition: form-data; name=a; filename=b", std::string(500, 'x')) + "--b--",
              limits),
      "accepted")
      << "a file is no text";
  EXPECT_THAT(
      refused(part("Content-Disposition: form-data; name=a; filename=b", std::string(2000, 'x')), limits),
      HasSubstr("TooLarge: the body is too large: at most 1000 bytes"));
}

TEST(MultipartTest, AMillionPartsEndEarly) {
  Notes notes;
  MultipartReader reader("b", {}, notes);
  const std::string one = text("x", "y");
  int pushed = 0;
  EXPECT_THROW(for (; pushed < 1'000'000; ++pushed) reader.push(one), TooLarge);
  EXPECT_EQ(pushed, 1000);
}

TEST(MultipartTest, ASinksExceptionComesOut) {
  struct Full : Notes {
    void content(std::string_view) override { fail(ErrorCode::io, "the disk is full"); }
  } full;
  MultipartReader reader("b", {}, full);
  EXPECT_THROW(reader.push(text("x", "y") + "--b--"), Error);
}

TEST(HeaderValueTest, ParametersAndQuotes) {
  const auto value =
      parse_header_value(" Form-Data ; name = \"a;b=\\\"c\\\\\" ;x=1;filename=\"C:\\dir\\f\";");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->value, "form-data");
  EXPECT_EQ(*value->parameter("name"), "a;b=\"c\\");
  EXPECT_EQ(*value->parameter("x"), "1");
  EXPECT_EQ(*value->parameter("filename"), "C:\\dir\\f");
  EXPECT_EQ(value->parameter("y"), nullptr);
  for (const char* text :
       {"", ";", " ; a=b", "a; b", "a; =b", "a; b=\"c", "a; b=\"c\"d", "a; b=1; B=2", "a; b\"=c"})
    EXPECT_FALSE(parse_header_value(text)) << text;
}

}  // namespace
}  // namespace tachy::http
