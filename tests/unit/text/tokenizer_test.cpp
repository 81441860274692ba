// Token ids are compared with those of the `tokenizers` library and of sentencepiece; opening folders and the
// padded form are tested, too.
#include "text/tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "golden.h"
#include "text/charsmap.h"
#include "text/clean_prompt.h"
#include "text/json_reader.h"
#include "text/regex.h"
#include "text/spiece_file.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::golden_json;
using test::golden_path;
using test::read_golden;
using Ids = std::vector<int32_t>;

void expect_ids(const Tokenizer& tokenizer, const json& cases, const std::string& name) {
  for (const auto& row : cases)
    EXPECT_EQ(tokenizer.encode(row[0].get_ref<const std::string&>()), row[1].get<Ids>())
        << name << ": " << row[0].dump(-1, ' ', true);
}

class TokenizerGolden : public testing::Test {
 protected:
  static void SetUpTestSuite() { golden_ = new json(golden_json("tokens.json")); }
  static void TearDownTestSuite() { delete golden_; }
  static json* golden_;
};
json* TokenizerGolden::golden_ = nullptr;

TEST_F(TokenizerGolden, EachPipelineEqualsTheLibrary) {
  const json base = golden_json("small/tokenizer.json");
  size_t cases = 0;
  for (const auto& variant : (*golden_)["variants"]) {
    json file = base;
    file.update(variant["sections"]);
    const std::string name = variant["name"];
    const auto tokenizer = Tokenizer::from_json(file.dump(), name);
    expect_ids(*tokenizer, variant["cases"], name);
    cases += variant["cases"].size();
  }
  EXPECT_GT(cases, 2000u);
}

TEST_F(TokenizerGolden, TiesDuplicatesAndUnknownsEqualTheLibrary) {
  for (const auto& model : (*golden_)["models"]) {
    const auto tokenizer =
        Tokenizer::from_json(model["file"].get<std::string>(), model["name"].get<std::string>());
    expect_ids(*tokenizer, model["cases"], model["name"]);
  }
}

TEST_F(TokenizerGolden, PaddedFormEqualsTheLibrary) {
  const auto tokenizer = Tokenizer::open(golden_path("small"));
  EXPECT_EQ(tokenizer->source(), "tokenizer.json");
  for (const auto& row : (*golden_)["padded"]) {
    const TokenIds got = encode_padded(*tokenizer, row[0].get<std::string>(), row[1].get<int>());
    EXPECT_EQ(got.ids, row[2].get<std::vector<int64_t>>()) << row[0];
    EXPECT_EQ(got.mask, row[3].get<std::vector<int64_t>>()) << row[0];
  }
  EXPECT_EQ(encode_padded(*tokenizer, "a red fox", 1).ids, std::vector<int64_t>{1});
  EXPECT_THROW(encode_padded(*tokenizer, "a", 0), Error);
}

TEST_F(TokenizerGolden, SpieceEqualsSentencePiece) {
  const auto tokenizer = Tokenizer::open(golden_path("small/spiece.model"));
  EXPECT_EQ(tokenizer->source(), "spiece.model");
  expect_ids(*tokenizer, (*golden_)["spiece"], "spiece");
}

// The files differ in character maps, in user-defined and byte pieces, in whether spaces are kept, and in the
// mark, which is in front, at the end or nowhere.
TEST(SpieceGolden, EachKindOfFileEqualsSentencePiece) {
  size_t cases = 0;
  for (const auto& kind : golden_json("spiece.json")) {
    const std::string name = kind["name"];
    const auto tokenizer =
        Tokenizer::from_spiece(text::decode_base64(kind["model"].get<std::string>(), name), name);
    expect_ids(*tokenizer, kind["cases"], name);
    cases += kind["cases"].size();
  }
  EXPECT_GT(cases, 600u);
}

