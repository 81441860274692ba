// Text as editors save it is compared with Python's codecs (tests/golden/text/make_encodings.py). JSON with
// mistakes that people make is refused.
#include "base/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/json_text.h"
#include "base/near_names.h"

namespace tachy {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const std::filesystem::path kGolden = TACHY_SOURCE_DIR "/tests/golden/text";

json golden() { return json::parse(std::ifstream(kGolden / "encodings.json")); }

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e;
  }
  return {ErrorCode::internal, "no error"};
}

TEST(TextFile, WhatEditorsSaveReadsAlike) {
  const json cases = golden()["read"];
  EXPECT_EQ(cases.size(), 13u);
  for (const json& c : cases) {
    const std::string text = read_text_file(kGolden / "encodings" / c["file"]);
    std::vector<std::string> lines;
    for (const std::string_view line : lines_of(text)) lines.emplace_back(line);
    EXPECT_EQ(lines, c["lines"].get<std::vector<std::string>>()) << c["file"];
  }
}

TEST(TextFile, OtherEncodingsAreNamedWithTheirPlace) {
  for (const json& c : golden()["refused"]) {
    const std::string file = c["file"];
    const Error error = error_of([&] { (void)read_text_file(kGolden / "encodings" / file); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << file;
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr(file),
                      HasSubstr(fmt::format("line {}, byte {}", c["line"].get<int>(), c["byte"].get<int>())),
                      HasSubstr(c["says"].get<std::string>()), HasSubstr("save it as UTF-8")));
  }
}

TEST(TextFile, DamagedUtf16IsNamedWithItsLine) {
  const auto says = [](std::string_view bytes) {
    return error_of([&] { (void)decode_text(bytes, "p.txt"); }).message();
  };
  constexpr std::string_view kOdd(
      "\xFF\xFE"
      "a\0\n\0b",
      7),
      kHigh("\xFE\xFF\0a\0\r\xD8\x3E\0b", 10), kLow("\xFF\xFE\x00\xDC", 4), kEnd("\xFE\xFF\xD8\x3E", 4),
      kZero(
          "\xFF\xFE"
          "a\0\0\0",
          6);
  EXPECT_THAT(says(kOdd), AllOf(HasSubstr("p.txt: not UTF-16 at line 2"), HasSubstr("one byte of two")));
  EXPECT_THAT(says(kHigh), AllOf(HasSubstr("not UTF-16 at line 2"), HasSubstr("surrogate")));
  EXPECT_THAT(says(kLow), HasSubstr("surrogate"));
  EXPECT_THAT(says(kEnd), HasSubstr("surrogate"));
  EXPECT_THAT(says(kZero), HasSubstr("line 1, byte 2: a zero byte"));
}

TEST(TextFile, AnyCutOfAFileIsATextOrAnError) {
  for (const json& c : golden()["read"]) {
    std::ifstream in(kGolden / "encodings" / c["file"], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    for (size_t n = 0; n < bytes.size(); ++n) try {
        const std::string text = decode_text(std::string_view(bytes).substr(0, n), "p.txt");
        EXPECT_EQ(text.find('\r'), text.npos);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::corrupt) << e.message();
      }
  }
}

TEST(TextFile, LinesAndPlaces) {
  EXPECT_EQ(lines_of(""), std::vector<std::string_view>{});
  EXPECT_EQ(lines_of("\n\na"), (std::vector<std::string_view>{"", "", "a"}));
  EXPECT_EQ(lines_of("a\n"), std::vector<std::string_view>{"a"});
  const std::string text = "a\n红色b";
  EXPECT_EQ(place_in(text, 8).line, 2u);
  EXPECT_EQ(place_in(text, 8).column, 3u) << "characters, not bytes";
  EXPECT_EQ(decode_text("a\xEF\xBB\xBF"
                        "b",
                        "p.txt"),
            "a\xEF\xBB\xBF"
            "b")
      << "within a line it is a character";
}

