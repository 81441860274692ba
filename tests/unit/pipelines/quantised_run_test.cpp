// Tests runs of a model whose every matrix and kernel is kept in 8 bits with a scale: they have the bits of
// the same model dequantised to float32 files, including adapters, and take the memory of their plan.
#include <gtest/gtest.h>

#include <deque>

#include "deep_model.h"
#include "host_device.h"
#include "lora_files.h"

namespace tachy {
namespace {

using test::ScratchFolder;

constexpr const char* kParts[] = {"transformer", "text_encoder", "vae"};

// Makes the tiny model twice: with e4m3 codes and one scale per tensor, and with the float32 values that
// these stand for.
struct TwoModels {
  ScratchFolder first, second;
  std::string stored, meant;

  explicit TwoModels(const std::string& from = test::model_path()) {
    const auto copy = [&](const ScratchFolder& scratch) {
      std::filesystem::copy(from, scratch.path / "model", std::filesystem::copy_options::recursive);
      return (scratch.path / "model").string();
    };
    stored = copy(first), meant = copy(second);
    for (const char* part : kParts) write(part);
  }

 private:
  void write(const std::string& part) {
    const auto source =
        open_safetensors(find_weights(std::filesystem::path(stored) / part), FileAccess::read);
    std::deque<std::vector<uint8_t>> codes;
    std::deque<std::vector<float>> values;
    std::vector<NamedTensor> in_8_bits, in_float32;
    for (const auto& entry : source->entries()) {
      const Tensor t(const_cast<void*>(entry.data), entry.dtype, entry.dims);
      if (!entry.name.ends_with(".weight") || entry.dims.size() < 2) {
        in_8_bits.push_back({entry.name, t}), in_float32.push_back({entry.name, t});
        continue;
      }
      auto& wide = values.emplace_back(static_cast<size_t>(t.numel()));
      ThreadPool pool(1);
      nn::convert_weight(t, Tensor(wide.data(), DType::f32, {t.numel()}), pool);
      float most = 0;
      for (const float v : wide) most = std::max(most, std::abs(v));
      auto& scale = values.emplace_back(1, most / 448);
      auto& narrow = codes.emplace_back();
      for (float& v : wide) {
        narrow.push_back(to_f8_e4m3(v / scale[0]).bits);
        v = to_float(f8_e4m3_t{narrow.back()}) * scale[0];
      }
      const std::string layer = entry.name.substr(0, entry.name.size() - std::string("weight").size());
      in_8_bits.push_back({entry.name, Tensor(narrow.data(), DType::f8_e4m3, entry.dims)});
      in_8_bits.push_back({layer + "scale_weight", Tensor(scale.data(), DType::f32, {1})});
      in_float32.push_back({entry.name, Tensor(wide.data(), DType::f32, entry.dims)});
    }
    write_safetensors(find_weights(std::filesystem::path(stored) / part), std::move(in_8_bits));
    write_safetensors(find_weights(std::filesystem::path(meant) / part), std::move(in_float32));
  }
};

VideoRequest request_of(const std::string& lora, const std::string& level = "safe") {
  VideoRequest r = test::short_request();
  r.level = level;
  if (!lora.empty()) r.loras = {lora + ":0.5"}, r.lora_mode = "merge";
  return r;
}

TEST(QuantisedRuns, TheBitsOfTheModelDequantisedBefore) {
  const TwoModels models;
  const std::string lora = test::make_lora(models.meant, models.first, "a.safetensors", 1);
  for (const std::string& adapter : {std::string(), lora})
    for (const char* level : {"none", "safe", "aggressive"})
      for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
        const VideoRequest request = request_of(adapter, level);
        const auto got = test::run(models.stored, request, {.weights = mode});
        const auto want = test::run(models.meant, request, {.weights = mode});
        EXPECT_EQ(got.latents, want.latents) << level << ", " << static_cast<int>(mode) << adapter;
        EXPECT_EQ(got.rgb, want.rgb) << level << ", " << static_cast<int>(mode) << adapter;
      }
}

TEST(QuantisedRuns, PeakIsThePlan) {
  const TwoModels models;
  const std::string lora = test::make_lora(models.meant, models.first, "a.safetensors", 1);
  for (const std::string& adapter : {std::string(), lora})
    for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped})
      for (const int threads : {1, 3}) {
        TextToVideo pipeline(ModelBundle::open(models.stored), {.threads = threads, .weights = mode});
        const VideoRequest request = request_of(adapter);
        const VideoPlan plan = pipeline.plan(request);
        const size_t before = Buffer::live_bytes();
        Buffer::reset_peak();
        test::run(pipeline, request);
        EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes)
            << threads << " threads, " << static_cast<int>(mode) << adapter;
      }
}

// umT5-XXL's table of tokens would take 4 GB, of which a prompt needs a few rows.
TEST(QuantisedRuns, TheTableOfTokensIsNotMadeWhole) {
  const TwoModels models;
  const auto bytes = [](const std::string& model) {
    TextToVideo pipeline(ModelBundle::open(model), {.threads = 2, .weights = WeightMode::mapped});
    return pipeline.plan(test::short_request()).stages.at(0).weight_bytes;
  };
  const ModelBundle meant = ModelBundle::open(models.meant);
  const auto table = static_cast<size_t>(meant.text.vocab_size * meant.text.d_model) * sizeof(float);
  EXPECT_LT(bytes(models.stored), bytes(models.meant) + table / 2);
}

// Kernels are packed as they are read: a decoder in 8 bits keeps no values in addition to what another
// decoder packs.
TEST(QuantisedRuns, KernelsOfTheDecoderAreNotKeptTwice) {
  const TwoModels models;
  const auto bytes = [](const std::string& model) {
    TextToVideo pipeline(ModelBundle::open(model), {.threads = 2});
    return pipeline.plan(test::short_request()).stages.at(2).weight_bytes;
  };
  // The decoder's only layer that is not a kernel is float32 in both.
  EXPECT_LE(bytes(models.stored), bytes(models.meant) + bytes(models.meant) / 100);
}

// On a device, too, the stored weights give the bits of float32 ones if activations are float32: for blocks
// that stay and for blocks that are streamed.
TEST(QuantisedRuns, ADeviceGetsFloat32Values) {
  const TwoModels models(test::deep_model());
  for (const int64_t streamed : {int64_t{0}, int64_t{test::kLayers}}) {
    const auto encoded = [&](const std::string& folder) {
      test::HostDevice device(size_t{1} << 30);
      ThreadPool pool(2);
      return test::encode_streamed(ModelBundle::open(folder), streamed, {.pool = &pool, .memory = &device});
    };
    EXPECT_EQ(encoded(models.stored), encoded(models.meant)) << streamed;
  }
}

}  // namespace
}  // namespace tachy
