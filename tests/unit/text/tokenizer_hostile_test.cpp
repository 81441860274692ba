// Tests files that lie: each must end in an Error that names the file, and none in a crash or a hang.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/log.h"
#include "golden.h"
#include "text/charsmap.h"
#include "text/tokenizer.h"

namespace tachy {
namespace {

using nlohmann::json;
using test::golden_json;
using test::read_golden;

// Returns the Error's text; empty if there was none.
template <class F>
std::string error_of(F call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::corrupt || error.code() == ErrorCode::unsupported) << error.what();
    EXPECT_NE(error.message().find("bad.file"), std::string::npos) << error.message();
    return error.message();
  }
  return {};
}

std::string json_error(const std::string& text) {
  return error_of([&] { Tokenizer::from_json(text, "bad.file"); });
}
std::string spiece_error(const std::string& bytes) {
  return error_of([&] { Tokenizer::from_spiece(bytes, "bad.file"); });
}

const char* kModel =
    R"("model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["<pad>",0],["</s>",0],["a",-1]]})";
std::string with(const std::string& section) { return "{" + section + "," + kModel + "}"; }

TEST(HostileJson, TheBaseIsFine) {
  const auto tokenizer = Tokenizer::from_json("{" + std::string(kModel) + "}", "good");
  EXPECT_EQ(tokenizer->encode("axxa"), (std::vector<int32_t>{3, 0, 3}));
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->pad_id(), 1);
}

TEST(HostileJson, MalformedText) {
  EXPECT_NE(json_error("").find("byte"), std::string::npos);
  EXPECT_NE(json_error("{\"model\":{\"vocab\":[[\"a\",").find("byte"), std::string::npos);
  EXPECT_FALSE(json_error("[]").empty());
  EXPECT_FALSE(json_error("{}").empty());
  EXPECT_EQ(json_error("garbage"),
            "bad.file: the file is damaged: no JSON at byte 1: invalid literal; fetch it again");
  EXPECT_FALSE(json_error("{\"a\":\"\xFF\"}").empty());
  EXPECT_FALSE(json_error("{\"model\":{\"vocab\":[[\"\\ud800\",1]]}}").empty());
  EXPECT_NE(json_error(std::string(100000, '[')).find("nested"), std::string::npos);
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  EXPECT_NE(json_error(deep).find("nested"), std::string::npos);
}

TEST(HostileJson, WrongVocabularies) {
  auto vocab = [](const std::string& v) {
    return "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":" + v + "}}";
  };
  EXPECT_NE(json_error(vocab("[]")).find("empty"), std::string::npos);
  EXPECT_NE(json_error(vocab("{}")).find("Unigram"), std::string::npos);
  for (const char* v : {"7", "null", "[7]", "[null]", "[[]]", "[[\"a\"]]", "[[1,\"a\"]]", "[[\"a\",\"b\"]]",
                        "[[\"a\",null]]", "[[\"a\",1,2]]", "[[[\"a\",1]]]", "[{\"a\":1}]", "[[\"a\",{}]]",
                        "[\"a\",1]", "[[\"a\",1e999]]", "[[\"a\",NaN]]", "[[\"a\",-1.0e400]]"})
    EXPECT_FALSE(json_error(vocab(v)).empty()) << v;
  EXPECT_NE(json_error(vocab("[[\"a\",true]]")).find("vocab[0]"), std::string::npos);
  EXPECT_NE(json_error(vocab("[[\"" + std::string(5000, 'a') + "\",0]]")).find("bytes"), std::string::npos);
  EXPECT_NE(json_error(vocab("[[\"a\",0]],\"vocab\":[[\"b\",0]]")).find("twice"), std::string::npos);
  EXPECT_NE(json_error("{\"model\":{\"type\":\"BPE\",\"vocab\":[[\"a\",0]]}}").find("BPE"),
            std::string::npos);
  for (const char* id : {"-1", "4", "1.5", "\"0\"", "99999999999999999999", "true"})
    EXPECT_FALSE(
        json_error(std::string("{\"model\":{\"unk_id\":") + id + ",\"vocab\":[[\"</s>\",0],[\"<pad>\",0]]}}")
            .empty())
        << id;
}

