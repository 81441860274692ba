// Mode ref on a GPU: compares the results with the definition's, which the CPU computes from the same values,
// rounded as the GPU holds them. The bound is the rule of op_runner.h.
#include <algorithm>

#include "inspect/op_bench_gpu.h"
#include "ops/case_values.h"
#include "ops/codes.h"

namespace tachy {
namespace {

float value_at(const char* p, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return *reinterpret_cast<const float*>(p);
    case DType::f16:
      return to_float(*reinterpret_cast<const f16_t*>(p));
    case DType::bf16:
      return to_float(*reinterpret_cast<const bf16_t*>(p));
    case DType::f8_e4m3:
      return to_float(*reinterpret_cast<const f8_e4m3_t*>(p));
    case DType::f8_e5m2:
      return to_float(*reinterpret_cast<const f8_e5m2_t*>(p));
    case DType::i8:
      return static_cast<float>(*reinterpret_cast<const int8_t*>(p));
    case DType::u8:
    case DType::boolean:
      return static_cast<float>(*reinterpret_cast<const uint8_t*>(p));
    case DType::i32:
      return static_cast<float>(*reinterpret_cast<const int32_t*>(p));
    default:
      fail(ErrorCode::internal, "op runner: no way to read {}", dtype_name(dtype));
  }
}

// Returns the distance from v to the next value of dtype.
double ulp(float v, DType dtype) {
  int exponent;
  std::frexp(v, &exponent);  // v = m · 2^exponent, m in [0.5, 1)
  const int digits = dtype == DType::bf16 ? 8 : dtype == DType::f16 ? 11 : 24;
  return std::ldexp(1.0, exponent - digits);
}

float highest_of(const std::vector<float>& values) {
  float highest = 0;
  for (float v : values)
    if (std::isfinite(v)) highest = std::max(highest, std::abs(v));
  return highest;
}

// Returns "worst at … of …: … for …" for one output.
std::string worst_of(const std::vector<float>& got, const std::vector<float>& reference) {
  size_t worst = 0;
  double worst_error = -1;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double e = std::abs(static_cast<double>(got[i]) - reference[i]);
    if (std::isnan(e) ? !std::isnan(reference[i]) && got[i] != reference[i] : e > worst_error)
      worst = i, worst_error = std::isnan(e) ? INFINITY : e;
  }
  return fmt::format("worst at {} of {}: {} for {}", worst, reference.size(), got[worst], reference[worst]);
}

// Returns "", or the place where an output differs from the reference in that dtype.
std::string unlike(const std::vector<float>& got, const std::vector<float>& reference, DType dtype) {
  for (size_t i = 0; i < reference.size(); ++i) {
    const float want = ops::rounded(reference[i], dtype);
    if (want == got[i] || (std::isnan(want) && std::isnan(got[i]))) continue;
    return fmt::format("at {} of {}: expected exactly {}, got {}", i, reference.size(), want, got[i]);
  }
  return "";
}

}  // namespace

std::vector<float> values_of(const Tensor& t) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(t.numel()));
  if (t.contiguous()) {
    const auto* p = static_cast<const char*>(t.data);
    for (int64_t i = 0; i < t.numel(); ++i) values.push_back(value_at(p + i * dtype_size(t.dtype), t.dtype));
    return values;
  }
  for_each_element(t, [&](int64_t offset) {
    values.push_back(value_at(static_cast<const char*>(t.data) + offset, t.dtype));
  });
  return values;
}

Expected define_for_gpu(const OpCase& op_case, uint64_t seed, DType dtype, ThreadPool& pool) {
  Bench host(op_case, seed, {.dtype = dtype, .pool = &pool});
  Expected out;
  host.run("ref", pool);
  for (const Tensor& t : host.op().outputs) out.reference.push_back(values_of(t));
  if (!host.op().has_working) return out;
  host.run("working", pool);
  for (const Tensor& t : host.op().outputs) out.working.push_back(values_of(t));
  return out;
}

void compare_on_gpu(GpuBench& bench, const Expected& expected, const std::string& impl, double factor,
                    OpResult& result) {
  bench.run(impl);
  const auto got = bench.result_values();
  for (size_t n = 0; n < got.size(); ++n) {
    const DType dtype = bench.op().outputs[n].dtype;
    std::vector<float> reference = expected.reference[n];
    // Values that the dtype cannot hold must become the infinity that they round to.
    for (float& v : reference)
      if (std::isinf(ops::rounded(v, dtype))) v = ops::rounded(v, dtype);
    if (expected.working.empty()) {
      if (const std::string where = unlike(got[n], reference, dtype); !where.empty()) {
        result.ok = false, result.detail = fmt::format("output {} {}", n, where);
        return;
      }
      if (result.detail.empty()) result.detail = "exact";
      continue;
    }
    std::vector<float> stored = expected.working[n];
    for (float& v : stored) v = ops::rounded(v, dtype);
    const bool codes = ops::is_code(dtype);
    const std::vector<float> steps = codes ? code_steps(reference, dtype) : std::vector<float>();
    const Distance allowed = distance(stored, reference, steps), error = distance(got[n], reference, steps);
    const float highest = highest_of(reference);
    const double unit = codes ? highest * kCodeUnit : highest > 0 ? ulp(highest, dtype) : 0;
    const double bound = factor * (2 * allowed.max + 2 * unit),
                 rms_bound = factor * (2 * allowed.rms + 2 * unit + code_rms(steps));
    const bool ok = error.same_specials && error.max <= bound && error.rms <= rms_bound;
    // Show the output that comes closest to its own bound, since outputs differ in dtype and size.
    if (result.bound == 0 || error.max * result.bound > result.error * bound)
      result.error = error.max, result.bound = bound;
    if (result.ok) {
      result.detail = fmt::format("max {:.2e} (bound {:.2e}), rms {:.2e} (L {:.2e})", error.max, bound,
                                  error.rms, allowed.rms);
      if (!ok)
        result.detail +=
            fmt::format("; output {} of {}, {}", n, dtype_name(dtype), worst_of(got[n], reference));
    }
    if (!error.same_specials) result.detail += "; NaN or Inf in other places";
    result.ok = result.ok && ok;
  }
}
}  // namespace tachy
