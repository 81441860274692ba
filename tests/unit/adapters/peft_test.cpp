// Tests PEFT's patterns: a layer gets the pattern that PEFT's own get_pattern_key chooses
// (tests/golden/adapters/make_peft.py).
#include <fstream>
#include <sstream>

#include "support.h"
#include "weights/json_file.h"

namespace tachy::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Returns the scales of layers with these names, according to the header that diffusers writes.
std::vector<std::optional<PeftScale>> scales(const std::string& metadata,
                                             const std::vector<std::string>& layers) {
  MadeSource made;
  made.metadata["lora_adapter_metadata"] = metadata;
  return peft_scales("made.safetensors", *made.source(), layers);
}

// Returns keys with the values 0, 1, …, in this order.
std::string patterns_text(const std::vector<std::string>& keys) {
  std::string out;
  for (size_t i = 0; i < keys.size(); ++i)
    out += (i > 0 ? ", " : "") + json(keys[i]).dump() + ": " + std::to_string(i);
  return R"({"r": 4, "lora_alpha": -1, "alpha_pattern": {)" + out + "}}";
}

std::string error_of(const std::string& metadata, const std::vector<std::string>& layers = {"to_q"}) {
  try {
    scales(metadata, layers);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(PeftPatterns, TheFirstThatFitsIsPefts) {
  const json all = read_json(golden("patterns.json"));
  const auto names = all["names"].get<std::vector<std::string>>();
  std::vector<std::string> refused;
  size_t compared = 0;
  for (const json& list : all["lists"]) {
    const auto keys = list["keys"].get<std::vector<std::string>>();
    const auto fits = list["fits"].get<std::string>();
    const std::string text = patterns_text(keys);
    if (const std::string error = error_of(text, names); !error.empty()) {
      EXPECT_THAT(error, HasSubstr("lora_adapter_metadata: 'alpha_pattern': the regular expression"))
          << error;
      EXPECT_THAT(error, HasSubstr(keys[0])) << error;
      if (fits[0] != '!') refused.push_back(keys[0]);
      continue;
    }
    if (fits[0] == '!') continue;  // PEFT fails here
    const auto found = scales(text, names);
    for (size_t i = 0; i < names.size(); ++i, ++compared)
      EXPECT_EQ(found[i]->alpha, fits[i] == '.' ? -1 : fits[i] - '0') << keys[0] << " of " << names[i];
  }
  EXPECT_GT(compared, 1800u);
  // A pattern that Python's `re` supports but Oniguruma does not, or understands differently, is refused by
  // name.
  EXPECT_THAT(refused, testing::ElementsAre("[[:alpha:]]+.to_q", "\\N{LATIN SMALL LETTER A}ttn1.to_q",
                                            "(?=a)*attn1.to_q"));
}

TEST(PeftPatterns, WhatPythonRefusesIsRefusedByName) {
  for (const char* key : {"(?i)TO_Q", "(?s).*to_q", "*.attn1", "(attn1.to_q", "attn1.to_q)", "[attn", "\\",
                          "\\h+", "\\p{L}+", "[z-a]", "(?P=y)"})
    EXPECT_THAT(error_of(patterns_text({key})), HasSubstr(key));
}

// A pattern may be written so that it takes for ever.
TEST(PeftPatterns, ASlowOneStopsAtALimit) {
  const std::string error = error_of(patterns_text({"(a+)+b"}), {std::string(60, 'a')});
  EXPECT_THAT(error, HasSubstr("matching the pattern \"(a+)+b\" takes too long on the layer \"aaaa"));
  std::vector<std::string> keys, layers;
  for (int i = 0; i < 3000; ++i)
    keys.push_back("k" + std::to_string(i)), layers.push_back("l" + std::to_string(i));
  EXPECT_THAT(error_of(patterns_text(keys), layers), HasSubstr("3000 patterns for 3000 layers are more"));
}

TEST(PeftPatterns, OneThatFitsNoLayerIsAWarning) {
  testing::internal::CaptureStderr();
  scales(
      R"({"transformer.r": 4, "transformer.lora_alpha": 4, "transformer.rank_pattern": {"to_q": 4, "to_Q": 8}})",
      {"transformer.blocks.0.attn1.to_q"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("'transformer.rank_pattern': the pattern \"to_Q\" fits no layer of the file"));
  EXPECT_THAT(said, testing::Not(HasSubstr("\"to_q\"")));
}

TEST(PeftPatterns, PartsOfAModelHaveConfigurationsOfTheirOwn) {
  const auto found = scales(
      R"({"transformer.lora_alpha": 2, "transformer.use_rslora": true, "transformer.alpha_pattern": {"^blocks.0.q": 7},
          "transformer_2.r": 3, "text_encoder.lora_alpha": 5, "text_encoder.rank_pattern": {"x|q": 9}})",
      {"transformer.blocks.0.q", "transformer.blocks.0.k", "transformer_2.blocks.0.q", "text_encoder.q",
       "blocks.0.q", "transformer._orig_mod.blocks.0.q"});
  const auto is = [&](size_t i, double alpha, double rank, bool rslora) {
    EXPECT_EQ(found[i]->alpha, alpha) << i;
    EXPECT_EQ(found[i]->rank, rank) << i;
    EXPECT_EQ(found[i]->rslora, rslora) << i;
  };
  is(0, 7, 8, true), is(1, 2, 8, true);  // 8 is PEFT's default for rank and alpha
  is(2, 8, 3, false), is(3, 5, 9, false);
  EXPECT_FALSE(found[4].has_value());
  EXPECT_EQ(found[5]->alpha, 7);
}

TEST(PeftPatterns, ValuesOfAnotherKindAreErrors) {
  EXPECT_THAT(error_of(R"({"r": 4, "alpha_pattern": {"to_q": "8"}})"), HasSubstr("expected numbers from"));
  EXPECT_THAT(error_of(R"({"r": 4, "alpha_pattern": {"to_q": NaN}})"), HasSubstr("expected numbers from"));
  EXPECT_THAT(error_of(R"({"r": 4, "rank_pattern": {"to_q": 0}})"), HasSubstr("expected numbers from 1"));
  EXPECT_THAT(error_of(R"({"r": 4, "rank_pattern": [4]})"), HasSubstr("expected an object"));
  EXPECT_THAT(error_of(R"({"r": 0})"), HasSubstr("r: expected a number from 1"));
}

// PEFT subtracts such a pair's initial product from the model's weights.
TEST(PeftPatterns, AdaptersOfAChangedModelAreRefused) {
  for (const char* value : {"pissa", "pissa_niter_16", "olora", "corda", "loftq"})
    EXPECT_THAT(error_of(R"({"r": 4, "init_lora_weights": ")" + std::string(value) + "\"}"),
                HasSubstr("'init_lora_weights' is \"" + std::string(value)));
  EXPECT_EQ(error_of(R"({"r": 4, "init_lora_weights": "gaussian"})"), "");
  EXPECT_EQ(error_of(R"({"r": 4, "init_lora_weights": true})"), "");
  EXPECT_THAT(error_of(R"({"r": 4, "layer_replication": [[0, 4]]})"), HasSubstr("'layer_replication'"));
  EXPECT_THAT(error_of(R"({"r": 4, "use_qalora": true})"), HasSubstr("'use_qalora'"));
  EXPECT_EQ(error_of(R"({"r": 4, "use_qalora": false, "layer_replication": null})"), "");
}

}  // namespace
}  // namespace tachy::test
