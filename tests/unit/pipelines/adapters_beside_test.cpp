// Tests adapters beside other things that a model keeps: cached texts, settings, a device's memory.
#include <gtest/gtest.h>

#include <deque>

#include "experts_model.h"
#include "lora_files.h"
#include "recording_device.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using test::with_loras;

// Makes deltas of 0.1 for these tensors of the tiny model: [key of the adapter, tensor].
std::string make_deltas(const test::ScratchFolder& scratch,
                        const std::vector<std::pair<std::string, const TensorSource::Entry*>>& wanted) {
  std::deque<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  for (const auto& [key, entry] : wanted) {
    int64_t count = 1;
    for (const int64_t d : entry->dims) count *= d;
    auto& v = values.emplace_back(static_cast<size_t>(count), 0.1f);
    tensors.push_back({key, Tensor(v.data(), DType::f32, entry->dims)});
  }
  const auto path = scratch.path / "deltas.safetensors";
  write_safetensors(path, tensors);
  return path.string();
}

// Makes deltas for a norm of the text encoder and for a table of the transformer: both are kept as copies,
// not as products.
std::string deltas_of_both(const test::ScratchFolder& scratch) {
  static const ModelBundle model = ModelBundle::open(test::model_path());
  return make_deltas(
      scratch, {{"text_encoder.encoder.block.0.layer.0.layer_norm.diff",
                 model.text_encoder->find("encoder.block.0.layer.0.layer_norm.weight")},
                {"diffusion_model.blocks.0.diff_m", model.transformer->find("blocks.0.scale_shift_table")}});
}

// Cached texts belong to the model's own encoder.
TEST(AdaptersBeside, CachedTextsAreNotTakenForAnotherEncoder) {
  const test::ScratchFolder scratch;
  const std::string cache = (scratch.path / "cache").string();
  const VideoRequest adapted = with_loras({deltas_of_both(scratch)}, "merge");
  const auto own = test::run(test::model_path(), with_loras({}, "auto"), {.text_cache = cache});
  const auto want = test::run(test::model_path(), adapted);
  EXPECT_NE(want.latents, own.latents);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(test::run(test::model_path(), adapted, {.text_cache = cache}).latents, want.latents);
    EXPECT_EQ(test::run(test::model_path(), with_loras({}, "auto"), {.text_cache = cache}).latents,
              own.latents);
  }
}

// Merged and added adapters round differently, so "auto" alone would not repeat a run.
TEST(AdaptersBeside, SettingsSayWhatAutoCameTo) {
  const test::ScratchFolder scratch;
  const VideoRequest adapted = with_loras({deltas_of_both(scratch)}, "auto");
  for (const bool keeps : {false, true}) {
    TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 1, .keep_loaded = keeps});
    EXPECT_EQ(pipeline.resolved(adapted).request.lora_mode, keeps ? "runtime" : "merge");
    EXPECT_EQ(pipeline.resolved(with_loras({}, "auto")).request.lora_mode, "auto");
  }
}

// Memory that is used on the host, for work on the way to a device, does not count as the device's.
TEST(AdaptersBeside, ThePlanOfADeviceCountsItsMemoryAlone) {
  const test::ScratchFolder scratch;
  const VideoRequest adapted = with_loras({deltas_of_both(scratch)}, "merge");
  const auto device = std::make_shared<test::HostDevice>(size_t{1} << 30);
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = 2, .weights = WeightMode::packed, .memory = device});
  const VideoPlan plan = pipeline.plan(adapted);
  device->reset_peak();
  const auto there = test::run(pipeline, adapted);
  EXPECT_EQ(device->peak_bytes(), plan.peak_bytes);
  EXPECT_EQ(there.latents, test::run(test::model_path(), adapted, {.weights = WeightMode::packed}).latents);
}

// If a model stays loaded, new adapters take the places of the previous ones: a recorded step computes with
// whatever is there, so that other files and other strengths need no new recording.
TEST(AdaptersBeside, OtherAdaptersTakeThePlaceOfTheOnesBefore) {
  const test::ScratchFolder scratch;
  const auto folder = test::model_copy(scratch);
  test::make_two_experts(folder);
  const std::string a = test::make_lora(folder, scratch, "a.safetensors", 1),
                    b = test::make_lora(folder, scratch, "b.safetensors", 2);
  const auto device = std::make_shared<test::RecordingDevice>(size_t{1} << 30);
  TextToVideo kept(ModelBundle::open(folder),
                   {.threads = 2, .weights = WeightMode::packed, .keep_loaded = true, .memory = device});
  uint64_t planned = 0;
  const auto check = [&](std::vector<std::string> loras, int captured) {
    for (std::string& lora : loras) lora += "@both";
    VideoRequest request = with_loras(std::move(loras), "runtime");
    request.steps = 12;
    planned = std::max(planned, kept.plan(request).peak_bytes);
    EXPECT_EQ(test::run(kept, request).latents,
              test::run(folder, request, {.weights = WeightMode::packed}).latents);
    EXPECT_EQ(kept.counters().captured, captured);
    EXPECT_LE(device->peak_bytes(), planned);
  };
  check({a}, 2);
  check({b}, 2);
  check({b + ":0.25"}, 2);
  check({a + ":-1"}, 2);
  check({a, b}, 2);  // together they have rank 6, which fits the place of rank 3
  check({a + ":0.5", b + ":2"}, 2);
  check({}, 4);
  check({a}, 6);
}

}  // namespace
}  // namespace tachy
