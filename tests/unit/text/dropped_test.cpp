// The dropped part of a prompt that is too long is compared with that of the tokenizers library
// (tests/golden/text/make_dropped.py).
#include <gtest/gtest.h>

#include "golden.h"
#include "text/tokenizer.h"

namespace tachy {
namespace {

using nlohmann::json;
using test::golden_json;
using test::golden_path;

// Long texts are shown by their first and last words.
void expect_shown(const std::string& shown, const std::string& want) {
  const size_t gap = shown.find(" … ");
  if (gap == shown.npos) {
    EXPECT_EQ(shown, want);
    return;
  }
  EXPECT_LT(shown.size(), 200u);
  EXPECT_TRUE(want.starts_with(shown.substr(0, gap))) << shown << " of " << want;
  EXPECT_TRUE(want.ends_with(shown.substr(gap + std::string(" … ").size()))) << shown << " of " << want;
}

TEST(DroppedTokens, NumberAndFirstWordAreTheLibrarys) {
  const auto tokenizer = Tokenizer::open(golden_path("small"));
  int exact = 0, over = 0;
  for (const json& row : golden_json("dropped.json")) {
    const std::string text = row["text"];
    const int length = row["length"];
    const TokenIds tokens = encode_padded(*tokenizer, text, length);
    EXPECT_EQ(tokens.dropped, row["dropped"].get<int64_t>()) << length << ": " << text;
    expect_shown(dropped_words(*tokenizer, text, length), row["from"]);
    (tokens.dropped == 0 ? exact : over)++;
    if (tokens.dropped == 0)
      EXPECT_EQ(encode_padded(*tokenizer, text, length - 1).dropped, 1) << "of this one more";
  }
  EXPECT_EQ(exact, 1);
  EXPECT_EQ(over, 15);
}

// Single files contain spiece.model, and so do folders in the original layout.
TEST(DroppedTokens, OfBothTokenizers) {
  for (const auto& file : {golden_path("small/spiece.model"), golden_path("small/tokenizer.json")}) {
    const auto tokenizer = Tokenizer::open(file);
    std::string text;
    for (int i = 0; i < 600; ++i) text += "red ";
    text += "fox";
    const auto all = static_cast<int64_t>(tokenizer->encode(text).size());
    EXPECT_EQ(tokenizer->layout(text).begins.size(), static_cast<size_t>(all)) << file;
    EXPECT_EQ(encode_padded(*tokenizer, text, 512).dropped, all - 511) << file;
    const std::string words = dropped_words(*tokenizer, text, 512);
    EXPECT_TRUE(words.starts_with("red red") && words.ends_with("red fox")) << words;
    EXPECT_EQ(dropped_words(*tokenizer, text, static_cast<int>(all)), "fox") << "the end token takes a place";
    EXPECT_EQ(dropped_words(*tokenizer, text, static_cast<int>(all) + 1), "");
    EXPECT_EQ(encode_padded(*tokenizer, text, static_cast<int>(all) + 1).dropped, 0);
  }
}

}  // namespace
}  // namespace tachy
