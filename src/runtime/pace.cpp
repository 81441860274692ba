#include "runtime/pace.h"

#include <algorithm>
#include <cmath>

#include "base/env.h"
#include "cuda/gpu.h"
#include "tensor/streaming_memory.h"

namespace tachy::runtime {
namespace {

constexpr double kPieceSeconds = 0.12;
constexpr double kClock = 1.7e9, kShare = 0.6;  // the share of the tensor cores' rate that attention reaches

// A rough estimate of attention's multiply-adds (times two) per second.
double attention_rate(const cuda::GpuInfo& gpu, DType dtype) {
  const double per_clock = dtype == DType::f32 ? 256 : gpu.major >= 9 ? 4096 : gpu.major >= 8 ? 2048 : 1024;
  return kShare * kClock * per_clock * gpu.multiprocessors;
}

// TACHY_RANK_GROUPS is the most groups in which heads travel, to compare.
int64_t most_groups() {
  const std::string text = env_string("TACHY_RANK_GROUPS", "4");
  require(text.size() == 1 && text[0] >= '1' && text[0] <= '8',
          "TACHY_RANK_GROUPS: expected a number from 1 to 8, got '{}'", text);
  return int64_t{text[0] - '0'};
}

}  // namespace

bool paced() {
  static const bool on = [] {
    const std::string text = env_string("TACHY_PACE", "on");
    require(text == "on" || text == "off", "TACHY_PACE: expected on or off, got '{}'", text);
    return text == "on";
  }();
  return on;
}

void checkpoint(const Stream& stream) {
  if (stream.memory && !stream.measuring() && paced())
    if (auto* memory = StreamingMemory::of(stream.memory)) memory->pace();
  stream.throw_if_cancelled();
}

int64_t heads_at_a_time(const Stream& stream, int64_t heads, double flops) {
  if (!stream.gpu || !paced()) return heads;
  const double most = kPieceSeconds * attention_rate(stream.gpu->info(), stream.precision.activation);
  const auto pieces =
      static_cast<int64_t>(std::clamp(std::ceil(flops / most), 1.0, static_cast<double>(heads)));
  return (heads + pieces - 1) / pieces;
}

int64_t heads_a_call(const Stream& stream, int64_t heads, double flops) {
  return stream.gpu && paced() ? heads_of_a_long_call(heads, flops) : 0;
}

int64_t heads_of_a_long_call(int64_t heads, double flops) {
  constexpr double kLongCall =
      6e11;  // about 1 ms on a Hopper GPU, of which the cut units cost some hundredths
  if (heads <= 0) return 0;
  int64_t some = heads;
  while (some % 2 == 0) some /= 2;
  while (some < heads && static_cast<double>(some) * flops < kLongCall) some *= 2;
  return static_cast<double>(some) * flops < kLongCall ? 0 : some;
}

int64_t groups_of_heads(const Stream& stream, int64_t heads, double flops) {
  const int64_t some = heads_a_call(stream, heads, flops);
  if (some == 0) return 1;
  int64_t groups = heads / some;
  for (const int64_t most = most_groups(); groups > most;) groups /= 2;  // a power of two
  return groups;
}

bool own_parts_beside() {
  const std::string text = env_string("TACHY_RANK_OWN", "here");
  require(text == "here" || text == "beside", "TACHY_RANK_OWN: expected here or beside, got '{}'", text);
  return text == "beside";
}

int64_t rows_at_a_time(const Stream& stream, int64_t rows, int64_t free_rows) {
  const int64_t most = std::max<int64_t>(stream.gpu ? 32768 : 8192, free_rows);
  const int64_t pieces = std::max<int64_t>(1, (rows + most - 1) / most);
  return ((rows + pieces - 1) / pieces + 127) / 128 * 128;
}

}  // namespace tachy::runtime