TEST(HostileJson, WrongSections) {
  for (
      const char* section :
      {R"("normalizer":{"type":"ByteLevel"})",
       R"("normalizer":{})",
       R"("normalizer":7)",
       R"("normalizer":{"type":7})",
       R"("normalizer":{"type":"Sequence"})",
       R"("normalizer":{"type":"Replace","pattern":{"Regex":"(a|b"},"content":""})",
       R"("normalizer":{"type":"Replace","pattern":{"String":""},"content":""})",
       R"("normalizer":{"type":"Replace","pattern":"a","content":""})",
       R"("normalizer":{"type":"Strip","strip_left":1})",
       R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"!!!!"})",
       R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"})",
       R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAAAAAAAAAA"})",
       R"("pre_tokenizer":{"type":"ByteLevel"})",
       R"("pre_tokenizer":{"type":"Metaspace"})",
       R"("pre_tokenizer":{"type":"Metaspace","replacement":"ab"})",
       R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"often"})",
       R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","split":"no"})",
       R"("added_tokens":{})",
       R"("added_tokens":[7])",
       R"("added_tokens":[{"id":0}])",
       R"("added_tokens":[{"id":-1,"content":"x","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}])",
       R"("added_tokens":[{"id":4,"content":"x","single_word":0,"lstrip":false,"rstrip":false,"normalized":false,"special":true}])",
       R"("post_processor":{"type":"BertProcessing"})",
       R"("post_processor":{"type":"TemplateProcessing"})",
       R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"</s>"}}],"special_tokens":{}})",
       R"("post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},{"SpecialToken":{"id":"x"}}],"special_tokens":{"x":{"ids":[99]}}})",
       R"("padding":{"pad_id":99})",
       R"("padding":{"pad_id":-1})"})
    EXPECT_FALSE(json_error(with(section)).empty()) << section;
}

TEST(HostileJson, GrowingReplaceIsStopped) {
  const std::string rule =
      R"({"type":"Replace","pattern":{"String":"a"},"content":")" + std::string(4000, 'a') + "\"}";
  const auto tokenizer = Tokenizer::from_json(
      with("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" + rule + "," + rule + "," + rule + "]}"),
      "bad.file");
  EXPECT_THROW(tokenizer->encode("aaaa"), Error);
}

TEST(HostileJson, MissingUnknownTokenIsAnErrorOnlyWhenNeeded) {
  const auto tokenizer =
      Tokenizer::from_json(R"({"model":{"vocab":[["a",-1],["<pad>",0],["</s>",0]]}})", "no unknown");
  EXPECT_EQ(tokenizer->encode("aa"), (std::vector<int32_t>{0, 0}));
  EXPECT_THROW(tokenizer->encode("b"), Error);
}

TEST(HostileSpiece, MalformedBytes) {
  EXPECT_FALSE(spiece_error("").empty());
  EXPECT_FALSE(spiece_error("hello world").empty());
  EXPECT_FALSE(spiece_error(std::string(1000, '\xFF')).empty());
  EXPECT_FALSE(spiece_error("{\"model\":1}").empty());
  const std::string good = read_golden("small/spiece.model");
  EXPECT_EQ(spiece_error(good), "");
  for (size_t size : {size_t{1}, size_t{2}, size_t{100}, good.size() / 2, good.size() - 1})
    EXPECT_FALSE(spiece_error(good.substr(0, size)).empty()) << size;
}

std::string piece(const std::string& text, float score, int type) {
  std::string body = "\x0A" + std::string(1, static_cast<char>(text.size())) + text + "\x15";
  body.append(reinterpret_cast<const char*>(&score), 4);
  body += "\x18" + std::string(1, static_cast<char>(type));
  return "\x0A" + std::string(1, static_cast<char>(body.size())) + body;
}

TEST(HostileSpiece, WrongPieces) {
  const std::string base = piece("<unk>", 0, 2) + piece("a", -1, 1);
  EXPECT_NE(spiece_error(base).find("end piece"), std::string::npos);
  EXPECT_NE(spiece_error(base + piece("a", -1, 1)).find("twice"), std::string::npos);
  EXPECT_NE(spiece_error(base + piece("", -1, 1)).find("piece 2"), std::string::npos);
  EXPECT_NE(spiece_error(base + piece("\xFF", -1, 1)).find("UTF-8"), std::string::npos);
  EXPECT_NE(spiece_error(base + piece(std::string("b\0", 2), -1, 1)).find("zero byte"), std::string::npos);
  EXPECT_NE(spiece_error(base + piece("b", std::numeric_limits<float>::quiet_NaN(), 1)).find("finite"),
            std::string::npos);
  EXPECT_NE(spiece_error(base + piece("b", -1, 9)).find("type 9"), std::string::npos);
  EXPECT_NE(spiece_error(base + piece("b", -1, 2)).find("unknown piece"), std::string::npos);
  EXPECT_NE(spiece_error(piece("a", -1, 1)).find("unknown piece"), std::string::npos);
  EXPECT_NE(spiece_error(base + "\x12\x02\x18\x02").find("model_type"), std::string::npos);
  // The normalizer's trie points outside itself: without a check the library would read there.
  std::string map(4 + 1024, '\0');
  map[1] = 4;  // the trie has 1024 bytes
  map[4 + 2] = '\x7F';
  map += std::string("x\0", 2);
  std::string spec =
      "\x12" +
      std::string{static_cast<char>(0x80 | (map.size() & 0x7F)), static_cast<char>(map.size() >> 7)} + map;
  spec = "\x1A" +
         std::string{static_cast<char>(0x80 | (spec.size() & 0x7F)), static_cast<char>(spec.size() >> 7)} +
         spec;
  EXPECT_NE(spiece_error(base + spec).find("outside the trie"), std::string::npos);
}

