// Tests that PyTorch's CPU generator on a GPU (cuda/normals.h) gives the host's bits, and the same state
// afterwards. Skipped without a GPU.
#include "cuda/normals.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "cuda/gpu.h"
#include "tensor/random.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<uint32_t>(v));
  return bits;
}

class TorchNormalsOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
    gpu_ = cuda::open_gpu(0);
    stream_ = {.arena = &arena_, .gpu = gpu_.get(), .memory = gpu_.get()};
  }
  void TearDown() override { gpu_.reset(); }

  std::unique_ptr<cuda::Gpu> gpu_;
  Arena arena_{1};
  Stream stream_;
};

// The first draws end within a state, at its end and just after it, one after the other; then follow those
// for a step of a real model.
TEST_F(TorchNormalsOnGpu, HaveTheHostsBits) {
  const std::vector<int64_t> draws = {16, 608, 624, 640, 16 * 39, 32, 1232, 16, 48, 168960, 299520, 16};
  for (const uint64_t seed : {uint64_t{0}, uint64_t{42}, uint64_t{0x1234567890}}) {
    TorchCpuGenerator host(seed);
    const Buffer state(4 * cuda::kGeneratorWords, gpu_.get()), place(4 * 299520, gpu_.get());
    const Tensor words(state.data(), DType::i32, {cuda::kGeneratorWords}, gpu_->device());
    upload(host.save().data(), words, stream_);
    for (const int64_t n : draws) {
      gpu_->fill(place.data(), 0xff, 4 * 299520);  // NaN
      const Tensor to(place.data(), DType::f32, {n}, gpu_->device());
      cuda::queue_torch_normals(words, to, stream_);
      std::vector<float> made(static_cast<size_t>(n)), expected(static_cast<size_t>(n));
      download(to, made.data(), stream_);
      host.normal(expected);
      ASSERT_EQ(bits_of(made), bits_of(expected)) << "seed " << seed << ", " << n << " values";
      std::vector<uint8_t> after(4 * cuda::kGeneratorWords), of_host = host.save();
      download(words, after.data(), stream_);
      of_host.resize(after.size());
      ASSERT_EQ(after, of_host) << "the state after " << n << " values";
    }
  }
}

}  // namespace
}  // namespace tachy
