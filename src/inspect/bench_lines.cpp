#include "inspect/bench_lines.h"

#include <algorithm>

namespace tachy {

double BenchGpu::seconds(double bytes, double flops) const {
  return std::max(copy_gb_per_s > 0 ? bytes / copy_gb_per_s * 1e-9 : 0,
                  matmul_gflops > 0 ? flops / matmul_gflops * 1e-9 : 0);
}

void judge(BenchLine& line, double bytes, double flops, bool bf16, const cpu::Roofline& roofline) {
  const double seconds = line.median_us * 1e-6, least = roofline.seconds(bytes, flops, bf16);
  if (seconds <= 0 || least <= 0) return;
  line.roofline = least / seconds;
  line.bound = roofline.seconds(bytes, 0, bf16) >= roofline.seconds(0, flops, bf16) ? "memory" : "compute";
}

void judge(BenchLine& line, double bytes, double flops, const BenchGpu& gpu) {
  const double seconds = line.median_us * 1e-6, least = gpu.seconds(bytes, flops);
  if (seconds <= 0 || least <= 0) return;
  line.roofline = least / seconds;
  line.bound = gpu.seconds(bytes, 0) >= gpu.seconds(0, flops) ? "memory" : "compute";
}

BenchLine line_of(const std::string& id, std::vector<double> times_us) {
  std::sort(times_us.begin(), times_us.end());
  const size_t n = times_us.size();
  BenchLine line{.id = id, .median_us = times_us[n / 2], .repeats = static_cast<int>(n)};
  line.spread = (times_us[n * 3 / 4] - times_us[n / 4]) / 2 / line.median_us;
  return line;
}

BenchLine line_of_blocks(const std::string& id, const std::vector<double>& times_us, double block_us) {
  const TimeSummary t = summarise_times(times_us);
  BenchLine line = line_of(id, times_us);
  line.mean_us = t.mean, line.median_us = t.median, line.p95_us = t.p95;
  line.share = block_us > 0 ? t.mean / block_us : 0;
  return line;
}

BenchLine line_of(const std::string& id, std::vector<double> times_us, double flops, bool bf16,
                  const cpu::Roofline& roofline) {
  BenchLine line = line_of(id, std::move(times_us));
  if (flops > 0) {
    line.gflops = flops / line.median_us * 1e-3;
    judge(line, 0, flops, bf16, roofline);
  }
  return line;
}

}  // namespace tachy
