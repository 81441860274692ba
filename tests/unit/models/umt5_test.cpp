// The umT5 encoder is compared with transformers' UMT5EncoderModel in float64 (tests/golden/umt5/make.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "models/umt5/umt5_encoder.h"
#include "weights/names/rename.h"

namespace tachy {
namespace {

using test::golden_path;
using test::GoldenFile;

struct Encoded {
  std::vector<float> values;
  double error = 0;
};

Encoded encode(const std::string& name, const Tensor& ids, const Tensor& mask, const Tensor& want,
               test::PlannedRun& run) {
  const std::string path = golden_path(test::in_folder("umt5", name));
  const auto source = umt5_source(open_weights(path)).source;
  const Umt5Config config = Umt5Config::from_json(read_json(path + "/config.json"));
  Encoded out;
  out.values.assign(static_cast<size_t>(ids.numel() * config.d_model), NAN);
  const Tensor y(out.values.data(), DType::f32, {ids.dim(0), ids.dim(1), config.d_model});
  run([&](Stream& stream, nn::ParamStore& store) {
    const auto model = load_component(
        source, "text encoder", {"encoder.embed_tokens."},
        [&](const Scope& scope) { return std::make_unique<Umt5Encoder>(scope, config, store); });
    model->forward(ids, mask, y, stream);
  });
  out.error = want.defined() ? test::error_of(y, want) : 0;
  return out;
}

class Umt5Golden : public testing::TestWithParam<std::string> {};

TEST_P(Umt5Golden, WithinTheBoundForPackedAndMappedWeights) {
  const GoldenFile golden(test::in_folder("umt5", GetParam()) + ".safetensors");
  for (const bool pack : {true, false}) {
    test::PlannedRun run{.pack = pack};
    const Encoded y =
        encode(GetParam(), golden["input_ids"], golden["attention_mask"], golden["last_hidden_state"], run);
    EXPECT_LE(y.error, golden.bound()) << "pack " << pack;
    RecordProperty(pack ? "packed" : "mapped", fmt::format("{:.2e}", y.error));
    EXPECT_EQ(run.planned_store, run.store_bytes);
    EXPECT_EQ(run.arena_bytes, run.arena_peak);
  }
}

TEST_P(Umt5Golden, BitsDoNotDependOnThreads) {
  const GoldenFile golden(test::in_folder("umt5", GetParam()) + ".safetensors");
  test::PlannedRun one{.threads = 1};
  const Encoded a = encode(GetParam(), golden["input_ids"], golden["attention_mask"], {}, one);
  for (const int threads : {2, 3}) {
    test::PlannedRun run{.threads = threads};
    const Encoded b = encode(GetParam(), golden["input_ids"], golden["attention_mask"], {}, run);
    EXPECT_EQ(a.values, b.values) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Umt5Golden,
                         testing::Values("masked", "far", "quantised/t5_gguf", "quantised/t5_scaled"));

// The pipeline encodes a prompt cut to its real length, without a mask: the real rows must be those of the
// padded run.
TEST(Umt5, CutPromptEqualsPaddedPrompt) {
  const GoldenFile golden("umt5/masked.safetensors");
  const Tensor ids = golden["input_ids"], mask = golden["attention_mask"], want = golden["last_hidden_state"];
  int64_t length = 0;
  while (length < mask.dim(1) && mask.as<int64_t>()[mask.dim(1) + length]) ++length;
  ASSERT_EQ(length, 5);
  const Tensor short_ids(ids.as<int64_t>() + ids.dim(1), DType::i64, {1, length});
  std::vector<float> rows(want.as<float>() + want.dim(1) * want.dim(2),
                          want.as<float>() + (want.dim(1) + length) * want.dim(2));
  test::PlannedRun run;
  const Encoded y =
      encode("masked", short_ids, {}, Tensor(rows.data(), DType::f32, {1, length, want.dim(2)}), run);
  EXPECT_LE(y.error, golden.bound());
}

// Ids outside the vocabulary are refused both for a table in the file and for one whose rows are made.
TEST(Umt5, IdsOutsideTheVocabularyAreRefused) {
  std::vector<int64_t> ids{4, 97};
  test::PlannedRun run;
  for (const char* name : {"masked", "quantised/t5_gguf"})
    for (const int64_t bad : {int64_t{97}, int64_t{-1}, int64_t{1} << 40}) {
      ids[1] = bad;
      try {
        encode(name, Tensor(ids.data(), DType::i64, {1, 2}), {}, {}, run);
        FAIL() << "accepted id " << bad << " of " << name;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
        EXPECT_THAT(e.message(),
                    testing::HasSubstr(fmt::format("ids[1] in [0, {})", name[0] == 'm' ? 97 : 64)));
        EXPECT_THAT(e.message(), testing::HasSubstr(std::to_string(bad)));
      }
    }
}

TEST(Umt5, RelativePositionBucketsAreTheReferences) {
  const auto json = read_json(golden_path("umt5/buckets.json"));
  const int64_t first = json["first"];
  int compared = 0;
  for (const auto& [key, buckets] : json["buckets"].items()) {
    const int64_t count = std::stoll(key), distance = std::stoll(key.substr(key.find('/') + 1));
    for (size_t i = 0; i < buckets.size(); ++i, ++compared)
      EXPECT_EQ(relative_position_bucket(first + static_cast<int64_t>(i), count, distance),
                buckets[i].get<int64_t>())
          << key << " at " << first + static_cast<int64_t>(i);
  }
  EXPECT_EQ(compared, 3 * 601);
}

// These are the thresholds for 32 buckets and distance 128.
TEST(Umt5, BucketThresholds) {
  const std::pair<int64_t, int64_t> first_of[] = {{8, 8},   {12, 9},  {16, 10}, {23, 11},
                                                  {32, 12}, {46, 13}, {64, 14}, {91, 15}};
  for (const auto& [n, bucket] : first_of) {
    EXPECT_EQ(relative_position_bucket(-n, 32, 128), bucket);
    EXPECT_EQ(relative_position_bucket(n, 32, 128), 16 + bucket);
    EXPECT_EQ(relative_position_bucket(1 - n, 32, 128), bucket - 1);
  }
  EXPECT_EQ(relative_position_bucket(0, 32, 128), 0);
  EXPECT_EQ(relative_position_bucket(-100000, 32, 128), 15);
  EXPECT_EQ(relative_position_bucket(100000, 32, 128), 31);
}

TEST(Umt5, ConfigsThatCannotWorkAreRefused) {
  const nlohmann::json good = read_json(golden_path("umt5/masked/config.json"));
  EXPECT_EQ(Umt5Config::from_json(good).d_kv, 8);
  const auto fails = [&](const char* key, nlohmann::json value) {
    nlohmann::json j = good;
    j[key] = value;
    try {
      Umt5Config::from_json(j);
      ADD_FAILURE() << "accepted " << key << " " << value;
    } catch (const Error& e) {
      EXPECT_THAT(e.message(), testing::HasSubstr(key));
    }
  };
  fails("feed_forward_proj", "relu");
  fails("num_layers", -1);
  fails("num_heads", 0);
  fails("d_model", "40");
  fails("d_kv", 1.5);
  fails("relative_attention_num_buckets", 1 << 30);
  fails("relative_attention_max_distance", 8);
}

TEST(Umt5, AStreamInOtherNumbersIsRefused) {
  ThreadPool pool(1);
  Arena arena;
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store({.plan_only = true}, stream);
  const Umt5Config config = Umt5Config::from_json(read_json(golden_path("umt5/masked/config.json")));
  const auto model =
      load_component(open_weights(golden_path("umt5/masked")), "text encoder", {},
                     [&](const Scope& scope) { return std::make_unique<Umt5Encoder>(scope, config, store); });
  const Tensor ids(nullptr, DType::i64, {1, 3}, Device::null);
  const Tensor out(nullptr, DType::f32, {1, 3, config.d_model}, Device::null);
  EXPECT_NO_THROW(model->forward(ids, {}, out, stream));
  stream.precision.activation = DType::bf16;
  EXPECT_THROW(model->forward(ids, {}, out, stream), Error);
}

TEST(Umt5, AMissingTensorIsNamed) {
  const auto source = open_weights(golden_path("umt5/masked"));
  std::vector<TensorSource::Entry> entries(source->entries().begin(), source->entries().end());
  const std::string lost = "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight";
  std::erase_if(entries, [&](const auto& e) { return e.name == lost; });
  const auto damaged = std::make_shared<TensorSource>(entries, source->files());
  ThreadPool pool(1);
  Arena arena;
  Stream stream{.arena = &arena, .pool = &pool};
  nn::ParamStore store({.plan_only = true}, stream);
  const Umt5Config config = Umt5Config::from_json(read_json(golden_path("umt5/masked/config.json")));
  try {
    load_component(damaged, "text encoder", {},
                   [&](const Scope& scope) { return std::make_unique<Umt5Encoder>(scope, config, store); });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::not_found);
    EXPECT_THAT(e.message(), testing::HasSubstr(lost));
  }
}

}  // namespace
}  // namespace tachy
