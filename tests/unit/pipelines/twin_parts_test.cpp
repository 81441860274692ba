// Tests that a further GPU's transformer and decoder, which are copied from the first one's, have its bits and read no file.
#include <gtest/gtest.h>

#include <limits>

#include "deep_model.h"
#include "denoise/clip_denoiser.h"
#include "host_device.h"
#include "session/rank_devices.h"

namespace tachy {
namespace {

using test::HostDevice;

// A part on a device of its own, which must be released before the device.
struct Loading {
  std::shared_ptr<HostDevice> device = std::make_shared<HostDevice>(test::kPlenty);
  ThreadPool pool{2};
  Arena arena;
  Stream stream;
  std::shared_ptr<LoadedPart> part;
  Loading(const ModelBundle& model, Precision precision, std::shared_ptr<const nn::KeptParams> twin,
          Part which = Part::transformer)
      : arena(size_t{64} << 20, device.get()) {
    stream = {.arena = &arena, .pool = &pool, .memory = device.get(), .precision = precision};
    LoadHow how{.weights = WeightMode::packed};
    how.twin = std::move(twin);
    part = load_part(model, which, how, stream);
  }
  ~Loading() { part.reset(); }
};

TEST(TwinParts, HaveTheBitsOfTheFirstAndReadNoFile) {
  const ModelBundle model = ModelBundle::open(test::deep_model());
  const Precision plain, rounded{.compute = Compute::bf16}, eight_bits{.products = Products::int8};
  for (const auto& [part, precision] : {std::pair(Part::transformer, plain),
                                        {Part::transformer, rounded},
                                        {Part::transformer, eight_bits},
                                        {Part::vae_decoder, plain},
                                        {Part::vae_decoder, rounded}}) {
    const Loading first(model, precision, nullptr, part), second(model, precision, first.part->memory, part);
    EXPECT_GT(first.device->pieces + static_cast<uint64_t>(first.device->uploads), 0u);
    EXPECT_EQ(second.device->pieces, 0u);
    EXPECT_EQ(second.device->uploads, 0);
    EXPECT_EQ(second.part->bytes, first.part->bytes);
    EXPECT_GT(first.part->memory->buffers.size(), 1u);
    EXPECT_EQ(second.part->memory->buffers.size(), 1u);
    const auto &a = first.part->memory->tensors, &b = second.part->memory->tensors;
    ASSERT_EQ(b.size(), a.size());
    ASSERT_FALSE(a.empty());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(b[i].size(), a[i].size());
      EXPECT_NE(b[i].data(), a[i].data());
      EXPECT_EQ(std::memcmp(b[i].data(), a[i].data(), a[i].size()), 0) << "buffer " << i;
    }
  }
}

TEST(TwinParts, OfAnotherFormAreRefused) {
  const ModelBundle model = ModelBundle::open(test::deep_model());
  const Loading first(model, Precision{.compute = Compute::bf16}, nullptr);
  try {
    const Loading second(model, Precision{}, first.part->memory);
    ADD_FAILURE() << "it was copied";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
    EXPECT_NE(e.message().find("a copy of"), std::string::npos) << e.message();
  }
}

Tensor filled(Loading& on, const std::vector<int64_t>& dims, float scale) {
  const Tensor out = on.arena.tensor(DType::f32, dims);
  for (int64_t i = 0; i < out.numel(); ++i) out.as<float>()[i] = scale * static_cast<float>(i % 7 - 3);
  return out;
}

// The second of two ranks has the second branch of guidance, and is given texts that nobody can use.
TEST(TwinParts, FurtherRanksCopyWhatTheFirstMakesOfThePrompts) {
  const ModelBundle model = ModelBundle::open(test::deep_model());
  const WanConfig& c = model.dit;
  const std::vector<int64_t> shape = {c.out_channels, 1, 4, 4}, both = {2, c.out_channels, 1, 4, 4};
  Loading first(model, {}, nullptr), second(model, {}, first.part->memory);
  const auto made = [&](Loading& on, const RankSeat* seat, float text) {
    const std::vector<double> timesteps = {500};
    const ClipInput in{.network = static_cast<const LoadedDit&>(*on.part).model.get(),
                       .weights = model.transformer.get(),
                       .timesteps = timesteps,
                       .texts = {filled(on, {3, c.text_dim}, text), filled(on, {5, c.text_dim}, 2 * text)},
                       .text_rows = 16,
                       .hears = {true, true},
                       .latent_shape = shape,
                       .seat = seat};
    return ClipDenoiser(in, on.stream);
  };
  const auto second_branch = [&](Loading& on, ClipDenoiser& denoiser) {
    const Tensor velocity = filled(on, both, 0);
    denoiser.predict(filled(on, shape, 0.2f), 0, velocity);
    const float* const values = velocity.as<float>();
    return std::vector<float>(values + velocity.numel() / 2, values + velocity.numel());
  };
  std::vector<WanContext> contexts;
  const RankSeat seats[] = {{.layout = {.groups = 2}, .rank = 0, .contexts = &contexts},
                            {.layout = {.groups = 2}, .rank = 1, .contexts = &contexts}};
  ClipDenoiser alone = made(first, nullptr, 0.1f), of_first = made(first, &seats[0], 0.1f),
               of_second = made(second, &seats[1], std::numeric_limits<float>::quiet_NaN());
  ASSERT_EQ(contexts.size(), 2u);
  const std::vector<float> expected = second_branch(first, alone);
  EXPECT_NE(expected, std::vector<float>(expected.size(), 0.0f));
  EXPECT_EQ(second_branch(second, of_second), expected);
}

TEST(RankDevices, GpusOfSeveralKindsAreTold) {
  std::vector<cuda::GpuInfo> gpus(3);
  for (int i = 0; i < 3; ++i)
    gpus[static_cast<size_t>(i)].index = i + 1, gpus[static_cast<size_t>(i)].name = "NVIDIA H100";
  EXPECT_EQ(told_of_kinds(gpus), "");
  EXPECT_EQ(told_of_kinds(std::span(gpus).first(1)), "");
  gpus[2].name = "NVIDIA A100";
  EXPECT_EQ(told_of_kinds(gpus).find("`gpus`: cuda:1 is NVIDIA H100 and cuda:3 is NVIDIA A100; "), 0u)
      << told_of_kinds(gpus);
}

}  // namespace
}  // namespace tachy
