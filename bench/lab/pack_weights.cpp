// Measures what packing a convolution's weight for a GPU costs the host: a weight [C, C, 3, 3, 3] of float32 in bf16
// (on Hopper with winograd's sums) and in both kinds of 8 bits. The GPU is a stand-in whose page-locked memory is ordinary memory, so copies to a GPU are left out.
//
//   ninja -C build lab_pack_weights && build/bench/lab/lab_pack_weights [CHANNELS] [THREADS]     milliseconds, the median of five
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "../../tests/unit/ops/stand_in_gpu.h"
#include "base/clock.h"
#include "ops/conv3d/conv3d.h"
#include "ops/scaled_conv3d/scaled_conv3d.h"

using namespace tachy;

namespace {

constexpr size_t kHalf = size_t{32} << 20, kSlot = size_t{2} << 20;

class HostGpu final : public test::StandInGpu, public test::StandInStreaming {
 public:
  explicit HostGpu(int major) { info_.major = major; }
  size_t free_bytes() const override { return 0; }
  void upload(void*, const void* from, size_t bytes) override {
    for (size_t at = 0; at < bytes; at += kHalf)
      std::memcpy(memory_.data() + at / kHalf % 2 * kHalf, static_cast<const char*>(from) + at,
                  std::min(kHalf, bytes - at));
  }
  void upload_pieces(void*, size_t, const MakePiece&) override {}
  void upload_all(std::span<const Upload> uploads, ThreadPool& pool) override {
    pool.run(static_cast<int64_t>(uploads.size()), [&](int64_t i, int) {
      const auto& upload = uploads[static_cast<size_t>(i)];
      upload.make(memory_.data() + static_cast<size_t>(i) % (2 * kHalf / kSlot) * kSlot, 0, upload.bytes);
    });
  }

 private:
  std::vector<char> memory_ = std::vector<char>(2 * kHalf);
};

void time(const char* what, const std::function<void()>& pack) {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const double start = monotonic_seconds();
    pack();
    times.push_back(1e3 * (monotonic_seconds() - start));
  }
  std::ranges::sort(times);
  fmt::print("{:26} {:7.1f} ms\n", what, times[2]);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t channels = argc > 1 ? std::atoll(argv[1]) : 1024;
  ThreadPool pool(argc > 2 ? std::atoi(argv[2]) : 2);
  Arena arena(0);
  std::vector<float> values(static_cast<size_t>(channels * channels * 27));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i * 2654435761u % 1000003) * 1e-6f - 0.5f;
  const Tensor weight(values.data(), DType::f32, {channels, channels, 3, 3, 3});
  for (const int major : {8, 9}) {
    HostGpu gpu(major);
    Stream stream{.arena = &arena, .pool = &pool, .gpu = &gpu, .memory = &gpu};
    stream.precision.activation = DType::bf16;
    void* const there = reinterpret_cast<void*>(size_t{4096});  // nothing is written there
    const Tensor packed(there, DType::u8, {ops::packed_conv3d_bytes(channels, channels, 3, 3, 3, stream)});
    time(major == 9 ? "bf16 and winograd's sums" : "bf16",
         [&] { ops::pack_conv3d_weight(weight, packed, stream); });
    if (major != 9) continue;
    const Tensor codes(there, DType::u8, {ops::packed_scaled_conv3d_bytes(channels, channels, stream)});
    for (const DType dtype : {DType::f8_e4m3, DType::i8})
      time(dtype == DType::i8 ? "int8" : "e4m3",
           [&] { ops::pack_scaled_conv3d_weight(weight, 1, codes, stream, dtype); });
  }
}