// Files in other formats hold the pieces, but have no spiece.model.
TEST(VocabularyGolden, IdsAreThoseOfTheSpieceModel) {
  size_t cases = 0;
  for (const auto& kind : golden_json("spiece.json")) {
    const std::string name = kind["name"],
                      bytes = text::decode_base64(kind["model"].get<std::string>(), name);
    const text::SpieceFile file = text::read_spiece_file(bytes, name);
    if (file.charsmap || !file.escape_whitespaces || file.whitespace_as_suffix) continue;
    Vocabulary vocabulary{.scores = file.scores,
                          .add_space_prefix = file.add_dummy_prefix,
                          .remove_extra_whitespaces = file.remove_extra_whitespaces};
    for (size_t i = 0; i < file.types.size(); ++i) {
      vocabulary.pieces.push_back(file.pieces[i]);
      vocabulary.types.push_back(static_cast<int64_t>(file.types[i]));
      if (file.pieces[i] == file.eos_piece) vocabulary.eos_id = static_cast<int64_t>(i);
      if (file.pieces[i] == file.pad_piece) vocabulary.pad_id = static_cast<int64_t>(i);
    }
    const auto tokenizer = Tokenizer::from_vocabulary(vocabulary, name);
    expect_ids(*tokenizer, kind["cases"], name);
    EXPECT_EQ(tokenizer->eos_id(), Tokenizer::from_spiece(bytes, name)->eos_id());
    EXPECT_EQ(tokenizer->source(), "vocabulary");
    cases += kind["cases"].size();
  }
  EXPECT_GT(cases, 100u);
}

TEST(Vocabulary, WhatIsWrongIsRefused) {
  const Vocabulary good{
      .pieces = {"<pad>", "</s>", "<unk>", "a"}, .scores = {0, 0, 0, -1}, .types = {3, 3, 2, 1}};
  EXPECT_EQ(Tokenizer::from_vocabulary(good, "good")->eos_id(), 1);
  const auto refused = [&](const std::string& reason, const std::function<void(Vocabulary&)>& spoil) {
    Vocabulary bad = good;
    spoil(bad);
    try {
      Tokenizer::from_vocabulary(bad, "bad.gguf");
      ADD_FAILURE() << "expected: " << reason;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find("bad.gguf"), std::string::npos);
      EXPECT_NE(error.message().find(reason), std::string::npos) << error.message();
    }
  };
  refused("4 pieces, 3 scores and 4 types", [](Vocabulary& v) { v.scores.pop_back(); });
  refused("0 pieces", [](Vocabulary& v) { v = {}; });
  refused("unknown type 7", [](Vocabulary& v) { v.types[3] = 7; });
  refused("unknown type", [](Vocabulary& v) { v.types[3] = -1; });
  refused("not finite", [](Vocabulary& v) { v.scores[3] = NAN; });
  refused("there twice", [](Vocabulary& v) { v.pieces[3] = "<unk>"; });
  refused("not UTF-8", [](Vocabulary& v) { v.pieces[3] = "\xff"; });
  refused("expected one unknown piece", [](Vocabulary& v) { v.types[2] = 1; });
  refused("the end token 3 is no control piece", [](Vocabulary& v) { v.eos_id = 3; });
  refused("the end token 4", [](Vocabulary& v) { v.eos_id = 4; });
  refused("the padding token -1", [](Vocabulary& v) { v.pad_id = -1; });
  refused("no padding piece", [](Vocabulary& v) { v.pieces[0] = "<p>"; });
  refused("precompiled_charsmap", [](Vocabulary& v) { v.charsmap = "abc"; });
}

TEST_F(TokenizerGolden, BothFilesGiveTheSameIds) {
  const auto from_json = Tokenizer::open(golden_path("small/tokenizer.json"));
  const auto from_spiece = Tokenizer::open(golden_path("small/spiece.model"));
  EXPECT_EQ(from_json->pad_id(), from_spiece->pad_id());
  EXPECT_EQ(from_json->eos_id(), from_spiece->eos_id());
  EXPECT_EQ(from_json->unk_id(), from_spiece->unk_id());
  EXPECT_EQ(from_json->vocab_size(), from_spiece->vocab_size() + 2);  // there are two extra ids
  for (int id = 0; id < from_spiece->vocab_size(); ++id)
    ASSERT_EQ(from_json->piece(id), from_spiece->piece(id));
  size_t compared = 0;
  for (const auto& row : (*golden_)["spiece"]) {
    const std::string text = row[0];
    // The two libraries differ for control pieces in the text, and for a mark that is typed by hand.
    if (text.find("\xE2\x96\x81") != text.npos || text.starts_with(' ')) continue;
    EXPECT_EQ(from_json->encode(text), from_spiece->encode(text)) << row[0];
    ++compared;
  }
  EXPECT_GT(compared, 150u);
}

