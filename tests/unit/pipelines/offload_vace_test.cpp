// Tests VACE on a device with too little memory: blocks are streamed with the same results, alone and with an adapter
// that also changes the control's blocks, and the plan counts every byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deep_model.h"
#include "host_device.h"
#include "lora_files.h"

namespace tachy {
namespace {

using test::HostDevice;
using test::kPlenty;

// Returns the folder of a deep model with two control blocks.
const std::string& deep_vace() {
  static const test::ScratchFolder scratch;
  static const std::string path = [] {
    namespace fs = std::filesystem;
    const fs::path own = scratch.path / "own";
    fs::copy(test::model_path(), own, fs::copy_options::recursive);
    fs::remove_all(own / "transformer"), fs::remove(own / "generation_config.json");
    fs::copy(test::golden_path("vace/one"), own,
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    return test::make_deep(scratch.path / "model", test::kLayers, own).string();
  }();
  return path;
}

// Runs a clip that follows random pixels in a random mask, and looks at a picture.
test::Result run_vace(TextToVideo& pipeline, const VideoRequest& request, VideoPlan* plan = nullptr) {
  Resolved r = pipeline.resolved(request);
  std::mt19937 random(5);
  auto pixels = std::make_shared<ClipPixels>();
  const auto count = static_cast<size_t>(r.clip_frames) * static_cast<size_t>(*r.request.width) *
                     static_cast<size_t>(*r.request.height);
  pixels->control.resize(3 * count), pixels->mask.resize(count);
  for (uint8_t& v : pixels->control) v = static_cast<uint8_t>(random());
  for (uint8_t& v : pixels->mask) v = random() % 2 ? 255 : 0;
  pixels->references.emplace_back(3 * count / static_cast<size_t>(r.clip_frames), 0.25f);
  MadeInputs made;
  made.footage = std::move(pixels);
  r.take(std::move(made));
  const TextToVideo::Prepared prepared = pipeline.prepare(std::move(r));
  if (plan) *plan = prepared.plan;
  test::Result out;
  pipeline.generate(prepared, test::collecting(out, {}));
  return out;
}

VideoRequest vace_request() {
  VideoRequest r = test::short_request();
  r.control_video = std::make_shared<Footage>(Footage{"", 8, 8, 0, *r.frames});
  r.mask_video = r.control_video;
  r.reference = std::make_shared<Picture>(Picture{8, 8, std::vector<uint8_t>(192)});
  return r;
}

TextToVideo::Options vace_on(const std::shared_ptr<HostDevice>& device, uint64_t max_vram = 0) {
  return {.threads = 2, .weights = WeightMode::packed, .max_vram = max_vram, .memory = device};
}

TEST(OffloadVace, GivesTheSameBits) {
  const test::ScratchFolder scratch;
  const std::string lora = test::make_lora(deep_vace(), scratch, "a.safetensors", 1);
  for (const bool adapted : {false, true}) {
    VideoRequest request = vace_request();
    if (adapted) request.loras = {lora + ":0.5"}, request.lora_mode = "runtime";
    TextToVideo host(ModelBundle::open(deep_vace()), {.threads = 2, .weights = WeightMode::packed});
    const test::Result plain = run_vace(host, request);
    auto device = std::make_shared<HostDevice>(kPlenty);
    TextToVideo resident(ModelBundle::open(deep_vace()), vace_on(device));
    VideoPlan whole;
    EXPECT_EQ(run_vace(resident, request, &whole).latents, plain.latents);
    EXPECT_EQ(device->copies, 0);
    int64_t streamed = 0;
    for (const uint64_t eighths : {7, 6, 5, 4}) {
      const uint64_t budget = whole.peak_bytes * eighths / 8;
      device = std::make_shared<HostDevice>(kPlenty);
      TextToVideo small(ModelBundle::open(deep_vace()), vace_on(device, budget));
      if (small.plan(request).peak_bytes > budget) break;
      device->reset_peak();
      VideoPlan plan;
      const test::Result result = run_vace(small, request, &plan);
      EXPECT_EQ(result.latents, plain.latents) << budget;
      EXPECT_EQ(result.rgb, plain.rgb) << budget;
      EXPECT_LE(plan.peak_bytes, budget);
      EXPECT_EQ(device->peak_bytes(), plan.peak_bytes) << budget;
      EXPECT_EQ(device->live_bytes(), 0u);
      for (const StagePlan& stage : plan.stages) streamed += stage.streamed;
    }
    EXPECT_GT(streamed, 0) << "no budget needed it: the test's model is too small";
  }
}

}  // namespace
}  // namespace tachy
