// wav2vec2 is compared with transformers' layers in float64 (tests/golden/wav2vec2/make.py), under all names
// that its files use. Clips that are too short, and configs that make no sense, are refused.
#include "models/wav2vec2/wav2vec2.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>

#include "golden.h"
#include "weights/names/rename.h"

namespace tachy {
namespace {

using nlohmann::json;
using test::golden_path;
using test::GoldenFile;
using testing::HasSubstr;

json config_of(const std::string& name) {
  return read_json(golden_path("wav2vec2/" + name + "/config.json"));
}

std::shared_ptr<TensorSource> file_of(const std::string& name) {
  return open_weights(golden_path("wav2vec2/" + name));
}

std::vector<float> encode(const std::shared_ptr<TensorSource>& file, const json& config,
                          const Tensor& samples, int64_t frames, test::PlannedRun& run) {
  const auto source = wav2vec2_source(file);
  const Wav2Vec2Config c = Wav2Vec2Config::from_json(config);
  std::vector<float> values(static_cast<size_t>(frames * c.num_layers * c.hidden_size), NAN);
  const Tensor out(values.data(), DType::f32, {frames, c.num_layers, c.hidden_size});
  run([&](Stream& stream, nn::ParamStore& store) {
    const auto model =
        load_component(source, "audio encoder", Wav2Vec2::ignorable(),
                       [&](const Scope& scope) { return std::make_unique<Wav2Vec2>(scope, c, store); });
    model->forward(samples, out, stream);
  });
  return values;
}

struct Case {
  std::string name;
  int64_t frames;
};
class Wav2Vec2Golden : public testing::TestWithParam<Case> {
 protected:
  std::string name() const { return GetParam().name; }
  int64_t frames() const { return GetParam().frames; }
  const GoldenFile golden{"wav2vec2/" + name() + ".safetensors"};
  const Tensor samples = golden["input_values"];
  const Tensor want = golden[fmt::format("hidden_states_{}", frames())];
};

TEST_P(Wav2Vec2Golden, WithinTheBoundForPackedAndMappedWeights) {
  for (const bool pack : {true, false}) {
    test::PlannedRun run{.pack = pack};
    std::vector<float> y = encode(file_of(name()), config_of(name()), samples, frames(), run);
    const double error = test::error_of(Tensor(y.data(), DType::f32, want.shape()), want);
    EXPECT_LE(error, golden.bound()) << "pack " << pack;
    RecordProperty(pack ? "packed" : "mapped", fmt::format("{:.2e}", error));
    EXPECT_EQ(run.planned_store, run.store_bytes);
    EXPECT_EQ(run.arena_bytes, run.arena_peak);
  }
}

TEST_P(Wav2Vec2Golden, BitsDoNotDependOnThreads) {
  test::PlannedRun one{.threads = 1}, three{.threads = 3};
  EXPECT_EQ(encode(file_of(name()), config_of(name()), samples, frames(), one),
            encode(file_of(name()), config_of(name()), samples, frames(), three));
}

INSTANTIATE_TEST_SUITE_P(Cases, Wav2Vec2Golden,
                         testing::Values(Case{"base", 14}, Case{"base", 1}, Case{"base", 61},
                                         Case{"large", 10}));

// Returns a file's entries under other names; an empty name leaves one out.
std::shared_ptr<TensorSource> with_names(const std::shared_ptr<TensorSource>& file,
                                         const std::function<std::string(std::string)>& rename) {
  std::vector<TensorSource::Entry> entries;
  for (TensorSource::Entry entry : file->entries()) {
    entry.name = rename(entry.name);
    if (!entry.name.empty()) entries.push_back(std::move(entry));
  }
  return std::make_shared<TensorSource>(std::move(entries), file->files());
}

std::string older(std::string name) {
  for (const auto& [to, from] : {std::pair{"weight_g", "parametrizations.weight.original0"},
                                 std::pair{"weight_v", "parametrizations.weight.original1"}})
    if (const size_t at = name.find(from); at != name.npos) name = name.substr(0, at) + to;
  return name;
}

TEST(Wav2Vec2, OlderNamesAndThoseOfWholeModelsGiveTheSameBits) {
  const GoldenFile golden("wav2vec2/base.safetensors");
  const auto file = file_of("base");
  test::PlannedRun run;
  const Tensor samples = golden["input_values"];
  const std::vector<float> want = encode(file, config_of("base"), samples, 14, run);
  for (const auto& source : {with_names(file, older), with_names(file, [](const std::string& name) {
                               return name == "masked_spec_embed" ? "quantizer.codevectors"
                                                                  : "wav2vec2." + older(name);
                             })}) {
    test::PlannedRun again;
    EXPECT_EQ(encode(source, config_of("base"), samples, 14, again), want);
  }
}

// Matrices and kernels in 8-bit floats without scales stand for their float32 values.
TEST(Wav2Vec2, EightBitFloatsAreTheirValues) {
  const GoldenFile golden("wav2vec2/base.safetensors");
  const auto file = file_of("base");
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    std::deque<std::vector<uint8_t>> codes;
    std::deque<std::vector<float>> values;
    std::vector<TensorSource::Entry> narrow(file->entries().begin(), file->entries().end()), wide = narrow;
    for (size_t i = 0; i < wide.size(); ++i) {
      if (wide[i].dims.size() < 2 || wide[i].dtype != DType::f32) continue;
      auto& meant = values.emplace_back(wide[i].bytes / sizeof(float));
      std::memcpy(meant.data(), wide[i].data, wide[i].bytes);
      auto& bits = codes.emplace_back();
      for (float& v : meant) {
        const bool e4m3 = dtype == DType::f8_e4m3;
        bits.push_back(e4m3 ? to_f8_e4m3(v).bits : to_f8_e5m2(v).bits);
        v = e4m3 ? to_float(f8_e4m3_t{bits.back()}) : to_float(f8_e5m2_t{bits.back()});
      }
      narrow[i].dtype = dtype, narrow[i].data = bits.data(), narrow[i].bytes = bits.size();
      wide[i].data = meant.data();
    }
    ASSERT_FALSE(codes.empty());
    for (const bool pack : {true, false}) {
      test::PlannedRun a{.pack = pack}, b{.pack = pack};
      const auto encoded = [&](const std::vector<TensorSource::Entry>& entries, test::PlannedRun& run) {
        return encode(std::make_shared<TensorSource>(entries, file->files()), config_of("base"),
                      golden["input_values"], 14, run);
      };
      EXPECT_EQ(encoded(narrow, a), encoded(wide, b)) << dtype_name(dtype) << ", pack " << pack;
    }
  }
}

// The tensors of the head and of the masks may be missing; all others must be there.
TEST(Wav2Vec2, ReadsNothingBehindTheLayers) {
  const GoldenFile golden("wav2vec2/large.safetensors");
  const auto file = file_of("large");
  const auto headless = with_names(file, [](const std::string& name) {
    return name.find("lm_head") != name.npos || name.find("masked") != name.npos ? "" : name;
  });
  ASSERT_LT(headless->entries().size(), file->entries().size());
  test::PlannedRun a, b;
  EXPECT_EQ(encode(headless, config_of("large"), golden["input_values"], 10, a),
            encode(file, config_of("large"), golden["input_values"], 10, b));
  const auto less = with_names(
      file, [](const std::string& name) { return name.ends_with("conv_layers.3.conv.weight") ? "" : name; });
  test::PlannedRun c;
  EXPECT_THROW(encode(less, config_of("large"), golden["input_values"], 10, c), Error);
}

// A clip has several pieces: its states must not depend on where pieces end. The same samples give the same
// vectors wherever they are in a clip, if no norm looks at all of it.
TEST(Wav2Vec2, PiecesOfALongClipFitTogether) {
  Wav2Vec2Config c = Wav2Vec2Config::from_json(config_of("large"));
  const auto source = wav2vec2_source(file_of("large"));
  const int64_t count = 320 * 600 + 123, shift = 320 * 100;
  std::vector<float> samples(static_cast<size_t>(count));
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i] = std::sin(0.031f * static_cast<float>(i)) * std::cos(1e-4f * static_cast<float>(i));
  const auto vectors = [&](int64_t first) {
    const Tensor clip(samples.data() + first, DType::f32, {count - first});
    std::vector<float> values(static_cast<size_t>(c.vectors(count - first) * c.features()), NAN);
    test::PlannedRun run;
    run([&](Stream& stream, nn::ParamStore& store) {
      const Wav2Vec2Features features(Scope(source).sub("feature_extractor"), c, store);
      features.forward(clip, Tensor(values.data(), DType::f32, {c.vectors(count - first), c.features()}),
                       stream);
    });
    return values;
  };
  const std::vector<float> whole = vectors(0), later = vectors(shift);
  const auto skipped = static_cast<std::ptrdiff_t>(shift / 320 * c.features());
  EXPECT_EQ(std::vector<float>(whole.begin() + skipped, whole.end()), later);
  EXPECT_GT(c.vectors(count), 512);
}

