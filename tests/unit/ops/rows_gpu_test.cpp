// A decoder's ops give a frame's rows the same bits on a GPU, whether they are computed with all of its rows and other
// frames or without them: a video is decoded in pieces, and its rows may be divided among GPUs.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "cuda/gpu.h"
#include "ops/attention/attention.h"
#include "ops/conv3d/conv3d.h"
#include "ops/upsample_conv2d/upsample_conv2d.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// For so many frames and rows another tile is the fastest than for one frame's first rows.
constexpr int64_t kFrames = 4, kRows = 40, kSome = 18, kWidth = 64, kCi = 128, kCo = 192;

class RowsOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
    gpu_ = cuda::open_gpu();
    if (gpu_->info().major != 9) GTEST_SKIP() << "nobody has looked at the tiles of other GPUs";
    arena_.emplace(size_t{1} << 30, gpu_.get());
    stream_ = {.arena = &*arena_, .pool = &pool_, .gpu = gpu_.get(), .memory = gpu_.get()};
    stream_.precision.activation = DType::bf16;
  }
  std::vector<float> normal(int64_t count, float scale) {
    std::normal_distribution<float> values;
    std::vector<float> out(static_cast<size_t>(count));
    for (float& v : out) v = scale * values(random_);
    return out;
  }
  Tensor filled(std::initializer_list<int64_t> dims) {
    const Tensor x = arena_->tensor(DType::bf16, dims);
    std::vector<bf16_t> narrow;
    for (const float v : normal(x.numel(), 1)) narrow.push_back(to_bf16(v));
    upload(narrow.data(), x, stream_);
    return x;
  }
  std::vector<uint16_t> bits(const Tensor& t) {
    std::vector<uint16_t> out(static_cast<size_t>(t.numel()));
    download(t, out.data(), stream_);
    return out;
  }
  // The first rows of one frame, which lie in one piece.
  static Tensor some(const Tensor& t, int64_t frame, int64_t rows) {
    return t.slice(0, frame, frame + 1).slice(1, 0, rows);
  }

  std::unique_ptr<cuda::Gpu> gpu_;
  std::optional<Arena> arena_;
  ThreadPool pool_{2};
  Stream stream_;
  std::mt19937 random_{5};
};

TEST_F(RowsOnGpu, BitsOfCausalConvolutionsDependOnNoOtherRowsAndFrames) {
  const Tensor x = filled({kFrames, kRows, kWidth, kCi});
  std::vector<float> weight = normal(kCo * kCi * 27, 0.02f);
  const Tensor packed = arena_->tensor(DType::u8, {ops::packed_conv3d_bytes(kCo, kCi, 3, 3, 3, stream_)});
  ops::pack_conv3d_weight(Tensor(weight.data(), DType::f32, {kCo, kCi, 3, 3, 3}), packed, stream_);
  const Tensor y = arena_->tensor(DType::bf16, {kFrames, kRows, kWidth, kCo});
  ops::causal_conv3d({.x = x, .packed = packed, .y = y}, stream_);
  const Tensor part = arena_->tensor(DType::bf16, {1, kSome, kWidth, kCo}),
               cache = arena_->tensor(DType::bf16, {2, kSome, kWidth, kCi});
  int64_t history = 0;
  for (int64_t t = 0; t < kFrames; ++t) {
    const Tensor now = some(x, t, kSome);
    ops::causal_conv3d({.x = now, .cache = cache, .history = history, .packed = packed, .y = part}, stream_);
    history = ops::push_frames(cache, history, now, stream_);
    // The last row has the row below as zeros.
    EXPECT_TRUE(bits(some(part, 0, kSome - 1)) == bits(some(y, t, kSome - 1))) << "frame " << t;
  }
}

TEST_F(RowsOnGpu, BitsOfUpsamplingDependOnNoOtherRowsAndFrames) {
  const Tensor x = filled({kFrames, kRows, kWidth, kCi});
  std::vector<float> weight = normal(kCo * kCi * 9, 0.03f);
  const Tensor packed = arena_->tensor(DType::u8, {ops::packed_upsample_conv2d_bytes(kCo, kCi, stream_)});
  ops::pack_upsample_conv2d_weight(Tensor(weight.data(), DType::f32, {kCo, kCi, 3, 3}), packed, stream_);
  const Tensor y = arena_->tensor(DType::bf16, {kFrames, 2 * kRows, 2 * kWidth, kCo}),
               part = arena_->tensor(DType::bf16, {1, 2 * kSome, 2 * kWidth, kCo});
  ops::upsample_conv2d({.x = x, .packed = packed, .y = y}, stream_);
  for (int64_t t = 0; t < kFrames; ++t) {
    ops::upsample_conv2d({.x = some(x, t, kSome), .packed = packed, .y = part}, stream_);
    EXPECT_TRUE(bits(some(part, 0, 2 * kSome - 1)) == bits(some(y, t, 2 * kSome - 1))) << "frame " << t;
  }
}

// The decoder's one head is too wide for a flash kernel, so a library computes its products.
TEST_F(RowsOnGpu, BitsOfAWideHeadDependOnNoOtherQueries) {
  for (const int64_t keys : {6240, 14400}) {  // at 480p and at 720p
    const ArenaScope scope(*arena_);
    const Tensor qkv = filled({3, keys, 1, 384}), whole = arena_->tensor(DType::bf16, {1, keys, 1, 384}),
                 part = arena_->tensor(DType::bf16, whole.shape());
    const auto attend = [&](int64_t first, int64_t end, const Tensor& out) {
      ops::attention({.q = qkv.slice(0, 0, 1).slice(1, first, end),
                      .k = qkv.slice(0, 1, 2),
                      .v = qkv.slice(0, 2, 3),
                      .scale = 0.05f,
                      .out = out.slice(1, first, end)},
                     stream_);
    };
    attend(0, keys, whole);
    for (const int ranks : {2, 4, 8}) {
      for (int rank = 0; rank < ranks; ++rank) attend(keys * rank / ranks, keys * (rank + 1) / ranks, part);
      EXPECT_TRUE(bits(part) == bits(whole)) << keys << " keys, " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace tachy
