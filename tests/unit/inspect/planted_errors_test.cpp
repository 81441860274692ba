// Errors as large as a kernel's mistake are planted into the weights of the shipped transformer for one side
// alone: the bounds by which `validate` compares a model with its definitions must find them.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>

#include "inspect/model_checks.h"
#include "inspect/temporary_folder.h"
#include "report/stage.h"
#include "tensor/random.h"
#include "weights/entry_values.h"
#include "weights/safetensors.h"

namespace tachy {
namespace {

namespace fs = std::filesystem;
using Weights = std::map<std::string, std::vector<float>>;
using Plant = std::function<void(Weights&)>;

const fs::path kTransformer = fs::path(TACHY_SOURCE_DIR) / "models/sprites/transformer";
constexpr int64_t kHead = 128, kWidth = 384;

class PlantedErrors : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!fs::exists(kTransformer / "config.json")) GTEST_SKIP() << "the shipped model is not here";
    std::vector<NamedTensor> inputs;
    for (const auto& [name, dims] :
         {std::pair<const char*, std::vector<int64_t>>{"hidden_states", {1, 16, 2, 8, 8}},
          {"encoder_hidden_states", {1, 8, 192}}}) {
      auto& values = inputs_.emplace_back();
      int64_t count = 1;
      for (const int64_t d : dims) count *= d;
      values.resize(static_cast<size_t>(count));
      TorchCpuGenerator(inputs_.size()).normal(values);
      inputs.push_back({name, Tensor(values.data(), DType::f32, std::span<const int64_t>(dims))});
    }
    auto& timestep = inputs_.emplace_back(1, 400.0f);
    inputs.push_back({"timestep", Tensor(timestep.data(), DType::f32, {1})});
    write_safetensors(folder_.path() / "in.safetensors", std::move(inputs));
  }

  // Returns the transformer's output with these weights at a level.
  TensorFile::Values run(const Plant& plant, const std::string& level, const std::string& dtype = "") {
    const fs::path model = folder_.path() / "model";
    fs::create_directories(model);
    fs::copy_file(kTransformer / "config.json", model / "config.json", fs::copy_options::overwrite_existing);
    const auto source = open_weights(kTransformer / "diffusion_pytorch_model.safetensors");
    Weights weights;
    for (const auto& entry : source->entries()) {
      auto& values = weights[entry.name];
      values.resize(static_cast<size_t>(value_count(entry)));
      entry_values(entry, 0, values);
    }
    if (plant) plant(weights);
    std::vector<NamedTensor> tensors;
    for (const auto& entry : source->entries())
      tensors.push_back(
          {entry.name, Tensor(weights[entry.name].data(), DType::f32, std::span<const int64_t>(entry.dims))});
    write_safetensors(model / "diffusion_pytorch_model.safetensors", std::move(tensors));
    StageRequest request{.name = "transformer", .model = model};
    request.input = folder_.path() / "in.safetensors", request.out = folder_.path() / "out.safetensors";
    request.level = level, request.dtype = dtype, request.threads = 2, request.pack_weights = level != "none";
    run_stage(request);
    return TensorFile(request.out).read("sample");
  }

  bool found(const char* what, const Plant& plant) {
    if (definitions_.data.empty()) definitions_ = run({}, "none", "f32"), rounded_ = run({}, "none", "bf16");
    Check check;
    compare_with_definitions(run(plant, GetParam()), definitions_, &rounded_, low(), check);
    fmt::print("{}, {}: max {:.1e}, mean {:.1e}; {}\n", GetParam(), what, check.max, check.mean,
               check.detail);
    return !check.ok;
  }
  static bool low() { return std::string(GetParam()) == "aggressive"; }

  TensorFile::Values definitions_, rounded_;
  TemporaryFolder folder_;
  std::deque<std::vector<float>> inputs_;
};

TEST_P(PlantedErrors, AreFound) {
  EXPECT_FALSE(found("nothing", {}));
  EXPECT_TRUE(found("two heads' values change places in one block", [](Weights& w) {
    auto& v = w["blocks.3.attn1.to_v.weight"];
    std::swap_ranges(v.begin(), v.begin() + kHead * kWidth, v.begin() + kHead * kWidth);
  }));
  EXPECT_TRUE(found("one bias of the head is its neighbour's", [](Weights& w) {
    auto& bias = w["proj_out.bias"];
    bias[7] = bias[8];
  }));
  EXPECT_TRUE(found("the head's products are 1.01 times too large", [](Weights& w) {
    for (float& v : w["proj_out.weight"]) v *= 1.01f;
  }));
}

// An error this small is a tenth of bf16's own rounding, so only float32 shows it. In 16 bits the cases of
// each op find such errors.
TEST_P(PlantedErrors, OfOneLayerAreFoundInFloat32) {
  EXPECT_EQ(found("one bias of a layer within is its neighbour's",
                  [](Weights& w) {
                    auto& bias = w["blocks.3.ffn.net.2.bias"];
                    bias[7] = bias[8];
                  }),
            !low());
  EXPECT_EQ(found("a layer's products are 1.01 times too large",
                  [](Weights& w) {
                    for (float& v : w["blocks.3.attn1.to_out.0.weight"]) v *= 1.01f;
                  }),
            !low());
  EXPECT_EQ(found("all scores are 1.01 times too large",
                  [](Weights& w) {
                    for (auto& [name, values] : w)
                      if (name.ends_with("attn1.norm_q.weight"))
                        for (float& v : values) v *= 1.01f;
                  }),
            !low());
}

INSTANTIATE_TEST_SUITE_P(Levels, PlantedErrors, testing::Values("safe", "aggressive"));

}  // namespace
}  // namespace tachy