TEST(Tokenizer, OpensFoldersByContent) {
  const fs::path folder = fs::temp_directory_path() / "tachy_text_test";
  fs::remove_all(folder);
  fs::create_directories(folder / "tokenizer");
  EXPECT_THROW(Tokenizer::open(folder), Error);
  fs::copy(golden_path("small/spiece.model"), folder / "tokenizer");
  EXPECT_EQ(Tokenizer::open(folder)->source(), "spiece.model");
  fs::copy(golden_path("small/tokenizer.json"), folder / "tokenizer");
  EXPECT_EQ(Tokenizer::open(folder)->source(), "tokenizer.json");
  try {
    Tokenizer::open(folder / "absent.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
  }
  fs::remove_all(folder);
}

TEST(Tokenizer, AByteOrderMarkBeforeItsJsonIsNoPartOfIt) {
  const fs::path file = fs::temp_directory_path() / fmt::format("tachy-mark-{}.json", getpid());
  std::ofstream(file, std::ios::binary) << "\xEF\xBB\xBF" << read_golden("small/tokenizer.json");
  EXPECT_EQ(Tokenizer::open(file)->encode("a red fox"),
            Tokenizer::open(golden_path("small"))->encode("a red fox"));
  fs::remove(file);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const auto tokenizer = Tokenizer::open(golden_path("small"));
  EXPECT_THROW(tokenizer->encode("a\xFF"), Error);
  EXPECT_THROW(tokenizer->encode(std::string((4u << 20) + 1, 'a')), Error);
  EXPECT_THROW(Tokenizer::open(golden_path("small/spiece.model"))->encode("\xC3"), Error);
}

// The file has 256 byte pieces and byte fallback, like umT5's spiece.model: unknown runs still become one id.
TEST(Tokenizer, BytePiecesBecomeOneUnknown) {
  const auto tokenizer = Tokenizer::open(golden_path("small/bytes.model"));
  const Ids ids = tokenizer->encode("a\xF0\x9F\xA6\x8A\xF0\x9F\xA6\x8A b");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->unk_id()), 1);
  for (int32_t id : ids) EXPECT_FALSE(tokenizer->piece(id).starts_with("<0x")) << id;
}

// The data is made up and has the size of umT5's file (256,300 pieces, 17 MB). The limit is loose: it guards
// against a reader that is quadratic or copies the vocabulary into a tree; the actual time is in the log.
TEST(Tokenizer, LoadsAVocabularyOfUmT5sSize) {
  constexpr int kPieces = 256300;
  std::string file = R"({"model":{"type":"Unigram","unk_id":2,"vocab":[["<pad>",0],["</s>",0],["<unk>",0])";
  std::mt19937 random(5);
  for (int made = 3; made < kPieces; ++made) {
    std::string piece = random() % 2 ? "\u2581" : "";
    for (unsigned i = 0, n = 2 + random() % 9; i < n; ++i) piece += static_cast<char>('a' + random() % 26);
    file += ",\n      [\n        \"" + piece + "\",\n        -" + std::to_string(8 + random() % 9) +
            ".296971797943115\n      ]";
  }
  file += "]}}";
  const std::clock_t begin = std::clock();  // processor time: the machine may be busy
  const auto tokenizer = Tokenizer::from_json(file, "large");
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_EQ(tokenizer->vocab_size(), kPieces);
  EXPECT_LT(seconds, 10.0);
  const std::string piece = tokenizer->piece(200000);
  EXPECT_FALSE(tokenizer->encode(piece).empty());
}

// The ids were collected from public fixtures of other projects. To test the published file, set
// TACHY_UMT5_TOKENIZER=…/tokenizer.json (or its folder, or spiece.model).
TEST(Tokenizer, PublishedUmT5) {
  const char* path = std::getenv("TACHY_UMT5_TOKENIZER");
  if (!path) GTEST_SKIP() << "TACHY_UMT5_TOKENIZER is not set";
  const auto tokenizer = Tokenizer::open(path);
  const std::pair<const char*, Ids> cases[] = {
      {"", {}},
      {"a cat running", {289, 6283, 19429}},
      {"hello world", {154424, 3914}},
      {"A cinematic shot of a cat on a skateboard",
       {320, 17443, 8378, 36215, 329, 289, 6283, 369, 289, 197877}},
      {"A red fox jumps over snow.", {320, 4062, 273, 56209, 48150, 281, 702, 45540, 274}},
      {"\u4f60\u597d\u4e16\u754c", {273, 4635, 2199, 4503}},
      {"\u8272\u8c03\uff0c\u8fc7\u66dd", {273, 1838, 8483, 275, 4915, 85615}},
      {"\u732b\u304c\u7a93\u8fba\u306b\u5ea7\u3063\u3066\u3044\u308b",
       {273, 14985, 409, 19810, 24657, 435, 5398, 7937}}};
  for (const auto& [text, ids] : cases) EXPECT_EQ(tokenizer->encode(clean_prompt(text)), ids) << text;
}

