// CLIP's vision model is compared with transformers' hidden_states[-2] in float64
// (tests/golden/clip_vision/make.py), under all names that its files use. Configs and processors that make no
// sense are refused.
#include "models/clip_vision/clip_vision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "models/clip_vision/clip_preparation.h"
#include "weights/names/rename.h"

namespace tachy {
namespace {

using nlohmann::json;
using test::golden_path;
using test::GoldenFile;
using testing::HasSubstr;

json config_of(const std::string& name) {
  return read_json(golden_path("clip_vision/" + name + "/config.json"));
}

std::vector<float> encode(const std::shared_ptr<TensorSource>& source, const json& config,
                          const Tensor& pixels, test::PlannedRun& run) {
  const ClipVisionConfig c = ClipVisionConfig::from_json(config);
  std::vector<float> values(static_cast<size_t>(pixels.dim(0) * c.tokens() * c.hidden_size), NAN);
  const Tensor out(values.data(), DType::f32, {pixels.dim(0), c.tokens(), c.hidden_size});
  run([&](Stream& stream, nn::ParamStore& store) {
    const auto model =
        load_component(source, "image encoder", ClipVision::ignorable(c),
                       [&](const Scope& scope) { return std::make_unique<ClipVision>(scope, c, store); });
    model->forward(pixels, out, stream);
  });
  return values;
}

std::shared_ptr<TensorSource> source_of(const std::string& name) {
  return clip_vision_source(open_weights(golden_path("clip_vision/" + name))).source;
}

class ClipGolden : public testing::TestWithParam<std::string> {};

TEST_P(ClipGolden, WithinTheBoundForPackedAndMappedWeights) {
  const GoldenFile golden("clip_vision/" + GetParam() + ".safetensors");
  const Tensor want = golden["image_embeds"];
  for (const bool pack : {true, false}) {
    test::PlannedRun run{.pack = pack};
    std::vector<float> y = encode(source_of(GetParam()), config_of(GetParam()), golden["pixel_values"], run);
    const double error = test::error_of(Tensor(y.data(), DType::f32, want.shape()), want);
    EXPECT_LE(error, golden.bound()) << "pack " << pack;
    RecordProperty(pack ? "packed" : "mapped", fmt::format("{:.2e}", error));
    EXPECT_EQ(run.planned_store, run.store_bytes);
    EXPECT_EQ(run.arena_bytes, run.arena_peak);
  }
}

TEST_P(ClipGolden, BitsDoNotDependOnThreads) {
  const GoldenFile golden("clip_vision/" + GetParam() + ".safetensors");
  test::PlannedRun one{.threads = 1}, three{.threads = 3};
  const Tensor pixels = golden["pixel_values"];
  EXPECT_EQ(encode(source_of(GetParam()), config_of(GetParam()), pixels, one),
            encode(source_of(GetParam()), config_of(GetParam()), pixels, three));
}

INSTANTIATE_TEST_SUITE_P(Cases, ClipGolden, testing::Values("plain", "projected"));

// Gives the model's own tensors in the form of the original's checkpoint.
class OriginalNames {
 public:
  explicit OriginalNames(std::shared_ptr<TensorSource> own) : own_(std::move(own)) {
    for (const auto& [to, from] :
         std::map<std::string, std::string>{{"patch_embedding.weight", "embeddings.patch_embedding.weight"},
                                            {"cls_embedding", "embeddings.class_embedding"},
                                            {"pos_embedding", "embeddings.position_embedding.weight"},
                                            {"pre_norm.weight", "pre_layrnorm.weight"},
                                            {"pre_norm.bias", "pre_layrnorm.bias"}})
      put(to, from);
    for (const int i : {0, 1})
      for (const std::string kind : {"weight", "bias"}) {
        const std::string to = fmt::format("transformer.{}.", i), from = fmt::format("encoder.layers.{}.", i);
        const std::pair<const char*, const char*> pieces[] = {{"norm1.", "layer_norm1."},
                                                              {"norm2.", "layer_norm2."},
                                                              {"attn.proj.", "self_attn.out_proj."},
                                                              {"mlp.0.", "mlp.fc1."},
                                                              {"mlp.2.", "mlp.fc2."}};
        for (const auto& [a, b] : pieces) put(to + a + kind, from + b + kind);
        join(to + "attn.to_qkv." + kind, from + "self_attn.", kind);
      }
    for (auto& entry : entries_) {
      if (entry.name == "cls_embedding") entry.dims.insert(entry.dims.begin(), 2, 1);
      if (entry.name == "pos_embedding") entry.dims.insert(entry.dims.begin(), 1);
    }
  }