// Pipes have no size; folders and files that are too large are refused.
TEST(TextFile, PipesFoldersAndSizes) {
  std::string name = (std::filesystem::temp_directory_path() / "tachy-text-XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const std::filesystem::path folder = name;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream(folder / "pipe") << "\xEF\xBB\xBF"
                                      "a\r\nb";
  });
  EXPECT_EQ(read_text_file(folder / "pipe"), "a\nb");
  writer.join();
  EXPECT_THAT(error_of([&] { (void)read_text_file(folder); }).message(), HasSubstr("it is a folder"));
  const Error gone = error_of([&] { (void)read_text_file(folder / "gone"); });
  EXPECT_EQ(gone.code(), ErrorCode::not_found);
  EXPECT_THAT(gone.message(), HasSubstr("no such file"));
  std::ofstream(folder / "large") << std::string(11, 'a');
  EXPECT_EQ(read_text_file(folder / "large", 11).size(), 11u);
  EXPECT_THAT(error_of([&] { (void)read_text_file(folder / "large", 10); }).message(),
              HasSubstr("at most 10 bytes"));
  std::filesystem::remove_all(folder);
}

TEST(JsonText, MistakesAreSaidInPlainWords) {
  const std::tuple<const char*, int, int, const char*> cases[] = {
      {"", 1, 1, "it is empty"},
      {"{\"a\": [1,\n 2", 2, 3, "it ends too early"},
      {"{\"a\": 1,\n}", 2, 1, "a comma before this closing bracket"},
      {"{\"a\": [1, 2, ]}", 1, 14, "a comma before"},
      {"{'a': 1}", 1, 2, "double quotes, not in single ones"},
      {"{\"a\": “x”}", 1, 7, "plain double quotes"},
      {"{\"a\": True}", 1, 7, "'True' is not a value"},
      {"{\"a\": 1, // c\n \"b\": 2}", 1, 10, "JSON has no comments"},
      {"{\"a\": 1\n \"b\": 2}", 2, 4, "expected ',' or '}'"},
      {"[1 2]", 1, 4, "expected ',' or ']'"},
      {"{\"a\" 1}", 1, 6, "expected ':' between a name and its value"},
      {"{\"a\": \"C:\\models\"}", 1, 11, "write a backslash inside a text as two"},
      {"{\"a\": \"x\n\"}", 1, 9, "no closing quote on its line"},
      {"{\"a\": \"x\ty\"}", 1, 9, "a tab inside a text"},
      {"{a: 1}", 1, 2, "a name in double quotes"},
      {"{\"红\": 1} x", 1, 10, "something after the end"},
      {"{\"a\": .5}", 1, 7, "no value begins with '.'"},
      {"{\"a\":}", 1, 6, "expected a value"},
  };
  for (const auto& [text, line, column, reason] : cases) {
    const Error error = error_of([&] { (void)parse_json_text(text, "run.json"); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << text;
    EXPECT_THAT(error.message(), AllOf(HasSubstr(fmt::format("run.json: line {}, column {} ", line, column)),
                                       HasSubstr(reason), testing::Not(HasSubstr("exception"))))
        << text;
  }
  EXPECT_THAT(error_of([] { (void)parse_json_text("{\"a\": 1e999}", "run.json"); }).message(),
              AllOf(HasSubstr("run.json: number overflow"), testing::Not(HasSubstr("exception"))));
  EXPECT_THAT(error_of([] { (void)parse_json_text(std::string(1000, '['), "run.json"); }).message(),
              HasSubstr("nested deeper"));
}

TEST(NearNames, ByTheNumberOfLettersThatDiffer) {
  EXPECT_EQ(near_names("fir", {"light", "fur", "far", "fire"}, 3),
            (std::vector<std::string>{"fur", "far", "fire"}));
  EXPECT_EQ(near_names("x", {"a"}), std::vector<std::string>{"a"});
  EXPECT_TRUE(near_names(std::string(300, 'a'), {"a"}).empty());
}

}  // namespace
}  // namespace tachy
