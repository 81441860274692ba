#include "inspect/report_card.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cuda/gpu_sheet.h"
#include "estimate/gpu_rates.h"
#include "inspect/doctor.h"
#include "inspect/say.h"

namespace tachy {
namespace {

using nlohmann::json;

// Lines of a bench that show a rate: those whose names begin so, in the shapes of whole videos.
struct Shown {
  const char* kind;
  const char* lines;
  Rate GpuRates::*predicted;
};
constexpr Shown kShown[] = {
    {"linear layers in 16 bits", "gemm:32760x", &GpuRates::product},
    {"linear layers in e4m3", "scaled_gemm:32760x13824x5120-f8_e4m3", &GpuRates::product_fp8},
    {"linear layers in int8", "scaled_gemm:32760x13824x5120-i8", &GpuRates::product_int8},
    {"attention in 16 bits", "attention:1x32760x32760x12x128-fused:", &GpuRates::attention},
    {"attention in 8 bits", "attention:1x32760x32760x12x128-fused-8bits:", &GpuRates::attention_int8},
    {"convolutions in 16 bits", "causal_conv3d:4x", &GpuRates::convolution},
    {"convolutions in e4m3", "scaled_conv3d:4x", &GpuRates::convolution_fp8},
    {"convolutions in int8", "scaled_conv3d:i8-4x", &GpuRates::convolution_int8},
};

const GpuRates* rates_of(const cuda::GpuSheet* sheet) {
  if (!sheet) return nullptr;
  for (const GpuRates& row : gpu_rates())
    if (std::string_view(row.name) == sheet->name && row.capability == sheet->capability) return &row;
  return nullptr;
}

json sheet_json(const cuda::GpuSheet& s) {
  return {{"title", s.title},
          {"half_tflops", s.half},
          {"half_sums_tflops", s.half_sums},
          {"int8_tops", s.int8},
          {"fp8_tflops", s.fp8},
          {"single_tflops", s.single},
          {"memory_tb_per_s", s.memory},
          {"shared_kib", s.shared_kib},
          {"l2_mib", s.l2_mib},
          {"watts", s.watts},
          {"source", s.source}};
}

}  // namespace

json reached_and_predicted(const BenchReport& report) {
  const GpuRates* rates = rates_of(cuda::sheet_of({.name = report.gpu.name}));
  json out = json::array();
  for (const Shown& shown : kShown) {
    double least = 0, most = 0;
    for (const BenchLine& line : report.lines) {
      if (!line.id.starts_with(shown.lines) || line.gflops <= 0) continue;
      const double rate = line.gflops * 1e-3;
      least = least > 0 ? std::min(least, rate) : rate, most = std::max(most, rate);
    }
    if (most == 0) continue;
    json row = {{"kind", shown.kind}, {"reached", {least, most}}, {"predicted", nullptr}};
    if (rates && (rates->*shown.predicted).known()) {
      const Rate& rate = rates->*shown.predicted;
      row["predicted"] = {rate.least, rate.most}, row["source"] = rate.source;
      row["within"] = most >= rate.least && most <= rate.most;
    }
    out.push_back(row);
  }
  return out;
}

json report_card(const ReportCardOptions& options, const std::string& version) {
  require(options.device != "cpu", "`device`: a report card is about a GPU, and this run is on the CPU");
  say(options, "self-test of every op");
  const DoctorReport doctor = run_doctor("safe", options.threads, options.device, options.dtype);
  BenchReport bench = run_bench({.device = options.device,
                                 .dtype = options.dtype,
                                 .threads = options.threads,
                                 .cases = {"real", "video"},
                                 .progress = options.progress,
                                 .cancel = options.cancel});
  bench.version = version;
  const cuda::GpuSheet* sheet = cuda::sheet_of({.name = bench.gpu.name});
  return {{"report_card", 1},
          {"data_sheet", sheet ? sheet_json(*sheet) : json()},
          {"rates", reached_and_predicted(bench)},
          {"doctor", to_json(doctor)},
          {"bench", to_json(bench)}};
}

}  // namespace tachy