  std::shared_ptr<TensorSource> source(const std::string& tower) const {
    std::vector<TensorSource::Entry> entries = entries_;
    for (auto& entry : entries) entry.name = tower + entry.name;
    return std::make_shared<TensorSource>(std::move(entries), own_->files());
  }

 private:
  const TensorSource::Entry& own(const std::string& name) const {
    return *own_->find("vision_model." + name);
  }
  void put(const std::string& to, const std::string& from) {
    entries_.push_back(own(from));
    entries_.back().name = to;
  }
  void join(const std::string& to, const std::string& from, const std::string& kind) {
    auto& bytes = joined_.emplace_back();
    TensorSource::Entry entry = own(from + "q_proj." + kind);
    for (const char* part : {"q_proj.", "k_proj.", "v_proj."}) {
      const auto& one = own(from + part + kind);
      const auto* data = static_cast<const char*>(one.data);
      bytes.insert(bytes.end(), data, data + one.bytes);
    }
    entry.name = to, entry.dims[0] *= 3, entry.bytes *= 3;
    entries_.push_back(entry);
    at_.push_back(entries_.size() - 1);
    for (size_t i = 0; i < at_.size(); ++i) entries_[at_[i]].data = joined_[i].data();
  }

  std::shared_ptr<TensorSource> own_;
  std::vector<TensorSource::Entry> entries_;
  std::vector<std::vector<char>> joined_;
  std::vector<size_t> at_;
};

TEST(ClipVision, TheOriginalsNamesGiveTheSameBits) {
  const GoldenFile golden("clip_vision/plain.safetensors");
  const auto own = source_of("plain");
  const OriginalNames original(own);
  test::PlannedRun run;
  const std::vector<float> want = encode(own, config_of("plain"), golden["pixel_values"], run);
  for (const char* tower : {"visual.", ""}) {
    const NamedSource named = clip_vision_source(original.source(tower));
    EXPECT_TRUE(named.original);
    test::PlannedRun again;
    EXPECT_EQ(encode(named.source, config_of("plain"), golden["pixel_values"], again), want) << tower;
  }
}

TEST(ClipVision, LastLayerIsNeverRead) {
  const auto whole = source_of("plain");
  std::vector<TensorSource::Entry> entries;
  for (const auto& entry : whole->entries())
    if (entry.name.find("layers.2.") == std::string::npos && entry.name.find("post_") == std::string::npos)
      entries.push_back(entry);
  const auto less = std::make_shared<TensorSource>(entries, whole->files());
  const GoldenFile golden("clip_vision/plain.safetensors");
  test::PlannedRun a, b;
  EXPECT_EQ(encode(less, config_of("plain"), golden["pixel_values"], a),
            encode(whole, config_of("plain"), golden["pixel_values"], b));
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

TEST(ClipVision, ConfigsThatMakeNoSenseAreRefused) {
  const auto with = [](const std::string& key, const json& value, ErrorCode code) {
    json config = config_of("plain");
    config[key] = value;
    return refusal([&] { ClipVisionConfig::from_json(config); }, code);
  };
  EXPECT_THAT(with("hidden_size", 25, ErrorCode::corrupt), HasSubstr("num_attention_heads"));
  EXPECT_THAT(with("hidden_size", 0, ErrorCode::corrupt), HasSubstr("hidden_size"));
  EXPECT_THAT(with("hidden_size", int64_t{1} << 40, ErrorCode::corrupt), HasSubstr("hidden_size"));
  EXPECT_THAT(with("num_attention_heads", 0, ErrorCode::corrupt), HasSubstr("num_attention_heads"));
  EXPECT_THAT(with("num_hidden_layers", 0, ErrorCode::corrupt), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(with("num_hidden_layers", "three", ErrorCode::corrupt), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(with("patch_size", 5, ErrorCode::unsupported), HasSubstr("patch_size 5"));
  EXPECT_THAT(with("patch_size", 0, ErrorCode::corrupt), HasSubstr("patch_size"));
  EXPECT_THAT(with("num_channels", 4, ErrorCode::unsupported), HasSubstr("num_channels"));
  EXPECT_THAT(with("layer_norm_eps", -1, ErrorCode::corrupt), HasSubstr("layer_norm_eps"));
  EXPECT_THAT(with("hidden_act", "quick_gelu", ErrorCode::unsupported), HasSubstr("quick_gelu"));
  EXPECT_THAT(with("hidden_act", nullptr, ErrorCode::unsupported), HasSubstr("quick_gelu"));
  json tokens = config_of("plain");
  tokens["image_size"] = 4096, tokens["patch_size"] = 1;
  EXPECT_THAT(refusal([&] { ClipVisionConfig::from_json(tokens); }, ErrorCode::corrupt), HasSubstr("tokens"));
  // The config of a whole CLIPModel contains the vision model's.
  EXPECT_EQ(ClipVisionConfig::from_json({{"vision_config", config_of("plain")}, {"hidden_size", 7}}),
            ClipVisionConfig::from_json(config_of("plain")));
}

TEST(ClipVision, ShapesTellAllButTheHeads) {
  EXPECT_THAT(refusal([] { ClipVisionConfig::from_tensors(*source_of("plain")); }, ErrorCode::not_found),
              testing::AllOf(HasSubstr("heads"), HasSubstr("width 24"), HasSubstr("config.json")));
  const auto shaped = [](int64_t positions) {
    std::vector<TensorSource::Entry> entries;
    const auto add = [&](const char* name, std::vector<int64_t> dims) {
      entries.push_back({.name = name, .name_in_file = name, .dims = std::move(dims), .unusable = {}});
    };
    add("vision_model.embeddings.class_embedding", {1280});
    add("vision_model.embeddings.patch_embedding.weight", {1280, 3, 14, 14});
    add("vision_model.embeddings.position_embedding.weight", {positions, 1280});
    for (int i = 0; i < 32; ++i)
      add(fmt::format("vision_model.encoder.layers.{}.layer_norm1.weight", i).c_str(), {1280});
    add("vision_model.encoder.layers.0.mlp.fc1.weight", {5120, 1280});
    return TensorSource(std::move(entries), {});
  };
  EXPECT_EQ(ClipVisionConfig::from_tensors(shaped(257)), ClipVisionConfig{});
  EXPECT_THAT(refusal([&] { ClipVisionConfig::from_tensors(shaped(256)); }, ErrorCode::corrupt),
              HasSubstr("positions is 256, expected 257"));
  EXPECT_THAT(refusal([&] { ClipVisionConfig::from_tensors(shaped(int64_t{1} << 50)); }, ErrorCode::corrupt),
              HasSubstr("positions"));
  EXPECT_THAT(refusal([&] { ClipVisionConfig::from_tensors(TensorSource({}, {})); }, ErrorCode::not_found),
              HasSubstr("no CLIP vision model"));
}

TEST(ClipVision, ProcessorsSayWhatTheyDoOtherwise) {
  const auto with = [](const json& config) { return clip_preparation(config, 224); };
  EXPECT_EQ(with(json::object()), ClipPreparation{});
  EXPECT_EQ(with({{"size", {{"shortest_edge", 224}}},
                  {"crop_size", {{"height", 224}, {"width", 224}}},
                  {"resample", 3}}),
            ClipPreparation{});
  EXPECT_EQ(with({{"size", 336}}).shortest_edge, 336);
  const auto bad = [&](const json& config, ErrorCode code) { return refusal([&] { with(config); }, code); };
  EXPECT_THAT(bad({{"do_resize", false}}, ErrorCode::unsupported), HasSubstr("do_resize"));
  EXPECT_THAT(bad({{"resample", 2}}, ErrorCode::unsupported), HasSubstr("bicubic"));
  EXPECT_THAT(bad({{"size", {{"height", 224}, {"width", 224}}}}, ErrorCode::unsupported),
              HasSubstr("shortest_edge"));
  EXPECT_THAT(bad({{"size", 100}}, ErrorCode::unsupported), HasSubstr("too small"));
  EXPECT_THAT(bad({{"crop_size", {{"height", 224}, {"width", 200}}}}, ErrorCode::unsupported),
              HasSubstr("square"));
  EXPECT_THAT(bad({{"crop_size", 336}, {"size", 336}}, ErrorCode::corrupt), HasSubstr("image_size 224"));
  EXPECT_THAT(bad({{"image_mean", {0.5, 0.5}}}, ErrorCode::corrupt), HasSubstr("image_mean"));
  EXPECT_THAT(bad({{"image_std", {0.5, 0.0, 0.5}}}, ErrorCode::corrupt), HasSubstr("image_std"));
  EXPECT_THAT(bad({{"image_std", "big"}}, ErrorCode::corrupt), HasSubstr("image_std"));
  EXPECT_THAT(bad({{"size", -3}}, ErrorCode::corrupt), HasSubstr("size"));
}

}  // namespace
}  // namespace tachy