// A clip's group norm cancels a gain except for its eps, which matters for a quiet clip.
TEST(Wav2Vec2, AQuieterClipIsNotTheSame) {
  const GoldenFile golden("wav2vec2/base.safetensors");
  const Tensor samples = golden["input_values"];
  std::vector<float> quiet(samples.as<float>(), samples.as<float>() + samples.numel());
  for (float& v : quiet) v *= 0.03f;
  test::PlannedRun a, b;
  std::vector<float> loud = encode(file_of("base"), config_of("base"), samples, 14, a);
  std::vector<float> soft =
      encode(file_of("base"), config_of("base"), Tensor(quiet.data(), DType::f32, samples.shape()), 14, b);
  const Tensor x(loud.data(), DType::f32, {14, 3, 24}), y(soft.data(), DType::f32, {14, 3, 24});
  EXPECT_GT(test::error_of(y, x), 0.1);
}

std::string refusal(const std::function<void()>& body, ErrorCode code) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message();
  }
  return "accepted";
}

TEST(Wav2Vec2, ClipsThatAreTooShortAreRefused) {
  const Wav2Vec2Config c;
  EXPECT_EQ(c.least_samples(), 400);
  EXPECT_EQ(c.vectors(399), 0);
  EXPECT_EQ(c.vectors(400), 1);
  EXPECT_EQ(c.vectors(51840), 161);
  EXPECT_EQ(c.vectors(80000), 249);
  EXPECT_EQ(c.vectors(160000), 499);
  std::vector<float> samples(400, 0.1f);
  test::PlannedRun run;
  for (const int64_t n : {0, 399})
    EXPECT_THAT(refusal(
                    [&] {
                      encode(file_of("base"), config_of("base"), Tensor(samples.data(), DType::f32, {n}), 3,
                             run);
                    },
                    ErrorCode::invalid_argument),
                HasSubstr("at least 400"));
  const std::vector<float> y =
      encode(file_of("base"), config_of("base"), Tensor(samples.data(), DType::f32, {400}), 3, run);
  for (const float v : y) EXPECT_TRUE(std::isfinite(v));
}

