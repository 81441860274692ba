// Tests a Gpu on a caller's queue, and one used by threads whose current device is another one. Skipped
// without a GPU.
#include "cuda/gpu.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "cuda/current_device.h"
#include "cuda/graph.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "tensor/stream.h"

namespace tachy {
namespace {

using testing::Each;
using testing::HasSubstr;

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string why; cuda::gpu_count(&why) == 0) GTEST_SKIP() << why;
  }
};

int current() {
  int index = -1;
  cudaGetDevice(&index);
  return index;
}

// A queue of the test's own. Once closed, it stands still until it is opened, or for ten seconds at most: the
// first use of something in CUDA (loading a module, an allocation) may wait for the whole device, and then a
// test should fail rather than hang.
struct Gate {
  cudaStream_t queue = nullptr;
  std::atomic<bool> open{true};
  Gate() { EXPECT_EQ(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking), cudaSuccess); }
  void close() {
    open = false;
    const auto wait = [](void* flag) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!static_cast<std::atomic<bool>*>(flag)->load() && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
    };
    ASSERT_EQ(cudaLaunchHostFunc(queue, wait, &open), cudaSuccess);
  }
  ~Gate() {
    open = true;
    cudaStreamSynchronize(queue);
    cudaStreamDestroy(queue);
  }
};

TEST_F(GpuTest, WorkTakesItsPlaceOnAnAdoptedQueue) {
  Gate gate;
  {
    const auto gpu = cuda::open_gpu(0, cuda::OutsideQueue{gate.queue});
    EXPECT_EQ(gpu->stream(), gate.queue);
    EXPECT_TRUE(gpu->captures());
    const Buffer place(1024, gpu.get());
    gpu->fill(place.data(), 0x11, 1024);
    gpu->synchronize();
    gate.close();
    gpu->fill(place.data(), 0x5a, 1024);
    EXPECT_EQ(cudaStreamQuery(gate.queue), cudaErrorNotReady) << "the fill waits behind the gate";
    gate.open = true;
    std::vector<unsigned char> bytes(1024);
    gpu->download(bytes.data(), place.data(), bytes.size());
    EXPECT_THAT(bytes, Each(0x5a));
  }
  EXPECT_EQ(cudaStreamQuery(gate.queue), cudaSuccess) << "the queue is its maker's and lives on";
}

TEST_F(GpuTest, GraphsAreCapturedOnAnAdoptedQueueButNotOnTheDefaultOne) {
  Gate gate;
  const auto adopted = cuda::open_gpu(0, cuda::OutsideQueue{gate.queue});
  const Buffer place(256, adopted.get());
  const auto graph = cuda::capture(*adopted, [&] { adopted->fill(place.data(), 7, 256); });
  graph->launch();
  std::vector<unsigned char> bytes(256);
  adopted->download(bytes.data(), place.data(), bytes.size());
  EXPECT_THAT(bytes, Each(7));

  const auto standard = cuda::open_gpu(0, cuda::OutsideQueue{nullptr});
  EXPECT_FALSE(standard->captures());
  const Buffer other(256, standard.get());
  standard->fill(other.data(), 9, 256);
  standard->download(bytes.data(), other.data(), bytes.size());
  EXPECT_THAT(bytes, Each(9));
  try {
    cuda::capture(*standard, [&] { standard->fill(other.data(), 1, 256); });
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_THAT(e.message(), HasSubstr("default stream cannot be captured"));
  }
}

// Computes y = rmsnorm(x) of ones with weight 2, which gives twos.
std::vector<float> norm_on(cuda::Gpu& gpu) {
  constexpr int64_t kRows = 64, kColumns = 256;
  std::vector<float> x(kRows * kColumns, 1.0f), weight(kColumns, 2.0f), y(x.size(), NAN);
  const Buffer xb(x.size() * 4, &gpu), wb(weight.size() * 4, &gpu), yb(y.size() * 4, &gpu);
  gpu.upload(xb.data(), x.data(), xb.size()), gpu.upload(wb.data(), weight.data(), wb.size());
  ThreadPool pool(1);
  Arena arena(size_t{1} << 20, &gpu);
  Stream stream{.arena = &arena, .pool = &pool, .gpu = &gpu, .memory = &gpu};
  ops::rmsnorm({.x = xb.tensor(DType::f32, {kRows, kColumns}),
                .weight = wb.tensor(DType::f32, {kColumns}),
                .y = yb.tensor(DType::f32, {kRows, kColumns})},
               stream);
  gpu.download(y.data(), yb.data(), yb.size());
  return y;
}

TEST_F(GpuTest, WorksFromAnyThreadAndLeavesItsCurrentDevice) {
  const int last = cuda::gpu_count() - 1, before = current();
  const auto gpu = cuda::open_gpu(last);
  EXPECT_EQ(current(), before) << "opening one changes nothing for its thread";
  EXPECT_EQ(gpu->device(), Device::cuda(last));
  std::thread([&] {
    EXPECT_EQ(current(), 0) << "a new thread begins with the first GPU";
    const std::vector<float> y = norm_on(*gpu);
    for (const float v : y) ASSERT_NEAR(v, 2, 1e-4);
    const Buffer place(256, gpu.get());
    const auto graph = cuda::capture(*gpu, [&] { gpu->fill(place.data(), 3, 256); });
    graph->launch();
    std::vector<unsigned char> bytes(256);
    gpu->download(bytes.data(), place.data(), bytes.size());
    EXPECT_THAT(bytes, Each(3));
    EXPECT_EQ(current(), 0);
  }).join();
}

TEST_F(GpuTest, CurrentDeviceComesBack) {
  const int before = current();
  {
    const cuda::CurrentDevice here(cuda::gpu_count() - 1);
    EXPECT_EQ(current(), cuda::gpu_count() - 1);
    const cuda::CurrentDevice none(nullptr);
    EXPECT_EQ(current(), cuda::gpu_count() - 1);
  }
  EXPECT_EQ(current(), before);
}

TEST_F(GpuTest, AQueueOfAnotherGpuIsRefused) {
  if (cuda::gpu_count() < 2) GTEST_SKIP() << "needs two GPUs";
  Gate gate;  // on GPU 0
  try {
    cuda::open_gpu(1, cuda::OutsideQueue{gate.queue});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.message(), HasSubstr("a queue of cuda:1, got one of cuda:0"));
  }
}

TEST_F(GpuTest, TwoGpusComputeAtOnceInOneThread) {
  if (cuda::gpu_count() < 2) GTEST_SKIP() << "needs two GPUs";
  const auto first = cuda::open_gpu(0), second = cuda::open_gpu(1);
  EXPECT_EQ(norm_on(*second), norm_on(*first));
  EXPECT_EQ(norm_on(*first), norm_on(*second));
}

}  // namespace
}  // namespace tachy
