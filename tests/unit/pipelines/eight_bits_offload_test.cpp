// Tests linear layers in 8 bits together with other features of a run: blocks that are streamed through a
// device's memory, adapters merged and added, two experts. The bits are those of a run on the CPU with
// everything in memory, and the plan is exact.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../nn/nn_case.h"
#include "deep_model.h"
#include "host_device.h"
#include "lora_files.h"
#include "nn/linear.h"

namespace tachy::test {
namespace {

constexpr int64_t kIn = 64, kOut = 300, kBlocks = 4;  // no piece of an upload cuts a row of codes

// Counts the rows that it makes.
class Counting final : public DerivedTensor {
 public:
  Counting(const TensorSource::Entry& entry, std::atomic<int64_t>& made) : values_(entry), made_(made) {}
  std::string_view encoding() const override { return "counted"; }
  void decode(int64_t first, const Tensor& rows) const override {
    made_ += rows.dim(0);
    values_.decode(first, rows);
  }

 private:
  MadeValues values_;
  std::atomic<int64_t>& made_;
};

std::vector<float> product_of(const nn::Linear& linear, const std::vector<float>& x, Stream& stream) {
  const auto rows = static_cast<int64_t>(x.size()) / kIn;
  const Buffer from(x.size() * 4, stream.memory), to(static_cast<size_t>(rows * kOut) * 4, stream.memory);
  std::memcpy(from.data(), x.data(), x.size() * 4);
  const Tensor y = to.tensor(DType::f32, {rows, kOut});
  linear(from.tensor(DType::f32, {rows, kIn}), y, stream);
  return {y.as<float>(), y.as<float>() + y.numel()};
}

// Codes and scales are two tensors, but a row's values are made once for both; a slot receives the same as a
// layer on the host.
TEST(EightBitsOnADevice, EachRowOfAWeightIsMadeOnce) {
  std::atomic<int64_t> made{0};
  RandomFile file;
  for (int64_t i = 0; i < kBlocks; ++i) {
    file.add_linear(fmt::format("blocks.{}", i), kIn, kOut);
    TensorSource::Entry& weight = file.entries[static_cast<size_t>(2 * i)];
    weight.derived = std::make_shared<Counting>(weight, made);
  }
  const Scope scope = file.scope();
  const auto build = [&](nn::ParamStore& to, int64_t i) {
    return nn::Linear(scope.sub(fmt::format("blocks.{}", i)), to, kIn, kOut);
  };
  const auto all = [](std::string_view) { return true; };
  const auto x = HostRun::rows(7, kIn);
  for (const Products products : {Products::e4m3, Products::int8})
    for (const int64_t streamed : {0, 3}) {
      HostRun host;
      host.stream.precision.products = products;
      nn::ParamStore own({}, host.stream);
      own.set_eight_bits(all);
      HostDevice device(size_t{1} << 26);
      Arena arena(size_t{1} << 20, &device);
      Stream stream{
          .arena = &arena, .pool = &host.pool, .memory = &device, .precision = {.products = products}};
      nn::ParamStore store({.streamed = streamed}, stream);
      store.set_eight_bits(all);
      made = 0;
      const auto blocks = store.stream_blocks(kBlocks, build);
      EXPECT_EQ(made, 0) << "a plan reads nothing";
      std::vector<nn::Linear> layers;
      for (int64_t i = 0; i < kBlocks; ++i) {
        nn::ParamStore::BlockScope block(store, i);
        layers.push_back(build(store, i));
        EXPECT_STREQ(layers.back().form(), products == Products::int8 ? "int8" : "fp8");
        block.done();
      }
      EXPECT_EQ(made, kBlocks * kOut) << "streamed " << streamed;
      for (int64_t i = 0; i < kBlocks; ++i) {
        if (blocks) blocks->enter(i);
        EXPECT_EQ(product_of(layers[static_cast<size_t>(i)], x, stream),
                  product_of(build(own, i), x, host.stream))
            << layers.back().form() << ", block " << i << ", streamed " << streamed;
        if (blocks) blocks->leave(i);
      }
    }
}

// Weights of plain 8-bit floats, without scales, are widened on their way to a device that multiplies wider
// ones.
TEST(EightBitsOnADevice, PlainFloat8IsWidenedOnItsWay) {
  RandomFile file;
  file.add_linear("layer", kIn, kOut);
  std::vector<uint8_t> codes;
  for (const float v : file.values[0]) codes.push_back(to_f8_e4m3(v).bits);
  RandomFile wide = file;
  TensorSource::Entry& entry = file.entries[0];
  entry.dtype = DType::f8_e4m3, entry.data = codes.data(), entry.bytes = codes.size();
  std::vector<float> meant;
  for (const uint8_t code : codes) meant.push_back(to_float(f8_e4m3_t{code}));
  wide.entries[0].data = meant.data();
  const auto x = HostRun::rows(7, kIn);
  std::vector<float> results[2];
  for (const bool low : {false, true}) {
    HostRun host;
    HostDevice device(size_t{1} << 26);
    Arena arena(size_t{1} << 22, &device);
    Stream stream{.arena = &arena, .pool = &host.pool, .memory = &device};
    nn::ParamStore store({}, stream);
    const nn::Linear linear((low ? file : wide).scope().sub("layer"), store, kIn, kOut);
    EXPECT_GT(store.bytes(), static_cast<size_t>(kIn * kOut)) << "codes would take a byte each";
    results[low] = product_of(linear, x, stream);
  }
  EXPECT_EQ(results[0], results[1]);
}

VideoRequest in_int8(std::vector<std::string> loras = {}, const char* mode = "auto") {
  VideoRequest request = short_request();
  request.math = "int8", request.loras = std::move(loras), request.lora_mode = mode;
  return request;
}

// Runs on a device that holds everything, and on one that keeps some of the blocks elsewhere.
void expect_the_bits_of(const std::string& model, const VideoRequest& request,
                        const std::vector<float>& latents) {
  const auto on = [&](const std::shared_ptr<HostDevice>& device, uint64_t max_vram) {
    return TextToVideo::Options{
        .threads = 2, .weights = WeightMode::packed, .max_vram = max_vram, .memory = device};
  };
  const auto measure = std::make_shared<HostDevice>(size_t{1} << 30);
  const uint64_t peak = TextToVideo(ModelBundle::open(model), on(measure, 0)).plan(request).peak_bytes;
  for (const uint64_t budget : {uint64_t{0}, peak - peak / 8, peak - peak / 4}) {
    const auto device = std::make_shared<HostDevice>(size_t{1} << 30);
    TextToVideo pipeline(ModelBundle::open(model), on(device, budget));
    const VideoPlan plan = pipeline.plan(request);
    int64_t streamed = 0;
    for (const StagePlan& stage : plan.stages)
      if (stage.name == "denoise") streamed = stage.streamed;
    EXPECT_EQ(streamed > 0, budget > 0) << budget << " of " << peak;
    device->reset_peak();
    EXPECT_EQ(run(pipeline, request).latents, latents) << streamed << " blocks streamed";
    EXPECT_EQ(device->peak_bytes(), plan.peak_bytes) << streamed << " blocks streamed";
    EXPECT_EQ(device->live_bytes(), 0u);
  }
}

std::vector<float> on_the_cpu(const std::string& model, const VideoRequest& request) {
  return run(model, request, {.threads = 3, .weights = WeightMode::packed}).latents;
}

TEST(EightBitsOnADevice, StreamedBlocksGiveTheSameBits) {
  VideoRequest wide = in_int8();
  wide.math = "auto";
  const auto want = on_the_cpu(deep_model(), in_int8());
  EXPECT_NE(want, on_the_cpu(deep_model(), wide)) << "did it run?";
  expect_the_bits_of(deep_model(), in_int8(), want);
}

TEST(EightBitsOnADevice, AdaptersMergedAndAdded) {
  const ScratchFolder scratch;
  const std::string lora = make_lora(deep_model(), scratch, "a.safetensors", 1) + ":0.3";
  const auto none = on_the_cpu(deep_model(), in_int8());
  std::vector<float> wants[2];
  for (const bool merged : {false, true}) {
    const VideoRequest request = in_int8({lora}, merged ? "merge" : "runtime");
    wants[merged] = on_the_cpu(deep_model(), request);
    expect_the_bits_of(deep_model(), request, wants[merged]);
  }
  // Both results have the adapter, whose effect is larger than that of rounding its sums differently.
  EXPECT_GT(furthest(wants[0], none), 2 * furthest(wants[0], wants[1]));
}

TEST(EightBitsOnADevice, TwoExperts) {
  const ScratchFolder scratch;
  const auto folder = scratch.path / "model";
  std::filesystem::copy(deep_model(), folder, std::filesystem::copy_options::recursive);
  make_two_experts(folder);
  VideoRequest request = in_int8();
  request.steps = 6;
  const auto want = on_the_cpu(folder.string(), request);
  EXPECT_NE(want, on_the_cpu(deep_model(), request)) << "the second one predicts the opposite";
  expect_the_bits_of(folder.string(), request, want);
}

}  // namespace
}  // namespace tachy::test