TEST(Wav2Vec2, ConfigsThatMakeNoSenseAreRefused) {
  const auto with = [](const std::string& key, const json& value, ErrorCode code) {
    json config = config_of("base");
    config[key] = value;
    return refusal([&] { Wav2Vec2Config::from_json(config); }, code);
  };
  EXPECT_EQ(Wav2Vec2Config::from_json(json::object()), Wav2Vec2Config{});
  EXPECT_THAT(with("hidden_size", 25, ErrorCode::corrupt), HasSubstr("num_attention_heads"));
  EXPECT_THAT(with("num_conv_pos_embedding_groups", 5, ErrorCode::corrupt),
              HasSubstr("num_conv_pos_embedding_groups"));
  EXPECT_THAT(with("hidden_size", 0, ErrorCode::corrupt), HasSubstr("hidden_size"));
  EXPECT_THAT(with("num_hidden_layers", -1, ErrorCode::corrupt), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(with("conv_dim", {1, 2}, ErrorCode::corrupt), HasSubstr("2 conv_dim, 7 conv_kernel"));
  EXPECT_THAT(with("conv_dim", json::array(), ErrorCode::corrupt), HasSubstr("0 conv_dim"));
  EXPECT_THAT(with("conv_kernel", {10, 3, 3, 0, 3, 2, 2}, ErrorCode::corrupt), HasSubstr("conv_kernel"));
  EXPECT_THAT(with("conv_stride", {1000, 1000, 1000, 1000, 1000, 1000, 1000}, ErrorCode::corrupt),
              HasSubstr("conv_stride"));
  EXPECT_THAT(with("conv_stride", "five", ErrorCode::corrupt), HasSubstr("conv_stride"));
  EXPECT_THAT(with("feat_extract_norm", "batch", ErrorCode::unsupported), HasSubstr("batch"));
  EXPECT_THAT(with("feat_extract_activation", "relu", ErrorCode::unsupported),
              HasSubstr("feat_extract_activation 'relu'"));
  EXPECT_THAT(with("hidden_act", "silu", ErrorCode::unsupported), HasSubstr("hidden_act 'silu'"));
  EXPECT_THAT(with("model_type", "hubert", ErrorCode::unsupported), HasSubstr("hubert"));
  EXPECT_THAT(with("adapter_attn_dim", 16, ErrorCode::unsupported), HasSubstr("adapter_attn_dim"));
}

TEST(Wav2Vec2, ShapesTellAllButHeadsAndStrides) {
  EXPECT_THAT(
      refusal([] { Wav2Vec2Config::from_tensors(*wav2vec2_source(file_of("base"))); }, ErrorCode::not_found),
      testing::AllOf(HasSubstr("heads"), HasSubstr("width 24"), HasSubstr("config.json")));
  const auto shaped = [](int64_t width, bool large, int64_t kernel = 10) {
    std::vector<TensorSource::Entry> entries;
    const auto add = [&](const std::string& name, std::vector<int64_t> dims) {
      entries.push_back({.name = name, .name_in_file = name, .dims = std::move(dims), .unusable = {}});
    };
    const int64_t kernels[] = {kernel, 3, 3, 3, 3, 2, 2};
    for (int i = 0; i < 7; ++i) {
      const std::string layer = fmt::format("feature_extractor.conv_layers.{}.", i);
      add(layer + "conv.weight", {512, i ? 512 : 1, kernels[i]});
      if (large) add(layer + "conv.bias", {512});
      if (large || i == 0) add(layer + "layer_norm.weight", {512});
    }
    add("encoder.pos_conv_embed.conv.bias", {width});
    add("encoder.pos_conv_embed.conv.weight_v", {width, width / 16, 128});
    for (int i = 0; i < (large ? 24 : 12); ++i)
      add(fmt::format("encoder.layers.{}.layer_norm.weight", i), {width});
    add("encoder.layers.0.feed_forward.intermediate_dense.weight", {4 * width, width});
    return Wav2Vec2Config::from_tensors(*wav2vec2_source(std::make_shared<TensorSource>(
        std::move(entries), std::vector<std::shared_ptr<const MappedFile>>{})));
  };
  EXPECT_EQ(shaped(768, false), Wav2Vec2Config{});
  const Wav2Vec2Config large = shaped(1024, true);
  EXPECT_EQ(large.num_heads, 16);
  EXPECT_EQ(large.num_layers, 24);
  EXPECT_TRUE(large.conv_bias && large.layer_features && large.norm_first);
  EXPECT_THAT(refusal([&] { shaped(768, false, 11); }, ErrorCode::not_found),
              HasSubstr("11, 3, 3, 3, 3, 2, 2"));
  EXPECT_THAT(refusal([] { Wav2Vec2Config::from_tensors(TensorSource({}, {})); }, ErrorCode::not_found),
              HasSubstr("no wav2vec2"));
}

}  // namespace
}  // namespace tachy
