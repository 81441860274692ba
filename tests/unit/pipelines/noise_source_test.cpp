// Noise that is drawn ahead in another thread or made on a GPU (denoise/noise_source.h) has the same values
// and states as noise that is drawn one value at a time.
#include "denoise/noise_source.h"

#include <gmock/gmock.h>

#include "cuda/gpu.h"
#include "cuda/normals.h"
#include "tensor/transfer.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

VideoRequest seeded(const char* rng) {
  VideoRequest r;
  r.seed = 11, r.rng = rng;
  return r;
}

std::vector<float> values_of(std::span<const float> v) { return {v.begin(), v.end()}; }

// The sizes are below a block of the generator's, of whole blocks, and beyond.
TEST(NoiseSource, DrawnAheadIsTheSame) {
  const std::vector<size_t> counts = {48, 7, 4097, 16};
  for (const char* rng : {"cpu", "cuda"}) {
    NoiseSource plain(seeded(rng)), ahead(seeded(rng));
    EXPECT_EQ(values_of(ahead.next(33)), values_of(plain.next(33)));
    for (int block = 0; block < 3; ++block) {
      ahead.draw_ahead(counts);
      for (const size_t n : counts) {
        EXPECT_EQ(ahead.save(), plain.save()) << rng;
        EXPECT_EQ(values_of(ahead.next(n)), values_of(plain.next(n))) << rng;
      }
    }
    EXPECT_EQ(ahead.save(), plain.save());
    EXPECT_EQ(values_of(ahead.next(5)), values_of(plain.next(5))) << "and one that was not";
  }
}

TEST(NoiseSource, AStateForgetsWhatWasDrawnAhead) {
  NoiseSource source(seeded("cpu"));
  const auto state = source.save();
  const auto first = values_of(source.next(100));
  source.draw_ahead({100, 100});
  source.restore(state);
  EXPECT_EQ(values_of(source.next(100)), first);
}

// Values that are drawn for a stream come among others, with a generator on the GPU if there is one.
TEST(NoiseSource, FillingIsDrawing) {
  const auto gpu = cuda::gpu_count() > 0 ? cuda::open_gpu(0) : nullptr;
  Arena arena(1);
  const Stream stream{.arena = &arena, .gpu = gpu.get(), .memory = gpu.get()};
  const Buffer place(4 * 1296, gpu.get()), state(4 * cuda::kGeneratorWords, gpu.get());
  NoiseSource plain(seeded("cpu")), filled(seeded("cpu"));
  if (gpu) filled.make_on(Tensor(state.data(), DType::i32, {cuda::kGeneratorWords}, gpu->device()));
  const auto fill = [&](int64_t n) {
    const Tensor to(place.data(), DType::f32, {n}, stream.device());
    filled.fill(to, stream);
    std::vector<float> values(static_cast<size_t>(n));
    download(to, values.data(), stream);
    return values;
  };
  const auto expect_fill = [&](size_t n) {
    EXPECT_EQ(fill(static_cast<int64_t>(n)), values_of(plain.next(n))) << n;
  };
  expect_fill(640), expect_fill(1296);
  EXPECT_EQ(filled.save(), plain.save());
  expect_fill(33);  // not whole blocks
  EXPECT_EQ(values_of(filled.next(5)), values_of(plain.next(5)));
  expect_fill(48);
  EXPECT_EQ(filled.permutation(9), plain.permutation(9));
  expect_fill(64);
  const auto before = filled.save();
  const auto once = fill(160);
  filled.restore(before);
  EXPECT_EQ(fill(160), once) << "after a state of before";
  plain.next(160);
  filled.draw_ahead({64, 32});
  expect_fill(64), expect_fill(32);
  if (gpu) filled.make_on({});
  expect_fill(16);
  EXPECT_EQ(filled.save(), plain.save());
}

TEST(NoiseSource, WhatIsMissingIsSaidWhenItIsWanted) {
  NoiseSource imported(std::vector<float>(30, 1.0f));
  imported.draw_ahead({20, 20});
  EXPECT_THAT(test::refusal([&] { imported.next(20); }, ErrorCode::invalid_argument), HasSubstr("30 values"));
  NoiseSource source(seeded("cpu"));
  source.draw_ahead({20});
  test::refusal([&] { source.next(10); }, ErrorCode::internal);
}

}  // namespace
}  // namespace tachy
