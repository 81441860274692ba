// A library may clear memory while a graph is recorded. That becomes a kernel that writes the same bytes and
// no others (cuda/graph_fills.h). Skipped without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/graph.h"
#include "cuda/runtime.h"
#include "tensor/device_memory.h"

namespace tachy {
namespace {

using testing::Each;

class GraphFills : public testing::Test {
 protected:
  static constexpr size_t kBytes = size_t{6} << 20;

  void SetUp() override {
    if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
    gpu_ = cuda::open_gpu(0);
    place_.emplace(kBytes, gpu_.get());
    gpu_->fill(bytes(), 0xee, kBytes);
  }
  void TearDown() override { place_.reset(), gpu_.reset(); }

  char* bytes() const { return static_cast<char*>(place_->data()); }
  std::vector<unsigned char> downloaded() const {
    std::vector<unsigned char> out(kBytes);
    gpu_->download(out.data(), bytes(), kBytes);
    return out;
  }
  void check_names(const cuda::Graph& graph, size_t kernels, size_t memsets) const {
    size_t of_kind[2] = {};
    for (const std::string& name : graph.names()) {
      EXPECT_TRUE(name == "fill_kernel" || name == "memset") << name;
      ++of_kind[name == "memset"];
    }
    EXPECT_EQ(of_kind[0], kernels);
    EXPECT_EQ(of_kind[1], memsets);
  }

  std::unique_ptr<cuda::Gpu> gpu_;
  std::optional<Buffer> place_;
};

// The places have odd addresses and odd lengths; one of them is larger than a grid of blocks.
TEST_F(GraphFills, WriteTheSameBytesAndNoOthers) {
  struct Piece {
    size_t begin, count;
    int value;
  };
  const std::vector<Piece> pieces = {{0, 1, 1},       {3, 4, 2},
                                     {257, 1023, 0},  {4096, 64, 0},
                                     {8192, 4096, 7}, {size_t{1} << 20, (size_t{4} << 20) + 5, 0x80}};
  const auto graph = cuda::capture(*gpu_, [&] {
    for (const Piece& p : pieces) gpu_->fill(bytes() + p.begin, p.value, p.count);
  });
  check_names(*graph, pieces.size(), 0);
  std::vector<unsigned char> expected(kBytes, 0xee);
  EXPECT_EQ(downloaded(), expected) << "nothing runs while it is recorded";
  for (const Piece& p : pieces)
    std::fill_n(expected.begin() + static_cast<ptrdiff_t>(p.begin), p.count,
                static_cast<unsigned char>(p.value));
  graph->launch();
  EXPECT_EQ(downloaded(), expected);
  gpu_->fill(bytes(), 0xee, kBytes);
  graph->launch();
  EXPECT_EQ(downloaded(), expected) << "the second time";
}

// If a place is filled several times, the last fill counts here, too.
TEST_F(GraphFills, KeepTheirOrder) {
  const auto graph = cuda::capture(*gpu_, [&] {
    for (int i = 0; i < 50; ++i) {
      gpu_->fill(bytes(), i, size_t{1} << 20);
      gpu_->copy(bytes() + (size_t{2} << 20), bytes(), size_t{1} << 20);
    }
  });
  graph->launch();
  const auto got = downloaded();
  EXPECT_THAT(std::vector(got.begin(), got.begin() + (1 << 20)), Each(49));
  EXPECT_THAT(std::vector(got.begin() + (2 << 20), got.begin() + (3 << 20)), Each(49));
  EXPECT_THAT(std::vector(got.begin() + (3 << 20), got.begin() + (3 << 20) + 16), Each(0xee));
}

// Rows with gaps are left to the driver.
TEST_F(GraphFills, LeaveRowsWithGaps) {
  auto* queue = static_cast<cudaStream_t>(gpu_->stream());
  const auto graph = cuda::capture(*gpu_, [&] {
    cuda::check_cuda(cudaMemset2DAsync(bytes(), 64, 9, 16, 3, queue), "memset");
    gpu_->fill(bytes() + 4096, 1, 16);
  });
  check_names(*graph, 1, 1);
  graph->launch();
  const auto got = downloaded();
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(got[i], i / 64 < 3 && i % 64 < 16 ? 9 : 0xee) << i;
  EXPECT_THAT(std::vector(got.begin() + 4096, got.begin() + 4096 + 16), Each(1));
}

}  // namespace
}  // namespace tachy
