#include "report/stage_times.h"

#include <array>
#include <map>

namespace tachy {

TimeRows time_rows(const Tensor& time, int64_t batch, int64_t tokens, StageIo& io) {
  TimeRows out{.row = io.allocate(DType::i32, std::array{batch * tokens})};
  std::map<double, int32_t> index;
  for (int64_t i = 0; i < batch * tokens; ++i) {
    const int64_t at = time.rank == 2 ? i : i / tokens;
    const double t =
        time.dtype == DType::i64 ? static_cast<double>(time.as<int64_t>()[at]) : time.as<float>()[at];
    const auto [it, added] = index.try_emplace(t, static_cast<int32_t>(out.timesteps.size()));
    if (added) out.timesteps.push_back(t);
    out.row.as<int32_t>()[i] = it->second;
  }
  return out;
}

std::vector<int32_t> placed(const Tensor& row, const WanGrid& grid) {
  std::vector<int32_t> out(static_cast<size_t>(row.numel()));
  for (int64_t i = 0; i < row.numel(); ++i) {
    const int64_t item = i / grid.tokens() * grid.tokens();
    out[static_cast<size_t>(item + grid.place_of(i - item))] = row.as<int32_t>()[i];
  }
  return out;
}

}  // namespace tachy