TEST(SerdeNumber, KeepsTheReferencesRounding) {
  EXPECT_EQ(text::serde_number("-3.5"), -3.5);
  EXPECT_EQ(text::serde_number("12e-1"), 1.2);
  EXPECT_EQ(text::serde_number("0.1e1"), 1.0);
  EXPECT_EQ(text::serde_number("-0.0"), 0.0);
  EXPECT_EQ(text::serde_number("1e-400"), 0.0);
  EXPECT_NEAR(text::serde_number("12345678901234567890123"), 12345678901234567890123.0, 1e8);
  EXPECT_TRUE(std::isinf(text::serde_number("1e999")));
}

TEST(Regex, MatchesAndRefuses) {
  using Found = std::pair<size_t, size_t>;
  const auto spaces = text::Regex::compile(" {2,}x?", "test");
  EXPECT_EQ(spaces.find("a b   xc", 0), Found(3, 7));
  EXPECT_EQ(spaces.find("a b   xc   d", 7), Found(8, 11));
  EXPECT_EQ(spaces.find("a b", 0), std::nullopt);
  EXPECT_EQ(text::Regex::compile("[^a-c\\s]+b", "test").find("a xyzb", 0), Found(2, 6));
  EXPECT_EQ(text::Regex::compile("(ab|ü)+?(?=ü)", "test").find("xabüü", 0), Found(1, 3));
  EXPECT_EQ(text::Regex::compile("\\p{L}++$", "test").find("1größe", 0), Found(1, 8));
  EXPECT_EQ(text::Regex::compile("\\s", "test").find("a\u3000b", 0), Found(1, 4)) << "Unicode's spaces";
  for (const char* pattern : {"(a", "[", "[z-a]", "a{3,2}(", "\\p{Nothing}", "*", "a*", "^", "(?<n>)\\k<m>"})
    EXPECT_THROW(text::Regex::compile(pattern, "test"), Error) << pattern;
  EXPECT_THROW(text::Regex::compile("(?=a)", "test").find("ba", 0), Error) << "matches nothing at all";
  EXPECT_THROW(text::Regex::compile(std::string(2000, '(') + "a" + std::string(2000, ')'), "test"), Error);
}

// The patterns are in Python's dialect and are matched at the text's beginning
// (tests/golden/adapters/patterns.json has many more).
TEST(Regex, PythonsPatterns) {
  const auto starts = [](const char* pattern, const char* text) {
    return text::Regex::python(pattern, "test").matches_start(text, 1000);
  };
  EXPECT_EQ(starts("a*", "b"), true) << "the empty text may match";
  EXPECT_EQ(starts("b", "ab"), false);
  EXPECT_EQ(starts("(?P<x>a)(?P=x)$", "aa"), true);
  EXPECT_EQ(starts("a$", "a\nb"), false) << "not the end of a line";
  EXPECT_EQ(starts("(x+x+)+y", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), std::nullopt);
  for (const char* pattern : {"\\h", "a(?i)b", "[[:alpha:]]", "(a"})
    EXPECT_THROW(text::Regex::python(pattern, "test"), Error) << pattern;
}

TEST(Regex, SearchesThatBlowUpAreStopped) {
  const auto nested = text::Regex::compile("(x+x+)+y", "here");
  try {
    nested.find(std::string(40, 'x'), 0);
    FAIL() << "2^40 ways should be too many";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_NE(e.message().find("too long"), std::string::npos) << e.message();
    EXPECT_NE(e.message().find("here"), std::string::npos) << e.message();
  }
}

}  // namespace
}  // namespace tachy
