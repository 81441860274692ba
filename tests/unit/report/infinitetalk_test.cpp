// The transformer with InfiniteTalk's audio branch is compared with the results of InfiniteTalk's own code
// for the same random weights and inputs, with one speaker and with two (tests/golden/infinitetalk, by
// tools/golden/make_infinitetalk.py). Weights and inputs are not stored: both are drawn again from the seeds
// in the golden file.
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../pipelines/tiny_model.h"
#include "report/stage.h"
#include "tensor/random.h"

namespace tachy {
namespace {

using nlohmann::json;

class InfiniteTalk : public testing::Test {
 protected:
  void SetUp() override {
    uint64_t seed = 0;
    for (const json& row : golden_.at("tensors")) {
      const auto dims = row.at(1).get<std::vector<int64_t>>();
      int64_t count = 1;
      for (const int64_t d : dims) count *= d;
      std::vector<float>& values = storage_.emplace_back(static_cast<size_t>(count));
      TorchCpuGenerator(seed++).normal(values);
      for (float& v : values) v = row.at(2).get<float>() + row.at(3).get<float>() * v;
      const auto name = row.at(0).get<std::string>();
      tensors_.emplace(name, Tensor(values.data(), DType::f32, std::span<const int64_t>(dims)));
    }
    std::vector<NamedTensor> base, branch;
    for (const auto& [name, tensor] : tensors_) {
      const bool audio = name.starts_with("audio_proj.") || name.find(".audio_cross_attn.") != name.npos ||
                         name.find(".norm_x.") != name.npos;
      if (!name.starts_with("input.")) (audio ? branch : base).push_back({name, tensor});
    }
    std::filesystem::create_directories(scratch_.path / "model");
    write_safetensors(scratch_.path / "model/diffusion_pytorch_model.safetensors", std::move(base));
    write_safetensors(scratch_.path / "infinitetalk.safetensors", std::move(branch));
    json config = golden_.at("config");
    config["_class_name"] = "WanModel";
    std::ofstream(scratch_.path / "model/config.json") << config.dump();
  }

  // Returns an input of the stage with that shape, containing the tensors' values one after another.
  Tensor input(std::initializer_list<int64_t> dims, std::initializer_list<Tensor> parts) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    std::vector<float>& values = storage_.emplace_back();
    for (const Tensor& part : parts)
      values.insert(values.end(), part.as<float>(), part.as<float>() + part.numel());
    values.resize(static_cast<size_t>(count));  // the rest are zeros
    return Tensor(values.data(), DType::f32, dims);
  }

  double error_of_sample(int speakers) {
    const Tensor x = tensors_.at("input.latents"), text = tensors_.at("input.context"),
                 states = tensors_.at("input.states");
    const int64_t t = x.dim(1), h = x.dim(2), w = x.dim(3), clip = states.dim(1);
    std::vector<float> masks;
    for (const json& mask : golden_.at("masks"))
      for (const json& row : mask)
        for (const json& v : row) masks.push_back(v.get<float>());
    int64_t start = golden_.at("start").get<int64_t>();
    float time = golden_.at("timestep").get<float>();
    std::vector<NamedTensor> given = {{"hidden_states", input({1, 36, t, h, w}, {x, tensors_.at("input.y")})},
                                      {"encoder_hidden_states", input({1, 512, text.dim(1)}, {text})},
                                      {"encoder_hidden_states_image", tensors_.at("input.clip")},
                                      {"timestep", Tensor(&time, DType::f32, {1})},
                                      {"audio_start", Tensor(&start, DType::i64, {1})}};
    if (speakers == 2) {
      given.push_back({"audio_embeds", states.view({1, 2, clip, 12, 768})});
      given.push_back({"speaker_masks", Tensor(masks.data(), DType::f32, {3, h / 2, w / 2})});
    } else {
      given.push_back({"audio_embeds", states.slice(0, 0, 1)});
    }
    const auto in = scratch_.path / "in.safetensors", out = scratch_.path / "out.safetensors";
    write_safetensors(in, std::move(given));
    StageRequest request{.name = "transformer", .model = scratch_.path / "model", .input = in, .out = out};
    request.infinitetalk = scratch_.path / "infinitetalk.safetensors";
    request.device = "cpu", request.threads = 2;
    run_stage(request);
    const Scope made(open_weights(out));
    const Tensor want = samples_[fmt::format("sample_{}", speakers)];
    const Tensor got = made.tensor("sample", {1, want.dim(0), t, h, w});
    return test::error_of(got.view({want.dim(0), t, h, w}), want);
  }

  // InfiniteTalk's code computes in float32. Its own error, found by a restatement in float64, is stored in
  // the file, and ours may be three times as large.
  double bound(int speakers) const {
    return 4 * golden_.at("about").at("restatement").at(static_cast<size_t>(speakers - 1)).get<double>();
  }

  json golden_ = read_json(test::golden_path("infinitetalk/golden.json"));
  test::GoldenFile samples_{"infinitetalk/golden.safetensors"};
  test::ScratchFolder scratch_;
  std::deque<std::vector<float>> storage_;
  std::map<std::string, Tensor> tensors_;
};

TEST_F(InfiniteTalk, OneSpeakerIsAsInItsOwnCode) {
  const double error = error_of_sample(1);
  RecordProperty("error", fmt::format("{:.2e}", error));
  EXPECT_LE(error, bound(1));
}

TEST_F(InfiniteTalk, TwoSpeakersAreAsInItsOwnCode) {
  ASSERT_GT(golden_.at("about").at("closest_tie").get<double>(), 1e-5);  // with a closer tie rounding could
                                                                         // decide
  ASSERT_GT(golden_.at("about").at("second_speaker_moves").get<double>(), 0.1);
  const double error = error_of_sample(2);
  RecordProperty("error", fmt::format("{:.2e}", error));
  EXPECT_LE(error, bound(2));
}

}  // namespace
}  // namespace tachy
