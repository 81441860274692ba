// Rounds a file's rows to 8-bit codes on the device. The bus then carries 2 bytes per value instead of 1, but
// the host's threads only read the file and compute nothing.
#include <algorithm>

#include "base/env.h"
#include "nn/params.h"
#include "ops/quantize/quantize.h"

namespace tachy::nn {
namespace {

// The most memory for rows that wait to be rounded. Less is taken if there are fewer rows, or if less than
// four times as much is free on the device.
constexpr size_t kRoundBytes = size_t{256} << 20;

bool asked_for() { return env_string("TACHY_ROUND_WEIGHTS", "host") == "device"; }

}  // namespace

bool ParamStore::fill_rounded(const Tensor& codes, const Tensor& scales, const WeightPart& source) {
  const DType dtype = source.tensor.dtype;
  if (!asked_for() || !StreamingMemory::of(stream_.memory) || source.derived || in_streamed_) return false;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return false;
  if (static_cast<size_t>(source.tensor.dim(1) * dtype_size(dtype)) > kRoundBytes / 2) return false;
  if (plan_only_ || options_.twin) return true;
  rounded_.push_back({codes, scales, source.tensor});
  deferred_bytes_ += static_cast<size_t>(source.tensor.bytes());
  if (!in_block_) send_rounded();
  return true;
}

void ParamStore::make_room_for_rounding(size_t free) {
  size_t all = 0, row = 0;
  for (const Rounded& r : rounded_) {
    all += align_up(static_cast<size_t>(r.source.bytes()));
    row = std::max(row, static_cast<size_t>(r.source.bytes() / std::max<int64_t>(r.source.dim(0), 1)));
  }
  const size_t room = std::max(row, std::min({kRoundBytes, all, free / 4}));
  if (rounding_.size() >= room) return;
  rounding_ = Buffer();  // frees the old Buffer before the new one is allocated
  rounding_ = Buffer(room, stream_.memory);
}

void ParamStore::send_rounded() {
  if (rounded_.empty()) return;
  StreamingMemory& memory = *StreamingMemory::of(stream_.memory);
  make_room_for_rounding(memory.free_bytes());
  const size_t room = rounding_.size();
  std::vector<StreamingMemory::Upload> uploads;
  std::vector<ops::QuantizeArgs> roundings;
  size_t used = 0;
  Stream plain = stream_;
  plain.hooks = {};  // a run's plan does not count the work of loading
  // Copies wait for earlier work in the queue, so the Buffer is free when the next rows come.
  const auto send = [&] {
    stream_.throw_if_cancelled();
    memory.upload_all(uploads, *stream_.pool);
    for (const ops::QuantizeArgs& rounding : roundings) ops::quantize(rounding, plain);
    uploads.clear(), roundings.clear(), used = 0;
  };
  for (const Rounded& r : rounded_) {
    const auto row_bytes = static_cast<size_t>(r.source.dim(1) * dtype_size(r.source.dtype));
    for (int64_t row = 0; row < r.source.dim(0);) {
      const auto fit = static_cast<int64_t>((room - used) / row_bytes);
      if (fit == 0) {
        send();
        continue;
      }
      const int64_t end = std::min(r.source.dim(0), row + fit);
      const Tensor rows(static_cast<char*>(rounding_.data()) + used, r.source.dtype,
                        {end - row, r.source.dim(1)}, stream_.memory->device());
      const auto bytes = static_cast<size_t>(rows.bytes());
      uploads.push_back({rows.data, bytes, pieces_of(rows, {r.source.slice(0, row, end)})});
      roundings.push_back({.x = rows,
                           .block = {1, 0},
                           .scale = r.scales.slice(0, row, end),
                           .q = r.codes.slice(0, row, end)});
      used = std::min(align_up(used + bytes), room), row = end;
    }
  }
  if (!uploads.empty()) send();
  rounded_.clear();
}

}  // namespace tachy::nn
