// Prompt cleaning is compared with ftfy and Python, suspicion of mojibake is compared with ftfy's repair, and
// bad input is refused.
#include "text/clean_prompt.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "golden.h"
#include "text/html_entities.h"
#include "text/html_unescape.h"
#include "text/utf8.h"

namespace tachy {
namespace {

using test::golden_json;

TEST(CleanPrompt, EqualsTheReference) {
  const auto cases = golden_json("clean.json");
  ASSERT_GE(cases.size(), 500u);
  for (const auto& row : cases) {
    const auto& text = row[0].get_ref<const std::string&>();
    EXPECT_EQ(clean_prompt_checked(text).text, row[1].get_ref<const std::string&>())
        << "input: " << row[0].dump(-1, ' ', true);
  }
}

TEST(CleanPrompt, SuspectsMojibakeWhereTheReferenceWouldRepairIt) {
  size_t suspected = 0;
  for (const auto& row : golden_json("mojibake.json")) {
    const bool expected = row[1].get<bool>();
    suspected += expected;
    EXPECT_EQ(clean_prompt_checked(row[0].get<std::string>()).mojibake_suspected, expected) << row[0];
  }
  EXPECT_GE(suspected, 20u);
}

TEST(CleanPrompt, NamesTheByteOfInvalidUtf8) {
  const std::pair<std::string, size_t> cases[] = {{"ab\xFFzz", 2},     {"a\xC3", 1},
                                                  {"\xC0\x80", 0},     {"x\xED\xA0\x80", 1},
                                                  {"\xE2\x82", 0},     {"\xF4\x90\x80\x80", 0},
                                                  {"\xE0\x9F\xBF", 0}, {"\xF0\x8F\xBF\xBF", 0},
                                                  {"ok\x80", 2}};
  for (const auto& [text, offset] : cases) {
    try {
      clean_prompt(text);
      ADD_FAILURE() << "accepted bytes at " << offset;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(error.message().find("byte " + std::to_string(offset) + " "), std::string::npos)
          << error.message();
    }
  }
  EXPECT_EQ(clean_prompt("\xF4\x8F\xBF\xBD \xED\x9F\xBF"), "\xF4\x8F\xBF\xBD \xED\x9F\xBF");
}

TEST(CleanPrompt, RefusesHugeText) { EXPECT_THROW(clean_prompt(std::string((16u << 20) + 1, 'a')), Error); }

TEST(CleanPrompt, IsStableOnItsOwnOutput) {
  EXPECT_EQ(clean_prompt("  a\t\n  red \xE3\x80\x80 fox  "), "a red fox");
  EXPECT_EQ(clean_prompt("&amp;amp;lt;"), "<");
}

TEST(Normalize, KeepsTheVowelBeforeTheFinalConsonants) {
  // By unicodedata.normalize("NFC", …) of Python: only U+11A8, the first final consonant, joins the syllable U+B2AC.
  EXPECT_EQ(text::normalize("\uB2AC\u11A7", text::Form::nfc), "\uB2AC\u11A7");
  EXPECT_EQ(text::normalize("\uB2AC\u11A8", text::Form::nfc), "\uB2AD");
  EXPECT_EQ(text::normalize("e\u0301\u11A7\u0301e\u0301\u11A7", text::Form::nfkc),
            "\u00E9\u11A7\u0301\u00E9\u11A7");
  EXPECT_EQ(text::normalize("\uB2AD\u11A7", text::Form::nfd), "\u1102\u1174\u11A8\u11A7");
  EXPECT_EQ(text::normalize("", text::Form::nfc), "");
}

TEST(HtmlEntities, TablesAreSortedForBinarySearch) {
  ASSERT_EQ(text::kHtml5EntityCount, 2231u);
  for (size_t i = 1; i < text::kHtml5EntityCount; ++i)
    ASSERT_LT(std::string_view(text::kHtml5Entities[i - 1].name), text::kHtml5Entities[i].name);
  for (size_t i = 1; i < text::kUpperCaseEntityCount; ++i)
    ASSERT_LT(std::string_view(text::kUpperCaseEntities[i - 1].name), text::kUpperCaseEntities[i].name);
}

TEST(HtmlEntities, EveryNameIsUnescaped) {
  for (size_t i = 0; i < text::kHtml5EntityCount; ++i) {
    const auto& entity = text::kHtml5Entities[i];
    const std::u32string reference = U"&" + text::to_utf32(entity.name);
    EXPECT_EQ(text::to_utf8(text::html_unescape(reference)), entity.text) << entity.name;
  }
}

}  // namespace
}  // namespace tachy