TEST(HostileSpiece, NestedKeys) {
  std::string nested = piece("<unk>", 0, 2) + piece("</s>", 0, 3) + piece("<pad>", 0, 3);
  for (int i = 1; i <= 100; ++i) nested += piece(std::string(static_cast<size_t>(i), 'a'), 0, 4);
  const auto tokenizer = Tokenizer::from_spiece(nested, "nested");
  EXPECT_EQ(tokenizer->encode(std::string(100, 'a')).back(), 102) << "the longest of a hundred";

  // The trie's node for 'a' is its own child, with a key each time.
  uint32_t units[512] = {256u << 10};
  units[256] = 1u << 31;
  units[256 + 'a'] = 'a' | 1u << 8 | uint32_t{'a'} << 10;
  std::string map = std::string("\0\x08\0\0", 4);
  map.append(reinterpret_cast<const char*>(units), sizeof(units));
  const std::string message =
      error_of([&] { text::Charsmap::parse(map + std::string("x\0", 2), "bad.file"); });
  EXPECT_NE(message.find("begin one another"), std::string::npos) << message;
  units[256 + 'a'] ^= 1u << 8;  // without the key the trie is only a long path to nowhere
  map.replace(4, sizeof(units), reinterpret_cast<const char*>(units), sizeof(units));
  EXPECT_EQ(text::Charsmap::parse(map + std::string("x\0", 2), "bad.file").normalize("aab"), "aab");
}

// Damages random bytes: a file that still loads must also encode.
template <class Load>
void mutate(std::string good, int rounds, Load load) {
  set_quiet(true);
  std::mt19937 random(7);
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = good;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, random() % 9);
          break;
        case 2:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 9));
          break;
        default:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
          break;
      }
    }
    try {
      const auto tokenizer = load(bytes);
      tokenizer->encode("a red fox  \xE4\xB8\x80\xF0\x9F\xA6\x8A </s> ab\xCC\x81\xEF\xBD\xB6");
    } catch (const Error&) {
    }
  }
  set_quiet(false);
}

TEST(HostileSpiece, RandomDamage) {
  mutate(read_golden("small/spiece.model"), 400,
         [](const std::string& bytes) { return Tokenizer::from_spiece(bytes, "damaged"); });
}

TEST(HostileJson, RandomDamage) {
  const json tokens = golden_json("tokens.json");
  for (const auto& variant : tokens["variants"]) {
    json file = golden_json("small/tokenizer.json");
    file.update(variant["sections"]);
    // The vocabulary is short, so that most of the damage hits the rest.
    auto& vocab = file["model"]["vocab"];
    while (vocab.size() > 40) vocab.erase(vocab.size() - 1);
    mutate(file.dump(), 150, [](const std::string& bytes) { return Tokenizer::from_json(bytes, "damaged"); });
  }
}

TEST(Charsmap, RandomDamage) {
  std::string map;
  const json tokens = golden_json("tokens.json");
  for (const auto& variant : tokens["variants"])
    if (variant["name"] == "precompiled") map = variant["sections"]["normalizer"]["precompiled_charsmap"];
  ASSERT_FALSE(map.empty());
  std::mt19937 random(11);
  size_t loaded = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = map;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = "ABCDwxyz0189+/"[random() % 14];
    try {
      const auto charsmap = text::Charsmap::parse_base64(damaged, "damaged");
      charsmap.normalize("e\xCC\x81 ab\xCC\x81\xEF\xBD\xB6\xEF\xBE\x9E\xE2\x84\xA2\xC2\xBD");
      ++loaded;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt);
    }
  }
  EXPECT_GT(loaded, 0u);
}

}  // namespace
}  // namespace tachy
